//! Plans the core file of one process: which pages it holds, and where each of them goes.

use super::elf::{self, Segment};
use super::notes::notes;
use super::parts::{Holding, Part, Parts};
use crate::records::{
    Advice, Backing, Bytes, FileReference, JobState, Mapping, MappingAttributes, ProcessState, Protection,
    SpecialMapping,
};
use crate::{Contents, Run};
use standfast_core::{Address, PAGE_BYTES, PageRange};

/// Addresses of programs on x86-64 end here or earlier, also with page tables of five levels. Sums of lengths below it
/// do not overflow.
const ADDRESS_END: u64 = 1 << 56;
/// Longest part of a range of zeros that one segment describes, unless there are very many zeros.
const HOLE_BYTES: u64 = 1 << 30;
/// If zeros need more holes than that, the hole is longer instead.
const HOLES_MAX: u64 = 1 << 16;
/// The red zone below a stack pointer, which the program may use as well (System V ABI, x86-64).
const RED_ZONE_BYTES: u64 = 128;
/// The place of the stack pointer among the registers.
const STACK_POINTER: usize = 19;
const PAGE: u64 = PAGE_BYTES as u64;
const ELF_MAGIC: &[u8] = b"\x7fELF";
const VDSO: &[u8] = b"[vdso]";

/// What is left of a mapped file as it was at the checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MappedFileNow {
    /// Where a debugger finds its contents: its own path or that of a copy. `None` if they are nowhere.
    pub path: Option<Bytes>,
    /// Its first page, if that is known.
    pub first_page: Option<Vec<u8>>,
}

/// Returns what is left of a mapped file.
pub type FilesNow<'a> = dyn Fn(&FileReference) -> MappedFileNow + 'a;

/// Why a core file cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoCoreFile {
    /// The checkpoint comes from a machine of another architecture.
    #[error("it was taken on {0}, and core files are written for x86_64 only")]
    Architecture(String),
    /// The process had ended, and its parent had not yet asked how.
    #[error("the process had ended, and has no memory")]
    Ended,
    /// The records contradict each other.
    #[error("{0}")]
    Senseless(&'static str),
}

/// A planned core file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreFilePlan {
    /// Everything before the first page.
    head: Vec<u8>,
    /// Pages that are known already.
    constants: Vec<Constant>,
    /// Ascending by owner.
    windows: Vec<Window>,
    bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Constant {
    offset: u64,
    bytes: Vec<u8>,
}

/// Pages of one owner as one mapping shows them, or as the process itself has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Window {
    owner: u32,
    /// Ascending.
    pieces: Vec<Piece>,
}

/// Pages of an owner that adjoin in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    range: PageRange,
    offset: u64,
}

impl CoreFilePlan {
    /// Plans the core file of the process at `place` in the job. `runs` are those of the image.
    ///
    /// # Errors
    /// [`NoCoreFile`]
    pub fn of(job: &JobState, place: usize, runs: &[Run], files: &FilesNow<'_>) -> Result<Self, NoCoreFile> {
        if job.machine.architecture != "x86_64" {
            return Err(NoCoreFile::Architecture(job.machine.architecture.clone()));
        }
        let process = job.processes.get(place).ok_or(NoCoreFile::Senseless("there is no such process"))?;
        let notes = notes(job, process, files)?;
        let planner = Planner { job, process, own: runs_of(runs, place as u32), runs, files };
        Ok(Layout::of(place as u32, &planner.areas()?, &notes))
    }

    /// Returns the length of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the parts of the file that the records alone determine, each with its offset.
    pub fn constants(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let constants = self.constants.iter().map(|constant| (constant.offset, &constant.bytes[..]));
        std::iter::once((0, &self.head[..])).chain(constants)
    }

    /// Calls `put` with offset and bytes for each part of some pages that belongs in the file. `bytes` holds the pages
    /// of `runs`, one after the other.
    ///
    /// # Errors
    /// The first failure of `put`.
    pub fn place<E>(
        &self,
        runs: &[Run],
        bytes: &[u8],
        put: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = bytes;
        for run in runs {
            let (own, after) = rest.split_at(run.range.bytes() as usize);
            rest = after;
            let first = self.windows.partition_point(|window| window.owner < run.owner);
            for window in self.windows[first..].iter().take_while(|window| window.owner == run.owner) {
                window.place(run.range, own, put)?;
            }
        }
        Ok(())
    }
}

