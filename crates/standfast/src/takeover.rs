//! Takes the lease of a job for a new life. If an earlier life is about to end, the new one waits: the supervisor may
//! still be recording the end, and the kernel may still be freeing the memory and closing the files of killed
//! processes. If an earlier life continues, the new one is refused.
//!
//! The decision is pure ([`Patience`]). The checks, reports and sleeps are not.

use crate::Error;
use crate::event::{JobEvent, Listener};
use crate::identity::in_engine;
use crate::interrupts::Interrupts;
use standfast_engine::{ProcessIdentity, Vitality, exiting_since, group_vitality};
use standfast_linux::Pid;
use standfast_linux::proc;
use standfast_store::{Holder, JobDirectory, Lease, LeaseRequest, LeaseState, Pulse, Purpose, StoreError};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest wait for a life that is about to end. The kernel frees 10 GB a second. A supervisor that flushes a
/// checkpoint from memory has some seconds of grace for that.
pub(crate) const EXIT_MAX: Duration = Duration::from_secs(30);
/// Time for which a life must look alive before the new one is refused. Between its SIGKILL and its exit a thread looks
/// like any other, until it gets a processor. And processes that a program has left behind may just be noticing its
/// end.
pub(crate) const ALIVE_MIN: Duration = Duration::from_millis(300);
/// Waits of at least this long are reported.
const QUIET_MAX: Duration = Duration::from_secs(1);
/// Pause between two checks of a heartbeat.
const WATCH_PAUSE: Duration = Duration::from_millis(200);
/// Pause between two checks of an earlier life.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// Takes the lease for a new life of the job, after waiting for an earlier one that is about to end. A signal can end
/// the wait.
pub(crate) fn take_lease(
    directory: &JobDirectory,
    path: &Path,
    lease_request: LeaseRequest,
    interrupts: Interrupts<'_>,
    listener: &mut Listener<'_>,
) -> Result<Lease, Error> {
    let mut attempt = || -> Result<Result<Lease, StoreError>, Error> {
        await_exit(directory, path, lease_request.purpose, interrupts, listener)?;
        let watched = if lease_request.force { None } else { watch_heartbeat(directory, path, interrupts, listener)? };
        Ok(directory.take_watched_lease(lease_request, watched.as_ref()))
    };
    let taken = match attempt()? {
        // A checkpoint of the life that was about to end may have held it for a moment.
        Err(StoreError::Supervised(_)) => attempt()?,
        taken => taken,
    };
    taken.map_err(|error| refusal(path, error))
}

fn refusal(path: &Path, error: StoreError) -> Error {
    match &error {
        StoreError::ProgramStillRuns { pid } => left_behind(*pid).map(|left| survives(path, left)),
        _ => None,
    }
    .unwrap_or_else(|| Error::of_store(path, error))
}

/// Returns a process that a program has left behind, if the program itself has ended.
fn left_behind(program: i32) -> Option<Pid> {
    let program = Pid::new(program);
    let has_ended = ProcessIdentity::of(program).map_or(true, |it| it.vitality() == Vitality::Gone);
    group_vitality(program).filter(|_| has_ended).map(|(pid, _)| pid)
}

/// Returns the refusal of a restart beside this process.
pub(crate) fn survives(directory: &Path, pid: Pid) -> Error {
    let name = proc::read(pid, "comm").unwrap_or_default();
    let name = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
    Error::Survives { directory: directory.to_owned(), pid: pid.get(), name }
}

/// Waits while the holder of the lease is about to end. The attempt to take the lease reports what then prevents that.
pub(crate) fn await_exit(
    directory: &JobDirectory,
    path: &Path,
    purpose: Purpose,
    interrupts: Interrupts<'_>,
    listener: &mut Listener<'_>,
) -> Result<(), Error> {
    let mut patience = Patience::new(Instant::now());
    let mut remains = None;
    loop {
        let seen = match directory.lease_state().map_err(|error| Error::of_store(path, error))? {
            // Processes that the lease does not name may also still be exiting, and still write to the job's files.
            // Only those that are exiting now count: on a busy machine some others always are.
            LeaseState::Abandoned(holder) => {
                let remains = remains.get_or_insert_with(|| exiting_since(in_engine(holder.supervisor)));
                remains.retain(|process| process.vitality() == Vitality::Exiting);
                remains.first().map_or(Seen::Nothing, |process| Seen::Exiting(process.pid.get()))
            }
            lease_state => look(&lease_state, purpose),
        };
        match patience.next(Instant::now(), seen) {
            Step::GoOn => return Ok(()),
            Step::Wait => {}
            Step::SayAndWait(pid) => listener(&JobEvent::AwaitsExit { pid }),
        }
        interrupts.check()?;
        std::thread::sleep(LOOK_PAUSE);
    }
}

