//! Clones of the processes of a frozen job, from which their memory is read when the job runs again.
//!
//! A clone lacks what the program withholds from its children (`MADV_DONTFORK`, `MADV_WIPEONFORK`), and memory that
//! processes share continues to change in it. So we check which of the wanted pages the clone holds, and read the others
//! while the program is frozen.

use crate::EngineError;
use crate::error::kernel;
use crate::freeze::{Frozen, FrozenProcess, refine};
use standfast_core::{PageRange, PageSet};
use standfast_format::BackingPage;
use standfast_format::records::JobState;
use standfast_linux::proc::{HUGE_PAGES, Map, Stat, Status};
use standfast_linux::{
    CloneParent, Injector, MemoryClone, OwnState, PageScan, ParasiteArea, ParasiteAreaError, Pid, PinnedToCpu,
    Populated, TaskError,
};
use std::io;

/// Why a process has no clone.
pub(crate) type Reason = String;

/// Makes a clone of a process whose job has been collected, or returns why there can be none.
pub(crate) fn clone_of(
    frozen: &Frozen,
    process: &FrozenProcess,
    state: &JobState,
) -> Result<Result<MemoryClone, Reason>, EngineError> {
    let parent = Stat::of(process.pid).map_err(|_| EngineError::Ended)?.parent;
    let is_ours = parent == Pid::own() || Some(parent) == frozen.reaper;
    let parent = if is_ours { CloneParent::Sibling } else { CloneParent::Orphan };
    if parent == CloneParent::Orphan && state.processes.iter().any(|process| process.switches.subreaper) {
        return Ok(Err("a process of the job takes orphans, and would find the clone among them".to_owned()));
    }
    inject(frozen, process, parent)
}

fn inject(
    frozen: &Frozen,
    process: &FrozenProcess,
    parent: CloneParent,
) -> Result<Result<MemoryClone, Reason>, EngineError> {
    let (pid, main) = (process.pid, &process.tasks[0]);
    let ended = |error: TaskError| refine(error, pid, &frozen.shared.tracing.main);
    let stat = Stat::of(pid).map_err(|_| EngineError::Ended)?;
    let _pinned = PinnedToCpu::new(stat.cpu);
    let extended = main.task.extended_registers().map_err(ended)?;
    let tasks: Vec<_> = process.tasks.iter().map(|task| (&task.task, task.registers)).collect();
    let parasite_area = match ParasiteArea::find(&process.memory, &process.maps, &tasks, extended.len()) {
        Ok(parasite_area) => parasite_area,
        Err(ParasiteAreaError::Task(error)) => return Err(ended(error)),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let status = Status::of(pid).map_err(|_| EngineError::Ended)?;
    let (own_process, own_thread) = status.process_ids.last().zip(status.ids.last()).ok_or(EngineError::Ended)?;
    let own = OwnState {
        registers: &main.registers,
        extended: &extended,
        mask: main.mask,
        first_call: main.interrupted.call,
        ids: (*own_process, *own_thread),
    };
    // Without a completion signal: no signal at all may arrive in between.
    let injector = Injector::new(&process.memory, &parasite_area, None);
    let made = injector.take(&main.task, own).and_then(|remote_task| {
        let made = remote_task.clone_memory(parent)?;
        remote_task.release().map(|()| made)
    });
    // The memory is returned in any case; if the program is gone, there is none.
    let given_back = parasite_area.give_back(&process.memory, &main.task);
    let made = made.map_err(ended)?;
    match given_back {
        Ok(()) => Ok(made.map_err(|error| error.to_string())),
        Err(ParasiteAreaError::Task(error)) => Err(ended(error)),
        Err(error) => Err(kernel("giving borrowed memory back", io::Error::other(error))),
    }
}

/// Returns the mappings of a process that a clone of it holds with their contents. fork(2) copies the page tables of a
/// mapping completely, or not at all, or leaves it empty. So the first wanted page decides for each mapping; checking
/// all pages would delay the program by a fifth of the time for the clone itself. Memory from the system's pool of huge
/// pages is left out, since the kernel takes the clone's pages away if the pool is empty.
pub(crate) fn copied(
    clone: &MemoryClone,
    process: &FrozenProcess,
    wanted: &PageSet,
) -> Result<Vec<PageRange>, EngineError> {
    let scan = PageScan::open(clone.pid()).map_err(scanning)?;
    let wanted = wanted.ranges();
    let mut copied = Vec::new();
    for map in process.maps.iter().filter(|map| map.path != HUGE_PAGES).map(Map::range) {
        let place = wanted.partition_point(|range| range.end() <= map.start());
        let first = wanted.get(place).map(|range| range.start().max(map.start()));
        if let Some(first) = first.filter(|first| *first < map.end()) {
            let mut found = Vec::new();
            scan.populated(PageRange::new(first, 1), Populated::Any, &mut found).map_err(scanning)?;
            copied.extend((!found.is_empty()).then_some(map));
        }
    }
    Ok(copied)
}

fn scanning(source: io::Error) -> EngineError {
    kernel("scanning the pages of a clone of the program", source)
}

/// Some pages of a process, ascending, and what is beneath them.
pub(crate) type Pieces = Vec<(PageRange, BackingPage)>;

/// Divides pages into those in a set and the others.
pub(crate) fn divide(pages: &[(PageRange, BackingPage)], set: &PageSet) -> (Pieces, Pieces) {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for backing_page in [BackingPage::Zeros, BackingPage::File] {
        let of_kind = PageSet::of(pages.iter().filter(|(_, kind)| *kind == backing_page).map(|(range, _)| *range));
        inside.extend(of_kind.intersection(set).ranges().iter().map(|range| (*range, backing_page)));
        outside.extend(of_kind.difference(set).ranges().iter().map(|range| (*range, backing_page)));
    }
    inside.sort_unstable_by_key(|(range, _)| range.start());
    outside.sort_unstable_by_key(|(range, _)| range.start());
    (inside, outside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_core::Address;

    fn pages(first: u64, pages: u64) -> PageRange {
        PageRange::new(Address::new(first * 4096), pages)
    }

    #[test]
    fn pages_are_divided_and_keep_their_backing_pages() {
        let wanted =
            [(pages(0, 4), BackingPage::Zeros), (pages(4, 2), BackingPage::File), (pages(9, 1), BackingPage::Zeros)];
        let (inside, outside) = divide(&wanted, &PageSet::of([pages(2, 3), pages(20, 1)]));
        assert_eq!(inside, [(pages(2, 2), BackingPage::Zeros), (pages(4, 1), BackingPage::File)]);
        assert_eq!(
            outside,
            [(pages(0, 2), BackingPage::Zeros), (pages(5, 1), BackingPage::File), (pages(9, 1), BackingPage::Zeros)]
        );
    }
}
