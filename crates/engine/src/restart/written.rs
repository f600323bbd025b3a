//! Which files the rebuilt job counts as written through mappings. A collection learns that only while the job runs.

use super::files::path_of;
use crate::files::FileId;
use standfast_format::records::{Backing, JobState, Mapping, MemoryObject, ObjectKind, SavedPart};
use std::collections::BTreeSet;

/// Returns the files that the previous life was seen to write through mappings, as they are found now: those that mappings
/// show as the job's memory, and those of which only what is mapped was saved.
pub(super) fn written(job: &JobState) -> Vec<FileId> {
    let shown = |mapping: &Mapping| match mapping.backing {
        Backing::SharedObject { object, .. } => Some(object as usize),
        _ => None,
    };
    let shown: BTreeSet<usize> = job.processes.iter().flat_map(|it| &it.mappings).filter_map(shown).collect();
    let key = |(place, object): (usize, &MemoryObject)| match &object.kind {
        ObjectKind::MappedFile { file, saved, .. } if *saved == SavedPart::Mapped || shown.contains(&place) => {
            std::fs::metadata(path_of(file)).ok().map(|file| FileId::of(&file))
        }
        _ => None,
    };
    job.objects.iter().enumerate().filter_map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_format::records::{FileReference, MappingAttributes, ProcessState, Protection};
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn a_file_counts_as_written_however_much_of_it_was_saved_if_a_mapping_shows_it() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let path = place.path().as_os_str().as_bytes().into();
        let file = FileReference { path, ..FileReference::default() };
        let object = |saved| MemoryObject {
            kind: ObjectKind::MappedFile { file: file.clone(), mode: 0o600, lock: None, other_writer: None, saved },
            length: 4096,
            huge_page_bytes: 0,
            modified_nanoseconds: None,
        };
        let mapping = Mapping {
            start: 4096,
            end: 8192,
            protection: Protection::default(),
            backing: Backing::SharedObject { object: 0, offset: 0 },
            grows_down: false,
            attributes: MappingAttributes::default(),
            may_write: Some(true),
        };
        let number = |saved, mappings| {
            let processes = vec![ProcessState { mappings, ..ProcessState::default() }];
            written(&JobState { objects: vec![object(saved)], processes, ..JobState::default() }).len()
        };
        assert_eq!(number(SavedPart::Mapped, Vec::new()), 1);
        assert_eq!(number(SavedPart::Whole, vec![mapping.clone()]), 1);
        assert_eq!(number(SavedPart::WholeIfNeeded, vec![mapping]), 1);
        assert_eq!(number(SavedPart::Whole, Vec::new()), 0, "it is saved because it is open for writing");
    }
}
