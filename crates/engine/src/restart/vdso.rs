//! The kernel's own mappings (vdso, vvar) in a process under construction. They are moved to where the program knows
//! them. If this kernel's mappings differ, they stay at a place of their own. The old vdso is then ordinary memory,
//! whose functions continue in the new one.

use super::address_space::{MREMAP_MAYMOVE_FIXED, NO_FILE};
use super::plan::Plan;
use crate::construction::Construction;
use crate::error::kernel;
use crate::machine::own_vdso_code;
use crate::scratch::{PARKING_BYTES, SCRATCH_BYTES};
use crate::{Blocker, EngineError, RefusalCode};
use standfast_core::{Address, PAGE_BYTES};
use standfast_format::records::{JobState, Machine, Owner, ProcessState, SpecialMapping};
use standfast_format::{Contents, ImageSource};
use standfast_linux::abi;
use standfast_linux::proc::{Map, MapAttributes};
use standfast_linux::{Pid, Registers, vdso};

const VDSO: &[u8] = b"[vdso]";
const PROT_READ: u64 = abi::PROT_READ as u64;
const PROT_WRITE: u64 = abi::PROT_WRITE as u64;
const PROT_EXEC: u64 = abi::PROT_EXEC as u64;
const ANONYMOUS: u64 = (abi::MAP_PRIVATE | abi::MAP_ANONYMOUS | abi::MAP_FIXED_NOREPLACE) as u64;
/// How many pages are searched at a time.
const PIECE_PAGES: u64 = 256;

/// How the kernel's mappings are restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Vdso {
    /// They are unchanged, and go to their old places.
    #[default]
    Same,
    /// They differ: calls into the old ones continue in these.
    Redirected,
}

/// Decides it for a job, or returns why it is impossible.
pub(super) fn decide(job: &JobState, is: &Machine) -> Result<Vdso, Blocker> {
    let own = own_special();
    let attributes = MapAttributes::of(Pid::own()).unwrap_or_default();
    if is_sealed(&own, &attributes) {
        return Err(Blocker::new(
            RefusalCode::Kernel,
            "kernel",
            format!(
                "Linux {} here seals its own mappings in every program (vdso, CONFIG_MSEAL_SYSTEM_MAPPINGS), and a \
                 restart would have to move them",
                is.kernel_release
            ),
        )
        .with_hint("restart it under a kernel without that option"));
    }
    let shape = |mapping: &SpecialMapping| (mapping.name.0.clone(), mapping.end - mapping.start);
    let here: Vec<_> = own.iter().map(|map| (map.path.clone(), map.end - map.start)).collect();
    let living = || job.processes.iter().filter(|process| process.process_tree.wait_status.is_none());
    let same_shape = living().all(|process| process.special_mappings.iter().map(shape).eq(here.iter().cloned()));
    let was = &job.machine;
    if was.vdso == is.vdso && same_shape {
        return Ok(Vdso::Same);
    }
    let refused =
        |why: &str| {
            Blocker::new(RefusalCode::Kernel, "kernel", format!(
            "the checkpoint was taken under Linux {}, whose vdso differs from that of this kernel, {}, and {why}",
            was.kernel_release, is.kernel_release
        )).with_hint("restart it under the same kernel, or from another generation")
        };
    vdso::redirect(&was.vdso_code.0, &own_vdso_code(), 0).map_err(|why| refused(&why))?;
    for process in living() {
        let Some(old) = old_vdso(process).filter(|old| old.end - old.start == was.vdso_code.0.len() as u64) else {
            return Err(refused("a process has none of that length"));
        };
        let inside = |address: u64| (old.start..old.end).contains(&address);
        let pointer = |words: &[u64]| words.try_into().map(|words| Registers(words).instruction());
        if process.threads.iter().any(|thread| pointer(&thread.registers).is_ok_and(inside)) {
            return Err(refused("a thread was in the middle of it"));
        }
    }
    Ok(Vdso::Redirected)
}

