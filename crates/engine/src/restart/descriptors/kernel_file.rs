//! Files of `/proc` that tell of processes and threads of the job: opened when these are there, each by the process that it
//! tells of, which may always do so, and handed to the others that hold it, so that it is one open file again.

use super::{Opening, Parked};
use crate::EngineError;
use crate::error::kernel;
use crate::restart::family::Family;
use crate::restart::plan::{JobPlan, Plan};
use standfast_core::Address;
use standfast_format::records::{OpenFileKind, ProcSubject};
use standfast_linux::sys::socket;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

const SOCKET_KIND: u64 = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
const O_PATH: u32 = libc::O_PATH as u32;
/// `struct msghdr` and `struct iovec`; then a byte to be received, and a `struct cmsghdr` with one descriptor.
const PIECE_AT: u64 = 56;
const BYTE_AT: u64 = PIECE_AT + 16;
const CONTROL_AT: u64 = BYTE_AT + 8;
const CONTROL_BYTES: u64 = 24;
const DESCRIPTOR_AT: u64 = CONTROL_AT + 16;

impl Family {
    /// Opens them all, and parks them in the processes that hold them.
    pub(in crate::restart) fn open_files_of_processes(
        &self,
        plan: &JobPlan<'_>,
        parked: &mut Parked,
    ) -> Result<(), EngineError> {
        let plans: Vec<Plan<'_>> = (0..self.processes.len()).map(|place| plan.of(place)).collect();
        let opening = |place: usize| Opening::new(&self.processes[place], &plans[place], parked.from);
        let mut of_processes = BTreeMap::new();
        for (place, file) in plan.job.open_files.iter().enumerate() {
            let OpenFileKind::KernelFile { subject: Some(subject), path, offset } = &file.kind else { continue };
            let holders = self.holders(plan, place);
            let Some(first) = holders.first() else { continue };
            // A zombie opens nothing.
            let about = subject.process as usize;
            let opener = if about < self.processes.len() { about } else { *first };
            let path = [self.directory_of(plan, *subject).as_bytes(), &path.0].concat();
            let mut opened = opening(opener).open_path(&path, file.flags)?;
            if file.flags & O_PATH == 0 {
                opened = opening(opener).position(opened, *offset)?;
            }
            let opened = opening(opener).park(opened)?;
            let own = opening(opener).own(opened)?;
            for holder in holders {
                let number = if holder == opener { opened } else { opening(holder).receive(own.as_fd())? };
                of_processes.insert((holder, place), number);
            }
        }
        parked.of_processes = of_processes;
        Ok(())
    }

    /// The places of the processes that hold an open file, each in a table of descriptors of its own.
    fn holders(&self, plan: &JobPlan<'_>, file: usize) -> Vec<usize> {
        let holds = |place: &usize| {
            let process = &plan.job.processes[*place];
            let mut descriptors = process.descriptors.iter();
            !process.process_tree.shares_descriptors && descriptors.any(|it| it.open_file as usize == file)
        };
        (0..self.processes.len()).filter(holds).collect()
    }

    /// What `/proc` has about a subject, as the job sees it.
    fn directory_of(&self, plan: &JobPlan<'_>, subject: ProcSubject) -> String {
        let recorded = &plan.job.processes[subject.process as usize];
        let made = self.processes.get(subject.process as usize);
        let pid = made.map_or(recorded.pid, |process| process.inner_ids[0]);
        let Some(tid) = subject.thread else { return format!("/proc/{pid}/") };
        let thread = recorded.threads.iter().position(|thread| thread.tid == tid);
        let tid = made.zip(thread).map_or(tid, |(process, thread)| process.inner_ids[thread]);
        format!("/proc/{pid}/task/{tid}/")
    }
}

impl Opening<'_> {
    /// Takes a descriptor that is sent from here, and parks it.
    fn receive(&self, sent: BorrowedFd<'_>) -> Result<u64, EngineError> {
        let failed = |source| kernel("handing a descriptor to the new process", source);
        let scratch = self.process.scratch;
        let arguments = [libc::AF_UNIX as u64, SOCKET_KIND, 0, scratch, 0, 0];
        self.call("making sockets", libc::SYS_socketpair, arguments)?;
        let [here, there] = self.two_descriptors()?;
        socket::send(self.own(there)?.as_fd(), b"!", &[], &[sent]).map_err(failed)?;
        // struct msghdr: name, its length, pieces, their number, control, its length, flags; struct iovec: base, length.
        let words = [0, 0, scratch + PIECE_AT, 1, scratch + CONTROL_AT, CONTROL_BYTES, 0, scratch + BYTE_AT, 1];
        let header: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let header = self.process.argument(&header)?;
        self.call("taking a descriptor", libc::SYS_recvmsg, [here, header, 0, 0, 0, 0])?;
        let mut number = [0; 4];
        self.process.memory.read(Address::new(scratch + DESCRIPTOR_AT), &mut number).map_err(failed)?;
        self.close(here)?;
        self.close(there)?;
        self.park(u32::from_le_bytes(number).into())
    }
}
