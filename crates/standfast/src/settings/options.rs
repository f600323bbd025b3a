//! Options of a run that the manifest keeps, each defined once in the table below. The command lines of `run` and
//! `restart`, their help, `standfast.toml`, the job's options and the manifest follow the table. The manifest keeps the
//! options, so that a restarted job is protected in the same way.
//!
//! A new option is a line in the table, with its type, and a field of [`manifest::RunOptions`].

use super::chains::{Keep, MaxFiles};
use super::deadline::Deadline;
use super::interval::Interval;
use super::levels::{DurableEvery, FlushEvery, Grace, Memory};
use super::mean_time::MeanTime;
use super::min_interval::MinInterval;
use super::notices::{SignalNotice, SignalNotices};
use super::option_kinds::{Kept, kept_as_chosen};
use super::rehearse::Rehearse;
use super::reserve::Reserve;
use super::saved_files::SaveFiles;
use super::stopped_status::StoppedStatus;
use super::writers::Writers;
use clap::ValueHint;
use serde::Serialize;
use standfast_engine::{FilePolicy, IdPolicy, StackPart};
use standfast_format::manifest::{
    self, Compress, DeltaMode, ExternalSockets, Files, Flush, Ids, Incremental, KeepFinished, Snapshot, Stack, Track,
};
use std::fmt;

