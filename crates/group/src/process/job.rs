//! A process's part in encoding or rebuilding one group: first everybody learns the descriptions, then a transfer runs.

use super::laying::Laying;
use super::read_now;
use crate::buffers::Buffers;
use crate::decide::Restore;
use crate::description::{Description, Fingerprint, Outline};
use crate::identity::{EpochId, Rank, Seat};
use crate::layout::Layout;
use crate::message::Data;
use crate::payload::Payload;
use crate::plan::{Plan, WayBack};
use crate::shelf::{Damaged, PieceId, Place, Shelf, compare};
use crate::slots::SlotSet;
use crate::transfer::{Costs, FIRST_WINDOW_END, Pages, Route, Seating, Task, Transfer, TransferError, TransferPlan};
use standfast_core::PAGE_BYTES;
use standfast_core::delta::Page;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Why a process cannot do its part.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A page of its own is not what was written.
    Damaged(Damaged),
    /// For people.
    Other(String),
}

impl From<String> for Trouble {
    fn from(reason: String) -> Self {
        Self::Other(reason)
    }
}

impl From<TransferError> for Trouble {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Damaged(damaged) => Self::Damaged(damaged),
            other => Self::Other(other.to_string()),
        }
    }
}

/// Work on one group.
#[derive(Debug)]
pub(super) struct Job {
    plan: Arc<Plan>,
    group: usize,
    epoch: EpochId,
    kind: Kind,
    seating: Seating,
    sending: Sending,
    /// Of the members, as they become known; with what changed.
    outlines: BTreeMap<usize, (Description, SlotSet)>,
    /// Where checks are made anew: of the members what may have changed, and what is held.
    drafts: BTreeMap<usize, (SlotSet, SlotSet)>,
    /// This member's own piece.
    laying: Option<Laying>,
    /// Parts that came before all was described: of one window, since nobody has been told a floor from here. They are taken
    /// up as soon as there is a transfer.
    pending: VecDeque<(Rank, Data)>,
    transfer: Option<Transfer>,
}

/// How it sends.
#[derive(Clone, Debug)]
pub(super) struct Sending {
    /// This process.
    pub(super) me: Rank,
    /// By which the way is chosen.
    pub(super) costs: Costs,
    /// Whether differences travel in word form where that pays.
    pub(super) compress: bool,
    /// Where buffers come from and go to.
    pub(super) buffers: Buffers,
}

#[derive(Clone, Debug)]
enum Kind {
    /// With whether checks are made anew.
    Encode { piece: PieceId, base: Option<PieceId>, anew: bool },
    /// With the positions that this process takes and has nothing of.
    Rebuild { heirs: Vec<usize> },
}

impl Job {
    /// A seat's part in a new epoch.
    pub(super) fn encode(
        plan: &Arc<Plan>,
        (piece, base): (PieceId, Option<PieceId>),
        seats: &[(Seat, Rank)],
        sending: Sending,
        anew: bool,
    ) -> Self {
        let (group, _) = plan.place(piece.seat);
        let seated = by_position(plan, group, seats);
        let seating = Seating { me: sending.me, givers: seated.clone(), takers: seated };
        Self::new(plan, group, piece.epoch, Kind::Encode { piece, base, anew }, seating, sending)
    }

    /// This member's own piece, of which everything is laid unless checks are made anew.
    pub(super) fn lay(&mut self, laying: Laying) {
        self.laying = Some(laying);
    }

