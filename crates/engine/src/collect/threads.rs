//! The collection from within: what the kernel tells only the program itself, asked by injected system calls, and the
//! threads.

use super::process_snapshot::{ProcessSnapshot, SupervisorBaseline};
use super::restrictions::Landlock;
use super::{isolation_mismatch, last_id, restrictions};
use crate::capture_options::StackPart;
use crate::error::kernel;
use crate::freeze::{FrozenProcess, refine};
use crate::objects::{
    AskedDispositions, AskedFeatures, AskedProcessSwitches, AskedThread, Descriptors, FoundTimers, FoundUndo, Probe,
    SilentCounter, registered_sequence, unreported,
};
use crate::remote_caller::{Answers, Number, RemoteCallBatch, RemoteCaller};
use crate::shared::MainProcess;
use crate::{Blocker, EngineError, RefusalCode};
use standfast_core::{PAGE_BYTES, PageRange, merge_ranges};
use standfast_format::records::{Disposition, ProcessSwitches, ThreadState, Unreported};
use standfast_linux::abi;
use standfast_linux::proc::{self, Status};
use standfast_linux::{
    CompletionSignal, Injector, ParasiteArea, ParasiteAreaError, Pid, PinnedToCpu, Registers, TaskError,
};
use std::borrow::Cow;
use std::io;
use std::os::fd::OwnedFd;

const PR_GET_SECUREBITS: u64 = abi::PR_GET_SECUREBITS as u64;

/// What only the program itself could answer.
#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) blockers: Vec<Blocker>,
    pub(super) heap_end: u64,
    pub(super) dispositions: Vec<Disposition>,
    /// Timers and pending signals.
    pub(super) found: FoundTimers,
    pub(super) threads: Vec<ThreadState>,
    pub(super) xsave_features: u64,
    /// The pages in memory, among those that were asked about.
    pub(super) resident: Vec<PageRange>,
    /// For each unit that the kernel was asked to make a huge page, whether it is one.
    pub(super) collapsed: Vec<bool>,
    /// The descriptors that survive an exec, among those that were asked about.
    pub(super) inherited: Vec<i32>,
    /// Event counters that are semaphores, among those that were asked about.
    pub(super) semaphores: Vec<SilentCounter>,
    /// A userfaultfd of its address space, if one was requested, or why there is none.
    pub(super) userfault: Option<io::Result<OwnedFd>>,
    pub(super) permitted_features: u64,
    pub(super) switches: ProcessSwitches,
    /// Children about which wait(2) would report something to it.
    pub(super) unreported: Vec<(Pid, Unreported)>,
    /// What its end would do to semaphores.
    pub(super) undo: FoundUndo,
    /// See [`JobState::last_id`](standfast_format::records::JobState::last_id).
    pub(super) last_id: Option<i32>,
}

/// What cannot be determined completely from outside a process.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Pages of shared memory that page tables do not show: which of them are in memory?
    pub(super) pages: Vec<PageRange>,
    /// Descriptors that seem to be closed on exec: which of them are not?
    pub(super) descriptors: Vec<i32>,
    /// Event counters: which of them are semaphores?
    pub(super) counters: Vec<SilentCounter>,
}

impl Doubts {
    /// Returns those about the descriptors of the process at `place`.
    pub(super) fn of_descriptors(descriptors: &Descriptors, place: usize) -> Self {
        let counters = descriptors.silent_counters(place);
        Self { pages: Vec::new(), descriptors: descriptors.doubtful(place), counters }
    }
}

/// What one process is asked in addition to the usual questions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Also<'a> {
    pub(super) supervisor_baseline: &'a SupervisorBaseline,
    /// What its answers must clarify.
    pub(super) doubts: &'a Doubts,
    /// Units that the process must ask the kernel to make huge pages.
    pub(super) idle: &'a [PageRange],
    /// Whether it makes a userfaultfd of its address space for us to keep.
    pub(super) track: bool,
    /// Whether it is asked about state changes of its children.
    pub(super) has_children: bool,
    /// The question what its end does to semaphores.
    pub(super) undo: Option<Probe<'a>>,
    /// Whether it is asked for the last id of its pid namespace.
    pub(super) last_id: bool,
}

