//! Tests of `arguments.rs`.

use super::*;
use clap::CommandFactory;
use standfast::{Interval, SaveFiles, Snapshot};
use std::time::Duration;

fn run(words: &str) -> Run {
    match Arguments::try_parse_from(words.split(' ')).map(|arguments| arguments.command) {
        Ok(Command::Run(run)) => run,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_definition_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn help_is_a_command_as_well() {
    let told = Arguments::try_parse_from(["standfast", "help", "restart"]).unwrap_err();
    assert_eq!(told.kind(), clap::error::ErrorKind::DisplayHelp);
    assert!(told.to_string().contains("Usage: standfast restart"), "{told}");
}

#[test]
fn option_names_of_the_papers_are_aliases() {
    let theirs = "standfast run --maxtime 90s --mintime 5s --maxfiles 3 --snapshot copy-on-write prog";
    let ours = "standfast run --interval 90s --min-interval 5s --max-files 3 --snapshot fork prog";
    assert_eq!(format!("{:?}", run(theirs)), format!("{:?}", run(ours)));
    assert_eq!(run("standfast run --snapshot main-memory prog").options.snapshot, Some(Snapshot::Copy));
}

#[test]
fn options_after_the_program_belong_to_the_program() {
    for words in ["standfast run -i 1m ./heat -i 5 --resume", "standfast run -i 1m -- ./heat -i 5 --resume"] {
        let run = run(words);
        assert_eq!(run.command_line, ["./heat", "-i", "5", "--resume"]);
        assert_eq!(run.options.interval, Some(Interval::Every(Duration::from_secs(60))));
        assert!(!run.resume);
    }
}

#[test]
fn save_files_takes_a_size_or_defaults_to_64_mib() {
    assert_eq!(run("standfast run --save-files ./heat").options.save_files, Some(SaveFiles::UpTo(64 << 20)));
    assert_eq!(run("standfast run --save-files=1G ./heat").options.save_files, Some(SaveFiles::UpTo(1 << 30)));
}

#[test]
fn options_that_are_not_given_are_unset() {
    let run = run("standfast run ./heat");
    assert!(
        run.options.interval.is_none()
            && run.options.keep.is_none()
            && run.options.ids.is_none()
            && run.directory.is_none()
    );
}

#[test]
fn contradictions_and_nonsense_are_refused() {
    for words in [
        "standfast run --resume --fresh ./heat",
        "standfast run",
        "standfast run -i soon ./heat",
        "standfast run --keep 0 ./heat",
        "standfast restart --at 0",
        "standfast status",
        "standfast -q -v list d",
    ] {
        let error = Arguments::try_parse_from(words.split(' ')).expect_err(words);
        assert_eq!(error.exit_code(), 2, "{words}");
    }
}

/// After a change: `INSTA_UPDATE=always cargo test -p standfast-cli`, then read the difference.
#[test]
fn help_texts_match_the_reviewed_snapshots() {
    let mut command = Arguments::command().term_width(100);
    command.build();
    let mut commands = vec![("standfast".to_owned(), command.clone())];
    for sub in command.get_subcommands().filter(|it| it.get_name() != "help") {
        commands.push((sub.get_name().to_owned(), sub.clone()));
        let nested = sub.get_subcommands().filter(|it| it.get_name() != "help");
        commands.extend(nested.map(|it| (format!("{} {}", sub.get_name(), it.get_name()), it.clone())));
    }
    for (name, command) in commands {
        let help = command.term_width(100).render_long_help().to_string();
        insta::assert_snapshot!(format!("help {name}").replace(' ', "_"), help);
    }
}
