//! What fails at once, and what of a plan would not survive it.

use crate::identity::LogicalRank;
use std::fmt;

/// What fails at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Domain {
    /// A node with all its processes.
    Node(u32),
    /// A rack with all its nodes.
    Rack(u32),
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(number) => write!(f, "node {number}"),
            Self::Rack(number) => write!(f, "rack {number}"),
        }
    }
}

/// A domain whose loss a group would not survive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weakness {
    /// What would be lost.
    pub domain: Domain,
    /// Which group would not be recovered.
    pub group: usize,
    /// What the group would lose.
    pub logical_ranks: Vec<LogicalRank>,
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (domain, group, logical_ranks) = (self.domain, self.group, self.logical_ranks.len());
        write!(
            f,
            "the loss of {domain} would take {logical_ranks} logical ranks of group {group}, more than its code tolerates: use more nodes, smaller groups or more checks"
        )
    }
}
