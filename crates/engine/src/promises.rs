//! What programs have promised about their memory, as of the last committed checkpoint, from which read-only memory is
//! inherited.

use crate::pages::Pages;
use crate::program::ProgramIdentity;
use crate::tables::{Directions, Tables};
use crate::watch::Watch;
use standfast_core::directions::{MaskedPages, Outline};
use standfast_core::{PageRange, PageSet};
use standfast_format::BackingPage;
use std::sync::Arc;

/// What the last committed checkpoint holds of programs with directives, so that read-only memory can be inherited.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    saved: Vec<Promise>,
    seen: Vec<Promise>,
    /// The programs' tables of regions.
    pub(crate) tables: Tables,
    /// The read-only memory, if it is checked.
    pub(crate) watch: Watch,
}

#[derive(Debug)]
struct Promise {
    program: ProgramIdentity,
    /// The number of its process in the image.
    owner: u32,
    /// Number of checkpoints of the program before this one.
    epoch: u64,
    /// Whether some of its memory is read-only.
    is_needed: bool,
    /// The pages that the image holds or inherits.
    pages: PageSet,
    /// Pages that the image lacks completely, or takes from an earlier image, whatever they held.
    whole: PageSet,
    /// The parts of other pages that the image may lack.
    masked_pages: Arc<MaskedPages>,
}

/// The result of honouring a program's directives.
#[derive(Debug, Default)]
pub(crate) struct Honoured {
    /// Pages whose present contents the image will not hold, whatever the next checkpoint finds about them.
    pub(crate) stale: PageSet,
    /// The parts of saved pages that do not count.
    pub(crate) masked_pages: Option<Arc<MaskedPages>>,
    /// The number of the process in the checkpoint that this one builds upon.
    pub(crate) was: Option<u32>,
}

impl Promises {
    /// Begins a new checkpoint.
    pub(crate) fn begin(&mut self) {
        self.seen.clear();
    }

    pub(crate) fn committed(&mut self) {
        self.saved = std::mem::take(&mut self.seen);
        let is_there = |program: ProgramIdentity| self.saved.iter().any(|promise| promise.program.is(&program));
        self.tables.retain(is_there);
        self.watch.retain(is_there);
    }

    /// Returns the epoch of a program at the last committed checkpoint, if that one knows the program.
    pub(crate) fn held(&self, program: ProgramIdentity) -> Option<u64> {
        self.saved.iter().find(|promise| promise.program.is(&program)).map(|promise| promise.epoch)
    }

    pub(crate) fn forget(&mut self) {
        self.saved.clear();
    }

    /// Reports whether a checkpoint that builds upon the last one would save less because of it.
    pub(crate) fn are_needed(&self) -> bool {
        self.saved.iter().any(|promise| promise.is_needed)
    }

    /// Removes from the pages of a process what need not be saved, and returns which parts of others need not.
    pub(crate) fn keep(
        &mut self,
        program: ProgramIdentity,
        owner: u32,
        directions: Option<&mut Directions>,
        pages: &mut Pages,
    ) -> Honoured {
        let before = self.saved.iter().find(|promise| promise.program.process() == program.process());
        // The promises of a program end with it, since execve has replaced the memory that they described.
        let saved = before.filter(|promise| promise.program.is(&program));
        let mut nothing = Directions::default();
        let directions = match (directions, before) {
            (Some(directions), _) => directions,
            // The program had directives at the last checkpoint, which lacks what counts now.
            (None, Some(_)) => &mut nothing,
            (None, None) => return Honoured::default(),
        };
        let present = |pages: &Pages| {
            let fresh = pages.changed.iter().chain(&pages.compared).map(|(range, _)| *range);
            PageSet::of(fresh.chain(pages.unchanged.ranges().iter().copied()))
        };
        let outline = directions.table.outline_with(saved.map(|promise| promise.epoch), &directions.changes);
        let Outline { excluded, masked_pages } = &*outline;
        let masked_pages =
            saved.map_or_else(|| Arc::clone(masked_pages), |promise| masked_pages.where_held(&promise.pages));
        let mut stale = excluded.dead.intersection(&present(pages));
        let mut whole = excluded.dead.clone();
        let mut held = PageSet::default();
        if let Some(saved) = saved {
            held = excluded.held.intersection(&saved.pages).intersection(&present(pages));
            // Dead bytes of these pages may have changed: once they are alive again, they count as written.
            stale = stale.union(&held.difference(&pages.unchanged));
            whole = whole.union(&held);
        }
        take_out(pages, &whole);
        if let Some(before) = before {
            revive(pages, &before.whole.union(&masked_pages.revived_since(&before.masked_pages)));
        }
        if let Some(saved) = saved.filter(|_| !held.is_empty()) {
            pages.unchanged = pages.unchanged.union(&held);
            pages.was = saved.owner;
        }
        let was = before.map(|before| before.owner);
        let honoured =
            Honoured { stale, masked_pages: (!masked_pages.is_empty()).then(|| Arc::clone(&masked_pages)), was };
        let is_needed = directions.table.has_read_only() || directions.changes.has_read_only();
        let pages = if is_needed { present(pages) } else { PageSet::default() };
        self.seen.push(Promise { program, owner, epoch: directions.epoch, is_needed, pages, whole, masked_pages });
        honoured
    }
}

/// Marks pages as changed if the last checkpoint lacks parts of them that count now.
fn revive(pages: &mut Pages, lacking: &PageSet) {
    let revived = pages.unchanged.intersection(lacking);
    if !revived.is_empty() {
        pages.unchanged = pages.unchanged.difference(&revived);
        pages.changed.extend(revived.ranges().iter().map(|range| (*range, BackingPage::Zeros)));
        pages.changed.sort_unstable_by_key(|(range, _)| range.start());
    }
}

fn take_out(pages: &mut Pages, out: &PageSet) {
    let without = |ranges: &mut Vec<(PageRange, BackingPage)>| {
        let kinds = [BackingPage::Zeros, BackingPage::File].map(|kind| {
            let of_kind =
                PageSet::of(ranges.iter().filter(|(_, backing_page)| *backing_page == kind).map(|(range, _)| *range));
            (of_kind.difference(out), kind)
        });
        *ranges = kinds.iter().flat_map(|(set, kind)| set.ranges().iter().map(|range| (*range, *kind))).collect();
        ranges.sort_unstable_by_key(|(range, _)| range.start());
    };
    if !out.is_empty() {
        without(&mut pages.changed);
        without(&mut pages.compared);
        pages.unchanged = pages.unchanged.difference(out);
    }
}

#[cfg(test)]
mod tests;