/// Watches the heartbeat of a lease that was taken in another boot, for two of its periods. Returns the heartbeat if it
/// has not moved: then no process that could move it is alive. Clocks are not compared, since those of two machines
/// differ.
fn watch_heartbeat(
    directory: &JobDirectory,
    path: &Path,
    interrupts: Interrupts<'_>,
    listener: &mut Listener<'_>,
) -> Result<Option<Pulse>, Error> {
    let lease_state = || directory.lease_state().map_err(|error| Error::of_store(path, error));
    let LeaseState::OtherBoot(holder, pulse, _) = lease_state()? else { return Ok(None) };
    let watch = Watch { time: 2 * pulse.heartbeat, pulse, begun: Instant::now() };
    listener(&JobEvent::WatchesHeartbeat { host: holder.host, time: watch.time });
    loop {
        std::thread::sleep(WATCH_PAUSE);
        interrupts.check()?;
        match watch.next(Instant::now(), &lease_state()?) {
            Watched::Moved => return Ok(None),
            Watched::Dead => return Ok(Some(watch.pulse)),
            Watched::Unknown => {}
        }
    }
}

/// A heartbeat that is watched.
struct Watch {
    pulse: Pulse,
    begun: Instant,
    time: Duration,
}

/// State of a watched heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
    /// It has moved, or the lease has another holder.
    Moved,
    /// It has not moved, although it would have by now.
    Dead,
    /// It has not moved, but still might.
    Unknown,
}

impl Watch {
    fn next(&self, now: Instant, lease_state: &LeaseState) -> Watched {
        match lease_state {
            LeaseState::OtherBoot(_, pulse, _) if *pulse == self.pulse => {
                let is_over = now.saturating_duration_since(self.begun) > self.time;
                if is_over { Watched::Dead } else { Watched::Unknown }
            }
            _ => Watched::Moved,
        }
    }
}

/// What was found of an earlier life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Nothing to wait for.
    Nothing,
    /// The life is about to end. This process was the last one found of it.
    Exiting(i32),
    /// The life seems to continue.
    Alive,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Take the lease, or be refused.
    GoOn,
    /// Check again soon.
    Wait,
    /// Check again soon, after reporting which process is awaited.
    SayAndWait(i32),
}

/// State of a wait for an earlier life.
#[derive(Debug)]
struct Patience {
    begun: Instant,
    alive_since: Option<Instant>,
    /// The awaited process, and when the wait for it began.
    waits_for: Option<(i32, Instant)>,
    /// The process that was reported last.
    reported: Option<i32>,
}

impl Patience {
    fn new(now: Instant) -> Self {
        Self { begun: now, alive_since: None, waits_for: None, reported: None }
    }

    fn next(&mut self, now: Instant, seen: Seen) -> Step {
        let waited = now.saturating_duration_since(self.begun);
        match seen {
            Seen::Nothing => Step::GoOn,
            Seen::Alive => {
                let since = *self.alive_since.get_or_insert(now);
                if now.saturating_duration_since(since) < ALIVE_MIN { Step::Wait } else { Step::GoOn }
            }
            Seen::Exiting(_) if waited >= EXIT_MAX => Step::GoOn,
            Seen::Exiting(pid) => {
                self.alive_since = None;
                let (_, since) = *self.waits_for.insert(self.waits_for.filter(|it| it.0 == pid).unwrap_or((pid, now)));
                if self.reported == Some(pid) || now.saturating_duration_since(since) < QUIET_MAX {
                    return Step::Wait;
                }
                self.reported = Some(pid);
                Step::SayAndWait(pid)
            }
        }
    }
}

