//! Failure domains, and the groups of a plan that would not survive the loss of one.

use crate::identity::LogicalRank;
use std::fmt;

/// A set of processes that fail together.
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
    /// The domain that would be lost.
    pub domain: Domain,
    /// The group that could not be recovered.
    pub group: usize,
    /// The logical ranks that the group would lose.
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
