//! POSIX message queues that the job has open. A queue that nobody has open is like a file that nobody has open: it
//! stays where it is. A restart makes open queues again under their names, in an IPC namespace of the job's own, with
//! their messages.

use super::shown::Shown;
use super::{Check, Kind, Known, Motion, O_CREAT, O_EXCL, O_LARGEFILE, O_RDWR, Opening, Recorded, Unsupported, Walk};
use crate::error::kernel;
use crate::files::{FileId, other_holder};
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{Bytes, JobState, OpenFile, OpenFileKind, PosixQueue, PriorityMessage};
use standfast_linux::abi;
use standfast_linux::sys::file;
use standfast_linux::{OpenPosixQueue, Pid};
use std::ffi::CString;
use std::fs::Permissions;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

const PERMISSIONS: u32 = 0o7777;
const DELETED: &[u8] = b" (deleted)";
const OWNER_ONLY: u64 = 0o600;
/// `struct mq_attr`: flags, how many messages, how many bytes each, and five words more.
const ATTRIBUTE_WORDS: usize = 8;

pub(super) const KIND: Kind = Kind { collect, check, restore, describe };

fn collect(walk: &mut Walk<'_>, place: usize) -> Option<Known> {
    walk.message_queue(place)
}

fn check(check: &mut Check<'_, '_>, file: &OpenFile) {
    if let OpenFileKind::MessageQueue { queue } = file.kind
        && queue as usize >= check.job.posix_queues.len()
    {
        check.add_missing_part("names a message queue");
    }
}

fn restore(opening: &Opening<'_>, recorded: &Recorded<'_>) -> Option<Result<u64, EngineError>> {
    let OpenFileKind::MessageQueue { queue } = recorded.kind else { return None };
    Some(opening.open_queue(*queue as usize, recorded.flags))
}

fn describe(kind: &OpenFileKind) -> Option<String> {
    let OpenFileKind::MessageQueue { queue } = kind else { return None };
    Some(format!("message queue {queue} of the job"))
}

/// The queues found so far.
#[derive(Default)]
pub(super) struct Queues {
    pub(super) records: Vec<PosixQueue>,
    /// Their identities, in the same order.
    identities: Vec<FileId>,
}

