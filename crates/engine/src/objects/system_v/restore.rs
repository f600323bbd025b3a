//! System V objects of a job under construction: made again under their old ids, in an IPC namespace of the job's own.
//!
//! ```text
//! make      while there is one process: segments, attached by us; semaphores with their values; queues with their messages
//! fill      segments, when all pages have been delivered
//! finish    permissions and owners, when every process has attached its segments
//! adjust    each process: what its end will do to semaphores, and that it was the last to change one
//! remove    after the commit: what the killed life has left in the namespace that it shared with others
//! ```
//!
//! Segments that are marked for removal can also be made, under other ids, in a namespace shared with others.

use super::{is_leftover, made_since, was_elsewhere, was_here};
use crate::construction::Construction;
use crate::error::kernel;
use crate::objects::{data_of, unlink_leftovers};
use crate::{Blocker, EngineError, RefusalCode};
use standfast_core::PageRange;
use standfast_format::records::{JobState, MemoryObject, ObjectKind, SemaphoreSet, SystemVName};
use standfast_linux::IpcNamespace;
use standfast_linux::abi;
use standfast_linux::system_v::{AttachedSegment, Limits, Made, NewObject, SystemVKind};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// `SEMVMX`
const VALUE_MAX: i32 = 32767;
const SEM_UNDO: i16 = 0x1000;
const SETVAL: u64 = abi::SETVAL as u64;
const IPC_NOWAIT: i16 = abi::IPC_NOWAIT as i16;
/// How many semaphores are changed at a time: twice as many operations, of which the kernel takes 500 by default.
const SEMAPHORES_AT_A_TIME: usize = 64;
const PIECE_PAGES: u64 = 256;
const OWNER_ONLY: u32 = 0o600;

/// Reports whether a job is to have an IPC namespace of its own if it can.
pub(crate) fn has_ipc(job: &JobState) -> bool {
    let is_segment = |kind: &ObjectKind| matches!(kind, ObjectKind::Segment { .. });
    job.objects.iter().any(|object| is_segment(&object.kind)) || needs_ipc_namespace(job) || was_elsewhere(job)
}

/// Reports whether it must have these under the same ids and names.
fn needs_ipc_namespace(job: &JobState) -> bool {
    let lasts = |kind: &ObjectKind| matches!(kind, ObjectKind::Segment { removed: false, .. });
    let queues = job.message_queues.len() + job.posix_queues.len();
    !job.semaphores.is_empty() || queues > 0 || job.objects.iter().any(|object| lasts(&object.kind))
}

/// Refuses a job that needs an IPC namespace of its own and cannot have one.
pub(crate) fn refuse_shared_ipc(job: &JobState, reason: Option<&io::Error>) -> Result<(), EngineError> {
    if !needs_ipc_namespace(job) {
        return Ok(());
    }
    let why = match reason {
        Some(reason) => format!("namespaces, in which they could be made again, are not available here ({reason})"),
        None => "with --ids new the job gets no namespaces, in which they could be made again".to_owned(),
    };
    Err(EngineError::Refused(vec![
        Blocker::new(RefusalCode::SystemVLimits, "System V objects or message queues", why)
            .with_hint("allow unprivileged user namespaces, or restart it as root, without --ids new"),
    ]))
}

/// The System V objects of a job under construction.
#[derive(Debug)]
pub(crate) struct MadeSystemV {
    place: Option<IpcNamespace>,
    /// By place among the job's objects. Our own attachments keep segments alive that are marked for removal.
    segments: HashMap<usize, (Made, AttachedSegment)>,
    semaphores: HashMap<usize, Made>,
    queues: HashMap<usize, Made>,
}

