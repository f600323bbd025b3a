//! Collects the differences between the processes of a job that a restart would remove, and the shared things that it
//! could not make shared again: namespaces, privileges, memory.

use super::process_snapshot::{NAMESPACES, NamespacesAndCredentials, PID, ProcessSnapshot, TIME};
use crate::files::FileId;
use crate::forbidden::END_TRACER;
use crate::supervisors::is_supervisor;
use crate::tree::Member;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_linux::proc::{self, Stat, Status};
use standfast_linux::sys::process::{self, Common};
use standfast_linux::{Pid, Tid};
use std::cmp::Ordering;

const CAP_SYS_ADMIN: u64 = 1 << 21;
/// The bit of a wait status that says that a core file was left.
const CORE_DUMPED: i32 = 0x80;

/// Returns which of the processes of a job could not be restored together. The main process is the first; it is compared
/// with its parent, from which it has its context. `process_snapshots` are those of the living processes.
pub(super) fn find(members: &[Member], process_snapshots: &[&ProcessSnapshot]) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    let living: Vec<&Member> = members.iter().filter(|member| member.wait_status.is_none()).collect();
    let Some(main) = process_snapshots.first() else { return blockers };
    if living.len() > 1 && !process::may_compare() {
        let why = "this container forbids kcmp, which shows whether they share memory, a directory or descriptors";
        let hint = "give the container CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)";
        blockers.push(Blocker::new(RefusalCode::SharedContext, "several processes", why).with_hint(hint));
        return blockers;
    }
    let outside =
        Status::of(main.stat.parent).and_then(|status| Ok((NamespacesAndCredentials::of(main.stat.parent)?, status)));
    for (place, (member, own)) in living.iter().zip(process_snapshots).enumerate() {
        // We may not be allowed to inspect the parent.
        let (norm, status) = match &outside {
            _ if place > 0 => (&main.namespaces_and_credentials, &main.status),
            Ok((namespaces_and_credentials, status)) => (namespaces_and_credentials, status),
            Err(_) => continue,
        };
        blockers.extend(
            differences(own, norm, status)
                .into_iter()
                .chain(place_of_children(member.pid, &own.status, &own.namespaces_and_credentials))
                .map(|what| of_process(member.pid, RefusalCode::OwnContext, what)),
        );
    }
    blockers.append(&mut in_common(&living));
    blockers.extend(members.iter().filter(|it| it.wait_status.is_some_and(|it| it & CORE_DUMPED != 0)).map(|zombie| {
        let why = "it ended and left a core file, and a restart would leave another one";
        of_process(zombie.pid, RefusalCode::CoreDumped, why)
            .with_hint("wait until its parent has waited for it")
            .for_now()
    }));
    blockers
}

/// Returns processes that another tracer traces, so that we could not stop them. A checkpoint in progress is no blocker.
pub(super) fn traced(members: &[Member]) -> Vec<Blocker> {
    let tracer = |member: &Member| Status::of(member.pid).ok().and_then(|status| status.tracer);
    let traced = members.iter().filter_map(|member| Some((member, tracer(member)?)));
    let traced = traced.filter(|(_, tracer)| !is_supervisor(*tracer));
    let blocker = |(it, tracer): (&Member, _)| {
        of_process(it.pid, RefusalCode::Traced, format!("process {tracer} traces it already")).with_hint(END_TRACER)
    };
    traced.map(blocker).collect()
}

/// Returns what a thread has of its own that a restart would make all threads of the process share. `main` is the
/// snapshot of its process.
pub(super) fn of_thread(pid: Pid, status: &Status, main: &ProcessSnapshot) -> Vec<Blocker> {
    let tid = status.ids.first().copied().unwrap_or(Tid::new(0));
    // A thread that has just ended has nothing any more.
    let shares = |what| process::share(pid.main_thread(), tid, what).unwrap_or(true);
    let mut own = Vec::new();
    if !shares(Common::Descriptors) {
        own.push("a table of descriptors".to_owned());
    }
    if !shares(Common::Directory) {
        own.push("a working directory".to_owned());
    }
    let identity = |status: &Status| (status.users.clone(), status.groups.clone(), status.more_groups.clone());
    if identity(status) != identity(&main.status) {
        own.push("a user or a group".to_owned());
    }
    if (may_have_moved(status) || may_have_moved(&main.status))
        && let Ok(theirs) = NamespacesAndCredentials::of(tid.as_process())
        && (theirs.namespaces != main.namespaces_and_credentials.namespaces
            || place_of_children(tid.as_process(), status, &theirs).is_some())
    {
        own.push("a namespace".to_owned());
    }
    let blocker = |what: String| {
        Blocker::new(
            RefusalCode::ThreadContext,
            format!("thread {tid}"),
            format!("it has {what} of its own, apart from its process, which cannot be restored yet"),
        )
    };
    own.into_iter().map(blocker).collect()
}

/// Without privileges, no thread can have left a namespace. Root may have given up his privileges since.
fn may_have_moved(status: &Status) -> bool {
    status.capabilities.permitted & CAP_SYS_ADMIN != 0 || status.users.contains(&0)
}

/// Returns why children of this task would not live where it lives. The clocks in a namespace that no process has
/// entered yet cannot even be read: `/proc/PID/timens_offsets` shows those of the children.
fn place_of_children(pid: Pid, status: &Status, own: &NamespacesAndCredentials) -> Option<String> {
    let name = if own.time_of_children != own.namespaces[TIME] {
        "time"
    } else if may_have_moved(status) && has_other_ids_for_children(pid, own) {
        "pid"
    } else {
        return None;
    };
    Some(format!("it would make its next child in another namespace ({name}), which a restart could not set up again"))
}

