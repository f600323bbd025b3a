//! The tables of regions of a job's programs, as last read (M9). A table of a million regions takes a hundredth of a
//! second to read, and longer to search. So tables are read while the program runs, and the stop reads only later
//! changes.
//!
//! A finished table never changes, and neither do the entries of its log ([`DirectivesHeader::made`]). If the table is
//! the same before and after reading, it was read completely.

use crate::program::ProgramIdentity;
use standfast_core::Address;
use standfast_core::directions::{Changes, DirectivesHeader, DirectivesTable, ENTRY_BYTES, Regions, Stretch};
use standfast_linux::ProcessMemory;

/// Tables of programs.
#[derive(Debug, Default)]
pub(crate) struct Tables(Vec<(ProgramIdentity, DirectivesTable)>);

impl Tables {
    pub(crate) fn take(&mut self, program: ProgramIdentity) -> Option<DirectivesTable> {
        let place = self.0.iter().position(|(whose, _)| whose.is(&program))?;
        Some(self.0.swap_remove(place).1)
    }

    pub(crate) fn put(&mut self, program: ProgramIdentity, table: DirectivesTable) {
        self.take(program);
        self.0.push((program, table));
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(ProgramIdentity) -> bool) {
        self.0.retain(|(program, _)| is_kept(*program));
    }
}

/// The directives of one program.
#[derive(Debug, Default)]
pub(crate) struct Directions {
    /// Number of its checkpoints so far.
    pub(crate) epoch: u64,
    /// Its table of regions.
    pub(crate) table: DirectivesTable,
    /// Later changes to that table.
    pub(crate) changes: Changes,
    /// Why the directives are not honoured.
    pub(crate) problem: Option<String>,
    /// Where the origins of its calls are recorded, if they are: see [`DirectivesHeader::records`].
    pub(crate) records: Option<(Address, u64)>,
}

/// Returns the table that a header leads to, building upon the known part, and the changes since. An error says why the
/// directives cannot be honoured.
pub(crate) fn decoded(
    memory: &ProcessMemory,
    header: &DirectivesHeader,
    known: Option<DirectivesTable>,
    is_mapped: &dyn Fn(u64, u64) -> bool,
) -> Result<(DirectivesTable, Changes), String> {
    let read = |Stretch { start, bytes: length }: Stretch| {
        // Do not even allocate memory for what is not mapped.
        let end = start.get().checked_add(length as u64);
        if length > 0 && !end.is_some_and(|end| is_mapped(start.get(), end)) {
            return Err("its table of regions is not there any more".to_owned());
        }
        let mut bytes = vec![0; length];
        memory.read(start, &mut bytes).map_err(|error| format!("its table of regions: {error}"))?;
        Ok(bytes)
    };
    let entries = header.log.bytes / ENTRY_BYTES;
    let is_same = |table: &DirectivesTable| table.made() == header.made && table.entries() <= entries;
    match known.filter(is_same) {
        Some(table) => {
            let skipped = table.entries() * ENTRY_BYTES;
            let start = header.log.start.get().checked_add(skipped as u64).map(Address::new);
            let start = start.ok_or("its table of regions has been written over")?;
            let log = read(Stretch { start, bytes: header.log.bytes - skipped })?;
            let changes = Changes::decode([&log[..], &header.deferred]).map_err(|error| error.to_string())?;
            Ok((table, changes))
        }
        None => {
            let (base, log) = (read(header.base)?, read(header.log)?);
            let regions = Regions::decode_table(&base, [&log[..]]).map_err(|error| error.to_string())?;
            let changes = Changes::decode([&header.deferred[..]]).map_err(|error| error.to_string())?;
            Ok((DirectivesTable::new(header.made, entries, regions), changes))
        }
    }
}