impl MadeSystemV {
    /// Makes the objects in the namespace of `main`.
    pub(crate) fn make(main: &Construction, job: &JobState) -> Result<Self, EngineError> {
        let entering = |source| kernel("looking for the job's IPC namespace", source);
        let place = IpcNamespace::of(main.pid()).map_err(entering)?;
        let mut made = Self { place, segments: HashMap::new(), semaphores: HashMap::new(), queues: HashMap::new() };
        if !has_ipc(job) {
            return Ok(made);
        }
        let limits = Limits::here();
        made.within(|| {
            limits.set();
            Ok(())
        })
        .map_err(entering)?;
        for place in in_order_of_ids(&job.objects, segment_name) {
            let object = &job.objects[place];
            if let ObjectKind::Segment { name, removed, .. } = &object.kind {
                let segment = made.make_segment(name, *removed, object.length);
                made.segments.insert(place, segment.map_err(|error| cannot_be_made("segment", name, &error))?);
            }
        }
        for place in in_order_of_ids(&job.semaphores, |set| Some(&set.name)) {
            let set = &job.semaphores[place];
            let semaphores = made.make_semaphores(set);
            made.semaphores.insert(place, semaphores.map_err(|error| cannot_be_made("semaphores", &set.name, &error))?);
        }
        for place in in_order_of_ids(&job.message_queues, |queue| Some(&queue.name)) {
            let queue = &job.message_queues[place];
            let (new, name) = (made.described(SystemVKind::Messages, &queue.name, 0), &queue.name);
            let bytes = queue.messages.iter().map(|message| message.text.0.len() as u64).sum::<u64>();
            let filled = made.within(|| {
                let made = new.make()?;
                made.finish(OWNER_ONLY, name.user, name.group, Some(queue.bytes_max.max(bytes)))?;
                queue.messages.iter().try_for_each(|message| made.send(message.kind, &message.text.0))?;
                Ok(made)
            });
            made.queues.insert(place, filled.map_err(|error| cannot_be_made("message queue", &queue.name, &error))?);
        }
        Ok(made)
    }

    fn make_segment(&self, name: &SystemVName, removed: bool, length: u64) -> io::Result<(Made, AttachedSegment)> {
        let new = self.described(SystemVKind::Segment, name, length);
        self.within(|| {
            let made = new.make()?;
            let attached = AttachedSegment::attach(made.id, length, true)?;
            if removed {
                made.remove()?;
            }
            Ok((made, attached))
        })
    }

    fn make_semaphores(&self, set: &SemaphoreSet) -> io::Result<Made> {
        let new = self.described(SystemVKind::Semaphores, &set.name, set.semaphores.len() as u64);
        let values: Vec<u16> = set.semaphores.iter().map(|semaphore| semaphore.value).collect();
        self.within(|| {
            let made = new.make()?;
            // The last user has ended, or uses it once more later. The values leave the time of this use as it is.
            if set.used == Some(true) {
                made.use_once()?;
            }
            made.set_values(&values)?;
            Ok(made)
        })
    }

    fn described(&self, kind: SystemVKind, name: &SystemVName, size: u64) -> NewObject {
        NewObject { kind, id: self.place.is_some().then_some(name.id), key: name.key, size }
    }

    fn within<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match &self.place {
            Some(place) => place.within(work),
            None => work(),
        }
    }

    /// Returns the id of a segment, by its place among the job's objects.
    pub(crate) fn id_of(&self, object: usize) -> u64 {
        self.segments.get(&object).map_or(0, |(made, _)| made.id as u64)
    }

    /// Gives segments their saved contents.
    pub(crate) fn fill(&self, main: &Construction, job: &JobState) -> Result<(), EngineError> {
        let filling = |source| kernel("filling System V shared memory", source);
        for (object, (_, segment)) in &self.segments {
            copy(main.staged(*object), job.objects[*object].length, segment).map_err(filling)?;
        }
        Ok(())
    }

    /// Gives all of them their permissions and owners. Locks what had been locked, or notes that the job continues
    /// without that.
    pub(crate) fn finish(self, job: &JobState, notes: &mut Vec<String>) -> Result<(), EngineError> {
        let finish = |made: &Made, name: &SystemVName, queue_bytes_max| {
            self.within(|| made.finish(name.mode, name.user, name.group, queue_bytes_max))
        };
        for (place, (made, _)) in &self.segments {
            let ObjectKind::Segment { name, locked, .. } = &job.objects[*place].kind else { continue };
            let finished = finish(made, name, None);
            finished.map_err(|error| cannot_be_made("segment", name, &error))?;
            if *locked && let Err(error) = self.within(|| made.lock()) {
                notes.push(format!("System V segment {} is not kept in memory any more ({error})", name.id));
            }
        }
        for (place, made) in &self.semaphores {
            let set = &job.semaphores[*place];
            let finished = finish(made, &set.name, None);
            finished.map_err(|error| cannot_be_made("semaphores", &set.name, &error))?;
        }
        for (place, made) in &self.queues {
            let queue = &job.message_queues[*place];
            let finished = finish(made, &queue.name, Some(queue.bytes_max));
            finished.map_err(|error| cannot_be_made("message queue", &queue.name, &error))?;
        }
        Ok(())
    }
}

