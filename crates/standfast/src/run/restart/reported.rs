//! An image for a restart that reports how much of it has been read.

use crate::event::{Listener, LongWork};
use crate::progress::reported;
use standfast_format::records::JobState;
use standfast_format::{BoxError, ImageSource, Run};
use standfast_store::Chain;
use std::cell::RefCell;

/// The image of a restart, with reports of its progress.
pub(super) struct Reported<'a, 'l> {
    chain: &'a Chain,
    generation: u64,
    listener: &'a RefCell<&'a mut Listener<'l>>,
}

impl<'a, 'l> Reported<'a, 'l> {
    pub(super) fn new(chain: &'a Chain, generation: u64, listener: &'a RefCell<&'a mut Listener<'l>>) -> Self {
        Self { chain, generation, listener }
    }
}

impl ImageSource for Reported<'_, '_> {
    fn state(&self) -> &JobState {
        self.chain.state()
    }

    fn runs(&self) -> &[Run] {
        self.chain.runs()
    }

    fn deliver(&self, place: &(dyn Fn(&[Run], &[u8]) -> Result<(), BoxError> + Sync)) -> Result<(), BoxError> {
        let work = LongWork::Restoring { generation: self.generation };
        reported(self.chain.progress(), work, &mut *self.listener.borrow_mut(), || self.chain.deliver(place))
    }
}
