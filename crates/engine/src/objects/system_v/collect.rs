//! The collection of System V objects: which of them are the job's, and what they hold.
//!
//! These objects have no owner process. The kernel reports which process made one or used it last, if their numbers
//! have not been reused. In an IPC namespace that a restart has given to the job, everything is the job's. In the first
//! life, the job owns what a living process of the job, and nobody else, has used. It also owns what the same user has
//! created since the start of the job, if all its users have ended. The latter may be another program's, which does no
//! harm: a restart gives the job a copy that nobody asks for.

use crate::inheritance::KnownObjects;
use crate::objects::memory::Unattached;
use crate::supervisors::is_supervisor;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{MessageQueue, Semaphore, SemaphoreSet, SystemVName, TypedMessage};
use standfast_linux::abi;
use standfast_linux::proc::{self, Stat};
use standfast_linux::sys::process;
use standfast_linux::system_v::{self, ObjectUser, SystemVKind, SystemVObject};
use standfast_linux::{IpcNamespace, Pid};
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The System V objects that a job can reach.
#[derive(Debug, Default)]
pub(crate) struct SystemV {
    /// The job's own IPC namespace; `None` if it is in ours.
    place: Option<IpcNamespace>,
    /// Number of the namespace.
    namespace: u64,
    all: Vec<SystemVObject>,
    /// How often the job has attached each segment, by id.
    attached: HashMap<i32, u64>,
    /// The job's objects, in the order of `all`.
    carried: Vec<CarriedObject>,
}

/// An object that is saved with the job.
#[derive(Debug)]
struct CarriedObject {
    object: SystemVObject,
    /// Whether a living process of the job has used it.
    of_job: bool,
}

/// The recorded contents of semaphores and queues.
#[derive(Debug, Default)]
pub(crate) struct SystemVContents {
    pub(crate) semaphores: Vec<SemaphoreSet>,
    pub(crate) queues: Vec<MessageQueue>,
}

impl SystemV {
    /// Lists the objects in the IPC namespace of `main`.
    pub(crate) fn of(main: Pid) -> io::Result<Self> {
        let place = IpcNamespace::of(main)?;
        let all = within(place.as_ref(), SystemVObject::all)?;
        let namespace = std::fs::metadata(format!("/proc/{main}/ns/ipc"))?.ino();
        Ok(Self { place, namespace, all, ..Self::default() })
    }

    /// Counts an attachment by a process of the job, and returns the segment.
    pub(crate) fn attached(&mut self, id: i32) -> Option<&SystemVObject> {
        *self.attached.entry(id).or_default() += 1;
        self.all.iter().find(|object| (object.kind, object.id) == (SystemVKind::Segment, id))
    }

    /// Returns how a segment of the job is named.
    pub(crate) fn name_of_segment(&self, id: i32) -> Option<SystemVName> {
        let is_it = |object: &SystemVObject| (object.kind, object.id) == (SystemVKind::Segment, id);
        self.carried.iter().find(|carried| is_it(&carried.object)).map(name)
    }

    /// Determines which objects belong to the job of these processes, once all segments that it has attached are known.
    /// `known` are those that existed before it began.
    pub(crate) fn judge(&mut self, pids: &[Pid], known: Option<&KnownObjects>) -> Vec<Blocker> {
        let judge = Judge { pids, known, started: started_seconds(pids[0]), attached: &self.attached };
        // The process that had it attached when the table was read has ended since: the table now shows it as
        // unattached.
        if self.all.iter().any(|object| judge.was_attached_by_the_dead(object))
            && let Ok(all) = within(self.place.as_ref(), SystemVObject::all)
        {
            self.all = all;
        }
        let mut blockers = Vec::new();
        for object in &self.all {
            let verdict = if self.place.is_some() { Verdict::Carried { of_job: true } } else { judge.verdict(object) };
            match verdict {
                Verdict::Foreign => {}
                Verdict::Carried { of_job } => self.carried.push(CarriedObject { object: object.clone(), of_job }),
                Verdict::Shared { why } => blockers.push(
                    Blocker::new(RefusalCode::SystemVShared, object.to_string(), why)
                        .with_hint("start all that use it under one standfast run"),
                ),
            }
        }
        blockers
    }

