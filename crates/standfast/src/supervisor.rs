//! The life of a job under its supervisor: one event loop that never waits for a disk. Whatever goes wrong here, the program runs
//! on. What it does about checkpoints, coalescing, levels, whoever asks it, and the end lies in `supervisor/`.

mod checkpoints;
mod clients;
mod coalescing;
mod end;
mod levels;
mod signals;

use end::Leftovers;
pub(crate) use end::newest;

use crate::background::Background;
use crate::checkpoint::{Checkpointing, Destination};
use crate::coalesce::Coalescing;
use crate::control::{ClientId, ControlSocket};
use crate::event::{JobEvent, Listener};
use crate::flush_mode::FlushCosts;
use crate::flushing::{FlushSchedule, Flushing};
use crate::foreground::Foreground;
use crate::foreground_proxy::ForegroundConnection;
use crate::identity::in_lease;
use crate::interval::Interval;
use crate::options::JobOptions;
use crate::preflight::{Preflight, look};
use crate::progress::Reports;
use crate::quoting::without_numbers;
use crate::report::CheckpointReport;
use crate::requested_checkpoints::MinInterval;
use crate::schedule::Schedule;
use crate::signals::SignalInbox;
use crate::snapshots::Past;
use crate::terminal::HeldTerminal;
use crate::{Ending, Error};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use standfast_engine::{Job, News, Output, TerminalHolder, hold_child_signal};
use standfast_linux::hold_output_signal;
use standfast_store::HEARTBEAT;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a supervisor is given beside the job.
pub(crate) struct Post {
    /// The job's directory as the user named it, for messages.
    pub(crate) directory: PathBuf,
    /// Where checkpoints go.
    pub(crate) destination: Destination,
    /// How the job is protected.
    pub(crate) options: JobOptions,
    /// Files that the program writes, as far as that is known from the checkpoint that it was continued from.
    pub(crate) outputs: Vec<PathBuf>,
    /// The supervisor's signals.
    pub(crate) signals: SignalInbox,
    /// The control socket, where one could be had.
    pub(crate) control: Option<ControlSocket>,
    /// Whether the front is to stay until everybody in the job has ended, not only its main process.
    pub(crate) wait: bool,
    /// The process that is waited for in our place.
    pub(crate) front: Option<ForegroundConnection>,
    /// Whether memory is used where there is room, and nothing is said where there is not.
    pub(crate) memory_is_automatic: bool,
    /// The job's own terminal, where it is held for it.
    pub(crate) terminal: Option<Arc<HeldTerminal>>,
    /// Whether nobody is to wait.
    pub(crate) detached: bool,
}

/// Looks after `job` until it ends.
pub(crate) fn supervise(post: Post, mut job: Job, listener: &mut Listener<'_>) -> Result<Ending, Error> {
    let pid = job.main_process().pid;
    job.keep_strays();
    hold_output_signal();
    listener(&JobEvent::Running { pid });
    let now = Instant::now();
    let mut supervisor = Supervisor {
        schedule: Schedule::new(post.options.interval, post.options.min_interval, now),
        preflight: Preflight::new(post.options.interval, now),
        heartbeat_due: now,
        is_named: false,
        checkpointing: None,
        reports: None,
        coalescing: None,
        flushes: FlushSchedule::new(post.options.flush_every, post.options.durable_every, now),
        flushing: None,
        flush_costs: FlushCosts::default(),
        unsynced: None,
        degraded: None,
        flush_failure: None,
        ending_waits: None,
        merge_asked: Vec::new(),
        merge_served: Vec::new(),
        here_asked: false,
        disabled_since: None,
        asked: Vec::new(),
        served: Vec::new(),
        terminated: false,
        stop_wanted: false,
        leftovers: Leftovers::default(),
        last_checkpoint: None,
        past: Past::default(),
        last_failure: None,
        untracked: None,
        uncloned: None,
        ignored_directives: None,
        stopped_for: Vec::new(),
        stopped_behind: None,
        has_front: post.front.is_some(),
        foreground: foreground_of(pid, post.terminal.as_deref(), post.front.clone()),
        post,
        job,
        listener,
    };
    supervisor.show_terminal();
    let status = supervisor.watch()?;
    supervisor.wind_up(status)
}

