//! Ring 2: work done in namespaces of a job, by a process of our own that enters them and shares our memory.
//!
//! Objects of an IPC namespace can be reached only from within, and a thread cannot enter a user namespace. So we make
//! a process that has our memory but can have other namespaces, as vfork(2) does: the calling thread waits until the
//! process has ended, and finds the results in its memory. The process dies with us, unless it must finish its work.
//!
//! # Safety
//! The helper runs on a stack of its own while the thread that made it is suspended, so that the two never use
//! thread-local data at the same time. A panic unwinds no further than to the helper's entry function.

use crate::Pid;
use crate::proc;
use crate::spawn::undisturbed_by_strays;
use crate::sys::check;
use rustix::process::{Signal, WaitOptions, set_parent_process_death_signal, waitpid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

const STACK_BYTES: usize = 1 << 20;

/// The IPC namespace of a job, with the user namespace that it belongs to.
#[derive(Debug)]
pub struct IpcNamespace {
    /// The user namespace, or `None` if it is our own.
    user: Option<OwnedFd>,
    ipc: OwnedFd,
}

impl IpcNamespace {
    /// Opens the IPC namespace of a process. Returns `None` if it is also ours.
    ///
    /// # Errors
    /// When the process is gone or may not be inspected.
    pub fn of(pid: Pid) -> io::Result<Option<Self>> {
        let own = Pid::own();
        let differs = |name: &str| Ok::<_, io::Error>(proc::link(pid, name)? != proc::link(own, name)?);
        let open = |name: &str| std::fs::File::open(format!("/proc/{pid}/{name}")).map(OwnedFd::from);
        if !differs("ns/ipc")? {
            return Ok(None);
        }
        let user = if differs("ns/user")? { Some(open("ns/user")?) } else { None };
        Ok(Some(Self { user, ipc: open("ns/ipc")? }))
    }

    /// Runs `work` in the namespace.
    ///
    /// # Errors
    /// When the namespace may not be entered, and any error of `work`.
    pub fn within<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let enter = |namespace: &OwnedFd, kind| move_into_link_name_space(namespace.as_fd(), Some(kind));
        in_helper_process(|| {
            self.user.iter().try_for_each(|user| enter(user, LinkNameSpaceType::User))?;
            enter(&self.ipc, LinkNameSpaceType::InterProcessCommunication)?;
            work()
        })
    }
}

/// Runs `work` in a process of its own. The process shares our memory and, apart from that, only what a child shares.
///
/// # Errors
/// When no process can be made, and any error of `work`.
pub(crate) fn in_helper_process<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    in_helper_process_to_the_end(|| {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        work()
    })
}

/// Does the same as [`in_helper_process`], but the work continues if we are killed meanwhile. Such work must not allocate
/// memory or take locks: a killed thread may hold what it needs.
///
/// # Errors
/// As above.
pub(crate) fn in_helper_process_to_the_end<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let mut namespace_helper = NamespaceHelper { work: Some(work), result: None };
    let entry = enter::<T, _>(&namespace_helper);
    let mut stack: Vec<u128> = Vec::with_capacity(STACK_BYTES / size_of::<u128>());
    undisturbed_by_strays(|| {
        with_signals_blocked(|| {
            // SAFETY: the stack and `namespace_helper` are live until the child has ended, for which CLONE_VFORK waits;
            // nothing else uses them meanwhile.
            let pid = check(unsafe {
                let top = stack.as_mut_ptr().add(stack.capacity()).cast();
                let flags = libc::CLONE_VM | libc::CLONE_VFORK;
                libc::clone(entry, top, flags, (&raw mut namespace_helper).cast()).into()
            })?;
            let id = Pid::new(pid as i32).as_argument()?;
            waitpid(Some(id), WaitOptions::from_bits_retain(libc::__WCLONE as u32))?;
            Ok(())
        })
    })?;
    namespace_helper.result.unwrap_or_else(|| Err(io::Error::other("another program killed a helper process")))
}

struct NamespaceHelper<T, F> {
    work: Option<F>,
    result: Option<io::Result<T>>,
}

/// Returns the entry function of a helper of this type.
fn enter<T, F: FnOnce() -> io::Result<T>>(
    _: &NamespaceHelper<T, F>,
) -> extern "C" fn(*mut libc::c_void) -> libc::c_int {
    extern "C" fn begin<T, F: FnOnce() -> io::Result<T>>(namespace_helper: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the maker of this process has passed such a value, and waits.
        let namespace_helper = unsafe { &mut *namespace_helper.cast::<NamespaceHelper<T, F>>() };
        let work = namespace_helper.work.take().expect("a helper begins once");
        let result = catch_unwind(AssertUnwindSafe(work));
        namespace_helper.result = Some(result.unwrap_or_else(|_| Err(io::Error::other("a namespace helper panicked"))));
        0
    }
    begin::<T, F>
}

/// Blocks all signals during `work`, since our handlers are only for our own threads.
fn with_signals_blocked<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    // SAFETY: signal sets are bit masks for which all zeros is a value; both are live.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result = work();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_by_another_process_in_the_same_memory() {
        let mut seen = Vec::new();
        let id = in_helper_process(|| {
            let pid = Pid::own();
            seen.push(pid);
            Ok(pid)
        });
        let id = id.unwrap();
        assert_eq!(seen, [id]);
        assert_ne!(id, Pid::own());
        assert!(proc::read(id, "stat").is_err(), "it has ended");
    }

    #[test]
    fn errors_and_panics_come_back() {
        let error = in_helper_process(|| Err::<(), _>(io::ErrorKind::NotFound.into())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(in_helper_process(|| -> io::Result<()> { panic!("on purpose") }).is_err());
    }
}
