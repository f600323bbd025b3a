//! A stand-in for Slurm on simulated nodes: an allocation, and an `srun` that understands what `group run` and a user
//! pass to it. Open MPI's launcher starts its steps.

use crate::command::Standfast;
use crate::mpi::{Mpi, RANKS};
use crate::running::{Output, Running};
use crate::simulated::Nodes;
use crate::watched::Watched;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// With `--overlap`, `srun` executes a command on a node. Without it, it starts a step of tasks on several nodes. Like
/// Slurm, it refuses unknown options.
const SRUN: &str = r#"#!/bin/sh
overlap= nodes= tasks=
while :; do
    case $1 in
        --overlap) overlap=yes ;;
        --nodes=1) ;;
        --nodelist) nodes=$2 && shift ;;
        --nodelist=*) nodes=${1#*=} ;;
        --ntasks) tasks=$2 && shift ;;
        --ntasks=*) tasks=${1#*=} ;;
        --kill-on-bad-exit=1) ;;
        -*) echo "srun: unrecognized option '$1'" >&2 && exit 1 ;;
        *) break ;;
    esac
    shift
done
case $overlap$tasks in
    yes1) exec "$AGENT" "$nodes" "$@" ;;
    *) exec LAUNCHER -n "$tasks" "$@" ;;
esac
"#;

/// Tests the whole procedure: the allocation lists its nodes as Slurm does, one of them dies, and another takes its
/// place.
///
/// # Errors
/// When the result differs from an undisturbed run, or something is left.
pub fn survives_a_lost_node(mpi: Mpi, program: &Path, nodes: &Nodes, seed: u64) -> Result<()> {
    let mut watched = Watched::endless(mpi, program, seed)?;
    let tools = watched.arena.folder().join("slurm");
    fs::create_dir(&tools)?;
    let launcher: Vec<String> =
        mpi.on_nodes(&nodes.agent()).iter().map(|word| word.replace("{nodes}", "$nodes")).collect();
    let srun = tools.join("srun");
    fs::write(&srun, SRUN.replace("LAUNCHER", &launcher.join(" ")))?;
    fs::set_permissions(&srun, fs::Permissions::from_mode(0o755))?;
    let path = std::env::var_os("PATH").context("there is a PATH")?;
    let path = std::env::join_paths(std::iter::once(tools).chain(std::env::split_paths(&path)))?;

    let standfast = Standfast::new(&watched.arena)?.command(&[]);
    let until = format!("FIELD_UNTIL={}", watched.enough().display());
    let mut command = nodes.command(&watched.arena, standfast.get_program(), &["FIELD_TELLS=", &until]);
    command.args(["group", "run", "-d"]).arg(watched.arena.images()).args(["--nodes", "slurm", "--spares", "1", "--"]);
    command.args(["srun", "--nodelist={nodes}", "--ntasks", &RANKS.to_string(), "--kill-on-bad-exit=1"]);
    command.arg(program).args(watched.arguments());
    command.env("PATH", path).env("AGENT", nodes.agent());
    command.env("SLURM_JOB_NODELIST", format!("node[1-{}]", RANKS + 1));
    let mut running = Running::start(&watched.arena, "slurm", Output::Log, &mut command)?;
    watched.wait_for_a_moment(&mut running)?;
    nodes.lose(1)?;
    watched.wait_until_told(&mut running, &format!("because they do not answer: {}\n", nodes.name(1)))?;
    watched.wait_for_a_moment(&mut running)?;
    watched.check(running)?;
    let left = nodes.left()?;
    ensure!(left.is_empty(), "left in memory: {left:?}; {}", watched.said());
    Ok(())
}
