//! What has been said about mappings besides their access: advice, locks, keys, names. The kernel tells it only in a walk
//! through all page tables, 100 ms for each GiB, so it is asked while the program runs on, shortly before it is stopped. What
//! the program says in between is missed; nothing of it changes what a program computes, and where the amount of locked
//! memory shows that something was missed, the kernel is asked again.

use crate::EngineError;
use crate::freeze::kernel;
use standfast_core::PAGE_BYTES;
use standfast_format::records::{Accounting, Advice, Bytes, MappingAttributes, MemoryLock, NumaPolicy};
use standfast_linux::proc::{self, Map, MapAttributes, MapPolicy};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A look is repeated when this many times its own duration has passed: it takes 5 % of a processor at most.
const REST: u32 = 20;

/// The attributes of one process's mappings, as they were at one look.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes {
    mappings: Arc<Vec<MapAttributes>>,
    policies: Arc<Vec<MapPolicy>>,
}

/// The last look at each process of a job.
#[derive(Debug, Default)]
pub(crate) struct Looks(Mutex<HashMap<i32, Look>>);

#[derive(Debug)]
struct Look {
    attributes: Attributes,
    ended: Instant,
    took: Duration,
}

impl Looks {
    /// Looks at a process that runs, unless that was done a moment ago.
    pub(crate) fn look_ahead(&self, pid: i32) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if looks.get(&pid).is_some_and(|look| look.ended.elapsed() < look.took * REST) {
            return;
        }
        let begun = Instant::now();
        match Attributes::at(pid) {
            Ok(attributes) => looks.insert(pid, Look { attributes, ended: Instant::now(), took: begun.elapsed() }),
            // It is gone, or the checkpoint will say why it may not be looked at.
            Err(_) => looks.remove(&pid),
        };
    }

    /// What is known of a process that has so much memory locked. `maps` are its mappings now.
    pub(crate) fn known(&self, pid: i32, locked_kib: u64, maps: &[Map]) -> Result<Attributes, EngineError> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&pid).map(|look| look.attributes.clone());
        let asking = |source| kernel("asking what was said about memory", source);
        match known {
            Some(known) if known.fits(locked_kib, maps) => Ok(known),
            // The program stands still: one walk is enough.
            Some(known) => Ok(Attributes { mappings: Arc::new(MapAttributes::of(pid).map_err(asking)?), ..known }),
            None => Attributes::at(pid).map_err(asking),
        }
    }
}

impl Attributes {
    /// Asks the kernel.
    pub(crate) fn at(pid: i32) -> io::Result<Self> {
        let policies = if is_worth_asking(pid) { MapPolicy::of(pid)? } else { Vec::new() };
        Ok(Self { mappings: Arc::new(MapAttributes::of(pid)?), policies: Arc::new(policies) })
    }

    /// Whether nothing shows that something was missed.
    fn fits(&self, locked_kib: u64, maps: &[Map]) -> bool {
        let locked = |map: &&Map| self.find(map).is_some_and(|found| found.has(b"lo"));
        let bytes: u64 = maps.iter().filter(locked).map(|map| map.end - map.start).sum();
        let huge = |map: &&Map| map.path == super::memory::HUGE_PAGES;
        bytes >> 10 == locked_kib && maps.iter().filter(huge).all(|map| self.find(map).is_some())
    }

    /// The mapping as it was, if it was there: it may have grown, shrunk or been cut since.
    fn find(&self, map: &Map) -> Option<&MapAttributes> {
        let place = self.mappings.partition_point(|known| known.end <= map.start);
        self.mappings.get(place).filter(|known| known.start < map.end && known.inode == map.inode)
    }

    /// The policy of a mapping that began there, if it has one of its own: one without shows the
    /// main thread's, as the last mapping does, which is the kernel's own.
    fn policy(&self, start: u64) -> Option<NumaPolicy> {
        let usual = self.policies.last().map(|last| &last.policy);
        let place = self.policies.binary_search_by_key(&start, |known| known.start).ok()?;
        let policy = &self.policies[place].policy;
        (Some(policy) != usual).then(|| NumaPolicy { mode: policy.mode, nodes: policy.nodes.clone() })
    }

    /// What has been said about a mapping.
    pub(super) fn of(&self, map: &Map) -> MappingAttributes {
        let name = map.path.strip_prefix(b"[anon:").and_then(|name| name.strip_suffix(b"]")).map(Bytes::from);
        let Some(known) = self.find(map) else { return MappingAttributes { name, ..MappingAttributes::default() } };
        MappingAttributes {
            advice: ADVICE.into_iter().filter(|(flag, _)| known.has(flag)).map(|(_, advice)| advice).collect(),
            lock: match (known.has(b"lo"), known.has(b"lf")) {
                (true, true) => MemoryLock::OnFault,
                (true, false) => MemoryLock::Locked,
                (false, _) => MemoryLock::Unlocked,
            },
            protection_key: known.protection_key,
            huge_page_bytes: if map.path == super::memory::HUGE_PAGES { known.page_bytes } else { 0 },
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

/// Whether to ask for policies of NUMA nodes, which is another walk. On a machine with one node they mean nothing, but to a
/// program that asks for them: there only small ones are asked about.
fn is_worth_asking(pid: i32) -> bool {
    const SMALL_PAGES: u64 = (64 << 20) / PAGE_BYTES as u64;
    let nodes = std::fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    let statm = proc::read(pid, "statm").unwrap_or_default();
    let statm = String::from_utf8_lossy(&statm);
    let resident = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    nodes.trim() != "0" || resident.is_some_and(|pages| pages <= SMALL_PAGES)
}

/// The kernel's letters for standing advice.
const ADVICE: [(&[u8; 2], Advice); 8] = [
    (b"dc", Advice::DontFork),
    (b"wf", Advice::WipeOnFork),
    (b"dd", Advice::DontDump),
    (b"hg", Advice::HugePages),
    (b"nh", Advice::NoHugePages),
    (b"mg", Advice::Mergeable),
    (b"sr", Advice::Sequential),
    (b"rr", Advice::Random),
];

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
    fn what_was_said_stays_with_a_mapping_that_has_changed_its_size() {
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
    fn locked_memory_that_a_look_has_not_seen_makes_it_unfit() {
        let known = known("10000-20000 rw-p 00000000 00:00 0 \nVmFlags: rd lo\n");
        let maps = [map("10000-20000 rw-p 00000000 00:00 0 "), map("30000-40000 rw-p 00000000 00:00 0 ")];
        assert!(known.fits(64, &maps));
        assert!(!known.fits(128, &maps));
        assert!(!known.fits(0, &maps));
    }
}