impl Window {
    fn place<E>(
        &self,
        range: PageRange,
        bytes: &[u8],
        put: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let first = self.pieces.partition_point(|piece| piece.range.end() <= range.start());
        for piece in &self.pieces[first..] {
            let Some(common) = piece.range.common(range) else { break };
            let from = (common.start().get() - range.start().get()) as usize;
            let offset = piece.offset + (common.start().get() - piece.range.start().get());
            put(offset, &bytes[from..from + common.bytes() as usize])?;
        }
        Ok(())
    }
}

/// Returns the runs of an owner.
fn runs_of(runs: &[Run], owner: u32) -> &[Run] {
    let first = runs.partition_point(|run| run.owner < owner);
    let count = runs[first..].partition_point(|run| run.owner == owner);
    &runs[first..first + count]
}

/// Returns those of `runs`, ascending, that overlap `range`, as far as they do.
fn clipped(runs: &[Run], range: PageRange) -> impl Iterator<Item = Part> {
    let first = runs.partition_point(|run| run.range.end() <= range.start());
    let inside = runs[first..].iter().map_while(move |run| Some((run.range.common(range)?, run.contents)));
    inside.map(|(range, contents)| {
        let holding = match contents {
            Contents::Stored => Holding::Pages,
            Contents::Zero => Holding::Zeros,
        };
        Part { range, holding }
    })
}

/// One mapping, and what the file holds of it.
#[derive(Debug)]
struct Area {
    range: PageRange,
    protection: Protection,
    parts: Vec<Part>,
    /// Whether a file holds what the core file does not hold.
    is_of_file: bool,
    /// Its first bytes, if they are in no run.
    constant: Option<Vec<u8>>,
    /// The memory object that it shows.
    view: Option<View>,
}

/// The pages of a memory object that a mapping shows.
#[derive(Debug)]
struct View {
    owner: u32,
    /// Offset in the object of the mapping's first page.
    offset: u64,
    /// Addresses of the pages that come from the object, ascending.
    pages: Vec<PageRange>,
}

struct Planner<'a> {
    job: &'a JobState,
    process: &'a ProcessState,
    /// The runs of the process.
    own: &'a [Run],
    /// The runs of all.
    runs: &'a [Run],
    files: &'a FilesNow<'a>,
}

