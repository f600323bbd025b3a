//! A bar for long work: one line on the terminal of standard error, drawn again and again, and erased when the work is done or
//! something else is said. Where there is no terminal, there is no bar.

use rustix::termios::tcgetwinsize;
use standfast::JobEvent;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Moves to the beginning of the line, and erases it.
const ERASE: &str = "\r\x1b[K";
/// Cells of the bar.
const CELLS: u64 = 20;

/// Whether there is a bar on the terminal.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// Draws the bar of an event. Returns whether there is a terminal for it.
pub(crate) fn draw(event: &JobEvent, done_bytes: u64, total_bytes: Option<u64>) -> bool {
    // In the last column, some terminals begin a new line. Others do not know how wide they are.
    let columns = tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col).saturating_sub(1));
    if columns == 0 {
        return false;
    }
    let line: String = line(&event.to_string(), done_bytes, total_bytes).chars().take(columns).collect();
    IS_DRAWN.store(true, Ordering::Relaxed);
    drop(io::stderr().write_all(format!("{ERASE}{line}").as_bytes()));
    true
}

/// Erases the bar, if there is one.
pub(crate) fn erase() {
    if IS_DRAWN.swap(false, Ordering::Relaxed) {
        drop(io::stderr().write_all(ERASE.as_bytes()));
    }
}

fn line(text: &str, done_bytes: u64, total_bytes: Option<u64>) -> String {
    let Some(total) = total_bytes.filter(|total| *total > 0) else { return format!("standfast: {text}") };
    let full = (u128::from(done_bytes.min(total)) * u128::from(CELLS) / u128::from(total)) as usize;
    format!("standfast: [{}{}] {text}", "#".repeat(full), "-".repeat(CELLS as usize - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_with_the_bytes() {
        let bar = |done, total| line("verifying", done, total);
        assert_eq!(bar(0, Some(100)), format!("standfast: [{}] verifying", "-".repeat(20)));
        assert_eq!(bar(49, Some(100)), format!("standfast: [{}{}] verifying", "#".repeat(9), "-".repeat(11)));
        for done in [100, u64::MAX] {
            assert_eq!(bar(done, Some(100)), format!("standfast: [{}] verifying", "#".repeat(20)));
        }
        assert_eq!(bar(5, None), "standfast: verifying");
        assert_eq!(bar(5, Some(0)), "standfast: verifying");
    }
}
