//! Ring 2: System V objects (segments of shared memory, sets of semaphores, message queues) of the IPC namespace of the
//! calling process. The kernel holds them; they have an id and perhaps a key, and remain when a program ends.
//!
//! This file reads objects without changing or taking anything; `make` makes them, `attached` maps a segment into this
//! process.
//!
//! # Safety
//! Each block passes plain numbers or addresses of live local values to the call that it names.

mod attached;
mod make;

use crate::proc;
use crate::sys::check;
use crate::{Pid, Tid};
pub use attached::AttachedSegment;
pub use make::{Limits, Made, NewObject};
use std::io;

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SystemVKind {
    /// `shmget(2)`.
    Segment,
    /// `semget(2)`.
    Semaphores,
    /// `msgget(2)`.
    Messages,
}

/// A process that has made an object, or was the last to use it in some way, as we see it. It may have ended, and
/// another process may have its number by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectUser {
    /// Its number.
    pub pid: Pid,
    /// Latest time when it did that, in seconds since 1970.
    pub seconds: i64,
}

/// The facts about an object that the kernel reports to every user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemVObject {
    /// Kind of the object.
    pub kind: SystemVKind,
    /// Its id, which mappings of a segment show as their inode.
    pub id: i32,
    /// Its key; 0 for private ones and segments marked for removal.
    pub key: i32,
    /// Permissions and flags.
    pub mode: u32,
    /// Its owner.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// The user who has made it.
    pub creator: u32,
    /// Processes that have made it or were the last to use any part of it.
    pub users: Vec<ObjectUser>,
    /// Time when it was made, or its permissions (or the values of semaphores) were set, in seconds since 1970.
    pub changed_seconds: i64,
    /// Whether semaphores have ever been used, a segment attached, or a message sent.
    pub is_used: bool,
    /// Time when it was last used or changed, in seconds since 1970.
    pub used_seconds: i64,
    /// Length of a segment in bytes, number of semaphores, or bytes in a queue.
    pub size: u64,
    /// Number of attachments of a segment.
    pub attached: u64,
}

/// `SHM_DEST`: the segment goes when no process has it attached any more.
const REMOVED: u32 = 0o1000;
/// `SHM_LOCKED`
const LOCKED: u32 = 0o2000;
const PERMISSIONS: u32 = 0o777;
/// `MSG_COPY`: read the message with that number, and leave it in the queue.
const MSG_COPY: i32 = 0o40000;

impl SystemVKind {
    const ALL: [Self; 3] = [Self::Segment, Self::Semaphores, Self::Messages];

    fn file(self) -> &'static str {
        match self {
            Self::Segment => "shm",
            Self::Semaphores => "sem",
            Self::Messages => "msg",
        }
    }
}

impl std::fmt::Display for SystemVObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            SystemVKind::Segment => "segment",
            SystemVKind::Semaphores => "semaphores",
            SystemVKind::Messages => "message queue",
        };
        write!(f, "System V {kind} {} (key {:#x})", self.id, self.key)
    }
}

