//! Reads the tables of regions of a job's programs while these run, so that little is left to read at the stop (M9).

use crate::ProcessIdentity;
use crate::directions::heading_at_rest;
use crate::program::ProgramIdentity;
use crate::shared::JobMemory;
use crate::tables::decoded;
use standfast_core::Address;
use standfast_core::directions::{DirectivesHeader, ENTRY_BYTES};
use standfast_linux::{Pid, ProcessMemory};

/// Recent changes are merged into a table when they exceed 1/SHARE of it. Before that, it costs less to look again at
/// the pages that they describe.
const SHARE: usize = 32;

/// Reads the tables of some processes of a job, which run meanwhile.
pub(crate) fn prefetch(pids: &[Pid], job_memory: &JobMemory) {
    for pid in pids {
        let (Ok(memory), Ok(process)) = (ProcessMemory::open(*pid), ProcessIdentity::of(*pid)) else { continue };
        if heading_at_rest(&memory).is_none() {
            continue;
        }
        // What is read belongs to one program if the same one runs before and after reading.
        let program = ProgramIdentity::of(process, &memory);
        let Some((place, mut header)) = heading_at_rest(&memory).filter(|(_, header)| header.made != 0) else {
            continue;
        };
        // What handlers have said reaches the log sooner or later.
        header.deferred.clear();
        let (known, held) = {
            let promises = &mut job_memory.tracks().promises;
            (promises.tables.take(program), promises.held(program))
        };
        let is_there = |start: u64, end: u64| {
            let mut byte = [0];
            [start, end - 1].iter().all(|at| memory.read(Address::new(*at), &mut byte).is_ok())
        };
        let Ok((table, changes)) = decoded(&memory, &header, known, &is_there) else { continue };
        let stays = |(there, after): (Address, DirectivesHeader)| {
            let what = |header: &DirectivesHeader| (header.made, header.base, header.log.start);
            there == place && what(&after) == what(&header)
        };
        let is_same_program = || ProgramIdentity::of(process, &memory).is(&program);
        if !heading_at_rest(&memory).is_some_and(stays) || !is_same_program() {
            continue;
        }
        let said = header.log.bytes / ENTRY_BYTES - table.entries();
        let is_due = said * SHARE > table.regions().all().len();
        let mut table = if is_due { table.changed_by(said, &changes) } else { table };
        table.outline(held);
        job_memory.tracks().promises.tables.put(program, table);
    }
}
