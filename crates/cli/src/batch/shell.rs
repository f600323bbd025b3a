//! The part that all shell scripts share: they run the job, pass signals on to it, and ask for its state.

use super::plan::JobPlan;
use super::template::fill;
use standfast::quoted_word;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;

const JOB: &str = include_str!("templates/job.sh");

/// Whom the scheduler signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signalled {
    /// The script alone, which passes the signal on.
    Script,
    /// The process group of the script, so that the command gets it as well.
    Group,
}

/// Returns the shared part of a script that gets these signals.
pub(super) fn job(signals: &[&str], signalled: Signalled) -> OsString {
    let names = signals.join(" ");
    let how = match signalled {
        Signalled::Script => "It is passed on once: Standfast passes a second one to the program.",
        Signalled::Group => {
            "Standfast, in the same process group, gets it too, and each further one would be for the program."
        }
    };
    let (pass, late) = match signalled {
        Signalled::Script => ("pass \"$1\"", "pass \"$noticed\""),
        Signalled::Group => (":", "pass \"$noticed\""),
    };
    let values = [
        ("SIGNALS", OsStr::new(&names)),
        ("HOW", OsStr::new(how)),
        ("PASS", OsStr::new(pass)),
        ("PASS_LATE", OsStr::new(late)),
    ];
    OsString::from_vec(fill(JOB, &values))
}

/// Returns the words that `set --` gets: what each signal means, the options, the program.
pub(super) fn words(signals: &[&str], plan: &JobPlan) -> OsString {
    let notices = signals.iter().flat_map(|signal| ["--notice".into(), OsString::from(format!("{signal}=stop"))]);
    let words = notices.chain(plan.words.iter().cloned()).map(|word| quoted_word(&word));
    words.collect::<Vec<_>>().join(OsStr::new(" "))
}

/// Returns lines that each begin with `prefix`.
pub(super) fn directives(prefix: &str, plan: &JobPlan) -> OsString {
    plan.directives.iter().map(|directive| format!("{prefix}{directive}\n")).collect::<String>().into()
}
