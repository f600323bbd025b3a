//! The plan as it is stored in files and messages: all that a plan is made from.

use crate::error::MemberError;
use minicbor::{Decode, Encode};
use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;
use standfast_group::{Group, LogicalRank, Plan, RecoveryMode};

/// The groups of a job.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlanRecord {
    #[n(0)]
    pub(crate) groups: Vec<GroupRecord>,
}

/// A group whose members hold the checks themselves.
#[derive(Encode, Decode, Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupRecord {
    #[n(0)]
    members: Vec<LogicalRank>,
    #[n(1)]
    code: CodeRecord,
}

#[derive(Encode, Decode, Clone, Copy, Debug, PartialEq, Eq)]
enum CodeRecord {
    #[n(0)]
    Mirroring,
    #[n(1)]
    Parity,
    #[n(2)]
    OneDimensional(#[n(0)] u32),
    #[n(3)]
    EvenOdd,
    #[n(4)]
    ReedSolomon(#[n(0)] u32),
}

impl PlanRecord {
    /// Records groups without parity nodes.
    pub(crate) fn new(groups: &[Group]) -> Self {
        let record = |group: &Group| GroupRecord { members: group.members.clone(), code: code(group.scheme) };
        Self { groups: groups.iter().map(record).collect() }
    }

    /// Returns the recorded plan.
    pub(crate) fn plan(&self, job: JobId) -> Result<Plan, MemberError> {
        let group = |record: &GroupRecord| Group {
            members: record.members.clone(),
            parity_nodes: Vec::new(),
            scheme: scheme(record.code),
        };
        let groups = self.groups.iter().map(group).collect();
        Plan::new(job, RecoveryMode::Relaunch, groups).map_err(|error| MemberError::Disagreement(error.to_string()))
    }

    /// Returns the number of members.
    pub(crate) fn members(&self) -> usize {
        self.groups.iter().map(|group| group.members.len()).sum()
    }
}

fn code(scheme: Scheme) -> CodeRecord {
    match scheme {
        Scheme::Mirroring => CodeRecord::Mirroring,
        Scheme::Parity => CodeRecord::Parity,
        Scheme::OneDimensional { groups } => CodeRecord::OneDimensional(groups as u32),
        Scheme::EvenOdd => CodeRecord::EvenOdd,
        Scheme::ReedSolomon { checks } => CodeRecord::ReedSolomon(checks as u32),
    }
}

fn scheme(code: CodeRecord) -> Scheme {
    match code {
        CodeRecord::Mirroring => Scheme::Mirroring,
        CodeRecord::Parity => Scheme::Parity,
        CodeRecord::OneDimensional(groups) => Scheme::OneDimensional { groups: groups as usize },
        CodeRecord::EvenOdd => Scheme::EvenOdd,
        CodeRecord::ReedSolomon(checks) => Scheme::ReedSolomon { checks: checks as usize },
    }
}