    /// Returns the segments of the job that none of its processes has attached.
    pub(crate) fn unattached(&self) -> Result<Vec<(&SystemVObject, Unattached)>, EngineError> {
        let is_it =
            |object: &SystemVObject| object.kind == SystemVKind::Segment && !self.attached.contains_key(&object.id);
        let mut unattached = Vec::new();
        for carried in self.carried.iter().filter(|carried| is_it(&carried.object)) {
            unattached.extend(self.list(carried, Unattached::scan)?.map(|segment| (&carried.object, segment)));
        }
        Ok(unattached)
    }

    /// Reports whether there are semaphores among the job's objects.
    pub(crate) fn has_semaphores(&self) -> bool {
        self.of_kind(SystemVKind::Semaphores).next().is_some()
    }

    /// Returns the contents of an object, or `None` if it is gone by now. Only an object that another program has made
    /// can be gone.
    fn list<T>(
        &self,
        carried: &CarriedObject,
        scan: impl FnOnce(&SystemVObject) -> io::Result<T>,
    ) -> Result<Option<T>, EngineError> {
        let CarriedObject { object, of_job } = carried;
        match within(self.place.as_ref(), || scan(object)) {
            Ok(held) => Ok(Some(held)),
            Err(error) if !of_job && (is_gone(&error) || has_grown(&error)) => Ok(None),
            Err(error) => Err(cannot_be_read(object, &error)),
        }
    }

    fn of_kind(&self, kind: SystemVKind) -> impl Iterator<Item = &CarriedObject> {
        self.carried.iter().filter(move |carried| carried.object.kind == kind)
    }

    /// Returns the contents of the job's semaphores and queues, while it is frozen.
    pub(crate) fn contents(&self, pids: &[Pid]) -> Result<SystemVContents, EngineError> {
        let mut contents = SystemVContents::default();
        for carried in self.of_kind(SystemVKind::Semaphores) {
            let Some(values) = self.list(carried, system_v::semaphores)? else { continue };
            let user = |pid: Pid| pids.iter().position(|member| *member == pid).map(|place| place as u32);
            let semaphore = |it: system_v::SemaphoreValue| Semaphore { value: it.value, user: user(it.user) };
            let semaphores = values.into_iter().map(semaphore).collect();
            let used = Some(carried.object.is_used);
            contents.semaphores.push(SemaphoreSet { name: name(carried), semaphores, undo: Vec::new(), used });
        }
        for carried in self.of_kind(SystemVKind::Messages) {
            let Some(held) = self.list(carried, system_v::queue_contents)? else { continue };
            let message = |(kind, text): (i64, Vec<u8>)| TypedMessage { kind, text: text.into() };
            contents.queues.push(MessageQueue {
                name: name(carried),
                bytes_max: held.bytes_max,
                messages: held.messages.into_iter().map(message).collect(),
            });
        }
        Ok(contents)
    }

    /// Returns the number of the IPC namespace that they are in.
    pub(crate) fn namespace(&self) -> u64 {
        self.namespace
    }
}

/// Reports whether an error means that an object has been removed.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(abi::EINVAL | abi::EIDRM))
}

/// Reports whether an error means that a queue has got more messages since it was looked at. The job is stopped: if it is a
/// leftover by all other signs, another program uses it.
fn has_grown(error: &io::Error) -> bool {
    error.raw_os_error() == Some(abi::E2BIG)
}

fn within<T>(place: Option<&IpcNamespace>, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    match place {
        Some(place) => place.within(work),
        None => work(),
    }
}

fn name(carried: &CarriedObject) -> SystemVName {
    let CarriedObject { object, of_job } = carried;
    let SystemVObject { id, key, user, group, .. } = *object;
    SystemVName { id, key, mode: object.permissions(), user, group, of_job: *of_job }
}

