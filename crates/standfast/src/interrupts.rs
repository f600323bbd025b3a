//! Signals that end a wait before the program runs: for the end of an earlier life, or for an address.

use crate::Error;
use crate::settings::{JobOptions, NoticeMeaning, SignalNotices};
use crate::terminal::ForegroundConnection;
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Exit status if nothing says that the job is to be continued later.
const FAILED: u8 = 1;
/// Signals that end a wait without a notice.
const USUAL: [i32; 4] = [SIGTERM, SIGINT, SIGQUIT, SIGHUP];

/// What may end a wait of `run` or `restart`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Interrupts<'a> {
    /// The foreground proxy, which receives the signals. Without it nothing ends a wait.
    proxy: Option<&'a ForegroundConnection>,
    notices: SignalNotices,
    stopped_status: u8,
}

impl<'a> Interrupts<'a> {
    /// Returns what may end a wait for a life with these options.
    pub(crate) fn of(proxy: Option<&'a ForegroundConnection>, options: &JobOptions) -> Self {
        Self { proxy, notices: options.notice, stopped_status: options.stopped_status.get() }
    }

    /// Returns [`Error::CalledOff`] if such a signal has come.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let received = self.proxy.map(ForegroundConnection::waiting_signals).unwrap_or_default();
        match received.into_iter().find(|signal| ends_a_wait(*signal, &self.notices)) {
            Some(signal) => Err(Error::CalledOff { signal, exit_status: self.exit_status(signal) }),
            None => Ok(()),
        }
    }

    /// Returns the exit status of a command that this signal has ended. A signal that would have stopped the running
    /// job has stopped it here: a batch system is to queue it again.
    fn exit_status(&self, signal: i32) -> u8 {
        match self.notices.meaning(signal) {
            Some(NoticeMeaning::Stop) => self.stopped_status,
            _ => FAILED,
        }
    }
}

fn ends_a_wait(signal: i32, notices: &SignalNotices) -> bool {
    match notices.meaning(signal) {
        Some(meaning) => meaning == NoticeMeaning::Stop,
        None => USUAL.contains(&signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::signal::{SIGUSR1, SIGUSR2};

    fn interrupts(notices: &[&str]) -> Interrupts<'static> {
        let options = JobOptions { stopped_status: "85".parse().unwrap(), ..JobOptions::default() };
        let notice = notices.iter().fold(options.notice, |all, notice| all.with(notice.parse().unwrap()));
        Interrupts::of(None, &JobOptions { notice, ..options })
    }

    #[test]
    fn a_signal_ends_a_wait_if_it_would_stop_or_end_the_job() {
        let it = interrupts(&["USR1=stop", "INT=ignore", "HUP=checkpoint"]);
        let ends = |signal| ends_a_wait(signal, &it.notices);
        assert_eq!([SIGTERM, SIGUSR1, SIGQUIT].map(ends), [true; 3]);
        assert_eq!([SIGINT, SIGHUP, SIGUSR2].map(ends), [false; 3]);
    }

    #[test]
    fn a_job_that_would_have_been_stopped_is_to_be_queued_again() {
        let it = interrupts(&["USR1=stop"]);
        assert_eq!([SIGTERM, SIGUSR1, SIGQUIT].map(|signal| it.exit_status(signal)), [85, 85, FAILED]);
    }
}
