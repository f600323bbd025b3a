//! `group run`: launches a job of many processes, and ends as its last launch did. Also the commands that query such a
//! job.

use crate::arguments::{Group, GroupRun, Place};
use crate::leave::leave;
use crate::output::print;
use crate::program;
use crate::reporter::say;
use crate::slurm::{self, NamedNodes};
use anyhow::bail;
use standfast::{
    Ending, GroupEnding, GroupEpoch, GroupRequest, GroupSaved, GroupShard, LaunchLimits, Nodes, group_memory, printable,
};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn answer(question: Group) -> anyhow::Result<ExitCode> {
    match question {
        Group::Run(run) => self::run(run),
        Group::Status(status) => self::status(&status.place),
        Group::Verify(verify) => self::verify(&verify.place),
        Group::Rebuild(rebuild) => {
            let report = standfast::group_rebuild(&rebuild.place.directory)?;
            print(rebuild.place.form, &report, || match report.logical_ranks.len() {
                0 => format!("epoch {} is complete\n", report.epoch),
                rebuilt => format!("epoch {} is complete: {rebuilt} shards were rebuilt\n", report.epoch),
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Group::Salvage(salvage) => {
            let saved = standfast::group_salvage(&salvage.place.directory, &memory())?;
            print(salvage.place.form, &saved, || saved_in_words(&saved))?;
            Ok(if saved.lost.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Group::Purge(purge) => {
            standfast::group_purge(&purge.directory, &memory())?;
            Ok(ExitCode::SUCCESS)
        }
        Group::Watch(watch) => {
            standfast::group_watch(&watch.directory, std::io::stdin(), std::io::stdout())?;
            Ok(ExitCode::SUCCESS)
        }
        Group::End(end) => {
            match standfast::group_end(&end.directory)? {
                0 => {}
                ended => say(&format!("ended {ended} processes of the job")),
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the directory of the shards of this node's processes.
fn memory() -> PathBuf {
    group_memory(|name| std::env::var_os(name))
}

fn status(place: &Place) -> anyhow::Result<ExitCode> {
    let epochs = standfast::group_status(&place.directory, &memory())?;
    print(place.form, &epochs, || match epochs.is_empty() {
        true => "no epoch, neither in the directory nor in this node's memory\n".to_owned(),
        false => epochs.iter().map(in_words).collect(),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn in_words(held: &GroupEpoch) -> String {
    let logical_ranks = held.held.len() + held.missing.len();
    let missing: Vec<String> = held.missing.iter().map(u32::to_string).collect();
    let missing = if missing.is_empty() { String::new() } else { format!(", not of {}", missing.join(", ")) };
    let standing = match held.suffices {
        true if held.level == "local" => "complete; local: tolerates no loss".to_owned(),
        true if held.missing.is_empty() => {
            format!("complete; tolerates the loss of {} more in each group", held.tolerates)
        }
        true => format!("can be rebuilt; tolerates the loss of {} more in each group", held.tolerates),
        false if held.place == "memory" => "not enough by itself: other nodes may hold the rest".to_owned(),
        false => "not enough to continue from".to_owned(),
    };
    let held_logical_ranks = held.held.len();
    format!(
        "epoch {} in {}: shards of {held_logical_ranks} of {logical_ranks} processes{missing}; {standing}\n",
        held.epoch, held.place
    )
}

fn verify(place: &Place) -> anyhow::Result<ExitCode> {
    let shards = standfast::group_verify(&place.directory)?;
    if shards.is_empty() {
        bail!("there is no epoch in the directory: nothing to verify");
    }
    let line = |shard: &GroupShard| {
        let found = shard.damage.as_deref().unwrap_or("good");
        format!("epoch {}, process {}: {}\n", shard.epoch, shard.logical_rank, printable(found))
    };
    print(place.form, &shards, || shards.iter().map(line).collect())?;
    let is_good = shards.iter().all(|shard| shard.damage.is_none());
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn saved_in_words(saved: &GroupSaved) -> String {
    let lost: String = saved.lost.iter().map(|reason| format!("not saved: {}\n", printable(reason))).collect();
    format!("{} shards are in the directory\n{lost}", saved.shards.len())
}

fn run(run: GroupRun) -> anyhow::Result<ExitCode> {
    let launcher = &run.command[0];
    if let Err(missing) = program::find(launcher, std::env::var_os("PATH")) {
        say(&missing.message(launcher));
        return Ok(ExitCode::from(missing.exit_status()));
    }
    let NamedNodes { names, agent } = slurm::named_nodes(run.nodes, run.agent)?;
    let nodes = Nodes { names, spares: run.spares, agent: agent.split_whitespace().map(OsString::from).collect() };
    let limit = |limit: Duration| (!limit.is_zero()).then_some(limit);
    let (start, loss, finish) = (limit(run.start_limit), limit(run.loss_limit), limit(run.finish_limit));
    let limits = LaunchLimits { start, loss, finish };
    let request = GroupRequest {
        directory: run.directory,
        tries: run.tries,
        time_limit: run.time_limit,
        limits,
        hang: run.hang,
        interval: run.interval,
        flush_every: run.flush_every,
        encode_every: run.encode_every,
        checks: run.checks,
        check_quiescent: run.check_quiescent,
        nodes,
        memory: memory(),
        command: run.command,
    };
    match standfast::run_group(&request, &mut |event| say(&event.to_string()))? {
        GroupEnding::Done => Ok(ExitCode::SUCCESS),
        GroupEnding::Failed(status) => leave(Ending::Exited { status }),
        GroupEnding::Killed(signal) => leave(Ending::Killed { signal }),
    }
}
