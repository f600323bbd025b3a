//! What a restart reports about files: what it has done about each, condensed to a readable length.

use std::path::{Path, PathBuf};

/// One thing that a restart has done about a file, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileNote {
    /// It was cut back to its length at the checkpoint.
    CutBack {
        /// The file.
        path: PathBuf,
        /// How many bytes were cut off.
        bytes: u64,
        /// Where they were kept.
        kept: PathBuf,
        /// Whether all of them were kept, however many.
        is_whole: bool,
    },
    /// It has been created since the checkpoint, and was set aside.
    SetAside {
        /// The file.
        path: PathBuf,
        /// Where its contents were kept.
        kept: PathBuf,
    },
    /// It has been renamed since the checkpoint, and was copied back.
    CopiedBack {
        /// The file.
        path: PathBuf,
        /// Its present name.
        from: PathBuf,
    },
    /// It had been written through a mapping since the checkpoint, and its old contents were put back.
    PutBack {
        /// The file.
        path: PathBuf,
    },
    /// Another file took its place or it was written since the checkpoint, and its old contents were put back.
    Replaced {
        /// The file.
        path: PathBuf,
        /// Where the contents that it had until now were kept.
        kept: PathBuf,
    },
    /// More files than are named have been set aside or put back.
    MoreKept {
        /// How many.
        count: usize,
        /// Where their contents were kept.
        place: PathBuf,
    },
    /// Files that the job was seen to write hold their contents at the checkpoint again.
    FilesPutBack {
        /// Their directory.
        path: PathBuf,
        /// How many were written to.
        changed: usize,
    },
    /// A symbolic link that is new since the checkpoint was removed.
    LinkRemoved {
        /// The link.
        path: PathBuf,
        /// Where it led.
        target: PathBuf,
    },
    /// Files have changed since the checkpoint, which had not saved their contents.
    ChangedUnsaved {
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// Files that have been created since the checkpoint stay, since it is unknown whether they are the job's.
    Stay {
        /// The files.
        paths: Vec<PathBuf>,
    },
    /// A folder holds its contents at the checkpoint again.
    FolderPutBack {
        /// The folder.
        path: PathBuf,
        /// How many files were written to.
        changed: usize,
        /// How many new files and directories were removed.
        removed: usize,
    },
    /// The program continues with a copy of its executable or of a library, since the file itself was replaced, or is
    /// gone.
    SavedBinary {
        /// How it has changed, if its build-ids show that.
        versions: Option<String>,
        /// The file.
        path: PathBuf,
        /// The copy.
        kept: PathBuf,
    },
    /// A standard stream that was a file continues where that of the restart goes, as requested.
    StreamMoved {
        /// 1 or 2.
        stream: i32,
        /// The file of the run.
        from: PathBuf,
        /// Where the restart's goes.
        to: PathBuf,
    },
    /// A standard stream that was a file continues in the restart's own stream, since the file cannot be continued.
    StreamElsewhere {
        /// 1 or 2.
        stream: i32,
        /// The file of the run.
        from: PathBuf,
        /// The restart's own stream.
        to: PathBuf,
        /// Why the file cannot be continued.
        why: String,
    },
    /// A standard stream that was a file continues there, although that of the restart goes to another file or a pipe.
    StreamStays {
        /// 1 or 2.
        stream: i32,
        /// The file of the run.
        path: PathBuf,
        /// Where the restart's goes.
        own: PathBuf,
    },
}

/// Shortens the notes about kept files to a readable number.
pub(super) fn condensed(notes: Vec<FileNote>) -> Vec<FileNote> {
    const NAMED_MAX: usize = 3;
    let mut named = 0;
    let (mut count, mut place) = (0, PathBuf::new());
    let mut few = Vec::new();
    for note in notes {
        match &note {
            FileNote::SetAside { kept, .. } | FileNote::Replaced { kept, .. } if named == NAMED_MAX => {
                count += 1;
                place = kept.parent().unwrap_or(Path::new("/")).to_owned();
            }
            FileNote::SetAside { .. } | FileNote::Replaced { .. } => {
                named += 1;
                few.push(note);
            }
            _ => few.push(note),
        }
    }
    few.extend((count > 0).then_some(FileNote::MoreKept { count, place }));
    few
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_files_are_named_and_the_others_counted() {
        let aside = |name: &str| FileNote::SetAside { path: name.into(), kept: Path::new("/job").join(name) };
        let put_back = FileNote::FilesPutBack { path: "/work".into(), changed: 7 };
        let few = vec![aside("1"), put_back.clone(), aside("2"), aside("3")];
        assert_eq!(condensed(few.clone()), few);
        let many: Vec<_> = few.iter().cloned().chain([aside("4"), put_back.clone(), aside("5")]).collect();
        let more = FileNote::MoreKept { count: 2, place: "/job".into() };
        assert_eq!(condensed(many), [few, vec![put_back, more]].concat());
    }
}
