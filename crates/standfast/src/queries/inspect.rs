//! `inspect` and `verify`: show what an image holds, and check that every byte of it is as it was written. They write
//! nothing.

use crate::event::LongWork;
use crate::progress::reported;
use crate::quoting::without_numbers;
use crate::report::{
    DescriptorReport, GenerationReport, InspectionReport, MachineReport, MemoryReport, ObjectReport, ProcessReport,
    ThreadReport, VerificationReport,
};
use crate::{Error, Listener};
use standfast_engine::describe_open_file;
use standfast_format::manifest::GenerationNumber;
use standfast_format::records::{Backing, Bytes, JobState, ObjectKind, PendingSignal, ProcessState, SavedPart};
use standfast_format::{Contents, ImageSource, Run};
use standfast_store::{Chain, JobDirectory, Level, Levels, Selector};
use std::path::Path;

/// Describes what the image of a generation holds. `None` means the newest good generation.
///
/// # Errors
/// If there is no such image, or its header, tables or records are not as they were written.
pub fn inspect(directory: &Path, at: Option<GenerationNumber>) -> Result<InspectionReport, Error> {
    let of_store = |error| Error::of_store(directory, error);
    let levels = JobDirectory::look(directory).and_then(Levels::open).map_err(of_store)?.0;
    let (level, choice) = levels.choose(at.map_or(Selector::Newest, Selector::Exactly)).map_err(of_store)?;
    let level_directory =
        levels.each().find(|(it, _)| *it == level).map_or(&levels.directory, |(_, level_directory)| level_directory);
    let manifest = level_directory.manifest().map_err(of_store)?;
    let generation = manifest.generation(choice.number).expect("what was chosen stands in the manifest");
    Ok(describe(&choice.image, GenerationReport::of(generation, level)))
}

/// Reads and verifies every block of a generation, or of all generations for `None`. Reports progress to `listener`.
///
/// # Errors
/// If there is nothing to verify. Damage is not an error but a result.
pub fn verify(
    directory: &Path,
    at: Option<GenerationNumber>,
    listener: &mut Listener<'_>,
) -> Result<Vec<VerificationReport>, Error> {
    let of_store = |error| Error::of_store(directory, error);
    let levels = JobDirectory::look(directory).and_then(Levels::open).map_err(of_store)?.0;
    let mut verified = Vec::new();
    for (level, level_directory) in levels.each() {
        let generations = level_directory.manifest().map_err(of_store)?.generations;
        for generation in generations.iter().filter(|it| at.is_none_or(|at| at == it.number)) {
            let outcome = level_directory.image(generation.number).and_then(|image| {
                let work = LongWork::Verifying { generation: generation.number.get() };
                reported(image.progress(), work, listener, || image.verify())
            });
            verified.push(VerificationReport {
                generation: generation.number.get(),
                is_in_memory: level == Level::Memory,
                file_bytes: generation.file_bytes,
                damage: outcome.err().map(|error| without_numbers(&error.to_string())),
            });
        }
    }
    match at {
        Some(number) if verified.is_empty() => {
            let directory = directory.to_owned();
            Err(Error::Store(standfast_store::StoreError::NoSuchGeneration { directory, number }))
        }
        _ => Ok(verified),
    }
}

fn describe(image: &Chain, generation: GenerationReport) -> InspectionReport {
    let state = image.state();
    let machine = MachineReport {
        architecture: state.machine.architecture.clone(),
        kernel_release: state.machine.kernel_release.clone(),
        host: state.machine.host.clone(),
    };
    let numbered = state.processes.iter().zip(0..);
    let processes = numbered.map(|(process, number)| describe_process(state, process, number, image.runs()));
    InspectionReport {
        generation,
        machine,
        processes: processes.collect(),
        pipes_bytes_waiting: state.pipes.iter().map(|pipe| pipe.contents.0.len() as u64).collect(),
        objects: (0..state.objects.len()).map(|place| describe_object(state, place, image.runs())).collect(),
    }
}

