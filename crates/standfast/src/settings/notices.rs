//! The option that says what signals to the supervisor mean, as batch systems send them before they end a job.

use super::option_kinds::{Kept, OptionError};
use serde::{Serialize, Serializer};
use signal_hook::consts::signal::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};
use signal_hook::low_level::signal_name;
use standfast_format::{manifest, words};
use std::fmt;
use std::str::FromStr;

/// Signals with a name that can be a notice. The others are sent by the kernel, by job control or by faults, and cannot
/// be told apart from a notice.
const NAMED: [i32; 8] = [SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGXCPU];

/// The first signal without a name. The C library keeps the two below it for itself.
const REAL_TIME_MIN: i32 = 34;

/// The last signal.
const SIGNAL_MAX: i32 = 64;

words! {
    /// What a signal to the supervisor means.
    NoticeMeaning, "is not a meaning of a signal",
    /// Take a checkpoint, and stop the program.
    #[default]
    Stop = "stop",
    /// Take a checkpoint.
    Checkpoint = "checkpoint",
    /// The signal is for the program.
    Pass = "pass",
    /// Nothing.
    Ignore = "ignore",
}

/// All meanings, in the order of their sets in [`SignalNotices`].
const MEANINGS: [NoticeMeaning; 4] =
    [NoticeMeaning::Stop, NoticeMeaning::Checkpoint, NoticeMeaning::Pass, NoticeMeaning::Ignore];

/// One signal and what it means: `USR1=checkpoint`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalNotice {
    signal: i32,
    meaning: NoticeMeaning,
}

impl SignalNotice {
    /// Makes a notice of a signal's number and its meaning.
    #[cfg(test)]
    pub(crate) fn new(signal: i32, meaning: NoticeMeaning) -> Self {
        Self { signal, meaning }
    }
}

impl FromStr for SignalNotice {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let remedy = "write a signal and its meaning (USR1=checkpoint, TERM=stop)";
        let (signal, meaning) =
            text.split_once('=').ok_or_else(|| OptionError::new(text, "is not a notice", remedy))?;
        Ok(Self { signal: parse_signal(signal)?, meaning: meaning.parse()? })
    }
}

impl fmt::Display for SignalNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match signal_name(self.signal) {
            Some(name) => write!(f, "{}={}", name.trim_start_matches("SIG"), self.meaning),
            None => write!(f, "RTMIN+{}={}", self.signal - REAL_TIME_MIN, self.meaning),
        }
    }
}

/// Parses a signal as shells name it: `USR1`, `SIGUSR1`, `10`, `RTMIN+3`.
fn parse_signal(text: &str) -> Result<i32, OptionError> {
    let bare = text.strip_prefix("SIG").unwrap_or(text);
    let real_time = |rest: &str| match rest {
        "" => Some(0),
        rest => rest.strip_prefix('+')?.parse::<i32>().ok().filter(|offset| *offset >= 0),
    };
    let number = match bare.strip_prefix("RTMIN") {
        Some(rest) => real_time(rest).and_then(|offset| REAL_TIME_MIN.checked_add(offset)),
        None => {
            let is_called =
                |signal: &i32| signal_name(*signal).is_some_and(|name| name.trim_start_matches("SIG") == bare);
            (1..REAL_TIME_MIN).find(is_called).or_else(|| text.parse().ok())
        }
    };
    let is_possible = |signal: &i32| NAMED.contains(signal) || (REAL_TIME_MIN..=SIGNAL_MAX).contains(signal);
    number.filter(is_possible).ok_or_else(|| {
        OptionError::new(
            text,
            "is not a signal that can be a notice",
            "write HUP, INT, QUIT, USR1, USR2, ALRM, TERM, XCPU, or RTMIN+N",
        )
    })
}

/// What each signal to the supervisor means. Signals without a notice are for the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalNotices {
    /// For each of [`MEANINGS`] the signals with that meaning: bit n is signal n + 1.
    signals: [u64; MEANINGS.len()],
}

impl SignalNotices {
    /// Returns what a signal means; `None` without a notice.
    pub(crate) fn meaning(&self, signal: i32) -> Option<NoticeMeaning> {
        let bit = bit(signal);
        let found = std::iter::zip(MEANINGS, self.signals).find(|(_, signals)| signals & bit != 0);
        found.map(|(meaning, _)| meaning)
    }

