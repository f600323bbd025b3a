//! A shelf in files of a memory file system: pieces that outlive their process.
//!
//! ```text
//!   seat-3/pages      frames of one page each; whose they are stands in the tables
//!   seat-3/table-17   which page stands in which frame, with checksums; what it adds to the tables before it
//!   seat-3/state      what is sealed: pieces, each as a list of tables; the plan; the life
//! ```
//!
//! Only `state` is ever replaced, by a new file under its name; what it names is written before, and what it no longer names
//! is removed and used again after. So whenever the process is killed, the files are those of before or those of after.

mod copy;
mod entries;
mod frames;
mod room;
mod table;
#[cfg(test)]
mod tests;
mod verified;

use crate::error::MemberError;
use crate::plan_record::PlanRecord;
pub(crate) use copy::{PieceCopy, clear, make_durable, sync};
use entries::Entries;
use frames::Frames;
use minicbor::{Decode, Encode};
use standfast_core::Checksum;
use standfast_core::delta::Page;
use standfast_format::manifest::JobId;
use standfast_group::{
    AHEAD, Damaged, Description, EpochId, Fingerprint, Holding, Level, Life, PieceId, Place, Seat, Shelf, Sums, Survey,
    Work,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
pub(crate) use table::{Entry, Frame};

/// Tables of a piece before they are written as one: each is a file with the descriptions of the whole group.
const TABLES_MAX: usize = 32;
/// The tables of a piece become one before they have so many times its entries.
const LISTED_MAX: usize = 4;

/// Version of the files.
const VERSION: u32 = 2;

/// What stands in `state`.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    #[n(0)]
    version: u32,
    #[n(1)]
    pub(crate) job: JobId,
    #[n(2)]
    pub(crate) seat: Seat,
    #[n(3)]
    pub(crate) plan: PlanRecord,
    #[n(4)]
    pub(crate) life: Life,
    /// Whether an epoch may have been promised since the job last began.
    #[n(5)]
    promised: bool,
    #[n(6)]
    pub(crate) pieces: Vec<SealedPiece>,
}

/// A piece that counts.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealedPiece {
    #[n(0)]
    pub(crate) id: PieceId,
    #[n(1)]
    pub(crate) marked: bool,
    /// The oldest first; later ones override.
    #[n(2)]
    tables: Vec<u64>,
    #[n(3)]
    base: Option<PieceId>,
    /// Whether its epoch is local.
    #[n(4)]
    is_local: bool,
}

impl SealedPiece {
    /// How its epoch is kept.
    pub(crate) fn level(&self) -> Level {
        if self.is_local { Level::Local(self.base.map(|base| base.epoch)) } else { Level::Encoded }
    }
}

/// A piece as it is at hand: what differs from its base.
#[derive(Debug, Default)]
struct Piece {
    base: Option<PieceId>,
    is_local: bool,
    entries: Entries,
    descriptions: Vec<Description>,
    /// Empty while it is open.
    tables: Vec<u64>,
    /// Entries in them, where some are of pages that later ones have again.
    listed: usize,
    sealed: bool,
    marked: bool,
}

impl Piece {
    /// Those that its own pages stand in.
    fn frames(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.values().filter_map(|entry| entry.frame.number())
    }
}

/// The pieces of one seat, in a directory of their own.
#[derive(Debug)]
pub struct FileShelf {
    directory: PathBuf,
    frames: Frames,
    pieces: BTreeMap<PieceId, Piece>,
    state: State,
    next_table: u64,
    /// Why a page could not be written since the last seal.
    failed: Option<String>,
    /// Whether pieces were there, and none of them, or nothing that says what they are, can be read.
    is_unreadable: bool,
}

