//! The thread that looks for a notice again and again, until there is one.

use super::WatchNotice;
use crate::shell_command::run_in_shell;
use standfast_engine::hold_child_signal;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Time between two looks. The shortest notice is that of 30 s.
const PAUSE: Duration = Duration::from_secs(2);

/// What a watcher has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The machine is about to be taken away.
    Notice(String),
    /// It could not be looked for. The watcher goes on.
    Nothing {
        /// Why.
        reason: String,
    },
}

/// Watches in a thread of its own, which ends with this process.
#[derive(Debug)]
pub(crate) struct Watcher {
    news: Receiver<Seen>,
    /// Readable when there is news.
    readable: PipeReader,
}

impl Watcher {
    /// Begins to watch.
    pub(crate) fn begin(watched: WatchNotice) -> io::Result<Self> {
        let (readable, mut written) = io::pipe()?;
        let (sender, news) = channel();
        // The event loop handles SIGCHLD.
        let was_held = hold_child_signal(true);
        let thread = thread::Builder::new().name("notices".into()).spawn(move || {
            watch(&watched, &sender, || drop(written.write_all(&[0])));
        });
        hold_child_signal(was_held);
        thread.map(|_| Self { news, readable })
    }

    /// Returns what has been seen since the last call. Call it when the descriptor is readable.
    pub(crate) fn take(&mut self) -> Vec<Seen> {
        // If the thread has ended, the pipe stays readable and there is nothing more.
        let _ = self.readable.read(&mut [0]);
        self.news.try_iter().collect()
    }
}

impl AsFd for Watcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

/// Looks until there is a notice or nobody listens. A reason why that is impossible is reported when it is new.
fn watch(watched: &WatchNotice, sender: &Sender<Seen>, mut wake: impl FnMut()) {
    let mut reported = None;
    loop {
        let seen = match look(watched) {
            Ok(None) => {
                reported = None;
                thread::sleep(PAUSE);
                continue;
            }
            Ok(Some(notice)) => Seen::Notice(notice),
            Err(error) => Seen::Nothing { reason: error.to_string() },
        };
        let is_end = matches!(seen, Seen::Notice(_));
        if reported.as_ref() != Some(&seen) {
            reported = Some(seen.clone());
            if sender.send(seen).is_err() {
                return;
            }
            wake();
        }
        if is_end {
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// Looks once.
fn look(watched: &WatchNotice) -> io::Result<Option<String>> {
    match watched {
        WatchNotice::Cloud(cloud) => cloud.notice(),
        WatchNotice::File(path) => Ok(path.try_exists()?.then(|| format!("{} exists", path.display()))),
        WatchNotice::Command(command) => {
            Ok(run_in_shell(command, &[])?.success().then(|| format!("the command '{command}' succeeded")))
        }
    }
}
