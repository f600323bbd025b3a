//! A job under construction: its main process, and the others, which it makes while they are still empty. All of them
//! are stopped under ptrace until the commit, and die with us before it.

use super::ids::IdPolicy;
use super::known_names::KnownNames;
use super::mapped_files::{Attached, make_missing};
use super::namespaces::ClockPolicy;
use super::plan::JobPlan;
use super::written;
use crate::construction::{Construction, building, end_processes};
use crate::directions::RestartNews;
use crate::error::kernel;
use crate::foreseen::parking;
use crate::objects::{
    Connecting, FilePlan, MadeSystemV, OutsideWorld, Parked, Remains, Renamed, bring_to_foreground,
    open_files_of_processes, stop_the_stopped,
};
use crate::stopwatch::Stopwatch;
use crate::twin::{MergedFile, Rebuilt};
use crate::waits::Waits;
use crate::{EngineError, directions};
use standfast_core::{Address, PageRange};
use standfast_format::ImageSource;
use standfast_format::records::{Backing, JobState, Mapping};
use standfast_linux::abi;
use standfast_linux::proc::{self, Stat};
use standfast_linux::sys::descriptors::{self, HeldDescriptor};
use standfast_linux::sys::process::same_open_file;
use standfast_linux::{InheritedSignals, NamespaceInit, Pid, PinnedToCpu, Task, Tid};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

fn range_of(mapping: &Mapping) -> PageRange {
    PageRange::between(Address::new(mapping.start), Address::new(mapping.end))
}

/// A job under construction.
#[derive(Debug)]
pub(super) struct Family {
    /// The living processes, by their place in the image.
    pub(super) processes: Vec<Construction>,
    /// Processes that are not to live, and have not ended yet.
    pub(super) remains: Remains,
    /// The master of the job's terminal, if that is to be held outside.
    pub(super) held: Option<OwnedFd>,
    /// Sockets, by their cookies, that share their addresses because we made them share.
    pub(super) sharing: Vec<u64>,
    /// Sockets that are to be connected when all else is done.
    connecting: Vec<Connecting>,
    pub(super) renamed: Renamed,
}

impl Family {
    /// Makes the main process; see [`Construction::begin`].
    pub(super) fn begin(
        plan: &JobPlan<'_>,
        ids: IdPolicy,
        clocks: ClockPolicy,
        signals: InheritedSignals,
    ) -> Result<Self, EngineError> {
        let main = Construction::begin(plan, ids, clocks, signals)?;
        Ok(Self {
            processes: vec![main],
            remains: Remains::default(),
            held: None,
            sharing: Vec::new(),
            connecting: Vec::new(),
            renamed: Renamed::default(),
        })
    }

    /// Returns the main process.
    pub(super) fn main(&self) -> &Construction {
        &self.processes[0]
    }

