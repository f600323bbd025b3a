//! What waits in a pipe, copied without being taken, and how a record says it: packets (`O_DIRECT`) and bytes that were
//! written without packet mode. The kernel does not tell them apart, but reads do. A read ends with the first packet that
//! it meets, and what it leaves of that packet is gone.

use standfast_format::records::PipeContents;
use standfast_linux::abi::POLLOUT;
use standfast_linux::sys::descriptors::{ready_events, unread_bytes};
use standfast_linux::sys::process::{pipe_capacity, set_pipe_capacity, tee};
use std::borrow::Cow;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// Linux never lets a pipe hold more.
const PIPE_BYTES_MAX: usize = 1 << 31;

/// One packet, or bytes between packets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    pub(super) is_packet: bool,
}

/// Returns what waits in a pipe. `in_packets` tells whether packet mode is set now.
pub(super) fn pieces_in(pipe: BorrowedFd<'_>, in_packets: bool) -> io::Result<Vec<Piece<'static>>> {
    let mut pieces = Vec::new();
    if unread_bytes(pipe)? == 0 {
        return Ok(pieces);
    }
    let mut copy = Copied::of(pipe)?;
    copy.mark();
    let mut taken = 0;
    while let Some(read) = copy.read(in_packets)? {
        let bytes = read.bytes;
        let before = if read.ends_with_packet { bytes_before_packet(pipe, taken, bytes.len())? } else { bytes.len() };
        taken += bytes.len();
        let (ordinary, packet) = bytes.split_at(before);
        let parts = [(ordinary, false), (packet, true)].into_iter().filter(|(part, _)| !part.is_empty());
        pieces.extend(parts.map(|(part, is_packet)| Piece { bytes: part.to_vec().into(), is_packet }));
    }
    Ok(pieces)
}

/// Returns how many bytes the last packet follows in what one read returns: a read of that many leaves all others, and
/// a longer one loses the rest of the packet. That read begins after `taken` bytes, and returns `length`.
fn bytes_before_packet(pipe: BorrowedFd<'_>, taken: usize, length: usize) -> io::Result<usize> {
    let leaves_all_others = |bytes: usize| -> io::Result<bool> {
        let mut copy = Copied::of(pipe)?;
        copy.skip(taken)?;
        let waiting = unread_bytes(copy.reader.as_fd())?;
        copy.take(bytes)?;
        Ok(unread_bytes(copy.reader.as_fd())? == waiting - bytes)
    };
    // Most often all of it is the packet.
    if length == 1 || !leaves_all_others(1)? {
        return Ok(0);
    }
    // A read of `few` leaves all others, one of `many` does not, or is the whole.
    let (mut few, mut many) = (1, length);
    while many - few > 1 {
        let middle = few + (many - few) / 2;
        if leaves_all_others(middle)? { few = middle } else { many = middle }
    }
    Ok(few)
}

/// What one read of a copy returned.
struct OneRead {
    bytes: Vec<u8>,
    ends_with_packet: bool,
}

/// A pipe of our own with the same contents, made by tee(2).
struct Copied {
    reader: PipeReader,
    writer: PipeWriter,
    /// How many bytes of the contents wait in it.
    left: usize,
    /// A byte that we have added after the contents waits in it. A read reaches it unless a packet ends that read.
    is_marked: bool,
}

impl Copied {
    fn of(pipe: BorrowedFd<'_>) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let capacity = pipe_capacity(pipe)?;
        // A pipe larger than the system allows us to make cannot be copied; the program made it with more rights.
        if pipe_capacity(writer.as_fd())? < capacity {
            set_pipe_capacity(writer.as_fd(), capacity)?;
        }
        let left = tee(pipe, writer.as_fd(), PIPE_BYTES_MAX)?;
        Ok(Self { reader, writer, left, is_marked: false })
    }

    /// Adds a byte after the contents. A pipe that is full and as large as the system allows has no room for it.
    fn mark(&mut self) {
        let is_full = !ready_events(self.writer.as_fd(), POLLOUT).is_ok_and(|ready| ready & POLLOUT != 0);
        let has_room = !is_full || {
            let capacity = pipe_capacity(self.writer.as_fd()).unwrap_or(u32::MAX);
            set_pipe_capacity(self.writer.as_fd(), capacity.saturating_mul(2)).is_ok()
        };
        self.is_marked = has_room && self.writer.write_all(&[0]).is_ok();
    }

    /// Returns what the next read returns. `in_packets` is believed of the last one if there is no mark.
    fn read(&mut self, in_packets: bool) -> io::Result<Option<OneRead>> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut bytes = self.take(self.left + usize::from(self.is_marked))?;
        let has_mark = bytes.len() > self.left;
        bytes.truncate(self.left);
        self.left -= bytes.len();
        let ends_with_packet = if self.is_marked { !has_mark } else { self.left > 0 || in_packets };
        Ok(Some(OneRead { bytes, ends_with_packet }))
    }

    fn skip(&mut self, bytes: usize) -> io::Result<()> {
        let mut skipped = 0;
        while skipped < bytes {
            skipped += self.take(bytes - skipped)?.len();
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> io::Result<Vec<u8>> {
        let mut room = vec![0u8; bytes];
        let length = self.reader.read(&mut room)?;
        room.truncate(length);
        Ok(room)
    }
}

/// Returns the record of what waits in a pipe.
pub(super) fn recorded(pieces: &[Piece<'_>]) -> PipeContents {
    let contents: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes.iter().copied()).collect();
    let mut record = PipeContents { contents: contents.into(), ..PipeContents::default() };
    if pieces.iter().any(|piece| piece.is_packet) {
        record.packets = pieces.iter().map(|piece| piece.bytes.len() as u32).collect();
        let ordinary = (0..).zip(pieces).filter(|(_, piece)| !piece.is_packet).map(|(place, _)| place);
        record.between_packets = Some(ordinary.collect()).filter(|places: &Vec<u32>| !places.is_empty());
    }
    record
}

/// Returns the pieces in a record.
pub(super) fn pieces_of(pipe: &PipeContents) -> Vec<Piece<'_>> {
    let mut rest = &pipe.contents.0[..];
    let ordinary = pipe.between_packets.as_deref().unwrap_or_default();
    let mut pieces = Vec::with_capacity(pipe.packets.len() + 1);
    for (place, length) in (0..).zip(&pipe.packets) {
        let (piece, after) = rest.split_at((*length as usize).min(rest.len()));
        pieces.push(Piece { bytes: piece.into(), is_packet: !ordinary.contains(&place) });
        rest = after;
    }
    pieces.push(Piece { bytes: rest.into(), is_packet: false });
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_setfl};

    /// The kernel adds a packet to a page of bytes if it fits there, so none of these does.
    fn filled(writes: &[(usize, bool)]) -> (PipeReader, PipeWriter) {
        let (reader, mut writer) = io::pipe().unwrap();
        for ((length, is_packet), byte) in writes.iter().zip(b'a'..) {
            fcntl_setfl(&writer, if *is_packet { OFlags::DIRECT } else { OFlags::empty() }).unwrap();
            writer.write_all(&vec![byte; *length]).unwrap();
        }
        (reader, writer)
    }

    #[test]
    fn packets_and_bytes_between_them_are_distinguished() {
        for writes in [
            &[][..],
            &[(1, false)],
            &[(1, true)],
            &[(3, true), (1, true)],
            &[(5000, false), (4000, true), (1, false), (4096, true), (1, true)],
            &[(1, false), (4096, true)],
            &[(1, false), (4096, true), (2000, false)],
            &[(4096, false), (1, true), (2, true), (1, false)],
            &[(65536, false)],
        ] {
            let (reader, _writer) = filled(writes);
            let pieces = pieces_in(reader.as_fd(), true).unwrap();
            let found: Vec<_> = pieces.iter().map(|piece| (piece.bytes.len(), piece.is_packet)).collect();
            assert_eq!(found, writes);
            let record = recorded(&pieces);
            let again: Vec<_> = pieces_of(&record).into_iter().filter(|piece| !piece.bytes.is_empty()).collect();
            assert_eq!(again, pieces);
        }
    }
}
