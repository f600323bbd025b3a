//! Ring 2: namespaces of its own for a restarted job, so that it can have its old process and thread ids.
//!
//! A small process, the *init*, is the first in a new pid namespace (and, without privilege, user namespace). It
//! creates the job's main process under its old id, chooses the ids of the threads that follow, and later reaps. Until
//! the restart commits it lives and dies with us. Afterwards it outlives us, since the kernel ends a namespace with its
//! init.
//!
//! ```text
//!  we                              init (pid 1 inside)              main process (old pid inside)
//!  | -- clone3(NEW...) ----------> | maps ids, mounts /proc
//!  |                               | -- clone3(set_tid) ----------> | waits at the gate
//!  | <------------------- Ready -- |                                |
//!  | -- seize, open the gate, exec, rebuild --------------------->  |
//!  | -- NextId(n) ---------------> | ns_last_pid = n - 1            |
//!  | -- Commit ------------------> | from now on ignores our death  | runs
//!  | <------------------ Stopped - | <------------------ stops      |
//!  | <------------ Ended(status) - | <------------------ ends       |
//! ```
//!
//! # Safety
//! The init is a fork, in which any lock may be held by a thread that does not exist there, above all one of the
//! allocator. It makes plain system calls on values prepared before, and allocates nothing.

use crate::proc;
use crate::spawn::{HeldChild, HeldProgram, InheritedSignals, gate, wait_and_execute};
use crate::sys::{check, process};
use crate::{ClockOffsets, Pid, WaitStatus};
use rustix::io::{Errno, retry_on_intr};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair};
use rustix::process::WaitOptions;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::ffi::{CStr, CString};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// The namespaces that the job gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceKind {
    /// User, pid and mount namespace: works without privilege if the system allows it.
    User,
    /// Pid and mount namespace: for root, who then remains root.
    Pid,
}

impl NamespaceKind {
    /// Returns the kinds that this user may be allowed to make, the better one first. Root stays root inside; in a
    /// container it may need a user namespace like any other user.
    pub fn of_this_user() -> &'static [Self] {
        if process::effective_user() == 0 { &[Self::Pid, Self::User] } else { &[Self::User] }
    }
}

/// Properties of the namespaces of a job.
#[derive(Debug, Clone, Copy, Default)]
pub struct Furnishing {
    /// A time namespace whose monotonic clocks are shifted by these offsets.
    pub clocks: Option<ClockOffsets>,
    /// Pseudo-terminals of its own, so that their numbers are free.
    pub terminals: bool,
    /// An IPC namespace of its own, so that ids of System V objects and names of message queues are free.
    pub ipc: bool,
}

/// Our end of the channel to the init.
#[derive(Debug)]
pub struct NamespaceInit {
    channel: OwnedFd,
    pid: Pid,
}

/// News of the job's main process from the init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelperNews {
    /// Job control has stopped the main process.
    Stopped,
    /// The main process ended, with this status. The namespaces live on as long as any process in them.
    Ended(WaitStatus),
}

/// One message: its kind, and a number.
type Message = [u8; 5];
const READY: u8 = b'R';
const FAILED: u8 = b'F';
const NEXT_ID: u8 = b'N';
const COMMIT: u8 = b'C';
const STOPPED: u8 = b'S';
const ENDED: u8 = b'E';

fn message(kind: u8, number: i32) -> Message {
    let [a, b, c, d] = number.to_le_bytes();
    [kind, a, b, c, d]
}

impl NamespaceInit {
    /// Makes the namespaces and, in them, a process with the id `pid` that waits to execute `program`. `furnishing`
    /// defines what else the process finds there.
    ///
    /// # Errors
    /// When the system does not allow it. Nothing is left over.
    pub fn start(
        kind: NamespaceKind,
        pid: Pid,
        furnishing: Furnishing,
        program: HeldProgram<'_>,
        signals: InheritedSignals,
    ) -> io::Result<(Self, HeldChild)> {
        let (ours, theirs) = channel()?;
        let (waiting, gate) = gate()?;
        let mut flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS;
        flags |= if kind == NamespaceKind::User { libc::CLONE_NEWUSER } else { 0 };
        flags |= if furnishing.ipc { libc::CLONE_NEWIPC } else { 0 };
        let prepared = Prepared::new(kind, furnishing);
        let init = match clone_process(flags as u64, None)? {
            0 => {
                let init = Init { channel: theirs.as_fd(), waiting: waiting.as_fd(), gate: gate.as_raw_fd() };
                init.run(&prepared, pid, program, signals)
            }
            init => Pid::new(init),
        };
        drop((theirs, waiting));
        let this = Self { channel: ours, pid: init };
        this.expect_ready()?;
        let children = proc::children(init)?;
        let [main] = children[..] else {
            return Err(io::Error::other("the namespace's init shows no main process"));
        };
        Ok((this, HeldChild::behind(main, gate)))
    }

