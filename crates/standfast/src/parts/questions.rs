//! Questions about a job of several nodes, and what else one can ask for: they reach the agents of all nodes, or the
//! coordinator.

use super::agent_protocol::{AgentReport, AgentRequest, FoundPart};
use super::description::{DistributedJob, PartDirectory};
use super::lead::{self, Lead, LeadRecord};
use super::reach::ReachedNodes;
use crate::doctor::NodeDiagnosis;
use crate::report::{CleaningReport, DistributedReport, EpochReport, JobPhase, NodeReport, NodeVerification};
use crate::{Afterwards, Error};
use rustix::process::{Pid, Signal, kill_process};
use standfast_format::manifest::GenerationNumber;
use standfast_parts::{CompleteEpoch, SealedEpoch, complete_epochs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a node may take to answer.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(60);
/// How long it may take to read all of its checkpoints.
const VERIFY_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long a checkpoint may take that was asked for.
const CHECKPOINT_MAX: Duration = Duration::from_secs(900);
const PAUSE: Duration = Duration::from_millis(20);

/// Returns the state of a job of several nodes, with its checkpoints.
///
/// # Errors
/// If a node does not answer.
pub fn distributed_status(directory: &Path) -> Result<DistributedReport, Error> {
    DistributedWatch::new(directory)?.look()
}

/// Looks at a job of several nodes again and again, through the same agents.
#[expect(missing_debug_implementations, reason = "it is a handful of pipes")]
pub struct DistributedWatch {
    nodes: ReachedNodes,
}

impl DistributedWatch {
    /// Reaches the nodes of the job in `directory`.
    ///
    /// # Errors
    /// If a node does not answer.
    pub fn new(directory: &Path) -> Result<Self, Error> {
        Ok(Self { nodes: reach(directory)? })
    }

    /// Returns the present state of the job, with its checkpoints.
    ///
    /// # Errors
    /// If a node does not answer any more.
    pub fn look(&mut self) -> Result<DistributedReport, Error> {
        self.nodes.job = DistributedJob::load(&self.nodes.directory)?;
        let found = look(&mut self.nodes)?;
        Ok(report(&self.nodes, &found))
    }
}

fn report(nodes: &ReachedNodes, found: &[FoundPart]) -> DistributedReport {
    let ReachedNodes { job, directory, .. } = nodes;
    let lead = Lead::look(directory);
    let of_node = |(node, found): (&String, &FoundPart)| NodeReport {
        node: node.clone(),
        phase: found.phase,
        checkpoints: found.epochs.len() as u64,
        bytes: found.epochs.iter().map(|it| it.bytes).sum(),
    };
    let mut epochs: Vec<EpochReport> = complete(found).iter().map(|epoch| report_of(epoch, job, found)).collect();
    epochs.reverse();
    DistributedReport {
        directory: directory.clone(),
        command: job.command.clone(),
        phase: phase(found, lead.as_ref()),
        coordinator: lead.as_ref().map(LeadRecord::to_string),
        given_up: lead.and_then(|lead| lead.given_up),
        nodes: job.nodes.iter().zip(found).map(of_node).collect(),
        epochs,
    }
}

/// The image of a node, as part of an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeImage {
    /// The name of the node.
    pub node: String,
    /// The number of the epoch.
    pub epoch: u64,
    /// The directory of its part's checkpoints.
    pub directory: PathBuf,
    /// The generation there.
    pub generation: GenerationNumber,
}

/// Returns the images of the epoch with this number, or of the newest complete one, in the order of the nodes. Only those on
/// disk can be read here.
///
/// # Errors
/// If a node does not answer, or there is no such epoch.
pub fn node_images(directory: &Path, at: Option<u64>) -> Result<Vec<NodeImage>, Error> {
    let mut nodes = reach(directory)?;
    let found = look(&mut nodes)?;
    let complete = complete_on_disk(&found);
    let is_meant = |it: &&CompleteEpoch| at.is_none_or(|number| it.epoch.number == number);
    let epoch = complete.iter().find(is_meant).ok_or_else(|| not_on_disk(&found, &complete, at))?;
    let parts = nodes.job.nodes.iter().zip(&epoch.generations).enumerate();
    let image = |(index, (node, generation)): (usize, (&String, &u64))| {
        Some(NodeImage {
            node: node.clone(),
            epoch: epoch.epoch.number,
            directory: PartDirectory::of(directory, index).job(),
            generation: GenerationNumber::new(*generation)?,
        })
    };
    parts.map(image).collect::<Option<_>>().ok_or_else(|| no_epoch(&complete, at))
}

