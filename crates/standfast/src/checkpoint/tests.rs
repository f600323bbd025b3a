//! The phases of a checkpoint, tested on a job that records the calls and fails on demand. The store is real.

use super::job::{CaptureNews, CapturedJob, Figures, FrozenJob, JobFreezer, PrecopiedPages};
use super::*;
use crate::part_link::{Conversation, JobPart};
use crate::settings::{JobOptions, Snapshot};
use standfast_engine::{CaptureOptions, EngineError, Readiness, Tracking};
use standfast_format::ImageSink;
use standfast_format::manifest::{JobDescription, RunOptions};
use standfast_format::records::{JobState, ProcessState};
use standfast_parts::{CutOrder, FromPart, PartsEpoch, ToPart};
use standfast_store::{JobDirectory, LeaseRequest, Levels};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;
use tempfile::TempDir;

/// What goes wrong.
#[derive(Debug, Clone, Copy, Default)]
struct Script {
    /// A thread does not stop.
    is_unstoppable: bool,
    has_disabled_checkpoints: bool,
    /// A thread waits for the checkpoint.
    is_awaited: bool,
    /// How often one of its threads talks with the supervisor when it is stopped.
    asks: usize,
    is_refused: bool,
    ends_at_report: bool,
    /// How often its statements about its memory differ from those that were read ahead.
    outdated: usize,
    clone_is_killed: bool,
    ends_before_it_is_killed: bool,
    /// How long it takes to tidy up after the checkpoint.
    tidying: Duration,
}

/// A job that only records the calls.
#[derive(Debug, Clone)]
struct FakeJob {
    script: Script,
    done: Arc<Mutex<Vec<String>>>,
    directory: PathBuf,
}

impl FakeJob {
    fn note(&self, what: impl Into<String>) {
        self.done.lock().unwrap().push(what.into());
    }

    fn times(&self, what: &str) -> usize {
        self.done.lock().unwrap().iter().filter(|it| *it == what).count()
    }

    /// Returns the number of committed checkpoints.
    fn generations(&self) -> usize {
        JobDirectory::open(&self.directory).unwrap().manifest().unwrap().generations.len()
    }
}

/// What was captured of the job.
struct FakeCapture {
    job: FakeJob,
    outputs: Vec<Output>,
}

impl JobFreezer for FakeJob {
    type Frozen = Self;
    type Precopied = Vec<u64>;
    type Captured = FakeCapture;

    fn figures(&self, _: Tracking) -> Figures {
        Figures { pid: std::process::id() as i32, processes: 1, ..Figures::default() }
    }

    fn prefetch(&self) {
        self.note("prefetch");
    }

    fn await_stoppable(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn freeze(&self) -> Result<Self, EngineError> {
        if self.script.is_unstoppable {
            return Err(EngineError::Unstoppable {
                tid: standfast_linux::Tid::new(1),
                stood_still: Duration::from_millis(200),
            });
        }
        self.note("freeze");
        Ok(self.clone())
    }

    fn may_ask_for_free_memory(&self) -> bool {
        false
    }

    fn changed_files(&self) -> Vec<Output> {
        Vec::new()
    }

    fn judge_unsaved(&self) {
        std::thread::sleep(self.script.tidying);
        self.note("judge");
    }

    fn has_copy_of(&self, _: &FileReference) {}
}

impl FrozenJob for FakeJob {
    type Precopied = Vec<u64>;
    type Captured = FakeCapture;

    fn since(&self) -> Instant {
        Instant::now()
    }

    fn readiness(&self) -> Result<Readiness, EngineError> {
        Ok(match self.script {
            Script { has_disabled_checkpoints: true, .. } => Readiness::Disabled,
            Script { asks, .. } if self.times("freeze") <= asks => Readiness::Asking,
            Script { is_awaited: true, .. } => Readiness::Awaited,
            _ => Readiness::Ready,
        })
    }

    fn begin_precopy(&mut self, _: CaptureOptions) -> Result<Vec<u64>, EngineError> {
        self.note("begin precopy");
        Ok(vec![0x1000])
    }

