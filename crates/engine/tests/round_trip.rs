//! The engine without a store: a program's image is held in memory, the program is killed, and the image continued.

use standfast_core::PAGE_BYTES;
use standfast_engine::{IdPolicy, InheritedSignals, Job, Launch, RestartOptions, StackPart, restart};
use standfast_format::records::JobState;
use standfast_format::{BoxError, Contents, ImageSink, ImageSource, PageBatch, Run};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

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
        let run = |(process, range, _)| Run { process, range, contents: Contents::Stored };
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

fn compile() -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("counter-{}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/counter.c");
    let done = Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).status().expect("cc runs");
    assert!(done.success());
    program
}

fn thread_count(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").count()
}

#[test]
fn a_killed_program_goes_on_from_memory() {
    let program = compile();
    let result = program.with_extension("out");
    let arguments = ["-c".into(), format!("exec {} 2000 > {}", program.display(), result.display()).into()];
    let native = Command::new(&program).arg("2000").output().unwrap().stdout;
    let launch =
        Launch { program: "/bin/sh".into(), arguments: arguments.to_vec(), signals: InheritedSignals::capture() };
    let mut job = Job::launch(&launch).unwrap();
    // The shell executes the program in its place; before that the census would see a shell.
    let executable = format!("/proc/{}/exe", job.main_process().pid);
    while std::fs::read_link(&executable).unwrap() != program {
        std::thread::yield_now();
    }
    while thread_count(job.main_process().pid) < 2 {
        std::thread::yield_now();
    }
    let mut held = Held::default();
    let freezer = job.freezer();
    let tasks = std::thread::scope(|scope| {
        let work = || {
            let mut frozen = freezer.freeze(Duration::from_secs(5)).unwrap();
            let captured = frozen.capture(&mut held, StackPart::Live).unwrap();
            frozen.kill().unwrap();
            captured.tasks
        };
        scope.spawn(work).join().unwrap()
    });
    assert_eq!(tasks, 2);
    job.reap().unwrap();
    assert_eq!(std::fs::read(&result).unwrap(), b"");

    let mut before_thaw = |_| Ok(());
    let options =
        RestartOptions { ids: IdPolicy::Auto, signals: InheritedSignals::capture(), before_thaw: &mut before_thaw };
    let mut revived = restart(&held, options).unwrap();
    let status = revived.reap().unwrap().unwrap();
    assert!(status.success(), "{status:?}");
    assert_eq!(std::fs::read(&result).unwrap(), native);
    std::fs::remove_file(program).unwrap();
    std::fs::remove_file(result).unwrap();
}
