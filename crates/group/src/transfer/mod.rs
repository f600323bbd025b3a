//! Encoding and rebuilding, byte by byte: one process's part in a transfer (D6, D7). Messages in, messages out.
//!
//! Shares travel to their sum along the route of the [`TransferPlan`]. A process adds what arrives to an accumulator and
//! adds its own share once. It passes the accumulator on when all awaited parts have arrived. Adding is XOR, so the order
//! of arrival does not matter. Pieces are numbered consecutively, and a process works on a window of them. It reports its
//! *low-water mark*, the first unfinished piece, in steps to its senders. They send it no parts from low-water mark +
//! [`WINDOW`] on. Such parts wait with their sender, whose piece is unfinished until they are sent. A transfer of few
//! pieces has a window as long as itself: no process waits for a low-water mark, and none is reported.
//!
//! So for each of its nodes in a tree, a process holds one window of sums, in progress or waiting
//! ([`Transfer::held_bytes_max`]), however slow another process is. Parts that were sent but not yet received belong to
//! the receiver's window.
//!
//! There is no deadlock. Let *k* be the lowest low-water mark of all:
//!
//! 1. No part of piece *k* waits for long. Its receiver's low-water mark is *k* or higher. The receiver has reported it,
//!    or one less than a step below it, which is less than a window, or one from which on the window reaches to the end.
//! 2. No process holds back its own share of piece *k*. In the second half a process does so until its own low-water mark
//!    has reached that half, and a process with a task for piece *k* has exactly that low-water mark.
//! 3. Within a piece, parts go from hops to hops with higher numbers, from these to targets, from targets to
//!    replacements, whatever the route. Each of these nodes has a process: lost positions contribute nothing in the first
//!    half, and are taken by then; a vacant logical rank is no target. The first incomplete node in this order has been
//!    sent all its parts by complete nodes, and it completes when they arrive.
//!
//! So every process whose low-water mark is *k* eventually raises it, until the lowest low-water mark is the end.

mod accumulator;
mod error;
mod laid_out;
mod part;
mod plan;
mod route;
#[cfg(test)]
mod tests;

pub use error::TransferError;
pub use part::PartError;
pub(crate) use part::WORTH;
pub use plan::{PIECE_PAGES, Share, TransferPlan, TransferTask, Use};
pub use route::{Costs, Route, Sample};

use crate::buffers::Buffers;
use crate::identity::{EpochId, Rank};
use crate::layout::Layout;
use crate::message::{Data, Node, Part};
use crate::shard::{AHEAD, Damaged, Place};
use accumulator::{Accumulator, Kept, PageBlock, add_share};
use plan::{Replacement, Sum, Target};
use standfast_core::PAGE_BYTES;
use standfast_core::delta::Page;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most pieces in progress at once.
pub const WINDOW: u32 = 16;
/// Senders are informed of the low-water mark when it has risen by this many pieces since the last report.
const STEP: u32 = WINDOW / 2;
/// Most pieces of a transfer that goes at once.
pub const AT_ONCE: u32 = 24;
/// No part of this piece or a later one is sent before the receiver has reported a low-water mark.
pub const FIRST_WINDOW_END: u32 = if WINDOW > AT_ONCE { WINDOW } else { AT_ONCE };

/// A part is kept as it arrived if its buffer is at most this many times as large as its pages.
const ROOM_MAX: usize = 4;

/// The pages of a process, read and written by a transfer.
pub trait Pages {
    /// Reads what a position adds as a column: the difference, or the content, of one of its slots.
    ///
    /// # Errors
    /// [`Damaged`]
    fn column(&mut self, position: usize, slot: u32, page: &mut Page) -> Result<(), Damaged>;
    /// Reads a page of a check that a position holds.
    ///
    /// # Errors
    /// [`Damaged`]
    fn check(&mut self, position: usize, check: usize, stripe: u32, page: &mut Page) -> Result<(), Damaged>;
    /// Takes a check's page, or with `update` a page to add to it.
    ///
    /// # Errors
    /// [`Damaged`] if the page to add to is.
    fn take_check(
        &mut self,
        position: usize,
        check: usize,
        stripe: u32,
        page: &Page,
        update: bool,
    ) -> Result<(), Damaged>;
    /// Takes a rebuilt page.
    fn take_column(&mut self, position: usize, slot: u32, page: &Page);
    /// A hint that a page of a position is about to be read or updated.
    fn expect(&self, _position: usize, _place: Place) {}
}

