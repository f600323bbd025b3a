//! Whether what programs had told the kernel about their memory was the same at the stop as at the look before it.
//!
//! Between that look and the stop a program may have mapped something else at an address, or told the kernel something
//! else about it. The record could then treat memory as droppable that is not, and save nothing of it; or it could miss
//! that a child must not see it. So the kernel is asked once more when the program runs again. If both looks agree, it
//! was so at the stop. The checkpoint must not be committed if they differ, or if only the first one knows a mapping
//! with such attributes.
//!
//! Changes that came and went between the two looks without a trace are not noticed: advice that was given and
//! withdrawn, or a mapping with attributes that was made after the first look and gone by the second. We assume such
//! changes only of programs that use such attributes at all.

use crate::ProcessIdentity;
use crate::attributes::{Counting, Used};
use crate::shared::JobMemory;
use standfast_linux::proc::MapAttributes;
use std::sync::Arc;

/// What a capture has used from looks at the job before the stop.
#[derive(Debug)]
pub struct Unconfirmed {
    memory: Arc<JobMemory>,
    processes: Vec<(ProcessIdentity, Vec<Used>)>,
}

impl Unconfirmed {
    pub(super) fn new(memory: &Arc<JobMemory>, processes: Vec<(ProcessIdentity, Vec<Used>)>) -> Self {
        Self { memory: Arc::clone(memory), processes }
    }

    /// Looks at the running job once more. If this returns `false`, the capture must not be committed. The next capture
    /// knows what this look has found; with [`crate::Asking::Stopped`] it needs no further look.
    pub fn confirm(self) -> bool {
        let Self { memory, processes } = self;
        let mut confirmed = true;
        // All of them are inspected, for the benefit of the next checkpoint.
        for (process, used) in processes {
            confirmed &= match memory.scans.scan(process.pid) {
                Some((now, attributes)) if now == process => is_confirmed(&used, attributes.mappings()),
                // It has ended, so nothing can be compared any more.
                _ => true,
            };
        }
        confirmed
    }
}

/// Reports whether mappings have the attributes that were used for them. Both lists are ascending.
fn is_confirmed(used: &[Used], now: &[MapAttributes]) -> bool {
    let has_executed =
        !used.iter().any(|used| used.inode != 0 && now.iter().any(|it| it.is_at(used.start, used.inode)));
    if has_executed {
        // The earlier program is gone, so nothing can be compared any more.
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

    /// Returns the mappings of the executable, which always has some, and others.
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
    fn attributes_in_both_scans_are_confirmed_even_if_a_mapping_grew() {
        let before = mappings(&[("1000-3000", "wf"), ("5000-6000", "nh")]);
        let stopped = [program(), used(0x1000, 0x3000, &before), used(0x5000, 0x7000, &before)];
        assert!(is_confirmed(&stopped, &mappings(&[("1000-3000", "wf"), ("5000-9000", "hg ac")])));
    }

    #[test]
    fn a_stack_is_confirmed_at_any_size_and_only_as_a_stack() {
        let before = mappings(&[("5000-7000", "gd ac")]);
        let stopped = [program(), used(0x4000, 0x7000, &before)];
        assert!(is_confirmed(&stopped, &mappings(&[("3000-7000", "gd ac")])));
        assert!(!is_confirmed(&stopped, &mappings(&[("3000-7000", "ac")])));
        let not_met = [program(), used(0x4000, 0x7000, &[])];
        assert!(!is_confirmed(&not_met, &mappings(&[("3000-7000", "gd ac")])));
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
    fn an_unscanned_mapping_that_is_gone_fails_if_advice_is_in_use() {
        let stopped = [program(), used(0x1000, 0x3000, &[])];
        assert!(is_confirmed(&stopped, &mappings(&[("5000-6000", "dp")])));
        assert!(!is_confirmed(&stopped, &mappings(&[("5000-6000", "dc")])));
        assert!(is_confirmed(&stopped, &mappings(&[("1000-3000", ""), ("5000-6000", "dc")])));
    }

    #[test]
    fn a_program_that_has_executed_another_needs_no_confirmation() {
        let before = mappings(&[("1000-3000", "wf")]);
        let stopped = [program(), used(0x1000, 0x3000, &before)];
        let other = b"900-a00 r-xp 00000000 08:01 78 /bin/other\nVmFlags: mr mw\n";
        assert!(is_confirmed(&stopped, &MapAttributes::parse(other).unwrap()));
    }
}
