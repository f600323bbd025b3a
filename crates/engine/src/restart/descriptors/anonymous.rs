//! Open files that the kernel makes of itself: event counters, timers, signals, process handles.

use super::{O_NONBLOCK, Opening};
use crate::EngineError;
use crate::error::kernel;
use standfast_format::records::TimerDescriptor;
use standfast_linux::proc::DescriptorInformation;

const EFD_SEMAPHORE: u64 = libc::EFD_SEMAPHORE as u64;
const TFD_TIMER_ABSTIME: u32 = libc::TFD_TIMER_ABSTIME as u32;
/// `_IOW('T', 0, u64)`; libc does not know it.
const TFD_IOC_SET_TICKS: u64 = 0x4008_5400;
const SIGNAL_SET_BYTES: u64 = 8;
const SECOND: u64 = 1_000_000_000;

impl Opening<'_> {
    pub(super) fn make_counter(&self, count: u64, semaphore: bool, flags: u32) -> Result<u64, EngineError> {
        let semaphore = if semaphore { EFD_SEMAPHORE } else { 0 };
        let flags = u64::from(flags & O_NONBLOCK) | semaphore;
        let counter = self.call("making an event counter", libc::SYS_eventfd2, [0, flags, 0, 0, 0, 0])?;
        // The initial value that the call takes has 32 bits only.
        if count > 0 {
            let word = self.process.argument(&count.to_le_bytes())?;
            self.call("setting an event counter", libc::SYS_write, [counter, word, 8, 0, 0, 0])?;
        }
        Ok(counter)
    }

    pub(super) fn make_timer(&self, timer: &TimerDescriptor, flags: u32) -> Result<u64, EngineError> {
        let arguments = [timer.clock as u64, (flags & O_NONBLOCK).into(), 0, 0, 0, 0];
        let made = self.call("making a timer descriptor", libc::SYS_timerfd_create, arguments)?;
        let runs = timer.remaining_nanoseconds > 0 || timer.interval_nanoseconds > 0;
        if runs {
            let absolute = timer.flags & TFD_TIMER_ABSTIME != 0 && timer.deadline_nanoseconds > 0;
            let value = if absolute { timer.deadline_nanoseconds } else { timer.remaining_nanoseconds.max(1) };
            let words = [timer.interval_nanoseconds, value].map(|time| [time / SECOND, time % SECOND]);
            let bytes: Vec<u8> = words.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect();
            let setting = if absolute { timer.flags } else { 0 };
            let arguments = [made, setting.into(), self.process.argument(&bytes)?, 0, 0, 0];
            self.call("setting a timer descriptor", libc::SYS_timerfd_settime, arguments)?;
        }
        if timer.ticks > 0 {
            // It may have expired again just now.
            let scanning = |source| kernel("looking at a timer descriptor", source);
            let now = DescriptorInformation::of(self.process.pid(), made as i32).map_err(scanning)?.timer.ticks;
            let ticks = self.process.argument(&timer.ticks.saturating_add(now).to_le_bytes())?;
            self.call("setting a timer's expirations", libc::SYS_ioctl, [made, TFD_IOC_SET_TICKS, ticks, 0, 0, 0])?;
        }
        Ok(made)
    }

    pub(super) fn make_signal_descriptor(&self, mask: u64, flags: u32) -> Result<u64, EngineError> {
        let mask = self.process.argument(&mask.to_le_bytes())?;
        let arguments = [u64::MAX, mask, SIGNAL_SET_BYTES, (flags & O_NONBLOCK).into(), 0, 0];
        self.call("making a signal descriptor", libc::SYS_signalfd4, arguments)
    }

    /// A pidfd of a process of the job.
    pub(super) fn make_process_handle(&self, pid: i32, flags: u32) -> Result<u64, EngineError> {
        let own = self.plan.process.pid == pid;
        let pid = if own { self.call("asking for the process id", libc::SYS_getpid, [0; 6])? } else { pid as u64 };
        let arguments = [pid, (flags & O_NONBLOCK).into(), 0, 0, 0, 0];
        self.call("making a process descriptor", libc::SYS_pidfd_open, arguments)
    }
}
