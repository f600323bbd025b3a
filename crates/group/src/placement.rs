//! Placement of members in groups, so that the loss of one node or one rack takes as few members of a group as possible.
//!
//! Members are sorted by rack and node and dealt out to the groups in turn. So a domain with c members has at most c /
//! groups, rounded up, in any one group, and no other distribution has fewer. [`weaknesses`] checks against the code,
//! loss by loss, whether that is few enough; this includes parity nodes. Groups with parity nodes complete the forms of
//! diskless checkpointing; MPI programs cannot choose them yet.

use crate::identity::LogicalRank;
use crate::plan::{Group, Plan, PlanError};
pub use crate::weakness::{Domain, Weakness};
use standfast_core::erasure::{Code, Scheme};
use std::collections::{BTreeMap, BTreeSet};

/// Where the process of a logical rank runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Site {
    /// The rack, or another set of nodes that fails as one.
    pub rack: u32,
    /// The node, unique among all nodes.
    pub node: u32,
}

/// What the plan must survive; for anything beyond it there is only a warning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Demand {
    /// The loss of a process.
    Process,
    /// The loss of any one node.
    Node,
    /// The loss of any one rack.
    Rack,
}

/// Distributes members over groups of at most `group_members`, as equal as possible, with rotating checks. `sites` has
/// one entry for each member.
pub fn rotating_groups(sites: &[Site], scheme: Scheme, group_members: usize) -> Vec<Group> {
    let count = sites.len().div_ceil(group_members.max(1)).max(1);
    let mut order: Vec<usize> = (0..sites.len()).collect();
    order.sort_by_key(|logical_rank| (sites[*logical_rank], *logical_rank));
    let mut groups = vec![Group { members: Vec::new(), parity_nodes: Vec::new(), scheme }; count];
    for (turn, logical_rank) in order.into_iter().enumerate() {
        groups[turn % count].members.push(LogicalRank(logical_rank as u32));
    }
    groups
}

/// Distributes members over groups with parity nodes: `sites` has one entry for each member and then one for each parity
/// node. A group gets the parity nodes that share a rack or node with the fewest of its members.
///
/// # Errors
/// [`PlanError::Code`]; [`PlanError::LogicalRanks`] if the number of parity nodes is not the number of checks of the
/// groups.
pub fn dedicated_groups(
    sites: &[Site],
    members: usize,
    scheme: Scheme,
    group_members: usize,
) -> Result<Vec<Group>, PlanError> {
    let mut groups = rotating_groups(&sites[..members], scheme, group_members);
    let mut left: Vec<usize> = (members..sites.len()).collect();
    for (index, group) in groups.iter_mut().enumerate() {
        let code = Code::new(scheme, group.members.len());
        let checks = code.map_err(|source| PlanError::Code { group: index, source })?.checks();
        for _ in 0..checks {
            let near = |parity_node: &usize| {
                let of_group =
                    group.members.iter().chain(&group.parity_nodes).map(|logical_rank| sites[logical_rank.0 as usize]);
                let (racks, nodes): (Vec<_>, Vec<_>) = of_group.map(|site| (site.rack, site.node)).unzip();
                let site = sites[*parity_node];
                let count = |of: &[u32], one| of.iter().filter(|it| **it == one).count();
                (count(&nodes, site.node), count(&racks, site.rack), *parity_node)
            };
            let parity_node = left.iter().copied().min_by_key(near).ok_or_else(|| {
                PlanError::LogicalRanks(format!(
                    "{} parity nodes are fewer than the groups have checks",
                    sites.len() - members
                ))
            })?;
            left.retain(|it| *it != parity_node);
            group.parity_nodes.push(LogicalRank(parity_node as u32));
        }
    }
    if left.is_empty() {
        return Ok(groups);
    }
    Err(PlanError::LogicalRanks(format!("{} parity nodes are more than the groups have checks", sites.len() - members)))
}

/// Returns every domain whose loss a group would not survive, for the sites of all logical ranks.
pub fn weaknesses(plan: &Plan, sites: &[Site]) -> Vec<Weakness> {
    assert_eq!(sites.len(), plan.logical_ranks(), "one site for each logical rank");
    let mut lost: BTreeMap<(Domain, usize), Vec<LogicalRank>> = BTreeMap::new();
    for (logical_rank, site) in sites.iter().enumerate() {
        let logical_rank = LogicalRank(logical_rank as u32);
        let (group, _) = plan.place(logical_rank);
        for domain in [Domain::Node(site.node), Domain::Rack(site.rack)] {
            lost.entry((domain, group)).or_default().push(logical_rank);
        }
    }
    let weak = lost.into_iter().filter(|((_, group), logical_ranks)| {
        let positions: Vec<usize> = logical_ranks.iter().map(|logical_rank| plan.place(*logical_rank).1).collect();
        !plan.layout(*group).tolerates(&positions)
    });
    weak.map(|((domain, group), logical_ranks)| Weakness { domain, group, logical_ranks }).collect()
}

