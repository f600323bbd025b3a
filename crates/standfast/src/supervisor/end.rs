//! The end of a job's life: what is reported, recorded and released. The event loop notices the end.

use super::machine::Event;
use super::{Supervisor, SupervisorSetup};
use crate::checkpoint::Destination;
use crate::coalesce::Coalescing;
use crate::control::ControlSocket;
use crate::event::{ContainerNews, JobEvent};
use crate::history::{HistoryEntry, read_history};
use crate::identity::in_lease;
use crate::settings::KeepFinished;
use crate::takeover::EXIT_MAX;
use crate::{Ending, Error};
use rustix::process::{Signal, kill_process};
use standfast_engine::{ProcessIdentity, Vitality};
use standfast_format::manifest::{FileEnd, Outcome};
use standfast_linux::Pid;
use standfast_store::{Holdings, Lease, Levels};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time for the other processes of a job to end as well after its program has ended. Those that do are not mentioned.
const END_TOGETHER_MAX: Duration = Duration::from_secs(1);
/// Pause between two checks whether they have ended.
const DESCENDANTS_PAUSE: Duration = Duration::from_millis(2);

impl Supervisor<'_, '_> {
    /// Winds up after the job has ended: completes a checkpoint under way, records how the job ended and releases the
    /// lease.
    pub(super) fn wind_up(mut self, status: Option<ExitStatus>) -> Result<Ending, Error> {
        self.foreground.take_back();
        self.lose_terminal();
        self.coalescing.iter().for_each(Coalescing::cancel);
        self.end_coalescing();
        if let Some(rehearsing) = self.rehearsing.take() {
            rehearsing.cancel();
            let _ = rehearsing.join();
        }
        self.on(Event::JobEnded);
        self.end_metrics();
        let ending = match (self.machine.stopped_after(), status) {
            (Some(generation), _) => {
                Ending::Stopped { generation, exit_status: self.setup.options.stopped_status.get() }
            }
            (None, Some(status)) => Ending::of_status(status),
            (None, None) => return Err(Error::EndUnknown),
        };
        self.await_descendants();
        self.end_with_container();
        let ended = now_nanoseconds();
        let of_job = self.leftovers.of_job(ending);
        self.settle_memory(of_job);
        self.append(HistoryEntry::Ended { end: of_job.into() });
        // First report, which may write to the same file as the program's output; then record the state of that file.
        self.report_end(of_job);
        self.record(of_job, ended);
        self.remove_finished(of_job);
        self.leave();
        Ok(ending)
    }

    /// Releases the directory, and answers the clients that had the job stopped, since it can be restarted now.
    fn leave(mut self) {
        // First remove the socket's name: the next supervisor may be there as soon as the lease is released.
        self.setup.control.iter_mut().for_each(ControlSocket::close);
        let has_left = self.leave_descendants();
        let Self { setup: SupervisorSetup { destination, mut control, .. }, mut machine, listener, .. } = self;
        let lease = Arc::into_inner(destination.lease).filter(|_| !has_left);
        if let Some(Err(error)) = lease.map(Lease::release) {
            listener(&JobEvent::Trouble { reason: format!("cannot release the lease: {error}") });
        }
        if let Some(control) = &mut control {
            machine.stopped_answers().iter().for_each(|(client, reply)| control.answer(*client, reply));
        }
    }

    /// Waits for the other processes of the job. They often end together, but not at the very same moment: what kills
    /// the program kills the others, and children whose input has ended end as well. Processes that are already exiting
    /// get more time: they hold memory, files and ports that the job's next life wants.
    pub(super) fn await_descendants(&self) {
        let begun = Instant::now();
        let is_alive = |pid: &Pid| ProcessIdentity::of(*pid).is_ok_and(|it| it.vitality() == Vitality::Alive);
        loop {
            let descendants = self.job.descendants();
            let limit = if descendants.iter().any(is_alive) { END_TOGETHER_MAX } else { EXIT_MAX };
            if descendants.is_empty() || begun.elapsed() >= limit {
                return;
            }
            std::thread::sleep(DESCENDANTS_PAUSE);
        }
    }

    /// Ends the other processes of the job if the container ends with us: the kernel would, after the record.
    fn end_with_container(&mut self) {
        let descendants = self.job.descendants();
        if descendants.is_empty() || !self.setup.context.ends_container() {
            return;
        }
        let processes = descendants.iter().map(|pid| pid.get()).collect();
        self.say(&JobEvent::Container(ContainerNews::EndsWithProgram { processes }));
        for pid in descendants.iter().filter_map(|pid| rustix::process::Pid::from_raw(pid.get())) {
            // An error means that it has ended.
            let _ = kill_process(pid, Signal::KILL);
        }
        self.await_descendants();
    }

    fn record(&mut self, ending: Ending, ended: Option<i64>) {
        let Destination { levels, lease, .. } = &self.setup.destination;
        let outcome = match ending {
            Ending::Exited { status } => Outcome::Exited { status },
            Ending::Killed { signal } => Outcome::Killed { signal },
            Ending::Stopped { .. } => Outcome::Stopped,
        };
        // If the job is dead, it no longer causes any growth of these files. If processes continue, that is unknown.
        let is_dead = self.job.descendants().is_empty();
        let ends = self.setup.outputs.iter().filter(|_| is_dead).filter_map(|path| file_end(path)).collect();
        let ended = ended.filter(|_| is_dead);
        if let Err(error) = levels.directory.set_end(lease, outcome, ends, ended) {
            self.warn(format!("cannot record how the program ended: {error}"));
        }
    }

