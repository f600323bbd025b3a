//! Process and thread ids of a restarted job. It gets the old ones if that is allowed, since nobody can tell from
//! outside which ids a program has stored. If it gets new ones, the C library's own records are corrected, and a
//! program that demonstrably stores other ids is refused by name.

use super::plan::{JobPlan, Plan};
use crate::JobIds;
use crate::births::highest_id;
use crate::construction::Construction;
use crate::error::kernel;
use crate::machine::machine;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_core::PAGE_BYTES;
use standfast_format::{Contents, ImageSource};
use standfast_linux::proc;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// How many pages are searched at a time.
const PIECE_PAGES: u64 = 256;

/// How a restarted job gets its process and thread ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IdPolicy {
    /// The old ids, in namespaces of its own if that is allowed; else new ids, unless the program needs the old ones.
    #[default]
    Auto,
    /// New ids, no namespaces; the C library's cached ids are corrected.
    New,
}

impl JobPlan<'_> {
    /// Refuses ids above the kernel's limit, which it never gives. Since Linux 6.14 each namespace has its own limit,
    /// and a new namespace starts with the highest possible one. A job that has made many processes in its namespace
    /// may have ids above the machine's limit.
    pub(super) fn refuse_ids_above_limit(&self) -> Result<(), EngineError> {
        if has_own_limit(&machine(0).kernel_release) {
            return Ok(());
        }
        let limit = proc::ids_max().ok().and_then(|limit| i32::try_from(limit).ok()).unwrap_or(i32::MAX);
        refuse_above(highest_id(self.job), limit)
    }

    /// Refuses new ids for jobs that need the old ones. Processes know each other by their ids. And a Go program stores
    /// its thread ids where nobody finds them, and would hang with new ones.
    pub(super) fn refuse_new_ids(&self, reason: Option<&std::io::Error>) -> Result<(), EngineError> {
        let reason = reason.map(ToString::to_string);
        if self.job.processes.len() > 1 {
            let why = "a job of several processes must have its old ids back";
            return Err(needs_old_ids("process ids", why, reason.as_deref()));
        }
        let program = std::fs::read(OsStr::from_bytes(self.of(0).executable.to_bytes()));
        let is_go = program.is_ok_and(|program| contains(&program, b"\xff Go buildinf:"));
        if !is_go {
            return Ok(());
        }
        Err(needs_old_ids("process ids", "a Go program must have its old ids back", reason.as_deref()))
    }
}

impl Construction {
    /// Searches, under new ids, the program's filled memory for locks that name their owner by an old id.
    pub(super) fn refuse_held_locks(&self, plan: &Plan<'_>, source: &dyn ImageSource) -> Result<(), EngineError> {
        let JobIds::New { reason } = &self.ids else { return Ok(()) };
        let tids: Vec<u32> = plan.process.threads.iter().map(|thread| thread.tid as u32).collect();
        // In a container the main thread, which comes first, often gets the same small id again.
        let is_same = tids.first().is_some_and(|main| *main == self.pid().get() as u32);
        let owners = &tids[usize::from(is_same)..];
        if owners.is_empty() {
            return Ok(());
        }
        let mut bytes = vec![0u8; PIECE_PAGES as usize * PAGE_BYTES];
        for run in source.runs().iter().filter(|run| run.contents == Contents::Stored) {
            let mut rest = run.range;
            while rest.pages() > 0 {
                let (piece, tail) = rest.split_at(PIECE_PAGES);
                let bytes = &mut bytes[..piece.bytes() as usize];
                let reading = |source| kernel("looking for held locks", source);
                self.read_placed(plan.job, run.owner, piece.start(), bytes).map_err(reading)?;
                if let Some(place) = held_lock(bytes, owners) {
                    let lock = piece.start().get() + place as u64;
                    let why = format!("a lock at {lock:#x} is held and names its owner by the old thread id");
                    return Err(needs_old_ids("thread ids", &why, reason.as_deref()));
                }
                rest = tail;
            }
        }
        Ok(())
    }
}

