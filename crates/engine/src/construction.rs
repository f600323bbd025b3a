//! A process under construction: held, seized, executing the right program, and controlled by us.
//!
//! This file makes it perform system calls, which is all that the objects of a job need; `restart` makes it and ends it.
//!
//! It is tied to us twice: the kernel kills it when its tracer ends (`PTRACE_O_EXITKILL`), and the init of its
//! namespaces ends when our end of their channel closes. The commit cuts both ties.

use crate::EngineError;
use crate::error::kernel;
use crate::scratch::SCRATCH_BYTES;
use crate::waits::Waits;
use standfast_core::Address;
use standfast_linux::abi;
use standfast_linux::sys::process;
use standfast_linux::{
    Answer, DescriptorPassage, NamespaceInit, Pid, ProcessMemory, Registers, Stop, Task, TaskError, Tid,
};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SIGNAL_SET_BYTES: u64 = 8;
/// Permissions that the owner of a file needs to open it in any mode.
const OWNER_USES: u32 = 0o600;

/// Which ids a restarted job has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobIds {
    /// Its old ones, in a pid namespace of its own.
    Old {
        /// Whether that took a user namespace, in which other users' files have no known owner.
        of_user: bool,
    },
    /// New ones.
    New {
        /// Why it could not have the old ones; `None` if they were not requested.
        reason: Option<String>,
    },
}

/// A memory object under construction.
#[derive(Debug)]
pub(crate) struct Object {
    /// Its descriptor in every new process.
    pub(crate) descriptor: u64,
    /// An open file of ours. It is closed before the program runs, since a file that is open for writing cannot be
    /// executed.
    pub(crate) own: Arc<File>,
    /// The offset at which the object begins in that file.
    pub(crate) base: u64,
    pub(crate) length: u64,
}

/// A process under construction.
#[derive(Debug)]
pub(crate) struct Construction {
    /// Its main thread first.
    pub(crate) tasks: Vec<Task>,
    /// The main thread's registers for injected calls.
    pub(crate) base: Registers,
    /// Address of a `syscall` instruction in its vdso, wherever that is at the moment.
    pub(crate) syscall: u64,
    pub(crate) memory: ProcessMemory,
    /// The init of the job's namespaces.
    pub(crate) init: Option<Arc<NamespaceInit>>,
    /// The ids under which it will run.
    pub(crate) ids: JobIds,
    /// Addresses of the scratch memory.
    pub(crate) scratch: u64,
    /// The memory objects of the job, in the order of the image.
    pub(crate) objects: Arc<Vec<Object>>,
    /// The ids of its threads, as it sees them itself.
    pub(crate) inner_ids: Vec<Tid>,
    /// Notes on what it will lack.
    pub(crate) notes: Vec<String>,
    /// The fields of the record that some of these notes are about.
    pub(crate) lacking: BTreeSet<&'static str>,
    /// The waits with which its threads continue.
    pub(crate) waits: Waits,
}

impl Construction {
    /// Returns a process that has only a main thread so far.
    pub(crate) fn of(task: Task, scratch: u64, ids: JobIds) -> Result<Self, EngineError> {
        let memory = ProcessMemory::open(task.process()).map_err(|source| kernel("opening the new process", source))?;
        Ok(Self {
            base: task.registers().map_err(building)?,
            tasks: vec![task],
            syscall: 0,
            memory,
            init: None,
            ids,
            scratch,
            objects: Arc::default(),
            inner_ids: Vec::new(),
            notes: Vec::new(),
            lacking: BTreeSet::new(),
            waits: Waits::default(),
        })
    }

