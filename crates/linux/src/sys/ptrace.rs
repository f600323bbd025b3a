//! ptrace(2), request by request. <https://man7.org/linux/man-pages/man2/ptrace.2.html>
//!
//! # Safety
//! Each block passes the kernel addresses of live local values of the size that the request documents.

use super::check;
use crate::Tid;
use std::io;

/// `NT_PRSTATUS`: the general registers.
const NT_PRSTATUS: usize = 1;
/// `NT_X86_XSTATE`: the XSAVE area.
const NT_X86_XSTATE: usize = 0x202;
/// Room for the largest XSAVE area known (AMX tile data makes it about 11 KiB).
const XSTATE_BYTES_MAX: usize = 16 * 1024;
/// `PTRACE_GET_RSEQ_CONFIGURATION` (Linux 5.13).
const GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
/// Selects the queue of the process instead of the thread's.
const GET_SYSCALL_USER_DISPATCH: libc::c_uint = 0x4211;
const PEEK_SHARED: u32 = 1;

fn request(request: libc::c_uint, tid: Tid, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: the callers below pass addresses of live values, or plain numbers if the request takes numbers.
    check(unsafe { libc::ptrace(request, tid.get(), address, data) })
}

/// `PTRACE_SEIZE`: becomes the tracer without stopping the task.
pub fn seize(tid: Tid, options: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, options as usize).map(drop)
}

/// `PTRACE_INTERRUPT`: asks a seized task to stop.
pub fn interrupt(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0).map(drop)
}

/// `PTRACE_GETSIGINFO`: returns signal and code of the current stop; fails while the task runs.
pub fn stop_cause(tid: Tid) -> io::Result<(i32, i32)> {
    // SAFETY: a siginfo_t is plain data for which all zeros is a value.
    let mut cause: libc::siginfo_t = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETSIGINFO, tid, 0, &raw mut cause as usize)?;
    Ok((cause.si_signo, cause.si_code))
}

/// `PTRACE_CONT`: resumes the task, with a signal if not 0.
pub fn resume(tid: Tid, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, 0, signal as usize).map(drop)
}

/// `PTRACE_SYSCALL`: resumes the task until the next entry to or exit from a system call, with a signal if not 0.
pub fn resume_to_syscall(tid: Tid, signal: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, tid, 0, signal as usize).map(drop)
}

/// `PTRACE_DETACH`: detaches the task; the kernel then handles an interrupted system call as after any other stop.
pub fn detach(tid: Tid) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, 0).map(drop)
}

/// `PTRACE_SETOPTIONS`.
pub fn set_options(tid: Tid, options: i32) -> io::Result<()> {
    request(libc::PTRACE_SETOPTIONS, tid, 0, options as usize).map(drop)
}

/// `PTRACE_GETEVENTMSG`: returns the id of the new task after a clone event.
pub fn event_message(tid: Tid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, &raw mut message as usize)?;
    Ok(message)
}

/// `PTRACE_POKEDATA`: writes one word, even where the program itself may not write.
pub fn poke(tid: Tid, address: u64, word: u64) -> io::Result<()> {
    request(libc::PTRACE_POKEDATA, tid, address as usize, word as usize).map(drop)
}

/// `PTRACE_GETREGSET` of the general registers.
pub fn registers(tid: Tid) -> io::Result<[u64; 27]> {
    let mut words = [0u64; 27];
    let mut vector = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of_val(&words) };
    request(libc::PTRACE_GETREGSET, tid, NT_PRSTATUS, &raw mut vector as usize)?;
    Ok(words)
}

/// `PTRACE_SETREGSET` of the general registers.
pub fn set_registers(tid: Tid, words: &[u64; 27]) -> io::Result<()> {
    let mut vector = libc::iovec { iov_base: words.as_ptr().cast_mut().cast(), iov_len: size_of_val(words) };
    request(libc::PTRACE_SETREGSET, tid, NT_PRSTATUS, &raw mut vector as usize).map(drop)
}

/// `PTRACE_GETREGSET` of the extended registers; the kernel determines the length.
pub fn extended_registers(tid: Tid) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0u8; XSTATE_BYTES_MAX];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    request(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, &raw mut vector as usize)?;
    bytes.truncate(vector.iov_len);
    Ok(bytes)
}

/// `PTRACE_SETREGSET` of the extended registers.
pub fn set_extended_registers(tid: Tid, bytes: &[u8]) -> io::Result<()> {
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    request(libc::PTRACE_SETREGSET, tid, NT_X86_XSTATE, &raw mut vector as usize).map(drop)
}

/// `PTRACE_GETSIGMASK`.
pub fn signal_mask(tid: Tid) -> io::Result<u64> {
    let mut mask = 0u64;
    request(libc::PTRACE_GETSIGMASK, tid, size_of::<u64>(), &raw mut mask as usize)?;
    Ok(mask)
}

/// `PTRACE_SETSIGMASK`.
pub fn set_signal_mask(tid: Tid, mask: u64) -> io::Result<()> {
    request(libc::PTRACE_SETSIGMASK, tid, size_of::<u64>(), &raw const mask as usize).map(drop)
}

/// Restartable sequences of a task, as `PTRACE_GET_RSEQ_CONFIGURATION` reports them.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct RseqConfiguration {
    /// Address of the area; 0 if none is registered.
    pub area: u64,
    /// Its length.
    pub length: u32,
    /// The signature before abort handlers.
    pub signature: u32,
    /// Flags, 0 so far.
    pub flags: u32,
    padding: u32,
}

/// `PTRACE_GET_RSEQ_CONFIGURATION`; `None` if the kernel does not know the request.
pub fn rseq_configuration(tid: Tid) -> io::Result<Option<RseqConfiguration>> {
    let mut configuration = RseqConfiguration::default();
    let address = &raw mut configuration as usize;
    match request(GET_RSEQ_CONFIGURATION, tid, size_of::<RseqConfiguration>(), address) {
        Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(None),
        Err(error) => Err(error),
        Ok(_) => Ok(Some(configuration)),
    }
}

/// `PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG` (Linux 6.4): reports whether system calls of a task may be delivered to
/// itself; `false` if the kernel does not know the request.
pub fn dispatches_calls(tid: Tid) -> io::Result<bool> {
    // struct ptrace_sud_config: mode (0 is off), selector, offset, length.
    let mut configuration = [0u64; 4];
    let address = configuration.as_mut_ptr() as usize;
    match request(GET_SYSCALL_USER_DISPATCH, tid, size_of_val(&configuration), address) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL)) => Ok(false),
        Err(error) => Err(error),
        Ok(_) => Ok(configuration[0] != 0),
    }
}

/// A queue of pending signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// The queue of the thread.
    Thread,
    /// The queue of its process.
    Process,
}

/// `PTRACE_PEEKSIGINFO`: returns all pending signals of a queue, in order, without removing them.
pub fn pending_signals(tid: Tid, queue: Queue) -> io::Result<Vec<[u8; 128]>> {
    /// Number of signals that one request fetches.
    const BATCH: usize = 32;
    let flags = if queue == Queue::Process { PEEK_SHARED } else { 0 };
    let mut all = Vec::new();
    loop {
        let mut batch = [[0u8; 128]; BATCH];
        let arguments = libc::ptrace_peeksiginfo_args { off: all.len() as u64, flags, nr: BATCH as i32 };
        let got = request(libc::PTRACE_PEEKSIGINFO, tid, &raw const arguments as usize, batch.as_mut_ptr() as usize)?
            as usize;
        all.extend_from_slice(&batch[..got]);
        if got < BATCH {
            return Ok(all);
        }
    }
}
