//! What is encoded: pages in stable slots, from any source.
//!
//! The registered regions of a program are one payload, the image of a process another. Both may be in another process
//! than the one that drives the protocol. The before-image of a slot is its content in the sealed shard of the epoch
//! before.

use crate::slots::{SlotMap, SlotSet};
use standfast_core::delta::Page;

/// A member's state while it does not change.
pub trait Payload {
    /// Returns the map from slots to pages.
    fn map(&self) -> &SlotMap;

    /// Returns every slot whose content may differ from the last sealed epoch: written pages, new pages, and slots that
    /// were given back ([`SlotMap::resize`] and [`SlotMap::remove`] return them). Too many slots only take time. Missing
    /// slots are refused if that can be detected; otherwise they are an error of the payload.
    fn changed(&self) -> SlotSet;

    /// Reads the content of a slot in use. A region's last page ends in zeros.
    fn read(&self, slot: u32, page: &mut Page);

    /// A hint that this slot is about to be read.
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
