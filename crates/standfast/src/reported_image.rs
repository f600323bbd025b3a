//! An image that reports how much of it has been read.

use crate::event::{Listener, LongWork};
use crate::progress::reported;
use standfast_format::records::JobState;
use standfast_format::{BoxError, ImageSource, Run};
use standfast_store::Chain;
use std::cell::RefCell;

/// The image of a restart, with reports of its progress.
pub(crate) struct ReportedImage<'a, 'l> {
    chain: &'a Chain,
    work: LongWork,
    listener: &'a RefCell<&'a mut Listener<'l>>,
}

impl<'a, 'l> ReportedImage<'a, 'l> {
    pub(crate) fn new(chain: &'a Chain, work: LongWork, listener: &'a RefCell<&'a mut Listener<'l>>) -> Self {
        Self { chain, work, listener }
    }
}

impl ImageSource for ReportedImage<'_, '_> {
    fn state(&self) -> &JobState {
        self.chain.state()
    }

    fn runs(&self) -> &[Run] {
        self.chain.runs()
    }

    fn deliver(&self, place: &(dyn Fn(&[Run], &[u8]) -> Result<(), BoxError> + Sync)) -> Result<(), BoxError> {
        reported(self.chain.progress(), self.work, &mut *self.listener.borrow_mut(), || self.chain.deliver(place))
    }
}
