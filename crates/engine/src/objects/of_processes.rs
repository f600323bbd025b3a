//! Open files that stand for a process or describe one ([`OpenFile::needs_process`]): opened once all processes exist,
//! each by one process, and handed to all that hold it, so that it is one open file again.

use super::kernel_file::directory_of;
use super::opening::{FilePlan, OpenFilesPlan, Parked};
use super::{O_PATH, Opening};
use crate::EngineError;
use crate::construction::Construction;
use crate::error::kernel;
use standfast_core::Address;
use standfast_format::records::{JobState, OpenFile, OpenFileKind};
use standfast_linux::abi;
use standfast_linux::sys::socket;
use std::os::fd::{AsFd, BorrowedFd};

const SOCKET_KIND: u64 = (abi::SOCK_DGRAM | abi::SOCK_CLOEXEC) as u64;
/// Layout: `struct msghdr` and `struct iovec`, then a byte to be received, and a `struct cmsghdr` with one descriptor.
const PIECE_AT: u64 = 56;
const BYTE_AT: u64 = PIECE_AT + 16;
const CONTROL_AT: u64 = BYTE_AT + 8;
const CONTROL_BYTES: u64 = 24;
const DESCRIPTOR_AT: u64 = CONTROL_AT + 16;

/// Opens these files. Every holder parks the result. `processes` and `plans` correspond by position.
pub(crate) fn open_files_of_processes(
    processes: &[Construction],
    plans: &[OpenFilesPlan<'_>],
    parked: &mut Parked,
) -> Result<(), EngineError> {
    let Some(OpenFilesPlan { job, .. }) = plans.first() else { return Ok(()) };
    let opening = |place: usize| Opening::new(&processes[place], plans[place], parked.from);
    let mut of_processes = Vec::new();
    for (place, file) in job.open_files.iter().enumerate().filter(|(_, file)| file.needs_process()) {
        let holders = holders(job, processes.len(), place);
        let Some(first) = holders.first() else { continue };
        let opener = opener(file, processes.len()).unwrap_or(*first);
        let opened = opening(opener).open_of_process(processes, place, file)?;
        let opened = opening(opener).park(opened)?;
        let own = opening(opener).own(opened)?;
        for holder in holders {
            let number = if holder == opener { opened } else { opening(holder).receive(own.as_fd())? };
            of_processes.push(((holder, place), number));
        }
    }
    parked.of_processes.extend(of_processes);
    Ok(())
}

/// Returns the process that opens a file, if it must be a certain one: a process may always look at itself. A zombie
/// cannot open anything.
fn opener(file: &OpenFile, living: usize) -> Option<usize> {
    let OpenFileKind::KernelFile { subject: Some(subject), .. } = file.kind else { return None };
    Some(subject.process as usize).filter(|place| *place < living)
}

/// Returns the places of the `living` processes that hold an open file, each in its own table of descriptors.
fn holders(job: &JobState, living: usize, file: usize) -> Vec<usize> {
    let holds = |place: &usize| {
        let process = &job.processes[*place];
        let mut descriptors = process.descriptors.iter();
        !process.process_tree.shares_descriptors && descriptors.any(|it| it.open_file as usize == file)
    };
    (0..living).filter(holds).collect()
}

impl Opening<'_> {
    fn open_of_process(&self, processes: &[Construction], place: usize, file: &OpenFile) -> Result<u64, EngineError> {
        let OpenFileKind::KernelFile { subject: Some(subject), path, offset } = &file.kind else {
            return self.open_file(place, file, FilePlan::AsRecorded);
        };
        let path = [directory_of(self.plan.job, processes, *subject).as_bytes(), &path.0].concat();
        let opened = self.open_path(&path, file.flags)?;
        if file.flags & O_PATH == 0 { self.position(opened, *offset) } else { Ok(opened) }
    }

    /// Receives a descriptor that is sent from here, and parks it.
    fn receive(&self, sent: BorrowedFd<'_>) -> Result<u64, EngineError> {
        let failed = |source| kernel("handing a descriptor to the new process", source);
        let scratch = self.process.scratch;
        let arguments = [abi::AF_UNIX as u64, SOCKET_KIND, 0, scratch, 0, 0];
        self.call("making sockets", abi::SYS_socketpair, arguments)?;
        let [here, there] = self.two_descriptors()?;
        socket::send(self.own(there)?.as_fd(), b"!", &[], &[sent]).map_err(failed)?;
        // struct msghdr: name, its length, pieces, their number, control, its length, flags; struct iovec: base,
        // length.
        let words = [0, 0, scratch + PIECE_AT, 1, scratch + CONTROL_AT, CONTROL_BYTES, 0, scratch + BYTE_AT, 1];
        let header: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = self.process.argument(&header)?;
        self.call("taking a descriptor", abi::SYS_recvmsg, [here, header, 0, 0, 0, 0])?;
        let mut number = [0; 4];
        self.process.memory.read(Address::new(scratch + DESCRIPTOR_AT), &mut number).map_err(failed)?;
        self.close(here)?;
        self.close(there)?;
        self.park(u32::from_le_bytes(number).into())
    }
}
