//! Texts about files that the program does not have open: what a restart could do about them, and what helps.

use crate::quoting::ForShell;
use standfast_engine::{ListingNews, NotSaved};
use std::fmt;
use std::path::Path;

fn write_not_saved(f: &mut fmt::Formatter<'_>, path: &Path, why: NotSaved) -> fmt::Result {
    let path = ForShell(path);
    match why {
        NotSaved::TooMuch => write!(
            f,
            "{path} holds too much for --save-folder auto: files that the program writes there are not saved\nhint: if it is the job's own directory, name it: --save-folder {path}; for temporary files, set TMPDIR to such a directory"
        ),
        NotSaved::Elsewhere => write!(
            f,
            "{path} is on another machine: --save-folder auto does not save files there\nhint: to save them: --save-folder {path}"
        ),
        NotSaved::Shared => write!(
            f,
            "other programs use {path} too: of the files there, --save-folder auto restores only those whose names the program knows\nhint: run the program in a directory of its own"
        ),
        NotSaved::TooLong => write!(
            f,
            "{path} is too large for --save-folder auto (64 MiB at most) and is not saved\nhint: to save it, name its directory with --save-folder"
        ),
        NotSaved::Linked => write!(f, "{path} has several names (hard links): --save-folder auto does not save it"),
        NotSaved::Unreadable => write!(f, "{path} cannot be read: --save-folder auto does not save it"),
    }
}

pub(super) fn write_listing_news(f: &mut fmt::Formatter<'_>, news: &ListingNews) -> fmt::Result {
    match news {
        ListingNews::Grows { path } => write!(
            f,
            "{} existed before the program was started and is being appended to. A restart cannot know who wrote which lines, and will ask for --files rollback or --files keep\nhint: to have it restored instead, run with --save-folder",
            ForShell(path)
        ),
        ListingNews::Database { paths } => write!(
            f,
            "{} belong to an SQLite database that is too large to be saved automatically. A restart will be refused once the program has written to it after the checkpoint\nhint: run it with --save-files=SIZE, or --save-folder auto",
            paths.iter().map(|path| ForShell(path).to_string()).collect::<Vec<_>>().join(", ")
        ),
        ListingNews::ClosedDatabase { path } => write!(
            f,
            "{} is an SQLite database that programs of the job open and close, and checkpoints do not save it. A restart will be refused once it has been written to after the checkpoint\nhint: run it with --save-folder auto",
            ForShell(path)
        ),
        ListingNews::Gone { path } => write!(
            f,
            "{} was open for writing at the last checkpoint and has been removed or replaced since. A restart from a checkpoint in the middle of writing such a file is refused\nhint: run it with --save-folder auto, or --save-files=SIZE",
            ForShell(path)
        ),
        ListingNews::HandedOn { path } => write!(
            f,
            "programs of the job pass files to each other by name, such as {}, and checkpoints do not save these. A restart fails if one has been removed since\nhint: run it with --save-folder auto, which saves them",
            ForShell(path)
        ),
        ListingNews::NotSaved { path, why } => write_not_saved(f, path, *why),
        ListingNews::TooMuch { path } => write!(
            f,
            "{} holds too many files to be listed with each checkpoint. Data that the program appends there to files it does not keep open may be written twice after a restart\nhint: run it in a directory of its own, or with --save-folder",
            ForShell(path)
        ),
    }
}