    /// Gives the next task made in the namespace the id `id`.
    ///
    /// # Errors
    /// When the init is gone or the kernel refuses.
    pub fn choose_next_id(&self, id: i32) -> io::Result<()> {
        send(self.channel(), message(NEXT_ID, id))?;
        self.expect_ready()
    }

    /// Makes the namespace outlive us from now on.
    ///
    /// # Errors
    /// When the init is gone, and the job with it.
    pub fn commit(&self) -> io::Result<()> {
        send(self.channel(), message(COMMIT, 0))?;
        self.expect_ready()
    }

    /// Returns the init's pid as we see it.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns a descriptor that becomes readable when there is [`HelperNews`].
    pub fn channel(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Waits for the next news of the main process.
    ///
    /// # Errors
    /// When the init was killed, and the job with it.
    pub fn wait_for_news(&self) -> io::Result<HelperNews> {
        match receive(self.channel())? {
            [STOPPED, ..] => Ok(HelperNews::Stopped),
            [ENDED, status @ ..] => Ok(HelperNews::Ended(WaitStatus(i32::from_le_bytes(status)))),
            _ => Err(io::Error::other("the namespace's init spoke out of turn")),
        }
    }

    /// Reaps the init, which is our child, if it has ended.
    pub fn reap(&self) {
        // An error means that it has already been reaped.
        let _ = process::wait(self.pid.main_thread(), libc::WNOHANG);
    }

    fn expect_ready(&self) -> io::Result<()> {
        match receive(self.channel())? {
            [READY, ..] => Ok(()),
            [FAILED, error @ ..] => {
                process::wait(self.pid.main_thread(), 0)?;
                Err(io::Error::from_raw_os_error(i32::from_le_bytes(error)))
            }
            _ => Err(io::Error::other("the namespace's init spoke out of turn")),
        }
    }

    /// Ends the namespace and everything in it, and waits until it is gone.
    pub fn destroy(self) {
        // Errors mean that it is already gone.
        let _ = process::kill(self.pid, libc::SIGKILL);
        let _ = process::wait(self.pid.main_thread(), 0);
    }
}

/// Our user and group outside, to be the same inside.
#[derive(Debug)]
pub(crate) struct Identity {
    user: u32,
    user_map: String,
    group_map: String,
}

impl Identity {
    pub(crate) fn own() -> Self {
        let (user, group) = (process::effective_user(), rustix::process::getegid().as_raw());
        Self { user, user_map: format!("{user} {user} 1"), group_map: format!("{group} {group} 1") }
    }

    /// Reports whether it is root, who needs no user namespace.
    pub(crate) fn is_root(&self) -> bool {
        self.user == 0
    }

    /// Gives this process, which has just entered a new user namespace, the same user and group there, and no others.
    /// Allocates nothing.
    pub(crate) fn keep(&self) -> io::Result<()> {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", &self.user_map)?;
        fs::write("/proc/self/gid_map", &self.group_map)
    }
}

/// What the init is to set up, as it passes it to the kernel.
#[derive(Debug)]
struct Prepared {
    /// In a user namespace.
    identity: Option<Identity>,
    /// Offsets of the clocks of a time namespace.
    clocks: Option<String>,
    /// Mount options of terminals of its own.
    terminals: Option<CString>,
    /// Whether to mount message queues of its own.
    message_queues: bool,
}

impl Prepared {
    fn new(kind: NamespaceKind, furnishing: Furnishing) -> Self {
        Self {
            identity: (kind == NamespaceKind::User).then(Identity::own),
            clocks: furnishing.clocks.map(ClockOffsets::to_text),
            terminals: furnishing.terminals.then(options_of_terminals),
            message_queues: furnishing.ipc,
        }
    }
}

/// The side of the init.
struct Init<'a> {
    channel: BorrowedFd<'a>,
    waiting: BorrowedFd<'a>,
    gate: RawFd,
}

