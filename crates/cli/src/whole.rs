//! Questions about a job of several nodes as a whole.

use crate::arguments::{
    Checkpoint, Clean, Coalesce, Command, Core, Doctor, Inspect, List, Place, Rehearse, Status, Verify,
};
use crate::output::{print, write_out};
use crate::reporter::speak;
use crate::slurm::{NamedNodes, named_nodes};
use crate::tables::distributed as tables;
use crate::watching::watch_distributed;
use anyhow::bail;
use standfast::doctor::NodeDiagnosis;
use standfast::report::{CoreFilesReport, NodeInspection};
use standfast::{Afterwards, CoreFilesRequest, ForShell, GenerationNumber, NodeImage};
use std::path::Path;
use std::process::ExitCode;

/// Answers a question if its directory is that of a job of several nodes.
pub(crate) fn answer(question: &Command) -> anyhow::Result<Option<ExitCode>> {
    let Some(place) = place_of(question).filter(|place| standfast::is_distributed(&place.directory)) else {
        return Ok(None);
    };
    let directory = place.directory.canonicalize()?;
    match question {
        Command::Checkpoint(Checkpoint { stop, .. }) => {
            let afterwards = if *stop { Afterwards::Stop } else { Afterwards::Continue };
            let epoch = standfast::checkpoint_distributed(&directory, afterwards)?;
            print(place.form, &epoch, || format!("epoch {epoch}: saved on all nodes\n"))?;
        }
        Command::Status(Status { state: true, .. }) => {
            let report = standfast::distributed_status(&directory)?;
            write_out(format!("{}\n", report.phase).as_bytes())?;
        }
        Command::Status(Status { watch: true, .. }) => {
            return watch_distributed(&directory).map(Some);
        }
        Command::Status(_) => {
            let report = standfast::distributed_status(&directory)?;
            print(place.form, &report, || tables::status(&report))?;
        }
        Command::List(_) => {
            let epochs = standfast::distributed_status(&directory)?.epochs;
            print(place.form, &epochs, || tables::epochs(&epochs))?;
        }
        Command::Inspect(Inspect { at, .. }) => {
            let inspected =
                images(&directory, *at)?.into_iter().map(|NodeImage { node, epoch, directory, generation }| {
                    let image = standfast::inspect(&directory, Some(generation))?;
                    anyhow::Ok(NodeInspection { node, epoch, image })
                });
            let inspected = inspected.collect::<Result<Vec<_>, _>>()?;
            print(place.form, &inspected, || tables::inspection(&inspected))?;
        }
        Command::Core(core) => {
            let written = write_core_files(core, &directory)?;
            print(place.form, &written, || written.iter().map(crate::tables::core_files).collect())?;
        }
        Command::Verify(_) => {
            let verified = standfast::verify_distributed(&directory)?;
            print(place.form, &verified, || tables::verification(&verified))?;
            let is_good = verified.iter().all(|node| node.damage.is_empty());
            return Ok(Some(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }));
        }
        Command::Clean(Clean { unfinished, dry_run, .. }) => {
            let report = standfast::clean_distributed(&directory, *unfinished, *dry_run)?;
            print(place.form, &report, || crate::tables::cleaning(&report))?;
        }
        _ => {
            let part = directory.join("part-0/job");
            bail!(
                "this is a job of several nodes\nhint: name one of its parts on its node, such as {}",
                ForShell(&part)
            );
        }
    }
    Ok(Some(ExitCode::SUCCESS))
}

/// Returns the images of all nodes of an epoch.
fn images(directory: &Path, at: Option<GenerationNumber>) -> anyhow::Result<Vec<NodeImage>> {
    Ok(standfast::node_images(directory, at.map(GenerationNumber::get))?)
}

/// Writes the core files of all nodes. Their names contain that of the node: two nodes may have the same process ids.
fn write_core_files(core: &Core, directory: &Path) -> anyhow::Result<Vec<CoreFilesReport>> {
    let name = core.output.clone().unwrap_or_else(|| "core".into()).into_os_string();
    let of_node = |NodeImage { node, directory, generation, .. }| {
        let mut output = name.clone();
        output.push(format!(".{node}"));
        let request = CoreFilesRequest {
            directory,
            at: Some(generation),
            output: Some(output.into()),
            pid: core.pid,
            overwrite: core.overwrite,
        };
        Ok(standfast::write_core_files(&request, &mut speak)?)
    };
    images(directory, core.at)?.into_iter().map(of_node).collect()
}

/// Shows what nodes support.
pub(crate) fn examine_nodes(doctor: &Doctor) -> anyhow::Result<ExitCode> {
    let NamedNodes { names, agent } = named_nodes(doctor.nodes.clone(), doctor.agent.clone())?;
    let examined = standfast::examine_nodes(&names, &agent);
    print(doctor.form, &examined, || tables::diagnosis(&examined))?;
    let is_fine = |node: &NodeDiagnosis| node.trouble.is_none() && node.findings.iter().all(|finding| finding.is_fine);
    Ok(if examined.iter().all(is_fine) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the place that a question is about.
fn place_of(question: &Command) -> Option<&Place> {
    match question {
        Command::Checkpoint(Checkpoint { place, .. })
        | Command::Status(Status { place, .. })
        | Command::List(List { place })
        | Command::Inspect(Inspect { place, .. })
        | Command::Verify(Verify { place, .. })
        | Command::Core(Core { place, .. })
        | Command::Rehearse(Rehearse { place, .. })
        | Command::Coalesce(Coalesce { place })
        | Command::Clean(Clean { place, .. }) => Some(place),
        _ => None,
    }
}
