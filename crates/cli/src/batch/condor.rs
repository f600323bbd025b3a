//! A script for HTCondor that submits itself. HTCondor signals only the script. It runs the job again if it has asked the
//! job to leave, or if the job ends with status 85.

use super::plan::JobPlan;
use super::shell::{Signalled, directives, job, words};
use super::template::fill;
use standfast::quoted_word;
use std::ffi::OsStr;

const TEMPLATE: &str = include_str!("templates/condor.sh");
const SIGNALS: [&str; 1] = ["TERM"];
const REQUEUE: &str = "on_exit_remove = ExitBySignal ? ExitSignal =!= 15 : ExitCode =!= 85";
const NO_REQUEUE: &str = "periodic_remove = JobStatus == 1 && NumJobStarts > 0";
const AGAIN: &str = "if [ \"$is_interrupted\" = yes ]; then
    exit 85
fi
";

pub(super) fn script(plan: &JobPlan) -> Vec<u8> {
    fill(
        TEMPLATE,
        &[
            ("NAME", OsStr::new(&plan.name)),
            ("REQUEUE", OsStr::new(if plan.requeues { REQUEUE } else { NO_REQUEUE })),
            ("SECONDS", OsStr::new(&plan.seconds.to_string())),
            ("DIRECTIVES", &directives("", plan)),
            ("WORKING_DIRECTORY", &quoted_word(plan.working_directory.as_os_str())),
            ("STANDFAST", &quoted_word(&plan.standfast)),
            ("DIRECTORY", &quoted_word(plan.directory.as_os_str())),
            ("WORDS", &words(&SIGNALS, plan)),
            ("JOB", &job(&SIGNALS, Signalled::Script)),
            ("AGAIN", OsStr::new(if plan.requeues { AGAIN } else { "" })),
        ],
    )
}
