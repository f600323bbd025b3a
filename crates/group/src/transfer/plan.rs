//! The plan of a transfer, made before the first byte moves: which sums are made of whose shares, in which stripes, by
//! which route, and who takes them. Every process of the group makes the same plan from the same facts, so the plan
//! itself is not sent.
//!
//! With rotating checks, the chains of the stripe groups begin at different members, and all links are busy: a
//! reduce-scatter around the ring. The plan contains only stripes in which some member has something, packed into pieces
//! of a few stripes.

use super::route::{Route, parent};
use super::{AT_ONCE, WINDOW};
use crate::layout::Layout;
use crate::message::Node;
use crate::shard::Place;
use crate::slots::SlotSet;
use standfast_core::erasure::{CodeError, Combiner, Repair};
use std::slice::Chunks;

/// Pages that travel together, 60 KiB. Message passing over TCP sends a message of up to 64 KiB at once, and a longer one
/// only after its receiver has answered. Pieces of this size also stay in a processor's own cache. Four processes on two
/// processors each sent 256 MB to the next in 330 ms by messages of 60 KiB, and in 750 ms by messages of 256 KiB (Open
/// MPI 4.1).
pub const PIECE_PAGES: usize = 15;
/// Most stripes of a piece if all goes at once. This gives few messages, and a process that has something in a third of
/// the stripes still sends less than what goes at once. (With 64 stripes, or 44, an epoch in which one page in a hundred
/// has changed takes a twentieth longer, or more.)
const STRIPES_MAX: usize = 32;

/// What a transfer computes.
#[derive(Clone, Debug)]
pub enum TransferTask {
    /// New checks from the members' differences, or in full from their contents.
    Encode {
        /// Changed slots of each member.
        changed: Vec<SlotSet>,
        /// For checks that are made in full, the slots of each member that changed or hold something.
        held: Option<Vec<SlotSet>>,
        /// Positions of parity nodes that are vacant.
        vacant: Vec<usize>,
    },
    /// The content of these positions, from the rest.
    Rebuild {
        /// Positions without a shard.
        lost: Vec<usize>,
        /// Positions whose process does not have their shard: all lost members, and positions taken over from a process
        /// that lends the shard.
        replacements: Vec<usize>,
        /// Slots of each member that may hold something.
        used: Vec<SlotSet>,
    },
}

/// What a contributor adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// Its own pages, as this column.
    Column(usize),
    /// A check that it holds, as it is, to the sum with this number.
    Check {
        /// The check.
        check: usize,
        /// The sum.
        sum: usize,
    },
}

/// A process that adds something to a sum.
#[derive(Clone, Debug)]
pub struct Contributor {
    /// Position in the group.
    pub position: usize,
    /// What it adds.
    pub share: Share,
    /// The contributor to which its partial sums go; `None`: to the targets.
    pub parent: Option<usize>,
    /// For each piece, the stripes in which it has something itself.
    own: Vec<u64>,
    /// For each piece, the stripes in which it or a contributor below it has something.
    below: Vec<u64>,
    children: Vec<usize>,
}

/// What a target does with the sums that it takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Adds the sum to its check, or stores it as its check.
    Check {
        /// The check.
        check: usize,
        /// Whether there is an old check to add to.
        update: bool,
    },
    /// Stores the sum as a column of its own.
    Column(usize),
    /// Solves for the lost columns.
    Solve,
}

/// A process that takes sums.
#[derive(Clone, Debug)]
pub struct Target {
    /// Position in the group.
    pub position: usize,
    /// The sums that it takes.
    pub sums: Vec<usize>,
    /// Its use of the sums.
    pub purpose: Use,
}

/// A lost column and the position that takes it.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// Position in the group.
    pub position: usize,
    /// Its column.
    pub column: usize,
    /// For each piece, the stripes in which the column may hold something.
    pub stripes: Vec<u64>,
}

/// Sums of one stripe group that travel together.
#[derive(Clone, Debug)]
pub struct Sum {
    /// The stripes of the stripe group, ascending.
    pub stripes: Vec<u32>,
    /// Stripes in each piece.
    pub stripes_each: usize,
    /// Number of sums.
    pub width: usize,
    /// Combiner that adds shares to the sums.
    pub combiner: Combiner,
    /// The positions that add.
    pub contributors: Vec<Contributor>,
    /// The positions that take sums.
    pub targets: Vec<Target>,
    /// For a rebuild: how to solve, and for which columns.
    pub repair: Option<(Repair, Vec<Replacement>)>,
    /// Number of its first piece in the whole transfer.
    pub first_piece: u32,
}

