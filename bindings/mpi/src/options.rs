//! The options as C gives them, and what they mean.

use standfast_core::erasure::Scheme;
use standfast_member::{RegionTracking, Settings};
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

/// `standfast_group_options`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Options {
    size: usize,
    job: *const c_char,
    memory: *const c_char,
    code: c_int,
    checks: u32,
    group: u32,
    compare: c_int,
    directory: *const c_char,
    directory_every: u32,
    encode_every: u32,
    hang: f64,
    milestones: *const c_char,
}

impl Options {
    /// How long a process may hang; `None` for as long as it likes.
    pub(crate) fn hang(&self) -> Result<Option<Duration>, String> {
        if self.hang == 0.0 {
            return Ok(None);
        }
        Duration::try_from_secs_f64(self.hang).map(Some).map_err(|error| format!("hang: {error}"))
    }
}

/// The settings that options stand for.
///
/// # Safety
/// Their strings are null or end with a zero.
pub(crate) unsafe fn settings(options: Option<&Options>) -> Result<Settings, String> {
    let options = options.ok_or("the options are NULL, and the job has no name")?;
    if options.size != size_of::<Options>() {
        return Err("the program was compiled with another version of standfast_group.h: compile it again".into());
    }
    // SAFETY: promised by the caller.
    let text = |it: *const c_char| (!it.is_null()).then(|| unsafe { CStr::from_ptr(it) }.to_bytes());
    let job = text(options.job).filter(|job| !job.is_empty());
    let job = job.ok_or("the job has no name: start it by `standfast group run`, or name it in the options")?;
    let memory = PathBuf::from(OsStr::from_bytes(text(options.memory).unwrap_or(b"/dev/shm")));
    let node = standfast_member::memory_identity(&memory).map_err(|error| error.to_string())?;
    let scheme = match (options.code, options.checks) {
        (0, _) => Scheme::Parity,
        (1, 0) => Scheme::ReedSolomon { checks: 2 },
        (1, checks) => Scheme::ReedSolomon { checks: checks as usize },
        (other, _) => return Err(format!("there is no code {other}: see enum standfast_code")),
    };
    let base = Settings::new(standfast_member::job_named(job), memory, node);
    let group_members = if options.group == 0 { base.group_members } else { options.group as usize };
    let tracking = if options.compare == 0 { RegionTracking::Auto } else { RegionTracking::Compare };
    let directory = text(options.directory).filter(|path| !path.is_empty());
    let path = |bytes| PathBuf::from(OsStr::from_bytes(bytes));
    let directory = directory.map(path);
    let launch_progress = text(options.milestones).filter(|path| !path.is_empty()).map(path);
    let (directory_every, encode_every) = (options.directory_every.into(), options.encode_every.max(1).into());
    Ok(Settings { scheme, group_members, tracking, directory, directory_every, encode_every, launch_progress, ..base })
}
