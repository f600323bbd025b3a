//! Rebuilds a job from an image: decide first, then act.
//!
//! ```text
//! foreseen       refusals that a checkpoint already checks for
//! plan           checks that all needed files exist, else refuses by name; nothing has been touched
//! open_files     decides about regular files and streams
//! working_directory  found again, or made again if they were empty
//! streams        standard output and error that were files: continued there, or redirected
//! other_names    files that had several names
//! renamed        files that have been renamed since
//! ids            old or new process and thread ids, and their consequences
//! namespaces     which ones the job needs here for its old ids and its clocks
//! beginning      a child, held and seized, executes the job's program; its own memory is thrown away
//! family         drives all that follows, first for the job's main process, then for all others, which it makes
//! births         in which order processes are made, and by whom; rehearsed before any is
//! process_tree   the other processes: parents, sessions, groups, zombies
//! address_space  kernel mappings moved, regions mapped, layout reported to the kernel
//! vdso           the kernel's own mappings: moved, or redirected under another kernel
//! filling        pages delivered and verified
//! known_names    names of files found in the job's memory, searched as it is delivered
//! mapped_files   files that the program writes through mappings; written: which these are
//! folders        directories that are saved with the job
//! notes          what the restart reports about files
//! listing        files that the job appends to without holding them open; names, by which it knows them
//! process_tree/stops  processes that job control had stopped are stopped again
//! attributes     directory, umask, signal dispositions
//! mapping_attributes  advice, guards, locks and keys of memory
//! process_switches  settings that the process has made in the kernel
//! scheduling     policy, priorities and processors, if they are allowed here
//! capabilities   given up again
//! resource_limits  set as high as allowed here
//! threads        created under their old ids; what the kernel keeps for each; registers last
//! compared       with the image, by its twin; a difference that nobody has allowed ends the restart
//! rehearsal      all of the above, of a copy (rehearsed_job) that nobody notices, which is then discarded
//! commit         the caller's last word; then every tie to us is cut, the last one is the commit
//! ```
//!
//! [`crate::objects`] makes shared memory, System V objects, timers and open files: in the main process while it is
//! alone, and what needs other processes once these exist. Then each process gives its descriptors their numbers. Some
//! of the steps above are in modules there too, each beside what collects the same state.
//!
//! Until the commit the half-built job dies with us, whatever happens. Files are cut back only after all pages have
//! been delivered and verified.

mod address_space;
mod attributes;
mod beginning;
mod blockers;
mod compared;
mod cut_back;
mod family;
mod files;
mod filling;
mod folders;
mod ids;
mod known_names;
mod listing;
mod mapped_files;
mod mapping_attributes;
mod names;
mod namespaces;
mod notes;
mod open_files;
mod plan;
mod rehearsal;
mod rehearsed_job;
mod rehearsed_sockets;
mod renamed;
mod streams;
mod tails;
mod threads;
mod vdso;
mod written;

use crate::directions::RestartNews;
use crate::error::kernel;
use crate::inheritance::Inheritance;
use crate::job::{End, Job, stay_in_sight};
use crate::objects::{OnWait, OutsideWorld, refuse_lone_part, remove_leftovers, remove_made_since};
use crate::partners::{RestartPartners, RestartStep};
use crate::remake::Remade;
use crate::stopwatch::{RestartPhase, Stopwatch};
use crate::{EngineError, JobIds, ProcessIdentity};
use family::Family;
pub use files::{FileNote, FileOptions};
pub use ids::IdPolicy;
use known_names::KnownNames;
use listing::ListedPlan;
use mapped_files::MappedPlan;
pub use namespaces::ClockPolicy;
use notes::condensed;
use plan::JobPlan;
pub use rehearsal::{RehearsalOptions, Rehearsed, rehearse_restart};
use standfast_format::records::FileReference;
use standfast_format::{BoxError, ImageSource};
use standfast_linux::InheritedSignals;
use standfast_linux::sys::process;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
pub use streams::Streams;
pub use tails::{KeepTail, Tail};

