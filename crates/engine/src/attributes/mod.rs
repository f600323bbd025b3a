//! Attributes of mappings other than their access: advice, locks, keys, names. The kernel reports them only in a walk
//! through all page tables, 5 to 12 ms for each GB. So it is asked while the program runs, before the stop, and later
//! changes by the program are missed. If a result can depend on such a change, a checkpoint counts only if the kernel
//! reports the same once the program runs again, see `collect/confirmation.rs`. If the amount of locked memory shows
//! that something was missed, the kernel is asked at once.

mod counting;

use crate::capture_options::Asking;
use crate::error::kernel;
use crate::{EngineError, ProcessIdentity};
pub(crate) use counting::{Counting, Used};
use standfast_core::PAGE_BYTES;
use standfast_format::records::{Accounting, Advice, Bytes, MappingAttributes, MemoryLock, NumaPolicy};
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::proc::{HUGE_PAGES, Map, MapAttributes, MapPolicy, ProcessPages};
use standfast_linux::sys::process;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A look ahead is repeated after this many times the processor time that it took, so that such looks take 5 % of a
/// processor at most.
const REST: u32 = 20;

/// The attributes of one process's mappings, as of one look.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes {
    mappings: Arc<Vec<MapAttributes>>,
    policies: Arc<Vec<MapPolicy>>,
    /// Whether the program ran during the look, so that it may have changed attributes since.
    was_running: bool,
}

/// The last look at each process of a job.
#[derive(Debug, Default)]
pub(crate) struct Scans(Mutex<HashMap<Pid, Scan>>);

#[derive(Debug)]
struct Scan {
    process: ProcessIdentity,
    attributes: Attributes,
    ended: Instant,
    took: Duration,
}

impl Scans {
    /// Looks at running processes, except those looked at a moment ago; forgets all others.
    pub(crate) fn prefetch(&self, pids: &[Pid]) {
        self.scans().retain(|pid, scan| pids.contains(pid) && scan.process.is_alive());
        for pid in pids {
            let is_recent = |scan: &Scan| scan.ended.elapsed() < scan.took * REST;
            if !self.scans().get(pid).is_some_and(is_recent) {
                // It is gone, or the checkpoint will say why it may not be inspected.
                let _ = self.scan(*pid);
            }
        }
    }

    /// Looks at a running process.
    pub(crate) fn scan(&self, pid: Pid) -> Option<(ProcessIdentity, Attributes)> {
        let begun = process::thread_time();
        let found = ProcessIdentity::of(pid).ok().and_then(|process| Some((process, Attributes::at(pid).ok()?)));
        let Some((process, attributes)) = found else {
            self.scans().remove(&pid);
            return None;
        };
        let attributes = Attributes { was_running: true, ..attributes };
        let took = process::thread_time().saturating_sub(begun);
        let scan = Scan { process, attributes: attributes.clone(), ended: Instant::now(), took };
        self.scans().insert(pid, scan);
        Some((process, attributes))
    }

    /// Returns what is known about a frozen process with `locked_kib` of locked memory. `maps` are its mappings.
    pub(crate) fn known(
        &self,
        process: ProcessIdentity,
        locked_kib: u64,
        maps: &[Map],
        when: Asking,
    ) -> Result<Attributes, EngineError> {
        let asking = |source| kernel("asking what was said about memory", source);
        let is_it = |scan: &&Scan| scan.process == process;
        let known = self.scans().get(&process.pid).filter(is_it).map(|scan| scan.attributes.clone());
        match known {
            Some(known) if when == Asking::Running && known.fits(locked_kib, maps) => Ok(known),
            // One walk is enough.
            Some(Attributes { policies, .. }) => {
                let mappings = Arc::new(MapAttributes::of(process.pid).map_err(asking)?);
                Ok(Attributes { mappings, policies, was_running: false })
            }
            None => Attributes::at(process.pid).map_err(asking),
        }
    }

    fn scans(&self) -> MutexGuard<'_, HashMap<Pid, Scan>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attributes {
    /// Asks the kernel.
    pub(crate) fn at(pid: Pid) -> io::Result<Self> {
        let policies = if is_worth_asking(pid) { MapPolicy::of(pid)? } else { Vec::new() };
        Ok(Self { mappings: Arc::new(MapAttributes::of(pid)?), policies: Arc::new(policies), was_running: false })
    }

