//! What is encoded: pages in stable slots, whoever fills them.
//!
//! Registered regions of a program are one payload, the image of a process another; both may lie in another process than
//! the one that drives the protocol. The before-image of a slot is what the sealed shard of the epoch before holds.

use crate::slots::{SlotMap, SlotSet};
use standfast_core::delta::Page;

/// A member's state while it holds still.
pub trait Payload {
    /// Which page stands in which slot.
    fn map(&self) -> &SlotMap;

    /// Every slot whose content may not be what the last sealed epoch has: written pages, pages that are new, and slots
    /// that were given back ([`SlotMap::resize`] and [`SlotMap::remove`] name them). Too many is slow; too few is refused
    /// where it shows, and an error of the payload where it cannot.
    fn changed(&self) -> SlotSet;

    /// The content of a slot in use. A region's last page ends in zeros.
    fn read(&self, slot: u32, page: &mut Page);

    /// A hint: this slot is about to be read.
    fn expect(&self, _slot: u32) {}
}

/// The payload of a parity node or spare: nothing.
#[derive(Clone, Debug, Default)]
pub struct Nothing(SlotMap);

impl Payload for Nothing {
    fn map(&self) -> &SlotMap {
        &self.0
    }

    fn changed(&self) -> SlotSet {
        SlotSet::default()
    }

    fn read(&self, _: u32, page: &mut Page) {
        page.fill(0);
    }
}