    /// A process's parts in a recovery: one for each group in which it has or takes something, and something is lost.
    pub(super) fn rebuild(
        plan: &Arc<Plan>,
        epoch: EpochId,
        restore: &Restore,
        sending: Sending,
        shelf: &mut dyn Shelf,
    ) -> BTreeMap<usize, Self> {
        let me = sending.me;
        let mine = restore.seats.iter().chain(&restore.sources).filter(|(_, rank)| *rank == me);
        let groups: BTreeSet<usize> = mine.map(|(seat, _)| plan.place(*seat).0).collect();
        let mut jobs = BTreeMap::new();
        for group in groups {
            let givers = by_position(plan, group, &restore.sources);
            let takers = by_position(plan, group, &restore.seats);
            let is_heir = |at: &usize| takers[*at].is_some() && takers[*at] != givers[*at];
            let heirs: Vec<usize> = (0..takers.len()).filter(is_heir).collect();
            if heirs.is_empty() {
                continue;
            }
            let own: Vec<usize> = heirs.into_iter().filter(|at| takers[*at] == Some(me)).collect();
            for position in &own {
                shelf.open(PieceId { epoch, seat: plan.seat(group, *position) }, None);
            }
            let seating = Seating { me, givers, takers };
            let mut job = Self::new(plan, group, epoch, Kind::Rebuild { heirs: own }, seating, sending.clone());
            job.learn_own(shelf);
            jobs.insert(group, job);
        }
        jobs
    }

    fn new(plan: &Arc<Plan>, group: usize, epoch: EpochId, kind: Kind, seating: Seating, sending: Sending) -> Self {
        let plan = plan.clone();
        let (outlines, drafts, pending) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Self { plan, group, epoch, kind, seating, sending, outlines, drafts, laying: None, pending, transfer: None }
    }

    pub(super) fn group(&self) -> usize {
        self.group
    }

    pub(super) fn epoch(&self) -> EpochId {
        self.epoch
    }

    /// The other processes that take part.
    pub(super) fn others(&self) -> BTreeSet<Rank> {
        let everybody = self.seating.givers.iter().chain(&self.seating.takers).flatten().copied();
        everybody.filter(|rank| *rank != self.seating.me).collect()
    }

    fn layout(&self) -> &Layout {
        self.plan.layout(self.group)
    }

    fn piece(&self, position: usize) -> PieceId {
        PieceId { epoch: self.epoch, seat: self.plan.seat(self.group, position) }
    }

    fn lends(&self) -> bool {
        self.seating.givers.contains(&Some(self.seating.me))
    }

    /// Descriptions beside a piece that this process lends.
    fn learn_own(&mut self, shelf: &dyn Shelf) {
        let lent = (0..self.seating.givers.len()).find(|at| self.seating.givers[*at] == Some(self.seating.me));
        if let Some(position) = lent {
            shelf.descriptions(self.piece(position)).to_vec().into_iter().for_each(|it| self.learn(it));
        }
    }

    fn learn(&mut self, description: Description) {
        let (_, position) = self.plan.place(description.seat);
        let used = description.map.used();
        self.outlines.insert(position, (description, used));
    }

    /// In a recovery the first who has a piece tells the descriptions to those who have none.
    pub(super) fn hello(&self) -> Vec<(Rank, Data)> {
        let first = self.seating.givers.iter().flatten().next();
        if matches!(self.kind, Kind::Encode { .. }) || first != Some(&self.seating.me) {
            return Vec::new();
        }
        let ignorant = self.others().into_iter().filter(|rank| !self.seating.givers.contains(&Some(*rank)));
        let description = |(description, _): &(Description, _)| Data::Description {
            epoch: self.epoch,
            description: description.clone(),
        };
        ignorant.flat_map(|rank| self.outlines.values().map(move |it| (rank, description(it)))).collect()
    }