impl FileShelf {
    /// Opens the shelf of a seat, or makes it.
    ///
    /// # Errors
    /// [`MemberError`]: the file system's, or another process has it, or it is another job's.
    pub(crate) fn open(directory: &Path, job: JobId, seat: Seat, plan: &PlanRecord) -> Result<Self, MemberError> {
        make_directory(directory)?;
        let frames = Frames::open(directory)?;
        let fresh = || State {
            version: VERSION,
            job,
            seat,
            plan: plan.clone(),
            life: Life::default(),
            promised: false,
            pieces: Vec::new(),
        };
        let read = read_state(directory)?;
        let is_unreadable = read.is_none() && directory.join("state").exists();
        let mut state = read.unwrap_or_else(fresh);
        if state.job != job || state.seat != seat {
            return Err(MemberError::unusable(directory, format!("it is seat {} of job {}", state.seat.0, state.job)));
        }
        if state.plan != *plan {
            // Pieces of another plan fit nothing that the others have.
            state.pieces.clear();
            state.plan = plan.clone();
        }
        let mut shelf = Self {
            directory: directory.to_owned(),
            frames,
            pieces: BTreeMap::new(),
            next_table: 0,
            failed: None,
            is_unreadable,
            state,
        };
        shelf.load()?;
        Ok(shelf)
    }

    /// Reads the tables, takes for free what they do not name, and removes what was never sealed.
    fn load(&mut self) -> Result<(), MemberError> {
        self.next_table = table::highest(&self.directory)? + 1;
        for sealed in self.state.pieces.clone() {
            let mut piece = Piece {
                base: sealed.base,
                is_local: sealed.is_local,
                tables: sealed.tables.clone(),
                sealed: true,
                marked: sealed.marked,
                ..Piece::default()
            };
            // A piece whose tables cannot be read is lost, as one with damaged pages is; the others are not.
            let read = sealed.tables.iter().try_for_each(|number| -> Result<(), MemberError> {
                piece.descriptions = table::read(&self.directory, *number, &mut piece.entries)?;
                Ok(())
            });
            let within = |entry: Entry| entry.frame.number().is_none_or(|number| number < self.frames.count());
            piece.listed = piece.entries.len();
            if read.is_ok() && piece.entries.values().all(within) {
                self.pieces.insert(sealed.id, piece);
            }
        }
        let gone: Vec<PieceId> = self.pieces.keys().copied().collect();
        self.pieces.retain(|_, piece| piece.base.is_none_or(|base| gone.contains(&base)));
        self.frames.set_used(self.pieces.values().flat_map(Piece::frames));
        self.is_unreadable |= self.state.promised && !self.state.pieces.is_empty() && self.pieces.is_empty();
        // Where nothing can be read, somebody may want to look at what is there.
        if self.is_unreadable { Ok(()) } else { self.remove_unnamed_tables() }
    }

    /// The shelf that lies there, whoever made it.
    ///
    /// # Errors
    /// As [`Self::open`]; and where there is none.
    pub(crate) fn open_found(directory: &Path) -> Result<Self, MemberError> {
        let state = read_state(directory)?.ok_or_else(|| MemberError::unusable(directory, "no shelf lies there"))?;
        Self::open(directory, state.job, state.seat, &state.plan)
    }

    /// The latest life that it knows of.
    pub(crate) fn life(&self) -> Life {
        self.state.life
    }

    /// Whether it had pieces, of which nothing can be read: the job had begun, whatever the others have.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// What is sealed, the oldest first, verified or not.
    pub(crate) fn sealed(&self) -> Vec<Holding> {
        self.pieces.iter().filter(|(_, piece)| piece.sealed).map(holding).collect()
    }

    /// What is there. What is still open goes.
    pub fn survey(&mut self) -> Survey {
        let open: Vec<PieceId> = self.pieces.iter().filter(|(_, piece)| !piece.sealed).map(|(id, _)| *id).collect();
        open.into_iter().for_each(|id| self.drop_piece(id));
        self.frames.begin_verifying();
        let whole = self.pieces.iter().filter(|(id, _)| self.is_whole(**id));
        let unpromised = self.state.life != Life::default() && !self.state.promised;
        Survey { life: self.state.life, holdings: whole.map(holding).collect(), unpromised }
    }