/// The plan of a whole transfer.
#[derive(Clone, Debug)]
pub struct TransferPlan {
    /// The sums. Those that need the results of others come after them.
    pub sums: Vec<Sum>,
    /// Number of pieces of the transfer; sums side by side share piece numbers.
    pub pieces: u32,
    /// First piece to which rebuilt columns are added.
    pub second: u32,
}

impl TransferPlan {
    /// Creates the plan for a task.
    ///
    /// # Errors
    /// [`CodeError::Lost`] if the task is impossible.
    pub fn new(layout: &Layout, task: &TransferTask, route: Route) -> Result<Self, CodeError> {
        let (mut sums, later) = match task {
            TransferTask::Encode { changed, held, vacant } => {
                (encoding(layout, changed, held.as_deref(), vacant, route), Vec::new())
            }
            TransferTask::Rebuild { lost, replacements, used } => {
                let mut first = rebuilding(layout, lost, used, route)?;
                first.extend(handing_over(layout, lost, replacements, used));
                // Checks over columns that all exist need not wait for the rebuild.
                let waits = |sum: &Sum| sum.contributors.iter().any(|it| replacements.contains(&it.position));
                let (later, at_once): (Vec<_>, Vec<_>) =
                    renewing(layout, replacements, used, route).into_iter().partition(waits);
                first.extend(at_once);
                (first, later)
            }
        };
        let pieces = |sums: &[Sum]| sums.iter().map(|sum| sum.pieces() as u32).max().unwrap_or(0);
        let second = pieces(&sums);
        let all = second + pieces(&later);
        sums.extend(later.into_iter().map(|sum| Sum { first_piece: second, ..sum }));
        Ok(Self { sums, pieces: all, second })
    }

    /// Returns the number of pieces that may be in progress at once: the same for all processes.
    pub fn window(&self) -> u32 {
        if self.pieces <= AT_ONCE { AT_ONCE } else { WINDOW }
    }
}

impl Sum {
    /// Returns the number of its pieces.
    pub fn pieces(&self) -> usize {
        self.stripes.len().div_ceil(self.stripes_each)
    }

    /// Returns the stripes of a piece.
    pub fn piece_stripes(&self, piece: usize) -> &[u32] {
        &self.stripes[piece * self.stripes_each..self.stripes.len().min((piece + 1) * self.stripes_each)]
    }

    /// Returns the stripes of a piece that may have something at a node of the tree, one bit each.
    pub(crate) fn stripes_at(&self, node: Node, piece: usize) -> u64 {
        match node {
            Node::Hop(index) => self.contributors[index as usize].below(piece),
            Node::Target(_) | Node::Replacement(_) => all(self.piece_stripes(piece)),
        }
    }

    /// Reports whether one sum is used at a node of the tree, page by page, and goes no further.
    pub(crate) fn ends_at(&self, node: Node) -> bool {
        let Node::Target(index) = node else { return false };
        let target = &self.targets[index as usize];
        target.sums.len() == 1 && target.purpose != Use::Solve
    }

    /// Returns the contributors whose partial sums of a piece go directly to the targets, if they have any.
    pub fn roots(&self, piece: usize) -> impl Iterator<Item = usize> + '_ {
        let roots =
            self.contributors.iter().enumerate().filter(move |(_, it)| it.parent.is_none() && it.below[piece] != 0);
        roots.map(|(index, _)| index)
    }
}

impl Contributor {
    /// Returns the stripes of a piece to which it adds.
    pub fn own(&self, piece: usize) -> u64 {
        self.own[piece]
    }

    /// Returns the place of what it adds in a stripe.
    pub fn place(&self, layout: &Layout, stripe: u32) -> Place {
        match self.share {
            Share::Column(column) => Place::Slot(layout.slot(column, stripe)),
            Share::Check { check, .. } => Place::Check { check: check as u32, stripe },
        }
    }

    /// Returns the stripes of a piece that it passes on.
    pub fn below(&self, piece: usize) -> u64 {
        self.below[piece]
    }

    /// Returns the contributors that send it their partial sums.
    pub fn children(&self) -> &[usize] {
        &self.children
    }
}

/// Groups the checks of a stripe group that cover the same columns, and so travel together: all of a code's checks, or
/// each by itself.
fn bundles(layout: &Layout) -> Vec<(Vec<usize>, Vec<usize>)> {
    let code = layout.code();
    let covered = |check| (0..code.members()).filter(|column| code.covers(check, *column)).collect::<Vec<_>>();
    let mut bundles: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for check in 0..code.checks() {
        let columns = covered(check);
        match bundles.iter_mut().find(|(_, same)| *same == columns) {
            Some((checks, _)) => checks.push(check),
            None => bundles.push((vec![check], columns)),
        }
    }
    bundles
}