    /// Takes what came from another process.
    ///
    /// # Errors
    /// What is wrong with it, or here.
    pub(super) fn take(
        &mut self,
        from: Rank,
        data: Data,
        payload: &mut dyn Payload,
        shelf: &mut dyn Shelf,
    ) -> Result<(), Trouble> {
        match data {
            Data::Outline { outline, .. } => self.take_outline(from, outline, shelf)?,
            Data::Draft { seat, changed, held, .. } => {
                let (_, position) = self.plan.place(seat);
                if !self.is_anew() || self.seating.givers[position] != Some(from) {
                    return Err(format!("process {} drafts seat {}, which is not asked for", from.0, seat.0).into());
                }
                self.drafts.insert(position, (changed, held));
            }
            Data::Description { description, .. } => {
                if matches!(self.kind, Kind::Encode { .. }) || self.lends() {
                    let seat = description.seat.0;
                    return Err(format!("process {} describes seat {seat}, which is known here", from.0).into());
                }
                self.learn(description);
            }
            Data::Floor { piece, .. } => match &mut self.transfer {
                Some(transfer) => transfer.floor(from, piece),
                None => self.pending.push_back((from, data)),
            },
            Data::Part(part) => match self.transfer.take() {
                Some(mut transfer) => {
                    let taken = transfer.receive(part, &mut self.pages(payload, shelf));
                    self.transfer = Some(transfer);
                    taken.map_err(|error| match error.into() {
                        Trouble::Other(reason) => format!("from process {}: {reason}", from.0).into(),
                        own @ Trouble::Damaged(_) => own,
                    })?;
                }
                None if part.piece < FIRST_WINDOW_END => self.pending.push_back((from, Data::Part(part))),
                None => {
                    return Err(format!("process {} sends piece {}, which is too early", from.0, part.piece).into());
                }
            },
        }
        self.start()?;
        while self.transfer.is_some()
            && let Some((from, data)) = self.pending.pop_front()
        {
            self.take(from, data, payload, shelf)?;
        }
        Ok(())
    }

    fn take_outline(&mut self, from: Rank, outline: Outline, shelf: &dyn Shelf) -> Result<(), String> {
        let (seat, (_, position)) = (outline.seat, self.plan.place(outline.seat));
        let Kind::Encode { base, .. } = &self.kind else {
            return Err(format!("process {} describes seat {} anew in a recovery", from.0, seat.0));
        };
        if self.seating.givers[position] != Some(from) {
            return Err(format!("process {} describes seat {}, on which it does not sit", from.0, seat.0));
        }
        let before = base.map_or(&[][..], |base| shelf.descriptions(base)).iter().find(|it| it.seat == seat);
        let description = outline.upon(before);
        let description = description.ok_or_else(|| format!("the description of seat {} is another here", seat.0))?;
        self.outlines.insert(position, (description, outline.changed));
        Ok(())
    }

    fn is_anew(&self) -> bool {
        matches!(self.kind, Kind::Encode { anew: true, .. })
    }

    /// Plans the transfer once all members are described, or drafted.
    fn start(&mut self) -> Result<(), String> {
        if self.transfer.is_some() {
            return Ok(());
        }
        let known = if self.is_anew() { self.drafts.len() } else { self.outlines.len() };
        if known < self.layout().members() {
            return match self.kind {
                // Nobody tells whoever has a piece what it should know.
                Kind::Rebuild { .. } if self.lends() => Err("a piece has not the descriptions of all members".into()),
                _ => Ok(()),
            };
        }
        let (sets, held): (Vec<SlotSet>, Option<Vec<SlotSet>>) = if self.is_anew() {
            (
                self.drafts.values().map(|it| it.0.clone()).collect(),
                Some(self.drafts.values().map(|it| it.1.clone()).collect()),
            )
        } else {
            (self.outlines.values().map(|(_, set)| set.clone()).collect(), None)
        };
        let positions = 0..self.layout().positions();
        let route = self.route(&sets);
        let task = match &self.kind {
            Kind::Encode { .. } => {
                let vacant = positions.filter(|at| self.seating.takers[*at].is_none()).collect();
                Task::Encode { changed: sets, held, vacant }
            }
            Kind::Rebuild { .. } => Task::Rebuild {
                lost: positions.clone().filter(|at| self.seating.givers[*at].is_none()).collect(),
                heirs: positions
                    .filter(|at| {
                        self.seating.takers[*at].is_some() && self.seating.takers[*at] != self.seating.givers[*at]
                    })
                    .collect(),
                used: sets,
            },
        };
        let plan = TransferPlan::new(self.layout(), &task, route).map_err(|error| error.to_string())?;
        let (name, layout, seating) = ((self.epoch, self.group as u32), self.layout().clone(), self.seating.clone());
        let compress = self.sending.compress && matches!(self.kind, Kind::Encode { anew: false, .. });
        let sending = (compress, self.sending.buffers.clone());
        self.transfer = Some(Transfer::new(name, plan, layout, seating, sending));
        Ok(())
    }

