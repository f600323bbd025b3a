//! Lasting conditions, each with its reason. They are reported when they begin or change, not at each checkpoint.

use crate::checkpoint::Shortfall;
use std::collections::BTreeMap;

/// A condition that may last from one checkpoint to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Condition {
    /// The last checkpoint failed.
    NotTaken,
    /// The last checkpoint lacks this.
    Lacking(Shortfall),
    /// The last flush failed.
    NotFlushed,
    /// A restart would fail.
    NotRestartable,
}

/// Present conditions, with their reasons.
#[derive(Debug, Default)]
pub(super) struct ReportedConditions(BTreeMap<Condition, String>);

impl ReportedConditions {
    /// Records a condition: its reason if it is present, else `None`. Returns the reason if it is to be reported.
    pub(super) fn note(&mut self, condition: Condition, reason: Option<String>) -> Option<String> {
        let Some(reason) = reason else {
            self.0.remove(&condition);
            return None;
        };
        let before = self.0.insert(condition, reason.clone());
        (before.as_ref() != Some(&reason)).then_some(reason)
    }

    /// Returns the reason of a condition, if it is present.
    pub(super) fn reason(&self, condition: Condition) -> Option<&String> {
        self.0.get(&condition)
    }

    /// Ends a condition. Returns whether it was present.
    pub(super) fn end(&mut self, condition: Condition) -> bool {
        self.0.remove(&condition).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_reported_again_when_its_reason_changes() {
        let mut reported = ReportedConditions::default();
        let mut note = |reason: Option<&str>| reported.note(Condition::NotTaken, reason.map(str::to_owned));
        assert_eq!(note(Some("a")).as_deref(), Some("a"));
        assert_eq!(note(Some("a")), None);
        assert_eq!(note(Some("b")).as_deref(), Some("b"));
        assert_eq!(note(None), None);
        assert_eq!(note(Some("b")).as_deref(), Some("b"));
        assert!(reported.end(Condition::NotTaken) && !reported.end(Condition::NotTaken));
        assert_eq!(reported.reason(Condition::NotTaken), None);
    }
}