    fn capture(
        &mut self,
        precopied: Vec<u64>,
        _: &mut dyn ImageSink,
        how: CaptureOptions,
    ) -> Result<FakeCapture, EngineError> {
        self.note(format!("capture {:?}, {} precopied", how.asking, precopied.len()));
        if self.script.is_refused {
            return Err(EngineError::Refused(Vec::new()));
        }
        Ok(FakeCapture { job: self.clone(), outputs: Vec::new() })
    }

    fn report_outcome(&self, taken: Option<u64>, _: Advised) -> Result<(), EngineError> {
        self.note(if taken.is_some() { "report success" } else { "report failure" });
        if self.script.ends_at_report { Err(EngineError::Ended) } else { Ok(()) }
    }

    fn thaw(self) -> Result<(), EngineError> {
        self.note("thaw");
        Ok(())
    }

    fn thaw_and_give_back(self) {
        self.note("thaw");
    }

    fn kill(self) -> Result<(), EngineError> {
        self.note(format!("kill with {} checkpoints", self.generations()));
        if self.script.ends_before_it_is_killed { Err(EngineError::Ended) } else { Ok(()) }
    }
}

impl PrecopiedPages for Vec<u64> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn read(&mut self, _: &mut dyn ImageSink, _: u64) -> Result<(), EngineError> {
        Ok(())
    }
}

impl CapturedJob for FakeCapture {
    fn state(&self) -> &JobState {
        static STATE: OnceLock<JobState> = OnceLock::new();
        STATE.get_or_init(|| JobState { processes: vec![ProcessState::default()], ..JobState::default() })
    }

    fn outputs(&mut self) -> &mut Vec<Output> {
        &mut self.outputs
    }

    fn take_confirmation(&mut self) -> Box<dyn FnOnce() -> bool + Send> {
        self.job.note("confirm");
        let holds = self.job.times("confirm") > self.job.script.outdated;
        Box::new(move || holds)
    }

    fn has_clones(&self) -> bool {
        false
    }

    fn read_on(&mut self, _: &mut dyn ImageSink) -> Result<(), EngineError> {
        self.job.note("read on");
        if self.job.script.clone_is_killed { Err(EngineError::Refused(Vec::new())) } else { Ok(()) }
    }

    fn committed(&self, generation: u64) {
        self.job.note(format!("committed {generation}"));
    }

    fn into_news(self) -> CaptureNews {
        CaptureNews { pages: 7, ..CaptureNews::default() }
    }
}

/// Result of one checkpoint.
struct Outcome {
    attempt: Attempt,
    done: Vec<String>,
    generations: usize,
}

/// A job and where its checkpoints go.
struct Setup {
    destination: Destination,
    job: FakeJob,
    _place: TempDir,
}

impl Setup {
    fn new(snapshot: Snapshot, script: Script) -> Self {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("job");
        let directory = JobDirectory::create(&path).unwrap();
        let lease = directory.take_lease(LeaseRequest { purpose: standfast_store::Purpose::Live, force: false });
        let lease = lease.unwrap();
        directory.begin(&lease, JobDescription::default(), RunOptions::default()).unwrap();
        let options = JobOptions { snapshot, ..JobOptions::default() };
        let destination = Destination::new(Levels::new(directory, None), Arc::new(lease), &options);
        Self { destination, job: FakeJob { script, done: Arc::default(), directory: path }, _place: place }
    }

    fn checkpoint(&self, purpose: Purpose) -> Outcome {
        let advised = Advised { due_in: None, next_in: None };
        let order = Order { purpose, past: Past::default(), after_success: advised, after_failure: advised };
        let attempt = take(&self.destination, &self.job, &order);
        Outcome { attempt, done: self.job.done.lock().unwrap().clone(), generations: self.job.generations() }
    }
}

fn checkpoint(purpose: Purpose, snapshot: Snapshot, script: Script) -> Outcome {
    Setup::new(snapshot, script).checkpoint(purpose)
}

/// Takes a checkpoint after which the program continues.
fn protect(script: Script) -> Outcome {
    checkpoint(Purpose::Protect, Snapshot::Copy, script)
}