/// Says which epochs are on disk instead.
fn not_on_disk(found: &[FoundPart], on_disk: &[CompleteEpoch], at: Option<u64>) -> Error {
    let all = complete(found);
    let is_meant = |it: &&CompleteEpoch| at.is_none_or(|number| it.epoch.number == number);
    let Some(in_memory) = all.iter().find(is_meant) else { return no_epoch(on_disk, at) };
    let numbers: Vec<String> = on_disk.iter().map(|it| it.epoch.number.to_string()).collect();
    Error::Declined(format!(
        "epoch {} is only in the memory of its nodes, which cannot be read from here\nhint: these are on disk: {}",
        in_memory.epoch.number,
        if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") }
    ))
}

/// Says which epochs there are instead.
pub(super) fn no_epoch(complete: &[CompleteEpoch], at: Option<u64>) -> Error {
    let numbers: Vec<String> = complete.iter().map(|it| it.epoch.number.to_string()).collect();
    Error::Declined(match at {
        Some(number) if !numbers.is_empty() => {
            format!("epoch {number} is not complete\nhint: these are: {}", numbers.join(", "))
        }
        _ => "no checkpoint of the job is complete\nhint: remove its directory, and start it again".to_owned(),
    })
}

fn report_of(epoch: &CompleteEpoch, job: &DistributedJob, found: &[FoundPart]) -> EpochReport {
    let images = found.iter().flat_map(|part| part.epochs.iter().find(|it| it.epoch == epoch.epoch));
    let first = images.clone().next().map_or(0, |it| it.age_milliseconds);
    EpochReport {
        epoch: epoch.epoch.number,
        age_seconds: Duration::from_millis(first).as_secs_f64(),
        generations: epoch.generations.clone(),
        bytes: images.clone().map(|it| it.bytes).sum(),
        pause_nanoseconds: images.map(|it| it.pause_nanoseconds).max().unwrap_or_default(),
        is_in_doubt: job.in_doubt.contains(&epoch.epoch),
        is_on_disk: found.iter().all(|part| part.on_disk().any(|it| it.epoch == epoch.epoch)),
    }
}

/// Returns the state of the whole.
fn phase(found: &[FoundPart], lead: Option<&LeadRecord>) -> JobPhase {
    let is_protected = lead.is_some() && found.iter().all(|part| part.phase == JobPhase::Running);
    match found.iter().any(FoundPart::is_running) {
        true if is_protected => JobPhase::Running,
        true => JobPhase::Unprotected,
        false => found.first().map_or(JobPhase::None, |part| part.phase),
    }
}

/// Finds out what nodes support. `agent` is the command that reaches one.
pub fn examine_nodes(nodes: &[String], agent: &str) -> Vec<NodeDiagnosis> {
    let examined = |node: &String| {
        let job = DistributedJob::of_nodes(vec![node.clone()], agent);
        ReachedNodes::reach(job, Path::new("/"))?.ask_all(&AgentRequest::Examine, ANSWER_MAX, |report| match report {
            AgentReport::Examined(findings) => Ok(findings),
            other => Err(other),
        })
    };
    let diagnosis = |node: &String| match examined(node) {
        Ok(findings) => NodeDiagnosis { node: node.clone(), trouble: None, findings: findings.concat() },
        Err(error) => NodeDiagnosis { node: node.clone(), trouble: Some(error.to_string()), findings: Vec::new() },
    };
    nodes.iter().map(diagnosis).collect()
}

/// Verifies every byte of the checkpoints of all nodes.
///
/// # Errors
/// If a node does not answer. Damage is not an error but a result.
pub fn verify_distributed(directory: &Path) -> Result<Vec<NodeVerification>, Error> {
    let mut nodes = reach(directory)?;
    let verified = nodes.ask_all(&AgentRequest::Verify, VERIFY_MAX, |report| match report {
        AgentReport::Verified { good, damage } => Ok((good, damage)),
        other => Err(other),
    })?;
    let of_node = |(node, (good, damage)): (&String, _)| NodeVerification { node: node.clone(), good, damage };
    Ok(nodes.job.nodes.iter().zip(verified).map(of_node).collect())
}

