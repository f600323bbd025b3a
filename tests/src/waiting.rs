//! Waits for a condition, with a limit: no test merely sleeps and hopes.

use anyhow::{Result, bail};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Limit for anything that should be done in a moment. It is generous, since the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Intervals between checks of a condition: short at first, then longer, since a check may be a whole command.
const GLANCE_MIN: Duration = Duration::from_millis(1);
const GLANCE_MAX: Duration = Duration::from_millis(20);

/// Checks `condition` repeatedly until it returns a value.
///
/// # Errors
/// When `limit` has passed, with an error that names the condition; or when the condition itself fails.
pub fn until<T>(limit: Duration, what: &str, mut condition: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    let mut glance = GLANCE_MIN;
    loop {
        if let Some(found) = condition()? {
            return Ok(found);
        }
        if start.elapsed() > limit {
            bail!("waited {} s in vain for {what}", limit.as_secs());
        }
        sleep(glance);
        glance = (glance * 2).min(GLANCE_MAX);
    }
}
