//! The init of a job's namespaces is a fork, which must not allocate: a thread that does not exist there may hold the lock
//! of the allocator, and the fork would wait for it without end.

use standfast_linux::{ClockOffsets, Furnishing, HeldProgram, InheritedSignals, NamespaceInit, Pid, try_namespaces};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI32, Ordering};

/// The status with which a process ends that allocates although it must not.
const ALLOCATED: i32 = 99;
/// Any ids: nothing else is in the namespace.
const MAIN_ID: i32 = 300;
const NEXT_ID: i32 = 30_000;

/// The system's allocator, for one process only.
#[derive(Debug)]
struct OneProcess {
    /// The process that may allocate. Zero: all may.
    allowed: AtomicI32,
}

impl OneProcess {
    /// Ends this process if it is not the one.
    fn check(&self) {
        let allowed = self.allowed.load(Ordering::Relaxed);
        if allowed != 0 && allowed != std::process::id() as i32 {
            // SAFETY: ends only this process, which is a fork.
            unsafe { libc::_exit(ALLOCATED) }
        }
    }
}

// SAFETY: the system's allocator does it.
unsafe impl GlobalAlloc for OneProcess {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.check();
        // SAFETY: as the caller of this function promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.check();
        // SAFETY: as the caller of this function promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: OneProcess = OneProcess { allowed: AtomicI32::new(0) };

#[test]
fn the_init_allocates_nothing() {
    let program = HeldProgram { path: c"/", personality: 0 };
    let furnishing = Furnishing { clocks: Some(ClockOffsets::default()), terminals: true, ipc: true };
    let kind = try_namespaces().expect("this system allows namespaces");
    ALLOCATOR.allowed.store(std::process::id() as i32, Ordering::Relaxed);
    let started = NamespaceInit::start(kind, Pid::new(MAIN_ID), furnishing, program, InheritedSignals::none());
    let (init, held) = started.expect("it worked without that limit");
    let answered = init.choose_next_id(NEXT_ID).and_then(|()| init.commit());
    drop(held);
    let ended = init.wait_for_news();
    init.destroy();
    answered.expect("it answers");
    ended.expect("it reaps its main process");
}
