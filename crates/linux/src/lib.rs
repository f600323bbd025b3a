//! The system-call boundary: every Linux system call that Standfast makes on behalf of a job, and nothing else.
//!
//! The crate has two rings. [`sys`] holds one function per system call, with owned descriptors and
//! [`std::io::Error`]. The types around it ([`Task`], [`Injector`], [`ProcessMemory`], [`NamespaceInit`]) each hold one
//! invariant and undo themselves when dropped. ARCHITECTURE.md says where else `unsafe` is allowed.
//!
//! Calls go through rustix where it has them. The others go through libc. So do calls that a type of rustix would narrow:
//! a signal, a resource, an option of a socket or the address that a socket returns may be one that it does not know, a
//! mask of processors may be longer than its own, and a process group outside our namespace has the number 0. Clocks are
//! read through libc too, since rustix makes further calls for the first one, which may come while a job is frozen.
//!
//! The `/proc` parsers in [`proc`] take bytes and return values; one thin function beside each opens the file.

pub mod abi;
mod arch;
mod caches;
mod clocks;
mod clone;
mod descriptor_passage;
mod error;
mod features;
mod folder;
mod frames;
mod hidden_names;
mod ids;
mod inject;
mod kernel_version;
mod memory;
mod message_queue;
mod namespace;
mod namespace_helper;
mod own_memory;
mod own_network;
mod pages;
mod parasite_area;
mod pin;
mod pinned;
pub mod proc;
pub mod processor;
mod siginfo;
mod sock_diag;
mod soft_dirty;
mod spawn;
mod split;
pub mod sys;
pub mod system_v;
mod task;
mod terminal;
mod unix_sockets;
pub mod vdso;
mod wait_status;
mod written;

pub use arch::{Abort, Registers, SYSCALL_INSTRUCTION, SigreturnFrame, healing_blob};
pub use clocks::{ClockOffsets, monotonic_clocks_of};
pub use clone::{CloneParent, MemoryClone};
pub use descriptor_passage::DescriptorPassage;
pub use error::TaskError;
pub use features::{Feature, Features, try_namespaces};
pub use folder::{Access, Folder, HeldPath};
pub use frames::FrameFile;
pub use hidden_names::{HiddenNames, PassingDirectory};
pub use ids::{Pid, Tid};
pub use inject::{Answer, Call, CompletionSignal, Injector, OwnState, RemoteTask};
pub use kernel_version::KernelVersion;
pub use memory::ProcessMemory;
pub use message_queue::{OpenPosixQueue, QueueLimits, QueuedMessage};
pub use namespace::{Furnishing, HelperNews, NamespaceInit, NamespaceKind};
pub use namespace_helper::IpcNamespace;
pub use own_memory::{OwnWrites, RegisteredMemory, first_write_cost, give_back_unused};
pub use own_network::{NetworkSurroundings, own_addresses};
pub use pages::{PageScan, Populated};
pub use parasite_area::{ParasiteArea, ParasiteAreaError};
pub use pin::{PinnedToCpu, on_each_cpu};
pub use pinned::unseen_writer;
pub use siginfo::SignalInformation;
pub use sock_diag::UdpSocket;
pub use soft_dirty::{MarkedPages, SoftDirty};
pub use spawn::{
    HeldChild, HeldProgram, InheritedSignals, LaunchTerminal, is_made_here, launch, made_here, made_here_is_gone,
    spawn_made_here,
};
pub use split::{Half, HeldSignals, close_all_but, hold_output_signal, lead_session, split, step_aside};
pub use task::{Standstill, Stop, Task};
pub use terminal::{Terminal, own_group};
pub use unix_sockets::UnixSocket;
pub use wait_status::WaitStatus;
pub use written::{HeldPages, WriteProtection, WrittenScan};