    /// The way that the shares take, from what everybody knows: so everybody comes to the same.
    fn route(&self, sets: &[SlotSet]) -> Route {
        let lost = self.seating.givers.iter().filter(|giver| giver.is_none()).count();
        let rebuilt = matches!(self.kind, Kind::Rebuild { .. }).then_some(lost);
        Route::of(self.sending.costs, self.layout(), sets, rebuilt)
    }

    /// Does what can be done, and returns what is to be sent.
    ///
    /// # Errors
    /// Why nothing can be done.
    pub(super) fn advance(
        &mut self,
        payload: &mut dyn Payload,
        shelf: &mut dyn Shelf,
    ) -> Result<Vec<(Rank, Data)>, Trouble> {
        self.start()?;
        let Some(mut transfer) = self.transfer.take() else { return Ok(Vec::new()) };
        let messages = transfer.advance(&mut self.pages(payload, shelf));
        let is_done = transfer.is_done();
        self.transfer = Some(transfer);
        let mut messages = messages?;
        if is_done && self.is_anew() {
            messages.extend(self.outline(payload, shelf)?);
        }
        Ok(messages)
    }

    /// What this member's piece has become, for all others.
    fn outline(&mut self, payload: &dyn Payload, shelf: &mut dyn Shelf) -> Result<Vec<(Rank, Data)>, String> {
        let Some(mut laying) = self.laying.take() else { return Ok(Vec::new()) };
        // Where nobody takes the checks of a class nobody has asked for its shares.
        laying.lay_rest(payload, shelf);
        let (description, changed) = laying.described();
        let outline = Outline::new(&description, changed);
        self.take_outline(self.sending.me, outline.clone(), shelf)?;
        let data = Data::Outline { epoch: self.epoch, outline };
        Ok(self.others().into_iter().map(|rank| (rank, data.clone())).collect())
    }

    /// Bytes of sums under way in it, and the most that they may be.
    pub(super) fn held_bytes(&self) -> Option<(usize, usize)> {
        self.transfer.as_ref().map(|transfer| (transfer.held_bytes(), transfer.held_bytes_max()))
    }

    /// Whether its transfer is too long to go at once.
    pub(super) fn moves_much(&self) -> bool {
        self.transfer.as_ref().is_some_and(Transfer::is_long)
    }

    pub(super) fn is_done(&self) -> bool {
        let is_described = self.outlines.len() == self.layout().members();
        is_described && self.transfer.as_ref().is_some_and(Transfer::is_done)
    }

    /// Checks what was rebuilt against what its owner had sealed, and lays the descriptions beside the piece.
    ///
    /// # Errors
    /// Which pages differ.
    pub(super) fn finish(&self, shelf: &mut dyn Shelf) -> Result<(), String> {
        let descriptions: Vec<_> = self.outlines.values().map(|(description, _)| description.clone()).collect();
        match &self.kind {
            Kind::Encode { piece, .. } => shelf.describe(*piece, descriptions),
            Kind::Rebuild { heirs } => {
                for position in heirs {
                    let piece = self.piece(*position);
                    shelf.describe(piece, descriptions.clone());
                    if self.plan.is_member(piece.seat) {
                        compare(shelf, piece).map_err(|error| format!("after rebuilding, {error}"))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn pages<'p>(&'p mut self, payload: &'p mut dyn Payload, shelf: &'p mut dyn Shelf) -> SeatPages<'p> {
        let (pieces, live) = match self.kind {
            Kind::Encode { piece, base, anew } => {
                let laying = self.laying.as_mut();
                (Vec::new(), Some(Live { piece, base, anew, way_back: self.plan.way_back(), laying }))
            }
            Kind::Rebuild { .. } => ((0..self.layout().positions()).map(|at| self.piece(at)).collect(), None),
        };
        SeatPages { payload, shelf, pieces, live }
    }
}

fn by_position(plan: &Plan, group: usize, seats: &[(Seat, Rank)]) -> Vec<Option<Rank>> {
    let mut places = vec![None; plan.layout(group).positions()];
    for (seat, rank) in seats {
        let (of, position) = plan.place(*seat);
        if of == group {
            places[position] = Some(*rank);
        }
    }
    places
}

/// The pages of this process, for a transfer.
struct SeatPages<'p> {
    payload: &'p mut dyn Payload,
    shelf: &'p mut dyn Shelf,
    /// For a rebuilding the piece of each position.
    pieces: Vec<PieceId>,
    /// For a new epoch.
    live: Option<Live<'p>>,
}

/// The piece of this seat that is being made.
struct Live<'p> {
    piece: PieceId,
    base: Option<PieceId>,
    /// Whether checks are made anew.
    anew: bool,
    way_back: WayBack,
    /// A member's.
    laying: Option<&'p mut Laying>,
}

impl SeatPages<'_> {
    /// In a recovery. What is damaged is the piece, also where it shares the page with what it stands upon.
    fn read_old(&self, position: usize, place: Place, page: &mut Page) -> Result<(), Damaged> {
        let piece = self.pieces[position];
        self.shelf.read(piece, place, page).map(drop).map_err(|_| Damaged { piece, place })
    }
}

