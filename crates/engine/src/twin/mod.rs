//! The twin: the collection that a checkpoint takes, taken once more of a job that was just rebuilt and has not run yet.
//! Its records must equal those of the image, so a restart that would continue with something else is known by what
//! differs.
//!
//! ```text
//! mod         collects the rebuilt job, and compares
//! canonical   records in the form in which they are compared: what may differ as a whole is made equal
//! exceptions  single fields that may differ, each with its reason
//! comparison  the fields in which two records differ
//! ```
//!
//! What no collection sees, such as the order in which threads wait for a lock, the twin does not see either.

mod canonical;
mod comparison;
mod exceptions;

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
use standfast_format::records::JobState;
use standfast_linux::proc;
use standfast_linux::{Pid, Tid};

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
        let mut found = self.collect()?;
        make_canonical(&mut saved, &mut found);
        for place in &self.replaced {
            if let (Some(saved), Some(found)) = (saved.open_files.get_mut(*place), found.open_files.get(*place)) {
                *saved = found.clone();
            }
        }
        let differing = differences(&saved, &found);
        Ok(differing.into_iter().filter(|it| !exceptions::allow(it)).collect())
    }

    fn collect(&self) -> Result<JobState, EngineError> {
        let main = ProcessIdentity::of(self.threads[0][0].as_process())?;
        let shared = Shared::new(main.id(), inheritance_of(main.id()));
        shared.waits().append(&self.waits);
        shared.written().extend(&self.written);
        shared.reused_ports.extend(self.sharing.iter().copied());
        let frozen = Frozen::of_rebuilt(Roots { main, reaper: self.reaper }, shared, &self.threads)?;
        // On all processors. Nothing runs that could change them afterwards.
        let pids: Vec<Pid> = frozen.processes.iter().map(|process| process.pid).collect();
        pool::each(&pids, |pid| frozen.shared.scans.scan(*pid));
        let options = CaptureOptions {
            asking: Asking::Ahead,
            external_sockets: ExternalSockets::Reset,
            ..CaptureOptions::default()
        };
        let collected = Collection::records(&frozen, options);
        frozen.forget();
        collected
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