    /// Returns which of these attributes count for mappings of a frozen process, if they must be confirmed.
    pub(crate) fn unconfirmed(&self, pid: Pid, maps: &[Map]) -> Option<Vec<Used>> {
        let used = |map: &Map| {
            let known = self.find(map);
            let may_not_be_written = self.may_be_written(pid, map) == Some(false);
            let counting = known.map_or_else(|| Counting::of_unknown(may_not_be_written), Counting::of);
            Used { start: map.start, end: map.end, inode: map.inode, counting, was_known: known.is_some() }
        };
        // The kernel's own mappings need no confirmation.
        let counts = |map: &&Map| !map.path.starts_with(b"[v");
        self.was_running.then(|| maps.iter().filter(counts).map(used).collect())
    }

    /// Returns the attributes of all mappings, ascending.
    pub(crate) fn mappings(&self) -> &[MapAttributes] {
        &self.mappings
    }

    /// Reports whether the program may make a mapping writable, or has done so. Returns `None` for private mappings,
    /// which it always may, and if this is unknown.
    pub(crate) fn may_be_written(&self, pid: Pid, map: &Map) -> Option<bool> {
        if !map.shared || map.protection.write {
            return map.shared.then_some(true);
        }
        self.find(map).map(|known| known.has(b"mw")).or_else(|| map.is_of_writable_file(pid).ok())
    }

    /// Reports whether a mapping grows when memory below it is touched.
    pub(crate) fn grows_down(&self, map: &Map) -> bool {
        map.is_stack() || self.find(map).is_some_and(|known| known.has(b"gd"))
    }

    /// Reports whether nothing indicates that a change was missed.
    fn fits(&self, locked_kib: u64, maps: &[Map]) -> bool {
        let locked = |map: &&Map| self.find(map).is_some_and(|found| found.has(b"lo"));
        let bytes: u64 = maps.iter().filter(locked).map(|map| map.end - map.start).sum();
        // Behind an exec the stack is elsewhere, and all that was seen was another program's.
        let must_be_known = |map: &&Map| map.path == HUGE_PAGES || map.is_stack();
        bytes >> 10 == locked_kib && maps.iter().filter(must_be_known).all(|map| self.find(map).is_some())
    }

    /// Returns the mapping as of the look, if it existed. It may have grown, shrunk or been cut since.
    fn find(&self, map: &Map) -> Option<&MapAttributes> {
        let place = self.mappings.partition_point(|known| known.end <= map.start);
        self.mappings.get(place).filter(|known| known.start < map.end && known.inode == map.inode)
    }

    /// Returns the policy of the mapping that began at `start`, if it has its own. A mapping without one shows the main
    /// thread's policy, as the last mapping does, which is the kernel's own.
    fn policy(&self, start: u64) -> Option<NumaPolicy> {
        let usual = self.policies.last().map(|last| &last.policy);
        let place = self.policies.binary_search_by_key(&start, |known| known.start).ok()?;
        let policy = &self.policies[place].policy;
        (Some(policy) != usual).then(|| NumaPolicy { mode: policy.mode, nodes: policy.nodes.clone() })
    }

    /// Returns the attributes of a mapping.
    pub(crate) fn of(&self, map: &Map) -> MappingAttributes {
        let name = map.path.strip_prefix(b"[anon:").and_then(|name| name.strip_suffix(b"]")).map(Bytes::from);
        let Some(known) = self.find(map) else { return MappingAttributes { name, ..MappingAttributes::default() } };
        MappingAttributes {
            advice: ADVICE.iter().filter(|lasting| known.has(lasting.letters)).map(|lasting| lasting.advice).collect(),
            lock: match (known.has(b"lo"), known.has(b"lf")) {
                (true, true) => MemoryLock::OnFault,
                (true, false) => MemoryLock::Locked,
                (false, _) => MemoryLock::Unlocked,
            },
            protection_key: known.protection_key,
            huge_page_bytes: if map.path == HUGE_PAGES { known.page_bytes } else { 0 },
            droppable: known.has(b"dp"),
            sealed: known.has(b"sl"),
            name,
            guards: Vec::new(),
            accounting: match (known.has(b"ac"), known.has(b"nr")) {
                (true, _) => Accounting::Counted,
                (false, true) => Accounting::Exempt,
                (false, false) => Accounting::Uncounted,
            },
            numa: self.policy(known.start),
        }
    }
}

/// Reports whether to ask for policies of NUMA nodes, which is another walk. On a machine with one node they matter only
/// to a program that asks for them; there, only small programs are asked about.
fn is_worth_asking(pid: Pid) -> bool {
    const SMALL_PAGES: u64 = (64 << 20) / PAGE_BYTES as u64;
    let nodes = std::fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    nodes.trim() != "0" || ProcessPages::of(pid).is_ok_and(|pages| pages.resident <= SMALL_PAGES)
}

