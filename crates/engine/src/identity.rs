//! A process by its number and its start time.

use crate::EngineError;
use standfast_linux::Pid;
use standfast_linux::proc::Stat;

/// A process that cannot be confused with a later one of the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Process id as this process sees it.
    pub pid: Pid,
    /// Start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start_time: u64,
}

impl ProcessIdentity {
    /// Returns the process that has this pid now.
    ///
    /// # Errors
    /// [`EngineError::Ended`] if there is none.
    pub fn of(pid: Pid) -> Result<Self, EngineError> {
        let stat = Stat::of(pid).map_err(|_| EngineError::Ended)?;
        Ok(Self { pid, start_time: stat.start_time })
    }

    /// Reports whether it has not ended.
    pub(crate) fn is_running(&self) -> bool {
        Stat::of(self.pid).is_ok_and(|now| now.start_time == self.start_time && !matches!(now.state, b'Z' | b'X'))
    }

    /// Reports whether it still exists, if only as a zombie.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).is_ok_and(|now| now == *self)
    }
}