impl Init<'_> {
    fn run(&self, prepared: &Prepared, pid: Pid, program: HeldProgram<'_>, signals: InheritedSignals) -> ! {
        let main = match self.set_up(prepared, pid, program, signals) {
            Ok(main) => main,
            Err(error) => self.fail(&error),
        };
        if send(self.channel, message(READY, 0)).is_err() {
            exit(1);
        }
        self.serve();
        reap_until_end(main, self.channel)
    }

    fn set_up(
        &self,
        prepared: &Prepared,
        pid: Pid,
        program: HeldProgram<'_>,
        signals: InheritedSignals,
    ) -> io::Result<Pid> {
        // It works as well without its name.
        let _ = rustix::thread::set_name(c"standfast-init");
        if let Some(identity) = &prepared.identity {
            identity.keep()?;
        }
        mount_proc();
        if let Some(options) = &prepared.terminals {
            mount_terminals(options);
        }
        if prepared.message_queues {
            mount_message_queues();
        }
        if let Some(clocks) = &prepared.clocks {
            // The next child enters the namespace; until then, its clocks can be set.
            // SAFETY: descriptors stay as they are.
            unsafe { unshare_unsafe(UnshareFlags::NEWTIME) }?;
            fs::write("/proc/self/timens_offsets", clocks)?;
        }
        let main = match clone_process(0, Some(pid.get()))? {
            0 => wait_and_execute(self.waiting, self.gate, program, signals),
            main => Pid::new(main),
        };
        close_all_but(self.channel.as_raw_fd());
        Ok(main)
    }

    /// Reports the error and exits, which ends the namespace.
    fn fail(&self, error: &io::Error) -> ! {
        let _ = send(self.channel, message(FAILED, error.raw_os_error().unwrap_or(libc::EINVAL)));
        exit(1)
    }

    /// Answers requests until the commit. If the other end closes before that, the restart has failed.
    fn serve(&self) {
        loop {
            match receive(self.channel) {
                Ok([NEXT_ID, id @ ..]) => {
                    if let Err(error) = set_last_id(i32::from_le_bytes(id) - 1) {
                        self.fail(&error);
                    }
                    if send(self.channel, message(READY, 0)).is_err() {
                        exit(1);
                    }
                }
                Ok([COMMIT, ..]) => {
                    // The commit stands even if nothing receives the answer.
                    let _ = send(self.channel, message(READY, 0));
                    return;
                }
                Ok(_) | Err(_) => exit(1),
            }
        }
    }
}

/// Makes the kernel count from `id` on for the next id in this namespace. Allocates nothing.
fn set_last_id(id: i32) -> io::Result<()> {
    /// What the longest number takes.
    const DIGITS: usize = 11;
    let mut text = [0; DIGITS];
    let mut rest = &mut text[..];
    write!(rest, "{id}")?;
    let unused = rest.len();
    fs::write("/proc/sys/kernel/ns_last_pid", &text[..DIGITS - unused])
}

fn exit(status: i32) -> ! {
    // SAFETY: ends only this process; no destructor of the copied parent may run.
    unsafe { libc::_exit(status) }
}

