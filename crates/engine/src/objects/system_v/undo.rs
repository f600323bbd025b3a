//! What the end of a process would do to System V semaphores (SEM_UNDO). The kernel does not report it, but it can be
//! probed. An adjustment has limits, and an operation that would exceed them fails with ERANGE before anything is done.
//!
//! A probe is one semop(2) of several operations, of which the kernel performs all or none. They bring the value to one
//! end of its range and cross the range by way of the adjustment. Then they do what must fail. The error shows whether
//! the adjustment would have been too large. Nothing has changed either way, and nobody sees a value in between. A probe
//! also fails if another program has changed the value meanwhile: the job may have a copy of a set that is not its own.

use super::is_gone;
use crate::error::kernel;
use crate::freeze::Frozen;
use crate::remote_caller::RemoteCaller;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{SemaphoreSet, Undo};
use standfast_linux::Tid;
use standfast_linux::abi;
use standfast_linux::sys::process;
use standfast_linux::system_v;
use std::io;

const MAY_COMPARE: &str = "give the container CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)";
/// `SEMVMX`, and `SEMAEM`: the largest value, and the largest adjustment.
const VALUE_MAX: i32 = 32767;
const SEM_UNDO: i16 = 0x1000;
const IPC_NOWAIT: i16 = abi::IPC_NOWAIT as i16;
/// `struct sembuf`: number, operation, flags, 16 bits each.
const OPERATION_BYTES: usize = 6;

/// The question for a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(crate) sets: &'a [SemaphoreSet],
}

/// Findings about one process: the place of the set, and what the end of the process would do; `process` is not known
/// here.
pub(crate) type FoundUndo = Vec<(usize, Undo)>;

/// Returns what to ask each process of a frozen job that may have something to undo at its end.
pub(crate) fn probes<'a>(frozen: &Frozen, sets: &'a [SemaphoreSet]) -> Result<Vec<Option<Probe<'a>>>, EngineError> {
    if !process::may_compare() {
        return Err(EngineError::Refused(vec![
            Blocker::new(
                RefusalCode::SemaphoreUndo,
                "System V semaphores",
                "this container forbids kcmp, which shows whether the end of a process changes them (SEM_UNDO)",
            )
            .with_hint(MAY_COMPARE),
        ]));
    }
    let comparing = |source| kernel("looking for semaphore adjustments", source);
    let tids = |place: usize| frozen.processes[place].tasks.iter().map(|task| task.task.tid());
    let all: Vec<Tid> = (0..frozen.processes.len()).flat_map(tids).collect();
    let with = system_v::with_undo_list(&all).map_err(comparing)?;
    let mut mains: Vec<Tid> = Vec::new();
    let mut probes = Vec::new();
    for process in &frozen.processes {
        let mut threads = process.tasks.iter().map(|task| task.task.tid()).filter(|tid| with.contains(tid));
        let Some(first) = threads.next() else {
            probes.push(None);
            continue;
        };
        let mut alone = first == process.pid.main_thread();
        for other in threads {
            alone &= system_v::same_undo_list(first, other).map_err(comparing)?;
        }
        for other in &mains {
            alone &= !system_v::same_undo_list(first, *other).map_err(comparing)?;
        }
        if !alone {
            return Err(EngineError::Refused(vec![Blocker::new(
                RefusalCode::SemaphoreUndo,
                format!("semaphore adjustments of process {}", process.pid),
                "its threads do not share one list of adjustments, or share it with another process (CLONE_SYSVSEM)",
            )]));
        }
        mains.push(first);
        probes.push(Some(Probe { sets }));
    }
    Ok(probes)
}

impl Probe<'_> {
    /// Asks a process. An adjustment is a sum, and mostly zero.
    pub(crate) fn ask(
        &self,
        remote_caller: &RemoteCaller<'_>,
        blockers: &mut Vec<Blocker>,
    ) -> Result<FoundUndo, EngineError> {
        let mut found = Vec::new();
        // Nothing has been done to a set that was never used, so nothing can be undone.
        let sets = self.sets.iter().enumerate().filter(|(_, set)| set.used != Some(false));
        for (place, set) in sets {
            for (number, semaphore) in set.semaphores.iter().enumerate() {
                let exceeds = |operations: Vec<[i16; 3]>| self.exceeds(remote_caller, set.name.id, &operations);
                let value = i32::from(semaphore.value);
                let asked = adjustment(
                    |limit| exceeds(above(number, value, limit)),
                    |limit| exceeds(below(number, value, limit)),
                );
                match asked {
                    Ok(0) => {}
                    Ok(adjustment) => {
                        found.push((place, Undo { process: 0, semaphore: number as u32, adjustment }));
                    }
                    Err(Unknown::Engine(error)) => return Err(error),
                    // These belong to another program, which has removed them meanwhile.
                    Err(Unknown::Kernel(error)) if !set.name.of_job && is_gone(&error) => break,
                    Err(Unknown::Kernel(error)) => {
                        blockers.push(Blocker::new(RefusalCode::SemaphoreUndo, format!("System V semaphores {}", set.name.id), format!(
                                "how the end of a process would change them (SEM_UNDO) cannot be determined ({error})"
                            )).with_hint("give their users permission to change them"));
                        break;
                    }
                }
            }
        }
        Ok(found)
    }

    fn exceeds(&self, remote_caller: &RemoteCaller<'_>, id: i32, operations: &[[i16; 3]]) -> Result<bool, Unknown> {
        let bytes: Vec<u8> = operations.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(bytes.len(), operations.len() * OPERATION_BYTES, "an operation has a fixed size");
        let writing = |source| Unknown::Engine(kernel("writing into the program", source));
        remote_caller.injector.write_output(&bytes).map_err(writing)?;
        let arguments = [id as u64, remote_caller.injector.output().get(), operations.len() as u64, 0, 0, 0];
        let result = remote_caller.call(abi::SYS_semop, arguments).map_err(Unknown::Engine)?;
        assert!(result < 0, "a probe of semaphores cannot succeed");
        match -result as i32 {
            abi::EAGAIN => Ok(false),
            abi::ERANGE => Ok(true),
            error => Err(Unknown::Kernel(io::Error::from_raw_os_error(error))),
        }
    }
}

