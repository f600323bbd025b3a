//! What a user reads of files that the program has not open: what a restart could do about them, and what helps.

use crate::quoting::ForShell;
use standfast_engine::{ListingNews, NotSaved};
use std::fmt;
use std::path::Path;

fn write_not_saved(f: &mut fmt::Formatter<'_>, path: &Path, why: NotSaved) -> fmt::Result {
    let path = ForShell(path);
    match why {
        NotSaved::TooMuch => write!(
            f,
            "{path} holds too much for --save-folder auto: what the program writes there is not saved. If that is in a \
directory of the job's own, name it: --save-folder {path}; for temporary files, set TMPDIR to such a directory"
        ),
        NotSaved::Elsewhere => write!(
            f,
            "{path} lies on another machine: --save-folder auto does not save what the program writes there. To have it \
saved: --save-folder {path}"
        ),
        NotSaved::Shared => write!(
            f,
            "{path} is also used by others: of the files there, --save-folder auto puts back those whose names the program \
knows. Run the program in a directory of its own"
        ),
        NotSaved::TooLong => write!(
            f,
            "{path} is too long for --save-folder auto (64 MiB at most) and is not saved. To have it saved, name its \
directory with --save-folder"
        ),
        NotSaved::Linked => write!(f, "{path} has several names (hard links): --save-folder auto does not save it"),
        NotSaved::Unreadable => write!(f, "{path} cannot be read: --save-folder auto does not save it"),
    }
}

pub(super) fn write_listing_news(f: &mut fmt::Formatter<'_>, news: &ListingNews) -> fmt::Result {
    match news {
        ListingNews::Grows { path } => write!(
            f,
            "{} existed before the program was started and is being appended to. A restart cannot tell who has written what, \
and asks for --files rollback, which cuts it back, or keep. To have it put back instead, run with --save-folder",
            ForShell(path)
        ),
        ListingNews::Database { paths } => write!(
            f,
            "{} belong to an SQLite database that is too large to be saved by itself. A restart will be refused once the \
program has written to it after the checkpoint. Run it with --save-files=SIZE, or --save-folder auto",
            paths.iter().map(|path| ForShell(path).to_string()).collect::<Vec<_>>().join(", ")
        ),
        ListingNews::ClosedDatabase { path } => write!(
            f,
            "{} is an SQLite database that programs of the job open and close again, and checkpoints do not save it. A restart \
will be refused once it has been written to after the checkpoint. Run it with --save-folder auto",
            ForShell(path)
        ),
        ListingNews::Gone { path } => write!(
            f,
            "{} was open for writing at the last checkpoint, and has been removed or replaced since. A restart from a \
checkpoint in the middle of writing such a file is refused. Run it with --save-folder auto, or --save-files=SIZE",
            ForShell(path)
        ),
        ListingNews::HandedOn { path } => write!(
            f,
            "programs of the job hand files to each other by name, such as {}, and checkpoints do not save these. A restart \
fails where one has been removed since. Run it with --save-folder auto, which saves them",
            ForShell(path)
        ),
        ListingNews::NotSaved { path, why } => write_not_saved(f, path, *why),
        ListingNews::TooMuch { path } => write!(
            f,
            "{} holds too many files to be listed with each checkpoint. What the program appends there to files that it does \
not hold open may be written twice after a restart. Run it in a directory of its own, or with --save-folder",
            ForShell(path)
        ),
    }
}
