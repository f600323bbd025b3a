//! Restartable sequences of a thread (rseq(2)): the area that it has registered, and where it continues if it was stopped
//! within one.
//!
//! The kernel tells a tracer of the area since Linux 5.13. On an older one the thread tries addresses: the kernel answers
//! EBUSY to a second registration of the same area, and EINVAL to that of another one. C libraries keep the area near the
//! thread pointer.

use crate::freeze::FrozenTask;
use crate::remote_caller::{Number, RemoteCallBatch, RemoteCaller};
use crate::{Blocker, EngineError, RefusalCode};
use standfast_core::{Address, PAGE_BYTES};
use standfast_format::records::RestartableSequence;
use standfast_linux::{ProcessMemory, Registers, Task, TaskError, abi};

/// Length and alignment of an area before Linux 6.3.
const AREA_BYTES: u64 = 32;
/// Offset within the area: a pointer to the current sequence.
const CURRENT_SEQUENCE: u64 = 8;
/// What precedes each abort handler on x86-64 by convention of all libraries.
const SIGNATURE: u32 = 0x5305_3053;
/// How far from the thread pointer an area is searched for, in both directions.
const NEAR: u64 = PAGE_BYTES as u64;
const PAGE: u64 = PAGE_BYTES as u64;
const REGISTER: u64 = 0;
const UNREGISTER: u64 = 1;

/// Returns the abort handler at which a task inside a restartable sequence must continue. The kernel would send it there
/// by itself, but an injected call makes the kernel forget (measured).
pub(crate) fn abort_handler(
    task: &Task,
    registers: &Registers,
    memory: &ProcessMemory,
) -> Result<Option<u64>, TaskError> {
    let of_area = |area, signature| abort_handler_of(area, signature, registers.instruction(), memory);
    Ok(match task.rseq_configuration()? {
        Some(shown) if shown.area == 0 => None,
        Some(shown) => of_area(shown.area, shown.signature),
        None => possible_areas(registers.thread_pointer(), memory).find_map(|area| of_area(area, SIGNATURE)),
    })
}

/// Returns the abort handler of the sequence that an area names, if the instruction is within that.
fn abort_handler_of(area: u64, signature: u32, instruction: u64, memory: &ProcessMemory) -> Option<u64> {
    let word = |address: u64| {
        let mut bytes = [0u8; 8];
        memory.read(Address::new(address), &mut bytes).ok().map(|()| u64::from_le_bytes(bytes))
    };
    let sequence = word(area + CURRENT_SEQUENCE).filter(|sequence| *sequence != 0)?;
    // struct rseq_cs: version and flags, start, length, abort handler.
    let (start, length, abort) = (word(sequence + 8)?, word(sequence + 16)?, word(sequence + 24)?);
    let is_marked = word(abort.checked_sub(4)?)? as u32 == signature;
    (instruction.wrapping_sub(start) < length && is_marked).then_some(abort)
}

/// Returns where, near a thread pointer, there may be an area of a task within a sequence.
fn possible_areas(thread_pointer: u64, memory: &ProcessMemory) -> impl Iterator<Item = u64> {
    let pages = (thread_pointer.saturating_sub(NEAR) / PAGE..=(thread_pointer + NEAR) / PAGE).map(|page| page * PAGE);
    pages.flat_map(|page| {
        let mut bytes = vec![0; PAGE_BYTES];
        let areas = match memory.read(Address::new(page), &mut bytes) {
            Ok(()) => bytes.chunks_exact(AREA_BYTES as usize),
            Err(_) => [].chunks_exact(AREA_BYTES as usize),
        };
        let places = (page..).step_by(AREA_BYTES as usize).zip(areas);
        places.filter(|(_, area)| may_be_in_use(area)).map(|(place, _)| place).collect::<Vec<_>>()
    })
}

/// Reports whether an area may be one whose task is within a sequence: it names a sequence, and the kernel has written the
/// same processor twice.
fn may_be_in_use(area: &[u8]) -> bool {
    area[0..4] == area[4..8] && area[CURRENT_SEQUENCE as usize..][..8] != [0; 8]
}

/// Returns what a thread has registered, or why that cannot be found out.
pub(crate) fn registered(
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
    let areas = (middle.saturating_sub(NEAR)..=middle + NEAR).step_by(AREA_BYTES as usize);
    let attempts: Vec<_> = areas.map(|area| (area, attempt(&mut batch, area, REGISTER))).collect();
    let answers = remote_caller.put(&batch)?;
    let found = attempts.into_iter().find(|(_, attempt)| answers.number(*attempt) == -i64::from(abi::EBUSY));
    let sequence = |(area, _)| RestartableSequence { area, length: AREA_BYTES as u32, signature: SIGNATURE };
    Ok(found.map(sequence).map(Some).ok_or_else(|| hidden(task)))
}

fn attempt(batch: &mut RemoteCallBatch, area: u64, flags: u64) -> Number {
    batch.call(abi::SYS_rseq, [area, AREA_BYTES, flags, SIGNATURE.into(), 0, 0])
}

fn hidden(task: &FrozenTask) -> Blocker {
    Blocker::new(
        RefusalCode::HiddenSequences,
        format!("restartable sequences of thread {}", task.task.tid()),
        "the kernel does not tell where they are (Linux 5.13 does), and they were not found",
    )
    .with_hint("run the program on a newer kernel, or without them: GLIBC_TUNABLES=glibc.pthread.rseq=0")
}
