//! Checks whether the recorded objects of a job can be made again here. Looks, and touches nothing.

use super::KINDS;
use crate::remake::Remaking;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{JobState, OpenFile};

/// The blockers found so far, each once.
#[derive(Default)]
pub(crate) struct Blockers(Vec<Blocker>);

impl Blockers {
    pub(crate) fn add(&mut self, blocker: Blocker) {
        if !self.0.contains(&blocker) {
            self.0.push(blocker);
        }
    }

    /// Adds something that the restart needs under its path and does not find.
    pub(crate) fn add_missing(&mut self, what: String, why: impl Into<String>) {
        self.add(Blocker::new(RefusalCode::PathTaken, what, why).with_hint("put it back"));
    }

    /// Adds an image that verifies but describes something impossible.
    pub(crate) fn add_impossible(&mut self, why: &str) {
        self.add(Blocker::new(RefusalCode::Image, "image", why).with_hint("restart from another checkpoint: --at N"));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn refusal(self) -> EngineError {
        EngineError::Refused(self.0)
    }

    #[cfg(test)]
    pub(crate) fn into_all(self) -> Vec<Blocker> {
        self.0
    }
}

/// A check of the objects of a job, in progress.
pub(crate) struct Check<'a, 'j> {
    pub(crate) job: &'j JobState,
    pub(crate) blockers: &'a mut Blockers,
    pub(crate) remaking: &'a mut Remaking<'j>,
}

impl Check<'_, '_> {
    /// Checks whether an open file can be opened again.
    pub(crate) fn open_file(&mut self, file: &OpenFile) {
        KINDS.iter().for_each(|kind| (kind.check)(self, file));
    }

    /// Adds that an open file refers to something that the image lacks; `lacks` names it ("names a pipe").
    pub(super) fn add_missing_part(&mut self, lacks: &str) {
        self.blockers.add_impossible(&format!("it verifies, but {lacks} that it does not hold"));
    }
}

/// Checks nothing, for kinds that depend on nothing here.
pub(super) fn nothing(_: &mut Check<'_, '_>, _: &OpenFile) {}