/// The processes between which a transfer runs.
#[derive(Clone, Debug)]
pub struct TransferRanks {
    /// This process.
    pub me: Rank,
    /// For each position, the process that holds its shard and adds from it. After a loss, the replacement does so once
    /// it has the shard.
    pub sources: Vec<Option<Rank>>,
    /// For each position, the process that has it now and takes the results.
    pub sinks: Vec<Option<Rank>>,
}

/// One process's part in a transfer.
#[derive(Debug)]
pub struct Transfer {
    epoch: EpochId,
    group: u32,
    plan: TransferPlan,
    layout: Layout,
    ranks: TransferRanks,
    compress: bool,
    /// The remaining tasks of this process, by piece.
    tasks: BTreeMap<u32, BTreeMap<(u32, Node), Accumulator>>,
    /// Tasks that still need the process's own share, and tasks that are complete.
    owed: VecDeque<Spot>,
    ready: Vec<Spot>,
    low_water_mark: u32,
    /// The low-water mark that was last reported to the others.
    acknowledged: u32,
    /// First piece whose tasks are not laid out yet.
    laid_out: u32,
    /// Processes that send parts here, and get the low-water mark.
    senders: BTreeSet<Rank>,
    /// The low-water marks of the others, and the parts that wait for these to rise.
    low_water_marks: BTreeMap<Rank, u32>,
    waiting: BTreeMap<Rank, Vec<(u32, Part)>>,
    out: Vec<(Rank, Data)>,
    buffers: Buffers,
    block: Box<PageBlock>,
}

/// A piece, a sum, and a node of its tree.
type Spot = (u32, u32, Node);

/// The parts of a complete sum that go to one receiver.
struct Onward {
    to: Option<Rank>,
    node: Node,
    stripes: u64,
    /// The sums that go there.
    sums: Vec<usize>,
}

impl Transfer {
    /// Creates this process's part in the plan of a group. With `compress`, differences travel in word form if that pays.
    pub fn new(
        epoch: EpochId,
        group: u32,
        plan: TransferPlan,
        layout: Layout,
        ranks: TransferRanks,
        compress: bool,
        buffers: Buffers,
    ) -> Self {
        let everybody = ranks.sources.iter().chain(&ranks.sinks).flatten().copied();
        let low_water_marks = everybody.filter(|rank| *rank != ranks.me).map(|rank| (rank, 0)).collect();
        let mut transfer = Self {
            epoch,
            group,
            plan,
            layout,
            ranks,
            compress,
            tasks: BTreeMap::new(),
            owed: VecDeque::new(),
            ready: Vec::new(),
            low_water_mark: 0,
            acknowledged: 0,
            laid_out: 0,
            senders: BTreeSet::new(),
            low_water_marks,
            waiting: BTreeMap::new(),
            out: Vec::new(),
            buffers,
            block: Box::new([[0; PAGE_BYTES]; _]),
        };
        transfer.senders = transfer.plan.sums.iter().flat_map(|sum| transfer.senders_of(sum)).collect();
        transfer
    }

    /// Reports whether this process's part is done. Others may still wait for parts that [`Transfer::advance`] returns.
    pub fn is_done(&self) -> bool {
        self.low_water_mark == self.plan.pieces
    }

    /// Reports whether the transfer goes window by window.
    pub fn is_long(&self) -> bool {
        self.plan.pieces > AT_ONCE
    }

    /// Returns the bytes of sums that it holds: in progress, and complete but waiting for their receiver.
    pub fn held_bytes(&self) -> usize {
        let making = self.tasks.values().flat_map(BTreeMap::values).map(Accumulator::bytes);
        making.sum::<usize>() + self.waiting.values().flatten().map(|(_, part)| part.bytes.len()).sum::<usize>()
    }

    /// Returns the upper bound of these bytes: one window for each of this process's nodes in a tree.
    pub fn held_bytes_max(&self) -> usize {
        let of_piece = |number: u32| {
            let here = self.plan.sums.iter().filter_map(|sum| Some((sum, self.piece_of(sum, number)?)));
            here.map(|(sum, piece)| self.pages_here(sum, piece)).sum::<usize>()
        };
        let pages: Vec<usize> = (0..self.plan.pieces).map(of_piece).collect();
        let windows = pages.windows(pages.len().min(self.plan.window() as usize).max(1));
        windows.map(|window| window.iter().sum::<usize>()).max().unwrap_or(0) * PAGE_BYTES
    }