/// How to restart.
pub struct RestartOptions<'a> {
    /// Process and thread ids.
    pub ids: IdPolicy,
    /// Clocks that would go back.
    pub clocks: ClockPolicy,
    /// What to do about files that have changed.
    pub files: FileOptions<'a>,
    /// Finds the copy of an executable or a library as it was at the checkpoint, if one was kept.
    pub saved_binary: &'a dyn Fn(&FileReference) -> Option<PathBuf>,
    /// Keeps what is about to be cut off a file.
    pub keep_tail: &'a mut KeepTail<'a>,
    /// Fields in which the rebuilt job may differ from the checkpoint all the same, as a refusal names them.
    pub despite: &'a [String],
    /// News for programs that direct their own checkpoints.
    pub news: RestartNews<'a>,
    /// Called repeatedly during the wait for an address; an error cancels the restart.
    pub on_wait: &'a OnWait<'a>,
    /// The other parts, if the job is a part of a distributed one.
    pub partners: Option<&'a dyn RestartPartners>,
    /// Takes the master of the job's terminal if that was held outside. Called only then, before the job runs.
    pub hold_terminal: &'a mut dyn FnMut(OwnedFd) -> Result<(), BoxError>,
    /// Called when the job is rebuilt and about to run, with its identity: the last chance to refuse.
    pub before_thaw: &'a mut dyn FnMut(ProcessIdentity) -> Result<(), BoxError>,
}

/// A job that runs again.
#[derive(Debug)]
pub struct Restarted {
    /// The job.
    pub job: Job,
    /// The ids under which it runs.
    pub ids: JobIds,
    /// What it continues without, though no result depends on it: one line each.
    pub notes: Vec<String>,
    /// What was done about files.
    pub files: Vec<FileNote>,
    /// How long that took, by phases.
    pub phases: Vec<RestartPhase>,
}

/// Rebuilds the job that `source` holds and lets it run. Call it while this process has a single thread.
///
/// # Errors
/// Returns an error if anything blocks the restart. Nothing of the half-built job remains then, and no file was cut
/// back unless all pages had verified.
pub fn restart(source: &dyn ImageSource, mut options: RestartOptions<'_>) -> Result<Restarted, EngineError> {
    let mut stopwatch = Stopwatch::start();
    let of_files = FileOptions { own_directory: Some(options.news.directory), ..options.files };
    let plan = JobPlan::make(source.state(), of_files, options.saved_binary)?;
    if options.partners.is_none() {
        refuse_lone_part(source.state())?;
    }
    stay_in_sight()?;
    stopwatch.lap("plan");
    // The image holds what differs from the default, so nothing that this process ignores may interfere.
    let mut family = Family::begin(&plan, options.ids, options.clocks, InheritedSignals::none())?;
    stopwatch.lap("start");
    let mut remade = Remade::default();
    let missing_made = plan.remake.carry_out(&mut remade);
    let ready = missing_made.and_then(|()| family.make_ready(&plan, source, &mut options, &mut stopwatch));
    // The job may make objects of System V as soon as it runs. These are its own.
    let inheritance = Inheritance::of_children();
    let committed = ready.and_then(|ready| Ok((ready, family.commit()?)));
    let (ReadyJob { identity, process, files, compared }, init) = match committed {
        Ok(committed) => committed,
        Err(error) => {
            family.abandon();
            remade.undo();
            return Err(error);
        }
    };
    stopwatch.lap("thaw");
    if init.is_some() {
        remove_leftovers(source.state());
    }
    let end = init.map_or(End::Child(process), End::Namespace);
    let job = Job::new(identity, end, inheritance);
    job.go_on_with(&family.waits());
    job.share_ports_of(std::mem::take(&mut family.sharing));
    job.has_written(written::written(source.state()));
    let code = source.state().code_files().filter(|file| (options.saved_binary)(file).is_some());
    code.for_each(|file| job.freezer().has_copy_of(file));
    let notes = plan.remarks.iter().cloned().chain(family.notes()).chain(compared).collect();
    Ok(Restarted { job, ids: family.main().ids.clone(), notes, files: condensed(files), phases: stopwatch.phases() })
}