impl Inner {
    /// Asks a process; `process_snapshot` is its own.
    pub(super) fn ask(
        process: &FrozenProcess,
        process_snapshot: &ProcessSnapshot,
        main: &MainProcess,
        also: Also<'_>,
    ) -> Result<Self, EngineError> {
        let mut inner = Self::default();
        in_tasks(process, process_snapshot, main, process.tasks.len(), |remote_caller, place, status| {
            if place == 0 {
                inner.xsave_features = Registers::xsave_features(remote_caller.extended());
            }
            inner.ask_task(remote_caller, process, place, process_snapshot, status, also)?;
            // Asking for the keys changes the access rights of the free ones.
            Ok(place == 0 && inner.switches.protection_keys != 0)
        })?;
        inner.found.refuse_ownerless(&mut inner.blockers);
        Ok(inner)
    }

    /// Reports whether one of its threads gets a signal when the parent ends.
    pub(super) fn is_signalled_by_parent(&self) -> bool {
        self.switches.parent_death_signal != 0
            || self.threads.iter().any(|thread| thread.restrictions.parent_death_signal.is_some())
    }

    fn ask_inheritance(&mut self, remote_caller: &RemoteCaller<'_>, descriptors: &[i32]) -> Result<(), EngineError> {
        for descriptor in descriptors {
            let arguments = [*descriptor as u64, abi::F_GETFD as u64, 0, 0, 0, 0];
            if remote_caller.call(abi::SYS_fcntl, arguments)? == 0 {
                self.inherited.push(*descriptor);
            }
        }
        Ok(())
    }

    /// Asks the task at `place`, and the main thread also for its process, almost everything in one batch.
    fn ask_task(
        &mut self,
        remote_caller: &RemoteCaller<'_>,
        process: &FrozenProcess,
        place: usize,
        process_snapshot: &ProcessSnapshot,
        status: &Status,
        also: Also<'_>,
    ) -> Result<(), EngineError> {
        let (pid, task) = (process.pid, &process.tasks[place]);
        let mut batch = remote_caller.batch();
        let of_process = (place == 0).then(|| OfProcess::of(&mut batch, status));
        let of_thread = AskedThread::of(&mut batch, place);
        let namespace = match place {
            0 => process_snapshot.namespaces_and_credentials.user_namespace().map(<[u8]>::to_vec),
            _ => proc::link(task.task.tid().as_process(), "ns/user").ok(),
        };
        let landlock = Landlock::of(&mut batch, status, namespace.as_deref(), also.supervisor_baseline);
        let answers = remote_caller.put(&batch)?;
        if let Some(of_process) = of_process {
            self.take_process(&of_process, &answers, remote_caller, status, also.supervisor_baseline)?;
            self.found = FoundTimers::ask(remote_caller, process, &mut self.blockers)?;
            self.ask_residence(remote_caller, &also.doubts.pages)?;
            self.ask_inheritance(remote_caller, &also.doubts.descriptors)?;
            for counter in &also.doubts.counters {
                self.semaphores.extend(counter.ask(remote_caller, &process.memory)?.then_some(*counter));
            }
            self.collapsed = collapse(remote_caller, also.idle)?;
            if also.has_children {
                self.unreported = unreported(remote_caller, pid)?;
            }
            self.userfault = also.track.then(|| remote_caller.make_userfault(pid)).transpose()?;
            if let Some(probe) = also.undo {
                self.undo = probe.ask(remote_caller, &mut self.blockers)?;
            }
            if also.last_id {
                self.last_id = last_id::ask(remote_caller, pid)?;
            }
        }
        self.found.ask_thread(remote_caller, place)?;
        if place > 0 {
            self.blockers.extend(restrictions::of_thread(status, &also.supervisor_baseline.status));
            self.blockers.extend(isolation_mismatch::of_thread(pid, status, process_snapshot));
        }
        self.blockers.extend(landlock.blocker(&answers, status));
        let pending = self.found.pending_of_tasks.get_mut(place).map(std::mem::take).unwrap_or_default();
        let own = &also.supervisor_baseline.scheduling;
        let mut thread = of_thread.thread(remote_caller, &answers, task, status, own)?;
        thread.pending = pending;
        match registered_sequence(remote_caller, task)? {
            Ok(sequence) => thread.restartable_sequence = sequence,
            Err(blocker) => self.blockers.push(blocker),
        }
        thread.restrictions.capabilities = also.supervisor_baseline.other_capabilities(status, namespace.as_deref());
        self.threads.push(thread);
        Ok(())
    }