fn cannot_be_read(object: &SystemVObject, error: &io::Error) -> EngineError {
    EngineError::Refused(vec![
        Blocker::new(
            RefusalCode::SystemVUnreadable,
            object.to_string(),
            format!("its contents cannot be read ({error})"),
        )
        .with_hint("give its owner permission to read it"),
    ])
}

/// The owner of an object.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Other programs'; the job has nothing to do with it.
    Foreign,
    /// The job's.
    Carried { of_job: bool },
    /// The job's and other programs'.
    Shared { why: String },
}

/// Facts about a job in an IPC namespace that it shares with others.
struct Judge<'a> {
    pids: &'a [Pid],
    known: Option<&'a KnownObjects>,
    /// When its main process began, in seconds since 1970.
    started: i64,
    attached: &'a HashMap<i32, u64>,
}

impl Judge<'_> {
    fn verdict(&self, object: &SystemVObject) -> Verdict {
        let attached = self.attached.get(&object.id).copied().filter(|_| object.kind == SystemVKind::Segment);
        let attached = attached.unwrap_or_default();
        let of_job = |user: &&ObjectUser| self.pids.contains(&user.pid);
        let used = attached > 0 || object.users.iter().filter(of_job).any(may_have_been);
        // The supervisor of another job has only read it, as we do. It is looked for last: others may have left hundreds
        // of objects, and the job is stopped.
        let stranger = || {
            let others = object.users.iter().filter(|user| !of_job(user));
            others.filter(|user| may_have_been(user)).find(|user| !is_supervisor(user.pid.main_thread()))
        };
        let shared = |why: String| Verdict::Shared { why };
        if !used {
            let leftovers = self.known.is_some()
                && self.is_new(object)
                && object.creator == process::effective_user()
                && stranger().is_none();
            // An attached object may be attached only by a supervisor that reads it as we do.
            let is_idle = object.attached == 0 || object.users.iter().any(|user| is_supervisor(user.pid.main_thread()));
            return if leftovers && is_idle { Verdict::Carried { of_job: false } } else { Verdict::Foreign };
        }
        if object.attached != attached {
            return shared("other programs have attached it as well".to_owned());
        }
        if object.is_removed() {
            return Verdict::Carried { of_job: true };
        }
        if !self.is_new(object) {
            return shared("it was there before the program began, and others may use it".to_owned());
        }
        if let Some(stranger) = stranger() {
            return shared(format!(
                "{}, which is outside the program, uses it as well",
                crate::files::describe(stranger.pid)
            ));
        }
        let own = process::effective_user();
        if own != 0 && object.user != own {
            return shared("it belongs to another user".to_owned());
        }
        Verdict::Carried { of_job: true }
    }

    /// Reports whether an unused object counts as attached only by processes that are gone: a supervisor that read it,
    /// and ended before it could be recognized.
    fn was_attached_by_the_dead(&self, object: &SystemVObject) -> bool {
        let lives = |user: &ObjectUser| Stat::of(user.pid).is_ok_and(|stat| !matches!(stat.state, b'Z' | b'X'));
        object.attached > 0
            && !self.attached.contains_key(&object.id)
            && object.creator == process::effective_user()
            && self.is_new(object)
            && !object.users.iter().any(lives)
    }

    /// Reports whether it was created since the job began.
    fn is_new(&self, object: &SystemVObject) -> bool {
        match self.known {
            Some(known) => !known.contains(&(object.kind, object.id)),
            None => object.changed_seconds.saturating_add(ROUNDING_SECONDS) >= self.started,
        }
    }
}

/// Times of objects, of the start of processes and of the start of the machine are each rounded to a second.
const ROUNDING_SECONDS: i64 = 2;
pub(super) const NANOSECONDS: u64 = 1_000_000_000;

