#!/bin/bash
# An HTCondor job that loses no work: when it is to leave a machine, a checkpoint is taken and the program stops; the next
# run of the job continues it. Submit it with: bash FILE
if [ -z "${_CONDOR_SCRATCH_DIR:-}" ]; then
    # Not in the job yet: submits this very file.
    exec condor_submit <<END
universe = vanilla
batch_name = @NAME@
executable = $(readlink -f "$0")
log = @NAME@.log
output = @NAME@.out
error = @NAME@.err
# The job uses a file system that all machines see.
should_transfer_files = NO
# The signal that asks the job to leave, and the time until HTCondor kills it. A job that is removed is asked as well.
kill_sig = SIGTERM
job_max_vacate_time = @SECONDS@
want_graceful_removal = True
# 85 is the status of this script, below, for a job that was stopped after a checkpoint. SIGTERM (15) ends the script only
# if it comes before its first trap.
@REQUEUE@
@DIRECTIVES@queue
END
fi
cd @WORKING_DIRECTORY@ || exit

standfast=@STANDFAST@
# The checkpoints. All machines where the job may run must see this directory.
directory=@DIRECTORY@
set -- @WORDS@

@JOB@
case $now in
finished) exit 0 ;;
# 85 means something to HTCondor; the program means something else by it.
failed) exit "$((status == 0 || status == 85 ? 1 : status))" ;;
esac
@AGAIN@exit "$((status == 85 ? 1 : status))"