/// Refuses a plan that does not meet the demand, and returns the remaining weaknesses for warnings.
///
/// # Errors
/// [`PlanError::Weak`]
pub fn check(plan: &Plan, sites: &[Site], demand: Demand) -> Result<Vec<Weakness>, PlanError> {
    // If there is only one domain, there is no choice: that is a warning, not a refusal.
    let several = |domain: Domain| match domain {
        Domain::Node(_) => sites.iter().map(|site| site.node).collect::<BTreeSet<_>>().len() > 1,
        Domain::Rack(_) => sites.iter().map(|site| site.rack).collect::<BTreeSet<_>>().len() > 1,
    };
    let weak = weaknesses(plan, sites);
    let refused = weak.iter().find(|weakness| match weakness.domain {
        Domain::Node(_) => demand >= Demand::Node && several(weakness.domain),
        Domain::Rack(_) => demand >= Demand::Rack && several(weakness.domain),
    });
    match refused {
        Some(weakness) => Err(PlanError::Weak(weakness.clone())),
        None => Ok(weak),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::RecoveryMode;
    use standfast_format::manifest::JobId;

    /// Two processes per node, two nodes per rack, numbered as launchers do.
    fn sites(count: u32) -> Vec<Site> {
        (0..count).map(|rank| Site { rack: rank / 4, node: rank / 2 }).collect()
    }

    fn plan(groups: Vec<Group>) -> Plan {
        Plan::new(JobId::from_bytes([1; 16]), RecoveryMode::Relaunch, groups).unwrap()
    }

    #[test]
    fn neighbours_on_a_node_do_not_share_a_group() {
        let sites = sites(16);
        let plan = plan(rotating_groups(&sites, Scheme::Parity, 4));
        assert!(plan.groups().iter().all(|group| group.members.len() == 4));
        assert_eq!(weaknesses(&plan, &sites), []);
        assert_eq!(check(&plan, &sites, Demand::Rack), Ok(Vec::new()));
    }

    #[test]
    fn a_plan_weak_to_a_node_loss_is_refused_and_to_a_rack_reported() {
        let sites = sites(8);
        let one_group = plan(rotating_groups(&sites, Scheme::Parity, 8));
        let refused = check(&one_group, &sites, Demand::Node).unwrap_err().to_string();
        assert!(refused.contains("node 0") && refused.contains("group 0"), "{refused}");
        let two_checks = plan(rotating_groups(&sites, Scheme::ReedSolomon { checks: 2 }, 8));
        let told = check(&two_checks, &sites, Demand::Node).unwrap();
        assert_eq!(told.iter().map(|weak| weak.domain).collect::<Vec<_>>(), [Domain::Rack(0), Domain::Rack(1)]);
        assert!(check(&two_checks, &sites, Demand::Rack).is_err());
        assert_eq!(check(&one_group, &sites, Demand::Process).unwrap().len(), 6);
    }

    #[test]
    fn parity_nodes_are_not_where_their_members_are() {
        // Six nodes in three racks with two processes each: eight members on the first four nodes, parity nodes on the last
        // two.
        let sites = sites(13);
        let plan = plan(dedicated_groups(&sites[..12], 8, Scheme::Parity, 2).unwrap());
        assert_eq!(check(&plan, &sites[..12], Demand::Rack), Ok(Vec::new()));
        // Here the parity nodes share nodes with members, and each goes to a group of the other nodes.
        let mixed: Vec<Site> = [0, 0, 1, 1, 2, 2, 0, 1, 2].map(|node| Site { rack: node, node }).to_vec();
        let plan =
            Plan::new(plan.job(), RecoveryMode::Relaunch, dedicated_groups(&mixed, 6, Scheme::Parity, 2).unwrap());
        assert_eq!(check(&plan.unwrap(), &mixed, Demand::Rack), Ok(Vec::new()));
        for parity_nodes in [2, 5] {
            let refused = dedicated_groups(&sites[..8 + parity_nodes], 8, Scheme::Parity, 2).unwrap_err().to_string();
            assert!(refused.contains(&format!("{parity_nodes} parity nodes are")), "{refused}");
        }
    }

    #[test]
    fn on_a_single_node_its_loss_is_reported_and_not_refused() {
        let sites = vec![Site { rack: 0, node: 0 }; 4];
        let plan = plan(rotating_groups(&sites, Scheme::Parity, 4));
        assert_eq!(check(&plan, &sites, Demand::Rack).unwrap().len(), 2);
    }

    #[test]
    fn group_sizes_differ_by_at_most_one() {
        let groups = rotating_groups(&sites(10), Scheme::Parity, 4);
        assert_eq!(groups.iter().map(|group| group.members.len()).collect::<Vec<_>>(), [4, 3, 3]);
    }
}