struct Supervisor<'a, 'l> {
    post: Post,
    job: Job,
    listener: &'a mut Listener<'l>,
    schedule: Schedule,
    preflight: Preflight,
    heartbeat_due: Instant,
    /// Whether the lease names the program.
    is_named: bool,
    checkpointing: Option<Checkpointing>,
    /// When its progress is reported, where somebody waits for it.
    reports: Option<Reports>,
    coalescing: Option<Coalescing>,
    /// Which checkpoints in memory go on to the disk, and when.
    flushes: FlushSchedule,
    flushing: Option<Flushing>,
    flush_costs: FlushCosts,
    /// Of the last checkpoint, if that is in memory, the files that the program writes.
    unsynced: Option<Arc<Vec<Output>>>,
    /// Why the last checkpoint is not in memory, if it was to be.
    degraded: Option<String>,
    /// Why the last flush failed, if it did.
    flush_failure: Option<String>,
    /// Waits of the program's threads that are being ended, since their time limits are reached.
    ending_waits: Option<Background<()>>,
    /// Who waits for a coalescing that has not begun.
    merge_asked: Vec<ClientId>,
    /// Who waits for the one under way.
    merge_served: Vec<ClientId>,
    /// Who waits for a checkpoint that has not begun, and whether the program is to stop behind it.
    asked: Vec<(ClientId, bool)>,
    /// Who waits for the one that is being taken.
    served: Vec<ClientId>,
    /// Whether a program has asked for a checkpoint that has not begun.
    here_asked: bool,
    /// Since when checkpoints have been wanted that a program has disabled.
    disabled_since: Option<Instant>,
    /// Whether a SIGTERM has come.
    terminated: bool,
    /// Whether that SIGTERM's checkpoint has not begun.
    stop_wanted: bool,
    /// How those ended that the program had left behind.
    leftovers: Leftovers,
    last_checkpoint: Option<CheckpointReport>,
    past: Past,
    last_failure: Option<String>,
    /// Why the kernel does not let writes be tracked.
    untracked: Option<String>,
    /// Why a process could not be cloned.
    uncloned: Option<String>,
    /// Why what the program directs about its memory is not honoured.
    ignored_directives: Option<String>,
    /// Who waits until the job that was stopped can be restarted.
    stopped_for: Vec<ClientId>,
    /// The generation behind which the program was stopped.
    stopped_behind: Option<u64>,
    foreground: Foreground,
    /// Whether there was a front at the beginning: we then go on whatever becomes of it.
    has_front: bool,
}

/// What has happened.
#[derive(Debug, Default)]
struct Ready {
    /// News of its main process.
    job: bool,
    signals: bool,
    front: bool,
    terminal: bool,
    checkpoint: bool,
    coalescing: bool,
    flush: bool,
    preflight: bool,
    waits: bool,
}

impl Supervisor<'_, '_> {
    /// The event loop: returns when the job has ended, with the status of its main process where that is known.
    fn watch(&mut self) -> Result<Option<ExitStatus>, Error> {
        let mut ended = None;
        loop {
            let now = Instant::now();
            self.renew_lease(now);
            self.begin_checkpoint(now);
            self.coalesce_as_asked();
            self.begin_flush(now);
            self.check_free_space(now);
            self.end_due_waits(now);
            self.report_progress(now);
            let ready = self.wait(now)?;
            if ready.checkpoint {
                self.end_checkpoint();
            }
            if ready.coalescing {
                self.end_coalescing();
            }
            if ready.flush {
                self.end_flush();
            }
            if ready.preflight {
                self.tell_preflight();
            }
            if ready.waits {
                self.join_waits();
            }
            if ready.signals {
                self.handle_signals();
            }
            if ready.front {
                self.handle_front();
            }
            if ready.terminal {
                self.post.terminal.iter().for_each(|terminal| terminal.reap());
                self.lose_terminal();
                self.say(&JobEvent::TerminalLost);
            }
            self.handle_clients();
            if ready.job
                && let Some(status) = self.handle_job()?
            {
                if ended.is_some() {
                    self.leftovers.note(status);
                }
                let first = *ended.get_or_insert(status);
                if !self.follow_descendants(first) {
                    return Ok(first);
                }
            }
        }
    }

    /// There is news of the main process: how it ended, if it did.
    fn handle_job(&mut self) -> Result<Option<Option<ExitStatus>>, Error> {
        // Whatever stops its threads holds it.
        self.end_checkpoint();
        self.give_up_foreground_flush();
        self.join_waits();
        match self.job.news()? {
            News::Stopped => {
                self.foreground.stop_along();
                Ok(None)
            }
            News::Ended(status) => Ok(Some(status)),
        }
    }

