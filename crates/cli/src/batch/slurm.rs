//! A script for Slurm. Slurm signals only the script. It queues the job again if the job is preempted or loses a node.
//! After a time limit, the script queues itself again.

use super::plan::JobPlan;
use super::shell::{Signalled, directives, job, words};
use super::template::fill;
use standfast::quoted_word;
use std::ffi::OsStr;

const TEMPLATE: &str = include_str!("templates/slurm.sh");
const SIGNALS: [&str; 2] = ["USR1", "TERM"];
const AGAIN: &str = "if [ \"$is_interrupted\" = yes ]; then
    # A preempted job is queued already, and a job that is cancelled cannot be.
    scontrol requeue \"$SLURM_JOB_ID\" && exit
fi
";

pub(super) fn script(plan: &JobPlan) -> Vec<u8> {
    fill(
        TEMPLATE,
        &[
            ("NAME", OsStr::new(&plan.name)),
            ("REQUEUE", OsStr::new(if plan.requeues { "--requeue" } else { "--no-requeue" })),
            ("SECONDS", OsStr::new(&plan.seconds.to_string())),
            ("DIRECTIVES", &directives("#SBATCH ", plan)),
            ("WORKING_DIRECTORY", &quoted_word(plan.working_directory.as_os_str())),
            ("STANDFAST", &quoted_word(&plan.standfast)),
            ("DIRECTORY", &quoted_word(plan.directory.as_os_str())),
            ("WORDS", &words(&SIGNALS, plan)),
            ("JOB", &job(&SIGNALS, Signalled::Script)),
            ("AGAIN", OsStr::new(if plan.requeues { AGAIN } else { "" })),
        ],
    )
}