/// The kernel shows no namespace for children as long as that has no process.
fn has_other_ids_for_children(pid: Pid, own: &NamespacesAndCredentials) -> bool {
    const NAME: &str = "ns/pid_for_children";
    // A task that has just ended shows none any more, and kernels before 4.12 show none at all.
    let is_shown = || proc::link(pid, "ns/pid").is_ok() && proc::link(Pid::own(), NAME).is_ok();
    proc::link(pid, NAME).ok() != own.namespaces[PID] && is_shown()
}

/// Returns blockers for processes that requested a signal at the end of their parent. They get it at the end of the
/// thread that made them, but a restart makes all children in main threads.
pub(super) fn signalled_by_thread(
    processes: impl Iterator<Item = (Pid, Option<Pid>)>,
) -> Result<Vec<Blocker>, EngineError> {
    let mut blockers = Vec::new();
    for (pid, parent) in processes {
        let Some(parent) = parent else { continue };
        if !proc::children_of_thread(parent, parent.main_thread()).map_err(|_| EngineError::Ended)?.contains(&pid) {
            let why =
                "it gets a signal when the thread that made it ends, and that is not the main thread of its parent";
            blockers.push(of_process(pid, RefusalCode::ParentDeathSignal, why));
        }
    }
    Ok(blockers)
}

fn of_process(pid: Pid, code: RefusalCode, why: impl Into<String>) -> Blocker {
    let name = proc::read(pid, "comm").unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    let kind = if Stat::of(pid).is_ok_and(|stat| stat.state == b'Z') { "zombie" } else { "process" };
    Blocker::new(code, format!("{kind} {pid} ({})", name.trim()), why)
}

/// Returns what these processes, the main one first, have in common that could not be shared again.
fn in_common(living: &[&Member]) -> Vec<Blocker> {
    let mut blockers: Vec<Blocker> = Vec::new();
    let mut name = |member: &Member, other: &Member, what: &str| {
        let why = format!("it shares {what} with process {}, which cannot be restored yet", other.pid);
        blockers.push(of_process(member.pid, RefusalCode::SharedContext, why));
    };
    let of_one_memory = sharers(living, Common::Memory);
    for (member, first) in &of_one_memory {
        name(member, first, "its memory");
    }
    for (member, first) in sharers(living, Common::Directory) {
        if !of_one_memory.contains(&(member, first)) {
            name(member, first, "its working directory");
        }
    }
    let share = |one: Pid, other: Pid| {
        process::share(one.main_thread(), other.main_thread(), Common::Descriptors).unwrap_or(false)
    };
    for (member, first) in sharers(living, Common::Descriptors) {
        if member.parent.is_none_or(|parent| !share(member.pid, parent)) {
            name(member, first, "its table of descriptors, without being its child,");
        } else if program(member.pid) != program(living[0].pid) {
            name(member, first, "its table of descriptors, and executes another program than the main process,");
        }
    }
    blockers
}

/// Returns processes that share something with an earlier one, each with the first process that has it.
fn sharers<'a>(living: &[&'a Member], what: Common) -> Vec<(&'a Member, &'a Member)> {
    // The first process of each kind, in the kernel's order, so that a few comparisons find a match.
    let mut firsts: Vec<&Member> = Vec::new();
    let mut sharers = Vec::new();
    for member in living {
        // A process that has just ended has nothing any more; its end is noticed elsewhere.
        let main = |member: &Member| member.pid.main_thread();
        let order = |first: &&Member| process::compare(main(first), main(member), what).unwrap_or(Ordering::Less);
        match firsts.binary_search_by(order) {
            // Processes that have ended, or were killed meanwhile, have only that in common.
            Ok(_) if !proc::has_memory(member.pid) => {}
            Ok(place) => sharers.push((*member, firsts[place])),
            Err(place) => firsts.insert(place, member),
        }
    }
    sharers
}

/// Returns what a process executes, by device and inode.
fn program(pid: Pid) -> Option<FileId> {
    std::fs::metadata(format!("/proc/{pid}/exe")).ok().map(|file| FileId::of(&file))
}

/// Returns what differs from `norm`, which a restart would give the process.
fn differences(own: &ProcessSnapshot, norm: &NamespacesAndCredentials, of_norm: &Status) -> Vec<String> {
    let ProcessSnapshot { namespaces_and_credentials, status, .. } = own;
    let mut differences = Vec::new();
    let namespaces: Vec<&str> = NAMESPACES
        .into_iter()
        .enumerate()
        .filter(|(place, name)| {
            let expected = if *name == "time" { &norm.time_of_children } else { &norm.namespaces[*place] };
            namespaces_and_credentials.namespaces[*place] != *expected
        })
        .map(|(_, name)| name)
        .collect();
    if !namespaces.is_empty() {
        differences.push(format!(
            "it is in a namespace of its own ({}), which a restart would not give it",
            namespaces.join(", ")
        ));
    }
    if namespaces_and_credentials.root != norm.root {
        differences.push("it has a root directory of its own, which a restart would not give it".to_owned());
    }
    let identity = |status: &Status| (status.users.clone(), status.groups.clone(), status.more_groups.clone());
    if identity(status) != identity(of_norm) {
        differences.push("it has become another user or group, which a restart would not make it".to_owned());
    }
    differences
}