fn segment_name(object: &MemoryObject) -> Option<&SystemVName> {
    match &object.kind {
        ObjectKind::Segment { name, .. } => Some(name),
        _ => None,
    }
}

/// Returns the places of the objects that have names, in the order of their ids ([`NewObject::make`]).
fn in_order_of_ids<T>(all: &[T], name: impl Fn(&T) -> Option<&SystemVName>) -> Vec<usize> {
    let named = (0..).zip(all).filter_map(|(place, one)| Some((name(one)?.id, place)));
    let mut named: Vec<(i32, usize)> = named.collect();
    named.sort_unstable();
    named.into_iter().map(|(_, place)| place).collect()
}

fn cannot_be_made(kind: &str, name: &SystemVName, error: &io::Error) -> EngineError {
    EngineError::Refused(vec![
        Blocker::new(
            RefusalCode::SystemVLimits,
            format!("System V {kind} {} (key {:#x})", name.id, name.key),
            format!("it cannot be made again as it was ({error})"),
        )
        .with_hint(
            "raise the system's limits (sysctl kernel.shmmax, kernel.sem, kernel.msgmax, kernel.msgmnb), or restart it \
                 as the user that it ran as",
        ),
    ])
}

fn copy(staged: &File, length: u64, segment: &AttachedSegment) -> io::Result<()> {
    let mut piece = Vec::new();
    for range in data_of(staged, length)? {
        let mut rest: PageRange = range;
        while rest.pages() > 0 {
            let (head, tail) = rest.split_at(PIECE_PAGES);
            let (start, end) = (head.start().get(), head.end().get().min(length));
            piece.resize((end - start) as usize, 0);
            staged.read_exact_at(&mut piece, start)?;
            segment.write(start, &piece);
            rest = tail;
        }
    }
    Ok(())
}

impl Construction {
    /// Restores what the end of this process, the one at `place`, will do to semaphores (SEM_UNDO).
    pub(crate) fn adjust_semaphores(&self, job: &JobState, place: usize) -> Result<(), EngineError> {
        for set in &job.semaphores {
            let own = set.undo.iter().filter(|undo| undo.process as usize == place);
            let pair = |undo: &standfast_format::records::Undo| {
                let semaphore = set.semaphores.get(undo.semaphore as usize)?;
                Some(adjusting(undo.semaphore, i32::from(semaphore.value), undo.adjustment))
            };
            let pairs: Vec<_> = own.filter_map(pair).collect();
            self.change_semaphores("adjusting semaphores", set.name.id, &pairs)?;
        }
        Ok(())
    }