    /// Notes that the process will lack something that the record has in this field.
    pub(crate) fn lack(&mut self, field: &'static str, note: String) {
        self.lacking.insert(field);
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes that the process will lack something: the field of the record, and what that is to people.
    pub(crate) fn go_without(&mut self, field: &'static str, what: &str, error: &dyn std::fmt::Display) {
        self.lack(field, format!("the program continues without its {what}, which is not permitted here ({error})"));
    }

    /// Makes a child of this process, whose memory holds only the scratch so far. It is stopped, in the same state.
    /// `flags` are those of clone(2), with the signal that reports its end. `id` is its pid as the two see it; if it is
    /// `None`, the kernel chooses one.
    pub(crate) fn fork(&self, flags: i32, id: Option<i32>) -> Result<Self, EngineError> {
        if let (Some(init), Some(id)) = (&self.init, id) {
            init.choose_next_id(id).map_err(|source| kernel("choosing a process id", source))?;
        }
        let flags = flags as u64;
        let answer = self.ask(self.main(), &self.base, "making a process", abi::SYS_clone, [flags, 0, 0, 0, 0, 0])?;
        let failed = |reason: String| kernel("making a process", std::io::Error::other(reason));
        let main = answer.new_task.ok_or_else(|| failed("the kernel did not attach it".to_owned()))?;
        let task = Task::attached_by_clone(main.as_process(), main);
        match task.wait().map_err(building)? {
            Stop::Asked => {}
            stop => return Err(failed(format!("unexpected stop {stop:?}"))),
        }
        if let Some(id) = id.filter(|id| i64::from(*id) != answer.result) {
            end_processes(&[main.as_process()], &[], None);
            return Err(failed(format!("it got the id {} instead of {id}", answer.result)));
        }
        let child = Self::of(task, self.scratch, self.ids.clone())?;
        let (init, objects) = (self.init.clone(), Arc::clone(&self.objects));
        Ok(Self { syscall: self.syscall, init, objects, ..child })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.main().process()
    }

    pub(crate) fn main(&self) -> &Task {
        &self.tasks[0]
    }

    /// Makes the main thread execute a system call; returns an error if the kernel does.
    pub(crate) fn call(&self, action: &str, number: i64, arguments: [u64; 6]) -> Result<u64, EngineError> {
        self.call_in(self.main(), &self.base, action, number, arguments)
    }

    /// Does the same with any thread.
    pub(crate) fn call_in(
        &self,
        task: &Task,
        base: &Registers,
        action: &str,
        number: i64,
        arguments: [u64; 6],
    ) -> Result<u64, EngineError> {
        self.ask(task, base, action, number, arguments).map(|answer| answer.result as u64)
    }

    /// Does the same, and also returns the new task that the call may have made.
    pub(crate) fn ask(
        &self,
        task: &Task,
        base: &Registers,
        action: &str,
        number: i64,
        arguments: [u64; 6],
    ) -> Result<Answer, EngineError> {
        let answer = task.call(base, self.syscall, number, arguments).map_err(building)?;
        if (-4095..0).contains(&answer.result) {
            return Err(kernel(action, std::io::Error::from_raw_os_error(-answer.result as i32)));
        }
        Ok(answer)
    }

    /// Puts an argument of an injected call into the scratch memory; returns its address.
    pub(crate) fn argument(&self, bytes: &[u8]) -> Result<u64, EngineError> {
        assert!(bytes.len() as u64 <= SCRATCH_BYTES, "arguments fit the scratch memory");
        let writing = |source| kernel("writing into the new process", source);
        self.memory.write(Address::new(self.scratch), bytes).map_err(writing)?;
        Ok(self.scratch)
    }

    /// Puts a path into the scratch memory as an argument of an injected call; returns its address.
    pub(crate) fn path_argument(&self, path: &[u8]) -> Result<u64, EngineError> {
        self.argument(&[path, b"\0"].concat())
    }

    /// Opens a file by its path, even if its owner, which is our user, has removed his own permissions since it was
    /// opened.
    pub(crate) fn open(&self, action: &str, path: &[u8], flags: u32) -> Result<u64, EngineError> {
        let open = || self.call(action, abi::SYS_open, [self.path_argument(path)?, flags.into(), 0, 0, 0, 0]);
        let denied = match open() {
            Err(EngineError::Kernel { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => source,
            opened => return opened,
        };
        let file = &self.as_we_reach(path);
        let changing = |source| kernel(action, source);
        let rights = match std::fs::metadata(file) {
            Ok(found) if found.uid() == process::effective_user() && !found.is_dir() => found.permissions(),
            _ => return Err(changing(denied)),
        };
        let more = Permissions::from_mode(rights.mode() | OWNER_USES);
        std::fs::set_permissions(file, more).map_err(changing)?;
        let opened = open();
        std::fs::set_permissions(file, rights).map_err(changing)?;
        opened
    }

    /// Returns a path by which we reach what `path` means to the process.
    fn as_we_reach(&self, path: &[u8]) -> PathBuf {
        let own = path.strip_prefix(b"/proc/self/").map(OsStr::from_bytes);
        own.map_or_else(
            || OsStr::from_bytes(path).into(),
            |rest| Path::new("/proc").join(self.pid().to_string()).join(rest),
        )
    }

    /// Returns our own copy of one of its descriptors, as long as it has its scratch memory.
    pub(crate) fn copy_of(&self, descriptor: u64) -> Result<OwnedFd, EngineError> {
        if DescriptorPassage::is_needed() {
            return self.passed(descriptor);
        }
        let process = process::pidfd_open(self.pid()).map_err(taking)?;
        process::pidfd_getfd(process.as_fd(), descriptor as i32).map_err(taking)
    }

    /// Makes it send the descriptor to us. The end of the scratch memory holds the message: its beginning may be in use.
    fn passed(&self, descriptor: u64) -> Result<OwnedFd, EngineError> {
        let passage = DescriptorPassage::open().map_err(taking)?;
        let at = Address::new(self.scratch + SCRATCH_BYTES - DescriptorPassage::BYTES_MAX as u64);
        self.memory.write(at, &passage.message(at, &[descriptor as i32])).map_err(taking)?;
        let [make, ..] = DescriptorPassage::calls(at, 0);
        let socket = self.call("making a socket", make.number, make.arguments)?;
        let [_, send, close] = DescriptorPassage::calls(at, socket as i32);
        self.call("passing a descriptor", send.number, send.arguments)?;
        self.call("closing a socket", close.number, close.arguments)?;
        let received = passage.receive().map_err(taking)?.pop();
        received.ok_or_else(|| taking(std::io::Error::other("the message carries no descriptor")))
    }

    /// Reaps a child that has ended.
    pub(crate) fn forget_child(&self, id: i32) -> Result<(), EngineError> {
        let arguments = [id as u64, 0, abi::__WALL as u64, 0, 0, 0];
        self.call("reaping a stand-in", abi::SYS_wait4, arguments)?;
        self.forget_signals()
    }

    /// Discards the signals that building has caused; the signals for the program are queued later.
    pub(crate) fn forget_signals(&self) -> Result<(), EngineError> {
        // The set of signals, then a time limit of zero.
        let mut bytes = u64::MAX.to_le_bytes().to_vec();
        bytes.extend([0; 16]);
        let at = self.argument(&bytes)?;
        let arguments = [at, 0, at + 8, SIGNAL_SET_BYTES, 0, 0];
        loop {
            match self.call("taking a signal", abi::SYS_rt_sigtimedwait, arguments) {
                Ok(_) => {}
                Err(EngineError::Kernel { source, .. }) if source.kind() == std::io::ErrorKind::WouldBlock => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Ends processes under construction, and their namespaces with everything in them.
pub(crate) fn end_processes(pids: &[Pid], other_threads: &[Tid], init: Option<Arc<NamespaceInit>>) {
    // Errors mean that it is already gone.
    pids.iter().for_each(|pid| drop(process::kill(*pid, abi::SIGKILL)));
    let main_threads = pids.iter().map(|pid| pid.main_thread());
    for tid in other_threads.iter().copied().chain(main_threads) {
        while process::wait(tid, 0).is_ok_and(|status| status.is_some_and(|status| status & 0xff == 0x7f)) {}
    }
    if let Some(init) = init.and_then(Arc::into_inner) {
        // The init of a namespace cannot end before every process in it has been reaped, and we are the tracer of all.
        let _ = process::kill(init.pid(), abi::SIGKILL);
        while process::wait_for_any().is_ok_and(|tid| tid != init.pid().main_thread()) {}
        init.destroy();
    }
}

fn taking(source: std::io::Error) -> EngineError {
    kernel("sharing a descriptor with the new process", source)
}

pub(crate) fn building(error: TaskError) -> EngineError {
    match error {
        TaskError::Kernel { action, source, .. } => kernel(&format!("{action} of the new process"), source),
        TaskError::Ended { .. } | TaskError::TimedOut { .. } => kernel(
            "building the new process",
            std::io::Error::other("another program killed it; restart the job once more"),
        ),
    }
}
