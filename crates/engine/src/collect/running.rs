//! The part of the collection that needs no freeze: what would prevent a checkpoint of a job that runs meanwhile.

use super::process_snapshot::{ProcessSnapshot, SupervisorBaseline};
use super::{Findings, Subject, isolation_mismatch, named, restrictions};
use crate::births::rehearse_births;
use crate::capture_options::ExternalSockets;
use crate::endpoint::TerminalHolder;
use crate::folders::Folders;
use crate::inheritance::Inheritance;
use crate::objects::{MemoryObjects, Motion, ShownProcess, Terms, outline_of_tree};
use crate::partners::CutPartners;
use crate::shared::Kept;
use crate::tree::{Member, Roots, borrows_memory, has_other_threads};
use crate::{Blocker, EngineError, ProcessIdentity};
use standfast_linux::Pid;
use standfast_linux::proc::{self, Stat};
use std::collections::BTreeSet;
use std::time::Duration;

/// How often we look at a job whose descriptors come and go, before we believe the last look.
const SCANS_MAX: usize = 10;
/// The pause between two looks. It is long enough for a task to complete its current action, such as closing a
/// descriptor left in it by a supervisor that died a moment ago.
const SCANS_PAUSE: Duration = Duration::from_millis(100);

/// Returns what in this process and its descendants could not be carried over. This is the part of the collection that
/// needs no freeze.
///
/// # Errors
/// If the process is gone or may not be inspected.
pub fn examine(pid: Pid, external_sockets: ExternalSockets) -> Result<Vec<Blocker>, EngineError> {
    examine_with(pid, Outsiders { external_sockets, ..Outsiders::default() }, &Kept::default())
}

/// Who outside a job has to do with it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outsiders<'a> {
    pub(crate) external_sockets: ExternalSockets,
    /// The other parts, if the job is a part of a distributed one.
    pub(crate) partners: Option<&'a dyn CutPartners>,
    /// The holder of its terminal.
    pub(crate) terminal: Option<&'a dyn TerminalHolder>,
}

/// Does the same for a job that has copies of files with code.
pub(crate) fn examine_with(pid: Pid, outsiders: Outsiders<'_>, kept: &Kept) -> Result<Vec<Blocker>, EngineError> {
    let Outsiders { external_sockets, partners, terminal } = outsiders;
    let main = ProcessIdentity::of(pid)?;
    let parent = Stat::of(pid).map_err(|_| EngineError::Ended)?.parent;
    // Processes that lose their parent become children of our supervisor, or of the init that a supervisor made.
    let executable = |pid| proc::link(pid, "exe").ok();
    let reaper = Some(parent).filter(|it| executable(*it).is_some_and(|own| executable(Pid::own()) == Some(own)));
    let roots = Roots { main, reaper };
    let mut members = roots.members();
    // A process that lives in its parent's memory comes from vfork and will soon execute a program.
    members.retain(|member| !borrows_memory(member));
    let written = BTreeSet::new();
    let terms = Terms {
        motion: Motion::Running,
        external_sockets,
        partners,
        meets_partners: false,
        frozen: None,
        kept,
        terminal,
        reused_ports: None,
        written: &written,
        taken: None,
    };
    let found = seen_twice(SCANS_MAX, || {
        let examined = examine_these(&members, terms);
        // Processes come and go, so the next look covers those that are still there.
        members.retain(|member| match member.wait_status {
            // Its parent may have reaped it by now.
            Some(_) => Stat::of(member.pid).is_ok(),
            None => proc::has_memory(member.pid) || is_headless(member.pid),
        });
        if members.first().is_some_and(|first| first.pid == pid) { examined } else { Err(EngineError::Ended) }
    });
    match found {
        Err(EngineError::Refused(blockers)) => Ok(blockers),
        found => found,
    }
}

/// Returns what in the folders of a job could not be saved, so that it is reported early. The contents may change
/// meanwhile.
pub(crate) fn examine_folders(folders: &Folders) -> Result<Vec<Blocker>, EngineError> {
    let own = SupervisorBaseline::scan()?.status;
    match MemoryObjects::default().save_folders(folders, &own) {
        Err(EngineError::Refused(blockers)) => Ok(blockers),
        looked => looked.map(|_| Vec::new()),
    }
}