    fn take_process(
        &mut self,
        asked: &OfProcess,
        answers: &Answers,
        remote_caller: &RemoteCaller<'_>,
        status: &Status,
        supervisor_baseline: &SupervisorBaseline,
    ) -> Result<(), EngineError> {
        self.dispositions = asked.dispositions.dispositions(answers, remote_caller)?;
        self.heap_end = answers.number(asked.heap_end) as u64;
        self.permitted_features = asked.features.features(answers);
        let theirs = answers.number(asked.secure_bits);
        self.blockers.extend(restrictions::secure_bits(theirs, supervisor_baseline.secure_bits));
        self.blockers.extend(asked.local_descriptors.blocker(answers));
        self.switches = asked.switches.switches(answers, remote_caller, status, &supervisor_baseline.switches)?;
        Ok(())
    }

    /// Calls mincore(2), which answers with a byte for each page.
    fn ask_residence(&mut self, remote_caller: &RemoteCaller<'_>, doubtful: &[PageRange]) -> Result<(), EngineError> {
        let mut answer = [0u8; ParasiteArea::OUTPUT_BYTES];
        for range in doubtful {
            let mut rest = *range;
            while rest.pages() > 0 {
                let (head, tail) = rest.split_at(answer.len() as u64);
                let output = remote_caller.injector.output().get();
                let result =
                    remote_caller.call(abi::SYS_mincore, [head.start().get(), head.bytes(), output, 0, 0, 0])?;
                if result < 0 {
                    let error = std::io::Error::from_raw_os_error(-result as i32);
                    return Err(kernel("asking which shared memory is in use", error));
                }
                let answer = &mut answer[..head.pages() as usize];
                remote_caller.injector.read_output(answer).map_err(|_| EngineError::Ended)?;
                for (page, _) in answer.iter().enumerate().filter(|(_, byte)| **byte & 1 != 0) {
                    self.resident.push(PageRange::new(head.start().plus((page * PAGE_BYTES) as u64), 1));
                }
                rest = tail;
            }
        }
        merge_ranges(&mut self.resident);
        Ok(())
    }

    /// Returns the lowest address of the kernel's stack that is in use. Below the lowest stack pointer there is nothing
    /// that a signal handler might not overwrite (M2). If no thread runs on that stack at the moment, all of it is in
    /// use. Returns 0 if there is no such stack.
    pub(super) fn live_stack(&self, process: &FrozenProcess, part: StackPart) -> u64 {
        let Some(stack) = process.maps.iter().find(|map| map.is_stack()) else { return 0 };
        if part != StackPart::Live {
            return stack.start;
        }
        let pointers = process.tasks.iter().filter(|task| stack.contains(task.registers.stack()));
        let Some(lowest) = pointers.map(|task| task.registers.stack_dead_below()).min() else { return stack.start };
        let alternates = self.threads.iter().map(|thread| thread.alternate_stack.start);
        alternates.filter(|start| stack.contains(*start)).fold(lowest.max(stack.start), u64::min)
    }
}

/// Asks the kernel to make huge pages of small ones, which it may refuse; returns for each whether it did.
fn collapse(remote_caller: &RemoteCaller<'_>, units: &[PageRange]) -> Result<Vec<bool>, EngineError> {
    let mut batch = remote_caller.batch();
    let ask = |unit: &PageRange| {
        let advice = abi::MADV_COLLAPSE as u64;
        batch.call(abi::SYS_madvise, [unit.start().get(), unit.bytes(), advice, 0, 0, 0])
    };
    let asked: Vec<_> = units.iter().map(ask).collect();
    let answers = if asked.is_empty() { return Ok(Vec::new()) } else { remote_caller.put(&batch)? };
    Ok(asked.into_iter().map(|question| answers.number(question) == 0).collect())
}

