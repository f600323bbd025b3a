//! Capabilities that threads have given up. A new process has those that the exec of its program gives; each thread gives
//! up the difference for itself.

use crate::EngineError;
use crate::construction::{Construction, building};
use crate::error::kernel;
use standfast_format::records::{CapabilitySets, ThreadState};
use standfast_linux::abi;
use standfast_linux::proc::{Capabilities, Status};
use standfast_linux::{Registers, Task};

const CAP_SETPCAP: u64 = 1 << 8;
/// `_LINUX_CAPABILITY_VERSION_3`.
const VERSION: u64 = 0x2008_0522;
const HEADER_BYTES: u64 = 8;
const PR_CAPBSET_DROP: u64 = abi::PR_CAPBSET_DROP as u64;
const PR_CAP_AMBIENT: u64 = abi::PR_CAP_AMBIENT as u64;
const PR_CAP_AMBIENT_RAISE: u64 = abi::PR_CAP_AMBIENT_RAISE as u64;
const PR_CAP_AMBIENT_CLEAR_ALL: u64 = abi::PR_CAP_AMBIENT_CLEAR_ALL as u64;
const ACTION: &str = "giving up capabilities";

/// Returns the capabilities of a task, unless it has those that an exec of its program gives. `before` are those of the
/// process that started it.
pub(crate) fn changed_capabilities(status: &Status, before: Capabilities) -> Option<CapabilitySets> {
    let now = status.capabilities;
    (now != before.after_exec(status.user)).then(|| as_recorded(now))
}

impl Construction {
    /// Lets each thread give up what it had given up. After this, injected calls have no more rights than the program.
    pub(crate) fn give_up_capabilities(&mut self, threads: &[ThreadState]) -> Result<(), EngineError> {
        let mut is_complete = true;
        for (task, thread) in self.tasks.iter().zip(threads) {
            let Some(wanted) = &thread.restrictions.capabilities else { continue };
            let looking = |source| kernel("looking at the new process", source);
            let now = || Status::of_task(self.pid(), task.tid()).map(|it| it.capabilities).map_err(looking);
            let wanted = as_shown(wanted);
            self.change_capabilities(task, now()?, wanted)?;
            is_complete &= now()? == wanted;
        }
        if !is_complete {
            let note = "the program continues with other capabilities than before".to_owned();
            self.lack("processes.threads.restrictions.capabilities", note);
        }
        Ok(())
    }

    /// Goes from `now` to `wanted`, as far as that is possible.
    fn change_capabilities(&self, task: &Task, now: Capabilities, wanted: Capabilities) -> Result<(), EngineError> {
        let base = task.registers().map_err(building)?;
        let goal = reachable(now, wanted);
        let prctl = |arguments: [u64; 3]| {
            let [a, b, c] = arguments;
            self.call_in(task, &base, ACTION, abi::SYS_prctl, [a, b, c, 0, 0, 0]).map(drop)
        };
        // First what may rest on capabilities that are given up next.
        self.set_capabilities(task, &base, Capabilities { inheritable: goal.inheritable, ..now })?;
        if goal.ambient != now.ambient {
            prctl([PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0])?;
            bits(goal.ambient).try_for_each(|bit| prctl([PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, bit]))?;
        }
        bits(now.bounding & !goal.bounding).try_for_each(|bit| prctl([PR_CAPBSET_DROP, bit, 0]))?;
        self.set_capabilities(task, &base, goal)
    }

    /// Sets the three sets of `capset(2)`.
    fn set_capabilities(&self, task: &Task, base: &Registers, sets: Capabilities) -> Result<(), EngineError> {
        // The header with its process id, 0, and for each half of the bits a word of every set.
        let half = |shift: u32| [sets.effective, sets.permitted, sets.inheritable].map(|set| (set >> shift) as u32);
        let words = [VERSION.to_le_bytes().to_vec(), [half(0), half(32)].concat().iter().flat_map(le_bytes).collect()];
        let header = self.argument(&words.concat())?;
        self.call_in(task, base, ACTION, abi::SYS_capset, [header, header + HEADER_BYTES, 0, 0, 0, 0]).map(drop)
    }
}

fn le_bytes(word: &u32) -> [u8; 4] {
    word.to_le_bytes()
}

fn as_recorded(shown: Capabilities) -> CapabilitySets {
    let Capabilities { inheritable, permitted, effective, bounding, ambient } = shown;
    CapabilitySets { inheritable, permitted, effective, bounding, ambient }
}

fn as_shown(wanted: &CapabilitySets) -> Capabilities {
    let CapabilitySets { inheritable, permitted, effective, bounding, ambient } = *wanted;
    Capabilities { inheritable, permitted, effective, bounding, ambient }
}

fn bits(set: u64) -> impl Iterator<Item = u64> {
    (0..u64::from(u64::BITS)).filter(move |bit| set & 1 << bit != 0)
}

/// Returns the sets closest to `wanted` that a thread with the sets `now` may choose.
fn reachable(now: Capabilities, wanted: Capabilities) -> Capabilities {
    let may_drop_bounds = now.effective & CAP_SETPCAP != 0;
    let may_inherit = if may_drop_bounds { now.bounding } else { now.bounding & now.permitted };
    let permitted = wanted.permitted & now.permitted;
    let inheritable = wanted.inheritable & (now.inheritable | may_inherit);
    Capabilities {
        inheritable,
        permitted,
        effective: wanted.effective & permitted,
        bounding: if may_drop_bounds { wanted.bounding & now.bounding } else { now.bounding },
        ambient: wanted.ambient & permitted & inheritable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = 0x3ff;

    #[test]
    fn dropped_capabilities_are_dropped_again() {
        let root = Capabilities { permitted: ALL, effective: ALL, bounding: ALL, ..Capabilities::default() };
        let less = Capabilities { inheritable: 2, permitted: 3, effective: 1, bounding: 4, ambient: 2 };
        assert_eq!(reachable(root, less), less);
        assert_eq!(reachable(root, Capabilities::default()), Capabilities::default());
    }

    #[test]
    fn no_user_gets_more_capabilities_than_before() {
        let user = Capabilities { bounding: ALL, ..Capabilities::default() };
        let root = Capabilities { permitted: ALL, effective: ALL, bounding: 7, ..Capabilities::default() };
        assert_eq!(reachable(user, root), user);
    }
}
