//! The supervisor's side of a terminal that is held for the job. It starts the holder, and makes it pause while a
//! checkpoint reads the data in flight.

use super::{SOCKET_NAME, holder};
use crate::Error;
use crate::control::SocketPlace;
use standfast_engine::TerminalHolder;
use standfast_linux::sys::process;
use standfast_linux::{Half, Pid, made_here, made_here_is_gone, split};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

/// Time for the holder to answer. The holder never waits for anything, but the machine may be busy.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A terminal of the job: its master, and the connection to its holder.
#[derive(Debug)]
pub(crate) struct HeldTerminal {
    /// The master, which the holder has too. While both are alive the terminal is not hung up.
    master: OwnedFd,
    connection: UnixStream,
    place: SocketPlace,
    process: Pid,
    /// Number of the last question, which distinguishes answers to earlier questions.
    question: AtomicU8,
}

impl HeldTerminal {
    /// Starts a holder for the terminal of the job in `directory`. Call it while this process is single-threaded, and
    /// has no signal handlers.
    pub(crate) fn start(directory: &Path, master: OwnedFd) -> Result<Self, Error> {
        Self::try_start(directory, master).map_err(Error::system("start a process that holds the program's terminal"))
    }

    fn try_start(directory: &Path, master: OwnedFd) -> io::Result<Self> {
        let place = SocketPlace::open(directory, SOCKET_NAME)?;
        let listener = place.listen()?;
        let (connection, theirs) = UnixStream::pair()?;
        connection.set_read_timeout(Some(ANSWER_MAX))?;
        match split()? {
            Half::Child => holder::hold(theirs, listener, master),
            Half::Parent { child, .. } => {
                made_here(child);
                // By then it has closed everything that is not its own, including the other side of the terminal.
                (&connection).read_exact(&mut [0])?;
                Ok(Self { master, connection, place, process: child, question: AtomicU8::new(0) })
            }
        }
    }

    /// Reaps the holder, which is gone.
    pub(crate) fn reap(&self) {
        // It may still be exiting, which takes no time.
        let _ = process::wait(self.process.main_thread(), 0);
        made_here_is_gone(self.process);
    }

    /// Returns the connection, which polls as hung up once the holder is gone.
    pub(crate) fn connection(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl TerminalHolder for HeldTerminal {
    fn master(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }

    fn hold_still(&self) -> io::Result<()> {
        let question = self.question.fetch_add(1, Relaxed);
        (&self.connection).write_all(&[holder::KEEP_STILL, question])?;
        let mut answer = [0];
        loop {
            (&self.connection).read_exact(&mut answer)?;
            if answer == [question] {
                return Ok(());
            }
        }
    }

    fn go_on(&self) {
        // A holder that is gone needs no message.
        let _ = (&self.connection).write_all(&[holder::GO_ON, 0]);
    }
}

impl Drop for HeldTerminal {
    fn drop(&mut self) {
        // Remove the socket, so that nobody finds a holder that is about to end.
        drop(self.place.remove());
    }
}
