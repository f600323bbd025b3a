//! The kernel's timers of a process under construction: made under their old ids, and set to the time that was left.
//!
//! All signals are blocked meanwhile. A timer that had expired expires again at once, and its signal is pending as
//! before. Other pending signals are queued again.

use super::REAL_TIME;
use crate::EngineError;
use crate::construction::{Construction, building};
use crate::error::kernel;
use standfast_core::Address;
use standfast_format::records::{
    IntervalTimer, PendingSignal, PosixTimer, ProcessState, TimerClock, TimerNotice, Timers,
};
use standfast_linux::Task;
use standfast_linux::abi;
use std::time::{Duration, Instant};

/// `prctl(2)` of Linux 6.15: whether `timer_create` takes the id that it is given.
const PR_TIMER_CREATE_RESTORE_IDS: u64 = 77;
/// How many timers are made and deleted to reach a wanted id on older kernels, which count ids up. 100,000 take about
/// three seconds.
const DETOURS_MAX: u32 = 100_000;
const SIGEV_SIGNAL: u32 = abi::SIGEV_SIGNAL as u32;
const SIGEV_NONE: u32 = abi::SIGEV_NONE as u32;
const SIGEV_THREAD_ID: u32 = abi::SIGEV_THREAD_ID as u32;
const TIMER_ABSTIME: u64 = abi::TIMER_ABSTIME as u64;
const SECOND: u64 = 1_000_000_000;
const MILLION: u64 = 1_000_000;
/// Length of a `struct sigevent`; the kernel's answer is put after it.
const EVENT_BYTES: usize = 64;
/// The shortest time that a timer can be set to, which is practically at once.
const AT_ONCE: u64 = 1;
/// Longest wait for a timer that was set to expire at once.
const EXPIRY_MAX: Duration = Duration::from_secs(10);

/// What a timer is set to: flags of `timer_settime`, and nanoseconds.
struct Setting {
    flags: u64,
    time: u64,
    interval: u64,
}

impl Construction {
    pub(crate) fn set_timers(&self, timers: &Timers) -> Result<(), EngineError> {
        if !timers.posix.is_empty() {
            self.make_timers(&timers.posix)?;
        }
        timers.posix.iter().try_for_each(|timer| self.set_posix_timer(timer))?;
        timers.interval.iter().try_for_each(|timer| self.set_interval_timer(timer))
    }

    /// Queues the pending signals, once nothing that is done here causes any more.
    pub(crate) fn queue_signals(&self, state: &ProcessState) -> Result<(), EngineError> {
        let queue = |task: &Task, number: i64, ids: &[u64], signal: &PendingSignal| {
            let base = task.registers().map_err(building)?;
            let information = self.argument(&signal.information.0)?;
            let mut arguments = [0; 6];
            let given = ids.iter().copied().chain([signal.signal.into(), information]);
            arguments.iter_mut().zip(given).for_each(|(argument, value)| *argument = value);
            self.call_in(task, &base, "queueing a signal again", number, arguments).map(drop)
        };
        let own_pid = self.inner_ids[0].get() as u64;
        for (place, thread) in state.threads.iter().enumerate() {
            let ids = [own_pid, self.inner_ids[place].get() as u64];
            for signal in &thread.pending {
                queue(&self.tasks[place], abi::SYS_rt_tgsigqueueinfo, &ids, signal)?;
            }
        }
        let mut pending = state.pending.iter();
        pending.try_for_each(|signal| queue(self.main(), abi::SYS_rt_sigqueueinfo, &[own_pid], signal))
    }

    fn make_timers(&self, timers: &[PosixTimer]) -> Result<(), EngineError> {
        let switch =
            |on: u64| self.call("choosing timer ids", abi::SYS_prctl, [PR_TIMER_CREATE_RESTORE_IDS, on, 0, 0, 0, 0]);
        let takes_ids = switch(1).is_ok();
        for timer in timers {
            for detour in 0.. {
                let id = self.make_timer(timer)?;
                if id == timer.id {
                    break;
                }
                if id > timer.id || takes_ids || detour == DETOURS_MAX {
                    let reason = std::io::Error::other(format!("got {id} instead of {}", timer.id));
                    return Err(kernel("giving a timer its old id", reason));
                }
                self.call("deleting a timer", abi::SYS_timer_delete, [id as u64, 0, 0, 0, 0, 0])?;
            }
        }
        if takes_ids { switch(0).map(drop) } else { Ok(()) }
    }

    /// Returns the id that it got: the wanted one if the kernel takes ids.
    fn make_timer(&self, timer: &PosixTimer) -> Result<i32, EngineError> {
        let (notify, thread) = match timer.notice {
            TimerNotice::Nobody => (SIGEV_NONE, 0),
            TimerNotice::Process => (SIGEV_SIGNAL, 0),
            TimerNotice::Thread { thread } => (SIGEV_THREAD_ID, self.inner_ids[thread as usize].get()),
        };
        let mut event = timer.value.to_le_bytes().to_vec();
        event.extend(u32::from(timer.signal).to_le_bytes());
        event.extend(notify.to_le_bytes());
        event.extend(thread.to_le_bytes());
        event.resize(EVENT_BYTES, 0);
        event.extend(timer.id.to_le_bytes());
        let event = self.argument(&event)?;
        let answer = event + EVENT_BYTES as u64;
        let arguments = [self.clock_number(timer.clock) as u64, event, answer, 0, 0, 0];
        self.call("making a timer", abi::SYS_timer_create, arguments)?;
        let [id] = self.answered(answer)?;
        // An int; the bytes after it are not the kernel's.
        Ok(id as i32)
    }