impl Planner<'_> {
    /// Returns the areas of the process, ascending.
    fn areas(&self) -> Result<Vec<Area>, NoCoreFile> {
        let ordinary = self.process.mappings.iter().map(|mapping| self.ordinary(mapping));
        let special = self.process.special_mappings.iter().map(|mapping| self.special(mapping));
        let mut areas = ordinary.chain(special).collect::<Result<Vec<_>, _>>()?;
        areas.sort_by_key(|area| area.range.start());
        if areas.windows(2).any(|pair| pair[0].range.end() > pair[1].range.start()) {
            return Err(NoCoreFile::Senseless("two mappings overlap"));
        }
        let mapped: u64 = areas.iter().flat_map(|area| clipped(self.own, area.range)).map(|it| it.range.pages()).sum();
        if mapped != self.own.iter().map(|run| run.range.pages()).sum::<u64>() {
            return Err(NoCoreFile::Senseless("the image holds pages where nothing is mapped"));
        }
        Ok(areas)
    }

    fn ordinary(&self, mapping: &Mapping) -> Result<Area, NoCoreFile> {
        let range = range_of(mapping.start, mapping.end)?;
        let MappingAttributes { advice, droppable, .. } = &mapping.attributes;
        let (protection, parts) = (mapping.protection, Vec::new());
        let mut area = Area { range, protection, parts, is_of_file: false, constant: None, view: None };
        if advice.contains(&Advice::DontDump) {
            // The program does not want it in a core file, because it is secret or large.
            area.parts = Parts::of(range, None, &[]);
            return Ok(area);
        }
        let mut known: Vec<Part> = clipped(self.own, range).collect();
        let mut zeros = None;
        match &mapping.backing {
            // The kernel may have dropped it at that moment, or not.
            Backing::Anonymous if *droppable => {}
            // A reservation that the program cannot read is no part of the file, unless something was written there.
            Backing::Anonymous if !protection.read => {}
            Backing::Anonymous => zeros = Some(self.live(mapping, range)),
            Backing::PrivateFile { file, offset } | Backing::SharedFileReadOnly { file, offset } => {
                let now = (self.files)(file);
                area.is_of_file = now.path.is_some();
                let is_known = known.first().is_some_and(|part| part.range.start() == range.start());
                if *offset == 0 && protection.read && !is_known && range.pages() > 0 {
                    let is_header = |page: &Vec<u8>| page.len() == PAGE_BYTES && page.starts_with(ELF_MAGIC);
                    area.constant = now.first_page.filter(is_header);
                }
            }
            Backing::SharedObject { object, offset } | Backing::PrivateObject { object, offset } => {
                let (view, shown) = self.view(range, *object, *offset, &known)?;
                known.extend(view.pages.iter().map(|range| Part { range: *range, holding: Holding::Pages }));
                known.sort_by_key(|part| part.range.start());
                zeros = shown;
                area.view = Some(view);
            }
        }
        if area.constant.is_some() {
            known.insert(0, Part { range: PageRange::new(range.start(), 1), holding: Holding::Pages });
        }
        area.parts = Parts::of(range, zeros, &known);
        Ok(area)
    }

    /// Returns the part of an anonymous mapping that is saved: of the kernel's stack, only what lies above the lowest
    /// stack pointer.
    fn live(&self, mapping: &Mapping, range: PageRange) -> PageRange {
        let contains = |address: &u64| range.contains(Address::new(*address));
        if !mapping.grows_down || !contains(&self.process.layout.stack_start) {
            return range;
        }
        let threads = &self.process.threads;
        let pointers =
            threads.iter().filter_map(|thread| thread.registers.get(STACK_POINTER).copied()).filter(contains);
        let Some(lowest) = pointers.map(|pointer| pointer.saturating_sub(RED_ZONE_BYTES)).min() else { return range };
        let alternates = threads.iter().map(|thread| thread.alternate_stack.start).filter(contains);
        let live = alternates.fold(lowest, u64::min).max(range.start().get());
        PageRange::between(Address::new(live - live % PAGE), range.end())
    }

    /// Returns what a mapping shows of a memory object besides its own pages, and the addresses before the object's
    /// end.
    fn view(
        &self,
        range: PageRange,
        object: u32,
        offset: u64,
        own: &[Part],
    ) -> Result<(View, Option<PageRange>), NoCoreFile> {
        let senseless = || NoCoreFile::Senseless("a mapping shows a memory object that there is not");
        let length = self.job.objects.get(object as usize).ok_or_else(senseless)?.length;
        let owner = self.job.number_of_object(object as usize);
        let pages = length.div_ceil(PAGE).saturating_sub(offset / PAGE).min(range.pages());
        let shown = PageRange::checked(Address::new(offset), pages).ok_or_else(senseless)?;
        let at = |it: PageRange| range.start().plus(it.start().get() - offset);
        let mut found = Vec::new();
        for part in clipped(runs_of(self.runs, owner), shown).filter(|part| part.holding == Holding::Pages) {
            add_uncovered(PageRange::new(at(part.range), part.range.pages()), own, &mut found);
        }
        let shown = (pages > 0).then(|| PageRange::new(range.start(), pages));
        Ok((View { owner, offset, pages: found }, shown))
    }

    /// Plans a mapping of the kernel: of these, only the code of the vdso is recorded, which a debugger needs to get
    /// past a call into it.
    fn special(&self, mapping: &SpecialMapping) -> Result<Area, NoCoreFile> {
        let range = range_of(mapping.start, mapping.end)?;
        let code = &self.job.machine.vdso_code.0;
        let is_vdso = mapping.name.0 == VDSO && range.bytes() == code.len() as u64;
        let holding = if is_vdso { Holding::Pages } else { Holding::Nothing };
        Ok(Area {
            range,
            protection: Protection { read: true, write: false, execute: is_vdso },
            parts: Parts::of(range, None, &[Part { range, holding }]),
            is_of_file: false,
            constant: is_vdso.then(|| code.clone()),
            view: None,
        })
    }
}

fn range_of(start: u64, end: u64) -> Result<PageRange, NoCoreFile> {
    if start > end || end > ADDRESS_END || !start.is_multiple_of(PAGE) || !end.is_multiple_of(PAGE) {
        return Err(NoCoreFile::Senseless("a mapping has addresses that no mapping can have"));
    }
    Ok(PageRange::between(Address::new(start), Address::new(end)))
}

/// Adds the pages of `range` that none of `parts`, ascending, has.
fn add_uncovered(range: PageRange, parts: &[Part], into: &mut Vec<PageRange>) {
    let mut at = range.start();
    let first = parts.partition_point(|part| part.range.end() <= range.start());
    for part in parts[first..].iter().map_while(|part| part.range.common(range)) {
        into.extend((part.start() > at).then(|| PageRange::between(at, part.start())));
        at = part.end();
    }
    into.extend((range.end() > at).then(|| PageRange::between(at, range.end())));
}