    /// Processes a part that arrived.
    ///
    /// # Errors
    /// [`TransferError`]
    pub fn receive(&mut self, part: Part, pages: &mut dyn Pages) -> Result<(), TransferError> {
        self.lay_out();
        self.add_part(part)?;
        self.work(pages)
    }

    /// Records the low-water mark of another process.
    pub fn low_water_mark(&mut self, from: Rank, piece: u32) {
        let low_water_mark = self.low_water_marks.entry(from).or_insert(piece);
        *low_water_mark = piece.max(*low_water_mark);
        let open = *low_water_mark + self.plan.window();
        let Some(waiting) = self.waiting.get_mut(&from) else { return };
        let (ready, rest) = std::mem::take(waiting).into_iter().partition(|(piece, _)| *piece < open);
        *waiting = rest;
        let ready: Vec<(u32, Part)> = ready;
        self.out.extend(ready.into_iter().map(|(_, part)| (from, Data::Part(part))));
    }

    /// Does all that can be done, and returns the messages to send.
    ///
    /// # Errors
    /// [`TransferError::Damaged`]
    pub fn advance(&mut self, pages: &mut dyn Pages) -> Result<Vec<(Rank, Data)>, TransferError> {
        self.work(pages)?;
        Ok(std::mem::take(&mut self.out))
    }

    /// Works until everything left needs another part.
    fn work(&mut self, pages: &mut dyn Pages) -> Result<(), TransferError> {
        loop {
            self.lay_out();
            self.give_shares(pages)?;
            let ready = std::mem::take(&mut self.ready);
            for (piece, sum, node) in &ready {
                let tasks = self.tasks.get_mut(piece).expect("it was found there");
                let accumulator = tasks.remove(&(*sum, *node)).expect("it was found there");
                self.finish(*piece, *sum, *node, accumulator, pages)?;
            }
            let before = self.low_water_mark;
            self.raise_low_water_mark();
            if ready.is_empty() && self.low_water_mark == before {
                return Ok(());
            }
        }
    }

    /// Raises the low-water mark. A piece is unfinished until its parts are sent: a process that waits for a slow one
    /// accepts no more either.
    fn raise_low_water_mark(&mut self) {
        let waiting = self.waiting.values().flatten().map(|(piece, _)| *piece).min();
        let end = waiting.unwrap_or(self.laid_out);
        while self.low_water_mark < end && self.tasks.get(&self.low_water_mark).is_none_or(BTreeMap::is_empty) {
            self.tasks.remove(&self.low_water_mark);
            self.low_water_mark += 1;
        }
        // If a reported low-water mark puts the end within the window, no other report is needed.
        if self.low_water_mark >= self.acknowledged + STEP && self.acknowledged + self.plan.window() < self.plan.pieces
        {
            self.acknowledged = self.low_water_mark;
            let low_water_mark =
                Data::LowWaterMark { epoch: self.epoch, group: self.group, piece: self.low_water_mark };
            self.out.extend(self.senders.iter().map(|rank| (*rank, low_water_mark.clone())));
        }
    }

    /// Adds this process's own shares to the pieces of the window.
    fn give_shares(&mut self, pages: &mut dyn Pages) -> Result<(), TransferError> {
        // What is rebuilt here must be complete before it is added elsewhere.
        let end = if self.low_water_mark >= self.plan.second { u32::MAX } else { self.plan.second };
        while let Some((number, sum_index, node)) = self.owed.pop_front_if(|(piece, ..)| *piece < end) {
            let sum = &self.plan.sums[sum_index as usize];
            let piece = (number - sum.first_piece) as usize;
            let Node::Hop(index) = node else { unreachable!("only hops have shares") };
            let tasks = self.tasks.get_mut(&number).expect("it was found there");
            let accumulator = tasks.get_mut(&(sum_index, node)).expect("it was found there");
            accumulator.make_room(sum.width, &self.buffers);
            add_share(sum, piece, index as usize, &self.layout, accumulator, pages, &mut self.block)?;
            accumulator.owes = false;
            if accumulator.missing == 0 {
                let accumulator = tasks.remove(&(sum_index, node)).expect("it was found there");
                // Finish it now, while it is in the cache.
                self.finish(number, sum_index, node, accumulator, pages)?;
            }
        }
        Ok(())
    }