    /// Whether there is such a sealed piece, and every page of it is what was written.
    pub(crate) fn is_good(&self, id: PieceId) -> bool {
        self.pieces.get(&id).is_some_and(|piece| piece.sealed) && self.is_whole(id) && self.verify(id).is_ok()
    }

    /// Whether such a piece has been begun and is not sealed.
    pub(crate) fn is_open(&self, id: PieceId) -> bool {
        self.pieces.get(&id).is_some_and(|piece| !piece.sealed)
    }

    /// Makes the open piece of an epoch count.
    ///
    /// # Errors
    /// Where a page of it, or this, could not be written.
    pub fn seal(&mut self, work: Work) -> Result<(), MemberError> {
        self.frames.settle()?;
        if let Some(reason) = self.failed.take() {
            return Err(MemberError::unusable(&self.directory, reason));
        }
        let open = |(id, piece): (&PieceId, &Piece)| (id.epoch == work.epoch && !piece.sealed).then_some(*id);
        let ids: Vec<PieceId> = self.pieces.iter().filter_map(open).collect();
        for id in &ids {
            let number = self.take_table_number();
            let piece = &self.pieces[id];
            table::write(&self.directory, number, &piece.entries, &piece.descriptions)?;
            let piece = self.pieces.get_mut(id).expect("it was looked at a moment ago");
            (piece.tables, piece.listed) = (vec![number], piece.entries.len());
            piece.sealed = true;
        }
        // Nobody goes on from a recovery before all have marked it.
        self.state.promised |= !work.recovery && !ids.is_empty();
        self.save_state()?;
        self.frames.give_back_replaced();
        Ok(())
    }