impl Walk<'_> {
    /// Returns a message queue, if it is one. The kernel shows it by its name alone, without a directory.
    fn message_queue(&mut self, place: usize) -> Option<Known> {
        let shown = &self.shown[place];
        let has_directory = shown.target.iter().filter(|byte| **byte == b'/').count() != 1;
        if has_directory || !shown.file.is_file() {
            return None;
        }
        match shown.own(&self.holders).and_then(|own| file::is_message_queue(own.as_fd())) {
            Ok(true) => Some(self.queue(place)),
            Ok(false) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    fn queue(&mut self, place: usize) -> Known {
        let identity = self.shown[place].identity();
        if let Some(queue) = self.queues.identities.iter().position(|known| *known == identity) {
            return Ok(OpenFileKind::MessageQueue { queue: queue as u32 });
        }
        let record = self.queue_record(&self.shown[place])?;
        self.queues.records.push(record);
        self.queues.identities.push(identity);
        Ok(OpenFileKind::MessageQueue { queue: self.queues.records.len() as u32 - 1 })
    }

    fn queue_record(&self, shown: &Shown) -> Result<PosixQueue, Unsupported> {
        let identity = shown.identity();
        if self.inheritance.others.iter().any(|(_, inherited)| *inherited == identity) {
            return Err(Unsupported::with_hint(
                RefusalCode::MessageQueue,
                "the program was started with this message queue: others may share it",
                "let the program open the queue itself",
            ));
        }
        let job: Vec<Pid> = self.holders.iter().map(|holder| holder.pid).collect();
        if let Some(who) = other_holder(&job, |_, _, file| FileId::of(file) == identity) {
            return Err(Unsupported::with_hint(
                RefusalCode::MessageQueue,
                format!("{who}, which is outside the program, has this message queue open as well"),
                "start both under one standfast run",
            ));
        }
        let cannot_be_read = |error| {
            Unsupported::with_hint(
                RefusalCode::MessageQueue,
                format!("its messages cannot be read ({error})"),
                "give its owner permission to read and write it",
            )
        };
        let queue = OpenPosixQueue::behind(shown.own(&self.holders)?.as_fd()).map_err(cannot_be_read)?;
        if queue.notifies()? {
            return Err(Unsupported::for_now(
                RefusalCode::MessageQueue,
                "a notification is registered for its next message (mq_notify)",
            ));
        }
        let limits = queue.limits()?;
        let messages = if self.motion == Motion::Running { Vec::new() } else { queue.messages()? };
        let name = shown.target.strip_suffix(DELETED).unwrap_or(&shown.target);
        let message = |(priority, text): (u32, Vec<u8>)| PriorityMessage { priority, text: text.into() };
        Ok(PosixQueue {
            name: Bytes::from(name.strip_prefix(b"/").unwrap_or(name)),
            unlinked: shown.file.nlink() == 0,
            mode: shown.file.mode() & PERMISSIONS,
            messages_max: limits.messages_max,
            bytes_max: limits.bytes_max,
            messages: messages.into_iter().map(message).collect(),
            inode: shown.file.ino(),
        })
    }
}

impl Opening<'_> {
    /// Makes the message queues of the job, accessible to their owner alone, and parks them.
    pub(super) fn make_queues(&mut self) -> Result<(), EngineError> {
        let queues = &self.plan.job.posix_queues;
        let mut made = vec![0; queues.len()];
        // Another queue may have got the name of one that was unlinked.
        for unlinked in [true, false] {
            for (queue, number) in queues.iter().zip(&mut made).filter(|(queue, _)| queue.unlinked == unlinked) {
                *number = self.make_queue(queue)?;
            }
        }
        self.queues = made;
        Ok(())
    }

    fn make_queue(&self, queue: &PosixQueue) -> Result<u64, EngineError> {
        let mut words = [0u64; ATTRIBUTE_WORDS];
        (words[1], words[2]) = (queue.messages_max, queue.bytes_max);
        let attributes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let address = self.process.argument(&[&attributes, &queue.name.0[..], b"\0"].concat())?;
        let name = address + attributes.len() as u64;
        let flags = u64::from(O_RDWR | O_CREAT | O_EXCL);
        let made = self.call("making it", abi::SYS_mq_open, [name, flags, OWNER_ONLY, address, 0, 0]);
        let made = made.map_err(|error| cannot_be_made(queue, &error.to_string()))?;
        if queue.unlinked {
            self.call("taking the name from a message queue", abi::SYS_mq_unlink, [name, 0, 0, 0, 0, 0])?;
        }
        let own = OpenPosixQueue::behind(self.own(made)?.as_fd())
            .map_err(|source| kernel("opening a message queue", source))?;
        for message in &queue.messages {
            own.send(message.priority, &message.text.0).map_err(|source| kernel("filling a message queue", source))?;
        }
        self.park(made)
    }

    /// Opens a queue once more.
    fn open_queue(&self, queue: usize, flags: u32) -> Result<u64, EngineError> {
        const OPENING: &str = "opening a message queue";
        let missing = || kernel(OPENING, std::io::ErrorKind::InvalidData.into());
        let mut queues = self.plan.job.posix_queues.iter().zip(&self.queues);
        let (recorded, number) = queues.nth(queue).ok_or_else(missing)?;
        if flags & O_LARGEFILE == 0 && !recorded.unlinked {
            let name = self.process.path_argument(&recorded.name.0)?;
            return self.call(OPENING, abi::SYS_mq_open, [name, flags.into(), 0, 0, 0, 0]);
        }
        self.open_path(format!("/proc/self/fd/{number}").as_bytes(), flags)
    }

    /// Gives queues their permissions, which may be less than their owner needed to open them.
    pub(super) fn finish_queues(&self) -> Result<(), EngineError> {
        for (queue, number) in self.plan.job.posix_queues.iter().zip(&self.queues) {
            let own = std::fs::File::from(self.own(*number)?);
            own.set_permissions(Permissions::from_mode(queue.mode))
                .map_err(|source| kernel("setting permissions", source))?;
        }
        Ok(())
    }
}

fn cannot_be_made(queue: &PosixQueue, why: &str) -> EngineError {
    EngineError::Refused(vec![
        Blocker::new(
            RefusalCode::SystemVLimits,
            format!("message queue /{}", queue.name),
            format!("it cannot be made again here: {why}"),
        )
        .with_hint(
            "raise the limits (sysctl fs.mqueue.msg_max, fs.mqueue.msgsize_max; ulimit -q), or restart it as root",
        ),
    ])
}

/// Unlinks queues that the killed life of this job has left in our IPC namespace, if it was there.
pub(crate) fn unlink_leftovers(job: &JobState) {
    for queue in job.posix_queues.iter().filter(|queue| !queue.unlinked) {
        let Ok(name) = CString::new(queue.name.0.clone()) else { continue };
        let same = OpenPosixQueue::named(&name).and_then(|there| {
            let file = std::fs::File::from(there.as_fd().try_clone_to_owned()?);
            Ok(file.metadata()?.ino() == queue.inode)
        });
        if same.unwrap_or(false) {
            let _ = OpenPosixQueue::unlink(&name);
        }
    }
}
