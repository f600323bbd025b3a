#!/bin/bash
# A Grid Engine job that loses no work: before it is suspended or ended, a checkpoint is taken and the program stops; the
# next run of the job continues it. Submit it with: qsub FILE
#
#$ -S /bin/bash
#$ -N @NAME@
# Grid Engine queues the job again when its node fails.
#$ -r @RERUN@
# Before SIGSTOP the job gets SIGUSR1, and before SIGKILL SIGUSR2. The queue's "notify" is the time between the two; it must
# be at least @SECONDS@ s. A soft limit (s_rt, s_cpu) sends SIGUSR1 or SIGXCPU.
#$ -notify
@DIRECTIVES@
cd @WORKING_DIRECTORY@ || exit

standfast=@STANDFAST@
# The checkpoints. All nodes where the job may run must see this directory.
directory=@DIRECTORY@
set -- @WORDS@

@JOB@
case $now in
finished) exit 0 ;;
# 99 and 100 mean something to Grid Engine; the program means something else by them.
failed) exit "$((status == 0 || status == 99 || status == 100 ? 1 : status))" ;;
esac
@AGAIN@exit "$((status == 99 || status == 100 ? 1 : status))"
