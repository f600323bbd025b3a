//! Conditions that last, each with its reason: they are told when they begin or change, not at each checkpoint.

use std::collections::BTreeMap;

/// What may be so from one checkpoint to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Condition {
    /// The last checkpoint could not be taken.
    NotTaken,
    /// The last one is not in memory, where it was to be.
    NotInMemory,
    /// The last flush failed.
    NotFlushed,
    /// The kernel does not let writes be tracked.
    Untracked,
    /// A process could not be cloned.
    Uncloned,
    /// What the program directs about its memory is not honoured.
    DirectivesIgnored,
}

/// Those that are so, with their reasons.
#[derive(Debug, Default)]
pub(super) struct Told(BTreeMap<Condition, String>);

impl Told {
    /// Takes note how a condition stands: why it is so, if it is. The reason comes back if it is to be told.
    pub(super) fn note(&mut self, condition: Condition, reason: Option<String>) -> Option<String> {
        let Some(reason) = reason else {
            self.0.remove(&condition);
            return None;
        };
        let before = self.0.insert(condition, reason.clone());
        (before.as_ref() != Some(&reason)).then_some(reason)
    }

    /// Why a condition is so, if it is.
    pub(super) fn reason(&self, condition: Condition) -> Option<&String> {
        self.0.get(&condition)
    }

    /// A condition is over; whether it was so.
    pub(super) fn end(&mut self, condition: Condition) -> bool {
        self.0.remove(&condition).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_told_once_and_again_when_its_reason_changes_or_it_comes_back() {
        let mut told = Told::default();
        let mut note = |reason: Option<&str>| told.note(Condition::Uncloned, reason.map(str::to_owned));
        assert_eq!(note(Some("a")).as_deref(), Some("a"));
        assert_eq!(note(Some("a")), None);
        assert_eq!(note(Some("b")).as_deref(), Some("b"));
        assert_eq!(note(None), None);
        assert_eq!(note(Some("b")).as_deref(), Some("b"));
        assert!(told.end(Condition::Uncloned) && !told.end(Condition::Uncloned));
        assert_eq!(told.reason(Condition::Uncloned), None);
    }
}
