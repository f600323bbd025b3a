//! Collects an address space: its mappings, what is beneath them, and which of their pages are populated.

use super::Subject;
use super::files::copied;
use crate::error::kernel;
use crate::files::References;
use crate::objects::{MemoryObjects, is_on_huge_pages, on_huge_pages};
use crate::pages::Pages;
use crate::shared::Kept;
use crate::track::{Place, Scan, Track};
use crate::{Blocker, EngineError, RefusalCode, error::Reason};
use standfast_core::{Address, PAGE_BYTES, PageRange, PageSet};
use standfast_format::BackingPage;
use standfast_format::records::{
    Advice, Backing, Bytes, FileReference, GuardedPages, Mapping, MappingAttributes, Protection, SpecialMapping,
};
use standfast_linux::proc::{HUGE_PAGES, Map};
use standfast_linux::{PageScan, Pid, Populated};
use std::io;

/// The mappings of a process, sorted by what a restart does with them.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    pub(super) ordinary: Vec<Mapping>,
    pub(super) special: Vec<SpecialMapping>,
}

/// The kind of a mapping, or why it cannot be carried over.
enum Kind {
    /// The kernel fixes it at one address in every process; nothing to do.
    Fixed,
    Special,
    Ordinary(Backing),
    /// Memory that other processes may map as well.
    Object,
    /// A file that is written through mappings.
    MappedFile(FileReference),
    /// System V shared memory.
    Segment,
    Refused(Reason),
}

impl Mappings {
    /// Returns the mappings of the process at `place` in the job. Memory objects among them go into `objects`, after
    /// those that descriptors lead to.
    pub(super) fn of(
        subject: &Subject<'_>,
        place: usize,
        kept: &Kept,
        files: &mut References,
        objects: &mut MemoryObjects,
        blockers: &mut Vec<Blocker>,
    ) -> io::Result<Self> {
        let pid = subject.pid;
        let mut found = Self::default();
        for map in subject.maps.iter() {
            let may_write = subject.attributes.may_be_written(pid, map);
            let mapping = |backing| Mapping {
                attributes: subject.attributes.of(map),
                grows_down: subject.attributes.grows_down(map),
                may_write,
                ..mapping(map, backing)
            };
            match kind(map, kept, files, objects) {
                Kind::Fixed => {}
                Kind::Special => found.special.push(SpecialMapping {
                    start: map.start,
                    end: map.end,
                    name: Bytes::from(map.path.as_slice()),
                }),
                Kind::Ordinary(backing) => {
                    if let (Backing::SharedFileReadOnly { file, .. }, None | Some(true)) = (&backing, may_write) {
                        objects.note_mapped_read_only(file);
                    }
                    if let (Backing::SharedFileReadOnly { file, .. }, Some(true)) = (&backing, may_write)
                        && let Err(reason) = objects.note_writable(file)
                    {
                        blockers.push(blocker(map, reason));
                    }
                    found.ordinary.push(mapping(backing));
                }
                Kind::Object => {
                    let (object, offset) = (objects.of_mapping(pid, place, map)?, map.offset);
                    found.ordinary.push(mapping(match map.shared {
                        true => Backing::SharedObject { object, offset },
                        false => Backing::PrivateObject { object, offset },
                    }));
                }
                Kind::MappedFile(file) => match objects.of_mapped_file(pid, map, file) {
                    Ok(object) => {
                        found.ordinary.push(mapping(Backing::SharedObject { object, offset: map.offset }));
                    }
                    Err(reason) => blockers.push(blocker(map, reason)),
                },
                Kind::Segment => match objects.of_segment(place, map) {
                    Ok(object) => found.ordinary.push(mapping(Backing::SharedObject { object, offset: 0 })),
                    Err(reason) => blockers.push(blocker(map, reason)),
                },
                Kind::Refused(reason) => blockers.push(blocker(map, reason)),
            }
        }
        Ok(found)
    }

    /// Notes which pages must not be touched, of a process that has not been scanned.
    pub(super) fn note_guards_of(&mut self, pid: Pid) -> Result<(), EngineError> {
        let noted = PageScan::open(pid).and_then(|scan| self.note_guards(&scan, &mut Pages::default()));
        noted.map_err(scanning)
    }

