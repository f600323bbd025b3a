//! Open files without a name, which the kernel makes of itself: event counters, timers, signals, process handles.

use super::shown::Shown;
use super::{Known, Unsupported, Walk, refused};
use crate::RefusalCode;
use standfast_format::records::{OpenFileKind, TimerDescriptor};
use standfast_linux::monotonic_clocks_of;
use standfast_linux::proc::DescriptorInformation;
use standfast_linux::sys::{descriptors, process};
use std::os::fd::{AsFd, AsRawFd};

const O_EXCL: u32 = libc::O_EXCL as u32;
/// How often a timer is looked at again because it expired between two looks.
const SCANS_MAX: u32 = 8;

impl Walk<'_> {
    pub(super) fn anonymous(&self, place: usize) -> Known {
        let shown = &self.shown[place];
        let information = &shown.information;
        match shown.target.as_slice() {
            b"anon_inode:[eventfd]" => match information.event_count {
                Some(count) => Ok(OpenFileKind::EventCounter { count, semaphore: information.event_semaphore }),
                None => Err(Unsupported::because(RefusalCode::KernelTooOld, "this kernel does not tell its count")),
            },
            // What it watches is found out when all open files are known.
            b"anon_inode:[eventpoll]" => Ok(OpenFileKind::Epoll { interests: Vec::new() }),
            b"anon_inode:[timerfd]" => self.timer(shown),
            b"anon_inode:[signalfd]" => match information.signal_mask {
                Some(mask) => Ok(OpenFileKind::Signals { mask }),
                None => {
                    Err(Unsupported::because(RefusalCode::KernelTooOld, "this kernel does not tell what it listens to"))
                }
            },
            b"anon_inode:inotify" => self.inotify(shown),
            b"anon_inode:[pidfd]" => self.process_handle(shown),
            target if target.starts_with(b"pidfd:") => self.process_handle(shown),
            target => Err(refused::reason(target)),
        }
    }

    fn timer(&self, shown: &Shown) -> Known {
        let own = shown.own(&self.holders)?;
        let (here, number) = (std::process::id() as i32, own.as_raw_fd());
        let mut timer = DescriptorInformation::of(here, number)?.timer;
        for _ in 0..SCANS_MAX {
            // The kernel counts the expirations of an interval timer only when it is asked for the time left.
            descriptors::timer_remaining(own.as_fd())?;
            timer = DescriptorInformation::of(here, number)?.timer;
            if timer.remaining_nanoseconds > 0 || timer.interval_nanoseconds == 0 {
                break;
            }
        }
        // The clock is read after the rest, so that the deadline is never too early.
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

    fn process_handle(&self, shown: &Shown) -> Known {
        if shown.information.flags & O_EXCL != 0 {
            return Err(Unsupported::because(
                RefusalCode::ProcessHandle,
                "a pidfd of a single thread cannot be restored",
            ));
        }
        let process = shown.information.process;
        // In the order of the job's records.
        let mut pids = self.job().iter().map(|holder| holder.pid).chain(self.zombies.iter().copied());
        let place = pids.position(|pid| Some(pid) == process);
        match (place, process) {
            (Some(place), _) => Ok(OpenFileKind::Process { process: place as u32 }),
            (None, Some(pid)) if pid > 0 => Err(Unsupported::because(
                RefusalCode::ProcessHandle,
                format!("it stands for process {pid}, which is not part of the program"),
            )),
            _ => Err(Unsupported::with_hint(
                RefusalCode::ProcessHandle,
                "it stands for a process that has ended",
                "close it once its process has ended",
            )),
        }
    }
}

/// A clock as a process of the job sees it now.
fn job_clock(pid: i32, clock: i32) -> u64 {
    let (monotonic, boottime) = monotonic_clocks_of(pid);
    match clock {
        libc::CLOCK_MONOTONIC => monotonic,
        libc::CLOCK_BOOTTIME | libc::CLOCK_BOOTTIME_ALARM => boottime,
        _ => process::clock_nanoseconds(libc::CLOCK_REALTIME),
    }
}
