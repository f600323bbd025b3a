//! A rehearsal of a restart, while the job is running or after it has ended: planned like a restart, built in namespaces
//! of its own, compared with the checkpoint, and discarded. Nothing of the program runs. No file is made, changed or
//! removed, apart from access times. What others would notice is left out, see [`super::rehearsed_job`].

use super::family::Family;
use super::files::{FileOptions, path_of};
use super::ids::IdPolicy;
use super::known_names::KnownNames;
use super::namespaces::ClockPolicy;
use super::plan::JobPlan;
use super::rehearsed_job::RehearsedJob;
use super::rehearsed_sockets::can_be_made_apart;
use crate::file_policy::FilePolicy;
use crate::job::stay_in_sight;
use crate::objects::{OutsideWorld, has_ipc, refuse_locked_by_others};
use crate::stopwatch::Stopwatch;
use crate::supervisors::is_supervisor;
use crate::tree::Roots;
use crate::{EngineError, ProcessIdentity};
use standfast_format::records::{FileReference, JobState, OpenFileKind};
use standfast_format::{BoxError, Contents, ImageSource, Run};
use standfast_linux::abi;
use standfast_linux::proc::{Room, Stat, TaskRoom};
use standfast_linux::sys::tree::may_access;
use standfast_linux::{InheritedSignals, NetworkSurroundings, Pid};
use std::path::PathBuf;

/// The part of the free memory that a rehearsal may take: a fourth. The rest is for the job.
const SPARE_PARTS: u64 = 4;
/// How many times its own tasks a rehearsal must find free: the job may make more meanwhile.
const TASKS_FACTOR: u64 = 2;

/// What is rehearsed.
pub struct RehearsalOptions<'a> {
    /// Process and thread ids.
    pub ids: IdPolicy,
    /// What a restart would do about files that have changed.
    pub files: FileOptions<'a>,
    /// Finds the copy of an executable or a library as it was at the checkpoint, if one was kept.
    pub saved_binary: &'a dyn Fn(&FileReference) -> Option<PathBuf>,
    /// The main process of the job, if it is running.
    pub running: Option<ProcessIdentity>,
}

/// What a rehearsal has shown. All that a restart checks before it builds anything was found in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rehearsed {
    /// The job was rebuilt, and what was built equals the checkpoint.
    Rebuilt {
        /// What was left out, since others would have noticed it.
        left_out: Vec<&'static str>,
        /// What the rebuilt job lacks, though no result depends on it.
        notes: Vec<String>,
    },
    /// The pages were verified, but the job was not rebuilt.
    Checked {
        /// Why not.
        why: String,
    },
}

/// Rehearses a restart from `source`. Call it while this process has a single thread, and with `/dev/null` as its
/// standard streams if nobody waits for it.
///
/// # Errors
/// What a restart would meet here and now. Nothing is left behind.
pub fn rehearse_restart(source: &dyn ImageSource, options: &RehearsalOptions<'_>) -> Result<Rehearsed, EngineError> {
    let alive = options.running.map(processes_of).unwrap_or_default();
    let files = FileOptions { alive: &alive, ..options.files };
    let plan = JobPlan::make(source.state(), files, options.saved_binary)?;
    refuse_locked_by_others(source.state(), &alive)?;
    stay_in_sight()?;
    let not_rebuilt = match !plan.remake.is_empty() || misses_file(source.state()) {
        false => against_rebuilding(source.state(), options.ids),
        true => Some("what is missing is made again by a restart only".to_owned()),
    };
    let rehearsal = Rehearsal { source, options, files };
    if let Some(why) = not_rebuilt {
        if !watches_files(source.state()) {
            // The main process executes its program, under its old id.
            rehearsal.begin(&plan)?.abandon();
        }
        return rehearsal.only_checked(why);
    }
    let sockets = &source.state().sockets;
    let network = (!sockets.is_empty() && can_be_made_apart(sockets)).then(NetworkSurroundings::here);
    rehearsal.build(network.and_then(Result::ok))
}

/// A job about to be rebuilt.
struct Rehearsal<'a> {
    source: &'a dyn ImageSource,
    options: &'a RehearsalOptions<'a>,
    files: FileOptions<'a>,
}

