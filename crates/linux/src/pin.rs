//! Ring 2: moves this thread to the processor of a task with which it is about to communicate.
//!
//! If tracer and task share a processor, each stop is a plain switch, and an injected call that costs two of them takes
//! 12 to 16 us. From another processor it takes an interrupt each way, 80 to 116 us. Besides, the scheduler has a clock
//! for each processor.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::OnceLock;

/// Holds this thread on one processor until dropped.
#[derive(Debug)]
pub struct PinnedToCpu {
    before: CpuSet,
}

impl PinnedToCpu {
    /// Moves this thread to `cpu`. Does nothing if that is not allowed, since it only affects speed.
    pub fn new(cpu: usize) -> Option<Self> {
        if cpu >= CpuSet::MAX_CPU {
            return None;
        }
        let before = sched_getaffinity(None).ok()?;
        let mut only = CpuSet::new();
        only.set(cpu);
        sched_setaffinity(None, &only).ok()?;
        Some(Self { before })
    }
}

/// Does something on each processor that this thread may use, one after the other.
///
/// # Errors
/// The first error of `work`.
pub fn on_each_cpu<E>(mut work: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    for cpu in 0..configured_cpus() {
        if let Some(_pinned) = PinnedToCpu::new(cpu) {
            work()?;
        }
    }
    Ok(())
}

/// Returns the number of processors that this machine has, or can get.
fn configured_cpus() -> usize {
    static NUMBER: OnceLock<usize> = OnceLock::new();
    // SAFETY: returns a number.
    *NUMBER.get_or_init(|| unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as usize)
}

impl Drop for PinnedToCpu {
    fn drop(&mut self) {
        // A failure costs speed only.
        let _ = sched_setaffinity(None, &self.before);
    }
}
