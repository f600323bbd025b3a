//! The life of a job under its supervisor: one event loop that never waits for a disk. Whatever goes wrong here, the
//! program continues to run. `machine/` decides what to do about checkpoints; this loop sends it events, and carries
//! out its effects. The other files begin the work in threads, and report its end.

mod checkpoints;
mod clients;
mod coalescing;
mod end;
mod flush_schedule;
mod flushing;
mod history;
mod levels;
mod machine;
mod machine_notices;
mod metrics;
mod notifying;
mod preflight;
mod rehearsals;
mod schedule;
mod signals;
mod sizes;

use end::Leftovers;
pub(crate) use end::newest;
pub(crate) use flushing::sync_paths;
use history::past_intervals;
use machine::{Effect, Event, Machine, Settings};
pub(crate) use schedule::{AttemptEnd, Schedule};

use crate::background::Background;
use crate::checkpoint::{Checkpointing, Destination};
use crate::coalesce::Coalescing;
use crate::context::JobContext;
use crate::control::ControlSocket;
use crate::event::{JobEvent, Listener};
use crate::identity::in_lease;
use crate::progress::Reports;
use crate::quoting::without_numbers;
use crate::rehearsal::Rehearsing;
use crate::report::RestartReport;
use crate::settings::JobOptions;
use crate::signals::SignalInbox;
use crate::terminal::{Foreground, ForegroundConnection, HeldTerminal};
use crate::watch::Watcher;
use crate::{Ending, Error};
use flush_schedule::FlushSchedule;
use flushing::Flushing;
use metrics::Metrics;
use preflight::{Preflight, look};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use standfast_engine::{Job, News, Output, TerminalHolder, hold_child_signal};
use standfast_linux::{Pid, hold_output_signal};
use standfast_store::HEARTBEAT;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Everything that a supervisor starts with, except the job.
pub(crate) struct SupervisorSetup {
    /// The job's directory, and who waits for it.
    pub(crate) context: JobContext,
    /// Destination of the checkpoints.
    pub(crate) destination: Destination,
    /// How the job is protected.
    pub(crate) options: JobOptions,
    /// Files that the program writes, if known from the checkpoint from which it was continued.
    pub(crate) outputs: Vec<PathBuf>,
    /// The supervisor's signals.
    pub(crate) signals: SignalInbox,
    /// The control socket, if it could be opened.
    pub(crate) control: Option<ControlSocket>,
    /// Whether memory is used only if there is room, without a report if there is not.
    pub(crate) memory_is_automatic: bool,
    /// The job's own terminal, if it has one.
    pub(crate) terminal: Option<Arc<HeldTerminal>>,
    /// The restart that has just ended, if the program was not started.
    pub(crate) restart: Option<RestartReport>,
}

/// Supervises `job` until it ends.
pub(crate) fn supervise(setup: SupervisorSetup, mut job: Job, listener: &mut Listener<'_>) -> Result<Ending, Error> {
    let pid = job.main_process().pid.get();
    job.keep_strays();
    if let Some(part) = setup.destination.part.clone() {
        job.set_partners(part);
    }
    hold_output_signal();
    setup.context.foreground_proxy.iter().for_each(|proxy| proxy.name_program(pid));
    listener(&JobEvent::Running { pid });
    (setup.context.hooks.running)();
    let now = Instant::now();
    let options = &setup.options;
    let has_memory = setup.destination.levels.memory.is_some();
    let flushes = match &setup.destination.part {
        Some(_) => FlushSchedule::of_part(options.durable_every, now),
        None => FlushSchedule::new(options.flush_every, options.durable_every, now),
    };
    let settings = Settings::of(options, has_memory, setup.memory_is_automatic)
        .notifying(setup.context.machine.notify.as_ref().map(|notify| notify.after));
    let mut supervisor = Supervisor {
        machine: Machine::new(settings, flushes, past_intervals(&setup), now),
        preflight: Preflight::new(options.interval, now),
        heartbeat_due: now,
        size_due: options.deadline.get().map(|_| now),
        metrics: Metrics::new(setup.context.machine.metrics.clone(), &setup.context.directory, now),
        is_named: false,
        is_finished: false,
        checkpointing: None,
        reports: None,
        coalescing: None,
        rehearsing: None,
        flushing: None,
        watcher: None,
        unsynced: None,
        ending_waits: None,
        leftovers: Leftovers::default(),
        has_foreground_proxy: setup.context.foreground_proxy.is_some(),
        foreground: foreground_of(pid, setup.terminal.as_deref(), setup.context.foreground_proxy.clone()),
        setup,
        job,
        listener,
    };
    supervisor.begin_history();
    supervisor.show_terminal();
    supervisor.begin_to_watch();
    let status = supervisor.watch()?;
    supervisor.wind_up(status)
}