impl Rehearsal<'_> {
    /// Builds the job, in a network namespace with these surroundings if there are any, and without sockets otherwise.
    fn build(&self, network: Option<NetworkSurroundings>) -> Result<Rehearsed, EngineError> {
        let RehearsedJob { state, left_out } = RehearsedJob::of(self.source.state(), network.is_some());
        let as_they_are = FileOptions { policy: FilePolicy::Keep, ..self.files };
        // It looks at the job's processes and ports, so it comes before this process leaves them.
        let plan = JobPlan::make(&state, as_they_are, self.options.saved_binary)?;
        if let Some(network) = network {
            if network.leave().is_err() {
                return self.build(None);
            }
            if let Err(error) = network.furnish() {
                return self.only_checked(format!("this machine's network cannot be imitated ({error})"));
            }
        }
        self.build_planned(&plan, left_out.into_iter().collect())
    }

    fn build_planned(&self, plan: &JobPlan<'_>, mut left_out: Vec<&'static str>) -> Result<Rehearsed, EngineError> {
        let verified = Verified::of(self.source);
        let is_large = takes_much_memory(self.source.runs());
        left_out.extend(is_large.then_some("contents of memory"));
        let mut family = self.begin(plan)?;
        let notes = family.rehearse(plan, if is_large { &verified } else { self.source });
        let was_killed = family.has_lost_process();
        family.abandon();
        match notes {
            // That says nothing about a restart, which need not share its memory with the job.
            Err(_) if was_killed => {
                self.only_checked("a rebuilt process was killed, as when memory runs out".to_owned())
            }
            notes => Ok(Rehearsed::Rebuilt { left_out, notes: notes? }),
        }
    }

    fn begin(&self, plan: &JobPlan<'_>) -> Result<Family, EngineError> {
        Family::begin(plan, self.options.ids, ClockPolicy::Continue, InheritedSignals::none())
    }

    /// Verifies the pages.
    fn only_checked(&self, why: String) -> Result<Rehearsed, EngineError> {
        self.source.deliver(&|_, _| Ok(())).map_err(EngineError::Image)?;
        Ok(Rehearsed::Checked { why })
    }
}

impl Family {
    /// Builds the job and compares it with the checkpoint. Returns what it lacks.
    fn rehearse(&mut self, plan: &JobPlan<'_>, source: &dyn ImageSource) -> Result<Vec<String>, EngineError> {
        let known = KnownNames::new(std::iter::empty(), source.runs());
        let outside = OutsideWorld { on_wait: &|_| Ok(()), partners: None };
        self.build(plan, source, &known, outside, &mut Stopwatch::start())?;
        self.compare_with_image(plan, &[])
    }
}

/// An image whose pages are verified, but not delivered.
struct Verified<'a> {
    source: &'a dyn ImageSource,
    runs: Vec<Run>,
}

impl<'a> Verified<'a> {
    fn of(source: &'a dyn ImageSource) -> Self {
        let is_stored = |run: &&Run| run.contents == Contents::Stored;
        Self { source, runs: source.runs().iter().filter(is_stored).copied().collect() }
    }
}

impl ImageSource for Verified<'_> {
    fn state(&self) -> &JobState {
        self.source.state()
    }

    fn runs(&self) -> &[Run] {
        &self.runs
    }

    fn deliver(&self, _: &(dyn Fn(&[Run], &[u8]) -> Result<(), BoxError> + Sync)) -> Result<(), BoxError> {
        self.source.deliver(&|_, _| Ok(()))
    }
}

/// Returns the processes of a running job. Those that have lost their parent are children of its supervisor, or of the
/// init of its namespaces.
fn processes_of(main: ProcessIdentity) -> Vec<Pid> {
    let parent = Stat::of(main.pid).ok().map(|stat| stat.parent);
    let reaper = parent.filter(|parent| is_supervisor(parent.main_thread()));
    let members = Roots { main, reaper }.members();
    members.into_iter().map(|member| member.pid).filter(|pid| *pid != Pid::own()).collect()
}

/// Reports whether a file that is saved with the job is gone.
fn misses_file(job: &JobState) -> bool {
    job.objects.iter().filter_map(|object| object.kind.file()).any(|file| !path_of(file).exists())
}

fn watches_files(job: &JobState) -> bool {
    job.open_files.iter().any(|open| matches!(&open.kind, OpenFileKind::Watches { watches } if !watches.is_empty()))
}

/// Reports whether the pages of an image would take memory that the job itself may need.
fn takes_much_memory(runs: &[Run]) -> bool {
    let stored: u64 = runs.iter().filter(|run| run.contents == Contents::Stored).map(|run| run.range.bytes()).sum();
    stored > Room::of(Pid::own()).spare_bytes / SPARE_PARTS
}

/// Returns why a job is not built a second time, if it is not: the job itself may need what that would take.
fn against_rebuilding(job: &JobState, ids: IdPolicy) -> Option<String> {
    let tasks: u64 = job.processes.iter().map(|process| process.threads.len().max(1) as u64).sum();
    let has_huge_pages = job.objects.iter().any(|object| object.huge_page_bytes != 0)
        || job.processes.iter().flat_map(|it| &it.mappings).any(|it| it.attributes.huge_page_bytes != 0);
    let mut messages = job.sockets.iter().flat_map(|socket| &socket.received);
    if messages.any(|message| !message.open_files.is_empty()) {
        return Some("descriptors are on their way between its sockets".to_owned());
    }
    if job.files().any(|file| may_access(path_of(file), abi::R_OK).is_err()) {
        return Some("a restart would change the permissions of a file for a moment, to open it".to_owned());
    }
    if watches_files(job) {
        return Some("the program watches files, and would notice that they are opened".to_owned());
    }
    if Room::of(Pid::own()).promised_bytes.is_some() {
        return Some("the system commits no more memory than it has (vm.overcommit_memory)".to_owned());
    }
    if TaskRoom::of_own().is_some_and(|room| room.spare < tasks * TASKS_FACTOR) {
        return Some(format!("it would take {tasks} processes and threads, and few more are allowed"));
    }
    if has_huge_pages {
        return Some("the program may need the huge pages that it would take".to_owned());
    }
    (ids == IdPolicy::New && has_ipc(job)).then(|| "with --ids new it would share its System V objects".to_owned())
}
