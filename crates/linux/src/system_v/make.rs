//! Makes System V objects again, under their old ids if possible.
//!
//! # Safety
//! Each block passes plain numbers or addresses of live local values to the call that it names.

use super::{PERMISSIONS, SystemVKind};
use crate::sys::check;
use std::fs;
use std::io;

const OWNER_ONLY: i32 = 0o600;
/// How often an object is made until it has its id: a new namespace gives each id below 2^31 within 2^22 makings, since
/// it has 64 places, which it fills in turn, and 2^16 numbers for each.
const MAKINGS_MAX: u32 = 1 << 22;

/// Properties of every new object.
#[derive(Debug, Clone, Copy)]
pub struct NewObject {
    /// Kind of the object.
    pub kind: SystemVKind,
    /// Its id; `None` for any.
    pub id: Option<i32>,
    /// Its key; 0 for a private one.
    pub key: i32,
    /// Length of a segment in bytes, number of semaphores, or unused for a queue.
    pub size: u64,
}

/// A new object, accessible only to its owner until [`Made::finish`].
#[derive(Debug, Clone, Copy)]
pub struct Made {
    kind: SystemVKind,
    /// Its id.
    pub id: i32,
}

impl NewObject {
    /// Makes the object, empty, in the caller's IPC namespace. Where the id may not be chosen (before Linux 5.16, only root
    /// may), this needs the objects of each kind to be made in the order of their ids.
    ///
    /// # Errors
    /// When the id or the key is in use, or a limit is reached.
    pub fn make(&self) -> io::Result<Made> {
        let Some(id) = self.id else { return self.make_with_any_id() };
        match fs::write(format!("/proc/sys/kernel/{}_next_id", self.kind.file()), id.to_string()) {
            Ok(()) => self.make_once(id)?.ok_or_else(|| io::Error::from_raw_os_error(libc::EEXIST)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.make_until_it_has(id),
            Err(error) => Err(error),
        }
    }

    /// Makes and removes the object until it has this id: ids ascend, and those that have been in use do not come again
    /// soon.
    fn make_until_it_has(&self, id: i32) -> io::Result<Made> {
        for _ in 0..MAKINGS_MAX {
            if let Some(made) = self.make_once(id)? {
                return Ok(made);
            }
        }
        Err(io::Error::from_raw_os_error(libc::EEXIST))
    }

    /// Makes the object, and removes it if it has another id than this one.
    fn make_once(&self, id: i32) -> io::Result<Option<Made>> {
        let made = self.make_with_any_id()?;
        if made.id == id {
            return Ok(Some(made));
        }
        made.remove().map(|()| None)
    }

    fn make_with_any_id(&self) -> io::Result<Made> {
        let flags = libc::IPC_CREAT | libc::IPC_EXCL | OWNER_ONLY;
        // SAFETY: plain numbers.
        let made = check(i64::from(unsafe {
            match self.kind {
                SystemVKind::Segment => libc::shmget(self.key, self.size as usize, flags),
                SystemVKind::Semaphores => libc::semget(self.key, self.size as i32, flags),
                SystemVKind::Messages => libc::msgget(self.key, flags),
            }
        }))?;
        Ok(Made { kind: self.kind, id: made as i32 })
    }
}

impl Made {
    /// Wraps an object that already exists.
    pub fn known(kind: SystemVKind, id: i32) -> Self {
        Self { kind, id }
    }

    /// Sets all values of a set of semaphores.
    ///
    /// # Errors
    /// When one is out of range.
    pub fn set_values(&self, values: &[u16]) -> io::Result<()> {
        assert!(self.kind == SystemVKind::Semaphores, "only semaphores have values");
        // SAFETY: there is a value for each semaphore, since the set was made for that many.
        check(unsafe { libc::semctl(self.id, 0, libc::SETALL, values.as_ptr()) }.into()).map(drop)
    }