/// Reaps until no other process is left. The first process of a namespace inherits all orphans, and the namespace ends
/// with it.
fn reap_until_end(main: Pid, channel: BorrowedFd<'_>) -> ! {
    let options = WaitOptions::UNTRACED | WaitOptions::from_bits_retain(libc::__WALL as u32);
    loop {
        match rustix::process::wait(options) {
            Err(Errno::CHILD) => exit(0),
            Ok(Some((id, status))) if id.as_raw_nonzero().get() == main.get() => {
                // If nothing listens any more, the status is lost, like that of any orphan.
                let kind = if status.stopped() { STOPPED } else { ENDED };
                let _ = send(channel, message(kind, status.as_raw()));
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// Mounts the `/proc` of the new namespace, if that is allowed. Containers that mask parts of their own forbid it, and
/// the job then sees the outer one.
fn mount_proc() {
    let made_private = mount_change(c"/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE);
    let _ = made_private.and_then(|()| mount(c"proc", c"/proc", c"proc", MountFlags::empty(), None));
}

/// Mounts pseudo-terminals of the namespace's own. If that is not allowed, the job sees the outer ones.
fn mount_terminals(options: &CStr) {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let _ = mount(c"devpts", c"/dev/pts", c"devpts", flags, options);
}

/// Returns the mount options with which nodes of terminals get the same permissions as outside.
fn options_of_terminals() -> CString {
    let outside = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mode = mode_of_terminals(&outside).unwrap_or("620");
    CString::new(format!("ptmxmode=0666,mode={mode}")).expect("a line of text holds no zero")
}

/// Returns the permissions of new pseudo-terminals, in octal, from the text of `/proc/PID/mountinfo`.
fn mode_of_terminals(mounts: &str) -> Option<&str> {
    let mut all = mounts.lines().filter_map(|line| line.split_once(" - devpts "));
    // The fifth field is where it is mounted.
    let (_, last) = all.rfind(|(place, _)| place.split(' ').nth(4) == Some("/dev/pts"))?;
    let (_, options) = last.rsplit_once(' ')?;
    options.split(',').find_map(|option| option.strip_prefix("mode="))
}

/// Mounts the message queues of the namespace, if those of the outer one are mounted.
fn mount_message_queues() {
    let _ = mount(c"mqueue", c"/dev/mqueue", c"mqueue", MountFlags::empty(), None);
}

fn close_all_but(kept: RawFd) {
    let kept = kept as u32;
    let close = |first: u32, last: u32| {
        if first <= last {
            // SAFETY: this process is a fork that uses none of these descriptors any more.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    };
    close(3, kept - 1);
    close(kept + 1, u32::MAX);
}

/// Calls clone3(2) without a new stack: a fork with `flags`. The child has the id `id`, if given, in its innermost
/// namespace.
fn clone_process(flags: u64, id: Option<i32>) -> io::Result<i32> {
    /// `struct clone_args`, as of Linux 5.5.
    #[repr(C)]
    #[derive(Default)]
    struct Arguments {
        flags: u64,
        pidfd: u64,
        child_tid: u64,
        parent_tid: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        tls: u64,
        set_tid: u64,
        set_tid_size: u64,
    }
    let wanted = id.unwrap_or_default();
    let mut arguments = Arguments { flags, exit_signal: libc::SIGCHLD as u64, ..Arguments::default() };
    if id.is_some() {
        arguments.set_tid = &raw const wanted as u64;
        arguments.set_tid_size = 1;
    }
    // SAFETY: `arguments` and `wanted` are live; without CLONE_VM the child has a copy of everything.
    check(unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<Arguments>()) }).map(|pid| pid as i32)
}

/// Makes a pair of connected ends that keep message boundaries.
fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

fn send(channel: BorrowedFd<'_>, message: Message) -> io::Result<()> {
    rustix::net::send(channel, &message, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(channel: BorrowedFd<'_>) -> io::Result<Message> {
    let mut message = Message::default();
    let (bytes, _) = retry_on_intr(|| rustix::net::recv(channel, &mut message, RecvFlags::empty()))?;
    if bytes == message.len() { Ok(message) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_permissions_of_terminals_are_those_of_the_last_mount() {
        let first = "29 26 0:26 / /dev/pts rw,relatime - devpts devpts rw,mode=600,ptmxmode=000\n";
        let last = "30 26 0:27 / /dev/pts rw,nosuid shared:3 master:1 - devpts none rw,gid=5,mode=620,ptmxmode=666\n";
        let others =
            "31 26 0:28 / /dev/pts/1 rw - devpts devpts rw,mode=666\n32 26 0:29 / /dev rw - tmpfs - rw,mode=755\n";
        assert_eq!(mode_of_terminals(&[first, last, others].concat()), Some("620"));
        assert_eq!(mode_of_terminals(&[first, others].concat()), Some("600"));
        assert_eq!(mode_of_terminals(others), None);
    }
}
