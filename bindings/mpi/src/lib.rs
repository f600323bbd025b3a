//! libstandfast_group: the C interface of a member, without any MPI. `include/standfast_group.h` documents the functions;
//! this module is only the boundary.
//!
//! # Safety
//! The library trusts C to keep the header's rules: pointers are null or valid, strings are terminated, a group comes
//! from [`standfast_group_join`] and has not been finished, and one thread uses it at a time. No panic crosses the
//! boundary: it is caught and becomes an error.

mod arriving;
mod options;
mod packed;
mod table;
mod table_transport;
mod watchdog;

use options::{Configuration, Options};
use packed::{Pack, PackFunctions, PackedRegions, Size, Unpack};
use standfast_core::printable;
use standfast_group::RegionId;
use standfast_linux::RegisteredMemory;
use standfast_member::{CheckpointEnd, Joined, Member, MemberError, report_error};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use table::CallTable;
use table_transport::TableTransport;
use watchdog::Pulse;

/// What a failed call returns.
const FAILED: c_int = -1;

/// File in which the launching process reads errors; that of the first group.
static MILESTONES: OnceLock<PathBuf> = OnceLock::new();

thread_local! {
    static ERROR: RefCell<CString> = RefCell::new(CString::default());
}

/// A group, as C sees it.
#[derive(Debug)]
pub struct GroupHandle {
    member: Member<TableTransport>,
    table: CallTable,
    epoch: u64,
    pulse: Pulse,
    warnings: CString,
    packed: PackedRegions,
}

fn note_error(reason: &str) {
    let reason = CString::new(&*printable(reason)).unwrap_or_default();
    ERROR.with(|error| *error.borrow_mut() = reason);
}

/// Runs one call. An error or a panic becomes `FAILED` and a message.
fn call(work: impl FnOnce() -> Result<c_int, String>) -> c_int {
    let ended = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("a defect of libstandfast_group".into()));
    ended.unwrap_or_else(|reason| {
        note_error(&reason);
        if let Some(path) = MILESTONES.get() {
            // The program gets the error in any case.
            let _ = report_error(path, &reason);
        }
        FAILED
    })
}

fn said<T>(result: Result<T, MemberError>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

/// Returns the group of a pointer.
///
/// # Safety
/// As the module says.
unsafe fn group<'g>(group: *mut GroupHandle) -> Result<&'g mut GroupHandle, String> {
    // SAFETY: null, or from join and used by one thread.
    let group = unsafe { group.as_mut() }.ok_or("the group is NULL")?;
    group.pulse.beat();
    Ok(group)
}

fn region(id: i64) -> Result<u64, String> {
    u64::try_from(id).map_err(|_| format!("{id} is negative: regions are numbered from 0"))
}

/// Joins the group.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standfast_group_join(
    table: *const CallTable,
    options: *const Options,
    into: *mut *mut GroupHandle,
) -> c_int {
    call(|| {
        // SAFETY: null or valid.
        let (table, options) = unsafe { (table.as_ref(), options.as_ref()) };
        let table = table.ok_or("the transport is NULL")?;
        if into.is_null() {
            return Err("there is no place for the group: the pointer is NULL".into());
        }
        let pulse = Pulse::new();
        // SAFETY: valid, and its strings end.
        let Configuration { settings, hang } =
            unsafe { options::configuration(options, |name| std::env::var_os(name)) }?;
        if let Some(path) = &settings.launch_progress {
            let _ = MILESTONES.set(path.clone());
        }
        let transport = TableTransport::new(table, pulse.clone())?;
        if let Some(patience) = hang {
            pulse.watch(patience)?;
        }
        // If the program's messages must be counted and the program does not count them, this is refused.
        table.under_way()?;
        let member = said(Member::join(transport, &settings))?;
        let (joined, epoch) = match member.joined() {
            Joined::New => (0, 0),
            Joined::Survivor(epoch) => (1, epoch.number),
            Joined::Replacement(epoch) => (2, epoch.number),
        };
        let (table, warnings, packed) = (*table, CString::default(), PackedRegions::default());
        let group = GroupHandle { member, table, epoch, pulse, warnings, packed };
        // SAFETY: not null, so it can hold a pointer.
        unsafe { *into = Box::into_raw(Box::new(group)) };
        Ok(joined)
    })
}

/// Returns the number of the current epoch.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standfast_group_epoch(group: *const GroupHandle) -> u64 {
    // SAFETY: null or valid.
    unsafe { group.as_ref() }.map_or(0, |group| group.epoch)
}

/// Registers memory.
///
/// # Safety
/// As the module says. The memory must stay mapped as long as it is registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standfast_group_protect(
    of: *mut GroupHandle,
    id: i64,
    memory: *mut c_void,
    count: usize,
    element: usize,
) -> c_int {
    call(|| {
        let bytes = count.checked_mul(element).ok_or("the length overflows")?;
        if memory.is_null() && bytes > 0 {
            return Err(format!("region {id} cannot be used: the memory is NULL"));
        }
        if (memory as usize).checked_add(bytes).is_none() || isize::try_from(bytes).is_err() {
            return Err(format!("region {id} cannot be used: it goes beyond the end of the address space"));
        }
        // SAFETY: promised by the caller.
        let memory = unsafe { RegisteredMemory::new(memory.cast(), bytes) };
        if !memory.is_mapped() {
            return Err(format!("region {id} cannot be used: not all of it is mapped, readable and writable"));
        }
        // SAFETY: as the module says.
        said(unsafe { group(of) }?.member.protect(region(id)?, memory)).map(|()| 0)
    })
}

