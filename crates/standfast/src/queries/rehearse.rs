//! `rehearse`: finds out whether a checkpoint can be restarted here. The job may be running; nothing of it is changed.

use crate::event::{JobEvent, LongWork};
use crate::identity::in_engine;
use crate::job_folders::started;
use crate::quoting::without_numbers;
use crate::report::RehearsalReport;
use crate::reported_image::ReportedImage;
use crate::settings::{JobOptions, file_policy, id_policy};
use crate::{Error, Listener};
use standfast_engine::{FileOptions, ProcessIdentity, RehearsalOptions, Rehearsed, Streams, rehearse_restart};
use standfast_format::manifest::GenerationNumber;
use standfast_format::records::FileReference;
use standfast_store::{JobDirectory, LeaseState, Levels, Selector};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Rehearses a restart from a generation: it is planned, verified and, where nobody would notice, rebuilt and discarded.
/// `None` means the newest good generation.
///
/// Call it from a single-threaded process.
///
/// # Errors
/// What a restart would meet here and now.
pub fn rehearse(
    directory: &Path,
    at: Option<GenerationNumber>,
    listener: &mut Listener<'_>,
) -> Result<RehearsalReport, Error> {
    let of_store = |error| Error::of_store(directory, error);
    let opened = JobDirectory::look(directory).map_err(of_store)?;
    let running = running_program(&opened.lease_state().map_err(of_store)?);
    let manifest = opened.manifest().map_err(of_store)?;
    let options = JobOptions::from_record(manifest.options);
    let levels = Levels::open(opened.clone()).map_err(of_store)?.0;
    let (_, choice) = levels.choose(at.map_or(Selector::Newest, Selector::Exactly)).map_err(of_store)?;
    for skipped in &choice.skipped {
        let (generation, reason) = (skipped.number.get(), without_numbers(&skipped.reason.to_string()));
        listener(&JobEvent::Skipped { generation, reason });
    }
    let generation = choice.number.get();
    let saved_binary = |file: &FileReference| {
        let checksum = file.digest?.checksum;
        opened.saved_binary(checksum, Path::new(OsStr::from_bytes(&file.path.0)))
    };
    let listener = RefCell::new(listener);
    let source = ReportedImage::new(&choice.image, LongWork::Rehearsing { generation }, &listener);
    let own_directory = std::path::absolute(directory).unwrap_or_default();
    let rehearsed = rehearse_restart(
        &source,
        &RehearsalOptions {
            ids: id_policy(options.ids),
            files: FileOptions {
                policy: file_policy(options.files),
                ends: &manifest.ends,
                own_directory: Some(&own_directory),
                streams: Streams::Recorded,
                started_nanoseconds: started(&manifest.description),
                ended_nanoseconds: manifest.ended_nanoseconds,
                alive: &[],
            },
            saved_binary: &saved_binary,
            running,
        },
    )?;
    Ok(RehearsalReport::of(generation, rehearsed))
}

/// Returns the main process of a job that is running.
fn running_program(lease_state: &LeaseState) -> Option<ProcessIdentity> {
    let program = match lease_state {
        LeaseState::Supervised(holder) => holder.program,
        LeaseState::Orphaned(_, program) => Some(*program),
        _ => None,
    };
    program.map(in_engine).filter(ProcessIdentity::is_alive)
}

impl RehearsalReport {
    fn of(generation: u64, rehearsed: Rehearsed) -> Self {
        match rehearsed {
            Rehearsed::Rebuilt { left_out, notes } => Self {
                generation,
                not_rebuilt: None,
                left_out: left_out.into_iter().map(str::to_owned).collect(),
                notes,
            },
            Rehearsed::Checked { why } => {
                Self { generation, not_rebuilt: Some(why), left_out: Vec::new(), notes: Vec::new() }
            }
        }
    }
}