    /// The main process has ended: goes on with the others, if there are any and that is wanted; in the background, unless
    /// the front is to wait.
    fn follow_descendants(&mut self, status: Option<ExitStatus>) -> bool {
        if !(self.post.wait || self.has_front) || self.stopped_behind.is_some() {
            return false;
        }
        let ending = status.map(Ending::of_status);
        self.await_descendants();
        let processes = self.job.descendants();
        if !processes.iter().any(|pid| self.job.follow(*pid)) {
            return false;
        }
        self.is_named = false;
        self.heartbeat_due = Instant::now();
        if matches!(ending, Some(Ending::Killed { .. })) {
            // Checkpoints that hold the program must not give way to such that hold its remains only.
            self.schedule = Schedule::new(Interval::Off, MinInterval::Never, Instant::now());
        }
        match (&self.foreground.front, ending) {
            (Some(_), Some(ending)) if !self.post.wait => self.go_into_background(processes, ending),
            _ => self.say(&JobEvent::GoesOn { processes }),
        }
        true
    }

    /// Lets the front end as the program has ended.
    fn go_into_background(&mut self, processes: Vec<i32>, ending: Ending) {
        self.foreground.take_back();
        self.renew_lease(Instant::now());
        let directory = self.post.directory.clone();
        let is_interrupted = matches!(ending, Ending::Killed { .. }) && !ending.is_own_failure();
        let interrupted = is_interrupted.then(|| ending.to_string());
        self.say(&JobEvent::InBackground { directory, processes, interrupted });
        self.let_front_go(ending);
    }

    /// Lets the front end; from now on we are alone.
    fn let_front_go(&mut self, ending: Ending) {
        if let Some(front) = self.foreground.front.take() {
            self.be_alone();
            front.let_go(ending);
        }
    }

    /// Nobody waits for us any more.
    fn be_alone(&mut self) {
        (self.post.front, self.foreground.front) = (None, None);
        let directory = self.post.directory.clone();
        self.say(&JobEvent::Alone { directory });
    }

    /// Has the front attach to the job's own terminal, or go.
    fn show_terminal(&mut self) {
        let terminal = self.post.terminal.clone();
        self.job.set_terminal(terminal.map(|terminal| terminal as Arc<dyn TerminalHolder>));
        if self.post.detached {
            let directory = self.post.directory.clone();
            self.say(&JobEvent::Detached { directory });
            self.let_front_go(Ending::Exited { status: 0 });
        } else if let (Some(_), Some(front)) = (&self.post.terminal, &self.post.front) {
            front.show_terminal();
        }
    }

    /// Lets go of the job's own terminal: if its holder is gone as well, that hangs it up.
    fn lose_terminal(&mut self) {
        self.post.terminal = None;
        self.job.set_terminal(None);
    }

