//! Pseudo-terminals of the job: made again under their numbers, with their settings and the data that was in flight.

mod collect;
mod restore;
mod silence;

use super::{Check, Kind, Known, Opening, Recorded, Walk};
use crate::EngineError;
pub(super) use collect::FoundTerminal;
pub(super) use restore::TerminalSides;
pub(crate) use restore::{bring_to_foreground, makes_terminals};
use standfast_format::records::{OpenFile, OpenFileKind, PseudoTerminal};
use std::collections::BTreeSet;

/// `c_cc` of a terminal.
const CONTROL_CHARACTERS: usize = 19;

pub(super) const KIND: Kind = Kind { collect, check, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    walk.terminal(place)
}

fn check(check: &mut Check<'_, '_>, file: &OpenFile) {
    let (OpenFileKind::Master { terminal } | OpenFileKind::Slave { terminal }) = file.kind else { return };
    let is_whole = |terminal: &PseudoTerminal| terminal.settings.characters.0.len() == CONTROL_CHARACTERS;
    if !check.job.terminals.get(terminal as usize).is_some_and(is_whole) {
        check.add_missing_part("names a terminal");
    }
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    match recorded.kind {
        OpenFileKind::Master { terminal } => Some(opening.master(*terminal, recorded.flags)),
        OpenFileKind::Slave { terminal } => Some(opening.open_slave(*terminal, recorded.flags)),
        OpenFileKind::HungUp { mode } => Some(opening.make_hung_up(*mode, recorded.flags)),
        _ => None,
    }
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    match kind {
        OpenFileKind::Master { terminal } => Some(format!("master of terminal {terminal} of the job")),
        OpenFileKind::Slave { terminal } => Some(format!("slave of terminal {terminal} of the job")),
        OpenFileKind::HungUp { .. } => Some("terminal that has been hung up".to_owned()),
        _ => None,
    }
}

impl Check<'_, '_> {
    /// Checks that each session has at most one terminal, and that its leader lives.
    pub(crate) fn terminals(&mut self) {
        let job = self.job;
        let leads = |session: i32| {
            let leader =
                job.processes.iter().find(|process| process.pid == session).map(|process| process.process_tree);
            leader.is_some_and(|leader| leader.session == session && leader.wait_status.is_none())
        };
        let sessions: Vec<i32> = job.terminals.iter().filter_map(|it| it.controls).map(|it| it.session).collect();
        let once: BTreeSet<i32> = sessions.iter().copied().collect();
        let held = job.terminals.iter().filter(|it| it.held).count();
        if once.len() != sessions.len() || !sessions.into_iter().all(leads) || held > 1 {
            self.blockers.add_impossible(
                "it verifies, but gives a terminal to a session that is not there, or has two held for it",
            );
        }
    }
}