/// Registers a region that the program packs itself.
///
/// # Safety
/// As the module says. The functions must follow the header as long as they are registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standfast_group_protect_packed(
    of: *mut GroupHandle,
    id: i64,
    size: Option<Size>,
    pack: Option<Pack>,
    unpack: Option<Unpack>,
    context: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: as the module says.
        let group = unsafe { group(of) }?;
        let (Some(size), Some(pack), Some(unpack)) = (size, pack, unpack) else {
            return Err(format!("region {id} cannot be used: a function is NULL"));
        };
        said(group.packed.register(&mut group.member, region(id)?, PackFunctions { size, pack, unpack }, context))
            .map(|()| 0)
    })
}

/// Excludes a part of a region.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standfast_group_exclude(of: *mut GroupHandle, id: i64, offset: usize, bytes: usize) -> c_int {
    // SAFETY: as the module says.
    call(|| said(unsafe { group(of) }?.member.exclude(region(id)?, offset, bytes)).map(|()| 0))
}

/// Includes such a part again.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standfast_group_include(of: *mut GroupHandle, id: i64, offset: usize, bytes: usize) -> c_int {
    // SAFETY: as the module says.
    call(|| said(unsafe { group(of) }?.member.include(region(id)?, offset, bytes)).map(|()| 0))
}

/// Removes a region.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standfast_group_unprotect(of: *mut GroupHandle, id: i64) -> c_int {
    call(|| {
        // SAFETY: as the module says.
        let (group, id) = (unsafe { group(of) }?, region(id)?);
        said(group.member.unprotect(id))?;
        group.packed.forget(id);
        Ok(0)
    })
}

/// Returns the recorded length of a region.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standfast_group_recorded(of: *const GroupHandle, id: i64) -> i64 {
    // SAFETY: null or valid.
    let group = unsafe { of.as_ref() };
    let recorded = group.zip(u64::try_from(id).ok()).and_then(|(it, id)| it.member.regions().recorded(RegionId(id)));
    recorded.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(-1)
}

/// Restores the registered memory.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standfast_group_restore(of: *mut GroupHandle) -> c_int {
    call(|| {
        // SAFETY: as the module says.
        let group = unsafe { group(of) }?;
        let packed = &mut group.packed;
        said(group.member.restore_and(|| packed.unpack())).map(|_| 0)
    })
}

/// Takes a checkpoint.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standfast_group_checkpoint(of: *mut GroupHandle) -> c_int {
    call(|| {
        // SAFETY: as the module says.
        let group = unsafe { group(of) }?;
        let under_way = group.table.under_way()?;
        let taken = match (under_way, group.packed.pack(&mut group.member)) {
            (None, Ok(())) => group.member.checkpoint(),
            (Some(words), _) => group.member.give_up_checkpoint(words),
            (None, Err(error)) => group.member.give_up_checkpoint(format!("process {}: {error}", group.table.rank())),
        };
        match said(taken)? {
            CheckpointEnd::Committed(epoch) => {
                group.epoch = epoch.number;
                Ok(0)
            }
            CheckpointEnd::Abandoned(reason) => {
                note_error(&reason);
                Ok(1)
            }
        }
    })
}

/// Reports whether a checkpoint is due.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standfast_group_due(of: *mut GroupHandle, seconds: f64) -> c_int {
    call(|| {
        let interval = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
        // SAFETY: as the module says.
        said(unsafe { group(of) }?.member.due(interval)).map(c_int::from)
    })
}

/// Returns the seconds between checkpoints.
#[unsafe(no_mangle)]
pub extern "C" fn standfast_group_interval() -> f64 {
    let mut seconds = f64::from(FAILED);
    call(|| {
        seconds = options::interval(|name| std::env::var_os(name))?;
        Ok(0)
    });
    seconds
}

/// Leaves the group.
///
/// # Safety
/// As the module says. The group is gone afterwards, whatever is returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standfast_group_finish(of: *mut GroupHandle) -> c_int {
    call(|| {
        if of.is_null() {
            return Err("the group is NULL".into());
        }
        // SAFETY: join created it by Box::into_raw, and it is not used any more.
        said(unsafe { Box::from_raw(of) }.member.finish()).map(|()| 0)
    })
}

/// Returns the warnings of the group.
///
/// # Safety
/// As the module says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standfast_group_warnings(of: *mut GroupHandle) -> *const c_char {
    // SAFETY: as the module says.
    let Ok(group) = (unsafe { group(of) }) else { return c"".as_ptr() };
    let lines = group.member.warnings().iter().map(|warning| format!("standfast: {}\n", printable(warning)));
    group.warnings = CString::new(lines.collect::<String>()).unwrap_or_default();
    group.warnings.as_ptr()
}

/// Returns the text of the last error.
#[unsafe(no_mangle)]
pub extern "C" fn standfast_group_error() -> *const c_char {
    ERROR.with(|error| {
        let words: *const CStr = error.borrow().as_c_str();
        words.cast()
    })
}