#[test]
fn a_program_continues_before_its_checkpoint_is_durable() {
    let outcome = protect(Script::default());
    let wanted = [
        "prefetch",
        "freeze",
        "capture Running, 0 precopied",
        "report success",
        "thaw",
        "confirm",
        "read on",
        "committed 1",
    ];
    assert_eq!(outcome.done, [&wanted[..], &["judge"]].concat());
    let taken = outcome.attempt.ok().unwrap();
    assert_eq!((taken.report.generation, taken.report.pages_read, outcome.generations), (1, 7, 1));
}

#[test]
fn the_time_until_a_checkpoint_is_durable_ends_with_its_commit() {
    let tidying = Duration::from_millis(20);
    for purpose in [Purpose::Protect, Purpose::Stop] {
        let begun = Instant::now();
        let outcome = checkpoint(purpose, Snapshot::Copy, Script { tidying, ..Script::default() });
        let took = begun.elapsed();
        let durable = Duration::from_nanos(outcome.attempt.ok().unwrap().report.durable_nanoseconds);
        assert!(durable + tidying <= took, "{purpose:?}: durable after {durable:?} of {took:?}");
    }
}

#[test]
fn the_program_that_asked_for_a_checkpoint_gets_one_report() {
    let outcome = checkpoint(Purpose::Protect, Snapshot::Copy, Script { is_awaited: true, ..Script::default() });
    let reported = outcome.done.iter().filter(|it| *it == "report success").count();
    assert_eq!((reported, outcome.generations), (1, 1));
    assert!(outcome.done.contains(&"capture Stopped, 0 precopied".to_owned()), "{:?}", outcome.done);
}

#[test]
fn pages_are_precopied_between_two_stops() {
    let done = checkpoint(Purpose::Protect, Snapshot::Precopy, Script::default()).done;
    let wanted =
        ["prefetch", "freeze", "begin precopy", "thaw", "freeze", "capture Running, 1 precopied", "report success"];
    assert_eq!(done[..7], wanted);
}

#[test]
fn a_program_to_be_stopped_is_killed_after_its_checkpoint_commits() {
    for ends_before_it_is_killed in [false, true] {
        let script = Script { ends_before_it_is_killed, ..Script::default() };
        let outcome = checkpoint(Purpose::Stop, Snapshot::Sequential, script);
        let wanted = [
            "prefetch",
            "freeze",
            "capture Stopped, 0 precopied",
            "report success",
            "kill with 1 checkpoints",
            "judge",
        ];
        assert_eq!((outcome.done, outcome.attempt.is_ok()), (wanted.map(str::to_owned).to_vec(), true));
    }
}

#[test]
fn an_unstoppable_program_is_not_stopped_again_to_report_failure() {
    let outcome = protect(Script { is_unstoppable: true, ..Script::default() });
    let abandoned = outcome.attempt.err().unwrap();
    assert_eq!(abandoned.failure.stood_still(), Some(Duration::from_millis(200)));
    assert!(abandoned.is_reported && abandoned.failure.is_passing());
    assert_eq!((outcome.done, outcome.generations), (vec!["prefetch".to_owned()], 0));
}

#[test]
fn a_program_that_has_disabled_checkpoints_continues_at_once() {
    let outcome = protect(Script { has_disabled_checkpoints: true, ..Script::default() });
    assert!(matches!(outcome.attempt, Err(abandoned) if matches!(abandoned.failure, Failure::Disabled)));
    assert_eq!((outcome.done, outcome.generations), (["prefetch", "freeze", "thaw"].map(str::to_owned).to_vec(), 0));
}

#[test]
fn a_program_with_a_request_is_thawed_a_limited_number_of_times() {
    let outcome = protect(Script { asks: 3, ..Script::default() });
    let count = |what: &str| outcome.done.iter().filter(|it| *it == what).count();
    assert_eq!((count("freeze"), count("thaw"), outcome.generations), (4, 4, 1));
    assert_eq!(protect(Script { asks: usize::MAX, ..Script::default() }).generations, 1);
}

