//! Collects the kernel's timers: `setitimer`, `alarm`, `timer_create`. It also collects the pending signals, since a
//! timer that expires meanwhile becomes one of them.

use super::REAL_TIME;
use crate::freeze::{FrozenProcess, FrozenTask};
use crate::remote_caller::RemoteCaller;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{Bytes, IntervalTimer, PendingSignal, PosixTimer, TimerClock, TimerNotice, Timers};
use standfast_linux::abi;
use standfast_linux::proc::{Notice, Status, TimerInformation};
use standfast_linux::sys::ptrace::Queue;
use standfast_linux::{SignalInformation, TaskError};

/// `ITIMER_REAL`, `ITIMER_VIRTUAL`, `ITIMER_PROF`.
const INTERVAL_TIMERS: u8 = 3;
/// How often timers and pending signals are read until nothing expires in between. An expired timer stays so until its
/// signal is delivered, and nothing is delivered while the program is frozen.
const SCANS_MAX: u32 = 100;
const SECOND: u64 = 1_000_000_000;
const CLOCK_PROCESS_CPUTIME_ID: i32 = abi::CLOCK_PROCESS_CPUTIME_ID;
const CLOCK_THREAD_CPUTIME_ID: i32 = abi::CLOCK_THREAD_CPUTIME_ID;

/// Signals that are pending, as the kernel describes them.
#[derive(Debug, PartialEq, Eq)]
struct PendingSignals {
    /// For the process.
    process: Vec<[u8; 128]>,
    /// For each of its tasks.
    tasks: Vec<Vec<[u8; 128]>>,
}

/// The timers and pending signals that were found.
#[derive(Debug, Default)]
pub(crate) struct FoundTimers {
    pub(crate) timers: Timers,
    /// Signals pending for the process, without those of timers in `timers`.
    pub(crate) pending: Vec<PendingSignal>,
    /// The same for each task.
    pub(crate) pending_of_tasks: Vec<Vec<PendingSignal>>,
    /// Timers (by position) on the processor time of the thread that made them, which the kernel does not name.
    ownerless: Vec<usize>,
}

impl FoundTimers {
    /// Asks with the help of the main thread. Timers of single threads may need [`FoundTimers::ask_thread`] as well.
    pub(crate) fn ask(
        remote_caller: &RemoteCaller<'_>,
        process: &FrozenProcess,
        blockers: &mut Vec<Blocker>,
    ) -> Result<Self, EngineError> {
        let mut pending = pending_signals(process).map_err(|_| EngineError::Ended)?;
        for _ in 0..SCANS_MAX {
            let mut found = Self::default();
            found.ask_interval_timers(remote_caller)?;
            found.ask_posix_timers(remote_caller, process, blockers)?;
            let after = pending_signals(process).map_err(|_| EngineError::Ended)?;
            if after == pending {
                found.take_signals(pending);
                return Ok(found);
            }
            pending = after;
            blockers.clear();
        }
        blockers.push(
            Blocker::new(RefusalCode::SignalsArriving, "timers", "signals kept arriving while their states were read")
                .with_hint("wait a moment")
                .for_now(),
        );
        Ok(Self::default())
    }

    fn ask_interval_timers(&mut self, remote_caller: &RemoteCaller<'_>) -> Result<(), EngineError> {
        let kinds: Vec<u8> = (0..INTERVAL_TIMERS).collect();
        let mut timers = interval_timers(remote_caller, &kinds)?;
        for timer in &mut timers {
            // Less than a microsecond may be left, which looks like a timer that does not run. The question takes longer.
            if timer.kind != REAL_TIME && timer.remaining_microseconds == 0 && timer.interval_microseconds != 0 {
                *timer = interval_timers(remote_caller, &[timer.kind])?[0];
            }
        }
        timers.retain(|timer| timer.interval_microseconds != 0 || timer.remaining_microseconds != 0);
        self.timers.interval = timers;
        Ok(())
    }