    /// Makes this process the last to have changed the semaphores that it had changed last.
    pub(crate) fn touch_semaphores(&self, job: &JobState, place: usize) -> Result<(), EngineError> {
        for set in &job.semaphores {
            let numbered = set.semaphores.iter().zip(0..);
            let own = numbered.filter(|(semaphore, _)| semaphore.user == Some(place as u32));
            if set.used == Some(false) {
                // Values that were only set do not count as a use, by which others may know that a set is complete.
                for (semaphore, number) in own {
                    let arguments = [set.name.id as u64, number.into(), SETVAL, semaphore.value.into(), 0, 0];
                    self.call("setting semaphores", abi::SYS_semctl, arguments)?;
                }
                continue;
            }
            let pairs: Vec<_> = own.map(|(it, number)| there_and_back(number, i32::from(it.value), 1, 0, 0)).collect();
            self.change_semaphores("changing semaphores", set.name.id, &pairs)?;
        }
        Ok(())
    }

    fn change_semaphores(&self, action: &str, id: i32, pairs: &[Pair]) -> Result<(), EngineError> {
        for some in pairs.chunks(SEMAPHORES_AT_A_TIME) {
            let operations = some.as_flattened();
            let bytes: Vec<u8> = operations.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect();
            let address = self.argument(&bytes)?;
            self.call(action, abi::SYS_semop, [id as u64, address, operations.len() as u64, 0, 0, 0])?;
        }
        Ok(())
    }
}

/// Two operations that leave the value of a semaphore as it is.
type Pair = [[i16; 3]; 2];

/// Returns the pair that leaves the adjustment: an adjustment is the opposite of the operation done.
fn adjusting(number: u32, value: i32, adjustment: i32) -> Pair {
    match adjustment {
        0.. => there_and_back(number, value, adjustment, 0, SEM_UNDO),
        _ => there_and_back(number, value, -adjustment, SEM_UNDO, 0),
    }
}

/// Goes up by `step` and down again, or first down if there is no room above.
fn there_and_back(number: u32, value: i32, step: i32, flags_up: i16, flags_down: i16) -> Pair {
    let up = [number as i16, step as i16, IPC_NOWAIT | flags_up];
    let down = [number as i16, -step as i16, IPC_NOWAIT | flags_down];
    if value + step <= VALUE_MAX { [up, down] } else { [down, up] }
}

/// Removes the segments that the killed life of this job has made since the checkpoint. This happens before the job
/// runs, since it may make them again under the same keys.
pub(crate) fn remove_made_since(job: &JobState) {
    made_since(job).into_iter().for_each(|id| drop(Made::known(SystemVKind::Segment, id).remove()));
}

/// Removes what the killed life of this job, now in an IPC namespace of its own, has left in the one that it shared
/// with others. Objects that cannot be removed stay, as after any program that was killed.
pub(crate) fn remove_leftovers(job: &JobState) {
    let named = |kind: SystemVKind, name: &SystemVName| (kind, *name);
    let segments = job.objects.iter().filter_map(|object| match &object.kind {
        ObjectKind::Segment { name, removed: false, .. } => Some(named(SystemVKind::Segment, name)),
        _ => None,
    });
    let semaphores = job.semaphores.iter().map(|set| named(SystemVKind::Semaphores, &set.name));
    let queues = job.message_queues.iter().map(|queue| named(SystemVKind::Messages, &queue.name));
    if was_here(job) {
        unlink_leftovers(job);
    }
    let own: Vec<_> = segments.chain(semaphores).chain(queues).filter(|(_, name)| name.of_job).collect();
    for (kind, name) in own.into_iter().filter(|(kind, name)| is_leftover(job, *kind, name)) {
        let _ = Made::known(kind, name.id).remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_of_operations_sets_the_undo_value_within_range() {
        for (value, adjustment) in [(0, 5), (5, -5), (VALUE_MAX, 1), (VALUE_MAX, -1), (0, 1), (VALUE_MAX - 2, -7)] {
            let (mut now, mut left) = (value, 0);
            for [number, step, flags] in adjusting(3, value, adjustment) {
                assert_eq!(number, 3);
                now += i32::from(step);
                assert!((0..=VALUE_MAX).contains(&now), "{value} {adjustment}");
                left -= if flags & SEM_UNDO != 0 { i32::from(step) } else { 0 };
            }
            assert_eq!((now, left), (value, adjustment));
        }
    }
}