/// Defines all that belongs to an option: a field of the job's options, of those of command lines and of the manifest, all
/// of one name. A line of the table has these parts:
///
/// ```text
/// "Help, to which the default is added"
/// #[arg(how the command line names it)]
/// name: Type [as JobType] [=> at_restart],
/// ```
///
/// With `as`, the job has the option in another type than the command line, such as a set made of a list. An option with
/// `=> at_restart` can also be given to `restart`. Options `elsewhere` are not in [`manifest::RunOptions`]: another part
/// of the manifest keeps them.
macro_rules! options {
    (
        $($help:literal #[$argument:meta] $option:ident: $given:ty $(as $kind:ty)? $(=> $at_restart:ident)?,)+
        elsewhere:
        $($about:literal #[$naming:meta] $other:ident: $type:ty $(=> $again:ident)?,)+
    ) => {
        /// How a job is protected.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
        pub struct JobOptions {
            $(#[doc = $help] pub $option: last!($given $(, $kind)?),)+
        }

        /// Options of a command line that runs a program: `None` where it names none, so that the job's own options stand.
        #[derive(Debug, Clone, PartialEq, Eq, Default, clap::Args)]
        pub struct OptionChoices {
            $(
                #[doc = $help]
                #[$argument]
                #[arg(help = with_default($help, JobOptions::default().$option))]
                pub $option: Option<$given>,
            )+
            $(
                #[doc = $about]
                #[$naming]
                #[arg(help = with_default($about, <$type>::default()))]
                pub $other: Option<$type>,
            )+
        }

        /// Options of a command line that restarts a job. The others stay as they are.
        #[derive(Debug, Clone, PartialEq, Eq, Default, clap::Args)]
        pub struct RestartChoices {
            $($(#[doc = $help] #[$argument] #[arg(help = $at_restart($help))] pub $option: Option<$given>,)?)+
            $($(#[doc = $about] #[$naming] #[arg(help = $again($about))] pub $other: Option<$type>,)?)+
        }

        impl From<RestartChoices> for OptionChoices {
            fn from(choices: RestartChoices) -> Self {
                let mut all = Self::default();
                // A macro repeats what is optional only where it names the part: so the marker names the value.
                $($(let $at_restart = choices.$option; all.$option = $at_restart;)?)+
                $($(let $again = choices.$other; all.$other = $again;)?)+
                all
            }
        }

        impl JobOptions {
            /// Returns the options as a manifest keeps them.
            pub(crate) fn to_record(self) -> manifest::RunOptions {
                manifest::RunOptions { $($option: self.$option.to_record(),)+ }
            }

            /// Returns the options that a manifest keeps. The default applies to an option that is missing, or that no command
            /// line would have accepted.
            pub(crate) fn from_record(record: manifest::RunOptions) -> Self {
                Self { $($option: record.$option.and_then(Kept::from_record).unwrap_or_default(),)+ }
            }
        }

        impl OptionChoices {
            /// Returns these choices, with `otherwise` for those that were not made.
            pub fn or(self, otherwise: JobOptions) -> JobOptions {
                JobOptions { $($option: self.$option.map_or(otherwise.$option, Into::into),)+ }
            }

            /// Returns the words of a command line that makes these choices.
            pub(crate) fn to_words(&self) -> Vec<String> {
                let mut words = Vec::new();
                let mut add = |option: &str, value: &dyn fmt::Display| {
                    words.push(format!("--{}={value}", option.replace('_', "-")));
                };
                $(self.$option.iter().for_each(|value| each_value!(value, stringify!($option), add $(, $kind)?));)+
                $(self.$other.iter().for_each(|value| add(stringify!($other), value));)+
                words
            }

            /// Returns these choices, with those of `weaker` where none was made.
            pub(crate) fn over(self, weaker: Self) -> Self {
                Self {
                    $($option: self.$option.or(weaker.$option),)+
                    $($other: self.$other.or(weaker.$other),)+
                }
            }
        }
    };
}

impl OptionChoices {
    /// Makes the directory in memory absolute, so that a restart from another working directory finds it.
    ///
    /// # Errors
    /// If it is empty, or the working directory is unknown.
    pub fn with_absolute_places(mut self) -> std::io::Result<Self> {
        if let Some(Memory::At(place)) = &mut self.memory {
            *place = std::path::absolute(&*place)?;
        }
        Ok(self)
    }
}

/// Names the last of one or two types.
macro_rules! last {
    ($only:ty) => {
        $only
    };
    ($given:ty, $kind:ty) => {
        $kind
    };
}

/// Adds the words of an option that was given: one, or one for each of its values.
macro_rules! each_value {
    ($value:ident, $option:expr, $add:ident) => {
        $add($option, $value)
    };
    ($values:ident, $option:expr, $add:ident, $kind:ty) => {
        $values.iter().for_each(|value| $add($option, value))
    };
}

/// Returns the help of an option with its default.
fn with_default(help: &str, default: impl fmt::Display) -> String {
    format!("{help} [default: {default}]")
}

/// Marks an option of the table that a restart may change: returns its help there.
fn at_restart(help: &str) -> String {
    with_default(help, "as in the run")
}

options! {
    "Time between checkpoints, such as 90s, 10m or 1h; 'auto': as is best for what they cost and how often the job \
     fails; 'off': only on request"
    #[arg(short, long, alias = "maxtime", value_name = "TIME")]
    interval: Interval,
    "Mean time between failures of the job, such as 12h or 30days, for '--interval auto'; 'never': nothing fails; \
     'auto': learnt from its failures, one a day until then"
    #[arg(long, value_name = "TIME")]
    mtbf: MeanTime => at_restart,
    "Minimum interval between program-requested checkpoints (checkpoint_here); 'never' ignores them"
    #[arg(long, alias = "mintime", value_name = "TIME")]
    min_interval: MinInterval,
    "Number of checkpoints to keep"
    #[arg(long, value_name = "N")]
    keep: Keep,
    "Process ids after a restart: 'auto' restores the old ones where permitted, 'new' takes new ones"
    #[arg(long, value_name = "POLICY")]
    ids: Ids => at_restart,
    "Save the main thread's stack: 'live' saves the part in use, 'whole' all of it, for coroutines kept below it"
    #[arg(long, value_name = "PART")]
    stack: Stack,
    "Restart with files that have grown or changed: 'auto' cuts off what the program wrote and refuses when in \
     doubt, 'rollback' cuts off whatever was written by anyone, 'keep' changes nothing, 'refuse' refuses"
    #[arg(long, value_name = "POLICY")]
    files: Files => at_restart,
    "Save files that the program may write, up to SIZE each [64M if no size is given], and restore them at a \
     restart; 'auto' saves files up to 1M and keeps what was appended to them; 'off' saves none"
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "64M")]
    save_files: SaveFiles,
    "Connections to processes outside the job: 'refuse' refuses the checkpoint, 'reset' restores them as \
     connections that the peer has reset"
    #[arg(long, value_name = "POLICY")]
    external_sockets: ExternalSockets,
    "Save only what has changed since the previous checkpoint: 'on', 'off', or 'auto', which saves a process in \
     full when most of it has changed"
    #[arg(long, value_name = "WHEN")]
    incremental: Incremental,
    "Maximum length of a chain of checkpoint files before it is coalesced in the background"
    #[arg(long, alias = "maxfiles", value_name = "N")]
    max_files: MaxFiles,
    "When memory is read and written: 'copy' copies it during the pause and writes it after, 'fork' reads and \
     writes it after the pause from clones of the processes, 'precopy' reads it before the pause and again only \
     what has changed, 'sequential' does all of it during the pause, 'auto' picks what costs the program least"
    #[arg(long, value_name = "HOW")]
    snapshot: Snapshot,
    "Dirty-page detection: 'pagemap' asks the kernel, 'hash' reads and compares all memory, 'auto' picks one, 'off' \
     saves everything"
    #[arg(long, value_name = "HOW")]
    track: Track,
    "Store pages as differences from the previous checkpoint: 'previous' wherever that is shorter, 'auto' where it \
     is faster, 'none' never"
    #[arg(long, value_name = "HOW")]
    delta: DeltaMode,
    "Compress checkpoints: 'lz4', 'zstd', 'auto' where it is faster than writing more, 'none'"
    #[arg(long, value_name = "HOW")]
    compress: Compress,
    "Threads that compress and write a checkpoint; 'auto': one for each processor, up to 4"
    #[arg(long, value_name = "N")]
    writers: Writers => at_restart,
    "Flush every Nth in-memory checkpoint to disk; 'auto': as many as is best for what checkpoints and flushes cost"
    #[arg(long, value_name = "N")]
    flush_every: FlushEvery,
    "Flush in-memory checkpoints in the 'background' while the program runs, in the 'foreground' while it is \
     stopped, or 'auto': whichever costs the program less time"
    #[arg(long, value_name = "WHERE")]
    flush: Flush,
    "Maximum time between checkpoints on disk while newer ones are only in memory"
    #[arg(long, value_name = "TIME")]
    durable_every: DurableEvery,
    "Keep the checkpoints after the program has exited with status 0: 'yes', until standfast clean removes them, or \
     'no'"
    #[arg(long, value_name = "WHETHER")]
    keep_finished: KeepFinished,
    "Free space to leave on the disk, such as 10G: a checkpoint that would leave less is refused"
    #[arg(long, value_name = "SIZE")]
    reserve: Reserve,
    "Rehearse a restart in the background: 'first' after the first checkpoint, 'every:N' after every Nth, 'off'; \
     standfast status shows the outcome"
    #[arg(long, value_name = "WHEN")]
    rehearse: Rehearse,
    "Time limit for flushing the newest checkpoint to disk when the job is stopped or fails"
    #[arg(long, value_name = "TIME")]
    grace: Grace,
    "Time within which a stop must end, such as 30s: checkpoints are taken so often that it does, and a warning says \
     where it cannot; 'off': no limit"
    #[arg(long, value_name = "TIME")]
    deadline: Deadline => at_restart,
    "Exit status after the job was stopped on request (HTCondor: 85, Grid Engine: 99)"
    #[arg(long, value_name = "N")]
    stopped_status: StoppedStatus => at_restart,
    "What SIGNAL to this command means: 'stop' stops the program after a checkpoint, 'checkpoint' only takes one, \
     'pass' is for the program, 'ignore' does nothing; may be repeated. Replaces the default as a whole: of the \
     signals that are not named, TERM stops the program, and the others are for the program"
    #[arg(long, value_name = "SIGNAL=MEANING")]
    notice: Vec<SignalNotice> as SignalNotices => at_restart,
    elsewhere:
    "Write checkpoints to memory first, in a directory such as /dev/shm; 'auto' does so where there is enough \
     space, 'off' never"
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    memory: Memory => at_restart,
}

kept_as_chosen! {
    Compress, DeltaMode, ExternalSockets, Files, Flush, Ids, Incremental, KeepFinished, Snapshot, Stack, Track,
}

/// Returns the engine's value for the option.
pub(crate) fn stack_part(stack: Stack) -> StackPart {
    match stack {
        Stack::Live => StackPart::Live,
        Stack::Whole => StackPart::Whole,
    }
}

/// Returns the engine's value for the option.
pub(crate) fn id_policy(ids: Ids) -> IdPolicy {
    match ids {
        Ids::Auto => IdPolicy::Auto,
        Ids::New => IdPolicy::New,
    }
}

/// Returns the engine's value for the option.
pub(crate) fn file_policy(files: Files) -> FilePolicy {
    match files {
        Files::Auto => FilePolicy::Auto,
        Files::Rollback => FilePolicy::Rollback,
        Files::Keep => FilePolicy::Keep,
        Files::Refuse => FilePolicy::Refuse,
    }
}

#[cfg(test)]
mod tests {
    use super::super::interval::{INTERVAL_MAX, INTERVAL_MIN};
    use super::*;
    use clap::{Arg, Args as _, Command, FromArgMatches as _};
    use std::error::Error as _;

    #[test]
    fn options_survive_the_manifest() {
        for interval in [
            Interval::Off,
            Interval::Auto,
            Interval::default(),
            Interval::Every(INTERVAL_MIN),
            Interval::Every(INTERVAL_MAX),
        ] {
            let options = JobOptions {
                interval,
                mtbf: "30days".parse().unwrap(),
                keep: Keep::new(7).unwrap(),
                ids: Ids::New,
                stack: Stack::Whole,
                files: Files::Keep,
                max_files: MaxFiles::new(5).unwrap(),
                incremental: Incremental::On,
                snapshot: Snapshot::Copy,
                track: Track::Hash,
                save_files: SaveFiles::UpTo(1 << 20),
                external_sockets: ExternalSockets::Reset,
                min_interval: MinInterval::Never,
                flush_every: FlushEvery::Auto,
                durable_every: "90s".parse().unwrap(),
                grace: "5s".parse().unwrap(),
                delta: DeltaMode::Previous,
                compress: Compress::Zstd,
                writers: "3".parse().unwrap(),
                flush: Flush::Foreground,
                keep_finished: KeepFinished::No,
                reserve: "10G".parse().unwrap(),
                rehearse: "every:3".parse().unwrap(),
                deadline: "30s".parse().unwrap(),
                stopped_status: "85".parse().unwrap(),
                notice: SignalNotices::default().with("USR1=checkpoint".parse().unwrap()),
            };
            assert_eq!(JobOptions::from_record(options.to_record()), options);
        }
        assert_eq!(JobOptions::from_record(manifest::RunOptions::default()), JobOptions::default());
    }

    /// After a change: `INSTA_UPDATE=always cargo test -p standfast`, then read the difference.
    #[test]
    fn error_texts_match_the_reviewed_snapshot() {
        let options = OptionChoices::augment_args(Command::new("run"));
        let names = options.get_arguments().filter_map(Arg::get_long);
        let refusals = names.filter_map(|name| Some(format!("--{name}\n{}", refusal(name, "nonsense")?)));
        let refusals = refusals.collect::<Vec<_>>().join("\n\n");
        let notices = ["KILL=stop", "USR1=nonsense"].map(|text| refusal("notice", text).expect(text));
        insta::assert_snapshot!([&[refusals], &notices[..]].concat().join("\n"));
    }

    /// Returns why the command line refuses a value, if it does.
    fn refusal(option: &str, value: &str) -> Option<String> {
        let command = OptionChoices::augment_args(Command::new("run"));
        let refused = command.try_get_matches_from(["run", &format!("--{option}={value}")]).err()?;
        Some(refused.source().expect("the value is wrong, not the option").to_string())
    }

    #[test]
    fn choices_survive_a_command_line() {
        let parsed = |words: &[String]| {
            let command = OptionChoices::augment_args(Command::new("run").no_binary_name(true));
            OptionChoices::from_arg_matches(&command.get_matches_from(words)).unwrap()
        };
        assert_eq!(OptionChoices::default().to_words(), Vec::<String>::new());
        let words =
            ["--interval=90s", "--keep=7", "--save-files=64M", "--reserve=10G", "--rehearse=every:3", "--grace=2m"];
        let more =
            ["--notice=USR1=checkpoint", "--notice=TERM=stop", "--memory=/dev/shm", "--track=hash", "--deadline=off"];
        let choices = parsed(&words.iter().chain(&more).map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(parsed(&choices.to_words()), choices);
        assert_eq!(choices.to_words().len(), words.len() + more.len());
    }

    #[test]
    fn only_given_options_replace_those_of_the_job() {
        let job = JobOptions {
            interval: Interval::Off,
            keep: Keep::new(5).unwrap(),
            ids: Ids::New,
            stack: Stack::Live,
            files: Files::Refuse,
            ..JobOptions::default()
        };
        assert_eq!(OptionChoices::default().or(job), job);
        let said = OptionChoices { keep: Keep::new(1), ..OptionChoices::default() };
        assert_eq!(said.or(job), JobOptions { keep: Keep::new(1).unwrap(), ..job });
    }

    #[test]
    fn a_restart_changes_only_the_options_that_it_is_given() {
        let given = RestartChoices {
            ids: Some(Ids::New),
            notice: Some(vec!["USR1=checkpoint".parse().unwrap()]),
            memory: Some(Memory::Auto),
            ..RestartChoices::default()
        };
        let choices = OptionChoices {
            ids: given.ids,
            notice: given.notice.clone(),
            memory: given.memory.clone(),
            ..OptionChoices::default()
        };
        assert_eq!(OptionChoices::from(given), choices);
        let notice = SignalNotices::default().with("USR1=checkpoint".parse().unwrap());
        let job = JobOptions { keep: Keep::new(5).unwrap(), ..JobOptions::default() };
        assert_eq!(choices.or(job), JobOptions { ids: Ids::New, notice, ..job });
    }
}
