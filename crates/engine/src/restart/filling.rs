//! Fills the memory of a job under construction; every block is verified before it is placed.

use super::address_space::is_mapped;
use super::family::Family;
use super::known_names::KnownNames;
use super::plan::JobPlan;
use crate::EngineError;
use crate::error::kernel;
use crate::objects::is_inside;
use standfast_core::PAGE_BYTES;
use standfast_format::records::Owner;
use standfast_format::{BoxError, Contents, ImageSource, Run};

/// Zeros written at a time over pages of a private file mapping that the program had cleared.
static ZEROS: [u8; 16 * PAGE_BYTES] = [0; 16 * PAGE_BYTES];

impl Family {
    /// Fills processes and objects, and searches their contents for names.
    pub(super) fn deliver_pages(
        &self,
        plan: &JobPlan<'_>,
        source: &dyn ImageSource,
        names: &KnownNames<'_>,
    ) -> Result<(), EngineError> {
        for run in source.runs() {
            let has_place = match plan.job.owner(run.owner) {
                Some(Owner::Process(process)) => is_mapped(&plan.job.processes[process], run.range),
                Some(Owner::Object(object)) => is_inside(&plan.job.objects[object], run),
                None => false,
            };
            if !has_place {
                let message = format!("the image holds pages at {:?} where it maps nothing", run.range);
                return Err(EngineError::Image(message.into()));
            }
        }
        let place = |runs: &[Run], bytes: &[u8]| {
            names.scan_runs(runs, bytes);
            self.place(plan, runs, bytes)
        };
        source.deliver(&place).map_err(EngineError::Image)?;
        names.scan_seams(|owner, start, into| {
            let process = match plan.job.owner(owner) {
                Some(Owner::Process(process)) => &self.processes[process],
                _ => self.main(),
            };
            process.read_placed(plan.job, owner, start, into)
        });
        for run in source.runs().iter().filter(|run| run.contents == Contents::Zero) {
            // New objects hold zeros.
            let Some(Owner::Process(process)) = plan.job.owner(run.owner) else { continue };
            let mut rest = run.range;
            while rest.pages() > 0 {
                let (head, tail) = rest.split_at((ZEROS.len() / PAGE_BYTES) as u64);
                let zeros = &ZEROS[..head.bytes() as usize];
                let memory = &self.processes[process].memory;
                memory.write(head.start(), zeros).map_err(|source| kernel("clearing pages", source))?;
                rest = tail;
            }
        }
        Ok(())
    }

    /// Writes pages to their owners: run by run for objects, all runs at once for processes.
    fn place(&self, plan: &JobPlan<'_>, runs: &[Run], bytes: &[u8]) -> Result<(), BoxError> {
        let mut rest = bytes;
        for runs in runs.chunk_by(|one, next| one.owner == next.owner) {
            let (own, after) = rest.split_at(runs.iter().map(|run| run.range.bytes() as usize).sum());
            rest = after;
            match plan.job.owner(runs[0].owner) {
                Some(Owner::Process(process)) => {
                    self.processes[process].memory.write_pages(runs.iter().map(|run| run.range), own)?;
                }
                Some(Owner::Object(object)) => {
                    let mut rest = own;
                    for run in runs {
                        let (piece, after) = rest.split_at(run.range.bytes() as usize);
                        self.main().fill_object(object, run, piece)?;
                        rest = after;
                    }
                }
                None => unreachable!("owners have been checked"),
            }
        }
        Ok(())
    }
}