    /// Returns what the job will continue without, each once.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for note in self.processes.iter().flat_map(|process| &process.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        notes
    }

    /// Connects the sockets that were being connected. It comes when every part listens again, and nothing is compared any more.
    pub(super) fn connect_again(&mut self) -> Result<(), EngineError> {
        // Our own descriptors are closed: they would keep open what the program closes.
        self.connecting.drain(..).try_for_each(|socket| socket.connect())
    }

    /// Returns the waits that its threads continue with.
    pub(super) fn waits(&self) -> Waits {
        self.processes.iter().fold(Waits::default(), |mut all, process| {
            all.append(&process.waits);
            all
        })
    }

    /// Returns it as a rebuilt job, once it is built.
    pub(super) fn rebuilt(&self, plan: &JobPlan<'_>) -> Rebuilt<'_> {
        let is_replaced = |place: &usize| plan.files[*place] != FilePlan::AsRecorded;
        let threads = self.processes.iter().map(|process| process.tasks.iter().map(Task::tid).collect());
        Rebuilt {
            threads: threads.collect(),
            reaper: self.main().init.as_ref().map(|init| init.pid()),
            waits: self.waits(),
            replaced: (0..plan.files.len()).filter(is_replaced).collect(),
            merged: merged(&plan.files),
            written: written::written(plan.job),
            sharing: &self.sharing,
        }
    }

    pub(super) fn build(
        &mut self,
        plan: &JobPlan<'_>,
        source: &dyn ImageSource,
        names: &KnownNames<'_>,
        outside: OutsideWorld<'_>,
        stopwatch: &mut Stopwatch,
    ) -> Result<(), EngineError> {
        let pinned = self.pin();
        let root = plan.of(0);
        let main = &mut self.processes[0];
        main.raise_descriptor_limit()?;
        let parking = parking(plan.job);
        main.make_objects(plan.job, parking)?;
        let system_v = MadeSystemV::make(main, plan.job)?;
        plan.make_missing_in_folders()?;
        plan.return_names()?;
        make_missing(plan)?;
        plan.return_other_names()?;
        let mut parked = main.open_files(plan.open_files_of(0), parking, outside)?;
        main.notes.append(&mut parked.notes);
        self.held = parked.held.take();
        self.sharing = std::mem::take(&mut parked.sharing);
        self.connecting = std::mem::take(&mut parked.connecting);
        self.renamed = std::mem::take(&mut parked.renamed);
        stopwatch.lap("open");
        self.make_relatives(plan, &parked)?;
        bring_to_foreground(&self.processes, plan.job, &parked)?;
        stopwatch.lap("processes");
        for (place, process) in self.processes.iter_mut().enumerate() {
            process.map_everything(&plan.of(place))?;
        }
        drop(pinned);
        names.scan_mapped_files(self, plan);
        stopwatch.lap("map");
        self.deliver_pages(plan, source, names)?;
        let _pinned = self.pin();
        self.main().seal_filled(plan.job)?;
        self.fill_system_v(plan, system_v)?;
        self.main().seal_mapped(plan.job)?;
        self.main().refuse_held_locks(&root, source)?;
        for (place, process) in self.processes.iter().enumerate() {
            process.refuse_frames_in_vdso(&plan.of(place), place, source)?;
        }
        stopwatch.lap("fill");
        stop_the_stopped(&self.processes, plan.job)?;
        self.furnish(plan)?;
        self.count_ids_on(plan.job)?;
        stopwatch.lap("attributes");
        self.give_descriptors(plan, parked)?;
        for (place, process) in self.processes.iter().enumerate() {
            process.queue_signals(&plan.job.processes[place])?;
        }
        stopwatch.lap("descriptors");
        // This must be last: a thread that has its own registers back can make no calls for us any more.
        for (place, process) in self.processes.iter_mut().enumerate() {
            process.finish_threads(&plan.of(place))?;
        }
        stopwatch.lap("threads");
        Ok(())
    }

    /// Gives each process its descriptors.
    fn give_descriptors(&self, plan: &JobPlan<'_>, mut parked: Parked) -> Result<(), EngineError> {
        let plans: Vec<_> = (0..self.processes.len()).map(|place| plan.open_files_of(place)).collect();
        open_files_of_processes(&self.processes, &plans, &mut parked)?;
        let with_own_descriptors = || {
            let all = self.processes.iter().enumerate();
            all.filter(|(place, _)| !plan.job.processes[*place].process_tree.shares_descriptors)
        };
        for (place, process) in with_own_descriptors() {
            process.place_descriptors(plans[place], place, &parked)?;
        }
        for (place, process) in with_own_descriptors() {
            process.finish_descriptors(plans[place], &parked)?;
        }
        Ok(())
    }

    /// Makes all other processes.
    fn make_relatives(&mut self, plan: &JobPlan<'_>, parked: &Parked) -> Result<(), EngineError> {
        self.remains.make_relatives(&mut self.processes, plan.job, parked)?;
        for (place, process) in self.processes.iter_mut().enumerate().skip(1) {
            // The relatives already execute the program of the main process.
            if plan.job.processes[place].executable == plan.job.processes[0].executable {
                process.begin_again(&plan.of(place))?;
            } else {
                process.execute(&plan.of(place))?;
            }
        }
        Ok(())
    }

    /// Fills System V objects, and attaches them at their addresses.
    fn fill_system_v(&mut self, plan: &JobPlan<'_>, system_v: MadeSystemV) -> Result<(), EngineError> {
        let _root = plan.of(0);
        system_v.fill(self.main(), plan.job)?;
        let mut attached = Attached::default();
        for (place, process) in self.processes.iter_mut().enumerate() {
            process.map_shared_objects(&plan.of(place), &system_v, &mut attached)?;
        }
        for (place, process) in self.processes.iter().enumerate() {
            process.adjust_semaphores(plan.job, place)?;
        }
        for (place, process) in self.processes.iter().enumerate() {
            process.touch_semaphores(plan.job, place)?;
        }
        system_v.finish(plan.job, &mut self.processes[0].notes)
    }

    /// Sets attributes of memory and of processes whose memory is filled, and makes their threads.
    fn furnish(&mut self, plan: &JobPlan<'_>) -> Result<(), EngineError> {
        for (place, process) in self.processes.iter_mut().enumerate() {
            let plan = plan.of(place);
            process.guard(&plan)?;
            process.protect(&plan)?;
            process.lock(&plan)?;
            process.set_layout(&plan.process.layout)?;
            process.set_attributes(&plan)?;
            process.make_threads(&plan)?;
        }
        Ok(())
    }

    /// Makes a restored pid namespace count on from the last id of the job, so that no new process or thread gets the id of
    /// one that has ended.
    fn count_ids_on(&self, job: &JobState) -> Result<(), EngineError> {
        let Some(init) = &self.main().init else { return Ok(()) };
        let threads = job.processes.iter().flat_map(|process| &process.threads).map(|thread| thread.tid);
        let highest = threads.max().unwrap_or_default();
        // Another machine may count to less, and start over.
        let may_be_last = |id: &i32| u64::try_from(*id).is_ok_and(|id| proc::ids_max().is_ok_and(|max| id < max));
        let last = job.last_id.filter(may_be_last).unwrap_or(highest);
        init.choose_next_id(last + 1).map_err(|source| kernel("choosing the next process id", source))
    }

    /// Pins us to the processor of the main process: injected calls take less time there.
    fn pin(&self) -> Option<PinnedToCpu> {
        PinnedToCpu::new(Stat::of(self.main().pid()).map(|stat| stat.cpu).unwrap_or(0))
    }

    /// Notifies programs that direct their own checkpoints of the restart.
    pub(super) fn report_restart(&self, plan: &JobPlan<'_>, news: RestartNews<'_>) -> Result<(), EngineError> {
        for (place, process) in self.processes.iter().enumerate() {
            let mappings = &plan.of(place).process.mappings;
            let mapped: Vec<_> = mappings.iter().map(range_of).collect();
            let private: Vec<_> = mappings.iter().filter(|mapping| is_private(mapping)).map(range_of).collect();
            directions::report_restart(process.pid(), &process.memory, [&mapped, &private], news)?;
        }
        Ok(())
    }

    /// Releases our descriptors of objects, once nothing more is to be written there.
    pub(super) fn let_go_of_objects(&mut self, plan: &JobPlan<'_>) -> Result<(), EngineError> {
        self.main().set_times_of_objects(plan.job)?;
        self.processes.iter_mut().for_each(|process| process.objects = std::sync::Arc::default());
        Ok(())
    }

    /// Cuts the ties, the last one being the commit, and lets the job run.
    pub(super) fn commit(&mut self) -> Result<Option<NamespaceInit>, EngineError> {
        for task in self.processes.iter().flat_map(|process| &process.tasks) {
            task.set_options(abi::PTRACE_O_TRACESYSGOOD).map_err(building)?;
        }
        let mut init = None;
        for process in &mut self.processes {
            init = process.init.take().or(init);
        }
        let init = init.and_then(Arc::into_inner);
        if let Some(init) = &init {
            init.commit().map_err(|source| kernel("handing over to the job's init", source))?;
        }
        // Children first: a parent finds them as it left them.
        for task in self.processes.iter().rev().flat_map(|process| process.tasks.iter().rev()) {
            task.detach().map_err(building)?;
        }
        Ok(init)
    }

    /// Reports whether one of its processes has been killed, as the kernel does when memory runs out.
    pub(super) fn has_lost_process(&self) -> bool {
        let lives = |pid: Pid| Stat::of(pid).is_ok_and(|stat| !matches!(stat.state, b'Z' | b'X'));
        !self.processes.iter().all(|process| lives(process.pid()))
    }

    /// Removes what has been built.
    pub(super) fn abandon(mut self) {
        let others: Vec<Tid> =
            self.processes.iter().flat_map(|process| process.tasks.iter().skip(1)).map(Task::tid).collect();
        let mut pids: Vec<Pid> = self.processes.iter().map(Construction::pid).collect();
        pids.extend(self.remains.pids());
        let mut init = None;
        for process in &mut self.processes {
            init = process.init.take().or(init);
        }
        drop(self);
        end_processes(&pids, &others, init);
    }
}