    /// Returns these notices with one more, which replaces an earlier one of the same signal.
    pub(crate) fn with(mut self, notice: SignalNotice) -> Self {
        for (meaning, signals) in std::iter::zip(MEANINGS, &mut self.signals) {
            *signals &= !bit(notice.signal);
            if meaning == notice.meaning {
                *signals |= bit(notice.signal);
            }
        }
        self
    }

    fn each(&self) -> impl Iterator<Item = SignalNotice> {
        let of = |signal| self.meaning(signal).map(|meaning| SignalNotice { signal, meaning });
        (1..=SIGNAL_MAX).filter_map(of)
    }
}

fn bit(signal: i32) -> u64 {
    u32::try_from(signal - 1).ok().and_then(|shift| 1_u64.checked_shl(shift)).unwrap_or(0)
}

impl Default for SignalNotices {
    /// Returns what batch systems and service managers expect: SIGTERM stops.
    fn default() -> Self {
        Self { signals: [0; MEANINGS.len()] }.with(SignalNotice { signal: SIGTERM, meaning: NoticeMeaning::Stop })
    }
}

impl From<Vec<SignalNotice>> for SignalNotices {
    /// Adds the notices to the default, in their order.
    fn from(notices: Vec<SignalNotice>) -> Self {
        notices.into_iter().fold(Self::default(), Self::with)
    }
}

impl fmt::Display for SignalNotices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.each().map(|notice| notice.to_string()).collect::<Vec<_>>().join(", "))
    }
}

impl Serialize for SignalNotices {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.each().map(|notice| notice.to_string()))
    }
}

impl Kept for SignalNotices {
    type Record = manifest::Notices;

    fn to_record(self) -> Option<Self::Record> {
        let [stop, checkpoint, pass, ignore] = self.signals;
        Some(Self::Record { stop, checkpoint, pass, ignore })
    }

    fn from_record(record: Self::Record) -> Option<Self> {
        let Self::Record { stop, checkpoint, pass, ignore } = record;
        let signals = [stop, checkpoint, pass, ignore];
        // A signal has one meaning.
        let sum = signals.iter().fold(0_u32, |sum, signals| sum + signals.count_ones());
        let is_clear = sum == signals.iter().fold(0, |all, signals| all | signals).count_ones();
        is_clear.then_some(Self { signals })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notices(texts: &[&str]) -> SignalNotices {
        texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SignalNotice>>().into()
    }

    #[test]
    fn signals_are_named_as_in_a_shell() {
        for (text, signal) in [("USR1", SIGUSR1), ("SIGUSR1", SIGUSR1), ("10", SIGUSR1), ("RTMIN+3", 37), ("RTMIN", 34)]
        {
            assert_eq!(parse_signal(text), Ok(signal), "{text}");
        }
        for text in ["", "KILL", "SIGSTOP", "CHLD", "SEGV", "usr1", "0", "-1", "65", "RTMIN+31", "RTMIN-1", "33"] {
            assert!(parse_signal(text).is_err(), "{text}");
        }
    }

    #[test]
    fn malformed_notices_are_refused_with_what_to_write() {
        for (text, wanted) in [("USR1", "USR1=checkpoint"), ("=stop", "RTMIN+N"), ("USR1=halt", "'checkpoint'")] {
            let refused = text.parse::<SignalNotice>().expect_err(text).to_string();
            assert!(refused.contains(wanted), "{refused}");
        }
    }

    #[test]
    fn a_later_notice_of_a_signal_replaces_an_earlier_one() {
        let told = notices(&["USR1=checkpoint", "USR2=stop", "USR1=ignore", "RTMIN+1=stop"]);
        assert_eq!(told.to_string(), "USR1=ignore, USR2=stop, TERM=stop, RTMIN+1=stop");
        assert_eq!(told.meaning(SIGTERM), Some(NoticeMeaning::Stop));
        assert_eq!(told.meaning(SIGHUP), None);
        assert_eq!(notices(&["TERM=pass"]).meaning(SIGTERM), Some(NoticeMeaning::Pass));
    }

    #[test]
    fn a_record_with_two_meanings_of_a_signal_is_rejected() {
        let told = notices(&["RTMIN+30=checkpoint", "HUP=pass"]);
        assert_eq!(told.to_record().and_then(SignalNotices::from_record), Some(told));
        let record = manifest::Notices { stop: 1, checkpoint: 1, pass: 0, ignore: 0 };
        assert_eq!(SignalNotices::from_record(record), None);
    }
}
