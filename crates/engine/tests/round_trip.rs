//! The engine without a store: a test holds a program's image in memory, kills the program, and continues the image.

mod support;

use standfast_core::{Checksum, PAGE_BYTES};
use standfast_engine::{
    Advised, Assistance, CaptureOptions, ClockPolicy, EngineError, FileOptions, IdPolicy, InheritedSignals, Job,
    Launch, LaunchTerminal, RestartNews, RestartOptions, StackPart, Tail, restart,
};
use standfast_format::records::{JobState, Machine};
use standfast_format::{BoxError, ImageSink, PageBatch};
use standfast_linux::vdso;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use support::{HeldImage, compile};
use tempfile::TempDir;

const SIGKILL: i32 = 9;
/// A program that stops at once may still have to wait for a processor.
const PATIENCE: Duration = Duration::from_secs(60);
/// Rounds that take a minute: only a test that fails sees their end.
const FOR_LONG: &str = "200000";
/// Rounds that take a second: long enough for a checkpoint in the middle of them.
const A_WHILE: &str = "6000";

fn thread_count(pid: i32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives").count()
}

/// Returns a launch whose standard streams lead nowhere, since those of a test may be a file that others write into as
/// well.
fn counting(program: &Path, rounds: &str, result: &Path) -> Launch {
    let command = "exec \"$0\" \"$1\" \"$2\" </dev/null >/dev/null 2>&1";
    let arguments = vec!["-c".into(), command.into(), program.into(), rounds.into(), result.into()];
    Launch {
        program: "/bin/sh".into(),
        arguments,
        signals: InheritedSignals::capture(),
        terminal: LaunchTerminal::shared(),
        directory: None,
        assistance: Assistance::default(),
    }
}

#[test]
fn a_program_killed_while_frozen_is_reported_as_killed() {
    let (_directory, program) = compile("counter.c");
    let result = program.with_extension("out");
    let mut job = Job::launch(&counting(&program, FOR_LONG, &result)).unwrap();
    let pid = job.main_process().pid.get();
    while thread_count(pid) < 2 {
        std::thread::yield_now();
    }
    let freezer = job.freezer();
    let outcome = std::thread::scope(|scope| {
        let work = || {
            let mut frozen = freezer.freeze(PATIENCE).unwrap();
            job.signal(SIGKILL).unwrap();
            frozen.capture(&mut HeldImage::default(), CaptureOptions::default()).map(|captured| captured.tasks)
        };
        scope.spawn(work).join().unwrap()
    });
    assert!(matches!(outcome, Err(EngineError::Ended)), "{outcome:?}");
    assert_eq!(job.reap().unwrap().and_then(|status| status.signal()), Some(SIGKILL));
}

/// A sink that takes all of an image at once, and kills the program at that moment.
struct Deadly<'a>(&'a Job);

impl ImageSink for Deadly<'_> {
    fn lend(&mut self) -> Result<PageBatch, BoxError> {
        Ok(PageBatch { bytes: vec![0; 64 << 20], ..PageBatch::default() })
    }

    fn submit(&mut self, _: PageBatch) -> Result<(), BoxError> {
        Ok(self.0.signal(SIGKILL)?)
    }

    fn finish(&mut self, _: &JobState) -> Result<(), BoxError> {
        Ok(())
    }
}

#[test]
fn a_capture_fails_if_the_program_is_killed_during_it() {
    let (_directory, program) = compile("counter.c");
    let mut job = Job::launch(&counting(&program, FOR_LONG, &program.with_extension("out"))).unwrap();
    while thread_count(job.main_process().pid.get()) < 2 {
        std::thread::yield_now();
    }
    let freezer = job.freezer();
    let outcome = std::thread::scope(|scope| {
        let work = || {
            let mut frozen = freezer.freeze(PATIENCE).unwrap();
            frozen.capture(&mut Deadly(&job), CaptureOptions::default()).map(|captured| captured.pages)
        };
        scope.spawn(work).join().unwrap()
    });
    assert!(matches!(outcome, Err(EngineError::Ended)), "{outcome:?}");
    assert_eq!(job.reap().unwrap().and_then(|status| status.signal()), Some(SIGKILL));
}