    /// Notes which pages must not be touched, if the kernel reports it (Linux 6.15): those that a scan has already
    /// found, and those in areas that it has not covered.
    fn note_guards(&mut self, scan: &PageScan, pages: &mut Pages) -> io::Result<()> {
        let (Some(first), Some(last)) = (self.ordinary.first(), self.ordinary.last()) else { return Ok(()) };
        let all = PageSet::of([PageRange::between(Address::new(first.start), Address::new(last.end))]);
        let mut guards = std::mem::take(&mut pages.guarded);
        let scanned = PageSet::of(pages.scanned.drain(..));
        // Walking little memory twice takes less time than one call for each gap.
        let rest = if scanned.pages() <= WALKED_TWICE_MAX { all } else { all.difference(&scanned) };
        for range in rest.ranges() {
            scan.guarded(*range, &mut guards)?;
        }
        let guards = PageSet::of(guards);
        for mapping in self.ordinary.iter_mut().filter(|_| !guards.is_empty()) {
            for guard in guards.ranges() {
                let (start, end) = (guard.start().get().max(mapping.start), guard.end().get().min(mapping.end));
                if start < end {
                    let pages = (end - start) / PAGE_BYTES as u64;
                    mapping.attributes.guards.push(GuardedPages { start, pages });
                }
            }
        }
        Ok(())
    }
}

fn blocker(map: &Map, reason: Reason) -> Blocker {
    Blocker::of(format!("mapping {:#x} ({})", map.start, String::from_utf8_lossy(&map.path)), reason)
}

fn mapping(map: &Map, backing: Backing) -> Mapping {
    Mapping {
        start: map.start,
        end: map.end,
        protection: Protection {
            read: map.protection.read,
            write: map.protection.write,
            execute: map.protection.execute,
        },
        backing,
        grows_down: false,
        attributes: MappingAttributes::default(),
        may_write: None,
    }
}

fn kind(map: &Map, kept: &Kept, files: &mut References, objects: &MemoryObjects) -> Kind {
    let refused = |code, why: &str| Kind::Refused(Reason::new(code, why));
    match map.path.as_slice() {
        b"[vsyscall]" => return Kind::Fixed,
        path if path == b"[vdso]" || path.starts_with(b"[vvar") => return Kind::Special,
        b"[heap]" | b"[stack]" | b"" | b"/dev/zero" | HUGE_PAGES if !map.shared => {
            return Kind::Ordinary(Backing::Anonymous);
        }
        HUGE_PAGES => return Kind::Refused(on_huge_pages()),
        path if path.starts_with(b"[anon:") && !map.shared => return Kind::Ordinary(Backing::Anonymous),
        path if path.starts_with(b"[") => {
            return refused(RefusalCode::Mapping, "this version does not know this mapping of the kernel");
        }
        path if (path.starts_with(b"/memfd:") || map.is_segment()) && is_on_huge_pages(map.device) => {
            return Kind::Refused(on_huge_pages());
        }
        path if path.starts_with(b"/memfd:") => return Kind::Object,
        _ if map.is_segment() => return Kind::Segment,
        b"/dev/zero (deleted)" => return Kind::Object,
        path if path.starts_with(b"/[aio]") => {
            return refused(RefusalCode::Mapping, "kernel asynchronous I/O cannot be saved");
        }
        _ => {}
    }
    let file = files.of_mapping(map);
    // A descriptor shows what a deleted file holds now; our copy, what it held when the copy was made.
    let copied = || copied(&map.path, map.inode, kept).filter(|_| !map.shared && !objects.have_descriptor_of(map));
    match file.or_else(|why| copied().ok_or(why)) {
        Err(_) if objects.hold_deleted_file(map) => Kind::Object,
        Err(why) => Kind::Refused(
            Reason::new(RefusalCode::Executable, why).with_hint("start the program again from the installed files"),
        ),
        Ok(file) if map.shared && objects.is_written(&file) => Kind::MappedFile(file),
        Ok(file) if map.shared => Kind::Ordinary(Backing::SharedFileReadOnly { file, offset: map.offset }),
        Ok(file) => Kind::Ordinary(Backing::PrivateFile { file, offset: map.offset }),
    }
}