    /// Uses the first semaphore, which is 0 and stays so: a set that was never used shows that.
    ///
    /// # Errors
    /// When that is not allowed, or the semaphore is not 0.
    pub fn use_once(&self) -> io::Result<()> {
        assert!(self.kind == SystemVKind::Semaphores, "only semaphores are used");
        let mut wait = libc::sembuf { sem_num: 0, sem_op: 0, sem_flg: libc::IPC_NOWAIT as i16 };
        // SAFETY: one operation, which is live.
        check(unsafe { libc::semop(self.id, &raw mut wait, 1) }.into()).map(drop)
    }

    /// Appends a message to a queue.
    ///
    /// # Errors
    /// When there is no room, or the message is longer than the kernel allows.
    pub fn send(&self, kind: i64, text: &[u8]) -> io::Result<()> {
        assert!(self.kind == SystemVKind::Messages, "only queues take messages");
        let mut message = kind.to_ne_bytes().to_vec();
        message.extend(text);
        // SAFETY: the type is in front of a text of the length passed.
        let sent = unsafe { libc::msgsnd(self.id, message.as_ptr().cast(), text.len(), libc::IPC_NOWAIT) };
        check(sent.into()).map(drop)
    }

    /// Sets permissions and owner; `queue_bytes_max` is the capacity of a queue.
    ///
    /// # Errors
    /// When the owner is not known here, or a limit forbids it.
    pub fn finish(&self, mode: u32, user: u32, group: u32, queue_bytes_max: Option<u64>) -> io::Result<()> {
        let set = |permissions: &mut libc::ipc_perm| {
            permissions.mode = (mode & PERMISSIONS) as _;
            (permissions.uid, permissions.gid) = (user, group);
        };
        // SAFETY: each structure is plain data for which all zeros is a value, and live.
        check(i64::from(unsafe {
            match self.kind {
                SystemVKind::Segment => {
                    let mut status: libc::shmid_ds = std::mem::zeroed();
                    set(&mut status.shm_perm);
                    libc::shmctl(self.id, libc::IPC_SET, &raw mut status)
                }
                SystemVKind::Semaphores => {
                    let mut status: libc::semid_ds = std::mem::zeroed();
                    set(&mut status.sem_perm);
                    libc::semctl(self.id, 0, libc::IPC_SET, &raw mut status)
                }
                SystemVKind::Messages => {
                    let mut status: libc::msqid_ds = std::mem::zeroed();
                    set(&mut status.msg_perm);
                    status.msg_qbytes = queue_bytes_max.unwrap_or_default();
                    libc::msgctl(self.id, libc::IPC_SET, &raw mut status)
                }
            }
        }))
        .map(drop)
    }

    /// Keeps a segment in memory (`SHM_LOCK`).
    ///
    /// # Errors
    /// When the limit of locked memory forbids it.
    pub fn lock(&self) -> io::Result<()> {
        // SAFETY: plain numbers, and no address is used.
        check(unsafe { libc::shmctl(self.id, libc::SHM_LOCK, std::ptr::null_mut()) }.into()).map(drop)
    }

