//! The engine without a store: a program's image is held in memory, the program is killed, and the image continued.

mod support;

use standfast_core::PAGE_BYTES;
use standfast_engine::{
    CaptureOptions, EngineError, FileOptions, IdPolicy, InheritedSignals, Job, Launch, RestartOptions, StackPart, Tail,
    restart,
};
use standfast_format::records::JobState;
use standfast_format::{BoxError, Contents, ImageSink, ImageSource, PageBatch, Run};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::compile;

const SIGKILL: i32 = 9;

/// An image held in memory.
#[derive(Default)]
struct Held {
    runs: Vec<Run>,
    bytes: Vec<u8>,
    state: JobState,
}

impl ImageSink for Held {
    fn lend(&mut self) -> Result<PageBatch, BoxError> {
        Ok(PageBatch { ranges: Vec::new(), bytes: vec![0; 64 * PAGE_BYTES] })
    }

    fn submit(&mut self, batch: PageBatch) -> Result<(), BoxError> {
        let run = |(owner, range, _)| Run { owner, range, contents: Contents::Stored };
        self.runs.extend(batch.ranges.into_iter().map(run));
        self.bytes.extend(batch.bytes);
        Ok(())
    }

    fn finish(&mut self, state: &JobState) -> Result<(), BoxError> {
        self.state = state.clone();
        Ok(())
    }
}

impl ImageSource for Held {
    fn state(&self) -> &JobState {
        &self.state
    }

    fn runs(&self) -> &[Run] {
        &self.runs
    }

    fn deliver(&self, place: &(dyn Fn(&[Run], &[u8]) -> Result<(), BoxError> + Sync)) -> Result<(), BoxError> {
        place(&self.runs, &self.bytes)
    }
}

fn thread_count(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").count()
}

/// Its standard streams lead nowhere: those of a test may be a file that others write into as well.
fn counting(program: &Path, result: &Path) -> Launch {
    let command = "exec \"$0\" 2000 \"$1\" </dev/null >/dev/null 2>&1";
    let arguments = vec!["-c".into(), command.into(), program.into(), result.into()];
    Launch { program: "/bin/sh".into(), arguments, signals: InheritedSignals::capture() }
}

#[test]
fn a_program_killed_while_it_stands_still_is_noticed_and_its_status_kept() {
    let (_directory, program) = compile("counter.c");
    let result = program.with_extension("out");
    let mut job = Job::launch(&counting(&program, &result)).unwrap();
    let pid = job.main_process().pid;
    while thread_count(pid) < 2 {
        std::thread::yield_now();
    }
    let freezer = job.freezer();
    let outcome = std::thread::scope(|scope| {
        let work = || {
            let mut frozen = freezer.freeze(Duration::from_secs(5)).unwrap();
            job.signal(SIGKILL).unwrap();
            frozen.capture(&mut Held::default(), CaptureOptions::default()).map(|captured| captured.tasks)
        };
        scope.spawn(work).join().unwrap()
    });
    assert!(matches!(outcome, Err(EngineError::Ended)), "{outcome:?}");
    assert_eq!(job.reap().unwrap().and_then(|status| status.signal()), Some(SIGKILL));
}

/// Freezes and captures a job, and lets it run on; the pages of its image.
fn captured_pages(job: &mut Job, stack: StackPart) -> usize {
    let freezer = job.freezer();
    let pages = std::thread::scope(|scope| {
        let work = || {
            let mut held = Held::default();
            let mut frozen = freezer.freeze(Duration::from_secs(5)).expect("it can be frozen");
            frozen
                .capture(&mut held, CaptureOptions { stack, ..CaptureOptions::default() })
                .expect("it can be captured");
            held.bytes.len() / PAGE_BYTES
        };
        scope.spawn(work).join().expect("no panic")
    });
    assert!(pages > 0);
    pages
}

#[test]
fn only_the_live_part_of_the_stack_is_saved_unless_all_is_wanted() {
    let (_directory, program) = compile("deep.c");
    let ready = program.with_extension("ready");
    let command = "exec \"$0\" \"$1\" </dev/null >/dev/null 2>&1";
    let arguments = vec!["-c".into(), command.into(), program.clone().into(), ready.clone().into()];
    let signals = InheritedSignals::capture();
    let mut job = Job::launch(&Launch { program: "/bin/sh".into(), arguments, signals }).unwrap();
    while std::fs::read(&ready).map_or(true, |text| text.is_empty()) {
        std::thread::yield_now();
    }
    let stack_pages = 64 * 65536 / PAGE_BYTES;
    let (live, whole) = (captured_pages(&mut job, StackPart::Live), captured_pages(&mut job, StackPart::Whole));
    job.signal(SIGKILL).unwrap();
    job.reap().unwrap();
    assert!(whole >= live + stack_pages - 16, "{live} pages live, {whole} whole");
    assert!(live < stack_pages, "{live} pages");
}

#[test]
fn a_killed_program_goes_on_from_memory() {
    let (_directory, program) = compile("counter.c");
    let result = program.with_extension("out");
    let native = Command::new(&program).arg("2000").output().unwrap().stdout;
    let launch = counting(&program, &result);
    let mut job = Job::launch(&launch).unwrap();
    while thread_count(job.main_process().pid) < 2 {
        std::thread::yield_now();
    }
    let mut held = Held::default();
    let freezer = job.freezer();
    let tasks = std::thread::scope(|scope| {
        let work = || {
            let mut frozen = freezer.freeze(Duration::from_secs(5)).unwrap();
            let captured = frozen.capture(&mut held, CaptureOptions::default()).unwrap();
            frozen.kill().unwrap();
            held.finish(&captured.state).unwrap();
            captured.tasks
        };
        scope.spawn(work).join().unwrap()
    });
    assert_eq!(tasks, 2);
    job.reap().unwrap();
    assert!(!result.exists(), "it was killed before its end");
    let mut keep_tail = |tail: &Tail<'_>| panic!("nothing is to be cut off, but {tail:?}");

    let mut before_thaw = |_| Ok(());
    let options = RestartOptions {
        ids: IdPolicy::Auto,
        signals: InheritedSignals::capture(),
        files: FileOptions::default(),
        keep_tail: &mut keep_tail,
        before_thaw: &mut before_thaw,
    };
    let mut revived = restart(&held, options).unwrap().job;
    let status = revived.reap().unwrap().unwrap();
    assert!(status.success(), "{status:?}");
    assert_eq!(std::fs::read(&result).unwrap(), native);
}
