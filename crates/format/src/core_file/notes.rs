//! The notes of a core file, in the layout of Linux on x86-64 (`include/linux/elfcore.h`, `include/uapi/linux/elf.h`).
//!
//! | note | owner | contents |
//! |---|---|---|
//! | `NT_PRSTATUS` | CORE | ids, signals and general registers of a thread; the main thread is first |
//! | `NT_PRPSINFO` | CORE | the process: state, user, ids, name, arguments |
//! | `NT_AUXV` | CORE | the auxiliary vector, which leads a debugger to a relocated executable |
//! | `NT_FILE` | CORE | which file lies at which addresses |
//! | `NT_FPREGSET` | CORE | the first 512 bytes of a thread's XSAVE area |
//! | `NT_X86_XSTATE` | LINUX | all of that area |
//!
//! There is no `NT_SIGINFO`: no signal has ended the process.

use super::elf::add_note;
use super::plan::{FilesNow, NoCoreFile};
use crate::records::{Advice, Backing, JobState, Mapping, ObjectKind, PendingSignal, ProcessState, ThreadState};
use standfast_core::PAGE_BYTES;

const PRSTATUS: u32 = 1;
const FPREGSET: u32 = 2;
const PRPSINFO: u32 = 3;
const AUXV: u32 = 6;
const FILE: u32 = 0x4649_4c45;
const X86_XSTATE: u32 = 0x202;
const CORE: &str = "CORE";
const LINUX: &str = "LINUX";

const PRSTATUS_BYTES: usize = 336;
const PRPSINFO_BYTES: usize = 136;
/// `struct user_regs_struct` in words.
const REGISTERS: usize = 27;
/// The legacy part of an XSAVE area.
const FPREGSET_BYTES: usize = 512;
const NAME_BYTES: usize = 16;
const ARGUMENTS_BYTES: usize = 80;

/// Entries of the auxiliary vector: the user and the group that executed the program.
const AT_UID: u64 = 11;
const AT_GID: u64 = 13;

/// States as the kernel numbers and names them.
const RUNNING: [u8; 2] = [0, b'R'];
const STOPPED: [u8; 2] = [3, b'T'];

/// Returns the notes of a process.
pub(super) fn notes(job: &JobState, process: &ProcessState, files: &FilesNow<'_>) -> Result<Vec<u8>, NoCoreFile> {
    let (main, others) = process.threads.split_first().ok_or(NoCoreFile::Ended)?;
    let mut notes = Vec::new();
    let ids = ids(job, process);
    add_note(&mut notes, CORE, PRSTATUS, &thread_status(process, main, ids)?);
    add_note(&mut notes, CORE, PRPSINFO, &process_information(process, main, ids));
    add_note(&mut notes, CORE, AUXV, &process.layout.auxiliary_vector.0);
    add_note(&mut notes, CORE, FILE, &mapped_files(job, process, files));
    add_extended_registers(&mut notes, main);
    for thread in others {
        add_note(&mut notes, CORE, PRSTATUS, &thread_status(process, thread, ids)?);
        add_extended_registers(&mut notes, thread);
    }
    Ok(notes)
}

/// Returns parent, process group and session. One outside the job is unknown: 0.
fn ids(job: &JobState, process: &ProcessState) -> [i32; 3] {
    let tree = &process.process_tree;
    let parent = tree.parent.and_then(|parent| job.processes.get(parent as usize));
    [parent.map_or(0, |parent| parent.pid), tree.process_group, tree.session]
}

fn thread_status(process: &ProcessState, thread: &ThreadState, ids: [i32; 3]) -> Result<Vec<u8>, NoCoreFile> {
    if thread.registers.len() != REGISTERS {
        return Err(NoCoreFile::Senseless("a thread has other registers than those of x86-64"));
    }
    let pending = signal_set(&process.pending) | signal_set(&thread.pending);
    // No signal has ended it: number, code and error are 0.
    let mut status = vec![0; 16];
    status.extend([pending, thread.signal_mask].map(u64::to_le_bytes).concat());
    status.extend(thread.tid.to_le_bytes());
    status.extend(ids.map(i32::to_le_bytes).concat());
    // Times of the processor are not recorded: four times of 16 bytes.
    status.extend([0; 64]);
    status.extend(thread.registers.iter().flat_map(|register| register.to_le_bytes()));
    status.extend(u32::from(has_extended_registers(thread)).to_le_bytes());
    status.resize(PRSTATUS_BYTES, 0);
    Ok(status)
}

