//! Tests of the scripts: their texts, and the verdict of shells and other checkers.

use super::*;
use crate::arguments::{Arguments, Command};
use clap::Parser as _;
use std::io::Write as _;
use std::process::Stdio;

/// Arguments that a careless script would break on.
const HOSTILE: [&str; 6] = ["it's", "two words", "$HOME `id` $(id)", "\"q\" \\ % @NAME@", "line\nbreak", "*"];

const SCHEDULERS: [&str; 5] = ["slurm", "condor", "sge", "systemd", "kubernetes"];

fn printed(words: &[&str]) -> anyhow::Result<String> {
    let line: Vec<OsString> = ["standfast", "batch"].iter().chain(words).map(OsString::from).collect();
    let Command::Batch(batch) = Arguments::try_parse_from(&line)?.command else {
        panic!("this is not a batch command")
    };
    let mut plan = JobPlan::of(&batch, &line)?;
    // The same on each machine.
    plan.working_directory = "/srv/ada".into();
    plan.directory = "/srv/ada/heat.standfast".into();
    plan.standfast = "/usr/bin/standfast".into();
    Ok(String::from_utf8(render(batch.scheduler, &plan)?)?)
}

/// After a change: `INSTA_UPDATE=always cargo test -p standfast-cli`, then read the difference.
#[test]
fn scripts_match_the_reviewed_snapshots() {
    for scheduler in SCHEDULERS {
        let mut words = vec![scheduler, "-i", "5m", "--keep", "3"];
        words.extend(if scheduler == "kubernetes" { vec!["--image", "registry.example/heat:1"] } else { vec![] });
        words.extend(["--", "./heat", "4096", "two words"]);
        insta::assert_snapshot!(scheduler, printed(&words).unwrap());
    }
}

#[test]
fn scripts_that_do_not_run_again_say_so() {
    for (scheduler, wanted) in [
        ("slurm", "#SBATCH --no-requeue"),
        ("sge", "#$ -r n"),
        ("condor", "periodic_remove"),
        ("systemd", "Restart=no"),
        ("kubernetes", "backoffLimit: 0"),
    ] {
        let text = printed(&[scheduler, "--requeue", "never", "--image", "i", "--", "./heat"]).unwrap();
        assert!(text.contains(wanted), "{text}");
        assert!(!text.contains("scontrol") && !text.contains("exit 99") && !text.contains("exit 85"), "{text}");
    }
}

#[test]
fn directives_are_lines_for_the_scheduler() {
    for (scheduler, wanted) in [
        ("slurm", "\n#SBATCH --partition=long\n"),
        ("sge", "\n#$ --partition=long\n"),
        ("condor", "\n--partition=long\nqueue\n"),
        ("systemd", "\n--partition=long\n"),
    ] {
        let text = printed(&[scheduler, "--directive=--partition=long", "--", "./heat"]).unwrap();
        assert!(text.contains(wanted), "{text}");
    }
    let refused = printed(&["slurm", "--directive", "a\nb", "--", "./heat"]).unwrap_err().to_string();
    assert!(refused.contains("more than a line"), "{refused}");
}

#[test]
fn options_that_the_scripts_set_themselves_are_refused() {
    for option in ["--notice=TERM=stop", "--fresh", "--detach", "--stopped-status=3"] {
        let refused = printed(&["slurm", option, "--", "./heat"]).unwrap_err().to_string();
        assert!(refused.contains("does not go with batch") && refused.contains("hint:"), "{refused}");
    }
    let refused = printed(&["kubernetes", "--", "./heat"]).unwrap_err().to_string();
    assert!(refused.contains("--image"), "{refused}");
    let refused = printed(&["pbs", "--", "./heat"]).unwrap_err().to_string();
    assert!(refused.contains("slurm") && refused.contains("kubernetes"), "{refused}");
}

