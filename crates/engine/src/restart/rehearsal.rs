//! A rehearsal of a restart, while the job is running or after it has ended: planned like a restart, built in namespaces
//! of its own, compared with the checkpoint, and discarded. Nothing of the program runs. No file is made, changed or
//! removed, apart from access times. What others would notice is left out, see [`super::rehearsed_job`].

use super::family::Family;
use super::files::{FileOptions, FilePolicy, path_of};
use super::ids::IdPolicy;
use super::known_names::KnownNames;
use super::namespaces::ClockPolicy;
use super::plan::JobPlan;
use super::rehearsed_job::RehearsedJob;
use crate::job::stay_in_sight;
use crate::objects::has_ipc;
use crate::supervisors::is_supervisor;
use crate::tree::Roots;
use crate::{EngineError, ProcessIdentity};
use standfast_format::records::{FileReference, JobState, OpenFileKind};
use standfast_format::{Contents, ImageSource, Run};
use standfast_linux::abi;
use standfast_linux::proc::{Room, Stat, TaskRoom};
use standfast_linux::sys::tree::may_access;
use standfast_linux::{InheritedSignals, Pid};
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
    stay_in_sight()?;
    let RehearsedJob { state, left_out } = RehearsedJob::of(source.state());
    let as_they_are = FileOptions { policy: FilePolicy::Keep, ..files };
    let reduced = JobPlan::make(&state, as_they_are, options.saved_binary)?;
    let is_missing = !plan.remake.is_empty() || !reduced.remake.is_empty() || misses_file(source.state());
    let not_rebuilt = match is_missing {
        false => against_rebuilding(source.state(), source.runs(), options.ids),
        true => Some("what is missing is made again by a restart only".to_owned()),
    };
    let begin = || Family::begin(&reduced, options.ids, ClockPolicy::Continue, InheritedSignals::none());
    if let Some(why) = not_rebuilt {
        if !watches_files(source.state()) {
            // The main process executes its program, under its old id.
            begin()?.abandon();
        }
        source.deliver(&|_, _| Ok(())).map_err(EngineError::Image)?;
        return Ok(Rehearsed::Checked { why });
    }
    let mut family = begin()?;
    let notes = family.rehearse(&reduced, source);
    family.abandon();
    Ok(Rehearsed::Rebuilt { left_out: left_out.into_iter().collect(), notes: notes? })
}

impl Family {
    /// Builds the job and compares it with the checkpoint. Returns what it lacks.
    fn rehearse(&mut self, plan: &JobPlan<'_>, source: &dyn ImageSource) -> Result<Vec<String>, EngineError> {
        let known = KnownNames::new(std::iter::empty(), source.runs());
        self.build(plan, source, &known, &|_| Ok(()))?;
        self.compare_with_image(plan, &[])
    }
}

/// Returns the processes of a running job. Those that have lost their parent are children of its supervisor, or of the
/// init of its namespaces.
fn processes_of(main: ProcessIdentity) -> Vec<Pid> {
    let parent = Stat::of(main.id()).ok().map(|stat| stat.parent);
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

/// Returns why a job is not built a second time, if it is not: the job itself may need what that would take.
fn against_rebuilding(job: &JobState, runs: &[Run], ids: IdPolicy) -> Option<String> {
    let stored: u64 = runs.iter().filter(|run| run.contents == Contents::Stored).map(|run| run.range.bytes()).sum();
    let room = Room::of(Pid::own());
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
    if room.promised_bytes.is_some() {
        return Some("the system commits no more memory than it has (vm.overcommit_memory)".to_owned());
    }
    if stored > room.spare_bytes / SPARE_PARTS {
        let mebibytes = |bytes: u64| bytes >> 20;
        let (needed, spare) = (mebibytes(stored), mebibytes(room.spare_bytes));
        return Some(format!("it would take {needed} MiB of memory, and {spare} MiB are free"));
    }
    if TaskRoom::of_own().is_some_and(|room| room.spare < tasks * TASKS_FACTOR) {
        return Some(format!("it would take {tasks} processes and threads, and few more are allowed"));
    }
    if has_huge_pages {
        return Some("the program may need the huge pages that it would take".to_owned());
    }
    (ids == IdPolicy::New && has_ipc(job)).then(|| "with --ids new it would share its System V objects".to_owned())
}