fn signal_set(pending: &[PendingSignal]) -> u64 {
    let numbers = pending.iter().map(|pending| u32::from(pending.signal)).filter(|number| (1..=64).contains(number));
    numbers.fold(0, |set, number| set | 1 << (number - 1))
}

fn process_information(process: &ProcessState, main: &ThreadState, ids: [i32; 3]) -> Vec<u8> {
    let state = if process.process_tree.stopped_by.is_some() { STOPPED } else { RUNNING };
    let mut information = state.to_vec();
    // Not a zombie.
    information.push(0);
    information.extend((main.scheduling.nice as i8).to_le_bytes());
    // Padding, and flags of the kernel's own.
    information.extend([0; 12]);
    information.extend([AT_UID, AT_GID].map(|key| auxiliary(process, key) as u32).map(u32::to_le_bytes).concat());
    information.extend(process.pid.to_le_bytes());
    information.extend(ids.map(i32::to_le_bytes).concat());
    let arguments = process.arguments.iter().map(|argument| &argument.0[..]).collect::<Vec<_>>().join(&b' ');
    for (text, bytes) in [(&main.name.0, NAME_BYTES), (&arguments, ARGUMENTS_BYTES)] {
        let end = information.len() + bytes;
        information.extend(&text[..text.len().min(bytes - 1)]);
        information.resize(end, 0);
    }
    assert_eq!(information.len(), PRPSINFO_BYTES);
    information
}

/// Returns an entry of the auxiliary vector, or 0 if there is none.
fn auxiliary(process: &ProcessState, key: u64) -> u64 {
    let (entries, _) = process.layout.auxiliary_vector.0.as_chunks::<16>();
    let word =
        |entry: &[u8; 16], at: usize| u64::from_le_bytes(*entry[at..].first_chunk().expect("an entry is two words"));
    entries.iter().find(|entry| word(entry, 0) == key).map_or(0, |entry| word(entry, 8))
}

/// Returns the number of mappings of files, the unit of their offsets, then start, end and offset of each, then their
/// paths. Memory objects without a path are left out, since a debugger would look for files of their names. So is what
/// the program has excluded, since a debugger would show pages of the file that the program may have changed, and a file
/// whose contents are nowhere.
fn mapped_files(job: &JobState, process: &ProcessState, files: &FilesNow<'_>) -> Vec<u8> {
    let mut table = Vec::new();
    let mut paths = Vec::new();
    let mut count = 0u64;
    let is_excluded = |mapping: &&Mapping| mapping.attributes.advice.contains(&Advice::DontDump);
    for mapping in process.mappings.iter().filter(|mapping| !is_excluded(mapping)) {
        let (path, offset) = match &mapping.backing {
            Backing::PrivateFile { file, offset } | Backing::SharedFileReadOnly { file, offset } => {
                (files(file).path, offset)
            }
            Backing::SharedObject { object, offset } => match job.objects.get(*object as usize).map(|it| &it.kind) {
                Some(ObjectKind::MappedFile { file, .. }) => (Some(file.path.clone()), offset),
                _ => continue,
            },
            Backing::Anonymous | Backing::PrivateObject { .. } => continue,
        };
        let Some(path) = path else { continue };
        count += 1;
        table.extend([mapping.start, mapping.end, offset / PAGE_BYTES as u64].map(u64::to_le_bytes).concat());
        // A zero byte ends a path.
        paths.extend(path.0.iter().filter(|byte| **byte != 0));
        paths.push(0);
    }
    [[count, PAGE_BYTES as u64].map(u64::to_le_bytes).concat(), table, paths].concat()
}

fn has_extended_registers(thread: &ThreadState) -> bool {
    thread.extended_registers.0.len() >= FPREGSET_BYTES
}

fn add_extended_registers(notes: &mut Vec<u8>, thread: &ThreadState) {
    if has_extended_registers(thread) {
        let area = &thread.extended_registers.0;
        add_note(notes, CORE, FPREGSET, &area[..FPREGSET_BYTES]);
        add_note(notes, LINUX, X86_XSTATE, area);
    }
}