struct Supervisor<'a, 'l> {
    setup: SupervisorSetup,
    job: Job,
    listener: &'a mut Listener<'l>,
    /// Decides about checkpoints.
    machine: Machine,
    preflight: Preflight,
    heartbeat_due: Instant,
    /// When the size of the job is looked at next, if a deadline needs that.
    size_due: Option<Instant>,
    metrics: Metrics,
    /// Whether the lease names the program.
    is_named: bool,
    /// Whether the job was ended because all that it was there for is done.
    is_finished: bool,
    checkpointing: Option<Checkpointing>,
    /// When progress of the checkpoint is reported, if somebody waits for it.
    reports: Option<Reports>,
    coalescing: Option<Coalescing>,
    rehearsing: Option<Rehearsing>,
    flushing: Option<Flushing>,
    /// Watches for a notice of the machine.
    watcher: Option<Watcher>,
    /// Files that the program writes, if the last checkpoint is in memory.
    unsynced: Option<Arc<Vec<Output>>>,
    /// Thread that ends waits of the program's threads whose time limits are reached.
    ending_waits: Option<Background<()>>,
    /// How the processes ended that the program had left behind.
    leftovers: Leftovers,
    foreground: Foreground,
    /// Whether there was a foreground proxy at the beginning. If so, supervision continues whatever happens to the
    /// proxy.
    has_foreground_proxy: bool,
}

/// Sources of news, in the order in which they are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Checkpoint,
    Coalescing,
    Rehearsal,
    Flush,
    Preflight,
    Waits,
    Signals,
    MachineNotice,
    ForegroundProxy,
    Terminal,
    /// Clients of the control socket, and new connections to it.
    Client,
    /// The main process of the job.
    Job,
}