    fn add_part(&mut self, part: Part) -> Result<(), TransferError> {
        let unexpected = || TransferError::Unexpected { sum: part.sum, piece: part.piece, to: part.to };
        let sum = self.plan.sums.get(part.sum as usize).ok_or_else(unexpected)?;
        let width = match part.to {
            Node::Hop(_) => sum.width,
            Node::Target(index) => sum.targets.get(index as usize).ok_or_else(unexpected)?.sums.len(),
            Node::Replacement(_) => 1,
        };
        let tasks = self.tasks.get_mut(&part.piece).ok_or_else(unexpected)?;
        let accumulator = tasks.get_mut(&(part.sum, part.to)).ok_or_else(unexpected)?;
        let stripes = accumulator.stripes();
        let come = width * part.stripes.count_ones() as usize;
        let is_other = part.sums as usize != width || part.stripes & !stripes != 0 || part.syndromes.len() != come;
        if accumulator.missing == 0 || is_other {
            return Err(unexpected());
        }
        let pages = width * stripes.count_ones() as usize;
        let is_whole = !part.words && part.stripes == stripes && part.bytes.len() == pages * PAGE_BYTES;
        let fills_its_room = part.bytes.len() * ROOM_MAX >= part.bytes.capacity();
        let is_kept = !part.words && part.bytes.len() == come * PAGE_BYTES && fills_its_room && sum.ends_at(part.to);
        let left = if is_whole {
            accumulator.begin_with(part.bytes, &part.syndromes).map(|bytes| (bytes, part.syndromes))
        } else if is_kept {
            let part = Kept { stripes: part.stripes, bytes: part.bytes, syndromes: part.syndromes };
            accumulator.keep(part).map(|part| (part.bytes, part.syndromes))
        } else {
            Some((part.bytes, part.syndromes))
        };
        if let Some((bytes, syndromes)) = left {
            accumulator.gather(&self.buffers);
            accumulator.make_room(width, &self.buffers);
            let mut syndromes = syndromes.into_iter();
            part::unpack(&bytes, width, part.stripes, part.words, |sum, stripe, page| {
                accumulator.add(sum, stripe, page, syndromes.next().expect("there is one for each page"));
            })?;
            self.buffers.put(bytes);
        }
        accumulator.missing -= 1;
        if accumulator.missing == 0 && !accumulator.owes {
            self.ready.push((part.piece, part.sum, part.to));
        }
        Ok(())
    }

    /// Passes on or uses a sum that is complete here.
    fn finish(
        &mut self,
        number: u32,
        sum_index: u32,
        node: Node,
        mut it: Accumulator,
        pages: &mut dyn Pages,
    ) -> Result<(), TransferError> {
        let sum = &self.plan.sums[sum_index as usize];
        let piece = (number - sum.first_piece) as usize;
        let had = it.stripes();
        it.begin_rest(&self.buffers);
        let onward = match node {
            Node::Hop(index) => {
                let contributor = &sum.contributors[index as usize];
                let stripes = contributor.below(piece);
                if let Some(parent) = contributor.parent {
                    let to = self.source(sum, sum.contributors[parent].position);
                    vec![Onward { to, node: Node::Hop(parent as u32), stripes, sums: (0..sum.width).collect() }]
                } else {
                    let onward = |(index, target): (usize, &Target)| {
                        let to = self.ranks.sinks[target.position];
                        Onward { to, node: Node::Target(index as u32), stripes, sums: target.sums.clone() }
                    };
                    sum.targets.iter().enumerate().map(onward).collect()
                }
            }
            Node::Target(index) => self.take_sum(sum, piece, &sum.targets[index as usize], &mut it, pages)?,
            Node::Replacement(index) => {
                let (_, replacements) = sum.repair.as_ref().expect("only a repair has replacements");
                inherit(&self.layout, sum, &replacements[index as usize], piece, it.proved(0), pages)?;
                Vec::new()
            }
        };
        let (width, mut left) = (sum.width, Some(it));
        for (index, Onward { to, node, stripes, sums }) in onward.iter().enumerate() {
            let to = to.expect("only ranks that are present are sent something");
            let it = left.as_ref().expect("only the last takes it");
            let each: Vec<&[u8]> = sums.iter().map(|index| it.sum(*index)).collect();
            let syndromes = sums.iter().flat_map(|index| it.syndromes_in(*stripes, *index)).collect();
            let in_words = if self.compress { part::packed(&each, had, *stripes) } else { None };
            let words = in_words.is_some();
            let takes_all = index + 1 == onward.len() && *stripes == had && sums.iter().copied().eq(0..width);
            let bytes = match in_words {
                Some(bytes) => bytes,
                None if takes_all => left.take().expect("it was there a moment ago").into_bytes(),
                None => part::raw(&each, had, *stripes, &self.buffers),
            };
            let (epoch, group, sums) = (self.epoch, self.group, sums.len() as u32);
            let (sum, piece, stripes) = (sum_index, number, *stripes);
            let part = Part { epoch, group, sum, piece, to: *node, stripes, sums, words, syndromes, bytes };
            self.send(to, number, part);
        }
        if let Some(it) = left {
            it.into_buffers().for_each(|bytes| self.buffers.put(bytes));
        }
        Ok(())
    }

