//! `doctor`: what this machine offers, and what in a process stands in the way of a checkpoint.

use crate::Error;
use serde::Serialize;
use standfast_engine::{Blocker, ExternalSockets};
use standfast_linux::{Feature, Features};

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The code of the refusal, for `standfast explain`; only of what a process holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What: `ptrace of own children`.
    pub what: String,
    /// Whether it is as Standfast would have it.
    pub is_fine: bool,
    /// What that means: that it is missing or, where that may surprise, that it is there; otherwise empty.
    pub means: String,
    /// What the user can do; empty where nothing needs doing, or nothing can be done.
    pub hint: String,
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

/// What this machine offers. Call it while this process has a single thread.
pub fn examine_machine() -> Vec<Finding> {
    Features::probe().0.into_iter().map(Finding::from).collect()
}

/// What in process `pid` could not be carried over; empty where nothing stands in the way.
///
/// # Errors
/// When the process is gone or may not be looked at.
pub fn examine_process(pid: i32) -> Result<Vec<Finding>, Error> {
    Ok(standfast_engine::examine(pid, ExternalSockets::Refuse)?.into_iter().map(Finding::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_its_meaning_and_what_is_there_needs_none() {
        let feature = |present| Feature { name: "scan", present, meaning: "without it all is slow", remark: "" };
        let missing = Finding::from(feature(false));
        assert!(!missing.is_fine && missing.means == "without it all is slow");
        let there = Finding::from(feature(true));
        assert!(there.is_fine && there.means.is_empty());
    }
}
