//! Whether what was said about memory was the same at the stop as at the look before it.
//!
//! Between that look and the stop a program may have mapped something else at an address, or said something else about it: the
//! record would then hold memory for droppable that is not, and save nothing of it, or leave out that a child must not see it.
//! So the kernel is asked once more when the program runs again. What both looks say was so at the stop. Where they differ, or
//! only the first one knows a mapping about which something was said, the checkpoint is not to be committed.
//!
//! Not noticed is what came and went between the two looks without a trace: advice that was given and taken back, a mapping that was made after the first, about
//! which something was said, and that was gone by the second. That is assumed of programs only that say such things at all.

use crate::ProcessIdentity;
use crate::job::Shared;
use standfast_linux::proc::MapAttributes;
use std::sync::Arc;

/// What was said about a mapping on which the results of a program can depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counting {
    /// A child does not get it (`MADV_DONTFORK`).
    keeps_from_children: bool,
    /// A child gets it empty (`MADV_WIPEONFORK`).
    is_wiped_for_children: bool,
    /// It has no place in a core dump (`MADV_DONTDUMP`).
    is_not_dumped: bool,
    /// The kernel may drop its pages (`MAP_DROPPABLE`).
    is_droppable: bool,
    /// It may not be changed any more (`mseal(2)`).
    is_sealed: bool,
    /// It is shared, and may not be made writable.
    may_not_be_written: bool,
    protection_key: u32,
}

/// What a collection has used of a look at one mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Inode of the file beneath; 0 if none.
    pub(super) inode: u64,
    pub(super) counting: Counting,
    /// Whether the look had met the mapping.
    pub(super) was_known: bool,
}

/// What a capture has used of looks at the job before it was stopped.
#[derive(Debug)]
pub struct Unconfirmed {
    shared: Arc<Shared>,
    processes: Vec<(ProcessIdentity, Vec<Used>)>,
}

impl Unconfirmed {
    pub(super) fn new(shared: &Arc<Shared>, processes: Vec<(ProcessIdentity, Vec<Used>)>) -> Self {
        Self { shared: Arc::clone(shared), processes }
    }

    /// Looks once more at the job, which runs again. Where this says `false`, the capture must not be committed; the next one
    /// knows what this look has found, and with [`crate::Asking::Stopped`] another is not needed.
    pub fn confirm(self) -> bool {
        let Self { shared, processes } = self;
        let mut confirmed = true;
        // All of them are looked at, for the next checkpoint.
        for (process, used) in processes {
            confirmed &= match shared.scans.scan(process.pid) {
                Some((now, attributes)) if now == process => is_confirmed(&used, attributes.mappings()),
                // It has ended, and nobody can tell any more.
                _ => true,
            };
        }
        confirmed
    }
}

impl Counting {
    pub(super) fn of(mapping: &MapAttributes) -> Self {
        Self {
            keeps_from_children: mapping.has(b"dc"),
            is_wiped_for_children: mapping.has(b"wf"),
            is_not_dumped: mapping.has(b"dd"),
            is_droppable: mapping.has(b"dp"),
            is_sealed: mapping.has(b"sl"),
            may_not_be_written: mapping.has(b"ms") && !mapping.has(b"mw"),
            protection_key: mapping.protection_key,
        }
    }

    /// Of a mapping that no look has met.
    pub(super) fn of_unknown(may_not_be_written: bool) -> Self {
        Self { may_not_be_written, ..Self::default() }
    }

    /// Whether a program says such things of short-lived memory: what its libraries have at all times does not count.
    fn is_said_often(&self) -> bool {
        self.keeps_from_children || self.is_wiped_for_children || self.protection_key != 0
    }
}