    /// Uses a complete sum for the purpose of its target; returns what other processes get of it.
    fn take_sum(
        &self,
        sum: &Sum,
        piece: usize,
        target: &Target,
        it: &mut Accumulator,
        pages: &mut dyn Pages,
    ) -> Result<Vec<Onward>, TransferError> {
        let position = target.position;
        let stripes = sum.piece_stripes(piece);
        match target.purpose {
            Use::Check { check, update } => {
                let place = |stripe: &u32| Place::Check { check: check as u32, stripe: *stripe };
                let mut ahead = stripes.iter().skip(AHEAD);
                for (stripe, page) in stripes.iter().zip(it.proved(0)) {
                    ahead
                        .next()
                        .filter(|_| update)
                        .into_iter()
                        .for_each(|stripe| pages.expect(position, place(stripe)));
                    pages.take_check(position, check, *stripe, page?, update)?;
                }
                Ok(Vec::new())
            }
            Use::Column(column) => {
                for (stripe, page) in stripes.iter().zip(it.proved(0)) {
                    pages.take_column(position, self.layout.slot(column, *stripe), page?);
                }
                Ok(Vec::new())
            }
            Use::Solve => {
                let (repair, replacements) = sum.repair.as_ref().expect("only a repair is solved");
                (0..sum.width).flat_map(|index| it.proved(index)).try_for_each(|page| page.map(drop))?;
                repair.solve(&mut it.sums_mut());
                let mut onward = Vec::new();
                for (solved, replacement) in replacements.iter().enumerate() {
                    let stripes = replacement.stripes[piece];
                    if replacement.position == position {
                        let column = it.sum(solved).as_chunks().0.iter().map(Ok);
                        inherit(&self.layout, sum, replacement, piece, column, pages)?;
                    } else if stripes != 0 {
                        let to = self.ranks.sinks[replacement.position];
                        onward.push(Onward { to, node: Node::Replacement(solved as u32), stripes, sums: vec![solved] });
                    }
                }
                if !onward.is_empty() {
                    it.renew_syndromes();
                }
                Ok(onward)
            }
        }
    }

    /// Sends a part, or keeps it until its receiver's window reaches its piece. A part for this process itself is handed
    /// over at once.
    fn send(&mut self, to: Rank, piece: u32, part: Part) {
        if to == self.ranks.me {
            self.add_part(part).expect("what a process sends itself, it waits for");
        } else if piece < self.low_water_marks[&to] + self.plan.window() {
            self.out.push((to, Data::Part(part)));
        } else {
            self.waiting.entry(to).or_default().push((piece, part));
        }
    }
}

fn inherit<'p>(
    layout: &Layout,
    sum: &Sum,
    replacement: &Replacement,
    piece: usize,
    column: impl Iterator<Item = Result<&'p Page, TransferError>>,
    pages: &mut dyn Pages,
) -> Result<(), TransferError> {
    let content = sum.piece_stripes(piece).iter().zip(column).enumerate();
    for (_, (stripe, page)) in content.filter(|(at, _)| replacement.stripes[piece] >> at & 1 == 1) {
        pages.take_column(replacement.position, layout.slot(replacement.column, *stripe), page?);
    }
    Ok(())
}
