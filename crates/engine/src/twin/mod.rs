//! The twin: the collection that a checkpoint takes, taken once more of a job that was just rebuilt and has not run yet.
//! Its records must equal those of the image, so a restart that would continue with something else is known by what
//! differs.
//!
//! ```text
//! mod         collects the rebuilt job, and compares
//! canonical   records in the form in which they are compared: what may differ as a whole is made equal
//! exceptions  single fields that may differ, each with its reason
//! comparison  the fields in which two records differ
//! known_partners  the other parts of a distributed job
//! ```
//!
//! What no collection sees, such as the order in which threads wait for a lock, the twin does not see either.

mod canonical;
mod comparison;
mod exceptions;
mod known_partners;
mod remaining_times;
mod unsaid;

use crate::capture_options::{Asking, CaptureOptions, ExternalSockets};
use crate::collect::Collection;
use crate::files::FileId;
use crate::freeze::Frozen;
use crate::inheritance::Inheritance;
use crate::shared::Shared;
use crate::tree::Roots;
use crate::waits::Waits;
use crate::{EngineError, ProcessIdentity, pool};
use canonical::make_canonical;
pub(crate) use comparison::Difference;
use comparison::differences;
use known_partners::KnownPartners;
use standfast_format::records::{JobState, OpenFileKind};
use standfast_linux::proc;
use standfast_linux::{Pid, Tid};
use std::cmp::Ordering;
use std::sync::Arc;

/// A recorded open file that is one with an earlier one by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MergedFile {
    pub(crate) place: usize,
    pub(crate) with: usize,
}

/// A rebuilt job that has not run yet.
pub(crate) struct Rebuilt<'a> {
    /// The threads of each process, in the order of the image; main threads first.
    pub(crate) threads: Vec<Vec<Tid>>,
    /// The init of its namespaces.
    pub(crate) reaper: Option<Pid>,
    /// The waits that its threads continue with.
    pub(crate) waits: Waits,
    /// Places of the open files that the restart has replaced, as it was told to.
    pub(crate) replaced: Vec<usize>,
    /// Those of them that are one with an earlier one, since streams of the restart are.
    pub(crate) merged: Vec<MergedFile>,
    /// Files that the previous life was seen to write through mappings.
    pub(crate) written: Vec<FileId>,
    /// Sockets, by their cookies, that share their addresses because we made them share.
    pub(crate) sharing: &'a [u64],
}

impl Rebuilt<'_> {
    /// Returns how it differs from what it is to be.
    ///
    /// # Errors
    /// When it cannot be collected.
    pub(crate) fn differences(&self, mut saved: JobState) -> Result<Vec<Difference>, EngineError> {
        let mut found = self.collect(KnownPartners::of(&saved))?;
        merge(&mut saved, &self.merged);
        make_canonical(&mut saved, &mut found);
        let is_left = |place: &&usize| !self.merged.iter().any(|it| it.place == **place);
        for place in self.replaced.iter().filter(is_left) {
            let place = &(place - self.merged.iter().filter(|it| it.place < *place).count());
            if let (Some(saved), Some(found)) = (saved.open_files.get_mut(*place), found.open_files.get(*place)) {
                *saved = found.clone();
            }
        }
        let differing = differences(&saved, &found);
        Ok(differing.into_iter().filter(|it| !exceptions::allow(it)).collect())
    }

    fn collect(&self, partners: Option<KnownPartners>) -> Result<JobState, EngineError> {
        let main = ProcessIdentity::of(self.threads[0][0].as_process())?;
        let shared = Shared::new(main.pid, inheritance_of(main.pid));
        shared.tracing.waits().append(&self.waits);
        shared.files.written().extend(&self.written);
        shared.contact.reused_ports.extend(self.sharing.iter().copied());
        partners.into_iter().for_each(|partners| shared.contact.set_partners(Arc::new(partners)));
        let frozen = Frozen::of_rebuilt(Roots { main, reaper: self.reaper }, shared, &self.threads)?;
        // On all processors. Nothing runs that could change them afterwards.
        let pids: Vec<Pid> = frozen.processes.iter().map(|process| process.pid).collect();
        pool::each(&pids, |pid| frozen.shared.memory.scans.scan(*pid));
        let options = CaptureOptions {
            asking: Asking::Running,
            external_sockets: ExternalSockets::Reset,
            ..CaptureOptions::default()
        };
        let collected = Collection::records(&frozen, options);
        frozen.forget();
        collected
    }
}

/// Merges open files of a record.
fn merge(job: &mut JobState, merged: &[MergedFile]) {
    // The last ones first: the places of the others stay.
    for file in merged.iter().rev() {
        let moved = |place: &mut u32| {
            *place = match (*place as usize).cmp(&file.place) {
                Ordering::Less => *place,
                Ordering::Equal => file.with as u32,
                Ordering::Greater => *place - 1,
            };
        };
        job.open_files.remove(file.place);
        let descriptors = job.processes.iter_mut().flat_map(|process| &mut process.descriptors);
        descriptors.map(|descriptor| &mut descriptor.open_file).for_each(moved);
        let messages = job.sockets.iter_mut().flat_map(|socket| &mut socket.received);
        messages.flat_map(|message| &mut message.open_files).for_each(moved);
        for open in &mut job.open_files {
            if let OpenFileKind::Epoll { interests, .. } = &mut open.kind {
                interests.iter_mut().map(|interest| &mut interest.open_file).for_each(moved);
            }
        }
    }
}

/// Returns what a rebuilt job was given. In our IPC namespace it has only the objects that it has attached: others were
/// made by other programs in the meantime.
fn inheritance_of(main: Pid) -> Inheritance {
    let all = Inheritance::of_children();
    let namespace = |pid| proc::link(pid, "ns/ipc").ok();
    let is_apart = namespace(main) != namespace(Pid::own());
    Inheritance { system_v: all.system_v.filter(|_| is_apart), ..all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::{Descriptor, OpenFile, ProcessState};

    #[test]
    fn open_files_are_merged_with_all_that_leads_to_them() {
        let open = |count| OpenFile {
            flags: count,
            kind: OpenFileKind::EventCounter { count: 0, semaphore: false },
            signal_target: None,
            locks: Vec::new(),
            signal: None,
        };
        let descriptor = |open_file| Descriptor { number: open_file as i32, close_on_exec: false, open_file };
        let process = ProcessState { descriptors: [0, 1, 2, 3, 4].map(descriptor).to_vec(), ..ProcessState::default() };
        let mut job =
            JobState { open_files: (0..5).map(open).collect(), processes: vec![process], ..JobState::default() };
        merge(&mut job, &[MergedFile { place: 1, with: 0 }, MergedFile { place: 3, with: 0 }]);
        let places: Vec<u32> = job.processes[0].descriptors.iter().map(|it| it.open_file).collect();
        let left: Vec<u32> = job.open_files.iter().map(|it| it.flags).collect();
        assert_eq!((places, left), (vec![0, 0, 1, 0, 2], vec![0, 2, 4]));
    }
}
