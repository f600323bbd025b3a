//! Ends a process that hangs: one that has not called the library for too long, or that waits in it in vain.
//!
//! A blocked message-passing call cannot time itself out, and a process that waits for one that hangs does not see that it
//! does. So each watches itself, and ends without asking anybody: the launcher then ends the rest and launches them again.

use standfast_linux::sys::process::end_at_once;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a process that hung ends with: EX_SOFTWARE of sysexits.h.
const STATUS: i32 = 70;
/// Looks in one patience.
const LOOKS: u32 = 16;

/// Signs of life of this process.
#[derive(Debug, Clone)]
pub(crate) struct Pulse {
    begin: Instant,
    last: Arc<AtomicU64>,
}

impl Pulse {
    /// Alive now.
    pub(crate) fn new() -> Self {
        Self { begin: Instant::now(), last: Arc::new(AtomicU64::new(0)) }
    }

    /// Alive still.
    pub(crate) fn beat(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    /// Milliseconds.
    fn now(&self) -> u64 {
        self.begin.elapsed().as_millis() as u64
    }

    fn silence(&self) -> Duration {
        Duration::from_millis(self.now().saturating_sub(self.last.load(Ordering::Relaxed)))
    }

    /// Ends this process when there has been no sign of life for so long. Holds until nobody else has this pulse.
    ///
    /// # Errors
    /// Where there can be no thread.
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
    // The program's own output may be locked by whoever hangs.
    let words = format!("standfast: process {} hung for {patience:?} and ends itself\n", std::process::id());
    end_at_once(STATUS, words.as_bytes())
}
