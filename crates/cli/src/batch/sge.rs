//! A script for Grid Engine. It signals the process group of the script, and queues the job again if it ends with
//! status 99.

use super::plan::JobPlan;
use super::shell::{Signalled, directives, job, words};
use super::template::fill;
use standfast::quoted_word;
use std::ffi::OsStr;

const TEMPLATE: &str = include_str!("templates/sge.sh");
const SIGNALS: [&str; 3] = ["USR1", "USR2", "XCPU"];
const AGAIN: &str = "if [ \"$is_interrupted\" = yes ]; then
    # The status that queues the job again.
    exit 99
fi
";

pub(super) fn script(plan: &JobPlan) -> Vec<u8> {
    fill(
        TEMPLATE,
        &[
            ("NAME", OsStr::new(&plan.name)),
            ("RERUN", OsStr::new(if plan.requeues { "y" } else { "n" })),
            ("SECONDS", OsStr::new(&plan.seconds.to_string())),
            ("DIRECTIVES", &directives("#$ ", plan)),
            ("WORKING_DIRECTORY", &quoted_word(plan.working_directory.as_os_str())),
            ("STANDFAST", &quoted_word(&plan.standfast)),
            ("DIRECTORY", &quoted_word(plan.directory.as_os_str())),
            ("WORDS", &words(&SIGNALS, plan)),
            ("JOB", &job(&SIGNALS, Signalled::Group)),
            ("AGAIN", OsStr::new(if plan.requeues { AGAIN } else { "" })),
        ],
    )
}