impl Supervisor<'_, '_> {
    /// Runs the event loop. Returns when the job has ended, with the status of its main process if that is known.
    fn watch(&mut self) -> Result<Option<ExitStatus>, Error> {
        let mut ended = None;
        loop {
            let now = Instant::now();
            self.renew_lease(now);
            self.look_at_size(now);
            self.begin_what_is_due();
            self.check_free_space(now);
            self.end_due_waits(now);
            self.report_progress(now);
            self.write_metrics(now);
            let ready = self.wait(now)?;
            ready.iter().for_each(|source| self.hear(*source));
            // This also drops clients that have been silent for too long.
            self.handle_clients();
            if ready.contains(&Source::Job)
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

    /// Handles the news of one source, except for clients and the job itself.
    fn hear(&mut self, source: Source) {
        match source {
            Source::Checkpoint => self.end_checkpoint(),
            Source::Coalescing => self.end_coalescing(),
            Source::Rehearsal => self.end_rehearsal(),
            Source::Flush => self.end_flush(),
            Source::Preflight => self.report_preflight(),
            Source::Waits => self.join_waits(),
            Source::Signals => self.handle_signals(),
            Source::MachineNotice => self.handle_machine_notices(),
            Source::ForegroundProxy => self.handle_foreground_proxy(),
            Source::Terminal => {
                self.setup.terminal.iter().for_each(|terminal| terminal.reap());
                self.lose_terminal();
                self.say(&JobEvent::TerminalLost);
            }
            Source::Client | Source::Job => {}
        }
    }

    /// Begins all work that is due, one piece after the other.
    fn begin_what_is_due(&mut self) {
        while self.on(Event::Tick) {}
    }

    /// Sends an event to the machine, and carries out its effects. Returns whether there were any.
    fn on(&mut self, event: Event) -> bool {
        let effects = self.machine.on(event, Instant::now());
        let is_any = !effects.is_empty();
        effects.into_iter().for_each(|effect| self.carry_out(effect));
        is_any
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::BeginCheckpoint(order) => self.begin_checkpoint(order),
            Effect::BeginFlush(order) => self.begin_flush(order),
            Effect::GiveUpFlush => self.give_up_foreground_flush(),
            Effect::BeginCoalescing(level) => self.begin_coalescing(level),
            Effect::BeginRehearsal => self.begin_rehearsal(),
            Effect::RenewMemory => self.renew_memory(),
            Effect::Answer(client, reply) => self.answer(client, &reply),
            Effect::Say(event) => self.say(&event),
            Effect::Notify { is_protected, reason } => self.notify(is_protected, reason),
        }
    }

    /// Handles news of the main process. Returns how it ended, if it did.
    fn handle_job(&mut self) -> Result<Option<Option<ExitStatus>>, Error> {
        // First finish all work that stops the process's threads, since such work holds the process.
        self.setup.destination.part.iter().for_each(|part| part.interrupt_wait());
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

    /// Continues with the other processes after the main process has ended, if there are any and that is wanted. Works
    /// in the background, unless the foreground proxy is to wait.
    fn follow_descendants(&mut self, status: Option<ExitStatus>) -> bool {
        let is_wanted = self.setup.context.wait || self.has_foreground_proxy && !self.setup.context.ends_container();
        if !is_wanted || self.machine.stopped_after().is_some() {
            return false;
        }
        let ending = status.map(Ending::of_status);
        self.await_descendants();
        let processes = self.job.descendants();
        if !processes.iter().any(|pid| self.job.follow(*pid)) {
            return false;
        }
        let processes = processes.into_iter().map(Pid::get).collect();
        self.is_named = false;
        self.heartbeat_due = Instant::now();
        if matches!(ending, Some(Ending::Killed { .. })) {
            // Checkpoints of the program must not make way for checkpoints of its remains.
            self.machine.take_no_more(Instant::now());
        }
        match (&self.foreground.proxy, ending) {
            (Some(_), Some(ending)) if !self.setup.context.wait => self.go_into_background(processes, ending),
            _ => self.say(&JobEvent::GoesOn { processes }),
        }
        true
    }

    /// Lets the foreground proxy end, since the program has ended.
    fn go_into_background(&mut self, processes: Vec<i32>, ending: Ending) {
        self.foreground.take_back();
        self.renew_lease(Instant::now());
        let directory = self.setup.context.directory.clone();
        let is_interrupted = matches!(ending, Ending::Killed { .. }) && !ending.is_own_failure();
        let interrupted = is_interrupted.then(|| ending.to_string());
        self.say(&JobEvent::InBackground { directory, processes, interrupted });
        self.release_foreground_proxy(ending);
    }

    /// Lets the foreground proxy end. From now on nobody waits for us.
    fn release_foreground_proxy(&mut self, ending: Ending) {
        if let Some(proxy) = self.foreground.proxy.take() {
            self.be_alone();
            proxy.let_go(ending);
        }
    }

    /// Records that nobody waits for us any more.
    fn be_alone(&mut self) {
        (self.setup.context.foreground_proxy, self.foreground.proxy) = (None, None);
        let directory = self.setup.context.directory.clone();
        self.say(&JobEvent::Alone { directory });
        (self.setup.context.hooks.alone)(&self.setup.context.directory);
    }

    /// Makes the foreground proxy attach to the job's own terminal, or lets it end.
    fn show_terminal(&mut self) {
        let terminal = self.setup.terminal.clone();
        self.job.set_terminal(terminal.map(|terminal| terminal as Arc<dyn TerminalHolder>));
        if self.setup.context.detached {
            let directory = self.setup.context.directory.clone();
            self.say(&JobEvent::Detached { directory });
            self.release_foreground_proxy(Ending::Exited { status: 0 });
        } else if let (Some(_), Some(proxy)) = (&self.setup.terminal, &self.setup.context.foreground_proxy) {
            proxy.show_terminal();
        }
    }

    /// Closes the job's own terminal. If its holder is gone as well, that hangs it up.
    fn lose_terminal(&mut self) {
        self.setup.terminal = None;
        self.job.set_terminal(None);
    }

    /// Sleeps until something happens or is due, and returns the sources of news.
    fn wait(&self, now: Instant) -> Result<Vec<Source>, Error> {
        let end = self.job.end_descriptor();
        let holders = self.setup.terminal.iter().map(|terminal| terminal.connection());
        let checking = self.preflight.checking();
        let polled = std::iter::empty()
            .chain(self.checkpointing.iter().map(|it| (Source::Checkpoint, PollFd::new(it, PollFlags::IN))))
            .chain(self.coalescing.iter().map(|it| (Source::Coalescing, PollFd::new(it, PollFlags::IN))))
            .chain(self.rehearsing.iter().map(|it| (Source::Rehearsal, PollFd::new(it, PollFlags::IN))))
            .chain(self.flushing.iter().map(|it| (Source::Flush, PollFd::new(it, PollFlags::IN))))
            .chain(checking.map(|it| (Source::Preflight, PollFd::new(it, PollFlags::IN))))
            .chain(self.ending_waits.iter().map(|it| (Source::Waits, PollFd::new(it, PollFlags::IN))))
            .chain([(Source::Signals, PollFd::new(&self.setup.signals, PollFlags::IN))])
            .chain(self.watcher.iter().map(|it| (Source::MachineNotice, PollFd::new(it, PollFlags::IN))))
            .chain(
                self.setup
                    .context
                    .foreground_proxy
                    .iter()
                    .map(|it| (Source::ForegroundProxy, PollFd::new(it, PollFlags::IN))),
            )
            .chain(holders.map(|holder| (Source::Terminal, PollFd::from_borrowed_fd(holder, PollFlags::RDHUP))))
            .chain(self.setup.control.iter().flat_map(ControlSocket::poll_fds).map(|fd| (Source::Client, fd)))
            .chain([(Source::Job, PollFd::new(&end, PollFlags::IN))]);
        let (sources, mut fds): (Vec<Source>, Vec<PollFd<'_>>) = polled.unzip();
        let timeout = self.next_due().map(|due| timespec(due.saturating_duration_since(now)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {
                let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
                Ok(sources.into_iter().zip(&fds).filter(|(_, fd)| is_ready(fd)).map(|(source, _)| source).collect())
            }
            // A signal handler ran: its news is in the inbox.
            Err(rustix::io::Errno::INTR) => Ok(vec![Source::Signals]),
            Err(error) => Err(Error::system("wait for the program")(error.into())),
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let client = self.setup.control.as_ref().and_then(ControlSocket::deadline);
        let waits = if self.ending_waits.is_none() { self.job.freezer().next_wait_end() } else { None };
        let report = self.reports.as_ref().map(Reports::due);
        let metrics = self.metrics.due();
        let dues = [
            Some(self.heartbeat_due),
            metrics,
            self.machine.due(),
            self.preflight.due(),
            client,
            waits,
            report,
            self.size_due,
        ];
        dues.into_iter().flatten().min()
    }

    /// Names the program in the lease, and later shows that its supervisor is alive. Reports an error of the disk, and
    /// tries again.
    fn renew_lease(&mut self, now: Instant) {
        if now < self.heartbeat_due {
            return;
        }
        self.heartbeat_due = now + HEARTBEAT;
        let lease = &self.setup.destination.lease;
        let renewed =
            if self.is_named { lease.heartbeat() } else { lease.set_program(in_lease(self.job.main_process())) };
        match renewed {
            Ok(()) => self.is_named = true,
            Err(error) => self.warn(format!("cannot renew the lease: {error}")),
        }
    }

    /// Ends waits whose time limits are reached. Like a checkpoint, this has a thread of its own.
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

    /// Handles the end of that thread, after waiting for it if necessary.
    fn join_waits(&mut self) {
        let Some(ending) = self.ending_waits.take() else { return };
        // A panic of the thread has been reported. The waits then last longer.
        let _ = ending.join();
        hold_child_signal(self.is_traced());
        self.handle_stop();
    }

    /// Reports whether one of our threads stops threads of the job.
    fn is_traced(&self) -> bool {
        self.checkpointing.is_some() || self.ending_waits.is_some() || self.stands_still_for_flush()
    }

    /// Checks whether a checkpoint could be taken, without touching the program.
    fn check_free_space(&mut self, now: Instant) {
        let (destination, freezer) = (self.setup.destination.clone(), self.job.freezer());
        if let Err(error) = self.preflight.begin(now, move || look(&destination, &freezer)) {
            self.warn(format!("cannot examine whether the program can be checkpointed: {error}"));
        }
    }

    /// Reports what prevents a checkpoint, unless a checkpoint has reported it already.
    fn report_preflight(&mut self) {
        let Some(problem) = self.preflight.end(Instant::now()) else { return };
        self.on(Event::Unprotectable { reason: without_numbers(&problem.to_string()) });
    }

    fn warn(&mut self, reason: String) {
        self.say(&JobEvent::Trouble { reason });
    }

    fn say(&mut self, event: &JobEvent) {
        (self.listener)(event);
    }
}

/// Returns the foreground of a job. Our terminal's keys do not concern a job that has its own.
pub(crate) fn foreground_of(
    leader: i32,
    own: Option<&HeldTerminal>,
    proxy: Option<ForegroundConnection>,
) -> Foreground {
    match own {
        Some(_) => Foreground::elsewhere(leader, proxy),
        None => Foreground::of(leader, proxy),
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}
