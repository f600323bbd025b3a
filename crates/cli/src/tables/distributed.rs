//! Answers about jobs of several nodes.

use super::{align_right, bare_table, facts_as_lines, finding, lines_of, nanoseconds, size, span};
use standfast::doctor::NodeDiagnosis;
use standfast::printable;
use standfast::report::{DistributedReport, EpochReport, JobPhase, NodeInspection, NodeVerification};
use std::time::Duration;

/// Describes the whole of a job: how much would be lost now, who takes care of it, its nodes and its checkpoints.
pub(crate) fn status(report: &DistributedReport) -> String {
    let good = || report.epochs.iter().rev().filter(|it| !it.is_in_doubt);
    let saved = match good().next() {
        Some(epoch) if epoch.is_on_disk => format!("{} ago: epoch {} is durable on all nodes", age(epoch), epoch.epoch),
        Some(epoch) => format!("{} ago: epoch {}, if no node loses its memory", age(epoch), epoch.epoch),
        None => "nothing yet: no checkpoint of all nodes".to_owned(),
    };
    let is_in_memory = good().next().is_some_and(|epoch| !epoch.is_on_disk);
    let on_disk = || match good().find(|it| it.is_on_disk) {
        Some(epoch) => format!("{} ago: epoch {} is durable on all nodes", age(epoch), epoch.epoch),
        None => "nothing yet".to_owned(),
    };
    let is_alive = matches!(report.phase, JobPhase::Running | JobPhase::Unprotected);
    let coordinator = match &report.coordinator {
        Some(who) => who.clone(),
        None if is_alive => "none: nobody takes checkpoints; standfast restart takes the job over".to_owned(),
        None => "none".to_owned(),
    };
    let mut facts = vec![("saved", saved)];
    facts.extend(is_in_memory.then(|| ("on disk", on_disk())));
    facts.extend([
        ("job", report.command.join(" ")),
        ("state", report.phase.to_string()),
        ("coordinator", coordinator),
    ]);
    facts.extend(report.given_up.as_ref().map(|why| ("failed", why.clone())));
    let mut nodes = bare_table(["node", "state", "checkpoints", "size"]);
    for node in &report.nodes {
        nodes.add_row([node.node.clone(), node.phase.to_string(), node.checkpoints.to_string(), size(node.bytes)]);
    }
    (2..4).for_each(|column| align_right(&mut nodes, column));
    format!("{}\n{}\n{}", facts_as_lines(&facts), lines_of(&nodes), epochs(&report.epochs))
}

/// Lists checkpoints of all nodes.
pub(crate) fn epochs(epochs: &[EpochReport]) -> String {
    if epochs.is_empty() {
        return "no checkpoint of all nodes yet\n".to_owned();
    }
    let mut table = bare_table(["epoch", "age", "pause", "size", "generations", ""]);
    for epoch in epochs {
        let generations: Vec<String> = epoch.generations.iter().map(u64::to_string).collect();
        let in_memory = (!epoch.is_on_disk).then_some("in memory");
        let doubt = epoch.is_in_doubt.then_some("in doubt: the program failed soon after");
        table.add_row([
            epoch.epoch.to_string(),
            age(epoch),
            nanoseconds(epoch.pause_nanoseconds),
            size(epoch.bytes),
            generations.join(" "),
            in_memory.into_iter().chain(doubt).collect::<Vec<_>>().join("; "),
        ]);
    }
    (0..4).for_each(|column| align_right(&mut table, column));
    lines_of(&table)
}

/// Describes one of them in a line.
pub(crate) fn epoch(epoch: &EpochReport) -> String {
    format!("epoch {}: pause {}, {}", epoch.epoch, nanoseconds(epoch.pause_nanoseconds), size(epoch.bytes))
}

/// Describes what the images of an epoch hold, node by node.
pub(crate) fn inspection(nodes: &[NodeInspection]) -> String {
    let of_node =
        |node: &NodeInspection| format!("epoch {}, node {}\n{}", node.epoch, node.node, super::inspection(&node.image));
    nodes.iter().map(of_node).collect::<Vec<_>>().join("\n")
}

/// Shows what each node supports. What is in order is not named.
pub(crate) fn diagnosis(nodes: &[NodeDiagnosis]) -> String {
    let of_node = |node: &NodeDiagnosis| {
        let lacking = node.findings.iter().filter(|it| !it.is_fine).map(finding).collect::<String>();
        match &node.trouble {
            Some(trouble) => format!("FAIL  {}\n", printable(trouble)),
            None if lacking.is_empty() => format!("ok    {}: it has all that is needed\n", node.node),
            None => format!("{}:\n{lacking}", node.node),
        }
    };
    nodes.iter().map(of_node).collect()
}

/// Describes what the checkpoints of each node are worth.
pub(crate) fn verification(nodes: &[NodeVerification]) -> String {
    let of_node = |node: &NodeVerification| {
        let good = format!("{}: {} good\n", node.node, node.good);
        let damage = node.damage.iter().map(|damage| format!("{}: DAMAGED, {}\n", node.node, printable(damage)));
        std::iter::once(good).chain(damage).collect::<String>()
    };
    nodes.iter().map(of_node).collect()
}

fn age(epoch: &EpochReport) -> String {
    span(Duration::from_secs_f64(epoch.age_seconds))
}