/// Whether mappings have the attributes that were used for them. Both are ascending.
fn is_confirmed(used: &[Used], now: &[MapAttributes]) -> bool {
    let has_executed =
        !used.iter().any(|used| used.inode != 0 && now.iter().any(|it| it.is_at(used.start, used.inode)));
    if has_executed {
        // Of the program that it was, nobody can tell any more.
        return true;
    }
    let says_often = now.iter().any(|mapping| Counting::of(mapping).is_said_often());
    used.iter().all(|used| {
        let first = now.partition_point(|mapping| mapping.end <= used.start);
        let around = now[first..].iter().take_while(|mapping| mapping.start < used.end);
        let mut same = around.filter(|mapping| mapping.inode == used.inode).peekable();
        if same.peek().is_none() {
            // It is gone.
            return used.counting == Counting::default() && (used.was_known || !says_often);
        }
        same.all(|mapping| Counting::of(mapping) == used.counting)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The executable, of which something is always there, and other mappings.
    fn mappings(lines: &[(&str, &str)]) -> Vec<MapAttributes> {
        let text = |(range, flags): &(&str, &str)| format!("{range} rw-p 00000000 00:00 0 \nVmFlags: mr mw {flags}\n");
        let program = "400-500 r-xp 00000000 08:01 77 /bin/program\nVmFlags: mr mw\n";
        let text = program.to_owned() + &lines.iter().map(text).collect::<String>();
        MapAttributes::parse(text.as_bytes()).unwrap()
    }

    fn program() -> Used {
        Used { start: 0x400, end: 0x500, inode: 77, counting: Counting::default(), was_known: true }
    }

    fn used(start: u64, end: u64, before: &[MapAttributes]) -> Used {
        let known = before.iter().find(|it| it.start < end && start < it.end);
        let counting = known.map(Counting::of).unwrap_or_default();
        Used { start, end, inode: 0, counting, was_known: known.is_some() }
    }

    #[test]
    fn what_both_scans_say_is_confirmed_also_of_a_mapping_that_has_grown() {
        let before = mappings(&[("1000-3000", "wf"), ("5000-6000", "nh")]);
        let stopped = [program(), used(0x1000, 0x3000, &before), used(0x5000, 0x7000, &before)];
        assert!(is_confirmed(&stopped, &mappings(&[("1000-3000", "wf"), ("5000-9000", "hg ac")])));
    }

    #[test]
    fn another_mapping_at_the_same_address_is_not_confirmed() {
        let before = mappings(&[("1000-3000", "dp wf"), ("5000-6000", "")]);
        let stopped = [program(), used(0x1000, 0x3000, &before), used(0x5000, 0x6000, &before)];
        for now in [
            &[("1000-3000", ""), ("5000-6000", "")][..],
            &[("1000-3000", "dp wf"), ("5000-6000", "dc")],
            &[("1000-2000", "dp wf"), ("2000-3000", ""), ("5000-6000", "")],
            &[("5000-6000", "")],
        ] {
            assert!(!is_confirmed(&stopped, &mappings(now)), "{now:?}");
        }
        assert!(is_confirmed(&stopped, &mappings(&[("1000-3000", "dp wf")])), "what had nothing said about it may go");
    }

    #[test]
    fn a_mapping_that_no_scan_has_met_counts_where_the_program_says_things_about_memory() {
        let stopped = [program(), used(0x1000, 0x3000, &[])];
        assert!(is_confirmed(&stopped, &mappings(&[("5000-6000", "dp")])));
        assert!(!is_confirmed(&stopped, &mappings(&[("5000-6000", "dc")])));
        assert!(is_confirmed(&stopped, &mappings(&[("1000-3000", ""), ("5000-6000", "dc")])));
    }

    #[test]
    fn of_a_program_that_has_executed_another_nothing_is_asked() {
        let before = mappings(&[("1000-3000", "wf")]);
        let stopped = [program(), used(0x1000, 0x3000, &before)];
        let other = b"900-a00 r-xp 00000000 08:01 78 /bin/other\nVmFlags: mr mw\n";
        assert!(is_confirmed(&stopped, &MapAttributes::parse(other).unwrap()));
    }
}
