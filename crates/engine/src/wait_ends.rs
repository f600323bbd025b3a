//! Ends waits of a job's threads at their time limits (see the module `waits`).

use crate::freeze::{FrozenTask, refine};
use crate::shared::JobTracing;
use crate::waits::{Met, call_of_task};
use standfast_linux::abi;
use standfast_linux::{ProcessMemory, Task, TaskError, Tid};
use std::time::{Duration, Instant};

/// How long a thread whose wait must be ended may take to stop. If it takes longer, it is not in that wait.
const STOP_MAX: Duration = Duration::from_millis(500);
/// The pause between two looks at it.
const SLEEP: Duration = Duration::from_micros(50);

/// Ends the waits whose limits have been reached. Only the threads in question stop, and only for that.
pub(crate) fn end_those_due(tracing: &JobTracing) {
    let _tracer_lock = tracing.tracer_lock.take();
    let due = tracing.waits().take_due();
    for (tid, met) in due {
        // It may have ended, or be in another call by now.
        if call_of_task(tid).is_some_and(|call| call == met.call || call == abi::SYS_restart_syscall) {
            // If this fails, the thread waits for longer than it requested, or has ended.
            let _ = end_one(tid, met, tracing).map_err(|error| refine(error, met.pid, &tracing.main));
        }
    }
}

fn end_one(tid: Tid, met: Met, tracing: &JobTracing) -> Result<(), TaskError> {
    let opening = |source| TaskError::Kernel { tid, action: "opening its memory", source };
    let memory = ProcessMemory::open(met.pid).map_err(opening)?;
    let task = Task::seize(met.pid, tid, abi::PTRACE_O_TRACESYSGOOD)?;
    task.interrupt()?;
    let deadline = Instant::now() + STOP_MAX;
    while Instant::now() < deadline {
        if let Some(stop) = task.poll_stop()? {
            return FrozenTask::new(task, stop, &memory, tracing)?.task.detach();
        }
        std::thread::sleep(SLEEP);
    }
    // The end of this thread releases it.
    Err(TaskError::TimedOut { tid })
}