    /// Notes that everybody has sealed an epoch.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn mark(&mut self, epoch: EpochId) -> Result<(), MemberError> {
        self.state.promised = true;
        self.pieces.iter_mut().filter(|(id, _)| id.epoch == epoch).for_each(|(_, piece)| piece.marked = true);
        self.save_state()
    }

    /// Deletes all but one piece, which takes up what it has from its base. A local one keeps its base beside it.
    ///
    /// # Errors
    /// Those of the file system; all is as it was then.
    pub fn keep(&mut self, epoch: Option<EpochId>, seat: Option<Seat>, life: Life) -> Result<(), MemberError> {
        let kept = epoch.zip(seat).map(|(epoch, seat)| PieceId { epoch, seat }).filter(|id| self.has(*id));
        let local = kept.filter(|id| self.pieces[id].is_local);
        let beside = local.and_then(|id| self.pieces[&id].base);
        if let Some(id) = kept.filter(|_| local.is_none()) {
            self.take_up_base(id)?;
        }
        self.frames.end_verifying();
        self.state.life = life;
        self.state.promised = epoch.is_some();
        let stays = |id: PieceId| Some(id) == kept || Some(id) == beside;
        let others: Vec<PieceId> = self.pieces.keys().copied().filter(|id| !stays(*id)).collect();
        let names: Vec<SealedPiece> = self.sealed_pieces().filter(|piece| stays(piece.id)).collect();
        self.write_state(names)?;
        let is_given_up = others.iter().any(|id| Some(id.epoch) > epoch);
        others.into_iter().for_each(|id| self.drop_piece(id));
        self.frames.give_back_replaced();
        if is_given_up {
            self.shrink()?;
        }
        self.remove_unnamed_tables()
    }

    /// Gives the memory back that an epoch took which was given up: maybe because there was too little for all.
    fn shrink(&mut self) -> Result<(), MemberError> {
        self.frames.shrink(self.pieces.values().flat_map(Piece::frames))
    }

    /// The base's pages become the piece's own, where it has no other ones.
    fn take_up_base(&mut self, id: PieceId) -> Result<(), MemberError> {
        let Some(base) = self.pieces[&id].base else { return Ok(()) };
        let Some(base) = self.pieces.remove(&base) else {
            return Err(MemberError::unusable(&self.directory, format!("the base of {id} is gone")));
        };
        let piece = self.pieces.remove(&id).expect("the caller has looked");
        // Where it has all of them again, its own tables say everything.
        let has_all = piece.entries.len() >= base.entries.len()
            && base.entries.iter().all(|(place, _)| piece.entries.get(place).is_some());
        if has_all {
            self.frames.give_back(base.frames());
            self.pieces.insert(id, Piece { base: None, ..piece });
            return self.merge_tables(id);
        }
        let (mut tables, mut entries) = (base.tables, base.entries);
        tables.extend(&piece.tables);
        let listed = base.listed + piece.listed;
        for (place, entry) in piece.entries.iter() {
            let before = entries.insert(place, entry).and_then(|before| before.frame.number());
            self.frames.give_back(before);
        }
        let piece = Piece { base: None, entries, tables, listed, ..piece };
        self.pieces.insert(id, piece);
        self.merge_tables(id)
    }

    /// Tables become one, so that the next start need not read them all, and they take little.
    fn merge_tables(&mut self, id: PieceId) -> Result<(), MemberError> {
        let Piece { tables, listed, entries, .. } = &self.pieces[&id];
        if tables.len() < TABLES_MAX && *listed < LISTED_MAX * entries.len().max(1) {
            return Ok(());
        }
        let piece = self.pieces.get_mut(&id).expect("the caller has it");
        piece.entries.retain(|_, entry| entry.frame != Frame::Zero);
        let number = self.take_table_number();
        let piece = &self.pieces[&id];
        table::write(&self.directory, number, &piece.entries, &piece.descriptions)?;
        let piece = self.pieces.get_mut(&id).expect("as above");
        (piece.tables, piece.listed) = (vec![number], piece.entries.len());
        Ok(())
    }

    /// Pages that it holds, of the member's own and of checks.
    pub fn pages(&self) -> (usize, usize) {
        let places = || {
            let held = |piece: &'_ Piece| -> Vec<Place> {
                piece.entries.iter().filter(|(_, entry)| entry.frame != Frame::Zero).map(|(place, _)| place).collect()
            };
            self.pieces.values().flat_map(held)
        };
        let own = places().filter(|place| matches!(place, Place::Slot(_))).count();
        (own, places().count() - own)
    }

    fn sealed_pieces(&self) -> impl Iterator<Item = SealedPiece> + '_ {
        let sealed = |(id, piece): (&PieceId, &Piece)| SealedPiece {
            id: *id,
            marked: piece.marked,
            tables: piece.tables.clone(),
            base: piece.base,
            is_local: piece.is_local,
        };
        self.pieces.iter().filter(|(_, piece)| piece.sealed).map(sealed)
    }

    fn save_state(&mut self) -> Result<(), MemberError> {
        let pieces = self.sealed_pieces().collect();
        self.write_state(pieces)
    }

    fn write_state(&mut self, pieces: Vec<SealedPiece>) -> Result<(), MemberError> {
        self.state.pieces = pieces;
        let body = minicbor::to_vec(&self.state).expect("a vector takes everything");
        write_checked(&self.directory, "state", &body)
    }

    fn take_table_number(&mut self) -> u64 {
        self.next_table += 1;
        self.next_table - 1
    }

    fn remove_unnamed_tables(&self) -> Result<(), MemberError> {
        let named: BTreeSet<u64> = self.state.pieces.iter().flat_map(|piece| piece.tables.iter().copied()).collect();
        table::remove_others(&self.directory, &named)
    }

    fn drop_piece(&mut self, id: PieceId) {
        let Some(piece) = self.pieces.remove(&id) else { return };
        self.frames.give_back(piece.frames());
    }

    /// What is sealed may be found again as long as nothing else is.
    fn replace_piece(&mut self, id: PieceId) {
        if self.is_open(id) {
            return self.drop_piece(id);
        }
        let Some(piece) = self.pieces.remove(&id) else { return };
        self.frames.replace(piece.frames());
    }

    fn entry(&self, id: PieceId, place: Place) -> Option<Entry> {
        let piece = self.pieces.get(&id)?;
        piece.entries.get(place).or_else(|| self.entry(piece.base?, place))
    }

    fn read_entry(
        &self,
        id: PieceId,
        place: Place,
        entry: Option<Entry>,
        page: &mut Page,
    ) -> Result<Fingerprint, Damaged> {
        let Some(entry @ Entry { frame: Frame::At(number), checksum }) = entry else {
            page.fill(0);
            return Ok(Fingerprint::ZEROS);
        };
        page.copy_from_slice(self.frames.content(number));
        if self.frames.is_intact(number, page, checksum) {
            Ok(entry.known_by())
        } else {
            Err(Damaged { piece: id, place })
        }
    }

    /// The entries of a piece, and of what it stands upon where it has none itself.
    fn entries_of(&self, id: PieceId) -> impl Iterator<Item = (Place, Entry)> + '_ {
        let piece = self.pieces.get(&id);
        let own = piece.into_iter().flat_map(|piece| piece.entries.iter());
        let base = piece.and_then(|piece| self.pieces.get(&piece.base?));
        let below = base.into_iter().flat_map(|base| base.entries.iter());
        let is_shown = move |(place, _): &(Place, Entry)| piece.is_none_or(|piece| piece.entries.get(*place).is_none());
        own.chain(below.filter(is_shown))
    }

    /// Whether the member's own pages are by their checksums what its description says.
    fn is_whole(&self, id: PieceId) -> bool {
        let mut own = Sums::default();
        self.entries_of(id).for_each(|(place, entry)| {
            if let Place::Slot(slot) = place {
                own.add(slot, entry.known_by());
            }
        });
        let descriptions = self.descriptions(id);
        let described = descriptions.iter().find(|description| description.seat == id.seat);
        described.is_none_or(|described| own.first_difference(&described.sums).is_none()) && !descriptions.is_empty()
    }
}