fn encoding(
    layout: &Layout,
    changed: &[SlotSet],
    held: Option<&[SlotSet]>,
    vacant: &[usize],
    route: Route,
) -> Vec<Sum> {
    let mut sums = Vec::new();
    for stripe_group in 0..layout.stripe_groups() {
        for (checks, columns) in bundles(layout) {
            let holders =
                checks.iter().enumerate().map(|(sum, check)| (sum, *check, layout.check_holder(stripe_group, *check)));
            let taken = holders.filter(|(.., position)| !vacant.contains(position));
            let target = |(sum, check, position)| Target {
                position,
                sums: vec![sum],
                purpose: Use::Check { check, update: held.is_none() },
            };
            let shares =
                columns.iter().map(|column| (layout.column_holder(stripe_group, *column), Share::Column(*column)));
            let write_set = WriteSet {
                layout,
                stripe_group,
                has: held.unwrap_or(changed),
                stripes: stripes_of(layout, stripe_group, &columns, changed),
                combiner: layout.code().combiner_of(&checks),
                targets: taken.map(target).collect(),
            };
            sums.extend(write_set.sum(shares.collect(), route));
        }
    }
    sums
}

/// Returns the sums for the lost columns of each stripe group, gathered at one position that solves for all of them.
fn rebuilding(layout: &Layout, lost: &[usize], used: &[SlotSet], route: Route) -> Result<Vec<Sum>, CodeError> {
    let mut sums = Vec::new();
    for stripe_group in 0..layout.stripe_groups() {
        let (columns, checks) = layout.lost_in(stripe_group, lost);
        if columns.is_empty() {
            continue;
        }
        let repair = layout.code().repair(&columns, &checks)?;
        let covers = |column: &usize| repair.checks().iter().any(|check| layout.code().covers(*check, *column));
        let left = (0..layout.code().members()).filter(|column| !columns.contains(column) && covers(column));
        let mut shares: Vec<_> =
            left.map(|column| (layout.column_holder(stripe_group, column), Share::Column(column))).collect();
        shares.extend(
            repair
                .checks()
                .iter()
                .enumerate()
                .map(|(sum, check)| (layout.check_holder(stripe_group, *check), Share::Check { check: *check, sum })),
        );
        let stripes = stripes_of(layout, stripe_group, &columns, used);
        let solver = layout.column_holder(stripe_group, columns[0]);
        let target = Target { position: solver, sums: (0..repair.checks().len()).collect(), purpose: Use::Solve };
        let combiner = repair.combiner().clone();
        let write_set = WriteSet { layout, stripe_group, has: used, stripes, combiner, targets: vec![target] };
        sums.extend(write_set.sum(shares, route).map(|sum| {
            let replacement = |column: &usize| {
                let position = layout.column_holder(stripe_group, *column);
                let stripes = present(layout, sum.stripes.chunks(sum.stripes_each), *column, &used[position]);
                Replacement { position, column: *column, stripes }
            };
            let replacements = columns.iter().map(replacement).collect();
            Sum { repair: Some((repair, replacements)), ..sum }
        }));
    }
    Ok(sums)
}

/// Returns the sums for columns that another process than their own has: they are sent unchanged.
fn handing_over(layout: &Layout, lost: &[usize], replacements: &[usize], used: &[SlotSet]) -> Vec<Sum> {
    let mut sums = Vec::new();
    for position in replacements.iter().copied().filter(|at| *at < layout.members() && !lost.contains(at)) {
        for stripe_group in 0..layout.stripe_groups() {
            let Some(column) = layout.column_of(stripe_group, position) else { continue };
            // The first check that covers a column has it with coefficient one, whatever the scheme: the sum is the
            // column.
            let check = (0..layout.code().checks()).find(|check| layout.code().covers(*check, column));
            let write_set = WriteSet {
                layout,
                stripe_group,
                has: used,
                stripes: stripes_of(layout, stripe_group, &[column], used),
                combiner: layout.code().combiner_of(&[check.expect("every column is in some check")]),
                targets: vec![Target { position, sums: vec![0], purpose: Use::Column(column) }],
            };
            sums.extend(write_set.sum(vec![(position, Share::Column(column))], Route::Direct));
        }
    }
    sums
}

