//! Code that differs between processors: registers, system calls, signal frames. Each processor has one file, and only
//! this module chooses it.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use x86_64::{Abort, Registers, SYSCALL_INSTRUCTION, SigreturnFrame, healing_blob};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{CallRecord, SYSCALL_OFFSET};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("Standfast runs on x86-64 for now: registers and signal frames of this processor are not written yet");
