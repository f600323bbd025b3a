//! Message queues of POSIX: made again under their names, in an IPC namespace of the job's own, with what was in them.

use super::Opening;
use crate::error::kernel;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_format::records::{JobState, PosixQueue};
use standfast_linux::OpenPosixQueue;
use std::ffi::CString;
use std::fs::Permissions;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

const O_RDWR: u32 = libc::O_RDWR as u32;
const O_CREAT: u32 = libc::O_CREAT as u32;
const O_EXCL: u32 = libc::O_EXCL as u32;
const OWNER_ONLY: u64 = 0o600;
/// `struct mq_attr`: flags, how many messages, how many bytes each, and five words more.
const ATTRIBUTE_WORDS: usize = 8;

impl Opening<'_> {
    /// Makes the message queues of the job, for their owner alone; parked.
    pub(super) fn make_queues(&mut self) -> Result<(), EngineError> {
        let made = self.plan.job.posix_queues.iter().map(|queue| self.make_queue(queue));
        self.queues = made.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn make_queue(&self, queue: &PosixQueue) -> Result<u64, EngineError> {
        let mut words = [0u64; ATTRIBUTE_WORDS];
        (words[1], words[2]) = (queue.messages_max, queue.bytes_max);
        let attributes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let address = self.process.argument(&[&attributes, &queue.name.0[..], b"\0"].concat())?;
        let name = address + attributes.len() as u64;
        let flags = u64::from(O_RDWR | O_CREAT | O_EXCL);
        let made = self.call("making it", libc::SYS_mq_open, [name, flags, OWNER_ONLY, address, 0, 0]);
        let made = made.map_err(|error| cannot_be_made(queue, &error.to_string()))?;
        if queue.unlinked {
            self.call("taking the name from a message queue", libc::SYS_mq_unlink, [name, 0, 0, 0, 0, 0])?;
        }
        let own = OpenPosixQueue::behind(self.own(made)?.as_fd())
            .map_err(|source| kernel("opening a message queue", source))?;
        for message in &queue.messages {
            own.send(message.priority, &message.text.0).map_err(|source| kernel("filling a message queue", source))?;
        }
        self.park(made)
    }

    /// Opens a queue once more.
    pub(super) fn open_queue(&self, queue: usize, flags: u32) -> Result<u64, EngineError> {
        let missing = || kernel("opening a message queue", std::io::ErrorKind::InvalidData.into());
        let number = self.queues.get(queue).ok_or_else(missing)?;
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

/// Takes the names from queues that the killed life of this job has left behind in our IPC namespace, where it was.
pub(in crate::restart) fn unlink_leftovers(job: &JobState) {
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