/// Returns the sums for checks that the new process of their logical rank does not have. They are made again when all
/// columns exist again.
fn renewing(layout: &Layout, replacements: &[usize], used: &[SlotSet], route: Route) -> Vec<Sum> {
    let mut sums = Vec::new();
    for stripe_group in 0..layout.stripe_groups() {
        for (bundle, columns) in bundles(layout) {
            let holder = |check: &usize| layout.check_holder(stripe_group, *check);
            let checks: Vec<usize> = bundle.into_iter().filter(|check| replacements.contains(&holder(check))).collect();
            if checks.is_empty() {
                continue;
            }
            let targets = checks.iter().enumerate().map(|(sum, check)| Target {
                position: holder(check),
                sums: vec![sum],
                purpose: Use::Check { check: *check, update: false },
            });
            let shares =
                columns.iter().map(|column| (layout.column_holder(stripe_group, *column), Share::Column(*column)));
            let write_set = WriteSet {
                layout,
                stripe_group,
                has: used,
                stripes: stripes_of(layout, stripe_group, &columns, used),
                combiner: layout.code().combiner_of(&checks),
                targets: targets.collect(),
            };
            sums.extend(write_set.sum(shares.collect(), route));
        }
    }
    sums
}

/// Returns the stripes in which one of the columns has something.
fn stripes_of(layout: &Layout, stripe_group: usize, columns: &[usize], has: &[SlotSet]) -> Vec<u32> {
    let mut stripes = SlotSet::default();
    for column in columns {
        stripes.extend(&layout.stripes_of(*column, &has[layout.column_holder(stripe_group, *column)]));
    }
    stripes.iter().collect()
}

/// Returns for each piece the stripes in which a column has something.
fn present(layout: &Layout, pieces: Chunks<'_, u32>, column: usize, has: &SlotSet) -> Vec<u64> {
    let bits = |piece: &[u32]| {
        let acknowledged = piece.iter().enumerate().filter(|(_, stripe)| has.contains(layout.slot(column, **stripe)));
        acknowledged.fold(0, |bits, (at, _)| bits | 1 << at)
    };
    pieces.map(bits).collect()
}

/// Returns one bit for each of the stripes of a piece.
fn all(stripes: &[u32]) -> u64 {
    u64::MAX >> (u64::BITS as usize - stripes.len())
}

/// Returns the stripes in each piece, for this many stripes and sums that travel together.
pub(super) fn stripes_each(stripes: usize, sums: usize) -> usize {
    if stripes <= AT_ONCE as usize * STRIPES_MAX { STRIPES_MAX } else { (PIECE_PAGES / sums).max(1) }
}

struct WriteSet<'d> {
    layout: &'d Layout,
    stripe_group: usize,
    has: &'d [SlotSet],
    stripes: Vec<u32>,
    combiner: Combiner,
    targets: Vec<Target>,
}

impl WriteSet<'_> {
    /// Creates the sum; `None` if there is nothing to add, or no target.
    fn sum(self, shares: Vec<(usize, Share)>, route: Route) -> Option<Sum> {
        if self.stripes.is_empty() || self.targets.is_empty() {
            return None;
        }
        let (count, width) = (shares.len(), self.combiner.checks());
        let is_direct = route == Route::Direct || count == 1;
        // If no hop passes sums on, count only the most sums of any target.
        let together = self.targets.iter().map(|target| target.sums.len()).max().filter(|_| is_direct);
        let stripes_each = stripes_each(self.stripes.len(), together.unwrap_or(width));
        let pieces = || self.stripes.chunks(stripes_each);
        let mut contributors: Vec<Contributor> = shares
            .into_iter()
            .enumerate()
            .map(|(index, (position, share))| {
                let own = match share {
                    Share::Column(column) => {
                        debug_assert_eq!(self.layout.column_holder(self.stripe_group, column), position);
                        present(self.layout, pieces(), column, &self.has[position])
                    }
                    // A check has something in every stripe.
                    Share::Check { .. } => pieces().map(all).collect(),
                };
                let parent = parent(route, index, count);
                Contributor { position, share, parent, below: own.clone(), own, children: Vec::new() }
            })
            .collect();
        // Parents have higher numbers, so one pass upwards collects what is below each contributor.
        for index in 0..count {
            let Some(parent) = contributors[index].parent else { continue };
            let below = contributors[index].below.clone();
            contributors[parent].below.iter_mut().zip(below).for_each(|(bits, more)| *bits |= more);
            contributors[parent].children.push(index);
        }
        Some(Sum {
            width,
            stripes: self.stripes,
            stripes_each,
            combiner: self.combiner,
            contributors,
            targets: self.targets,
            repair: None,
            first_piece: 0,
        })
    }
}
