//! What `/proc` reports about a process as a whole, read once for all parts of a collection; and about ourselves, from
//! whom the job has what it was started with.

use crate::error::kernel;
use crate::objects::{
    ProcessSwitchesBaseline, SchedulingBaseline, ShownProcess, changed_capabilities, resource_limits,
};
use crate::{EngineError, ProcessIdentity};
use standfast_format::records::{Bytes, CapabilitySets, Limit};
use standfast_linux::Pid;
use standfast_linux::proc::{self, Capabilities, Stat, Status};
use standfast_linux::sys::process;
use std::io;

/// The names of the namespaces of a process in `/proc/PID/ns`.
pub(super) const NAMESPACES: [&str; 8] = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];
/// The places of some of them.
pub(super) const PID: usize = 4;
pub(super) const TIME: usize = 5;
const USER: usize = 6;

/// A process as `/proc` shows it.
#[derive(Debug)]
pub(super) struct ProcessSnapshot {
    pub(super) stat: Stat,
    pub(super) status: Status,
    /// The path of its executable, as the kernel shows it.
    pub(super) executable: Vec<u8>,
    pub(super) namespaces_and_credentials: NamespacesAndCredentials,
}

impl ProcessSnapshot {
    pub(super) fn of(pid: Pid) -> io::Result<Self> {
        Ok(Self {
            stat: Stat::of(pid)?,
            status: Status::of(pid)?,
            executable: proc::link(pid, "exe")?,
            namespaces_and_credentials: NamespacesAndCredentials::of(pid)?,
        })
    }

    /// Returns as much of it as the process tree depends on.
    pub(super) fn shown(&self) -> ShownProcess<'_> {
        ShownProcess { stat: &self.stat, status: &self.status }
    }

    pub(super) fn identity(&self, pid: Pid) -> ProcessIdentity {
        ProcessIdentity { pid, start_time: self.stat.start_time }
    }
}

/// The context in which a process lives.
#[derive(Debug)]
pub(super) struct NamespacesAndCredentials {
    /// In the order of [`NAMESPACES`]; `None` if the kernel lacks a kind.
    pub(super) namespaces: [Option<Vec<u8>>; NAMESPACES.len()],
    /// The time namespace of its children.
    pub(super) time_of_children: Option<Vec<u8>>,
    pub(super) root: Option<Vec<u8>>,
}

impl NamespacesAndCredentials {
    /// # Errors
    /// If the process may not be inspected.
    pub(super) fn of(pid: Pid) -> io::Result<Self> {
        let namespace = |name: &str| proc::link(pid, &format!("ns/{name}"));
        let user = namespace(NAMESPACES[USER])?;
        let mut namespaces = NAMESPACES.map(|name| if name == NAMESPACES[USER] { None } else { namespace(name).ok() });
        namespaces[USER] = Some(user);
        Ok(Self {
            namespaces,
            time_of_children: namespace("time_for_children").ok(),
            root: proc::link(pid, "root").ok(),
        })
    }

    pub(super) fn user_namespace(&self) -> Option<&[u8]> {
        self.namespaces[USER].as_deref()
    }
}

/// Other attributes of a process that go into its record and are never blockers.
#[derive(Debug)]
pub(super) struct ProcessAttributes {
    pub(super) arguments: Vec<Bytes>,
    pub(super) working_directory: Bytes,
    pub(super) personality: u32,
    pub(super) limits: Vec<Limit>,
    pub(super) auxiliary_vector: Bytes,
}

impl ProcessAttributes {
    pub(super) fn of(pid: Pid) -> io::Result<Self> {
        let arguments = proc::read(pid, "cmdline")?;
        let arguments = arguments.strip_suffix(b"\0").unwrap_or(&arguments);
        Ok(Self {
            arguments: arguments.split(|byte| *byte == 0).map(Bytes::from).collect(),
            working_directory: proc::link(pid, "cwd")?.into(),
            personality: proc::personality(pid)?,
            limits: resource_limits(pid)?,
            auxiliary_vector: proc::read(pid, "auxv")?.into(),
        })
    }
}

/// This process.
#[derive(Debug)]
pub(super) struct SupervisorBaseline {
    pub(super) status: Status,
    pub(super) user_namespace: Option<Vec<u8>>,
    pub(super) scheduling: SchedulingBaseline,
    pub(super) secure_bits: i64,
    pub(super) switches: ProcessSwitchesBaseline,
}

impl SupervisorBaseline {
    pub(super) fn scan() -> Result<Self, EngineError> {
        Self::at(Pid::own()).map_err(|source| kernel("looking at this process", source))
    }

    fn at(own: Pid) -> io::Result<Self> {
        let status = Status::of(own)?;
        Ok(Self {
            user_namespace: proc::link(own, "ns/user").ok(),
            scheduling: SchedulingBaseline::of(own)?,
            secure_bits: process::secure_bits()?,
            switches: ProcessSwitchesBaseline::of(own, &status),
            status,
        })
    }

    /// Returns the capabilities of a task in this user namespace, unless it has those that an exec of its program gives.
    /// A user namespace other than ours is one that a restart has made.
    pub(super) fn other_capabilities(&self, status: &Status, user_namespace: Option<&[u8]>) -> Option<CapabilitySets> {
        let is_with_us = user_namespace == self.user_namespace.as_deref();
        let before = if is_with_us { self.status.capabilities } else { Capabilities::of_new_namespace() };
        changed_capabilities(status, before)
    }
}
