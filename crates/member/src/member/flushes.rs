//! Copies of epochs to a directory on disk: begins them, and learns when they are complete.

use super::{Copies, Member};
use crate::directory::Flush;
use crate::driver_message::DriverMessage;
use crate::error::MemberError;
use crate::transport::Transport;
use standfast_group::{EpochId, LogicalRank, ShardId};

impl<T: Transport> Member<T> {
    /// Reports to the first process that a copy has ended.
    pub(super) fn report_flush(&mut self) -> Result<(), MemberError> {
        let Some(flush) = self.copies.flush.take_if(|flush| flush.is_done()) else { return Ok(()) };
        let failure = flush.end().err().map(|error| error.to_string());
        self.wire.send_driver(0, &DriverMessage::Flushed(failure))
    }

    /// Begins to copy an epoch to the directory, if one is due and all processes are done with the last copy.
    pub(super) fn flush(&mut self, epoch: EpochId) -> Result<(), MemberError> {
        let Copies { directory: Some(directory), every, encoded, .. } = &self.copies else { return Ok(()) };
        if *every == 0 || epoch.number / every == encoded / every {
            return Ok(());
        }
        let directory = directory.clone();
        if self.wire.rank() == 0 {
            self.hear_of_flushes();
            let goes = self.copies.awaited == 0;
            self.wire.send_driver_to_all(&DriverMessage::Flush(goes))?;
        }
        let goes = self.wire.message_of(|message| match message {
            DriverMessage::Flush(goes) => Some(*goes),
            _ => None,
        })?;
        if goes {
            self.copies.awaited = self.wire.ranks();
            let copy = self.shard_store.copy(ShardId { epoch, logical_rank: LogicalRank(self.wire.rank()) });
            match Flush::begin(&directory, copy, &self.directory) {
                Ok(flush) => self.copies.flush = Some(flush),
                Err(error) => self.wire.send_driver(0, &DriverMessage::Flushed(Some(error.to_string())))?,
            }
        }
        Ok(())
    }

    /// Counts the copies that other processes have reported to the first process as ended.
    pub(super) fn hear_of_flushes(&mut self) {
        let ended = |message: &DriverMessage| match message {
            DriverMessage::Flushed(failure) => Some(failure.clone()),
            _ => None,
        };
        while let Some(failure) = self.wire.message_here(ended) {
            self.copies.awaited -= 1;
            let warning = failure.map(|reason| format!("an epoch in the directory is incomplete: {reason}"));
            self.arrangement.warnings.extend(warning);
        }
    }
}
