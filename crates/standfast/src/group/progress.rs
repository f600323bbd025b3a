//! The progress of a launch, and signs that it will not continue although its launcher stays. Such signs are a lost
//! node, an ended process, processes that do not join in time, and processes that left long ago. The module checks
//! periodically; it kills no processes.

use super::connections::Connections;
use super::ranks::Ranks;
use standfast_member::{LaunchProgress, read_error};
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Pause between two checks.
const BEAT: Duration = Duration::from_secs(2);

/// Limits of the wait for a launcher; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaunchLimits {
    /// Time until all processes have joined.
    pub start: Option<Duration>,
    /// Time after one of them has ended before all have left.
    pub loss: Option<Duration>,
    /// Time after all of them have left.
    pub finish: Option<Duration>,
}

/// Why a launch is ended although its launcher still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// These nodes do not answer any more.
    Nodes(Vec<String>),
    /// Not all processes have joined within this time.
    Start(Duration),
    /// A process has ended at least this long ago.
    Loss(Duration),
    /// All processes left at least this long ago.
    Finish(Duration),
}

/// Describes the trouble of a launch.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(nodes) => write!(f, "{} no longer answers", nodes.join(", ")),
            Self::Start(limit) => write!(f, "not all of its processes have joined in {limit:?} (--start-limit)"),
            Self::Loss(limit) => {
                write!(f, "one of its processes has ended, and the launcher has not ended for {limit:?} (--loss-limit)")
            }
            Self::Finish(limit) => {
                write!(
                    f,
                    "all of its processes have left the group, and the launcher has not ended for {limit:?} (--finish-limit); "
                )?;
                write!(f, "its results may be complete, and there is nothing to continue from")
            }
        }
    }
}

/// Progress of one launch.
#[derive(Debug)]
pub(super) struct Progress<'n> {
    limits: LaunchLimits,
    connections: Connections<'n>,
    /// Ranks on this node, if there are no connections.
    ranks: Option<Ranks>,
    launch_progress: PathBuf,
    next: Instant,
    begun: Instant,
    ended: Option<Instant>,
    left: Option<Instant>,
}

impl<'n> Progress<'n> {
    /// Makes the progress of a launch that begins now and records its progress in the file `launch_progress`.
    pub(super) fn new(limits: LaunchLimits, connections: Connections<'n>, job: &str, launch_progress: PathBuf) -> Self {
        let begun = Instant::now();
        let ranks = connections.is_empty().then(|| Ranks::new(job));
        Self { limits, connections, ranks, launch_progress, next: begun, begun, ended: None, left: None }
    }

    /// Returns the progress that all its processes have reached.
    pub(super) fn reached(&self) -> Option<LaunchProgress> {
        LaunchProgress::read(&self.launch_progress)
    }

    /// Returns the last error of one of its processes.
    pub(super) fn error(&self) -> Option<String> {
        read_error(&self.launch_progress)
    }

    /// Returns when the next check is due.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Checks the launch if that is due.
    pub(super) fn trouble(&mut self) -> Option<Trouble> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        self.next = now + BEAT;
        let lost = self.connections.lost();
        if !lost.is_empty() {
            return Some(Trouble::Nodes(lost));
        }
        // An error of the check is no sign of trouble.
        let has_ended =
            self.connections.has_ended() || self.ranks.as_mut().is_some_and(|it| it.has_ended().unwrap_or(false));
        self.judge(self.reached(), has_ended, now)
    }

    fn judge(&mut self, launch_progress: Option<LaunchProgress>, has_ended: bool, now: Instant) -> Option<Trouble> {
        // A process that has left may end.
        let has_left = launch_progress == Some(LaunchProgress::Left);
        let since = |begin: &mut Option<Instant>, is_so: bool| *begin = is_so.then(|| begin.unwrap_or(now));
        since(&mut self.left, has_left);
        since(&mut self.ended, has_ended && !has_left);
        let begun = launch_progress.is_none().then_some(self.begun);
        let over = |begin: Option<Instant>, limit: Option<Duration>| {
            begin.zip(limit).filter(|(begin, limit)| now.duration_since(*begin) >= *limit).map(|(_, limit)| limit)
        };
        let LaunchLimits { start, loss, finish } = self.limits;
        let ended = over(self.ended, loss).map(Trouble::Loss);
        ended.or(over(begun, start).map(Trouble::Start)).or(over(self.left, finish).map(Trouble::Finish))
    }
}

#[cfg(test)]
mod tests {
    use super::super::nodes::Nodes;
    use super::*;

    /// Returns what is found of a launch in each of its seconds, with limits of 10, 3 and 5 seconds.
    fn found(seconds: impl IntoIterator<Item = (Option<LaunchProgress>, bool)>) -> Option<(u64, Trouble)> {
        let [start, loss, finish] = [10, 3, 5].map(|seconds| Some(Duration::from_secs(seconds)));
        let nodes = Nodes::default();
        let connections = Connections::new(&nodes, &[], Vec::new());
        let mut progress = Progress::new(LaunchLimits { start, loss, finish }, connections, "job", "/nowhere".into());
        (0..).zip(seconds).find_map(|(second, (launch_progress, has_ended))| {
            let now = progress.begun + Duration::from_secs(second);
            progress.judge(launch_progress, has_ended, now).map(|trouble| (second, trouble))
        })
    }

    const JOINED: Option<LaunchProgress> = Some(LaunchProgress::Joined);
    const LEFT: Option<LaunchProgress> = Some(LaunchProgress::Left);

    #[test]
    fn a_launch_that_makes_progress_is_not_reported() {
        let course = [(None, 9), (JOINED, 1000), (LEFT, 4)];
        assert_eq!(found(course.into_iter().flat_map(|(it, seconds)| std::iter::repeat_n((it, false), seconds))), None);
    }

    #[test]
    fn a_launch_that_never_begins_is_noticed() {
        assert_eq!(found([(None, false); 20]), Some((10, Trouble::Start(Duration::from_secs(10)))));
    }

    #[test]
    fn an_ended_process_is_detected_before_all_have_left() {
        let loss = Trouble::Loss(Duration::from_secs(3));
        assert_eq!(
            found([(None, false), (None, true), (None, true), (None, true), (None, true)]),
            Some((4, loss.clone()))
        );
        let joined = std::iter::repeat_n((JOINED, false), 100).chain([(JOINED, true); 4]);
        assert_eq!(found(joined), Some((103, loss)));
        // The launcher has ended the process after all.
        assert_eq!(found([(JOINED, true), (JOINED, true), (JOINED, false), (JOINED, true), (JOINED, true)]), None);
        assert_eq!(found([(LEFT, true); 4]), None);
    }

    #[test]
    fn a_launch_that_does_not_finish_is_detected() {
        let course = std::iter::once((JOINED, false)).chain([(LEFT, true); 9]);
        assert_eq!(found(course), Some((6, Trouble::Finish(Duration::from_secs(5)))));
    }
}