fn look(lease_state: &LeaseState, purpose: Purpose) -> Seen {
    match lease_state {
        LeaseState::Supervised(holder) => look_at_supervised(holder, purpose),
        // The caller wants to adopt the running program.
        LeaseState::Orphaned(..) if purpose == Purpose::Adopt => Seen::Nothing,
        LeaseState::Orphaned(_, program) => look_at_program(in_engine(*program)),
        LeaseState::Free
        | LeaseState::Abandoned(_)
        | LeaseState::OtherBoot(..)
        | LeaseState::Elsewhere(..)
        | LeaseState::Unreadable => Seen::Nothing,
    }
}

fn look_at_supervised(holder: &Holder, purpose: Purpose) -> Seen {
    let supervisor = in_engine(holder.supervisor);
    match (supervisor.vitality(), holder.program.map(in_engine)) {
        (Vitality::Alive, Some(program)) if purpose == Purpose::Live => match look_at_program(program) {
            // The supervisor is recording the end of its program.
            Seen::Nothing => Seen::Exiting(supervisor.pid.get()),
            seen => seen,
        },
        (Vitality::Alive, _) => Seen::Alive,
        (Vitality::Exiting | Vitality::Gone, _) => Seen::Exiting(supervisor.pid.get()),
    }
}

fn look_at_program(program: ProcessIdentity) -> Seen {
    let seen = |pid, vitality| match vitality {
        Vitality::Gone => Seen::Nothing,
        Vitality::Exiting => Seen::Exiting(pid),
        Vitality::Alive => Seen::Alive,
    };
    match program.vitality() {
        // The kernel does not reuse the number as long as there is a process group with it.
        Vitality::Gone if ProcessIdentity::of(program.pid).is_ok_and(|now| now != program) => Seen::Nothing,
        Vitality::Gone => {
            group_vitality(program.pid).map_or(Seen::Nothing, |(pid, vitality)| seen(pid.get(), vitality))
        }
        vitality => seen(program.pid.get(), vitality),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(milliseconds: u64) -> Instant {
        static BEGUN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *BEGUN.get_or_init(Instant::now) + Duration::from_millis(milliseconds)
    }

    #[test]
    fn an_exiting_process_is_named_once_after_a_second() {
        let mut patience = Patience::new(after(0));
        assert_eq!(patience.next(after(0), Seen::Exiting(7)), Step::Wait);
        assert_eq!(patience.next(after(999), Seen::Exiting(7)), Step::Wait);
        assert_eq!(patience.next(after(1000), Seen::Exiting(7)), Step::SayAndWait(7));
        assert_eq!(patience.next(after(1001), Seen::Exiting(7)), Step::Wait);
        assert_eq!(patience.next(after(20_000), Seen::Exiting(8)), Step::Wait);
        assert_eq!(patience.next(after(21_000), Seen::Exiting(8)), Step::SayAndWait(8));
        assert_eq!(patience.next(after(21_001), Seen::Nothing), Step::GoOn);
    }

    #[test]
    fn an_exiting_process_is_waited_for_up_to_30_s() {
        let mut patience = Patience::new(after(0));
        assert_eq!(patience.next(after(28_999), Seen::Exiting(7)), Step::Wait);
        assert_eq!(patience.next(after(29_999), Seen::Exiting(7)), Step::SayAndWait(7));
        assert_eq!(patience.next(after(30_000), Seen::Exiting(7)), Step::GoOn);
    }

    #[test]
    fn a_running_process_is_waited_for_up_to_300_ms() {
        let mut patience = Patience::new(after(0));
        assert_eq!(patience.next(after(0), Seen::Alive), Step::Wait);
        assert_eq!(patience.next(after(299), Seen::Alive), Step::Wait);
        assert_eq!(patience.next(after(300), Seen::Alive), Step::GoOn);
    }

    #[test]
    fn a_process_seen_exiting_restarts_the_wait() {
        let mut patience = Patience::new(after(0));
        assert_eq!(patience.next(after(0), Seen::Alive), Step::Wait);
        assert_eq!(patience.next(after(200), Seen::Exiting(7)), Step::Wait);
        assert_eq!(patience.next(after(400), Seen::Alive), Step::Wait);
        assert_eq!(patience.next(after(700), Seen::Alive), Step::GoOn);
    }
}
