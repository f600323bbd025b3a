//! Determines which link of a chain supplies each page. Recovery reads newest to oldest until every page is found (C2).
//! Pure.
//!
//! ```text
//! newest   [stored][ inherited       ][stored]
//! parent      .    [stored][inherited]   .
//! full        .       .    [ stored  ]   .         what no link holds reads as its backing
//! ```

use standfast_core::PageRange;
use standfast_format::image::{ImageError, Index, Inherited, sorted_runs};
use standfast_format::{Contents, Run};

/// Pages of a block that a restart reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Take {
    /// The index of the block in its link.
    pub(crate) block: usize,
    /// The first of the pages, counted from the start of the block.
    pub(crate) first: u64,
    /// Their place in the newest generation.
    pub(crate) run: Run,
}

/// The pages that a chain holds for its newest generation.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// All pages, ascending by owner and address, with neighbours joined.
    pub(crate) runs: Vec<Run>,
    /// The pages taken from each link after the newest, in file order. Everything in the newest is taken.
    pub(crate) takes: Vec<Vec<Take>>,
    /// Pages wanted from a link beyond the last one, ascending by owner and address. Empty if the last one is full.
    pub(crate) beyond: Vec<Inherited>,
}

/// Pages wanted from a link.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// The owner's number in the link.
    was: u32,
    range: PageRange,
    /// The owner's number in the newest generation.
    owner: u32,
}

/// Resolves a chain, newest link first.
///
/// # Errors
/// If a page is found twice, which no writer causes.
pub(crate) fn resolve(links: &[&Index]) -> Result<Resolved, ImageError> {
    let Some((newest, older)) = links.split_first() else { return Ok(Resolved::default()) };
    let mut runs = newest.runs().to_vec();
    let mut wanted: Vec<_> =
        newest.inherited().iter().map(|run| Wanted { was: run.was, range: run.range, owner: run.owner }).collect();
    let mut takes = Vec::with_capacity(older.len());
    for link in older {
        let (taken, further) = look(link, &wanted, &mut runs);
        takes.push(taken);
        wanted = further;
    }
    let mut beyond: Vec<_> =
        wanted.iter().map(|it| Inherited { owner: it.owner, range: it.range, was: it.was }).collect();
    beyond.sort_unstable();
    Ok(Resolved { runs: sorted_runs(&runs)?, takes, beyond })
}

/// Finds wanted pages in a link. Appends them to `runs`, and returns the blocks that hold them and the pages still
/// wanted from its parent.
fn look(link: &Index, wanted: &[Wanted], runs: &mut Vec<Run>) -> (Vec<Take>, Vec<Wanted>) {
    let stored = BlockRun::of(link);
    let zeros: Vec<_> = link.runs().iter().filter(|run| run.contents == Contents::Zero).collect();
    let (mut takes, mut further) = (Vec::new(), Vec::new());
    for wanted in wanted {
        let own = |range: PageRange, contents| Run { owner: wanted.owner, range, contents };
        for block_run in reached(&stored, wanted, |it| (it.owner, it.range)) {
            let range = common(block_run.range, wanted.range);
            let before = PageRange::between(block_run.range.start(), range.start()).pages();
            let run = own(range, Contents::Stored);
            takes.push(Take { block: block_run.block, first: block_run.first + before, run });
            runs.push(run);
        }
        for zero in reached(&zeros, wanted, |it| (it.owner, it.range)) {
            runs.push(own(common(zero.range, wanted.range), Contents::Zero));
        }
        for inherited in reached(link.inherited(), wanted, |it| (it.owner, it.range)) {
            let range = common(inherited.range, wanted.range);
            further.push(Wanted { was: inherited.was, range, owner: wanted.owner });
        }
    }
    takes.sort_unstable();
    (takes, further)
}

/// A stored run and its place in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRun {
    pub(crate) owner: u32,
    pub(crate) range: PageRange,
    /// The index of the block.
    pub(crate) block: usize,
    /// Its first page, counted from the start of the block.
    pub(crate) first: u64,
}

impl BlockRun {
    /// Returns all stored runs of a link, ascending by owner and address.
    pub(crate) fn of(link: &Index) -> Vec<Self> {
        let mut all = Vec::new();
        for block in 0..link.blocks().len() {
            let mut first = 0;
            for run in link.runs_of(block..block + 1) {
                all.push(Self { owner: run.owner, range: run.range, block, first });
                first += run.range.pages();
            }
        }
        all.sort_unstable_by_key(|it| (it.owner, it.range.start()));
        all
    }
}

/// Returns the runs that overlap the wanted pages. `runs` must be ascending and disjoint.
fn reached<'a, T>(
    runs: &'a [T],
    wanted: &Wanted,
    place: impl Fn(&T) -> (u32, PageRange),
) -> impl Iterator<Item = &'a T> {
    let key = |run: &T| {
        let (owner, range) = place(run);
        (owner, range.end())
    };
    let from = runs.partition_point(|run| key(run) <= (wanted.was, wanted.range.start()));
    let (was, end) = (wanted.was, wanted.range.end());
    runs[from..].iter().take_while(move |run| {
        let (owner, range) = place(run);
        owner == was && range.start() < end
    })
}

fn common(one: PageRange, two: PageRange) -> PageRange {
    one.common(two).expect("they overlap")
}