impl SystemVObject {
    /// Returns all objects of this IPC namespace. For semaphores that this process may not read, the users stay
    /// unknown.
    ///
    /// # Errors
    /// When the kernel does not list them.
    pub fn all() -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for kind in SystemVKind::ALL {
            let text = match std::fs::read(format!("/proc/sysvipc/{}", kind.file())) {
                // A kernel without System V objects.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                text => text?,
            };
            found.extend(Self::parse(kind, &text)?);
        }
        for set in found.iter_mut().filter(|object| object.kind == SystemVKind::Semaphores) {
            let seconds = set.used_seconds;
            let pids = last_users(set).unwrap_or_default();
            set.users = pids.into_iter().map(|pid| ObjectUser { pid, seconds }).collect();
        }
        Ok(found)
    }

    /// Parses a file of `/proc/sysvipc`.
    ///
    /// # Errors
    /// When a line is of unknown form.
    pub fn parse(kind: SystemVKind, text: &[u8]) -> io::Result<Vec<Self>> {
        let lines = text.split(|byte| *byte == b'\n').skip(1).filter(|line| !line.is_empty());
        lines.map(|line| Self::of_line(kind, line).ok_or_else(|| proc::malformed("System V object"))).collect()
    }

    fn of_line(kind: SystemVKind, line: &[u8]) -> Option<Self> {
        let mode = proc::parse_octal(proc::words(line).nth(2)?)?;
        let fields: Vec<i64> = proc::words(line).filter_map(proc::parse).collect();
        let id = |number: i64| number as i32;
        let (key, own_id) = (id(*fields.first()?), id(*fields.get(1)?));
        let (size, users, attached, owner, times) = match (kind, &fields[..]) {
            (SystemVKind::Segment, [_, _, _, bytes, made, last, attached, owner @ .., a, d, c, _, _]) => {
                (*bytes, vec![(*made, *c), (*last, *a.max(d))], *attached, owner, [*a, *d, *c])
            }
            (SystemVKind::Semaphores, [_, _, _, number, owner @ .., o, c]) => {
                (*number, Vec::new(), 0, owner, [*o, 0, *c])
            }
            (SystemVKind::Messages, [_, _, _, bytes, _, sender, receiver, owner @ .., s, r, c]) => {
                (*bytes, vec![(*sender, *s), (*receiver, *r)], 0, owner, [*s, *r, *c])
            }
            _ => return None,
        };
        let [user, group, creator, _] = *owner else { return None };
        let user_at = |(pid, seconds)| ObjectUser { pid: Pid::new(id(pid)), seconds };
        let used_seconds = times.into_iter().max()?;
        Some(Self {
            kind,
            id: own_id,
            key,
            mode,
            user: user as u32,
            group: group as u32,
            creator: creator as u32,
            users: users.into_iter().filter(|(pid, _)| *pid > 0).map(user_at).collect(),
            changed_seconds: times[2],
            is_used: times[0] != 0,
            used_seconds,
            size: size as u64,
            attached: attached as u64,
        })
    }

    /// Reports whether it is a segment that is marked for removal, so that no process can find it any more.
    pub fn is_removed(&self) -> bool {
        self.mode & REMOVED != 0
    }

    /// Reports whether it is a segment that is kept in memory (`SHM_LOCK`).
    pub fn is_locked(&self) -> bool {
        self.mode & LOCKED != 0
    }

    /// Returns only the permissions.
    pub fn permissions(&self) -> u32 {
        self.mode & PERMISSIONS
    }
}

/// A semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SemaphoreValue {
    /// Its value.
    pub value: u16,
    /// The process that was the last to change it, as we see it; its number is 0 if it is unknown or there
    /// was none.
    pub user: Pid,
}

/// Reads the semaphores of a set.
///
/// # Errors
/// When they may not be read.
pub fn semaphores(set: &SystemVObject) -> io::Result<Vec<SemaphoreValue>> {
    let mut values = vec![0u16; set.size as usize];
    // SAFETY: there is a place for each semaphore; a set never changes its size.
    check(unsafe { libc::semctl(set.id, 0, libc::GETALL, values.as_mut_ptr()) }.into())?;
    let numbered = values.into_iter().zip(0..);
    numbered.map(|(value, number)| Ok(SemaphoreValue { value, user: last_user(set.id, number)? })).collect()
}

/// `GETPID`: returns the process that was the last to change a semaphore.
fn last_user(id: i32, number: i32) -> io::Result<Pid> {
    // SAFETY: plain numbers.
    check(unsafe { libc::semctl(id, number, libc::GETPID) }.into()).map(|pid| Pid::new(pid as i32))
}

fn last_users(set: &SystemVObject) -> io::Result<Vec<Pid>> {
    let mut users = (0..set.size as i32).map(|number| last_user(set.id, number)).collect::<io::Result<Vec<_>>>()?;
    users.retain(|pid| pid.get() > 0);
    users.sort_unstable();
    users.dedup();
    Ok(users)
}

/// The content of a message queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueContents {
    /// Capacity in bytes (`msg_qbytes`).
    pub bytes_max: u64,
    /// Messages in their order: type and text.
    pub messages: Vec<(i64, Vec<u8>)>,
}

