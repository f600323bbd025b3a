//! Timer descriptors (timerfd): set again to the time that was left, or to the same moment if they were set to one.

use super::shown::Shown;
use super::{Kind, Known, O_NONBLOCK, Opening, Recorded, Walk, nothing};
use crate::EngineError;
use crate::error::kernel;
use standfast_format::records::{OpenFileKind, TimerDescriptor};
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::monotonic_clocks_of;
use standfast_linux::proc::DescriptorInformation;
use standfast_linux::sys::{descriptors, process};
use std::os::fd::{AsFd, AsRawFd};

/// How often a timer is read again because it expired between two reads.
const SCANS_MAX: u32 = 8;
const TFD_TIMER_ABSTIME: u32 = abi::TFD_TIMER_ABSTIME as u32;
/// `_IOW('T', 0, u64)`; libc does not define it.
const TFD_IOC_SET_TICKS: u64 = 0x4008_5400;
const SECOND: u64 = 1_000_000_000;

pub(super) const KIND: Kind = Kind { collect, check: nothing, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    let shown = &walk.shown[place];
    (shown.target == b"anon_inode:[timerfd]").then(|| walk.timer(shown))
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let OpenFileKind::Timer { timer } = recorded.kind else { return None };
    Some(opening.make_timer(timer, recorded.flags))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    matches!(kind, OpenFileKind::Timer { .. }).then(|| "timer descriptor".to_owned())
}

impl Walk<'_> {
    fn timer(&self, shown: &Shown) -> Known {
        let own = shown.own(&self.holders)?;
        let (here, number) = (Pid::own(), own.as_raw_fd());
        let mut timer = DescriptorInformation::of(here, number)?.timer;
        for _ in 0..SCANS_MAX {
            // The kernel counts the expirations of an interval timer only when it is asked for the time left.
            descriptors::timer_remaining(own.as_fd())?;
            timer = DescriptorInformation::of(here, number)?.timer;
            if timer.remaining_nanoseconds > 0 || timer.interval_nanoseconds == 0 {
                break;
            }
        }
        // The clock is read after the remaining time, so that the deadline is never too early.
        let now = job_clock(self.process_of(shown), timer.clock);
        let deadline =
            if timer.remaining_nanoseconds == 0 { 0 } else { now.saturating_add(timer.remaining_nanoseconds) };
        Ok(OpenFileKind::Timer {
            timer: TimerDescriptor {
                clock: timer.clock,
                flags: timer.flags,
                remaining_nanoseconds: timer.remaining_nanoseconds,
                deadline_nanoseconds: deadline,
                interval_nanoseconds: timer.interval_nanoseconds,
                ticks: timer.ticks,
            },
        })
    }
}

impl Opening<'_> {
    fn make_timer(&self, timer: &TimerDescriptor, flags: u32) -> Result<u64, EngineError> {
        let arguments = [timer.clock as u64, (flags & O_NONBLOCK).into(), 0, 0, 0, 0];
        let made = self.call("making a timer descriptor", abi::SYS_timerfd_create, arguments)?;
        if timer.remaining_nanoseconds > 0 || timer.interval_nanoseconds > 0 {
            let absolute = timer.flags & TFD_TIMER_ABSTIME != 0 && timer.deadline_nanoseconds > 0;
            // A timer that has expired starts again when it is read. One that nobody has set has never expired.
            let runs = timer.remaining_nanoseconds > 0 || timer.ticks > 0;
            let remaining = timer.remaining_nanoseconds.max(runs.into());
            let value = if absolute { timer.deadline_nanoseconds } else { remaining };
            let words = [timer.interval_nanoseconds, value].map(|time| [time / SECOND, time % SECOND]);
            let bytes: Vec<u8> = words.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect();
            let setting = if absolute { timer.flags } else { 0 };
            let arguments = [made, setting.into(), self.process.argument(&bytes)?, 0, 0, 0];
            self.call("setting a timer descriptor", abi::SYS_timerfd_settime, arguments)?;
        }
        if timer.ticks > 0 {
            // It may have expired again just now.
            let scanning = |source| kernel("looking at a timer descriptor", source);
            let now = DescriptorInformation::of(self.process.pid(), made as i32).map_err(scanning)?.timer.ticks;
            let ticks = self.process.argument(&timer.ticks.saturating_add(now).to_le_bytes())?;
            self.call("setting a timer's expirations", abi::SYS_ioctl, [made, TFD_IOC_SET_TICKS, ticks, 0, 0, 0])?;
        }
        Ok(made)
    }
}

/// Returns the time of a clock as a process of the job sees it now.
fn job_clock(pid: Pid, clock: i32) -> u64 {
    let (monotonic, boottime) = monotonic_clocks_of(pid);
    match clock {
        abi::CLOCK_MONOTONIC => monotonic,
        abi::CLOCK_BOOTTIME | abi::CLOCK_BOOTTIME_ALARM => boottime,
        _ => process::clock_nanoseconds(abi::CLOCK_REALTIME),
    }
}
