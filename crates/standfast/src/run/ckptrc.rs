//! `.ckptrc`: the parameters of a run in the words of the 1995 libckpt paper, sections 2 to 3.2 (L2, L3). The module
//! has a pure parser, the meaning of its words for a job, and one thin function that opens the file.
//!
//! The file is not Standfast's own configuration: it has the seven keys of that paper and no others. Requests that this
//! version does not honour are kept and named ([`Ckptrc::unmet`]), never dropped.

use super::default_directory::default_directory;
use crate::quoting::{ForShell, InWords};
use crate::settings::{
    INTERVAL_MAX, Incremental, Interval, JobOptions, Keep, MaxFiles, MinInterval, OptionChoices, Snapshot,
};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the file, which is looked for in the current directory.
pub const CKPTRC: &str = ".ckptrc";

/// Contents of a `.ckptrc`. Keys that are not there are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ckptrc {
    checkpointing: Option<Switch>,
    dir: Option<PathBuf>,
    maxtime_seconds: Option<u64>,
    mintime_seconds: Option<u64>,
    incremental: Option<Switch>,
    maxfiles: Option<Keep>,
    fork: Option<Switch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Switch {
    On,
    Off,
}

impl Ckptrc {
    /// Reads and parses the file, if there is one.
    ///
    /// # Errors
    /// If it cannot be read, if others could have written it, or if one of its lines is wrong.
    pub fn load(path: &Path) -> Result<Option<Self>, CkptrcError> {
        let Some(bytes) = read_settings(path)? else { return Ok(None) };
        Self::parse(&bytes).map(Some).map_err(|source| CkptrcError::Line { path: path.to_owned(), source })
    }

    /// Parses the contents of such a file.
    ///
    /// # Errors
    /// Returns the first line that is wrong.
    pub fn parse(bytes: &[u8]) -> Result<Self, LineError> {
        let mut said = Self::default();
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let text = without_comment(line).trim_ascii();
            if !text.is_empty() {
                said.read_setting(text).map_err(|fault| LineError { line: index + 1, fault })?;
            }
        }
        Ok(said)
    }

    fn read_setting(&mut self, text: &[u8]) -> Result<(), LineFault> {
        let key_length = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
        let (key, value) = text.split_at(key_length);
        let value = value.trim_ascii();
        match key {
            b"checkpointing" => set(&mut self.checkpointing, "checkpointing", switch("checkpointing", value)?),
            b"dir" => set(&mut self.dir, "dir", directory(value)?),
            b"maxtime" => set(&mut self.maxtime_seconds, "maxtime", number("maxtime", SECONDS, value)?),
            b"mintime" => set(&mut self.mintime_seconds, "mintime", number("mintime", SECONDS, value)?),
            b"incremental" => set(&mut self.incremental, "incremental", switch("incremental", value)?),
            b"maxfiles" => set(&mut self.maxfiles, "maxfiles", files(value)?),
            b"fork" => set(&mut self.fork, "fork", switch("fork", value)?),
            _ => Err(LineFault::Key { text: shown(key) }),
        }
    }

    /// Returns the directory for a program's checkpoints.
    pub fn directory(&self, program: &OsStr) -> PathBuf {
        let name = default_directory(program);
        self.dir.as_ref().map_or(name.clone(), |dir| dir.join(name))
    }

    /// Returns the options that the file sets explicitly. For a job that is continued, they take precedence over its
    /// own options.
    pub fn choices(&self) -> OptionChoices {
        // `checkpointing on` alone also sets the interval: a job that once was off must not stay off.
        let is_interval_said = self.checkpointing.is_some() || self.maxtime_seconds.is_some();
        let interval = is_interval_said.then(|| self.interval());
        let said = OptionChoices {
            interval,
            min_interval: self.min_interval(),
            snapshot: self.fork.map(snapshot),
            ..OptionChoices::default()
        };
        match (self.incremental, self.maxfiles) {
            (Some(Switch::On), Some(files)) if files != Self::defaults().keep => OptionChoices {
                incremental: Some(Incremental::On),
                max_files: MaxFiles::new(files.get().get()),
                keep: Some(Self::defaults().keep),
                ..said
            },
            (incremental, files) => {
                OptionChoices { incremental: incremental.map(|_| Incremental::Off), keep: files, ..said }
            }
        }
    }

    /// Returns the minimum interval. `checkpointing off` ignores the program's own requests as well.
    fn min_interval(&self) -> Option<MinInterval> {
        let least = self.mintime_seconds.map(|seconds| MinInterval::After(Duration::from_secs(seconds)));
        match self.checkpointing {
            Some(Switch::Off) => Some(MinInterval::Never),
            Some(Switch::On) => Some(least.unwrap_or_default()),
            None => least,
        }
    }

    fn interval(&self) -> Interval {
        match (self.checkpointing, self.maxtime_seconds) {
            (Some(Switch::Off), _) | (_, Some(0)) => Interval::Off,
            (_, Some(seconds)) => Interval::Every(Duration::from_secs(seconds)),
            (_, None) => Self::defaults().interval,
        }
    }

    /// Returns the defaults for missing keys (L3). They apply only if there is a `.ckptrc`.
    pub fn defaults() -> JobOptions {
        JobOptions {
            interval: Interval::Every(Duration::from_secs(600)),
            keep: Keep::new(1).expect("one is not zero"),
            incremental: Incremental::Off,
            snapshot: Snapshot::Sequential,
            ..JobOptions::default()
        }
    }

    /// Returns the requests that this version does not honour, each as a sentence.
    pub fn unmet(&self) -> impl Iterator<Item = String> {
        let one_file = self.maxfiles.is_none_or(|files| files == Self::defaults().keep);
        let incremental = self.incremental == Some(Switch::On) && one_file;
        let sentence =
            "'incremental on' has no effect with maxfiles 1, which is the default: set maxfiles to 2 or more";
        incremental.then_some(sentence).into_iter().map(|sentence| format!("{CKPTRC}: {sentence}"))
    }
}