/// Freezes and captures a job, and lets it continue. Returns the number of pages of its image.
fn captured_pages(job: &mut Job, stack: StackPart) -> usize {
    let freezer = job.freezer();
    let pages = std::thread::scope(|scope| {
        let work = || {
            let mut held = HeldImage::default();
            let mut frozen = freezer.freeze(PATIENCE).expect("it can be frozen");
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
fn only_the_live_part_of_the_stack_is_saved_by_default() {
    let (_directory, program) = compile("deep.c");
    let ready = program.with_extension("ready");
    let command = "exec \"$0\" \"$1\" </dev/null >/dev/null 2>&1";
    let arguments = vec!["-c".into(), command.into(), program.clone().into(), ready.clone().into()];
    let signals = InheritedSignals::capture();
    let mut job = Job::launch(&Launch {
        program: "/bin/sh".into(),
        arguments,
        signals,
        terminal: LaunchTerminal::shared(),
        directory: None,
        assistance: Assistance::default(),
    })
    .unwrap();
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

/// Captures the image of a job, and ends the job.
fn captured(job: &mut Job) -> HeldImage {
    let mut held = HeldImage::default();
    let freezer = job.freezer();
    std::thread::scope(|scope| {
        let work = || {
            let mut frozen = freezer.freeze(PATIENCE).expect("it can be frozen");
            let captured = frozen.capture(&mut held, CaptureOptions::default()).expect("it can be captured");
            frozen.kill().expect("it stood still");
            held.finish(&captured.state).expect("memory takes it");
        };
        scope.spawn(work).join().expect("no panic");
    });
    job.reap().expect("it has ended");
    held
}

/// Continues an image to its end.
fn continued(held: &HeldImage) -> Result<ExitStatus, EngineError> {
    continued_despite(held, &[]).map(|(status, _)| status)
}

/// Continues an image to its end, although these fields may differ. Returns what was reported as well.
fn continued_despite(held: &HeldImage, despite: &[String]) -> Result<(ExitStatus, Vec<String>), EngineError> {
    let mut keep_tail = |tail: &Tail<'_>| panic!("nothing is to be cut off, but {tail:?}");
    let mut before_thaw = |_| Ok(());
    let mut hold_terminal = |_| panic!("no terminal is to be held");
    let options = RestartOptions {
        ids: IdPolicy::Auto,
        clocks: ClockPolicy::Continue,
        despite,
        files: FileOptions::default(),
        saved_binary: &|_| None,
        keep_tail: &mut keep_tail,
        news: RestartNews { generation: 1, directory: Path::new("/"), advised: Advised::default() },
        on_wait: &|_| Ok(()),
        partners: None,
        hold_terminal: &mut hold_terminal,
        before_thaw: &mut before_thaw,
    };
    let mut restarted = restart(held, options)?;
    Ok((restarted.job.reap().expect("it ends").expect("it is our child"), restarted.notes))
}

#[test]
fn a_killed_program_continues_from_memory() {
    let (_directory, program) = compile("counter.c");
    let result = program.with_extension("out");
    let native = Command::new(&program).arg(A_WHILE).output().unwrap().stdout;
    let mut job = Job::launch(&counting(&program, A_WHILE, &result)).unwrap();
    while thread_count(job.main_process().pid.get()) < 2 {
        std::thread::yield_now();
    }
    let held = captured(&mut job);
    assert_eq!(held.state.processes[0].threads.len(), 2);
    assert!(!result.exists(), "it was killed before its end");
    let status = continued(&held).unwrap();
    assert!(status.success(), "{status:?}");
    assert_eq!(std::fs::read(&result).unwrap(), native);
}

/// Returns the image of a program that reads clocks, the file with its result, and its directory.
fn ticking() -> (HeldImage, PathBuf, TempDir) {
    let (directory, program) = compile("ticking.c");
    let (result, ready) = (program.with_extension("out"), program.with_extension("ready"));
    let command = "exec \"$0\" \"$1\" \"$2\" </dev/null >/dev/null 2>&1";
    let words = [command.into(), program.into(), result.clone().into(), ready.clone().into()];
    let arguments = std::iter::once("-c".into()).chain(words).collect();
    let signals = InheritedSignals::capture();
    let mut job = Job::launch(&Launch {
        program: "/bin/sh".into(),
        arguments,
        signals,
        terminal: LaunchTerminal::shared(),
        directory: None,
        assistance: Assistance::default(),
    })
    .expect("it can be executed");
    while !ready.exists() {
        std::thread::yield_now();
    }
    (captured(&mut job), result, directory)
}

/// Changes an image into one taken under another kernel, with other code, none of which may be executed any more.
fn under_another_kernel(held: &mut HeldImage) {
    let machine = &mut held.state.machine;
    machine.vdso = Checksum::of(b"another");
    let code = &mut machine.vdso_code.0;
    let redirected = vdso::redirect(code, code, 0x1234_5678_9abc).expect("it is our own code");
    let changed = |at: &usize| redirected[*at] != code[*at];
    let (first, last) =
        ((0..code.len()).find(changed).expect("functions"), (0..code.len()).rfind(changed).expect("functions"));
    const BREAKPOINT: u8 = 0xcc;
    code[first..=last].fill(BREAKPOINT);
}

#[test]
fn under_another_kernel_the_program_uses_the_new_vdso() {
    // A program that only reads clocks may be stopped in the middle of a read, which refuses the restart.
    const TRIES: usize = 20;
    let attempt = || {
        let (mut held, result, _directory) = ticking();
        under_another_kernel(&mut held);
        match continued(&held) {
            Err(EngineError::Refused(_)) => None,
            other => Some((other.expect("nothing else stands in the way"), std::fs::read(&result).unwrap_or_default())),
        }
    };
    let (status, said) = (0..TRIES).find_map(|_| attempt()).expect("one stop in twenty falls elsewhere");
    assert!(status.success(), "{status:?}");
    assert_eq!(said, b"forward\n");
}

#[test]
fn under_another_kernel_a_thread_inside_the_old_vdso_is_refused() {
    const RIP: usize = 16;
    let (mut held, result, _directory) = ticking();
    under_another_kernel(&mut held);
    let process = &mut held.state.processes[0];
    let old = process.special_mappings.iter().find(|mapping| mapping.name.0 == b"[vdso]").unwrap().start;
    process.threads[0].registers[RIP] = old + 0x900;
    let refusal = continued(&held).unwrap_err().to_string();
    assert!(refusal.contains("vdso") && refusal.contains("middle"), "{refusal}");
    assert!(!result.exists());
}

#[test]
fn a_processor_that_lacks_a_feature_is_refused_with_its_name() {
    let (held, _, _directory) = ticking();
    let refusal = |change: &dyn Fn(&mut Machine)| {
        let mut other = HeldImage { state: held.state.clone(), runs: held.runs.clone(), bytes: held.bytes.clone() };
        change(&mut other.state.machine);
        continued(&other).unwrap_err().to_string()
    };
    let lacking = refusal(&|machine| machine.processor_features.push("avx1024".to_owned()));
    assert!(lacking.contains("processor") && lacking.contains("avx1024"), "{lacking}");
    let more_state = refusal(&|machine| machine.xsave_features |= 1 << 40);
    assert!(more_state.contains("XSAVE"), "{more_state}");
    let other_places = refusal(&|machine| machine.state_areas.iter_mut().for_each(|area| area.offset += 64));
    assert!(other_places.contains("XSAVE"), "{other_places}");
}

#[test]
fn a_processor_with_more_registers_is_accepted() {
    /// The features x87, SSE and AVX, at the place where the header names them.
    const FEWER: u64 = 7;
    const AREA_BYTES: usize = 832;
    const HEADER: std::ops::Range<usize> = 512..520;
    let (mut held, result, _directory) = ticking();
    held.state.machine.processor_features.pop().unwrap();
    held.state.machine.xsave_features &= FEWER;
    held.state.machine.state_areas.retain(|area| FEWER & 1 << area.feature != 0);
    for thread in held.state.processes.iter_mut().flat_map(|process| &mut process.threads) {
        let area = &mut thread.extended_registers.0;
        area.truncate(AREA_BYTES);
        let used = u64::from_le_bytes(area[HEADER].try_into().unwrap()) & FEWER;
        area[HEADER].copy_from_slice(&used.to_le_bytes());
    }
    let status = continued(&held).unwrap();
    assert!(status.success(), "{status:?}");
    assert_eq!(std::fs::read(&result).unwrap(), b"forward\n");
}

/// A field that the kernel reads from the program's memory, so that no restart can bring back another value.
const FIELD: &str = "processes.arguments";

/// Returns an image that says of a program something else than what a restart rebuilds, and the file with its result.
fn differing() -> (HeldImage, PathBuf, TempDir) {
    let (mut held, result, directory) = ticking();
    held.state.processes[0].arguments[0] = b"another".as_slice().into();
    (held, result, directory)
}

#[test]
fn a_rebuilt_job_that_differs_from_its_image_continues_only_despite_that() {
    let (held, result, _directory) = differing();
    let refusal = continued(&held).unwrap_err().to_string();
    assert!(refusal.contains(&format!("--despite {FIELD}")), "{refusal}");
    assert!(refusal.contains("another"), "{refusal}");
    assert!(!result.exists(), "it must not have run");
    let (status, notes) = continued_despite(&held, &[FIELD.to_owned()]).unwrap();
    assert!(status.success(), "{status:?}");
    assert!(notes.iter().any(|note| note.contains("processes[0].arguments")), "{notes:?}");
    assert!(result.exists());
}

#[test]
fn a_job_of_another_machine_continues_and_its_differences_are_reported() {
    let (mut held, result, _directory) = differing();
    held.state.machine.host = "elsewhere".to_owned();
    let (status, notes) = continued_despite(&held, &[]).unwrap();
    assert!(status.success(), "{status:?}");
    assert!(notes.iter().any(|note| note.contains("processes[0].arguments")), "{notes:?}");
    assert!(result.exists());
}

#[test]
fn an_image_of_an_earlier_version_continues_and_its_differences_are_reported() {
    let (mut held, result, _directory) = differing();
    let job = &mut held.state;
    (job.surroundings, job.listed, job.last_id) = (None, None, None);
    for process in &mut job.processes {
        process.switches.audit_login = None;
        process.mappings.iter_mut().for_each(|mapping| mapping.may_write = None);
    }
    let (status, notes) = continued_despite(&held, &[]).unwrap();
    assert!(status.success(), "{status:?}");
    let told: Vec<_> = notes.iter().filter(|note| note.contains("differs")).collect();
    assert!(told.len() == 1 && told[0].contains("processes[0].arguments"), "{told:?}");
    assert_eq!(std::fs::read(&result).unwrap(), b"forward\n");
}