/// A rebuilt job that is about to run.
struct ReadyJob {
    identity: ProcessIdentity,
    /// A descriptor that tells of its end. It exists before the job runs, since nothing may fail after that.
    process: OwnedFd,
    /// What was done about files.
    files: Vec<FileNote>,
    /// What its comparison with the checkpoint has shown.
    compared: Vec<String>,
}

/// What is to be done about files.
struct JudgedFiles<'a> {
    /// Those that the job has mapped, and whose contents are to be restored.
    differing: Vec<&'a MappedPlan>,
    /// Those that it has appended to, and that are to be cut back.
    appended: Vec<&'a ListedPlan>,
    /// A note of those that stay.
    stay: Option<FileNote>,
}

impl Family {
    /// Builds the job, compares it with the image, and puts its files right. Then lets the caller record that it runs.
    fn make_ready(
        &mut self,
        plan: &JobPlan<'_>,
        source: &dyn ImageSource,
        options: &mut RestartOptions<'_>,
        stopwatch: &mut Stopwatch,
    ) -> Result<ReadyJob, EngineError> {
        let known = KnownNames::new(plan.names_in_doubt(), source.runs());
        let outside = OutsideWorld { on_wait: options.on_wait, partners: options.partners };
        self.build(plan, source, &known, outside, stopwatch)?;
        let compared = self.compare_with_image(plan, options.despite)?;
        let judged = self.judge_files(plan, &known)?;
        outside.arrive(RestartStep::Rebuilt)?;
        stopwatch.lap("compare");
        let files = self.put_files_right(plan, judged, options.keep_tail)?;
        remove_made_since(source.state());
        self.forget_events(plan)?;
        self.let_go_of_objects(plan)?;
        self.connect_again()?;
        self.report_restart(plan, options.news)?;
        stopwatch.lap("files");
        let identity = ProcessIdentity::of(self.main().pid())?;
        let process = process::pidfd_open(identity.pid).map_err(|source| kernel("watching the program", source))?;
        if let Some(master) = self.held.take() {
            (options.hold_terminal)(master).map_err(EngineError::Image)?;
        }
        (options.before_thaw)(identity).map_err(EngineError::Image)?;
        outside.arrive(RestartStep::Ready)?;
        stopwatch.lap("record");
        Ok(ReadyJob { identity, process, files, compared })
    }

    /// Decides what is to be done about files, and does nothing yet.
    ///
    /// # Errors
    /// If the files are not such that the job may continue with them.
    fn judge_files<'a>(
        &mut self,
        plan: &'a JobPlan<'_>,
        known: &KnownNames<'_>,
    ) -> Result<JudgedFiles<'a>, EngineError> {
        let differing = self.main().differing(plan, known)?;
        let (appended, stay) = self.settle_listed(plan, known)?;
        Ok(JudgedFiles { differing, appended, stay })
    }

    /// Makes the files what they were at the checkpoint. Returns what was done about them.
    fn put_files_right(
        &mut self,
        plan: &JobPlan<'_>,
        judged: JudgedFiles<'_>,
        keep_tail: &mut KeepTail<'_>,
    ) -> Result<Vec<FileNote>, EngineError> {
        let JudgedFiles { differing, appended, stay } = judged;
        let mut files = plan.notes.clone();
        files.extend(stay);
        // What is cut off is kept first: restored contents may end where the tail began.
        files.extend(self.cut_back(plan, keep_tail)?);
        files.extend(plan.keep_replaced(&differing, keep_tail)?);
        files.extend(self.cut_back_listed(&appended, &plan.come, keep_tail)?);
        files.extend(self.processes[0].put_back(plan, &differing)?);
        plan.put_folders_right(&mut files)?;
        Ok(files)
    }
}
