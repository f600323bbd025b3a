//! Switches of a process: what it has told the kernel about itself as a whole. The tables are here; `collect.rs` and
//! `restore.rs` have what takes more than one call.

mod collect;
mod restore;

use super::switch::{Ask, Refused, Switch, prctl};
pub(crate) use collect::{AskedProcessSwitches, ProcessSwitchesBaseline};
use standfast_format::records::ProcessSwitches;
use standfast_linux::abi;
use standfast_linux::sys::process;

const PR_GET_THP_DISABLE: i32 = 42;
const PR_SET_MDWE: i32 = 65;
const PR_GET_MDWE: i32 = 66;
const PR_SET_MEMORY_MERGE: i32 = 67;
const PR_GET_MEMORY_MERGE: i32 = 68;
/// The answer of an ordinary process to `PR_GET_DUMPABLE`.
const DUMPABLE: i64 = 1;
/// The bit in the answer to `PR_GET_THP_DISABLE` that is no flag.
const HUGE_PAGES_OFF: u32 = 1;
/// The field of the record for all of this.
const FIELD: &str = "processes.switches";
const SETTING: &str = "setting a switch of the process";

/// Switches that one call reads and one call sets, in the order in which they are set.
const SWITCHES: &[Switch<ProcessSwitches>] = &[
    Switch {
        ask: Ask::Stored(abi::PR_GET_CHILD_SUBREAPER),
        note: |switches, seen| switches.subreaper = seen.answer != 0,
        set: |switches| switches.subreaper.then(|| prctl(abi::PR_SET_CHILD_SUBREAPER, 1, 0)),
        action: SETTING,
        refused: Refused::Ends,
    },
    Switch {
        ask: Ask::Result(prctl(PR_GET_MEMORY_MERGE, 0, 0)),
        note: |switches, seen| switches.merge_memory = seen.answer > 0,
        set: |switches| switches.merge_memory.then(|| prctl(PR_SET_MEMORY_MERGE, 1, 0)),
        action: SETTING,
        refused: Refused::Noted { field: FIELD, what: "merging of equal pages" },
    },
    // Huge pages are off, or off where the program has not advised to use them (flags of Linux 6.18).
    Switch {
        ask: Ask::Result(prctl(PR_GET_THP_DISABLE, 0, 0)),
        note: |switches, seen| {
            switches.no_huge_pages = seen.status.no_huge_pages;
            let flags = u32::try_from(seen.answer).ok().map(|answer| answer & !HUGE_PAGES_OFF);
            switches.huge_pages_flags = flags.filter(|flags| *flags != 0);
        },
        set: |switches| {
            let flags = switches.huge_pages_flags.unwrap_or_default();
            (switches.no_huge_pages || flags != 0).then(|| prctl(abi::PR_SET_THP_DISABLE, 1, flags.into()))
        },
        action: "switching huge pages off",
        refused: Refused::Noted { field: FIELD, what: "choice of huge pages" },
    },
    Switch {
        ask: Ask::Stored(abi::PR_GET_PDEATHSIG),
        note: |switches, seen| switches.parent_death_signal = seen.answer as u32,
        set: |switches| {
            let signal = switches.parent_death_signal;
            (signal != 0).then(|| prctl(abi::PR_SET_PDEATHSIG, signal.into(), 0))
        },
        action: SETTING,
        refused: Refused::Ends,
    },
    Switch {
        ask: Ask::Result(prctl(PR_GET_MDWE, 0, 0)),
        note: |switches, seen| switches.deny_write_execute = seen.answer.max(0) as u64,
        set: |switches| {
            let bits = switches.deny_write_execute;
            (bits != 0).then(|| prctl(PR_SET_MDWE, bits, 0))
        },
        action: SETTING,
        refused: Refused::Ends,
    },
    // Without privileges, an undumpable process could not have been stopped.
    Switch {
        ask: Ask::Result(prctl(abi::PR_GET_DUMPABLE, 0, 0)),
        note: |switches, seen| {
            let is_undumpable = process::effective_user() == 0 && seen.answer != DUMPABLE;
            switches.undumpable = is_undumpable.then_some(seen.answer as u32);
        },
        set: |switches| switches.undumpable.map(|wanted| prctl(abi::PR_SET_DUMPABLE, wanted.into(), 0)),
        action: SETTING,
        refused: Refused::Ends,
    },
];

/// A switch that is a file in `/proc/PID`. It is recorded if it differs from ours, which a program inherits.
struct SwitchFile {
    name: &'static str,
    /// What it is to people.
    what: &'static str,
    note: fn(&mut ProcessSwitches, &str),
    /// Returns what to write to the file.
    set: fn(&ProcessSwitches) -> Option<String>,
}

const FILES: &[SwitchFile] = &[
    SwitchFile {
        name: "oom_score_adj",
        what: "out-of-memory score",
        note: |switches, text| switches.oom_score_adjustment = text.parse().ok(),
        set: |switches| switches.oom_score_adjustment.map(|score| score.to_string()),
    },
    SwitchFile {
        name: "coredump_filter",
        what: "choice of what a core dump holds",
        note: |switches, text| switches.core_dump_filter = u32::from_str_radix(text, 16).ok(),
        set: |switches| switches.core_dump_filter.map(|filter| filter.to_string()),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_linux::proc::Status;

    #[test]
    fn each_switch_that_is_seen_is_set_again() {
        let is_dumpable = |ask: Ask| matches!(ask, Ask::Result(call) if call == prctl(abi::PR_GET_DUMPABLE, 0, 0));
        for switch in SWITCHES.iter().filter(|it| process::effective_user() == 0 || !is_dumpable(it.ask)) {
            assert!(switch.is_carried(&Status::default()), "{:?}", switch.ask);
        }
        for file in FILES {
            let mut switches = ProcessSwitches::default();
            assert_eq!((file.set)(&switches), None, "{}", file.name);
            (file.note)(&mut switches, "7");
            assert_eq!((file.set)(&switches).as_deref(), Some("7"), "{}", file.name);
        }
    }
}