/// Returns where in `bytes` there is a mutex of the GNU C library (`struct __pthread_mutex_s`) that only the named
/// owner can unlock or lock again. Such mutexes are recursive, error-checking, robust or have priority inheritance.
fn held_lock(bytes: &[u8], owners: &[u32]) -> Option<usize> {
    const RECURSIVE: u32 = 1;
    const ERROR_CHECKING: u32 = 2;
    const ROBUST_OR_INHERITING: u32 = 0x30;
    const KIND_BITS: u32 = 0x1ff;
    const OWNER_BITS: u32 = 0x3fff_ffff;
    let word = |at: usize| bytes.get(at..at + 4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
    (0..bytes.len()).step_by(8).find(|at| {
        let [Some(lock), Some(owner), Some(users), Some(kind)] = [0, 8, 12, 16].map(|offset| word(at + offset)) else {
            return false;
        };
        let named = matches!(kind & 3, RECURSIVE | ERROR_CHECKING) || kind & ROBUST_OR_INHERITING != 0;
        let held = lock == 1 || lock == 2 || lock & OWNER_BITS == owner;
        named && held && users == 1 && kind & !KIND_BITS == 0 && owners.contains(&owner)
    })
}

fn refuse_above(id: i32, limit: i32) -> Result<(), EngineError> {
    if id < limit {
        return Ok(());
    }
    Err(refuse(
        format!("id {id}"),
        format!("this machine gives ids below {limit} only (kernel.pid_max)"),
        "raise the limit (sysctl kernel.pid_max=4194304), or restart it with --ids new",
    ))
}

/// Reports whether under this release of Linux each pid namespace has its own limit.
fn has_own_limit(release: &str) -> bool {
    let mut numbers = release.split(|it: char| !it.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(14))
}

fn needs_old_ids(what: &str, why: &str, reason: Option<&str>) -> EngineError {
    match reason {
        Some(reason) => refuse(
            what.to_owned(),
            format!("{why}, and namespaces, which would restore the old ids, are not available here ({reason})"),
            "allow unprivileged user namespaces, or restart it as root",
        ),
        None => refuse(what.to_owned(), why.to_owned(), "restart without --ids new"),
    }
}

fn refuse(what: String, why: String, hint: &str) -> EngineError {
    EngineError::Refused(vec![Blocker::new(RefusalCode::Ids, what, why).with_hint(hint)])
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::{JobState, ProcessState, ThreadState};

    fn mutex(words: [u32; 5]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.resize(128, 0);
        bytes
    }

    #[test]
    fn an_id_above_pid_max_is_refused_with_the_limit() {
        assert!(refuse_above(32_767, 32_768).is_ok());
        let Err(EngineError::Refused(blockers)) = refuse_above(32_768, 32_768) else { panic!("it is not refused") };
        assert!(blockers[0].what.contains("32768") && blockers[0].hint.contains("kernel.pid_max"));
    }

    #[test]
    fn only_held_mutexes_that_record_their_owner_are_found() {
        let owners = [4711, 4712];
        let table = [
            ([1, 1, 4711, 1, 1], true, "recursive"),
            ([2, 0, 4712, 1, 2], true, "error-checking, waited for"),
            ([4711, 0, 4711, 1, 0x10], true, "robust"),
            ([0x8000_0000 | 4711, 0, 4711, 1, 0x20], true, "with priority inheritance, waited for"),
            ([1, 0, 4711, 1, 0], false, "ordinary: nobody asks who owns it"),
            ([0, 0, 0, 0, 1], false, "free"),
            ([1, 1, 9999, 1, 1], false, "somebody else's"),
        ];
        for (words, expected, name) in table {
            assert_eq!(held_lock(&mutex(words), &owners), expected.then_some(64), "{name}");
        }
    }

    #[test]
    fn namespaces_have_a_limit_of_their_own_since_6_14() {
        for (release, own) in [("6.13.9", false), ("6.14.0-rc1", true), ("7.0", true), ("5.15.0-92-generic", false)] {
            assert_eq!(has_own_limit(release), own, "{release}");
        }
    }

    #[test]
    fn the_highest_id_includes_thread_ids() {
        let thread = |tid| ThreadState { tid, ..ThreadState::default() };
        let process = ProcessState { pid: 7, threads: vec![thread(7), thread(12)], ..ProcessState::default() };
        let job = JobState { processes: vec![ProcessState::default(), process], ..JobState::default() };
        assert_eq!(highest_id(&job), 12);
    }
}
