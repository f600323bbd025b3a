//! Waits while a job runs: for its launcher's end, signals, the time limit, and trouble that the launcher may not
//! notice. A launcher is first asked to end and killed after a while.

use super::launch::GroupEvent;
use super::progress::{Progress, Trouble};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use standfast_member::LaunchProgress;
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Time for a launcher to end before it is killed.
const GRACE: Duration = Duration::from_secs(30);
/// The same in case of trouble: there is little use in waiting for a launcher that waits for a lost node.
const GRACE_TROUBLE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Watcher {
    signals: Receiver<i32>,
    limit: Option<Instant>,
    /// Whether the job has been asked to end.
    asked: bool,
}

/// A launch that has ended.
#[derive(Debug)]
pub(super) struct EndedLaunch {
    pub(super) status: ExitStatus,
    /// Progress that it reached.
    pub(super) reached: Option<LaunchProgress>,
    /// Last error of one of its processes.
    pub(super) error: Option<String>,
    /// Trouble for which it was ended, if there was any.
    pub(super) trouble: Option<Trouble>,
}

/// A running launch.
#[derive(Debug)]
struct Launch {
    child: Child,
    trouble: Option<Trouble>,
    kill_at: Option<Instant>,
}

impl Watcher {
    pub(super) fn new(limit: Option<Duration>) -> io::Result<Self> {
        let mut signals = Signals::new([SIGCHLD, SIGTERM, SIGINT, SIGHUP])?;
        let (tell, told) = channel();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            signals.forever().take_while(|signal| tell.send(*signal).is_ok()).for_each(drop);
        })?;
        Ok(Self { signals: told, limit: limit.map(|limit| Instant::now() + limit), asked: false })
    }

    /// Reports whether the job has been asked to end, by a signal or by its time limit.
    pub(super) fn asked(&self) -> bool {
        self.asked
    }

    /// Waits for the launcher to end, passes signals on to it, and ends it in case of trouble.
    pub(super) fn watch(
        &mut self,
        child: Child,
        mut progress: Progress<'_>,
        listener: &mut dyn FnMut(&GroupEvent),
    ) -> io::Result<EndedLaunch> {
        let mut launch = Launch { child, trouble: None, kill_at: None };
        loop {
            if let Some(status) = launch.child.try_wait()? {
                let (reached, error) = (progress.reached(), progress.error());
                return Ok(EndedLaunch { status, reached, error, trouble: launch.trouble });
            }
            launch.kill_in_time()?;
            if !self.asked && self.limit.is_some_and(|limit| limit <= Instant::now()) {
                self.asked = true;
                launch.end(SIGTERM, GRACE);
            }
            let goes_on = !self.asked && launch.trouble.is_none();
            if goes_on && let Some(trouble) = progress.trouble() {
                listener(&GroupEvent::Trouble(trouble.clone()));
                launch.trouble = Some(trouble);
                launch.end(SIGTERM, GRACE_TROUBLE);
            }
            let limit = self.limit.filter(|_| !self.asked);
            let beat = (!self.asked && launch.trouble.is_none()).then(|| progress.next());
            match self.next([launch.kill_at, limit, beat].into_iter().flatten().min()) {
                None | Some(SIGCHLD) => {}
                Some(signal) => {
                    self.asked = true;
                    // A key of the terminal has signalled it already; a second signal does no harm.
                    launch.end(signal, GRACE);
                }
            }
        }
    }

    /// Returns the next signal; `None` if there is none until `moment`.
    fn next(&self, moment: Option<Instant>) -> Option<i32> {
        let Some(moment) = moment else { return self.signals.recv().ok() };
        self.signals.recv_timeout(moment.saturating_duration_since(Instant::now())).ok()
    }
}

impl Launch {
    /// Asks the launcher to end.
    fn end(&mut self, signal: i32, grace: Duration) {
        self.kill_at = Some(Instant::now() + grace);
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    fn kill_in_time(&mut self) -> io::Result<()> {
        match self.kill_at.take_if(|at| *at <= Instant::now()) {
            Some(_) => self.child.kill(),
            None => Ok(()),
        }
    }
}