fn scanning(source: io::Error) -> EngineError {
    kernel("scanning the program's pages", source)
}

/// Number of pages that may be walked twice: that takes 3 us, and a call for each gap between mappings takes 1 us.
const WALKED_TWICE_MAX: u64 = (4 << 20) / PAGE_BYTES as u64;

/// The address space of a frozen process.
pub(super) struct Space<'a> {
    pub(super) pid: Pid,
    pub(super) mappings: &'a mut Mappings,
    /// Address in the kernel's stack from which on its pages count.
    pub(super) live_stack: u64,
    /// Without a track, all pages may have been written.
    pub(super) track: Option<(&'a mut Track, Scan)>,
}

impl Space<'_> {
    /// Returns the pages with contents of their own, so that a reservation costs only what is populated in it. Notes
    /// which of the pages must not be touched.
    pub(super) fn scan(&mut self) -> Result<Pages, EngineError> {
        let scan = PageScan::open(self.pid).map_err(scanning)?;
        let ordinary = self.mappings.ordinary.iter();
        let places: Vec<_> = ordinary.filter_map(|mapping| place(mapping, self.live_stack)).collect();
        let populated = |place: &Place, into: &mut Vec<PageRange>| {
            let which = match place.backing_page {
                BackingPage::Zeros => Populated::Any,
                BackingPage::File => Populated::Own,
            };
            scan.populated(place.live, which, into)
        };
        let mut pages = Pages::default();
        if let Some((track, how)) = &mut self.track {
            pages = track.scan(*how, &places, populated)?;
        } else {
            let mut ranges = Vec::new();
            for place in &places {
                populated(place, &mut ranges).map_err(scanning)?;
                pages.changed.extend(ranges.drain(..).map(|range| (range, place.backing_page)));
            }
        }
        self.mappings.note_guards(&scan, &mut pages).map_err(scanning)?;
        Ok(pages)
    }
}

/// Injected calls may make the stack of a program grow after its mappings have been listed. If only the listed part were
/// tracked, the kernel would split it into two mappings. Nothing else is so close below the kernel's stack: the kernel
/// keeps 1 MiB free there. Below a stack that the program has mapped itself there may be anything.
const STACK_GROWTH_BYTES: u64 = 64 << 10;

/// Returns where to look for a mapping's own pages; `None` if it has none.
fn place(mapping: &Mapping, live_stack: u64) -> Option<Place> {
    let backing_page = match mapping.backing {
        // What the kernel may drop at any time is dropped.
        Backing::Anonymous if mapping.attributes.droppable => return None,
        Backing::Anonymous => BackingPage::Zeros,
        Backing::PrivateFile { .. } | Backing::PrivateObject { .. } => BackingPage::File,
        Backing::SharedFileReadOnly { .. } | Backing::SharedObject { .. } => return None,
    };
    let (start, end) = (Address::new(mapping.start), Address::new(mapping.end));
    // Programs may have stacks of their own that grow (MAP_GROWSDOWN), or have cut pieces off the kernel's.
    let is_kernels = mapping.grows_down && (mapping.start..mapping.end).contains(&live_stack);
    let live = if is_kernels { live_stack } else { mapping.start };
    let live = Address::new(live - live % PAGE_BYTES as u64);
    let tracked = if is_kernels { Address::new(mapping.start.saturating_sub(STACK_GROWTH_BYTES)) } else { start };
    let said = |advice| mapping.attributes.advice.contains(&advice);
    let wants_huge_pages = (said(Advice::HugePages) || said(Advice::NoHugePages)).then(|| said(Advice::HugePages));
    let is_of_pool = mapping.attributes.huge_page_bytes > 0;
    let (mapping, live) = (PageRange::between(tracked, end), PageRange::between(live, end));
    Some(Place { mapping, live, backing_page, wants_huge_pages, is_of_pool })
}