/// Runs a shell script with a stand-in for the command, and returns the arguments that it was given last.
fn given(script: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let stand_in = folder.path().join("standfast");
    let list = folder.path().join("given");
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = run ] || exit 0\nfor word; do printf '%s\\0' \"$word\"; done > '{}'\n",
        list.display()
    );
    std::fs::write(&stand_in, text).unwrap();
    let script = script
        .replace("standfast=/usr/bin/standfast", &format!("standfast='sh {}'", stand_in.display()))
        .replace("\"$standfast\" ", "$standfast ")
        .replace("cd /srv/ada ", "cd / ");
    let mut shell = std::process::Command::new("bash");
    shell.arg("-s").stdin(Stdio::piped()).stdout(Stdio::null()).env("_CONDOR_SCRATCH_DIR", "/");
    let mut child = shell.spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let words = std::fs::read_to_string(list).unwrap();
    words.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
fn arguments_reach_the_program_unchanged() {
    for scheduler in ["slurm", "sge", "condor"] {
        let mut words = vec![scheduler, "-i", "5m", "--", "./heat"];
        words.extend(HOSTILE);
        let given = given(&printed(&words).unwrap());
        let place = given.iter().position(|word| word == "--").expect("there is a program");
        assert_eq!(given[place + 1..], ["./heat"].iter().chain(&HOSTILE).copied().collect::<Vec<_>>(), "{scheduler}");
        assert!(given[..place].contains(&"--interval=5m".to_owned()), "{given:?}");
    }
}

#[test]
fn arguments_are_strings_of_json_for_kubernetes() {
    let mut words = vec!["kubernetes", "--image", "i", "--", "./heat"];
    words.extend(HOSTILE);
    let text = printed(&words).unwrap();
    for word in HOSTILE {
        let wanted = serde_json::to_string(&word.replace("$(", "$$(")).unwrap();
        assert!(text.contains(&format!("            - {wanted}\n")) || text.trim_end().ends_with(&wanted), "{text}");
    }
}

/// Arguments of shellcheck. A trap is to hold the name that the signal has when it is set (SC2064), and some schedulers
/// send one signal only (SC2043).
const SHELLCHECK: [&str; 2] = ["--severity=warning", "--exclude=SC2064,SC2043"];

/// Runs a checker on a text, if it is installed, and returns its complaints.
fn complaints(program: &str, arguments: &[&str], name: &str, text: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, text).unwrap();
    let done = std::process::Command::new(program).args(arguments).arg(&file).output().ok()?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    (!done.status.success()).then_some(said)
}

#[test]
fn shells_and_checkers_accept_the_scripts() {
    for scheduler in ["slurm", "sge", "condor"] {
        let text = printed(&[scheduler, "--", "./heat", "it's", "a b"]).unwrap();
        assert_eq!(complaints("bash", &["-n"], "job.sh", &text), None, "{scheduler}");
        assert_eq!(complaints("shellcheck", &SHELLCHECK, "job.sh", &text), None, "{scheduler}");
    }
    let text = printed(&["systemd", "--", "./heat", "it's", "a b", "100%"]).unwrap();
    let text = text.replace("/usr/bin/standfast", "/bin/true").replace("/srv/ada", "/");
    assert_eq!(complaints("systemd-analyze", &["verify", "--man=no"], "heat.service", &text), None);
}

/// The script within the manifest, as the container's shell gets it.
#[test]
fn the_script_for_kubernetes_is_one_for_any_shell() {
    let text = printed(&["kubernetes", "--image", "i", "--", "./heat"]).unwrap();
    let (_, script) = text.split_once("- |\n").unwrap();
    let (script, _) = script.split_once("\n            - sh\n").unwrap();
    let lines = script.lines().map(|line| line.strip_prefix("              ").unwrap_or(line));
    let script = lines.collect::<Vec<_>>().join("\n").replace("$$(", "$(");
    assert_eq!(complaints("dash", &["-n"], "job.sh", &script), None);
    assert_eq!(complaints("shellcheck", &[&SHELLCHECK[..], &["--shell=sh"]].concat(), "job.sh", &script), None);
}