/// Reads the messages in a queue, and leaves them there.
///
/// # Errors
/// When they may not be read, or the kernel has no way to peek (CONFIG_CHECKPOINT_RESTORE).
pub fn queue_contents(queue: &SystemVObject) -> io::Result<QueueContents> {
    // SAFETY: a msqid_ds is plain data for which all zeros is a value.
    let mut status: libc::msqid_ds = unsafe { std::mem::zeroed() };
    // SAFETY: `status` is live.
    check(unsafe { libc::msgctl(queue.id, libc::IPC_STAT, &raw mut status) }.into())?;
    let mut messages = Vec::new();
    let text_bytes = queue.size as usize;
    // The type is in front of the text.
    let mut buffer = vec![0i64; 1 + text_bytes.div_ceil(size_of::<i64>())];
    for number in 0.. {
        let flags = MSG_COPY | libc::IPC_NOWAIT;
        // SAFETY: there is room for the type and the text of all messages together.
        let got = unsafe { libc::msgrcv(queue.id, buffer.as_mut_ptr().cast(), text_bytes, number, flags) };
        match check(got as i64) {
            Err(error) if error.raw_os_error() == Some(libc::ENOMSG) => break,
            got => {
                let text = buffer[1..].iter().flat_map(|word| word.to_ne_bytes());
                messages.push((buffer[0], text.take(got? as usize).collect()));
            }
        }
    }
    Ok(QueueContents { bytes_max: status.msg_qbytes, messages })
}

/// Returns those of these threads that may have something to undo at their end (SEM_UNDO): they, or another thread of
/// their process, have once requested it, or a thread has been made. Compares them by kcmp(2) with a process that
/// surely has nothing to undo.
///
/// # Errors
/// When the kernel does not compare.
pub fn with_undo_list(threads: &[Tid]) -> io::Result<Vec<Tid>> {
    crate::namespace_helper::in_helper_process(|| {
        let own = Pid::own().main_thread();
        let differs = |tid: &Tid| same_undo_list(own, *tid).map(|same| !same);
        let mut with = Vec::new();
        for tid in threads {
            if differs(tid)? {
                with.push(*tid);
            }
        }
        Ok(with)
    })
}

/// Reports whether two threads share their list of undo operations.
///
/// # Errors
/// When the kernel does not compare.
pub fn same_undo_list(one: Tid, other: Tid) -> io::Result<bool> {
    const KCMP_SYSVSEM: i32 = 6;
    // SAFETY: plain numbers.
    let order = check(unsafe { libc::syscall(libc::SYS_kcmp, one.get(), other.get(), KCMP_SYSVSEM, 0, 0) })?;
    Ok(order == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let text = b"       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid\n\
            0 3 1600 65536 12345 12346 2 1000 100 1001 101 50 60 40 4096 0\n";
        let user = |pid, seconds| ObjectUser { pid: Pid::new(pid), seconds };
        let found = SystemVObject::parse(SystemVKind::Segment, text).unwrap();
        let [segment] = &found[..] else { panic!("one segment") };
        assert!(segment.is_removed() && !segment.is_locked() && segment.permissions() == 0o600);
        assert_eq!((segment.id, segment.key, segment.size, segment.attached), (3, 0, 65536, 2));
        assert_eq!((segment.user, segment.group, segment.creator), (1000, 100, 1001));
        assert_eq!(
            (segment.users.as_slice(), segment.changed_seconds, segment.used_seconds),
            (&[user(12345, 40), user(12346, 60)][..], 40, 60)
        );
        let set = SystemVObject::parse(SystemVKind::Semaphores, b"head\n77 5 666 3 1 2 3 4 0 9\n").unwrap();
        assert_eq!((set[0].key, set[0].size, set[0].user, set[0].used_seconds), (77, 3, 1, 9));
        let queue = SystemVObject::parse(SystemVKind::Messages, b"head\n-1 5 666 30 2 7 0 1 2 3 4 10 0 9\n").unwrap();
        assert_eq!((queue[0].key, queue[0].size, queue[0].users.as_slice()), (-1, 30, &[user(7, 10)][..]));
        for unknown in [&b"head\n1 2\n"[..], b"head\n-1 5 666 30 2 7 0 1 2 3 4 10 0 9 8\n"] {
            assert!(SystemVObject::parse(SystemVKind::Messages, unknown).is_err(), "more or fewer fields");
        }
    }
}
