//! `standfast.toml`: settings for `run` where the command line says nothing, under the names of the options. The
//! options and their values are those of [`crate::arguments`]. Settings in the file become words of the command
//! line, which is then parsed as if a user had typed them.

use crate::arguments::Arguments;
use crate::reporter::leave_with;
use anyhow::{Context as _, bail};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser};
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::path::Path;

/// Name of the file, which is looked for in the current directory.
pub(crate) const SETTINGS: &str = "standfast.toml";

/// Name of its table.
const TABLE: &str = "run";

/// Options that must be decided at each start.
const NOT_SETTINGS: [&str; 4] = ["fresh", "force", "help", "version"];

/// Returns the command line, completed by the file.
pub(crate) fn arguments(line: &[OsString]) -> anyhow::Result<Arguments> {
    let matches = Arguments::command().try_get_matches_from(line).unwrap_or_else(|error| leave_with(&error));
    if matches.subcommand_name() == Some(TABLE)
        && let Some(text) = standfast::read_settings(Path::new(SETTINGS))?
    {
        return joined(line, &matches, &text);
    }
    Ok(Arguments::from_arg_matches(&matches).unwrap_or_else(|error| leave_with(&error)))
}

fn joined(line: &[OsString], matches: &ArgMatches, text: &[u8]) -> anyhow::Result<Arguments> {
    let said = matches.subcommand_matches(TABLE).context("there is a run")?;
    let mut own = Vec::new();
    let mut all = Vec::new();
    for Setting { argument, words } in settings(text)? {
        if said.value_source(argument.get_id().as_str()) != Some(ValueSource::CommandLine) {
            own.extend_from_slice(&words);
        }
        all.extend(words);
    }
    // Parse the settings by themselves first, so that errors name the file.
    let program = ["--".into(), "program".into()];
    let alone = ["standfast".into(), TABLE.into()].into_iter().chain(all).chain(program);
    if let Err(error) = Arguments::try_parse_from(alone) {
        let text = error.to_string();
        let cause = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        let hints: String =
            text.lines().filter(|line| line.starts_with("hint: ")).map(|hint| format!("\n{hint}")).collect();
        bail!("{SETTINGS}: {cause}{hints}");
    }
    // The options before the command take no values.
    let place = line.iter().position(|word| word == TABLE).context("there is a run")? + 1;
    let (head, tail) = line.split_at(place);
    let own = own.into_iter().map(OsString::from);
    let words = head.iter().cloned().chain(own).chain(tail.iter().cloned());
    Ok(Arguments::try_parse_from(words).unwrap_or_else(|error| leave_with(&error)))
}

/// A setting, and its words on the command line.
struct Setting {
    argument: Arg,
    words: Vec<String>,
}

fn settings(text: &[u8]) -> anyhow::Result<Vec<Setting>> {
    let text = std::str::from_utf8(text).with_context(|| format!("{SETTINGS} is not UTF-8 text"))?;
    let tables: Map<String, Value> =
        basic_toml::from_str(text).map_err(|error| anyhow::anyhow!("{SETTINGS}: {error}"))?;
    let mut settings = Vec::new();
    for (name, table) in tables {
        match table {
            Value::Object(table) if name == TABLE => {
                for (key, value) in table {
                    settings.push(setting(&key, &value)?);
                }
            }
            _ => bail!("{SETTINGS}: unknown section '{name}'\nhint: settings belong in [{TABLE}]"),
        }
    }
    Ok(settings)
}

