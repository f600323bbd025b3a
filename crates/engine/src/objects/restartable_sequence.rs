//! The restartable sequences that a thread has registered (rseq(2)), found and registered again.
//!
//! Before Linux 5.13 the kernel does not tell them to a tracer. The thread then tries addresses: the kernel answers EBUSY
//! to a second registration of the same area, and EINVAL to that of another one.

use crate::construction::Construction;
use crate::freeze::FrozenTask;
use crate::remote_caller::{Number, RemoteCallBatch, RemoteCaller};
use crate::restartable_sequences::{AREA_BYTES, NEAR, SIGNATURE};
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::RestartableSequence;
use standfast_linux::abi;
use standfast_linux::{Registers, Task};

const REGISTER: u64 = 0;
const UNREGISTER: u64 = 1;

/// Returns what a thread has registered, or why that cannot be found out.
pub(crate) fn registered_sequence(
    remote_caller: &RemoteCaller<'_>,
    task: &FrozenTask,
) -> Result<Result<Option<RestartableSequence>, Blocker>, EngineError> {
    let shown = task.task.rseq_configuration().map_err(|_| EngineError::Ended)?;
    Ok(match shown {
        Some(shown) if shown.area == 0 => Ok(None),
        Some(shown) => {
            Ok(Some(RestartableSequence { area: shown.area, length: shown.length, signature: shown.signature }))
        }
        None => tried(remote_caller, task)?,
    })
}

/// Has a thread try what it has registered.
fn tried(
    remote_caller: &RemoteCaller<'_>,
    task: &FrozenTask,
) -> Result<Result<Option<RestartableSequence>, Blocker>, EngineError> {
    let mut batch = remote_caller.batch();
    let unused = batch.output().next_multiple_of(AREA_BYTES);
    let first = attempt(&mut batch, unused, REGISTER);
    // Takes it back, if it was accepted.
    attempt(&mut batch, unused, UNREGISTER);
    // Accepted: there was none. Or the kernel has no restartable sequences.
    if remote_caller.put(&batch)?.number(first) != -i64::from(abi::EINVAL) {
        return Ok(Ok(None));
    }
    let middle = task.registers.thread_pointer() / AREA_BYTES * AREA_BYTES;
    let mut batch = remote_caller.batch();
    let areas = (middle.saturating_sub(NEAR)..=middle.saturating_add(NEAR)).step_by(AREA_BYTES as usize);
    let attempts: Vec<_> = areas.map(|area| (area, attempt(&mut batch, area, REGISTER))).collect();
    let answers = remote_caller.put(&batch)?;
    let found = attempts.into_iter().find(|(_, attempt)| answers.number(*attempt) == -i64::from(abi::EBUSY));
    let sequence = |(area, _)| RestartableSequence { area, length: AREA_BYTES as u32, signature: SIGNATURE };
    Ok(found.map(sequence).map(Some).ok_or_else(|| hidden(task)))
}

fn attempt(batch: &mut RemoteCallBatch, area: u64, flags: u64) -> Number {
    batch.call(abi::SYS_rseq, [area, AREA_BYTES, flags, SIGNATURE.into(), 0, 0])
}

impl Construction {
    /// Registers what a thread had registered.
    pub(super) fn register_sequence(
        &self,
        task: &Task,
        base: &Registers,
        sequence: &RestartableSequence,
    ) -> Result<(), EngineError> {
        let arguments = [sequence.area, sequence.length.into(), REGISTER, sequence.signature.into(), 0, 0];
        self.call_in(task, base, "registering restartable sequences", abi::SYS_rseq, arguments).map(drop)
    }
}

fn hidden(task: &FrozenTask) -> Blocker {
    Blocker::new(
        RefusalCode::HiddenSequences,
        format!("restartable sequences of thread {}", task.task.tid()),
        "this kernel does not report where they are (Linux 5.13 does), and they were not found",
    )
    .with_hint("run the program on a newer kernel, or without them: GLIBC_TUNABLES=glibc.pthread.rseq=0")
}