impl Shelf for FileShelf {
    fn has(&self, piece: PieceId) -> bool {
        self.pieces.contains_key(&piece)
    }

    fn read(&self, piece: PieceId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged> {
        self.read_entry(piece, place, self.entry(piece, place), page)
    }

    fn verify(&self, piece: PieceId) -> Result<(), Damaged> {
        let look = |(place, number, checksum): (Place, u32, Checksum)| {
            let is_intact = self.frames.is_intact(number, self.frames.content(number), checksum);
            if is_intact { Ok(()) } else { Err(Damaged { piece, place }) }
        };
        let mut expected = VecDeque::with_capacity(AHEAD + 1);
        self.entries_of(piece).try_for_each(|(place, entry)| {
            let Some(number) = entry.frame.number().filter(|number| !self.frames.is_verified(*number)) else {
                return Ok(());
            };
            self.frames.expect(number);
            expected.push_back((place, number, entry.checksum));
            let next = if expected.len() > AHEAD { expected.pop_front() } else { None };
            next.map_or(Ok(()), look)
        })?;
        expected.into_iter().try_for_each(look)
    }

    fn known(&self, piece: PieceId, place: Place) -> Fingerprint {
        self.entry(piece, place).map_or(Fingerprint::ZEROS, Entry::known_by)
    }

    fn read_base(&self, piece: PieceId, place: Place, page: &mut Page) -> Result<Fingerprint, Damaged> {
        let base = self.pieces.get(&piece).and_then(|piece| piece.base);
        let entry = base.and_then(|base| self.entry(base, place));
        self.read_entry(base.unwrap_or(piece), place, entry, page)
    }

    fn expect(&self, piece: PieceId, place: Place) {
        if let Some(Entry { frame: Frame::At(number), .. }) = self.entry(piece, place) {
            self.frames.expect(number);
        }
    }

    fn open(&mut self, piece: PieceId, base: Option<PieceId>) {
        // What stood above a piece that is replaced would stand above something else.
        let above: Vec<PieceId> =
            self.pieces.iter().filter(|(_, it)| it.base == Some(piece)).map(|(id, _)| *id).collect();
        above.into_iter().chain([piece]).for_each(|id| self.replace_piece(id));
        self.failed = None;
        self.pieces.insert(piece, Piece { base, ..Piece::default() });
    }

    fn open_local(&mut self, piece: PieceId, base: Option<PieceId>) {
        self.open(piece, base);
        self.pieces.get_mut(&piece).expect("it has just been opened").is_local = true;
    }

    fn write(&mut self, id: PieceId, place: Place, page: &Page, known_by: Fingerprint) {
        let before = self.pieces[&id].entries.get(place).map(|entry| entry.frame);
        let own = before.and_then(Frame::number);
        let entry = if let Some(checksum) = known_by.checksum() {
            let number = match own.map_or_else(|| self.frames.take(), Ok) {
                Ok(number) => number,
                Err(reason) => {
                    self.failed.get_or_insert(reason);
                    return;
                }
            };
            self.frames.write(number, page);
            Entry { frame: Frame::At(number), checksum }
        } else {
            self.frames.give_back(own);
            Entry::zero()
        };
        self.pieces.get_mut(&id).expect("a piece is opened before it is written").entries.insert(place, entry);
    }

    fn describe(&mut self, piece: PieceId, descriptions: Vec<Description>) {
        self.pieces.get_mut(&piece).expect("a piece is opened before it is described").descriptions = descriptions;
    }

    fn descriptions(&self, piece: PieceId) -> &[Description] {
        self.pieces.get(&piece).map_or(&[], |piece| &piece.descriptions)
    }
}

fn holding((id, piece): (&PieceId, &Piece)) -> Holding {
    let base = piece.base.map(|base| base.epoch);
    let level = if piece.is_local { Level::Local(base) } else { Level::Encoded };
    Holding { epoch: id.epoch, seat: id.seat, marked: piece.marked, level }
}

/// The state of a shelf that may belong to another process; `None` where there is none yet, or one that is damaged: its
/// pieces are as good as lost.
pub(crate) fn read_state(directory: &Path) -> Result<Option<State>, MemberError> {
    let path = directory.join("state");
    let body = match read_checked(&path) {
        Ok(Some(body)) => body,
        Ok(None) | Err(MemberError::Unusable { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let state: State = minicbor::decode(&body).map_err(|error| MemberError::unusable(&path, error.to_string()))?;
    if state.version != VERSION {
        let reason = format!("it is of version {}, and this library writes version {VERSION}", state.version);
        return Err(MemberError::unusable(&path, reason));
    }
    Ok(Some(state))
}

/// A directory that nobody else may look into, and that is ours if it is there.
pub(crate) fn make_directory(path: &Path) -> Result<(), MemberError> {
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        made => made.map_err(MemberError::file(path))?,
    }
    let metadata = fs::symlink_metadata(path).map_err(MemberError::file(path))?;
    let (is_ours, others) = (metadata.uid() == rustix::process::geteuid().as_raw(), metadata.mode() & 0o077);
    if !metadata.is_dir() || !is_ours || others != 0 {
        return Err(MemberError::unusable(path, "it is not a directory that is yours alone (mode 0700)"));
    }
    Ok(())
}

/// Replaces a file by one with this content and a checksum in front of it.
pub(crate) fn write_checked(directory: &Path, name: &str, body: &[u8]) -> Result<(), MemberError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let (path, open) = (directory.join(name), directory.join(format!("{name}.open")));
    let write = || -> std::io::Result<()> {
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&open)?;
        file.write_all(&Checksum::of(body).to_bytes())?;
        file.write_all(body)?;
        fs::rename(&open, &path)
    };
    write().map_err(MemberError::file(&path))
}

/// Reads it again; `None` where there is no such file.
pub(crate) fn read_checked(path: &Path) -> Result<Option<Vec<u8>>, MemberError> {
    let mut bytes = match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(MemberError::file(path))?,
    };
    match bytes.split_first_chunk::<16>() {
        Some((checksum, body)) if Checksum::of(body).to_bytes() == *checksum => {
            bytes.drain(..16);
            Ok(Some(bytes))
        }
        _ => Err(MemberError::unusable(path, "it is damaged")),
    }
}