/// Reports whether the user may have been the process that has this number now: it existed then, in our IPC namespace.
pub(super) fn may_have_been(user: &ObjectUser) -> bool {
    was_there(user.pid, user.seconds)
}

/// Reports whether a process existed at that time, in seconds since 1970, in our IPC namespace.
pub(super) fn was_there(pid: Pid, seconds: i64) -> bool {
    let namespace = |pid: Pid| proc::link(pid, "ns/ipc").ok();
    let lives = Stat::of(pid).is_ok_and(|stat| !matches!(stat.state, b'Z' | b'X'));
    let had_begun = seconds.saturating_add(ROUNDING_SECONDS) >= started_seconds(pid);
    // The kernel does not report the namespace of another user's process.
    lives && had_begun && namespace(pid).is_none_or(|theirs| namespace(Pid::own()) == Some(theirs))
}

/// Returns when a process began, in seconds since 1970.
fn started_seconds(pid: Pid) -> i64 {
    /// `USER_HZ`, the unit of start times: a constant of the kernel's interface.
    const TICKS_PER_SECOND: u64 = 100;
    let clock = |clock| process::clock_nanoseconds(clock) / NANOSECONDS;
    let boot = clock(abi::CLOCK_REALTIME).saturating_sub(clock(abi::CLOCK_BOOTTIME));
    Stat::of(pid).map_or(i64::MAX, |stat| (boot + stat.start_time / TICKS_PER_SECOND) as i64)
}

#[cfg(test)]
mod tests {
    use super::super::leftover::is_unused;
    use super::*;

    /// The number of no process.
    const NOBODY: Pid = Pid::new(i32::MAX);

    fn now() -> i64 {
        (process::clock_nanoseconds(abi::CLOCK_REALTIME) / 1_000_000_000) as i64
    }

    fn object(kind: SystemVKind, users: &[Pid]) -> SystemVObject {
        let user = process::effective_user();
        let (changed_seconds, used_seconds) = (now(), now());
        let users = users.iter().map(|pid| ObjectUser { pid: *pid, seconds: now() }).collect();
        SystemVObject {
            kind,
            id: 7,
            key: 1,
            mode: 0o600,
            user,
            group: 0,
            creator: user,
            users,
            is_used: false,
            changed_seconds,
            used_seconds,
            size: 1,
            attached: 0,
        }
    }

    #[test]
    fn a_use_before_the_process_started_was_by_another_process() {
        let own = Pid::own();
        assert!(was_there(own, now()));
        assert!(!was_there(own, now() - 3600));
        assert!(!was_there(NOBODY, now()), "there is no such process");
    }

    #[test]
    fn a_vanished_object_is_an_error_only_if_it_belongs_to_the_job() {
        let gone = SystemVObject { id: i32::MAX, ..object(SystemVKind::Semaphores, &[]) };
        let contents = |of_job| {
            let all = SystemV { carried: vec![CarriedObject { object: gone.clone(), of_job }], ..SystemV::default() };
            all.contents(&[]).map(|it| it.semaphores.len())
        };
        assert_eq!(contents(false).ok(), Some(0));
        assert!(contents(true).is_err());
    }

    #[test]
    fn a_queue_that_grows_meanwhile_is_an_error_only_if_it_belongs_to_the_job() {
        let list = |of_job| {
            let queue = CarriedObject { object: object(SystemVKind::Messages, &[]), of_job };
            SystemV::default().list(&queue, |_| Err::<(), _>(io::Error::from_raw_os_error(abi::E2BIG)))
        };
        assert!(list(false).is_ok_and(|held| held.is_none()));
        assert!(list(true).is_err());
    }

    #[test]
    fn an_object_attached_only_by_dead_processes_is_rechecked() {
        let (attached, known) = (HashMap::from([(9, 1)]), Vec::new());
        let judge = Judge { pids: &[Pid::new(1)], known: Some(&known), started: 0, attached: &attached };
        let own = Pid::own();
        let with = |attached, id, users: &[Pid]| {
            let object = SystemVObject { attached, id, ..object(SystemVKind::Segment, users) };
            judge.was_attached_by_the_dead(&object)
        };
        assert!(with(1, 7, &[NOBODY]));
        assert!(!with(0, 7, &[NOBODY]), "nobody has it");
        assert!(!with(1, 7, &[NOBODY, own]), "its user lives");
        assert!(!with(1, 9, &[NOBODY]), "the job has it");
    }