/// Removes a finished job from all nodes, or an unfinished one, if that is wanted.
///
/// # Errors
/// If the job runs, or is unfinished and the request does not include that, or a node does not answer.
pub fn clean_distributed(directory: &Path, unfinished: bool, is_dry_run: bool) -> Result<CleaningReport, Error> {
    let lead = Lead::take(directory)?;
    let mut nodes = reach(directory)?;
    let found = look(&mut nodes)?;
    if let Some(running) = found.iter().position(FoundPart::is_running) {
        return Err(nodes.failed(running, "its part runs"));
    }
    if !unfinished && found[0].phase != JobPhase::Finished {
        return Err(Error::Declined(
            "the job is unfinished, and could be continued\nhint: to remove it nevertheless: --unfinished".to_owned(),
        ));
    }
    let removed = nodes.ask_all(&AgentRequest::Remove { is_dry_run }, ANSWER_MAX, |report| match report {
        AgentReport::Removed { checkpoints, bytes } => Ok((checkpoints, bytes)),
        other => Err(other),
    })?;
    let mut left = Vec::new();
    if !is_dry_run {
        DistributedJob::forget(directory)?;
        drop(lead);
        lead::forget(directory)?;
        if std::fs::remove_dir(directory).is_err() {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            left = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        }
    }
    let (checkpoints, bytes) = removed.iter().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    Ok(CleaningReport { directory: directory.to_owned(), is_dry_run, checkpoints, bytes, left })
}

/// Has the coordinator of a job take a checkpoint of all parts now. Returns the number of its epoch once it is durable.
///
/// # Errors
/// If nobody steers the job, or its coordinator runs on another host, or the checkpoint was given up.
pub fn checkpoint_distributed(directory: &Path, afterwards: Afterwards) -> Result<u64, Error> {
    let nobody = "no command steers the job, so nobody takes checkpoints of it";
    let before = Lead::look(directory)
        .ok_or_else(|| Error::Declined(format!("{nobody}\nhint: standfast restart takes over a job that runs")))?;
    if !before.is_here() {
        return Err(Error::Declined(format!("the job is steered by {before}\nhint: run this command there")));
    }
    let signal = if afterwards == Afterwards::Stop { Signal::TERM } else { Signal::USR1 };
    let pid = Pid::from_raw(before.pid).ok_or_else(|| Error::Declined(nobody.to_owned()))?;
    kill_process(pid, signal).map_err(|error| Error::system("ask the coordinator of the job")(error.into()))?;
    let deadline = Instant::now() + CHECKPOINT_MAX;
    loop {
        std::thread::sleep(PAUSE);
        let has_ended = Lead::look(directory).is_none();
        // It may have answered just before it ended.
        let now = lead::record(directory)?;
        if now.answered > before.answered {
            return match (now.given_up, now.epoch) {
                (None, Some(epoch)) => Ok(epoch),
                (reason, _) => Err(Error::Declined(reason.unwrap_or_else(|| "it was given up".to_owned()))),
            };
        }
        if has_ended {
            return Err(Error::Declined("its coordinator has ended".to_owned()));
        }
        if Instant::now() > deadline {
            return Err(Error::Declined("its coordinator does not answer".to_owned()));
        }
    }
}

/// Asks all nodes what there is of their parts.
pub(super) fn look(nodes: &mut ReachedNodes) -> Result<Vec<FoundPart>, Error> {
    look_when(nodes, false)
}

/// Does the same once what is about to end has ended.
pub(super) fn look_when_ended(nodes: &mut ReachedNodes) -> Result<Vec<FoundPart>, Error> {
    look_when(nodes, true)
}

fn look_when(nodes: &mut ReachedNodes, awaits_end: bool) -> Result<Vec<FoundPart>, Error> {
    nodes.ask_all(&AgentRequest::Look { awaits_end }, ANSWER_MAX, |report| match report {
        AgentReport::Found(found) => Ok(found),
        other => Err(other),
    })
}

/// Returns the epochs that all parts have sealed, newest first.
pub(super) fn complete(found: &[FoundPart]) -> Vec<CompleteEpoch> {
    let sealed = |part: &FoundPart| part.epochs.iter().copied().map(SealedEpoch::from).collect();
    complete_epochs(&found.iter().map(sealed).collect::<Vec<_>>())
}

/// Returns the epochs that all parts have on disk, newest first.
fn complete_on_disk(found: &[FoundPart]) -> Vec<CompleteEpoch> {
    let sealed = |part: &FoundPart| part.on_disk().copied().map(SealedEpoch::from).collect();
    complete_epochs(&found.iter().map(sealed).collect::<Vec<_>>())
}

fn reach(directory: &Path) -> Result<ReachedNodes, Error> {
    ReachedNodes::reach(DistributedJob::load(directory)?, directory)
}
