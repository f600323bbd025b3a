//! Faults planted into a restart, to see whether the tests find them. Only a build with the feature `planted-faults` has
//! them, and plants the one that STANDFAST_PLANTED_FAULT names.
//!
//! Each changes what is rebuilt, in every process and every object that has such a thing. The twin compares with the
//! changed records, so that only what programs observe can tell.

use standfast_core::PAGE_BYTES;
use standfast_format::records::{Backing, JobState, Mapping, OpenFileKind, ProcessState, ThreadState};
use standfast_format::{BoxError, ImageSource, Run};
use std::env;

/// Names a fault.
const VARIABLE: &str = "STANDFAST_PLANTED_FAULT";
/// The fault that lies in no record.
const STALE_PAGE: &str = "stale page";
const O_APPEND: u32 = 0o2000;
/// The lowest priority.
const NICE_MAX: i32 = 19;
/// One more in the exit status of a process, as wait(2) reports it.
const EXIT_STATUS_ONE: i32 = 0x100;

/// Plants a fault. Returns whether there is one of this name.
fn plant(fault: &str, job: &mut JobState) -> bool {
    in_open_files(fault, job) || in_channels(fault, job) || in_processes(fault, job) || in_memory(fault, job)
}

fn in_open_files(fault: &str, job: &mut JobState) -> bool {
    let each: &dyn Fn(&mut OpenFileKind) = match fault {
        "offset of a file" => &|it| {
            if let OpenFileKind::Regular { offset, .. } = it {
                *offset += 1;
            }
        },
        "count of an event counter" => &|it| {
            if let OpenFileKind::EventCounter { count, .. } = it {
                *count += 1;
            }
        },
        "dropped entry of epoll" => &|it| {
            if let OpenFileKind::Epoll { interests } = it {
                interests.pop();
            }
        },
        "dropped watch of inotify" => &|it| {
            if let OpenFileKind::Watches { watches } = it {
                watches.pop();
            }
        },
        "lost mask of a signal descriptor" => &|it| {
            if let OpenFileKind::Signals { mask } = it {
                *mask = 0;
            }
        },
        "lost interval of a timer descriptor" => &|it| {
            if let OpenFileKind::Timer { timer } = it {
                timer.interval_nanoseconds = 0;
            }
        },
        "lost flag of a file" => {
            job.open_files.iter_mut().for_each(|it| it.flags &= !O_APPEND);
            return true;
        }
        "dropped lock of a file" => {
            job.open_files.iter_mut().for_each(|it| _ = it.locks.pop());
            return true;
        }
        _ => return false,
    };
    job.open_files.iter_mut().for_each(|it| each(&mut it.kind));
    true
}

fn in_channels(fault: &str, job: &mut JobState) -> bool {
    match fault {
        "dropped byte of a pipe" => {
            let of_bytes = job.pipes.iter_mut().filter(|it| it.packets.is_empty());
            of_bytes.for_each(|it| _ = it.contents.0.pop());
        }
        "lost option of a socket" => job.sockets.iter_mut().for_each(|it| _ = it.options.pop()),
        "dropped message of a socket" => job.sockets.iter_mut().for_each(|it| _ = it.received.pop()),
        "size of a terminal" => job.terminals.iter_mut().for_each(|it| it.size.rows += 1),
        "dropped message of a queue" => job.message_queues.iter_mut().for_each(|it| _ = it.messages.pop()),
        "dropped message of a POSIX queue" => job.posix_queues.iter_mut().for_each(|it| _ = it.messages.pop()),
        "value of a semaphore" => {
            job.semaphores.iter_mut().flat_map(|it| &mut it.semaphores).for_each(|it| it.value += 1);
        }
        _ => return false,
    }
    true
}