fn setting(key: &str, value: &Value) -> anyhow::Result<Setting> {
    let command = Arguments::command();
    let run = command.find_subcommand(TABLE).context("there is a run")?;
    let is_setting = |argument: &&Arg| argument.get_long().is_some_and(|name| !NOT_SETTINGS.contains(&name));
    let mut known = run.get_arguments().filter(is_setting);
    let Some(argument) = known.find(|argument| argument.get_long() == Some(key)) else {
        let names = run.get_arguments().filter(is_setting).filter_map(Arg::get_long).collect::<Vec<_>>();
        bail!("{SETTINGS}: unknown setting '{key}' in [{TABLE}]\nhint: use one of {}", names.join(", "));
    };
    let values = match value {
        Value::Array(values) if matches!(argument.get_action(), ArgAction::Append) => &values[..],
        other => std::slice::from_ref(other),
    };
    let words = values.iter().map(|value| word(key, argument, value)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Setting { argument: argument.clone(), words: words.into_iter().flatten().collect() })
}

/// Returns the word for one value; `None` for a flag that is not set.
fn word(key: &str, argument: &Arg, value: &Value) -> anyhow::Result<Option<String>> {
    Ok(match (argument.get_action(), value) {
        (ArgAction::SetTrue, Value::Bool(is_set)) => is_set.then(|| format!("--{key}")),
        (ArgAction::SetTrue, _) => bail!("{SETTINGS}: write '{key} = true' or '{key} = false'"),
        (_, Value::Bool(is_on)) => Some(format!("--{key}={}", if *is_on { "on" } else { "off" })),
        (_, Value::Number(number)) => Some(format!("--{key}={number}")),
        (_, Value::String(text)) => Some(format!("--{key}={text}")),
        _ => bail!("{SETTINGS}: '{key}' takes one value, such as \"10m\" or 3"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Command, Run};
    use standfast::SaveFolder;

    fn run(line: &str, text: &str) -> anyhow::Result<Run> {
        let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let matches = Arguments::command().try_get_matches_from(&line).unwrap();
        match joined(&line, &matches, text.as_bytes())?.command {
            Command::Run(run) => Ok(run),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_settings_file_applies_where_the_command_line_is_silent() {
        let text = "# as everywhere\n[run]\ninterval = \"90s\"\nkeep = 5\nincremental = true\nresume = true\nwait = false\n\
                    save-folder = [\"a\", \"b\"]\ndirectory = \"there\"\n";
        let said = run("standfast -q run -i 1m -- prog run --keep 9", text).unwrap();
        assert_eq!(said.options.interval, Some("1m".parse().unwrap()));
        assert_eq!(said.options.keep, Some("5".parse().unwrap()));
        assert_eq!(said.options.incremental, Some("on".parse().unwrap()));
        assert!(said.resume && !said.wait);
        assert_eq!(said.launch.save_folder, ["a", "b"].map(|name| SaveFolder::Directory(name.into())));
        assert_eq!(said.directory.as_deref(), Some(Path::new("there")));
        assert_eq!(said.command_line, ["prog", "run", "--keep", "9"]);
    }

    #[test]
    fn every_option_of_run_is_a_setting_except_those_listed() {
        let command = Arguments::command();
        let options = command.find_subcommand(TABLE).unwrap().get_arguments().filter_map(Arg::get_long);
        for name in options {
            let is_known = setting(name, &Value::Bool(true)).is_ok();
            assert_eq!(is_known, !NOT_SETTINGS.contains(&name), "{name}");
        }
    }

    #[test]
    fn errors_in_the_settings_file_name_the_file() {
        for (text, wanted) in [
            ("[run]\nintervall = \"1m\"", "unknown setting 'intervall'"),
            ("[run]\ninterval = \"soon\"", "'soon' is not an interval\nhint: write a time"),
            ("[run]\nfresh = true", "unknown setting 'fresh'"),
            ("[restart]\nids = \"new\"", "unknown section 'restart'"),
            ("keep = 3", "unknown section 'keep'"),
            ("[run]\nwait = \"yes\"", "wait = true"),
            ("[run]\nkeep = [1, 2]", "one value"),
            ("[run\n", "line"),
        ] {
            let said = run("standfast run prog", text).unwrap_err().to_string();
            assert!(said.starts_with(SETTINGS) && said.contains(wanted), "{said}");
        }
    }
}