fn snapshot(fork: Switch) -> Snapshot {
    match fork {
        Switch::On => Snapshot::Fork,
        Switch::Off => Snapshot::Sequential,
    }
}

/// Returns the line up to a `#` that begins a word. A `#` in the middle of a word may belong to a path.
fn without_comment(line: &[u8]) -> &[u8] {
    let begins_comment = |at: &usize| line[*at] == b'#' && (*at == 0 || line[*at - 1].is_ascii_whitespace());
    let end = (0..line.len()).find(begins_comment).unwrap_or(line.len());
    &line[..end]
}

fn set<T>(place: &mut Option<T>, key: &'static str, value: T) -> Result<(), LineFault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(LineFault::Repeated { key }),
    }
}

fn switch(key: &'static str, value: &[u8]) -> Result<Switch, LineFault> {
    match value {
        b"on" => Ok(Switch::On),
        b"off" => Ok(Switch::Off),
        _ => Err(LineFault::Switch { key, text: shown(value) }),
    }
}

fn number(key: &'static str, bounds: RangeInclusive<u64>, value: &[u8]) -> Result<u64, LineFault> {
    // Check the digits to refuse a sign: the parser of numbers would accept a plus.
    let digits = std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let found = digits.and_then(|text| text.parse().ok()).filter(|number| bounds.contains(number));
    found.ok_or_else(|| LineFault::Number { key, text: shown(value), least: *bounds.start(), most: *bounds.end() })
}

fn files(value: &[u8]) -> Result<Keep, LineFault> {
    let count = number("maxfiles", FILES, value)?;
    Ok(u32::try_from(count).ok().and_then(Keep::new).expect("the bounds of the number are those of a u32 above zero"))
}

fn directory(value: &[u8]) -> Result<PathBuf, LineFault> {
    if value.is_empty() || value.contains(&0) {
        return Err(LineFault::Directory);
    }
    Ok(OsString::from_vec(value.to_vec()).into())
}

/// Returns text of the file for a message: without control characters, and of limited length.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(SHOWN_CHARACTERS_MAX).flat_map(char::escape_debug).collect()
}

/// Returns the contents of a settings file, after checking that it is a regular file of this user that nobody else may
/// write.
///
/// # Errors
/// If the check fails, or the file cannot be read.
pub fn read_settings(path: &Path) -> Result<Option<Vec<u8>>, CkptrcError> {
    let unreadable = |source: io::Error| CkptrcError::Unreadable { path: path.to_owned(), source };
    let untrusted = |fault| CkptrcError::Untrusted { path: path.to_owned(), fault };
    // Do not block: otherwise a FIFO would hold up the run before it is refused.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(descriptor) => File::from(descriptor),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err(untrusted(TrustFault::Link)),
        Err(error) => return Err(unreadable(error.into())),
    };
    let status = file.metadata().map_err(unreadable)?;
    if !status.is_file() {
        return Err(untrusted(TrustFault::NoFile));
    }
    check_trusted(status.uid(), status.mode(), rustix::process::geteuid().as_raw()).map_err(untrusted)?;
    let mut bytes = Vec::new();
    file.by_ref().take(CKPTRC_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > CKPTRC_BYTES_MAX {
        return Err(CkptrcError::TooLong { path: path.to_owned() });
    }
    Ok(Some(bytes))
}

