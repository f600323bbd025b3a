//! The census of an address space: which mappings there are, what lies beneath them, which of their pages hold something.

use super::objects::Objects;
use super::reference;
use crate::freeze::{FrozenProcess, kernel};
use crate::{EngineError, Obstacle};
use standfast_core::{Address, PAGE_BYTES, PageRange};
use standfast_format::Beneath;
use standfast_format::records::{Backing, Bytes, Mapping, Protection, SpecialMapping};
use standfast_linux::proc::Map;
use standfast_linux::{PageScan, Populated};
use std::io;

/// The mappings of a process, sorted by what a restart does with them.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    pub(super) ordinary: Vec<Mapping>,
    pub(super) special: Vec<SpecialMapping>,
}

/// What a mapping is, or why it cannot be carried over.
enum Kind {
    /// Fixed by the kernel at one address in every process: nothing to do.
    Fixed,
    Special,
    Ordinary(Backing),
    /// Memory that others may map as well.
    Object,
    Refused {
        why: String,
        remedy: &'static str,
    },
}

impl Mappings {
    /// The mappings of the job's first process. What of them are memory objects goes into `objects`, after those that
    /// descriptors lead to.
    pub(super) fn of(pid: i32, maps: &[Map], objects: &mut Objects, obstacles: &mut Vec<Obstacle>) -> io::Result<Self> {
        let mut found = Self::default();
        for map in maps {
            match kind(map) {
                Kind::Fixed => {}
                Kind::Special => found.special.push(SpecialMapping {
                    start: map.start,
                    end: map.end,
                    name: Bytes::from(map.path.as_slice()),
                }),
                Kind::Ordinary(backing) => found.ordinary.push(mapping(map, backing)),
                Kind::Object => {
                    let (object, offset) = (objects.of_mapping(pid, 0, map)?, map.offset);
                    found.ordinary.push(mapping(
                        map,
                        match map.shared {
                            true => Backing::SharedObject { object, offset },
                            false => Backing::PrivateObject { object, offset },
                        },
                    ));
                }
                Kind::Refused { why, remedy } => obstacles.push(Obstacle {
                    what: format!("mapping {:#x} ({})", map.start, String::from_utf8_lossy(&map.path)),
                    why,
                    remedy: remedy.to_owned(),
                    passing: false,
                }),
            }
        }
        Ok(found)
    }
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
        grows_down: map.is_stack(),
    }
}

fn kind(map: &Map) -> Kind {
    let refused = |why: &str, remedy| Kind::Refused { why: why.to_owned(), remedy };
    match map.path.as_slice() {
        b"[vsyscall]" => return Kind::Fixed,
        path if path == b"[vdso]" || path.starts_with(b"[vvar") => return Kind::Special,
        b"[heap]" | b"[stack]" | b"" | b"/dev/zero" if !map.shared => return Kind::Ordinary(Backing::Anonymous),
        path if path.starts_with(b"[anon:") && !map.shared => return Kind::Ordinary(Backing::Anonymous),
        path if path.starts_with(b"[") => return refused("a mapping of the kernel's of a kind not known here", ""),
        path if path.starts_with(b"/memfd:") => return Kind::Object,
        path if path.starts_with(b"/SYSV") => return refused("System V shared memory cannot be saved yet", ""),
        b"/dev/zero (deleted)" => return Kind::Object,
        path if path.starts_with(b"/[aio]") => return refused("kernel asynchronous I/O cannot be saved", ""),
        _ => {}
    }
    if map.shared && map.protection.write {
        return refused("a file mapped shared and writable cannot be saved yet", "");
    }
    match reference(&map.path) {
        Err(why) => Kind::Refused { why, remedy: "start the program again from the installed files" },
        Ok(file) if file.identity.inode != map.inode => {
            refused("another file has taken its place", "start the program again from the installed files")
        }
        Ok(file) if map.shared => Kind::Ordinary(Backing::SharedFileReadOnly { file, offset: map.offset }),
        Ok(file) => Kind::Ordinary(Backing::PrivateFile { file, offset: map.offset }),
    }
}

/// The pages of a process that hold something of its own, ascending. A reservation costs what is populated in it. Of the
/// kernel's stack only the pages from `live_stack` on count.
pub(super) fn populated(
    process: &FrozenProcess,
    mappings: &Mappings,
    live_stack: u64,
) -> Result<Vec<(PageRange, Beneath)>, EngineError> {
    let scanning = |source| kernel("scanning the program's pages", source);
    let scan = PageScan::open(process.pid).map_err(scanning)?;
    let mut pages = Vec::new();
    let mut ranges = Vec::new();
    for mapping in &mappings.ordinary {
        let (which, beneath) = match mapping.backing {
            Backing::Anonymous => (Populated::Any, Beneath::Zeros),
            Backing::PrivateFile { .. } | Backing::PrivateObject { .. } => (Populated::Own, Beneath::File),
            Backing::SharedFileReadOnly { .. } | Backing::SharedObject { .. } => continue,
        };
        let live = if mapping.grows_down { live_stack.clamp(mapping.start, mapping.end) } else { mapping.start };
        let start = Address::new(live - live % PAGE_BYTES as u64);
        let range = PageRange::between(start, Address::new(mapping.end));
        scan.populated(range, which, &mut ranges).map_err(scanning)?;
        pages.extend(ranges.drain(..).map(|range| (range, beneath)));
    }
    Ok(pages)
}