    fn ask_posix_timers(
        &mut self,
        remote_caller: &RemoteCaller<'_>,
        process: &FrozenProcess,
        blockers: &mut Vec<Blocker>,
    ) -> Result<(), EngineError> {
        let Ok(informations) = TimerInformation::of(process.pid) else {
            blockers.push(Blocker::new(
                RefusalCode::KernelTooOld,
                "POSIX timers",
                "this kernel does not report which ones a program has made (it lacks CONFIG_CHECKPOINT_RESTORE)",
            ));
            return Ok(());
        };
        for information in informations {
            let Some((clock, is_owner_known)) = clock(information.clock, process) else {
                blockers.push(foreign_clock(&information));
                continue;
            };
            let (remaining_nanoseconds, interval_nanoseconds) = times(remote_caller, information.id)?;
            let threaded = process.tasks.len() > 1;
            if !is_owner_known && threaded {
                self.ownerless.push(self.timers.posix.len());
            }
            self.timers.posix.push(PosixTimer {
                id: information.id,
                clock,
                notice: notice(information.notice, process),
                signal: information.signal,
                value: information.value,
                remaining_nanoseconds,
                interval_nanoseconds,
                has_expired: false,
            });
        }
        Ok(())
    }

    /// Assigns pending signals to their timers. The kernel has one signal for each timer, never two, so a pending
    /// signal identifies its timer.
    fn take_signals(&mut self, pending: PendingSignals) {
        let posix = &mut self.timers.posix;
        let take = |signals: Vec<[u8; 128]>| {
            let mut others = Vec::new();
            for bytes in signals {
                let information = SignalInformation(bytes);
                let signal = information.signal() as u8;
                let of = information.timer();
                match posix.iter_mut().find(|timer| Some(timer.id) == of && timer.signal == signal) {
                    Some(timer) => timer.has_expired = true,
                    None => others.push(PendingSignal { signal, information: Bytes::from(bytes.as_slice()) }),
                }
            }
            others
        };
        let mut others = std::iter::once(pending.process).chain(pending.tasks).map(take);
        self.pending = others.next().unwrap_or_default();
        self.pending_of_tasks = others.collect();
    }

    /// Determines which ownerless timers measure the time of the task at `place`, which `remote_caller` asks. While
    /// that task makes a call, and all others are stopped, only its own timers advance.
    pub(crate) fn ask_thread(&mut self, remote_caller: &RemoteCaller<'_>, place: usize) -> Result<(), EngineError> {
        let mut rest = Vec::new();
        for timer in std::mem::take(&mut self.ownerless) {
            let id = self.timers.posix[timer].id;
            let (before, _) = times(remote_caller, id)?;
            let (after, _) = times(remote_caller, id)?;
            if before == after {
                rest.push(timer);
            } else if let TimerClock::Thread { thread, .. } = &mut self.timers.posix[timer].clock {
                *thread = place as u32;
            }
        }
        self.ownerless = rest;
        Ok(())
    }

    /// Refuses timers whose thread is still unknown when every thread has been asked.
    pub(crate) fn refuse_ownerless(&self, blockers: &mut Vec<Blocker>) {
        let refusal = |place: &usize| {
            Blocker::new(RefusalCode::PosixTimer, format!("POSIX timer {}", self.timers.posix[*place].id), "it measures the processor time of one thread and is not running, so that the kernel does not report which thread").with_hint("wait until it is set, or make it with a clock from pthread_getcpuclockid").for_now()
        };
        blockers.extend(self.ownerless.iter().map(refusal));
    }
}

/// Returns the interval timers of these kinds.
fn interval_timers(remote_caller: &RemoteCaller<'_>, kinds: &[u8]) -> Result<Vec<IntervalTimer>, EngineError> {
    let mut batch = remote_caller.batch();
    let ask = |kind: &u8| batch.ask::<4>(abi::SYS_getitimer, |output| [(*kind).into(), output, 0, 0]);
    let asked: Vec<_> = kinds.iter().map(ask).collect();
    let answers = remote_caller.put(&batch)?;
    let timer = |(kind, question): (&u8, _)| {
        let times = answers.words(question)?;
        let microseconds = |seconds: u64, rest: u64| seconds * 1_000_000 + rest;
        Ok(IntervalTimer {
            kind: *kind,
            interval_microseconds: microseconds(times[0], times[1]),
            remaining_microseconds: microseconds(times[2], times[3]),
        })
    };
    kinds.iter().zip(asked).map(timer).collect()
}