    /// Removes the checkpoints of a program that has finished, unless they are to be kept. Its end has been recorded:
    /// if the removal is interrupted, the job does not count as unfinished.
    fn remove_finished(&mut self, ending: Ending) {
        let is_done = ending == Ending::Exited { status: 0 } && self.leftovers == Leftovers::Well;
        let is_wanted = self.setup.options.keep_finished == KeepFinished::No && is_done;
        let Destination { levels, lease, .. } = &self.setup.destination;
        if is_wanted && let Err(error) = levels.directory.remove_checkpoints(lease) {
            self.warn(format!("cannot remove the checkpoints: {error}"));
        }
    }

    /// Reports that other processes continue without us, if there are any. The lease then names one of them, so that
    /// nobody starts a second life of the job beside them.
    fn leave_descendants(&mut self) -> bool {
        let descendants = if self.machine.stopped_after().is_some() { Vec::new() } else { self.job.descendants() };
        let mut identities = descendants.iter().filter_map(|pid| ProcessIdentity::of(*pid).ok());
        let Some(survivor) = identities.next() else { return false };
        if let Err(error) = self.setup.destination.lease.set_program(in_lease(survivor)) {
            self.warn(format!("cannot renew the lease: {error}"));
        }
        let processes = descendants.into_iter().map(Pid::get).collect();
        self.say(&JobEvent::Leftovers { processes });
        true
    }

    /// Reports what checkpoints have cost, and names the command that continues the job, if there is something to continue.
    fn report_end(&mut self, ending: Ending) {
        let directory = self.setup.context.directory.clone();
        let overhead = read_history(&self.setup.destination.levels.directory).overhead(false);
        overhead.as_ref().and_then(JobEvent::of_overhead).iter().for_each(|cost| self.say(cost));
        match ending {
            Ending::Stopped { generation, .. } => self.say(&JobEvent::Stopped { directory, generation }),
            Ending::Exited { status: 0 } if self.setup.options.keep_finished == KeepFinished::No => {}
            Ending::Exited { status: 0 } => {
                // By now nothing is left in memory.
                let held = self.setup.destination.levels.directory.holdings().unwrap_or_default();
                if let Holdings { checkpoints: 1.., .. } = held {
                    let Holdings { checkpoints, bytes } = held;
                    self.say(&JobEvent::Kept { directory, checkpoints, bytes });
                }
            }
            Ending::Exited { .. } | Ending::Killed { .. } => {
                let Some(generation) = newest(&self.setup.destination.levels) else { return };
                let end = ending.to_string();
                self.say(&if ending.is_own_failure() {
                    JobEvent::Failed { directory, end, generation }
                } else {
                    JobEvent::Unfinished { directory, end }
                });
            }
        }
    }
}

/// How the processes ended that the program had left behind, among those that were watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Leftovers {
    /// By themselves, if there were any.
    #[default]
    Well,
    /// The end of one is unknown.
    Unknown,
    /// A signal killed one of them.
    Killed(i32),
}

impl Leftovers {
    /// Records the end of one more process.
    pub(super) fn note(&mut self, status: Option<ExitStatus>) {
        *self = match (*self, status.map(Ending::of_status)) {
            (killed @ Self::Killed(_), _) => killed,
            (_, Some(Ending::Killed { signal })) => Self::Killed(signal),
            (_, None) => Self::Unknown,
            (before, Some(_)) => before,
        };
    }

    /// Returns how the job ended, given how its program ended. A program that finished counts as interrupted if
    /// processes that it had left behind were killed.
    fn of_job(self, program: Ending) -> Ending {
        match (program, self) {
            (Ending::Exited { status: 0 }, Self::Killed(signal)) => Ending::Killed { signal },
            _ => program,
        }
    }
}

/// Returns the newest generation of the present life on any level.
pub(crate) fn newest(levels: &Levels) -> Option<u64> {
    let manifests = levels.each().filter_map(|(_, level)| level.manifest().ok());
    let generations = manifests.flat_map(|manifest| manifest.generations);
    generations.filter(|generation| !generation.superseded).map(|generation| generation.number.get()).max()
}

/// Returns the present time in nanoseconds since 1970.
fn now_nanoseconds() -> Option<i64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok()
}

/// Returns the state of a file that a program wrote, after the program has ended.
fn file_end(path: &Path) -> Option<FileEnd> {
    let file = std::fs::metadata(path).ok()?;
    let modified_nanoseconds = file.mtime().saturating_mul(1_000_000_000).saturating_add(file.mtime_nsec());
    Some(FileEnd { device: file.dev(), inode: file.ino(), length: file.len(), modified_nanoseconds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    #[test]
    fn a_job_with_a_killed_leftover_process_is_not_finished() {
        let after = |raw: &[Option<i32>]| {
            let mut leftovers = Leftovers::default();
            raw.iter().for_each(|status| leftovers.note(status.map(ExitStatus::from_raw)));
            leftovers
        };
        let finished = Ending::Exited { status: 0 };
        assert_eq!(after(&[]).of_job(finished), finished);
        assert_eq!(after(&[Some(0), Some(1 << 8)]), Leftovers::Well);
        assert_eq!(after(&[None, Some(0)]), Leftovers::Unknown);
        assert_eq!(after(&[None, Some(9), Some(0), None]).of_job(finished), Ending::Killed { signal: 9 });
        let failed = Ending::Exited { status: 4 };
        assert_eq!(after(&[Some(9)]).of_job(failed), failed, "the program's own end says more");
    }
}
