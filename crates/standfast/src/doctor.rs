//! `doctor`: what this machine supports, and what in a process prevents a checkpoint.

use crate::Error;
use serde::{Deserialize, Serialize};
use standfast_engine::{Blocker, ExternalSockets};
use standfast_linux::{Feature, Features, KernelVersion, Pid};

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Code of the refusal, for `standfast explain`. Only findings about a process have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What was checked: `ptrace of own children`.
    pub what: String,
    /// Whether the result is good for Standfast.
    pub is_fine: bool,
    /// Meaning of the result. Set if a feature is missing or if its presence may surprise, otherwise empty.
    pub means: String,
    /// What the user can do; empty if nothing needs doing, or nothing can be done.
    pub hint: String,
}

/// What a node supports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeDiagnosis {
    /// Its name.
    pub node: String,
    /// Why it could not be examined, if so.
    pub trouble: Option<String>,
    /// What was found there.
    pub findings: Vec<Finding>,
}

impl From<Feature> for Finding {
    fn from(feature: Feature) -> Self {
        let means = if feature.present { feature.remark } else { feature.meaning };
        Self {
            code: None,
            what: feature.name.to_owned(),
            is_fine: feature.present,
            means: means.to_owned(),
            hint: String::new(),
        }
    }
}

impl From<Blocker> for Finding {
    fn from(blocker: Blocker) -> Self {
        let Blocker { code, what, why, hint, .. } = blocker;
        Self { code: Some(code.to_string()), what, is_fine: false, means: why, hint }
    }
}

/// Checks what this machine supports. Call it while this process is single-threaded.
pub fn examine_machine() -> Vec<Finding> {
    Features::probe().0.into_iter().map(Finding::from).collect()
}

/// Returns what in process `pid` could not be restored; empty if nothing prevents a checkpoint.
///
/// # Errors
/// If the process is gone or may not be examined.
pub fn examine_process(pid: i32) -> Result<Vec<Finding>, Error> {
    Ok(standfast_engine::examine(Pid::new(pid), ExternalSockets::Refuse)?.into_iter().map(Finding::from).collect())
}

/// Refuses a kernel that lacks calls on which runs and restarts depend.
pub(crate) fn check_kernel() -> Result<(), Error> {
    KernelVersion::running().map_or(Ok(()), is_recent_enough)
}

fn is_recent_enough(running: KernelVersion) -> Result<(), Error> {
    if running < KernelVersion::OLDEST { Err(Error::KernelTooOld(running.to_string())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_features_are_reported_with_their_meaning() {
        let feature = |present| Feature { name: "scan", present, meaning: "without it all is slow", remark: "" };
        let missing = Finding::from(feature(false));
        assert!(!missing.is_fine && missing.means == "without it all is slow");
        let there = Finding::from(feature(true));
        assert!(there.is_fine && there.means.is_empty());
    }

    #[test]
    fn a_kernel_that_is_too_old_is_refused_by_its_version() {
        assert!(is_recent_enough(KernelVersion { major: 5, minor: 10 }).is_ok());
        let refusal = is_recent_enough(KernelVersion { major: 4, minor: 18 }).map_err(|error| error.to_string());
        assert!(refusal.is_err_and(|text| text.starts_with("Linux 4.18 is too old")));
    }
}