#[test]
fn a_refusal_is_reported_to_the_frozen_program_before_the_thaw() {
    let outcome = protect(Script { is_refused: true, ..Script::default() });
    assert!(outcome.attempt.is_err_and(|abandoned| abandoned.is_reported));
    assert_eq!(outcome.done[3..], ["report failure", "thaw"]);
    assert_eq!(outcome.generations, 0);
}

#[test]
fn a_program_that_ends_at_the_report_leaves_no_checkpoint() {
    let outcome = protect(Script { ends_at_report: true, ..Script::default() });
    assert!(outcome.attempt.is_err_and(|abandoned| abandoned.failure.is_end()));
    assert_eq!(outcome.generations, 0);
}

#[test]
fn outdated_attributes_are_retried_and_finally_read_while_stopped() {
    let outcome = protect(Script { outdated: 2, ..Script::default() });
    let captures: Vec<_> = outcome.done.iter().filter(|it| it.starts_with("capture")).collect();
    let wanted = ["Running", "Running", "Stopped"].map(|asking| format!("capture {asking}, 0 precopied"));
    assert_eq!(captures, wanted.iter().collect::<Vec<_>>());
    assert_eq!((outcome.attempt.is_ok(), outcome.generations), (true, 1));
    let outcome = protect(Script { outdated: 3, ..Script::default() });
    assert!(matches!(outcome.attempt, Err(abandoned) if matches!(abandoned.failure, Failure::Outdated)));
    assert_eq!(outcome.generations, 0);
}

/// Returns the order to take the checkpoint of an epoch.
fn cut_order(number: u64) -> CutOrder {
    CutOrder { epoch: PartsEpoch { number, cut: 0 }, complete: None, on_disk: None, is_to_flush: false }
}

/// Takes the checkpoint of a part of a distributed job. The coordinator gives these answers, in this order.
fn cut(part: &JobPart, setup: &Setup, order: CutOrder, answers: &[ToPart]) -> Outcome {
    let (own, coordinators) = UnixStream::pair().unwrap();
    let mut coordinator = Conversation::begin(coordinators, Duration::from_secs(60)).unwrap();
    part.link().begin_cut(order, own, Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            answers.iter().for_each(|answer| {
                setup.job.note(format!("said {:?}", coordinator.hear::<FromPart>().unwrap()));
                coordinator.say(answer).unwrap();
            });
        });
        let outcome = setup.checkpoint(Purpose::Protect);
        part.link().end_cut();
        outcome
    })
}

/// Takes checkpoints of a part.
fn cuts(script: Script, number: u64, answers: &[ToPart]) -> Vec<Outcome> {
    let (part, setup) = (JobPart::new(), Setup::new(Snapshot::Copy, script));
    let setup = Setup { destination: setup.destination.of_part(Some(&part)), ..setup };
    (1..=number).map(|number| cut(&part, &setup, cut_order(number), answers)).collect()
}

/// Returns the epochs of a level.
fn epochs(level: &JobDirectory) -> Vec<u64> {
    level.manifest().unwrap().generations.iter().filter_map(|it| Some(it.epoch?.number)).collect()
}