    /// Returns the number of a clock. Processor time is named by the inverse of an id, one bit for a thread, and two
    /// for the kind of time.
    fn clock_number(&self, clock: TimerClock) -> i32 {
        const OF_THREAD: i32 = 4;
        let number = |id: i32, bits: i32| !id << 3 | bits;
        match clock {
            TimerClock::System { clock } => clock,
            TimerClock::Process { kind } => number(0, kind.into()),
            TimerClock::Thread { thread, kind } => {
                number(self.inner_ids[thread as usize].get(), OF_THREAD | i32::from(kind))
            }
        }
    }

    fn set_posix_timer(&self, timer: &PosixTimer) -> Result<(), EngineError> {
        let (interval, remaining) = (timer.interval_nanoseconds, timer.remaining_nanoseconds);
        if timer.has_expired && has_been_set_again(timer) {
            self.set_time(timer, Setting { flags: TIMER_ABSTIME, time: AT_ONCE, interval: 0 })?;
            self.await_expiry(timer)?;
            return self.set_time(timer, Setting { flags: 0, time: remaining, interval });
        }
        let (flags, time) = match (timer.has_expired, remaining) {
            (false, 0) => return Ok(()),
            (false, remaining) => (0, remaining),
            // Its next times stay the same: it expires as of one interval before the next.
            (true, remaining) if interval != 0 => {
                let now = self.clock_of(timer.clock)?;
                (TIMER_ABSTIME, now.saturating_sub(interval.saturating_sub(remaining)).max(AT_ONCE))
            }
            (true, _) => (TIMER_ABSTIME, AT_ONCE),
        };
        self.set_time(timer, Setting { flags, time, interval })
    }

    fn set_time(&self, timer: &PosixTimer, setting: Setting) -> Result<(), EngineError> {
        let Setting { flags, time, interval } = setting;
        let words = [interval / SECOND, interval % SECOND, time / SECOND, time % SECOND];
        let arguments = [timer.id as u64, flags, self.argument(&bytes(&words))?, 0, 0, 0];
        self.call("setting a timer", abi::SYS_timer_settime, arguments).map(drop)
    }

    /// Waits until a timer that was set to expire at once does not run any more.
    fn await_expiry(&self, timer: &PosixTimer) -> Result<(), EngineError> {
        let begun = Instant::now();
        loop {
            let answer = self.argument(&[0; 32])?;
            self.call("reading a timer", abi::SYS_timer_gettime, [timer.id as u64, answer, 0, 0, 0, 0])?;
            let [.., seconds, nanoseconds] = self.answered::<4>(answer)?;
            if (seconds, nanoseconds) == (0, 0) {
                return Ok(());
            }
            if begun.elapsed() > EXPIRY_MAX {
                return Err(kernel("waiting for a timer", std::io::ErrorKind::TimedOut.into()));
            }
        }
    }

    /// Returns the time of a clock as the new process sees it, in nanoseconds.
    fn clock_of(&self, clock: TimerClock) -> Result<u64, EngineError> {
        let answer = self.argument(&[0; 16])?;
        let clock = self.clock_number(clock) as u64;
        self.call("reading a clock", abi::SYS_clock_gettime, [clock, answer, 0, 0, 0, 0])?;
        let [seconds, nanoseconds] = self.answered(answer)?;
        Ok(seconds.saturating_mul(SECOND).saturating_add(nanoseconds))
    }

    fn set_interval_timer(&self, timer: &IntervalTimer) -> Result<(), EngineError> {
        let time = match timer.remaining_microseconds {
            // Such a timer of real time has expired, and starts again when its signal is delivered: it expires again, and
            // the signal is pending. Timers of processor time start again at once, so this one does not run.
            0 if timer.kind == REAL_TIME => AT_ONCE,
            0 => 0,
            remaining => remaining,
        };
        let set = |time: u64| {
            let interval = timer.interval_microseconds;
            let words = [interval / MILLION, interval % MILLION, time / MILLION, time % MILLION];
            let arguments = [timer.kind.into(), self.argument(&bytes(&words))?, 0, 0, 0, 0];
            self.call("setting an interval timer", abi::SYS_setitimer, arguments)
        };
        set(time)?;
        if time == 0 {
            return Ok(());
        }
        // Timers of processor time get a tick more than they are set to, whatever a tick is here.
        let answer = self.argument(&[0; 32])?;
        self.call("reading an interval timer", abi::SYS_getitimer, [timer.kind.into(), answer, 0, 0, 0, 0])?;
        let [.., seconds, microseconds] = self.answered::<4>(answer)?;
        match (seconds * MILLION + microseconds).checked_sub(time) {
            None | Some(0) => Ok(()),
            Some(more) => set(time.saturating_sub(more).max(AT_ONCE)).map(drop),
        }
    }

    /// Returns words that a call has left in the scratch memory.
    fn answered<const N: usize>(&self, at: u64) -> Result<[u64; N], EngineError> {
        let mut words = [[0u8; 8]; N];
        let reading = |source| kernel("reading from the new process", source);
        self.memory.read(Address::new(at), words.as_flattened_mut()).map_err(reading)?;
        Ok(words.map(u64::from_le_bytes))
    }
}

/// Reports whether a timer that had expired was set again while its signal was pending: more is left than an expired one
/// can have. If less is left, the kernel does not tell.
fn has_been_set_again(timer: &PosixTimer) -> bool {
    timer.remaining_nanoseconds > timer.interval_nanoseconds
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