fn old_vdso(process: &ProcessState) -> Option<&SpecialMapping> {
    process.special_mappings.iter().find(|mapping| mapping.name.0 == VDSO)
}

/// Returns those of this process: the kernel makes the same ones in all.
fn own_special() -> Vec<Map> {
    let maps = Map::of(Pid::own()).unwrap_or_default();
    maps.into_iter().filter(is_special).collect()
}

/// Reports whether any of these mappings is sealed against moving (mseal(2)).
fn is_sealed(special: &[Map], attributes: &[MapAttributes]) -> bool {
    let sealed: Vec<u64> = attributes.iter().filter(|it| it.has(b"sl")).map(|it| it.start).collect();
    special.iter().any(|map| sealed.contains(&map.start))
}

pub(super) fn is_special(map: &Map) -> bool {
    map.path == VDSO || map.path.starts_with(b"[vvar")
}

impl Construction {
    pub(super) fn place_special(&mut self, plan: &Plan<'_>) -> Result<(), EngineError> {
        let maps = Map::of(self.pid()).map_err(|source| kernel("reading the new process's mappings", source))?;
        let now: Vec<Map> = maps.into_iter().filter(is_special).collect();
        match plan.vdso {
            Vdso::Same => self.move_special(plan, now),
            Vdso::Redirected => self.redirect_special(plan, &now),
        }
    }

    /// Moves the mappings to where the program knows them, by way of a parking place, since old and new may overlap.
    fn move_special(&mut self, plan: &Plan<'_>, now: Vec<Map>) -> Result<(), EngineError> {
        let wanted = &plan.process.special_mappings;
        let lengths = |map: &Map| map.end - map.start;
        let parked_bytes: u64 = now.iter().map(lengths).sum();
        if now.len() != wanted.len() || parked_bytes > PARKING_BYTES {
            return Err(differs());
        }
        let mut parking = plan.scratch + SCRATCH_BYTES;
        let mut parked = Vec::new();
        for map in now {
            self.move_mapping(map.start, lengths(&map), parking)?;
            parked.push((map.path.clone(), parking, lengths(&map)));
            parking += lengths(&map);
        }
        for SpecialMapping { start, end, name } in wanted {
            let found = parked.iter().find(|(path, _, bytes)| *path == name.0 && *bytes == end - start);
            let (_, from, bytes) = found.ok_or_else(differs)?;
            self.move_mapping(*from, *bytes, *start)?;
        }
        Ok(())
    }

    /// Moves the mappings to the parking place, for good and with their old distances, and puts the old vdso,
    /// redirected, in its old place.
    fn redirect_special(&mut self, plan: &Plan<'_>, now: &[Map]) -> Result<(), EngineError> {
        let (Some(first), Some(last)) = (now.first(), now.last()) else { return Err(differs()) };
        if last.end - first.start > PARKING_BYTES {
            return Err(differs());
        }
        let to = |map: &Map| plan.scratch + SCRATCH_BYTES + (map.start - first.start);
        for map in now {
            self.move_mapping(map.start, map.end - map.start, to(map))?;
        }
        let base = now.iter().find(|map| map.path == VDSO).map(to).ok_or_else(differs)?;
        let old = old_vdso(plan.process).ok_or_else(differs)?;
        let code = vdso::redirect(&plan.job.machine.vdso_code.0, &own_vdso_code(), base)
            .map_err(|why| kernel("redirecting the vdso", std::io::Error::other(why)))?;
        let bytes = old.end - old.start;
        let arguments = [old.start, bytes, PROT_READ | PROT_WRITE, ANONYMOUS, NO_FILE, 0];
        self.call("mapping the old vdso", abi::SYS_mmap, arguments)?;
        self.memory.write(Address::new(old.start), &code).map_err(|source| kernel("filling the old vdso", source))?;
        let arguments = [old.start, bytes, PROT_READ | PROT_EXEC, 0, 0, 0];
        self.call("protecting the old vdso", abi::SYS_mprotect, arguments).map(drop)
    }