/// Checks that only `user` may write the file, since it decides where memory images go.
fn check_trusted(owner: u32, mode: u32, user: u32) -> Result<(), TrustFault> {
    if owner != user {
        return Err(TrustFault::Owner { owner, user });
    }
    if mode & 0o022 != 0 {
        return Err(TrustFault::Mode { mode: mode & 0o7777 });
    }
    Ok(())
}

/// Reason why a `.ckptrc` was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CkptrcError {
    /// A line is wrong.
    #[error("{path}, {source}", path = ForShell(.path))]
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        source: LineError,
    },
    /// Another user could have written it.
    #[error("{path} is not used, because it decides where memory images go: {fault}", path = ForShell(.path))]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// Reason not to trust it.
        fault: TrustFault,
    },
    /// It is longer than settings can be.
    #[error(
        "{path} is longer than {CKPTRC_BYTES_MAX} bytes and cannot be a settings file\nhint: move it away",
        path = ForShell(.path)
    )]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The system does not allow to read it.
    #[error("cannot read {path}: {}\nhint: make it readable, or move it away", InWords(.source), path = ForShell(.path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
}

/// A line that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct LineError {
    /// Number of the line, counted from 1.
    pub line: usize,
    /// Fault of the line.
    pub fault: LineFault,
}

/// A fault of a line, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// The line begins with none of the keys.
    #[error(
        "unknown key '{text}'\nhint: use checkpointing, dir, maxtime, mintime, incremental, maxfiles or fork, or put a # in front"
    )]
    Key {
        /// The word in place of the key.
        text: String,
    },
    /// The value is neither on nor off.
    #[error("'{text}' is not a value of {key}\nhint: write '{key} on' or '{key} off'")]
    Switch {
        /// The key.
        key: &'static str,
        /// The word in place of the value.
        text: String,
    },
    /// The value is not a number within the bounds.
    #[error("'{text}' is not a value of {key}\nhint: write a whole number from {least} to {most}")]
    Number {
        /// The key.
        key: &'static str,
        /// The word in place of the value.
        text: String,
        /// Least number accepted.
        least: u64,
        /// Greatest number accepted.
        most: u64,
    },
    /// The value is not a path.
    #[error("dir names no directory\nhint: write its path after the key")]
    Directory,
    /// The key was set before.
    #[error("{key} is set a second time\nhint: keep one of the two lines")]
    Repeated {
        /// The key.
        key: &'static str,
    },
}

/// Reason why another user could have written a file, and what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustFault {
    /// It belongs to another user.
    #[error(
        "it belongs to user {owner}, not to you (user {user})\nhint: start the program in another directory, or put a file of your own there"
    )]
    Owner {
        /// User id of its owner.
        owner: u32,
        /// User id of this process.
        user: u32,
    },
    /// Its mode lets other users write.
    #[error(
        "other users may write it (mode {mode:o})\nhint: if you are sure that nobody has, let only yourself write it: chmod go-w"
    )]
    Mode {
        /// Permission bits.
        mode: u32,
    },
    /// It is a symbolic link.
    #[error("it is a symbolic link\nhint: put the file itself in its place")]
    Link,
    /// It is a directory, a FIFO or a device.
    #[error("it is not a regular file\nhint: move it away")]
    NoFile,
}

/// Longest file that is read. It leaves room for some settings, the longest path that Linux accepts, and many comments.
const CKPTRC_BYTES_MAX: u64 = 64 << 10;

/// Seconds that `maxtime` and `mintime` accept. The upper bound is that of intervals on the command line.
const SECONDS: RangeInclusive<u64> = 0..=INTERVAL_MAX.as_secs();

/// Numbers that `maxfiles` accepts: at least one, and no more than a manifest can list with ease.
const FILES: RangeInclusive<u64> = 1..=10_000;

/// Length to which a wrong word is shown: enough to find it.
const SHOWN_CHARACTERS_MAX: usize = 60;

#[cfg(test)]
mod tests;