    #[test]
    fn a_segment_is_unused_though_other_jobs_have_read_it() {
        let (job, own, stranger) = (Pid::new(i32::MAX - 1), Pid::own(), Stat::of(Pid::own()).unwrap().parent);
        let is_unused = |users: &[Pid], attached| {
            let segment = SystemVObject { attached, ..object(SystemVKind::Segment, users) };
            is_unused(&segment, |user| user.pid == job)
        };
        assert!(is_unused(&[job], 0) && is_unused(&[job, job], 0));
        assert!(is_unused(&[job, own], 0) && is_unused(&[job, own], 1), "a supervisor reads it");
        assert!(is_unused(&[job, NOBODY], 0), "one that has ended read it");
        assert!(!is_unused(&[job, stranger], 0), "another program uses it");
        assert!(!is_unused(&[job, own], 2) && !is_unused(&[job, job], 1), "it is attached");
        assert!(!is_unused(&[NOBODY, job], 0) && !is_unused(&[], 0), "another process made it");
    }

    #[test]
    fn an_object_belongs_to_the_job_if_only_the_job_has_used_it() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let member = Pid::new(child.id() as i32);
        // A process that is neither the job nor we: our parent.
        let stranger = Stat::of(Pid::own()).unwrap().parent;
        let (attached, known) = (HashMap::from([(9, 2)]), vec![(SystemVKind::Messages, 8)]);
        let pids = [member];
        let judge = Judge { pids: &pids, known: Some(&known), started: 0, attached: &attached };
        let with = |users: &[Pid], change: &dyn Fn(&mut SystemVObject)| {
            let mut object = object(SystemVKind::Messages, users);
            change(&mut object);
            judge.verdict(&object)
        };
        let unchanged = |_: &mut SystemVObject| {};
        let verdicts = [
            with(&[member], &unchanged),
            with(&[NOBODY], &unchanged),
            with(&[NOBODY], &|it| it.creator += 1),
            with(&[NOBODY], &|it| it.id = 8),
            with(&[], &|it| it.attached = 1),
        ];
        // The state while the supervisor of another job, for which we stand in here, reads it.
        let own = Pid::own();
        let scanned = with(&[NOBODY, own], &|it| it.attached = 1);
        let shared = [with(&[member], &|it| it.id = 8)].map(|verdict| matches!(verdict, Verdict::Shared { .. }));
        let segment = |attached| {
            let object = SystemVObject { id: 9, attached, ..object(SystemVKind::Segment, &[]) };
            judge.verdict(&object)
        };
        let segments = [segment(2), segment(3)];
        let with_stranger = with(&[member, stranger], &|it| it.users[1].seconds = i64::MAX - 2);
        // Its maker has ended long ago. The process that has its number now did not make it, no matter who has used it
        // since.
        let long_made = with(&[stranger, own], &|it| it.users[0].seconds = 0);
        child.kill().unwrap();
        child.wait().unwrap();
        let (certain, uncertain) = (Verdict::Carried { of_job: true }, Verdict::Carried { of_job: false });
        assert_eq!(verdicts, [certain, uncertain, Verdict::Foreign, Verdict::Foreign, Verdict::Foreign]);
        assert_eq!([scanned, long_made], [Verdict::Carried { of_job: false }, Verdict::Carried { of_job: false }]);
        assert_eq!(shared, [true]);
        assert_eq!(segments[0], Verdict::Carried { of_job: true });
        assert!(matches!(segments[1], Verdict::Shared { .. }));
        assert!(matches!(with_stranger, Verdict::Shared { .. }));
    }
}
