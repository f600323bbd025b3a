//! Which program a process executes. Its pid and start time stay the same over execve(2), which replaces all of its
//! memory. Then what the program said about that memory, and what an image holds of it, no longer counts.
//!
//! The kernel does not report a past execve. But it gives each program 16 random bytes below its stack (`AT_RANDOM`), at
//! a random address. Together with the rest of the auxiliary vector (the addresses of the program and its interpreter)
//! and the start of the stack, they distinguish one program from the next. A program that overwrites them, as Go
//! programs do when they begin, looks like another program once, and is saved completely.

use crate::ProcessIdentity;
use standfast_core::{Address, Checksum};
use standfast_linux::proc::{self, Stat};
use standfast_linux::{Pid, ProcessMemory};

/// The entry of the auxiliary vector with the address of the 16 random bytes.
const AT_RANDOM: u64 = 25;
const RANDOM_BYTES: usize = 16;
/// Size of an entry: its kind, and its value.
const ENTRY_BYTES: usize = 16;
/// Place of `start_stack` in [`Stat::layout`].
const START_OF_STACK: usize = 2;

/// A process, for as long as it executes one program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramIdentity {
    process: ProcessIdentity,
    /// What the kernel gave the program at its start; `None` if that is unknown.
    start: Option<Checksum>,
}

impl ProgramIdentity {
    /// Returns the program that a process executes now.
    pub(crate) fn of(process: ProcessIdentity, memory: &ProcessMemory) -> Self {
        Self { process, start: start_of(process.pid, memory) }
    }

    /// Returns a process whose program need not be known, since it has said nothing about its memory.
    pub(crate) fn unknown(process: ProcessIdentity) -> Self {
        Self { process, start: None }
    }

    #[cfg(test)]
    pub(crate) const fn with_start(name: &[u8; 5]) -> Self {
        let mut start = [0; 16];
        start.split_at_mut(5).0.copy_from_slice(name);
        let process = ProcessIdentity { pid: Pid::new(1), start_time: 1 };
        Self { process, start: Some(Checksum::from_bytes(start)) }
    }

    /// Returns the process, whatever it executes.
    pub(crate) fn process(&self) -> ProcessIdentity {
        self.process
    }

    /// Reports whether this is certainly the same program.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.process == other.process && self.start.is_some() && self.start == other.start
    }
}

fn start_of(pid: Pid, memory: &ProcessMemory) -> Option<Checksum> {
    let mut start = proc::read(pid, "auxv").ok()?;
    let mut random = [0; RANDOM_BYTES];
    memory.read(Address::new(random_bytes_at(&start)?), &mut random).ok()?;
    start.extend(random);
    start.extend(Stat::of(pid).ok()?.layout[START_OF_STACK].to_le_bytes());
    Some(Checksum::of(&start))
}

/// Returns where the random bytes are, according to an auxiliary vector.
fn random_bytes_at(vector: &[u8]) -> Option<u64> {
    let (entries, _) = vector.as_chunks::<ENTRY_BYTES>();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    entries.iter().find(|entry| word(&entry[..8]) == AT_RANDOM).map(|entry| word(&entry[8..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    /// Starts a shell that executes another one on request, both without randomised addresses if that is allowed.
    fn two_programs_in_turn() -> Child {
        let mut shell = Command::new("setarch");
        shell.args(["--addr-no-randomize", "sh", "-c", "echo 1; read go; exec sh -c 'echo 2; read go'"]);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).spawn().unwrap()
    }

    #[test]
    fn a_program_keeps_its_identity_until_execve() {
        let mut child = two_programs_in_turn();
        let pid = Pid::new(child.id() as i32);
        let scan = || ProgramIdentity::of(ProcessIdentity::of(pid).unwrap(), &ProcessMemory::open(pid).unwrap());
        let mut said = [0; 2];
        let mut output = child.stdout.take().unwrap();
        let mut input = child.stdin.take().unwrap();
        output.read_exact(&mut said).unwrap();
        let (first, again) = (scan(), scan());
        std::io::Write::write_all(&mut input, b"go\n").unwrap();
        output.read_exact(&mut said).unwrap();
        let second = scan();
        drop(input);
        child.wait().unwrap();
        assert!(first.is(&again) && first.process() == second.process());
        assert!(!first.is(&second));
    }

    #[test]
    fn an_unknown_program_identity_equals_nothing() {
        let unknown = ProgramIdentity::unknown(ProcessIdentity { pid: Pid::new(1), start_time: 1 });
        assert!(!unknown.is(&unknown));
    }

    #[test]
    fn at_random_is_found_in_the_auxiliary_vector() {
        let entry = |key: u64, value: u64| [key.to_le_bytes(), value.to_le_bytes()].concat();
        assert_eq!(random_bytes_at(&[entry(3, 25), entry(25, 0x7ffd_1234), entry(0, 0)].concat()), Some(0x7ffd_1234));
        assert_eq!(random_bytes_at(&entry(3, 25)), None);
        assert_eq!(random_bytes_at(&[25; 7]), None);
    }
}
