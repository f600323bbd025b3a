//! Ring 2: moves this thread to the processor of a task with which it is about to communicate.
//!
//! If tracer and task share a processor, each stop is a plain switch, and an injected call that costs two of them takes
//! 12 to 16 us. From another processor it takes an interrupt each way, 80 to 116 us. Besides, the scheduler has a clock
//! for each processor.
//!
//! # Safety
//! The masks passed to the kernel are live local values of the size given.

/// Holds this thread on one processor until dropped.
#[derive(Debug)]
pub struct PinnedToCpu {
    before: libc::cpu_set_t,
}

impl PinnedToCpu {
    /// Moves this thread to `cpu`. Does nothing if that is not allowed, since it only affects speed.
    pub fn new(cpu: usize) -> Option<Self> {
        if cpu >= libc::CPU_SETSIZE as usize {
            return None;
        }
        // SAFETY: a cpu_set_t is a bit mask for which all zeros is a value.
        let (mut before, mut only) = unsafe { (std::mem::zeroed::<libc::cpu_set_t>(), std::mem::zeroed()) };
        // SAFETY: `before` is live and as large as given.
        if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut before) } != 0 {
            return None;
        }
        // SAFETY: `cpu` is within the mask.
        unsafe { libc::CPU_SET(cpu, &mut only) };
        // SAFETY: `only` is live and as large as given.
        let moved = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const only) } == 0;
        moved.then_some(Self { before })
    }
}

impl Drop for PinnedToCpu {
    fn drop(&mut self) {
        // SAFETY: `before` is live and as large as given. A failure costs speed only.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const self.before) };
    }
}
