//! A conversation between a part and the coordinator: lines of JSON over a socket, one side at a time.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// One side of a conversation.
#[derive(Debug)]
pub(crate) struct Conversation {
    reader: BufReader<Chain<Cursor<Vec<u8>>, UnixStream>>,
    writer: UnixStream,
}

impl Conversation {
    /// Begins one over a connection whose calls block. The other side may be silent for `patience`.
    pub(crate) fn begin(stream: UnixStream, patience: Duration) -> io::Result<Self> {
        Self::begin_after(Vec::new(), stream, patience)
    }

    /// Does the same when something that the other side has said was read already.
    pub(crate) fn begin_after(said: Vec<u8>, stream: UnixStream, patience: Duration) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(patience))?;
        Ok(Self { writer: stream.try_clone()?, reader: BufReader::new(Cursor::new(said).chain(stream)) })
    }

    /// Lets the other side be silent for `patience` from now on.
    pub(crate) fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.writer.set_read_timeout(Some(patience))
    }

    /// Returns another handle of the connection.
    pub(crate) fn stream(&self) -> io::Result<UnixStream> {
        self.writer.try_clone()
    }

    /// Says something.
    pub(crate) fn say(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.writer.write_all(&line)
    }

    /// Waits for what the other side says.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(serde_json::from_str(&line)?),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::TimedOut.into()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_already_comes_first_and_silence_ends() {
        let (own, mut other) = UnixStream::pair().unwrap();
        let patience = Duration::from_millis(20);
        let mut conversation = Conversation::begin_after(b"1\n2".to_vec(), own, patience).unwrap();
        other.write_all(b"3\n4\n").unwrap();
        let heard: Vec<u32> = (0..3).map(|_| conversation.hear().unwrap()).collect();
        assert_eq!(heard, [1, 23, 4]);
        assert_eq!(conversation.hear::<u32>().unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(other);
        assert_eq!(conversation.hear::<u32>().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