    fn move_mapping(&mut self, from: u64, bytes: u64, to: u64) -> Result<(), EngineError> {
        self.call("moving the vdso", abi::SYS_mremap, [from, bytes, bytes, MREMAP_MAYMOVE_FIXED, to, 0])?;
        if (from..from + bytes).contains(&self.syscall) {
            self.syscall = self.syscall - from + to;
        }
        Ok(())
    }

    /// Searches the filled memory of the process at `place` for signal frames that return into the middle of a vdso
    /// that has changed.
    pub(super) fn refuse_frames_in_vdso(
        &self,
        plan: &Plan<'_>,
        place: usize,
        source: &dyn ImageSource,
    ) -> Result<(), EngineError> {
        let Some(old) = old_vdso(plan.process).filter(|_| plan.vdso == Vdso::Redirected) else { return Ok(()) };
        let of_process = |owner: u32| plan.job.owner(owner) == Some(Owner::Process(place));
        let mut bytes = vec![0u8; PIECE_PAGES as usize * PAGE_BYTES];
        for run in source.runs().iter().filter(|run| run.contents == Contents::Stored && of_process(run.owner)) {
            let mut rest = run.range;
            while rest.pages() > 0 {
                let (piece, tail) = rest.split_at(PIECE_PAGES);
                let bytes = &mut bytes[..piece.bytes() as usize];
                self.memory
                    .read(piece.start(), bytes)
                    .map_err(|source| kernel("looking for signal handlers", source))?;
                if has_frame(bytes, old) {
                    return Err(EngineError::Refused(vec![
                        Blocker::new(
                            RefusalCode::Kernel,
                            "kernel",
                            "a signal handler interrupted code of the kernel (vdso) that differs here",
                        )
                        .with_hint("restart it under the same kernel, or from another generation"),
                    ]));
                }
                rest = tail;
            }
        }
        Ok(())
    }
}

/// Reports whether there is a saved instruction pointer into `old`: in a signal frame, flags and the code segment
/// follow it.
fn has_frame(bytes: &[u8], old: &SpecialMapping) -> bool {
    const CODE_SEGMENT: u64 = 0x33;
    let (words, _) = bytes.as_chunks::<8>();
    words.windows(3).any(|window| {
        let [pointer, _, segments] = [0, 1, 2].map(|place| u64::from_le_bytes(window[place]));
        (old.start..old.end).contains(&pointer) && segments & 0xffff == CODE_SEGMENT
    })
}

fn differs() -> EngineError {
    let reason = "the kernel's own mappings (vdso, vvar) are not what they should be";
    kernel("moving the vdso", std::io::Error::other(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_vdso_is_recognised() {
        let maps = b"7000-8000 r-xp 00000000 00:00 0 [vdso]\n9000-a000 rw-p 00000000 00:00 0\n";
        let special: Vec<Map> = Map::parse(maps).unwrap().into_iter().filter(is_special).collect();
        for (flags, other, sealed) in [("rd ex", "rd wr sl", false), ("rd ex sl", "rd wr", true)] {
            let shown = format!(
                "7000-8000 r-xp 00000000 00:00 0 [vdso]\nVmFlags: {flags} \n9000-a000 rw-p 00000000 00:00 0\nVmFlags: {other} \n"
            );
            assert_eq!(is_sealed(&special, &MapAttributes::parse(shown.as_bytes()).unwrap()), sealed, "{flags}");
        }
        assert_eq!(special.len(), 1);
    }

    #[test]
    fn frames_that_return_into_the_old_vdso_are_found() {
        let old = SpecialMapping { start: 0x7000_0000, end: 0x7000_2000, name: VDSO.into() };
        let bytes = |words: [u64; 4]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        assert!(has_frame(&bytes([1, 0x7000_0b10, 0x246, 0x2b_0000_0000_0033]), &old));
        assert!(!has_frame(&bytes([1, 0x7000_0b10, 0x246, 0]), &old), "a pointer to a function");
        assert!(!has_frame(&bytes([1, 0x6000_0b10, 0x246, 0x33]), &old), "a frame elsewhere");
    }
}