/// Returns time left and interval.
fn times(remote_caller: &RemoteCaller<'_>, id: i32) -> Result<(u64, u64), EngineError> {
    let [interval_seconds, interval, seconds, nanoseconds] =
        remote_caller.ask::<4>(abi::SYS_timer_gettime, |output| [id as u64, output, 0, 0])?;
    let total = |seconds: u64, rest: u64| seconds.saturating_mul(SECOND).saturating_add(rest);
    Ok((total(seconds, nanoseconds), total(interval_seconds, interval)))
}

/// Returns what a timer measures, and whether the thread in it is known to be the right one. Numbers below zero hold
/// the inverse of a process or thread id (0 is the maker of the timer). One more bit marks a thread, and two bits the
/// kind of time.
fn clock(number: i32, process: &FrozenProcess) -> Option<(TimerClock, bool)> {
    const OF_THREAD: i32 = 4;
    const KIND: i32 = 3;
    /// A clock that belongs to a descriptor.
    const DEVICE: i32 = 3;
    const EXACT: u8 = 2;
    match number {
        CLOCK_PROCESS_CPUTIME_ID => return Some((TimerClock::Process { kind: EXACT }, true)),
        CLOCK_THREAD_CPUTIME_ID => return Some((TimerClock::Thread { thread: 0, kind: EXACT }, false)),
        0.. => return Some((TimerClock::System { clock: number }, true)),
        _ => {}
    }
    let (id, kind) = (!(number >> 3), number & KIND);
    if kind == DEVICE {
        return None;
    }
    let inner = |task: &FrozenTask| {
        let status = Status::of_task(process.pid, task.task.tid()).ok()?;
        status.ids.last().map(|tid| tid.get())
    };
    let kind = kind as u8;
    let is_thread = number & OF_THREAD != 0;
    match (is_thread, id) {
        (false, 0) => Some((TimerClock::Process { kind }, true)),
        (true, 0) => Some((TimerClock::Thread { thread: 0, kind }, false)),
        (false, _) if inner(&process.tasks[0]) == Some(id) => Some((TimerClock::Process { kind }, true)),
        (false, _) => None,
        (true, _) => {
            let place = process.tasks.iter().position(|task| inner(task) == Some(id))?;
            Some((TimerClock::Thread { thread: place as u32, kind }, true))
        }
    }
}

fn foreign_clock(information: &TimerInformation) -> Blocker {
    Blocker::new(
        RefusalCode::PosixTimer,
        format!("POSIX timer {}", information.id),
        "it measures the processor time of another process or of an ended thread, or a clock device",
    )
    .with_hint("delete the timer")
}

/// Returns who receives the signal of a timer. A thread that has ended receives nothing any more.
fn notice(notice: Notice, process: &FrozenProcess) -> TimerNotice {
    match notice {
        Notice::Nobody => TimerNotice::Nobody,
        Notice::Process => TimerNotice::Process,
        Notice::Thread(tid) => match process.tasks.iter().position(|task| task.task.tid() == tid) {
            Some(place) => TimerNotice::Thread { thread: place as u32 },
            None => TimerNotice::Nobody,
        },
    }
}

fn pending_signals(process: &FrozenProcess) -> Result<PendingSignals, TaskError> {
    let of_process = process.tasks[0].task.pending_signals(Queue::Process)?;
    let of_tasks = process.tasks.iter().map(|task| task.task.pending_signals(Queue::Thread));
    Ok(PendingSignals { process: of_process, tasks: of_tasks.collect::<Result<_, _>>()? })
}