/// Returns what two consecutive looks agree on. A pipe with one end, or a descriptor without a file, may just have been
/// closed between two questions of one look. A process that is gone may have ended between them.
fn seen_twice(
    scans_max: usize,
    mut scan: impl FnMut() -> Result<Vec<Blocker>, EngineError>,
) -> Result<Vec<Blocker>, EngineError> {
    let mut last: Option<Vec<Blocker>> = None;
    for _ in 1..scans_max {
        match (scan(), last.take()) {
            (Ok(found), None) if !found.is_empty() => {
                last = Some(found);
                std::thread::sleep(SCANS_PAUSE);
            }
            (Ok(mut found), before) => {
                found.retain(|it| before.as_ref().is_some_and(|before| before.contains(it)));
                return Ok(found);
            }
            (Err(_), before) => last = before,
        }
    }
    scan()
}

/// Does the same for these processes, which are one job.
fn examine_these(members: &[Member], terms: Terms<'_>) -> Result<Vec<Blocker>, EngineError> {
    let (living, zombies): (Vec<_>, Vec<_>) = members.iter().cloned().partition(|it| it.wait_status.is_none());
    let at = |pid| {
        // If the main thread of a process has ended, the kernel tells unprivileged users nothing about the process.
        let looked = if is_headless(pid) { Err(std::io::ErrorKind::PermissionDenied.into()) } else { Subject::at(pid) };
        looked.map_err(|source| crate::forbidden::forbidden(pid, source))
    };
    let supervisor_baseline = SupervisorBaseline::scan()?;
    let subjects: Vec<Subject<'_>> = living.iter().map(|member| at(member.pid)).collect::<Result<_, _>>()?;
    let main = subjects.first().ok_or(EngineError::Ended)?.pid;
    let mut blockers =
        Findings::of(&subjects, &zombies, terms, &Inheritance::of_orphan(main), &supervisor_baseline)?.blockers;
    for subject in &subjects {
        let scanning = |source| crate::forbidden::forbidden(subject.pid, source);
        let others =
            restrictions::of_other_threads(subject.pid, &subject.process_snapshot, &supervisor_baseline.status)
                .map_err(scanning)?;
        blockers.append(&mut named(others, subject.pid, subjects.len()));
    }
    let process_snapshots: Vec<&ProcessSnapshot> = subjects.iter().map(|subject| &subject.process_snapshot).collect();
    blockers.append(&mut isolation_mismatch::find(members, &process_snapshots));
    blockers.append(&mut isolation_mismatch::traced(members));
    // If one of them has ended meanwhile, the next look notices it.
    let shown: Vec<ShownProcess<'_>> = process_snapshots.iter().map(|it| it.shown()).collect();
    let tree = outline_of_tree(&living, &zombies, &shown);
    blockers.append(&mut tree.map(|tree| rehearse_births(&tree)).unwrap_or_default());
    Ok(blockers)
}

/// Reports whether its main thread has ended while others continue.
fn is_headless(pid: Pid) -> bool {
    Stat::of(pid).is_ok_and(|stat| stat.state == b'Z') && has_other_threads(pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RefusalCode;

    fn blocker(what: &str) -> Blocker {
        Blocker::new(RefusalCode::PinnedMemory, what, String::new())
    }

    /// Returns the outcome of looks that find this, one after another.
    fn seen(scans: Vec<Result<Vec<&str>, EngineError>>) -> (Result<Vec<String>, EngineError>, usize) {
        let (count, mut scans) = (scans.len(), scans.into_iter());
        let scan = || scans.next().expect("a look too many").map(|it| it.into_iter().map(blocker).collect());
        let found = seen_twice(count.max(2), scan);
        (found.map(|it| it.into_iter().map(|it| it.what).collect()), scans.len())
    }

    fn failed() -> EngineError {
        crate::forbidden::forbidden(Pid::new(1), std::io::Error::from_raw_os_error(9))
    }

    #[test]
    fn a_blocker_seen_by_only_one_scan_does_not_count() {
        let (found, _) = seen(vec![Ok(vec!["a pipe", "a socket"]), Ok(vec!["a socket", "another pipe"]), Ok(vec![])]);
        assert_eq!(found.expect("two looks"), ["a socket"]);
        let (found, unneeded) = seen(vec![Ok(vec![]), Ok(vec!["a pipe"]), Ok(vec!["a pipe"])]);
        assert_eq!((found.expect("one look is enough"), unneeded), (vec![], 2));
    }

    #[test]
    fn a_failed_scan_is_repeated() {
        let (found, _) = seen(vec![Err(failed()), Ok(vec!["a pipe"]), Err(failed()), Ok(vec!["a pipe"])]);
        assert_eq!(found.expect("two scans that found the same"), ["a pipe"]);
        let (found, unneeded) = seen(vec![Err(failed()), Err(failed()), Err(failed())]);
        assert!(found.is_err() && unneeded == 0);
    }
}
