//! Ends a process that hangs: one that has not called the library for too long, or that waits in a call in vain.
//!
//! A blocked message-passing call cannot time itself out, and a process that waits for a hanging one does not notice. So
//! each process watches itself, and ends on its own. The launcher then ends the others and launches them again.

use standfast_linux::sys::process::end_at_once;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Exit status of a process that hung: EX_SOFTWARE of sysexits.h.
const STATUS: i32 = 70;
/// Number of checks within the time limit.
const LOOKS: u32 = 16;

/// Signs of life of this process.
#[derive(Debug, Clone)]
pub(crate) struct Pulse {
    begin: Instant,
    last: Arc<AtomicU64>,
}

impl Pulse {
    /// Creates a pulse that begins now.
    pub(crate) fn new() -> Self {
        Self { begin: Instant::now(), last: Arc::new(AtomicU64::new(0)) }
    }

    /// Records a sign of life.
    pub(crate) fn beat(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    /// Returns milliseconds since the beginning.
    fn now(&self) -> u64 {
        self.begin.elapsed().as_millis() as u64
    }

    fn silence(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.last.load(Ordering::Relaxed)))
    }

    /// Ends this process if there is no sign of life for `patience`. The watch lasts as long as another clone of this
    /// pulse exists.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn watch(&self, patience: Duration) -> Result<(), String> {
        let pulse = self.clone();
        let watch = move || {
            while Arc::strong_count(&pulse.last) > 1 {
                std::thread::sleep(patience / LOOKS);
                if pulse.silence() > patience && Arc::strong_count(&pulse.last) > 1 {
                    end(patience);
                }
            }
        };
        let thread = std::thread::Builder::new().name("standfast-watchdog".into()).spawn(watch);
        thread.map(drop).map_err(|error| format!("there can be no watchdog: {error}"))
    }
}

fn end(patience: Duration) -> ! {
    // A hanging thread may have locked the program's own output.
    let words = format!("standfast: process {} hung for {patience:?} and ends itself\n", std::process::id());
    end_at_once(STATUS, words.as_bytes())
}