    /// Removes the object; a segment goes when no process has it attached any more.
    ///
    /// # Errors
    /// When it is gone, or belongs to another user.
    pub fn remove(&self) -> io::Result<()> {
        // SAFETY: plain numbers, and no address is used.
        check(i64::from(unsafe {
            match self.kind {
                SystemVKind::Segment => libc::shmctl(self.id, libc::IPC_RMID, std::ptr::null_mut()),
                SystemVKind::Semaphores => libc::semctl(self.id, 0, libc::IPC_RMID),
                SystemVKind::Messages => libc::msgctl(self.id, libc::IPC_RMID, std::ptr::null_mut()),
            }
        }))
        .map(drop)
    }
}

/// The limits of an IPC namespace; a new one has the kernel's defaults.
#[derive(Debug)]
pub struct Limits(Vec<(&'static str, Vec<u8>)>);

impl Limits {
    const FILES: [&'static str; 9] = [
        "/proc/sys/kernel/shmmax",
        "/proc/sys/kernel/shmall",
        "/proc/sys/kernel/shmmni",
        "/proc/sys/kernel/sem",
        "/proc/sys/kernel/msgmax",
        "/proc/sys/kernel/msgmnb",
        "/proc/sys/kernel/msgmni",
        "/proc/sys/fs/mqueue/msg_max",
        "/proc/sys/fs/mqueue/msgsize_max",
    ];

    /// Reads the limits of the caller's namespace.
    pub fn here() -> Self {
        Self(Self::FILES.into_iter().filter_map(|path| Some((path, fs::read(path).ok()?))).collect())
    }

    /// Sets the limits in the caller's namespace if that is allowed. If a required limit cannot be set, making an
    /// object fails.
    pub fn set(&self) {
        for (path, value) in &self.0 {
            if fs::read(path).is_ok_and(|now| now != *value) {
                let _ = fs::write(path, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SystemVObject, queue_contents, same_undo_list, semaphores, with_undo_list};
    use super::*;
    use crate::Pid;

    fn found(made: Made) -> SystemVObject {
        SystemVObject::all().unwrap().into_iter().find(|it| (it.kind, it.id) == (made.kind, made.id)).unwrap()
    }

    fn new(kind: SystemVKind, size: u64) -> Made {
        NewObject { kind, id: None, key: 0, size }.make().unwrap()
    }

    #[test]
    fn scanning_leaves_messages_in_the_queue_in_order() {
        let queue = new(SystemVKind::Messages, 0);
        let messages = [(3, b"three".to_vec()), (1, Vec::new()), (3, vec![7; 100])];
        messages.iter().for_each(|(kind, text)| queue.send(*kind, text).unwrap());
        queue.finish(0o640, found(queue).user, found(queue).group, Some(5000)).unwrap();
        let looks = [(); 2].map(|()| queue_contents(&found(queue)));
        let told = found(queue);
        queue.remove().unwrap();
        for look in looks {
            let look = look.unwrap();
            assert_eq!((look.bytes_max, look.messages.as_slice()), (5000, &messages[..]));
        }
        assert_eq!((told.permissions(), told.size), (0o640, 105));
    }

    #[test]
    fn semaphore_values_are_read_with_the_pid_that_set_them() {
        let set = new(SystemVKind::Semaphores, 3);
        set.set_values(&[5, 0, 32767]).unwrap();
        let seen = semaphores(&found(set));
        set.remove().unwrap();
        let seen = seen.unwrap();
        assert_eq!(seen.iter().map(|it| it.value).collect::<Vec<_>>(), [5, 0, 32767]);
        assert!(seen.iter().all(|it| it.user == Pid::own()));
        assert!(set.set_values(&[0; 3]).is_err(), "it is gone");
    }

    #[test]
    fn a_segment_is_read_and_written_and_its_holes_are_known() {
        let segment = new(SystemVKind::Segment, 5 * 4096 + 10);
        let attached = super::super::AttachedSegment::attach(segment.id, 5 * 4096 + 10, true);
        segment.remove().unwrap();
        let attached = attached.unwrap();
        attached.write(2 * 4096 + 1, b"here");
        attached.write(5 * 4096 + 8, b"end of it");
        let mut bytes = [1u8; 6];
        attached.read(2 * 4096, &mut bytes);
        assert_eq!(&bytes, b"\0here\0");
        assert_eq!(attached.resident().unwrap(), [false, false, true, false, false, true]);
        attached.read(5 * 4096 + 8, &mut bytes);
        assert_eq!(&bytes, b"en\0\0\0\0");
    }

    #[test]
    fn only_a_process_that_created_threads_may_have_an_undo_list() {
        let own = Pid::own().main_thread();
        std::thread::spawn(|| {}).join().unwrap();
        assert_eq!(with_undo_list(&[own]).unwrap(), [own]);
        assert!(same_undo_list(own, own).unwrap());
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let found = with_undo_list(&[Pid::new(child.id() as i32).main_thread()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found.unwrap(), []);
    }
}