fn describe_object(state: &JobState, place: usize, runs: &[Run]) -> ObjectReport {
    let (object, number) = (&state.objects[place], state.number_of_object(place));
    let what = match &object.kind {
        ObjectKind::SharedMemory => "shared memory".to_owned(),
        ObjectKind::MemoryFile { name, .. } => format!("memfd {name}"),
        ObjectKind::MappedFile { file, saved: SavedPart::Mapped, .. } => format!("mapped file {}", file.path),
        ObjectKind::MappedFile { file, .. } => format!("saved file {}", file.path),
        ObjectKind::Segment { name, .. } => format!("System V segment {} (key {:#x})", name.id, name.key),
        ObjectKind::DeletedFile { path, .. } => format!("deleted file {path}"),
    };
    let own = runs.iter().filter(|run| run.owner == number);
    ObjectReport { what, bytes: object.length, stored_bytes: own.map(|run| run.range.bytes()).sum() }
}

fn describe_process(state: &JobState, process: &ProcessState, number: u32, runs: &[Run]) -> ProcessReport {
    let threads = process.threads.iter().map(|thread| ThreadReport {
        tid: thread.tid,
        name: thread.name.to_string(),
        pending_signals: signals(&thread.pending),
    });
    let descriptors = process.descriptors.iter().map(|descriptor| DescriptorReport {
        number: descriptor.number,
        what: state
            .open_files
            .get(descriptor.open_file as usize)
            .map_or_else(String::new, |it| describe_open_file(&it.kind)),
        close_on_exec: descriptor.close_on_exec,
    });
    ProcessReport {
        pid: process.pid,
        executable: process.executable.path.to_string(),
        arguments: process.arguments.iter().map(Bytes::to_string).collect(),
        working_directory: process.working_directory.to_string(),
        threads: threads.collect(),
        memory: sum_up_memory(process, number, runs),
        descriptors: descriptors.collect(),
        pending_signals: signals(&process.pending),
    }
}

fn signals(pending: &[PendingSignal]) -> Vec<u8> {
    pending.iter().map(|pending| pending.signal).collect()
}

fn sum_up_memory(process: &ProcessState, number: u32, runs: &[Run]) -> MemoryReport {
    let anonymous = process.mappings.iter().filter(|mapping| mapping.backing == Backing::Anonymous).count() as u64;
    let mappings = process.mappings.len() as u64;
    let bytes_that_hold = |contents| {
        let own = runs.iter().filter(|run| run.owner == number && run.contents == contents);
        own.map(|run| run.range.bytes()).sum()
    };
    MemoryReport {
        mappings,
        mapped_bytes: process.mappings.iter().map(|mapping| mapping.end.saturating_sub(mapping.start)).sum(),
        anonymous_mappings: anonymous,
        file_mappings: mappings - anonymous,
        stored_bytes: bytes_that_hold(Contents::Stored),
        zero_bytes: bytes_that_hold(Contents::Zero),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_core::{Address, PageRange};
    use standfast_format::records::{FileReference, Mapping, MappingAttributes, Protection};

    #[test]
    fn memory_is_summed_up_by_process_and_kind() {
        let mapping = |start, end, backing| Mapping {
            start,
            end,
            protection: Protection::default(),
            backing,
            grows_down: false,
            attributes: MappingAttributes::default(),
            may_write: None,
        };
        let file = Backing::PrivateFile { file: FileReference::default(), offset: 0 };
        let mappings = vec![mapping(0x1000, 0x9000, Backing::Anonymous), mapping(0x10000, 0x12000, file)];
        let process = ProcessState { mappings, ..ProcessState::default() };
        let run =
            |owner, start, pages, contents| Run { owner, range: PageRange::new(Address::new(start), pages), contents };
        let runs = [
            run(0, 0x1000, 2, Contents::Stored),
            run(0, 0x10000, 1, Contents::Zero),
            run(1, 0x1000, 7, Contents::Stored),
        ];
        let expected = MemoryReport {
            mappings: 2,
            mapped_bytes: 0xa000,
            anonymous_mappings: 1,
            file_mappings: 1,
            stored_bytes: 0x2000,
            zero_bytes: 0x1000,
        };
        assert_eq!(sum_up_memory(&process, 0, &runs), expected);
    }
}