    /// Sleeps until something happens or is due.
    fn wait(&self, now: Instant) -> Result<Ready, Error> {
        let end = self.job.end_descriptor();
        let mut fds = vec![PollFd::new(&end, PollFlags::IN), PollFd::new(&self.post.signals, PollFlags::IN)];
        fds.extend(self.checkpointing.iter().map(|checkpointing| PollFd::new(checkpointing, PollFlags::IN)));
        fds.extend(self.coalescing.iter().map(|coalescing| PollFd::new(coalescing, PollFlags::IN)));
        fds.extend(self.flushing.iter().map(|flushing| PollFd::new(flushing, PollFlags::IN)));
        fds.extend(self.preflight.checking().map(|checking| PollFd::new(checking, PollFlags::IN)));
        fds.extend(self.ending_waits.iter().map(|ending| PollFd::new(ending, PollFlags::IN)));
        fds.extend(self.post.front.iter().map(|front| PollFd::new(front, PollFlags::IN)));
        let lines = self.post.terminal.iter().map(|terminal| terminal.line());
        fds.extend(lines.map(|line| PollFd::from_borrowed_fd(line, PollFlags::RDHUP)));
        fds.extend(self.post.control.iter().flat_map(ControlSocket::poll_fds));
        let timeout = self.next_due().map(|due| timespec(due.saturating_duration_since(now)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {
                let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
                let mut more = fds[2..].iter().map(is_ready);
                let checkpoint = self.checkpointing.is_some() && more.next() == Some(true);
                let coalescing = self.coalescing.is_some() && more.next() == Some(true);
                let flush = self.flushing.is_some() && more.next() == Some(true);
                let preflight = self.preflight.checking().is_some() && more.next() == Some(true);
                let waits = self.ending_waits.is_some() && more.next() == Some(true);
                let front = self.post.front.is_some() && more.next() == Some(true);
                let terminal = self.post.terminal.is_some() && more.next() == Some(true);
                let (job, signals) = (is_ready(&fds[0]), is_ready(&fds[1]));
                Ok(Ready { job, signals, front, terminal, checkpoint, coalescing, flush, preflight, waits })
            }
            // The handler of a signal ran: its news lie in the inbox.
            Err(rustix::io::Errno::INTR) => Ok(Ready { signals: true, ..Ready::default() }),
            Err(error) => Err(Error::system("wait for the program")(error.into())),
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let is_held = self.checkpointing.is_some() || self.stands_still_for_flush();
        let checkpoint = if is_held { None } else { self.schedule.due() };
        let client = self.post.control.as_ref().and_then(ControlSocket::deadline);
        let waits = if self.ending_waits.is_none() { self.job.freezer().next_wait_end() } else { None };
        let flush = if self.flushing.is_none() { self.flushes.due() } else { None };
        let report = self.reports.as_ref().map(Reports::due);
        let dues = [Some(self.heartbeat_due), checkpoint, self.preflight.due(), client, waits, flush, report];
        dues.into_iter().flatten().min()
    }

    /// Names the program in the lease, and later shows that its supervisor lives. That the disk refuses is told and
    /// tried again.
    fn renew_lease(&mut self, now: Instant) {
        if now < self.heartbeat_due {
            return;
        }
        self.heartbeat_due = now + HEARTBEAT;
        let lease = &self.post.destination.lease;
        let renewed =
            if self.is_named { lease.heartbeat() } else { lease.set_program(in_lease(self.job.main_process())) };
        match renewed {
            Ok(()) => self.is_named = true,
            Err(error) => self.warn(format!("cannot renew the lease: {error}")),
        }
    }

    /// Ends waits whose time limits are reached, on a thread of its own, as a checkpoint has.
    fn end_due_waits(&mut self, now: Instant) {
        let freezer = self.job.freezer();
        if self.ending_waits.is_some() || freezer.next_wait_end().is_none_or(|end| end > now) {
            return;
        }
        hold_child_signal(true);
        match Background::begin("waits", move || freezer.end_waits()) {
            Ok(ending) => self.ending_waits = Some(ending),
            Err(error) => {
                hold_child_signal(self.is_traced());
                self.job.freezer().pass_over_waits();
                self.warn(format!("cannot start a thread to end waits in time: {error}"));
            }
        }
    }

    /// Takes note that waits have been ended, waiting for that if need be.
    fn join_waits(&mut self) {
        let Some(ending) = self.ending_waits.take() else { return };
        // Its panic has been told; the waits then last longer.
        let _ = ending.join();
        hold_child_signal(self.is_traced());
        self.handle_stop();
    }

    /// Whether a thread of ours stops threads of the job.
    fn is_traced(&self) -> bool {
        self.checkpointing.is_some() || self.ending_waits.is_some() || self.stands_still_for_flush()
    }

    /// Looks, without touching the program, whether a checkpoint could be taken.
    fn check_free_space(&mut self, now: Instant) {
        let (destination, freezer) = (self.post.destination.clone(), self.job.freezer());
        if let Err(error) = self.preflight.begin(now, move || look(&destination, &freezer)) {
            self.warn(format!("cannot examine whether the program can be checkpointed: {error}"));
        }
    }

    /// Tells what stands in the way, unless a checkpoint has told it already.
    fn tell_preflight(&mut self) {
        let Some(problem) = self.preflight.end(Instant::now()) else { return };
        let reason = without_numbers(&problem.to_string());
        if self.last_failure.as_ref() != Some(&reason) {
            self.say(&JobEvent::Unprotectable { reason: reason.clone() });
            self.last_failure = Some(reason);
        }
    }

    fn warn(&mut self, reason: String) {
        self.say(&JobEvent::Trouble { reason });
    }

    fn say(&mut self, event: &JobEvent) {
        (self.listener)(event);
    }
}

/// The keys of our terminal are none of the business of a job that has its own.
pub(crate) fn foreground_of(
    leader: i32,
    own: Option<&HeldTerminal>,
    front: Option<ForegroundConnection>,
) -> Foreground {
    match own {
        Some(_) => Foreground::elsewhere(leader, front),
        None => Foreground::of(leader, front),
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