impl Pages for SeatPages<'_> {
    fn column(&mut self, position: usize, slot: u32, page: &mut Page) -> Result<(), Damaged> {
        let Some(Live { piece, anew, way_back, laying, .. }) = &mut self.live else {
            return self.read_old(position, Place::Slot(slot), page);
        };
        let laying = laying.as_deref_mut().expect("only members add columns, and they lay their pieces");
        if laying.lacks(slot) {
            laying.lay(slot, self.payload, self.shelf, page);
            return Ok(());
        }
        if *anew {
            return self.shelf.read(*piece, Place::Slot(slot), page).map(drop);
        }
        let mut before = [0; PAGE_BYTES];
        self.shelf.read_base(*piece, Place::Slot(slot), &mut before)?;
        read_now(self.payload, laying.used(), slot, page);
        let place = Place::Slot(slot);
        // What was laid went past the caches, and is the same unless somebody has written since.
        if *way_back == WayBack::Relaunch && Fingerprint::of(page) != self.shelf.known(*piece, place) {
            self.shelf.read(*piece, place, page)?;
        }
        page.iter_mut().zip(&before).for_each(|(byte, before)| *byte ^= before);
        Ok(())
    }

    fn check(&mut self, position: usize, check: usize, row: u32, page: &mut Page) -> Result<(), Damaged> {
        self.read_old(position, Place::Check { check: check as u32, row }, page)
    }

    fn take_check(
        &mut self,
        position: usize,
        check: usize,
        row: u32,
        page: &Page,
        update: bool,
    ) -> Result<(), Damaged> {
        let place = Place::Check { check: check as u32, row };
        let piece = self.live.as_ref().map_or_else(|| self.pieces[position], |live| live.piece);
        if !update {
            self.shelf.write(piece, place, page, Fingerprint::of(page));
            return Ok(());
        }
        let mut sum = [0; PAGE_BYTES];
        self.shelf.read(piece, place, &mut sum)?;
        sum.iter_mut().zip(page).for_each(|(sum, byte)| *sum ^= byte);
        self.shelf.write(piece, place, &sum, Fingerprint::of(&sum));
        Ok(())
    }

    fn take_column(&mut self, position: usize, slot: u32, page: &Page) {
        self.shelf.write(self.pieces[position], Place::Slot(slot), page, Fingerprint::of(page));
    }

    fn expect(&self, position: usize, place: Place) {
        let Some(Live { piece, base, laying, .. }) = &self.live else {
            return self.shelf.expect(self.pieces[position], place);
        };
        match (place, laying, base) {
            (Place::Check { .. }, ..) => self.shelf.expect(*piece, place),
            (Place::Slot(slot), Some(laying), _) if laying.lacks(slot) => self.payload.expect(slot),
            // Of the difference both sides: the program's page may have been looked at long ago.
            (Place::Slot(slot), _, Some(base)) => {
                self.shelf.expect(*base, place);
                self.payload.expect(slot);
            }
            (Place::Slot(_), _, None) => {}
        }
    }
}