#[test]
fn a_part_keeps_on_each_level_what_all_parts_have_there() {
    let (part, setup) = (JobPart::new(), Setup::new(Snapshot::Copy, Script::default()));
    let mut destination = setup.destination.clone().of_part(Some(&part));
    destination.levels.make_memory(&destination.lease, setup.job.directory.parent().unwrap()).unwrap();
    let setup = Setup { destination: destination.clone(), ..setup };
    let (memory, disk) = (destination.levels.memory.clone().unwrap(), &destination.levels.directory);
    let take = |order: CutOrder| {
        assert!(cut(&part, &setup, order, &[ToPart::Freeze, ToPart::Thaw]).attempt.is_ok());
        let number = memory.manifest().unwrap().generations.last().unwrap().number;
        if part.link().is_to_flush() {
            disk.take_from(&destination.lease, &memory, number, &standfast_store::Pacing::default()).unwrap();
            destination.retain(Level::Directory).unwrap();
        }
    };
    (1..=6).for_each(|number| take(CutOrder { is_to_flush: number % 2 == 1, ..cut_order(number) }));
    assert_eq!(
        (epochs(&memory), epochs(disk)),
        (vec![1, 2, 3, 4, 5, 6], vec![1, 3, 5]),
        "nothing is known of the others"
    );
    let epoch = |number| Some(PartsEpoch { number, cut: 0 });
    take(CutOrder { complete: epoch(5), on_disk: epoch(1), is_to_flush: true, ..cut_order(7) });
    assert_eq!((epochs(&memory), epochs(disk)), (vec![5, 6, 7], vec![1, 3, 5, 7]));
    take(CutOrder { complete: epoch(7), on_disk: epoch(5), is_to_flush: true, ..cut_order(8) });
    assert_eq!((epochs(&memory), epochs(disk)), (vec![7, 8], vec![5, 7, 8]));
}

#[test]
fn a_part_is_frozen_once_all_are_ready_and_thawed_once_all_are_captured() {
    let outcome = cuts(Script::default(), 1, &[ToPart::Freeze, ToPart::Thaw]).remove(0);
    let wanted =
        ["prefetch", "said Ready", "freeze", "capture Running, 0 precopied", "report success", "said Captured", "thaw"];
    assert_eq!(outcome.done[..wanted.len()], wanted);
    assert_eq!((outcome.attempt.is_ok(), outcome.generations), (true, 1));
}

#[test]
fn a_part_is_not_frozen_if_another_gives_up_before() {
    let why = "another part has failed";
    let outcome = cuts(Script::default(), 1, &[ToPart::GiveUp { reason: why.to_owned() }]).remove(0);
    let failure = outcome.attempt.unwrap_err().failure.to_string();
    assert!(failure.ends_with(why), "{failure}");
    assert!(!outcome.done.iter().any(|it| it.starts_with("capture")), "{:?}", outcome.done);
}

#[test]
fn a_part_whose_job_ends_does_not_wait_for_the_others() {
    for ends_before in [false, true] {
        let (part, setup) = (JobPart::new(), Setup::new(Snapshot::Copy, Script::default()));
        let setup = Setup { destination: setup.destination.of_part(Some(&part)), ..setup };
        let (own, coordinators) = UnixStream::pair().unwrap();
        let mut coordinator = Conversation::begin(coordinators, Duration::from_secs(60)).unwrap();
        part.link().begin_cut(cut_order(1), own, Vec::new());
        if ends_before {
            part.link().interrupt_wait();
        }
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                if !ends_before {
                    assert_eq!(coordinator.hear::<FromPart>().unwrap(), FromPart::Ready);
                    part.link().interrupt_wait();
                }
            });
            setup.checkpoint(Purpose::Protect)
        });
        assert!(matches!(outcome.attempt.unwrap_err().failure, Failure::OtherParts(_)));
        assert!(!outcome.done.iter().any(|it| it == "freeze"), "{:?}", outcome.done);
    }
}

#[test]
fn a_part_asks_while_stopped_after_an_attempt_that_was_outdated() {
    let outcomes = cuts(Script { outdated: 1, ..Script::default() }, 3, &[ToPart::Freeze, ToPart::Thaw]);
    let captures: Vec<_> = outcomes[2].done.iter().filter(|it| it.starts_with("capture")).collect();
    let wanted = ["Running", "Stopped", "Running"].map(|asking| format!("capture {asking}, 0 precopied"));
    assert_eq!(captures, wanted.iter().collect::<Vec<_>>());
    assert_eq!(outcomes.iter().map(|it| it.attempt.is_ok()).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn a_killed_clone_fails_the_checkpoint_and_not_the_program() {
    let outcome = protect(Script { clone_is_killed: true, ..Script::default() });
    assert!(outcome.attempt.is_err_and(|abandoned| abandoned.is_reported));
    assert_eq!((outcome.done.last().map(String::as_str), outcome.generations), (Some("read on"), 0));
}