/// Gives each part its place in the file.
#[derive(Debug, Default)]
struct Layout {
    segments: Vec<Segment>,
    constants: Vec<Constant>,
    own: Window,
    views: Vec<Window>,
    /// Offset of the next page.
    at: u64,
    hole_offset: u64,
    hole_bytes: u64,
}

impl Layout {
    fn of(owner: u32, areas: &[Area], notes: &[u8]) -> CoreFilePlan {
        let bytes_of = |wanted| {
            let parts = areas.iter().flat_map(|area| &area.parts).filter(move |part| part.holding == wanted);
            parts.map(|part| part.range.bytes())
        };
        let zeros_max = bytes_of(Holding::Zeros).max().unwrap_or_default();
        let longest = HOLE_BYTES.max((bytes_of(Holding::Zeros).sum::<u64>() / HOLES_MAX).next_multiple_of(PAGE));
        let hole_bytes = zeros_max.min(longest);
        let zeros = bytes_of(Holding::Zeros).map(|bytes| bytes.div_ceil(hole_bytes) as usize).sum::<usize>();
        let of_files = areas.iter().filter(|area| area.is_of_file).flat_map(|area| &area.parts);
        let empty = of_files.filter(|part| part.holding == Holding::Nothing).count();
        let segments = bytes_of(Holding::Pages).count() + empty + zeros;
        let at = elf::pages_offset(segments, notes.len());
        let hole_offset = at + bytes_of(Holding::Pages).sum::<u64>();
        let own = Window { owner, pieces: Vec::new() };
        let mut layout = Self { own, at, hole_offset, hole_bytes, ..Self::default() };
        areas.iter().for_each(|area| layout.add(area));
        assert_eq!((layout.segments.len(), layout.at), (segments, hole_offset), "the plan and its lengths agree");
        layout.into_plan(notes)
    }

    fn into_plan(self, notes: &[u8]) -> CoreFilePlan {
        let mut windows = self.views;
        windows.push(self.own);
        windows.sort_by_key(|window| window.owner);
        CoreFilePlan {
            head: elf::head(&self.segments, notes),
            constants: self.constants,
            windows,
            bytes: self.hole_offset + self.hole_bytes,
        }
    }

    fn add(&mut self, area: &Area) {
        let first_piece = self.own.pieces.len();
        if let Some(bytes) = &area.constant {
            self.constants.push(Constant { offset: self.at, bytes: bytes.clone() });
        }
        for part in &area.parts {
            match part.holding {
                Holding::Pages => {
                    self.own.pieces.push(Piece { range: part.range, offset: self.at });
                    self.segment(area, part.range, self.at, part.range.bytes());
                    self.at += part.range.bytes();
                }
                Holding::Zeros => {
                    let mut rest = part.range;
                    while rest.pages() > 0 {
                        let (head, tail) = rest.split_at(self.hole_bytes / PAGE);
                        self.segment(area, head, self.hole_offset, head.bytes());
                        rest = tail;
                    }
                }
                Holding::Nothing if area.is_of_file => self.segment(area, part.range, self.at, 0),
                Holding::Nothing => {}
            }
        }
        if let Some(view) = &area.view {
            self.views.push(view.window(area.range, &self.own.pieces[first_piece..]));
        }
    }

    fn segment(&mut self, area: &Area, range: PageRange, file_offset: u64, file_bytes: u64) {
        let (address, bytes, protection) = (range.start().get(), range.bytes(), area.protection);
        self.segments.push(Segment { address, bytes, file_offset, file_bytes, protection });
    }
}

impl View {
    /// Returns where the object's pages go. `placed` says where the pages of the mapping, which begins at `at`, are.
    fn window(&self, at: PageRange, placed: &[Piece]) -> Window {
        let mut pieces: Vec<Piece> = Vec::new();
        for range in &self.pages {
            let number = placed.partition_point(|piece| piece.range.end() <= range.start());
            let place = &placed[number];
            let shown = self.offset + (range.start().get() - at.start().get());
            let offset = place.offset + (range.start().get() - place.range.start().get());
            pieces.push(Piece { range: PageRange::new(Address::new(shown), range.pages()), offset });
        }
        Window { owner: self.owner, pieces }
    }
}
