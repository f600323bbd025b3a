//! The parameters of a simulated run, drawn from its seed.

use crate::program::Habits;
use fastrand::Rng;
use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;
use standfast_group::placement::{Site, rotating_groups};
use standfast_group::transfer::Costs;
use standfast_group::{Group, LogicalRank, Plan, RecoveryMode};
use std::sync::Arc;

/// Injected faults, which a run must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// A process reports its shard as sealed before it is.
    CommittedTooEarly,
    /// The old shard is deleted as soon as the new one is sealed.
    DeletedTooEarly,
    /// One hop multiplies by a wrong coefficient.
    WrongCoefficient,
    /// Shards are distinguished by their number alone.
    IdIgnored,
    /// Removed pages are not subtracted from the checks.
    RemovedNotSubtracted,
}

impl Plant {
    /// All faults, with the names that `cargo xtask simulate --plant` takes.
    pub const ALL: [(&str, Self); 5] = [
        ("committed-too-early", Self::CommittedTooEarly),
        ("deleted-too-early", Self::DeletedTooEarly),
        ("wrong-coefficient", Self::WrongCoefficient),
        ("id-ignored", Self::IdIgnored),
        ("removed-not-subtracted", Self::RemovedNotSubtracted),
    ];
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed, from which everything else follows.
    pub seed: u64,
    /// The groups.
    pub plan: Arc<Plan>,
    /// Processes beyond the logical ranks.
    pub spares: u32,
    /// Number of the last epoch that the program makes.
    pub epochs: u64,
    /// Interval at which epochs are encoded, if the recovery mode is to relaunch.
    pub encode_every: u64,
    /// Number of failures.
    pub kills: u32,
    /// Chance in percent that a failure beyond the tolerance of the code happens.
    pub beyond_percent: u32,
    /// Storage actions in a thousand that fail.
    pub storage_fails_permille: u32,
    /// The behaviour of the programs.
    pub habits: Habits,
    /// The costs of sending that the processes assume, in turn.
    pub costs: Vec<Costs>,
    /// Whether differences travel in word form.
    pub compress: bool,
    /// Whether processes prefer checks made in full.
    pub full: Option<bool>,
    /// An injected fault.
    pub plant: Option<Plant>,
}

/// Parameters given from outside; the others are drawn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    /// Number of processes, without spares.
    pub ranks: Option<u32>,
    /// Number of failures.
    pub kills: Option<u32>,
}

impl Scenario {
    /// Adds an injected fault, and removes others that would hide it.
    pub fn with(mut self, plant: Plant) -> Self {
        (self.plant, self.storage_fails_permille, self.beyond_percent) = (Some(plant), 0, 0);
        match plant {
            Plant::WrongCoefficient => self.compress = false,
            Plant::IdIgnored => self.habits.pages_max = 12,
            Plant::RemovedNotSubtracted => self.habits.forgets_removed = true,
            Plant::CommittedTooEarly | Plant::DeletedTooEarly => {}
        }
        self
    }

    /// Returns the parameters of a seed.
    pub fn new(seed: u64, wishes: Wishes) -> Self {
        let mut random = Rng::with_seed(seed);
        let recovery_mode = if random.bool() { RecoveryMode::InPlace } else { RecoveryMode::Relaunch };
        let ranks = wishes.ranks.unwrap_or_else(|| random.u32(2..=16)).max(2);
        let job = JobId::from_bytes(random.u128(..).to_le_bytes());
        let plan = (0..).find_map(|_| Plan::new(job, recovery_mode, groups(ranks, &mut random)).ok());
        let kills = wishes.kills.unwrap_or_else(|| random.u32(0..4));
        // In place, a lost member's logical rank needs a spare process.
        let spares = if recovery_mode == RecoveryMode::InPlace { random.u32(0..=kills) } else { 0 };
        let latency = [1_000, 100_000, 10_000_000];
        let costs = |_| Costs { latency_nanoseconds: latency[random.usize(..3)], page_nanoseconds: 1_000 };
        let costs = (0..3).map(costs).collect();
        Self {
            seed,
            plan: Arc::new(plan.expect("some draw fits").in_runs_of([1, 3, 16][random.usize(..3)])),
            spares,
            epochs: random.u64(2..6),
            encode_every: if random.bool() { 1 } else { random.u64(2..5) },
            kills,
            beyond_percent: if random.u8(..4) == 0 { 30 } else { 0 },
            storage_fails_permille: if random.u8(..5) == 0 { 8 } else { 0 },
            habits: Habits { pages_max: random.u32(1..90), steady: None, forgets_removed: false },
            costs,
            compress: random.bool(),
            full: [None, Some(false), Some(true)][random.usize(..3)],
            plant: None,
        }
    }
}

/// Returns groups over this many processes: rotating checks in groups of up to ten across nodes, or parity nodes.
fn groups(ranks: u32, random: &mut Rng) -> Vec<Group> {
    let scheme = match random.u8(..6) {
        0 => Scheme::Mirroring,
        1 | 2 => Scheme::Parity,
        3 => Scheme::EvenOdd,
        4 => Scheme::OneDimensional { groups: 2 },
        _ => Scheme::ReedSolomon { checks: random.usize(1..4) },
    };
    if random.u8(..3) > 0 {
        let node = random.u32(1..4);
        let sites: Vec<Site> = (0..ranks).map(|rank| Site { rack: rank / (4 * node), node: rank / node }).collect();
        return rotating_groups(&sites, scheme, random.usize(2..=10));
    }
    let checks = match scheme {
        Scheme::Mirroring => 1,
        Scheme::Parity => 1,
        Scheme::EvenOdd => 2,
        Scheme::OneDimensional { groups: checks } | Scheme::ReedSolomon { checks } => checks as u32,
    };
    let (scheme, width) = if scheme == Scheme::Mirroring { (Scheme::Parity, 1) } else { (scheme, random.u32(2..9)) };
    let count = (ranks / (width + checks)).max(1);
    let members = ranks.saturating_sub(count * checks).max(count * checks.max(2));
    let all: Vec<u32> = (0..members).collect();
    let dealt = |group: u32| {
        all.iter().copied().filter(move |logical_rank| logical_rank % count == group).map(LogicalRank).collect()
    };
    let parity_nodes = |group: u32| (0..checks).map(|check| LogicalRank(members + group * checks + check)).collect();
    (0..count).map(|group| Group { members: dealt(group), parity_nodes: parity_nodes(group), scheme }).collect()
}
