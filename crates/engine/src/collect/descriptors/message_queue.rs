//! Message queues of POSIX that the job has open. One that nobody has open is a file that nobody has open: it stays where
//! it is.

use super::{Known, Motion, Shown, Unsupported, Walk};
use crate::RefusalCode;
use crate::files::other_holder;
use standfast_format::records::{Bytes, OpenFileKind, PosixQueue, PriorityMessage};
use standfast_linux::OpenPosixQueue;
use standfast_linux::sys::file;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

const PERMISSIONS: u32 = 0o777;
const DELETED: &[u8] = b" (deleted)";

/// The queues found so far.
#[derive(Default)]
pub(super) struct Queues {
    pub(super) records: Vec<PosixQueue>,
    /// Their identities, in the same order.
    identities: Vec<(u64, u64)>,
}

impl Walk<'_> {
    /// A message queue, if it is one. The kernel shows it by its name alone, without a directory.
    pub(super) fn message_queue(&mut self, place: usize) -> Option<Known> {
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
            return Err(Unsupported::because(
                RefusalCode::MessageQueue,
                "the program was started with this message queue: others may share it",
            ));
        }
        let job: Vec<i32> = self.holders.iter().map(|holder| holder.pid).collect();
        if let Some(who) = other_holder(&job, |_, _, file| (file.dev(), file.ino()) == identity) {
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