/// Why an adjustment is not known.
enum Unknown {
    Engine(EngineError),
    Kernel(io::Error),
}

/// Finds an adjustment, given tests whether it is above a limit, or below the negative of one.
fn adjustment<E>(
    mut is_above: impl FnMut(i32) -> Result<bool, E>,
    mut is_below: impl FnMut(i32) -> Result<bool, E>,
) -> Result<i32, E> {
    let largest = |is_beyond: &mut dyn FnMut(i32) -> Result<bool, E>| {
        if !is_beyond(0)? {
            return Ok(0);
        }
        // It is beyond `low`, and not beyond `high`.
        let (mut low, mut high) = (0, VALUE_MAX);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if is_beyond(middle)? { low = middle } else { high = middle }
        }
        Ok(high)
    };
    match largest(&mut is_above)? {
        0 => largest(&mut is_below).map(|below| -below),
        above => Ok(above),
    }
}

fn operation(number: usize, change: i32, flags: i16) -> [i16; 3] {
    [number as i16, change as i16, IPC_NOWAIT | flags]
}

/// Returns operations that fail with ERANGE if the adjustment is larger than `limit`. Taking an amount away adds the
/// same amount to the adjustment.
fn above(number: usize, value: i32, limit: i32) -> Vec<[i16; 3]> {
    let full = (value < VALUE_MAX).then(|| operation(number, VALUE_MAX - value, 0));
    let across = operation(number, limit - VALUE_MAX, SEM_UNDO);
    full.into_iter().chain([across, operation(number, -(limit + 1), 0)]).collect()
}

/// Returns operations that fail with ERANGE if the adjustment is less than minus `limit`. The least is one further from
/// zero than the largest.
fn below(number: usize, value: i32, limit: i32) -> Vec<[i16; 3]> {
    let empty = (value > 0).then(|| operation(number, -value, 0));
    let mut operations: Vec<_> = empty.into_iter().collect();
    let mut left = VALUE_MAX + 1 - limit;
    while left > 0 {
        let step = left.min(VALUE_MAX);
        operations.extend([operation(number, step, SEM_UNDO), operation(number, -step, 0)]);
        left -= step;
    }
    // Whatever the value is, it is not zero after this.
    operations.extend([operation(number, 1, 0), operation(number, 0, 0)]);
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates the kernel: EAGAIN or ERANGE, and nothing is changed.
    fn kernel_says_beyond(operations: &[[i16; 3]], value: i32, adjustment: i32) -> bool {
        let (mut value, mut adjustment) = (value, adjustment);
        for [_, change, flags] in operations {
            if *change == 0 && value != 0 {
                return false;
            }
            let after = value + i32::from(*change);
            if after < 0 {
                return false;
            }
            if after > VALUE_MAX {
                return true;
            }
            if flags & SEM_UNDO != 0 {
                adjustment -= i32::from(*change);
                if !(-VALUE_MAX - 1..=VALUE_MAX).contains(&adjustment) {
                    return true;
                }
            }
            value = after;
        }
        panic!("a probe has succeeded");
    }

    #[test]
    fn every_undo_adjustment_is_found_for_every_value() {
        for value in [0, 1, 5, 16000, VALUE_MAX - 1, VALUE_MAX] {
            for expected in (-VALUE_MAX..=VALUE_MAX).step_by(41).chain([-VALUE_MAX, -1, 0, 1, 2, VALUE_MAX]) {
                let above = |limit| Ok::<_, ()>(kernel_says_beyond(&above(3, value, limit), value, expected));
                let below = |limit| Ok::<_, ()>(kernel_says_beyond(&below(3, value, limit), value, expected));
                assert_eq!(adjustment(above, below), Ok(expected), "value {value}");
            }
        }
    }

    #[test]
    fn no_probe_succeeds_if_another_program_changes_the_value_before() {
        let values = [0, 1, 2, 16000, VALUE_MAX - 1, VALUE_MAX];
        for (read, now) in values.into_iter().flat_map(|read| values.map(|now| (read, now))) {
            for limit in [0, 1, 16000, VALUE_MAX - 1] {
                for adjustment in [-VALUE_MAX, -1, 0, 1, VALUE_MAX] {
                    // It panics if one succeeds.
                    kernel_says_beyond(&above(3, read, limit), now, adjustment);
                    kernel_says_beyond(&below(3, read, limit), now, adjustment);
                }
            }
        }
    }
}