/// Lets the first `tasks` tasks of a process make calls, one task after the other. `work` gets the place and the status
/// of each, and returns whether its calls have changed the extended registers.
pub(super) fn in_tasks(
    process: &FrozenProcess,
    process_snapshot: &ProcessSnapshot,
    main: &MainProcess,
    tasks: usize,
    mut work: impl FnMut(&RemoteCaller<'_>, usize, &Status) -> Result<bool, EngineError>,
) -> Result<(), EngineError> {
    let (pid, first) = (process.pid, &process.tasks[0]);
    let ended = |error| refine(error, pid, main);
    refuse_foreign_code(process)?;
    refuse_dispatched_calls(process, &ended)?;
    // Held while injecting, so that each stop is a switch on one processor instead of an interrupt between two.
    let pinned = PinnedToCpu::new(process_snapshot.stat.cpu);
    let extended = process.tasks.iter().map(|task| task.task.extended_registers()).collect::<Result<Vec<_>, _>>();
    let extended = extended.map_err(ended)?;
    let stopped: Vec<_> = process.tasks.iter().map(|task| (&task.task, task.registers)).collect();
    let parasite_area = ParasiteArea::find(&process.memory, &process.maps, &stopped, extended[0].len());
    let parasite_area = parasite_area.map_err(|error| no_parasite_area(error, pid, main))?;
    let blocked = process.tasks.iter().fold(0, |all, task| all | task.mask);
    let completion_signal = CompletionSignal::for_process(process_snapshot.status.caught, blocked);
    let injector = Injector::new(&process.memory, &parasite_area, completion_signal);
    let mut callers = process.tasks.iter().zip(&extended).enumerate().take(tasks);
    let worked = callers.try_for_each(|(place, (task, extended))| {
        let of_task = |tid| Status::of_task(pid, tid).map(Cow::Owned).map_err(|_| EngineError::Ended);
        let status = if place == 0 { Cow::Borrowed(&process_snapshot.status) } else { of_task(task.task.tid())? };
        let remote_caller = RemoteCaller::new(&injector, task, extended, &status, &ended)?;
        let has_changed = work(&remote_caller, place, &status)?;
        remote_caller.remote_task.release().map_err(ended)?;
        if has_changed {
            task.task.set_extended_registers(extended).map_err(ended)?;
        }
        Ok(())
    });
    // The memory is returned in any case; if the program is gone, there is none.
    let given_back = parasite_area.give_back(&process.memory, &first.task);
    drop(pinned);
    worked?;
    given_back.map_err(|error| no_parasite_area(error, pid, main))
}

/// Refuses a thread that executes 32-bit code, since its registers cannot be replaced, so that it cannot be asked
/// anything.
fn refuse_foreign_code(process: &FrozenProcess) -> Result<(), EngineError> {
    if process.tasks.iter().all(|task| task.registers.is_64_bit()) {
        return Ok(());
    }
    Err(EngineError::Refused(vec![Blocker::new(
        RefusalCode::ThirtyTwoBit,
        "32-bit code",
        "only 64-bit programs can be checkpointed",
    )]))
}

/// Refuses a thread to which its own system calls may be delivered, since it might catch ours.
fn refuse_dispatched_calls(
    process: &FrozenProcess,
    ended: &dyn Fn(TaskError) -> EngineError,
) -> Result<(), EngineError> {
    for task in &process.tasks {
        if task.task.dispatches_calls().map_err(ended)? {
            return Err(EngineError::Refused(vec![Blocker::new(
                RefusalCode::SyscallUserDispatch,
                format!("thread {}", task.task.tid()),
                "it handles system calls of its own (syscall user dispatch), and would catch those of a checkpoint",
            )]));
        }
    }
    Ok(())
}

/// What the main thread is asked for its process.
struct OfProcess {
    dispositions: AskedDispositions,
    heap_end: Number,
    features: AskedFeatures,
    secure_bits: Number,
    local_descriptors: restrictions::LocalDescriptors,
    switches: AskedProcessSwitches,
}

impl OfProcess {
    fn of(batch: &mut RemoteCallBatch, status: &Status) -> Self {
        Self {
            dispositions: AskedDispositions::of(batch, status),
            heap_end: batch.call(abi::SYS_brk, [0; 6]),
            features: AskedFeatures::of(batch),
            secure_bits: batch.call(abi::SYS_prctl, [PR_GET_SECUREBITS, 0, 0, 0, 0, 0]),
            local_descriptors: restrictions::LocalDescriptors::of(batch),
            switches: AskedProcessSwitches::of(batch),
        }
    }
}

fn no_parasite_area(error: ParasiteAreaError, pid: Pid, main: &MainProcess) -> EngineError {
    match error {
        ParasiteAreaError::Task(error) => refine(error, pid, main),
        ParasiteAreaError::Kernel(source) => kernel("borrowing memory of the program", source),
        error => EngineError::Refused(vec![
            Blocker::new(RefusalCode::ParasiteArea, "parasite area", error.to_string())
                .with_hint("wait a moment")
                .for_now(),
        ]),
    }
}
