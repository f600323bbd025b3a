#!/bin/bash
# A Slurm job that loses no work: before its time is over and before it is preempted, a checkpoint is taken and the
# program stops; the next run of the job continues it. Submit it with: sbatch FILE
#
#SBATCH --job-name=@NAME@
# Slurm queues the job again when it preempts it and when a node fails.
#SBATCH @REQUEUE@
# What the job has printed stays when it runs again.
#SBATCH --open-mode=append
# @SECONDS@ s before the job's time is over, this script (B:) gets SIGUSR1. It gets it before a preemption as well if the
# administrator has set a GraceTime and PreemptParameters=send_user_signal (before Slurm 23.02:
# SchedulerParameters=preempt_send_user_signal).
#SBATCH --signal=B:USR1@@SECONDS@
@DIRECTIVES@
cd @WORKING_DIRECTORY@ || exit

standfast=@STANDFAST@
# The checkpoints. All nodes where the job may run must see this directory.
directory=@DIRECTORY@
set -- @WORDS@

@JOB@
case $now in
finished) exit 0 ;;
failed) exit "$((status == 0 ? 1 : status))" ;;
esac
@AGAIN@exit "$status"
