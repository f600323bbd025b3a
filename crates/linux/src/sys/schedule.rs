//! Scheduling of tasks: policy, priorities, processors. All of it can be read and set from outside.
//!
//! # Safety
//! Each block passes plain numbers or addresses of live local values of the size given to the call that it names.

use super::check;
use crate::Tid;
use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::set_current_timer_slack;
use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

/// Longest sleep for which 50 us more matter.
const SHORT: Duration = Duration::from_millis(1);

/// Bytes of the largest processor mask requested: 8192 processors, the most for which Linux can be built. rustix has room
/// for 1024.
const AFFINITY_BYTES_MAX: usize = 1024;
/// `IOPRIO_WHO_PROCESS`.
const WHO_PROCESS: libc::c_long = 1;

/// `struct sched_attr`, as of Linux 5.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct SchedulingAttributes {
    /// Length of this structure; filled in by [`set_attributes`].
    pub size: u32,
    /// SCHED_OTHER, SCHED_FIFO, ...
    pub policy: u32,
    /// SCHED_FLAG_ bits.
    pub flags: u64,
    /// Nice value.
    pub nice: i32,
    /// Real-time priority.
    pub priority: u32,
    /// Runtime of SCHED_DEADLINE, in nanoseconds; for other policies, the requested slice.
    pub runtime: u64,
    /// Parameter of SCHED_DEADLINE.
    pub deadline: u64,
    /// Parameter of SCHED_DEADLINE.
    pub period: u64,
    /// Minimum utilization.
    pub utilization_min: u32,
    /// Maximum utilization.
    pub utilization_max: u32,
}

/// Sleeps for about `duration`. The kernel extends a sleep by the timer slack of the thread, mostly 50 us; for a short
/// sleep this function reduces the slack meanwhile.
/// <https://man7.org/linux/man-pages/man2/PR_SET_TIMERSLACK.2const.html>
pub fn rest(duration: Duration) {
    // Through libc, since rustix would cut off a slack of more than two seconds.
    // SAFETY: plain numbers.
    let slack = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    if duration > SHORT || slack <= 0 {
        return std::thread::sleep(duration);
    }
    // The kernel takes any slack.
    let set = |nanoseconds| {
        let _ = set_current_timer_slack(NonZeroU64::new(nanoseconds));
    };
    set(1);
    std::thread::sleep(duration);
    set(slack as u64);
}

/// sched_getattr(2). <https://man7.org/linux/man-pages/man2/sched_setattr.2.html>
pub fn attributes(tid: Tid) -> io::Result<SchedulingAttributes> {
    let mut attributes = SchedulingAttributes::default();
    let size = size_of::<SchedulingAttributes>();
    // SAFETY: `attributes` is live and has the length passed.
    check(unsafe { libc::syscall(libc::SYS_sched_getattr, tid.get(), &raw mut attributes, size, 0) })?;
    // The length that this kernel has filled in says nothing about the task.
    attributes.size = 0;
    Ok(attributes)
}

/// sched_setattr(2).
pub fn set_attributes(tid: Tid, attributes: &SchedulingAttributes) -> io::Result<()> {
    let attributes = SchedulingAttributes { size: size_of::<SchedulingAttributes>() as u32, ..*attributes };
    // SAFETY: `attributes` is live and contains its own length.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, tid.get(), &raw const attributes, 0) }).map(drop)
}

/// Returns the nice value of a task: getpriority(2) reports it under every policy, sched_getattr(2) only under ordinary
/// ones.
pub fn nice(tid: Tid) -> io::Result<i32> {
    Ok(getpriority_process(Some(tid.as_argument()?))?)
}

/// setpriority(2) of one task.
pub fn set_nice(tid: Tid, nice: i32) -> io::Result<()> {
    Ok(setpriority_process(Some(tid.as_argument()?), nice)?)
}

/// sched_getaffinity(2): returns the mask as bytes, cut off after the last processor in it.
pub fn affinity(tid: Tid) -> io::Result<Vec<u8>> {
    let mut mask = [0u8; AFFINITY_BYTES_MAX];
    // SAFETY: `mask` is live and has the length passed.
    let bytes = check(unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid.get(), mask.len(), mask.as_mut_ptr()) })?;
    let used = mask[..bytes as usize].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    Ok(mask[..used].to_vec())
}

/// sched_setaffinity(2). Ignores processors that the task may not use here; EINVAL if none is left.
pub fn set_affinity(tid: Tid, mask: &[u8]) -> io::Result<()> {
    let mut padded = [0u8; AFFINITY_BYTES_MAX];
    let bytes = mask.len().min(padded.len());
    padded[..bytes].copy_from_slice(&mask[..bytes]);
    // SAFETY: `padded` is live and has the length passed.
    check(unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid.get(), padded.len(), padded.as_ptr()) }).map(drop)
}

/// ioprio_get(2) of one task: 0 if none was set.
pub fn io_priority(tid: Tid) -> io::Result<u32> {
    // SAFETY: plain numbers.
    check(unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, tid.get()) }).map(|priority| priority as u32)
}

/// ioprio_set(2) of one task.
pub fn set_io_priority(tid: Tid, priority: u32) -> io::Result<()> {
    // SAFETY: plain numbers.
    check(unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, tid.get(), priority) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_keeps_the_timer_slack_of_its_thread() {
        let slack = || rustix::thread::current_timer_slack().unwrap();
        set_current_timer_slack(NonZeroU64::new(70_000)).unwrap();
        for duration in [Duration::from_micros(20), SHORT * 2] {
            let begin = std::time::Instant::now();
            rest(duration);
            assert!(begin.elapsed() >= duration);
            assert_eq!(slack(), 70_000);
        }
    }

    #[test]
    fn scheduling_attributes_can_be_read_and_set_again() {
        let thread = Tid::own();
        let own = attributes(thread).unwrap();
        set_attributes(thread, &own).unwrap();
        assert_eq!(attributes(thread).unwrap(), own);
        assert_eq!(nice(thread).unwrap(), own.nice);
        set_nice(thread, own.nice).unwrap();
        let mask = affinity(thread).unwrap();
        assert!(!mask.is_empty() && mask.last() != Some(&0));
        set_affinity(thread, &mask).unwrap();
        assert_eq!(affinity(thread).unwrap(), mask);
        assert_eq!(set_affinity(thread, &[]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(io_priority(thread).unwrap() >> 13, 0);
    }
}
