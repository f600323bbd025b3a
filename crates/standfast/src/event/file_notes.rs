//! Texts about files that a restart has changed, or that the job uses in another place after it.

use crate::quoting::ForShell;
use standfast_engine::FileNote;
use standfast_store::TAIL_BYTES_MAX;
use std::fmt;
use std::path::{Path, PathBuf};

pub(super) fn write_file_note(f: &mut fmt::Formatter<'_>, note: &FileNote) -> fmt::Result {
    match note {
        FileNote::CutBack { path, bytes, kept, is_whole } => write_cut_back(f, path, kept, *bytes, *is_whole),
        FileNote::SetAside { path, kept } => write!(
            f,
            "{} was created after the checkpoint and has been moved to {}: the program will write it again",
            ForShell(path),
            ForShell(kept)
        ),
        FileNote::Replaced { path, kept } => write!(
            f,
            "{} was changed after the checkpoint and has been restored; the changed version is kept in {}",
            ForShell(path),
            ForShell(kept)
        ),
        FileNote::MoreKept { count, place } => write!(
            f,
            "and {} more, created or changed after the checkpoint; kept in {}",
            counted(*count, "file"),
            ForShell(place)
        ),
        FileNote::FilesPutBack { path, changed } => {
            write!(f, "put back {} in {} as at the checkpoint", counted(*changed, "file"), ForShell(path))
        }
        FileNote::LinkRemoved { path, target } => {
            write!(f, "removed the link {} to {}, created after the checkpoint", ForShell(path), ForShell(target))
        }
        FileNote::ChangedUnsaved { paths } => write!(
            f,
            "{} changed or removed after the checkpoint, which did not save them, such as {}: check whether the program still needs \
them",
            counted(paths.len(), "file"),
            shown(paths)
        ),
        FileNote::Stay { paths } => write!(
            f,
            "left {} unchanged, created after the checkpoint, such as {}. If the program appends to them, lines are doubled\nhint: restart with --files rollback, which moves them away; a run with --save-folder auto does so at each restart",
            counted(paths.len(), "file"),
            shown(paths)
        ),
        FileNote::SavedBinary { versions, path, kept } => write!(
            f,
            "{} is a different file now{}: the program continues with the saved copy, {}",
            ForShell(path),
            versions.as_ref().map_or(", or gone".to_owned(), |versions| format!(" ({versions})")),
            ForShell(kept)
        ),
        FileNote::CopiedBack { path, from } => {
            write!(f, "{} is as it was at the checkpoint: copied from {}, its new name", ForShell(path), ForShell(from))
        }
        FileNote::PutBack { path } => {
            write!(f, "{} was restored from the checkpoint", ForShell(path))
        }
        FileNote::FolderPutBack { path, changed, removed } => write!(
            f,
            "folder {} is as it was at the checkpoint: {changed} files restored, {removed} newer ones removed",
            ForShell(path)
        ),
        FileNote::StreamElsewhere { stream, from, to, why } => write_elsewhere(f, *stream, from, to, why),
        FileNote::StreamMoved { stream, from, to } => write_moved(f, *stream, from, to),
        FileNote::StreamStays { stream, path, own } => write_stays(f, *stream, path, own),
    }
}

/// Describes where a stream of this command goes.
fn stream_target(path: &Path) -> String {
    match path.to_str() {
        Some(pipe) if pipe.starts_with("pipe:") => "the pipe of this command".to_owned(),
        _ => ForShell(path).to_string(),
    }
}

fn stream_name(stream: i32) -> &'static str {
    if stream == 2 { "standard error" } else { "standard output" }
}

/// Lists the first few of many paths.
fn shown(paths: &[PathBuf]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<_> = paths.iter().take(SHOWN).map(|path| ForShell(path).to_string()).collect();
    shown.join(", ")
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn write_cut_back(f: &mut fmt::Formatter<'_>, path: &Path, kept: &Path, bytes: u64, is_whole: bool) -> fmt::Result {
    write!(f, "cut {bytes} bytes off {}, written since the checkpoint; kept in {}", ForShell(path), ForShell(kept))?;
    if bytes > TAIL_BYTES_MAX && !is_whole { write!(f, " up to the first {TAIL_BYTES_MAX}") } else { Ok(()) }
}

fn write_elsewhere(f: &mut fmt::Formatter<'_>, stream: i32, from: &Path, to: &Path, why: &str) -> fmt::Result {
    write!(
        f,
        "{} continues in {}, not in {}: {why}; the old file keeps everything written since the checkpoint",
        stream_name(stream),
        stream_target(to),
        ForShell(from)
    )
}

fn write_moved(f: &mut fmt::Formatter<'_>, stream: i32, from: &Path, to: &Path) -> fmt::Result {
    let name = stream_name(stream);
    write!(f, "{name} continues in {}, where this command writes, and no longer in {}", ForShell(to), ForShell(from))
}

fn write_stays(f: &mut fmt::Formatter<'_>, stream: i32, path: &Path, own: &Path) -> fmt::Result {
    write!(
        f,
        "{} of the program continues in {}, not in {}\nhint: to redirect it: standfast restart --redirect",
        stream_name(stream),
        ForShell(path),
        stream_target(own)
    )
}