/// Advice on memory that stays with a mapping (madvise(2)).
struct LastingAdvice {
    advice: Advice,
    /// The kernel's letters for it in `/proc/PID/smaps`.
    letters: &'static [u8; 2],
    /// Its number.
    number: i32,
}

const ADVICE: [LastingAdvice; 8] = [
    LastingAdvice { advice: Advice::DontFork, letters: b"dc", number: abi::MADV_DONTFORK },
    LastingAdvice { advice: Advice::WipeOnFork, letters: b"wf", number: abi::MADV_WIPEONFORK },
    LastingAdvice { advice: Advice::DontDump, letters: b"dd", number: abi::MADV_DONTDUMP },
    LastingAdvice { advice: Advice::HugePages, letters: b"hg", number: abi::MADV_HUGEPAGE },
    LastingAdvice { advice: Advice::NoHugePages, letters: b"nh", number: abi::MADV_NOHUGEPAGE },
    LastingAdvice { advice: Advice::Mergeable, letters: b"mg", number: abi::MADV_MERGEABLE },
    LastingAdvice { advice: Advice::Sequential, letters: b"sr", number: abi::MADV_SEQUENTIAL },
    LastingAdvice { advice: Advice::Random, letters: b"rr", number: abi::MADV_RANDOM },
];

/// Returns the number of an advice for madvise(2).
pub(crate) fn advice_number(advice: Advice) -> u64 {
    let known = ADVICE.iter().find(|known| known.advice == advice);
    known.expect("the table has each advice, see the tests").number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &str) -> Attributes {
        Attributes { mappings: Arc::new(MapAttributes::parse(text.as_bytes()).unwrap()), ..Attributes::default() }
    }

    fn map(line: &str) -> Map {
        Map::parse(line.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn a_mapping_that_changes_its_size_keeps_its_attributes() {
        let known = known("10000-20000 rw-p 00000000 00:00 0 \nVmFlags: rd wr wf nh lo lf\n");
        let grown = known.of(&map("8000-21000 rw-p 00000000 00:00 0 [anon:heap]"));
        assert_eq!(grown.advice, [Advice::WipeOnFork, Advice::NoHugePages]);
        assert_eq!((grown.lock, grown.name), (MemoryLock::OnFault, Some(b"heap"[..].into())));
        let other = known.of(&map("10000-20000 r--p 00000000 08:01 77 /lib"));
        assert_eq!(other, MappingAttributes::default(), "another file lies there now");
        assert_eq!(grown.accounting, Accounting::Uncounted);
        assert_eq!(known.of(&map("20000-21000 rw-p 00000000 00:00 0 ")), MappingAttributes::default());
    }

    #[test]
    fn a_stack_that_has_grown_since_the_scan_still_grows() {
        let known = known(
            "10000-20000 rw-p 00000000 00:00 0 \nVmFlags: rd wr gd ac\n20000-30000 rw-p 00000000 00:00 0 \nVmFlags: rd\n",
        );
        let (grown, beside) = (map("8000-20000 rw-p 00000000 00:00 0 "), map("20000-30000 rw-p 00000000 00:00 0 "));
        assert!(known.grows_down(&grown) && !known.grows_down(&beside));
        assert!(known.grows_down(&map("70000-80000 rw-p 00000000 00:00 0 [stack]")), "the kernel makes it so");
    }

    #[test]
    fn each_advice_that_an_image_can_hold_is_known() {
        use Advice::*;
        // A new advice fails to compile here first.
        let number = |advice| match advice {
            DontFork | WipeOnFork | DontDump | HugePages | NoHugePages => advice_number(advice),
            Mergeable | Sequential | Random => advice_number(advice),
        };
        let all = [DontFork, WipeOnFork, DontDump, HugePages, NoHugePages, Mergeable, Sequential, Random];
        assert!(all.into_iter().all(|advice| number(advice) > 0));
    }

    #[test]
    fn locked_memory_that_the_scan_missed_does_not_fit() {
        let known = known("10000-20000 rw-p 00000000 00:00 0 \nVmFlags: rd lo\n");
        let maps = [map("10000-20000 rw-p 00000000 00:00 0 "), map("30000-40000 rw-p 00000000 00:00 0 ")];
        assert!(known.fits(64, &maps));
        assert!(!known.fits(128, &maps));
        assert!(!known.fits(0, &maps));
    }
}
