//! Switches of a thread, most of which only the thread itself can read and set.

use crate::objects::switch::{Ask, Refused, Switch, prctl};
use standfast_format::records::{ThreadRestrictions, ThreadState};
use standfast_linux::Call;
use standfast_linux::abi;

const PR_GET_KEEPCAPS: i32 = 7;
const PR_SET_KEEPCAPS: i32 = 8;
const PR_SET_SPECULATION_CTRL: i32 = 53;
const PR_SPEC_STORE_BYPASS: u64 = 0;
const PR_SPEC_INDIRECT_BRANCH: u64 = 1;
const PR_SET_IO_FLUSHER: i32 = 57;
const PR_GET_IO_FLUSHER: i32 = 58;
const PR_MCE_KILL_SET: u64 = abi::PR_MCE_KILL_SET as u64;
const PR_MCE_KILL_DEFAULT: u32 = abi::PR_MCE_KILL_DEFAULT as u32;
const PR_TSC_SIGSEGV: i64 = abi::PR_TSC_SIGSEGV as i64;
/// `arch_prctl(2)`: whether the program may use the CPUID instruction.
const ARCH_GET_CPUID: u64 = 0x1011;
const ARCH_SET_CPUID: u64 = 0x1012;
/// `personality(2)`: changes nothing.
const GET_PERSONALITY: u64 = 0xffff_ffff;

/// Switches that are set as soon as a thread exists.
pub(super) const SETTINGS: &[Switch<ThreadState>] = &[
    Switch {
        ask: Ask::Result(prctl(abi::PR_GET_TIMERSLACK, 0, 0)),
        note: |thread, seen| thread.timer_slack_nanoseconds = seen.answer.max(0) as u64,
        set: |thread| {
            let slack = thread.timer_slack_nanoseconds;
            (slack != 0).then(|| prctl(abi::PR_SET_TIMERSLACK, slack, 0))
        },
        action: "setting timer slack",
        refused: Refused::Ends,
    },
    Switch {
        ask: Ask::Result(personality(GET_PERSONALITY)),
        note: |thread, seen| thread.personality = u32::try_from(seen.answer).ok(),
        set: |thread| thread.personality.map(|wanted| personality(wanted.into())),
        action: "setting a thread's execution domain",
        refused: Refused::Ends,
    },
];

/// Switches that are set once all threads exist, since a new thread has the restrictions of the one that makes it.
pub(super) const RESTRICTIONS: &[Switch<ThreadRestrictions>] = &[
    Switch {
        ask: Ask::Nothing,
        note: |restrictions, seen| restrictions.no_new_privileges = seen.status.no_new_privileges,
        set: |restrictions| restrictions.no_new_privileges.then(|| prctl(abi::PR_SET_NO_NEW_PRIVS, 1, 0)),
        action: "giving up new privileges",
        refused: Refused::Ends,
    },
    // A processor that needs no mitigation refuses these two, which is just as good.
    Switch {
        ask: Ask::Nothing,
        note: |restrictions, seen| restrictions.store_bypass = seen.status.store_bypass,
        set: |restrictions| restrict_speculation(PR_SPEC_STORE_BYPASS, restrictions.store_bypass),
        action: "restricting speculation",
        refused: Refused::Passes,
    },
    Switch {
        ask: Ask::Nothing,
        note: |restrictions, seen| restrictions.indirect_branch = seen.status.indirect_branch,
        set: |restrictions| restrict_speculation(PR_SPEC_INDIRECT_BRANCH, restrictions.indirect_branch),
        action: "restricting speculation",
        refused: Refused::Passes,
    },
    Switch {
        ask: Ask::Stored(abi::PR_GET_TSC),
        note: |restrictions, seen| restrictions.no_time_stamp_counter = seen.answer == PR_TSC_SIGSEGV,
        set: |restrictions| {
            restrictions.no_time_stamp_counter.then(|| prctl(abi::PR_SET_TSC, PR_TSC_SIGSEGV as u64, 0))
        },
        action: "forbidding the time stamp counter",
        refused: Refused::Ends,
    },
    Switch {
        ask: Ask::Result(arch_prctl(ARCH_GET_CPUID)),
        note: |restrictions, seen| restrictions.no_cpuid = seen.answer == 0,
        set: |restrictions| restrictions.no_cpuid.then(|| arch_prctl(ARCH_SET_CPUID)),
        action: "forbidding cpuid",
        refused: Refused::Ends,
    },
    Switch {
        ask: Ask::Result(prctl(abi::PR_MCE_KILL_GET, 0, 0)),
        note: |restrictions, seen| {
            let when = u32::try_from(seen.answer).ok();
            restrictions.memory_failure = when.filter(|when| *when < PR_MCE_KILL_DEFAULT);
        },
        set: |restrictions| {
            restrictions.memory_failure.map(|when| prctl(abi::PR_MCE_KILL, PR_MCE_KILL_SET, when.into()))
        },
        action: "choosing what a memory failure does",
        refused: Refused::Ends,
    },
    // Only a privileged process may ask, and be one.
    Switch {
        ask: Ask::Result(prctl(PR_GET_IO_FLUSHER, 0, 0)),
        note: |restrictions, seen| restrictions.io_flusher = (seen.answer == 1).then_some(true),
        set: |restrictions| (restrictions.io_flusher == Some(true)).then(|| prctl(PR_SET_IO_FLUSHER, 1, 0)),
        action: "marking a thread as flusher (PR_SET_IO_FLUSHER)",
        refused: Refused::Ends,
    },
    Switch {
        ask: Ask::Result(prctl(PR_GET_KEEPCAPS, 0, 0)),
        note: |restrictions, seen| restrictions.keep_capabilities = (seen.answer == 1).then_some(true),
        set: |restrictions| (restrictions.keep_capabilities == Some(true)).then(|| prctl(PR_SET_KEEPCAPS, 1, 0)),
        action: "keeping capabilities (PR_SET_KEEPCAPS)",
        refused: Refused::Ends,
    },
];

/// More of these, which the main thread has among the switches of its process.
pub(super) const OF_OTHER_THREADS: &[Switch<ThreadRestrictions>] = &[Switch {
    ask: Ask::Stored(abi::PR_GET_PDEATHSIG),
    note: |restrictions, seen| {
        restrictions.parent_death_signal = Some(seen.answer as u32).filter(|signal| *signal != 0);
    },
    set: |restrictions| restrictions.parent_death_signal.map(|signal| prctl(abi::PR_SET_PDEATHSIG, signal.into(), 0)),
    action: "asking for a signal at the end of the parent",
    refused: Refused::Ends,
}];

fn restrict_speculation(kind: u64, wish: u32) -> Option<Call> {
    (wish != 0).then(|| prctl(PR_SET_SPECULATION_CTRL, kind, wish.into()))
}

const fn personality(persona: u64) -> Call {
    Call { number: abi::SYS_personality, arguments: [persona, 0, 0, 0, 0, 0] }
}

const fn arch_prctl(operation: u64) -> Call {
    Call { number: abi::SYS_arch_prctl, arguments: [operation, 0, 0, 0, 0, 0] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_linux::proc::Status;

    #[test]
    fn each_switch_that_is_seen_is_set_again() {
        let status = Status { no_new_privileges: true, store_bypass: 4, indirect_branch: 4, ..Status::default() };
        for switch in SETTINGS {
            assert!(switch.is_carried(&status), "{}", switch.action);
        }
        for switch in RESTRICTIONS.iter().chain(OF_OTHER_THREADS) {
            assert!(switch.is_carried(&status), "{}", switch.action);
        }
    }
}