/// Returns the open files that are one with an earlier one: streams of our own take their place, and these are one, as
/// after `2>&1`.
fn merged(files: &[FilePlan]) -> Vec<MergedFile> {
    let stream_of = |place: usize| match files[place] {
        FilePlan::Own(number) | FilePlan::OwnFile(number) => Some(number),
        FilePlan::AsRecorded | FilePlan::PeerClosed => None,
    };
    let earlier = |place: usize| {
        let stream = stream_of(place)?;
        let is_it = |other: &usize| stream_of(*other).is_some_and(|it| are_one(it, stream).unwrap_or(false));
        Some(MergedFile { place, with: (0..place).find(is_it)? })
    };
    (0..files.len()).filter_map(earlier).collect()
}

/// Reports whether two of our descriptors share an open file description.
fn are_one(one: i32, other: i32) -> std::io::Result<bool> {
    let own = |number| HeldDescriptor { pid: Pid::own(), number };
    same_open_file(own(one), own(other)).or_else(|_| {
        let [one, other] = [one, other].map(descriptors::duplicate);
        descriptors::share_flags(one?.as_fd(), other?.as_fd())
    })
}

fn is_private(mapping: &Mapping) -> bool {
    match mapping.backing {
        Backing::Anonymous | Backing::PrivateFile { .. } | Backing::PrivateObject { .. } => true,
        Backing::SharedFileReadOnly { .. } | Backing::SharedObject { .. } => false,
    }
}