fn in_processes(fault: &str, job: &mut JobState) -> bool {
    let of_threads: &dyn Fn(&mut ThreadState) = match fault {
        "dropped signal of a thread" => &|it| _ = it.pending.pop(),
        "lost mask of signals" => &|it| it.signal_mask = 0,
        "niceness" => &|it| it.scheduling.nice = NICE_MAX,
        "name of a thread" => &|it| it.name = b"planted"[..].into(),
        _ => {
            let of_processes: &dyn Fn(&mut ProcessState) = match fault {
                "dropped signal of a process" => &|it| _ = it.pending.pop(),
                "lost handler of a signal" => &|it| _ = it.dispositions.pop(),
                "lost close-on-exec" => &|it| it.descriptors.iter_mut().for_each(|it| it.close_on_exec = false),
                "mask of new files" => &|it| it.umask ^= 0o22,
                "limit" => &|it| it.limits.iter_mut().for_each(|it| it.soft /= 2),
                "lost interval timer" => &|it| _ = it.timers.interval.pop(),
                "status of a zombie" => &|it| {
                    it.process_tree.wait_status.iter_mut().for_each(|status| *status ^= EXIT_STATUS_ONE);
                },
                _ => return false,
            };
            job.processes.iter_mut().for_each(of_processes);
            return true;
        }
    };
    job.processes.iter_mut().flat_map(|it| &mut it.threads).for_each(of_threads);
    true
}

fn in_memory(fault: &str, job: &mut JobState) -> bool {
    let of_mappings: &dyn Fn(&mut Mapping) = match fault {
        STALE_PAGE => &|_| (),
        "lost advice" => &|it| it.attributes.advice.clear(),
        "merged segments" => &|it| {
            if let Backing::SharedObject { object: object @ 1, .. } = &mut it.backing {
                *object = 0;
            }
        },
        "shared memory that is private" => &|it| {
            if let Backing::SharedObject { object, offset } = it.backing {
                it.backing = Backing::PrivateObject { object, offset };
            }
        },
        _ => return false,
    };
    job.processes.iter_mut().flat_map(|it| &mut it.mappings).for_each(of_mappings);
    true
}

/// An image with a planted fault.
pub(super) struct Planted<'a> {
    source: &'a dyn ImageSource,
    state: JobState,
    has_stale_pages: bool,
}

impl<'a> Planted<'a> {
    pub(super) fn new(source: &'a dyn ImageSource) -> Self {
        let mut state = source.state().clone();
        let fault = env::var(VARIABLE).unwrap_or_default();
        assert!(fault.is_empty() || plant(&fault, &mut state), "no fault is called {fault:?}");
        Self { source, state, has_stale_pages: fault == STALE_PAGE }
    }
}

/// Reports whether the last page of a run becomes stale. No page that the C library needs does.
fn is_stale(run: &Run, state: &JobState) -> bool {
    let Some(process) = state.processes.get(run.owner as usize) else { return false };
    let start = run.range.start().get();
    let mapping = process.mappings.iter().find(|it| (it.start..it.end).contains(&start));
    mapping.is_some_and(|it| it.backing == Backing::Anonymous && !it.grows_down && it.protection.write)
        && start != process.layout.heap_start
}

impl ImageSource for Planted<'_> {
    fn state(&self) -> &JobState {
        &self.state
    }

    fn runs(&self) -> &[Run] {
        self.source.runs()
    }

    fn deliver(&self, place: &(dyn Fn(&[Run], &[u8]) -> Result<(), BoxError> + Sync)) -> Result<(), BoxError> {
        if !self.has_stale_pages {
            return self.source.deliver(place);
        }
        let state = &self.state;
        self.source.deliver(&|runs, bytes| {
            let (mut bytes, mut end) = (bytes.to_vec(), 0);
            for run in runs {
                end += run.range.pages() as usize * PAGE_BYTES;
                if is_stale(run, state) {
                    bytes[end - PAGE_BYTES..end].fill(0);
                }
            }
            place(runs, &bytes)
        })
    }
}
