//! Waits for a condition, with a limit: no test sleeps and hopes.

use anyhow::{Result, bail};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take that should be done in a moment. Generous: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// How soon a condition is looked at again: at first soon, then less often, since a look may be a whole command.
const GLANCE_MIN: Duration = Duration::from_millis(1);
const GLANCE_MAX: Duration = Duration::from_millis(20);

/// Looks at `condition` again and again until it gives something.
///
/// # Errors
/// When `limit` has passed, naming what was waited for; or the condition's own error.
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
