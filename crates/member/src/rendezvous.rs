//! The rendezvous at the start: which process runs where, which data lies where, and what must move before the protocol
//! begins.
//!
//! A relaunched rank may run on another node than before. The shard store of its logical rank is still in the memory of
//! the old node. It moves in chunks to where the rank now runs, and the original stays until an epoch has been committed
//! without it.

use crate::Settings;
use crate::directory::{HeldEpoch, LevelDirectory, held_in};
use crate::driver_message::{Arrangement, DriverMessage, InDirectory, Move, Presence, ShardStoreNote, Wire};
use crate::error::MemberError;
use crate::memory_place;
use crate::plan_record::PlanRecord;
use crate::shard_store::{make_directory, read_state};
use crate::transport::Transport;
use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;
use standfast_group::placement::{Site, rotating_groups, weaknesses};
use standfast_group::{EpochId, EpochLevel, Life, LogicalRank, Plan};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Bytes of a file in one message.
const PART_BYTES: usize = 1 << 20;
/// Messages with parts in flight at once, for each shard store.
const PARTS_UNDER_WAY: usize = 4;

/// Returns the directory of a logical rank.
pub(crate) fn logical_rank_directory(job: &Path, logical_rank: LogicalRank) -> PathBuf {
    job.join(format!("seat-{}", logical_rank.0))
}

/// Returns the epochs of a job in this node's memory, and the location of their shards, the newest first.
///
/// # Errors
/// File system errors.
pub fn held_in_memory(memory: &Path, job: JobId) -> Result<Vec<HeldEpoch>, MemberError> {
    memory_place::find(memory, job)?.map_or(Ok(Vec::new()), |directory| held_in(&directory))
}

/// Removes a job's data from this node's memory. None of its processes may be running.
///
/// # Errors
/// File system errors.
pub fn purge_memory(memory: &Path, job: JobId) -> Result<(), MemberError> {
    memory_place::remove(memory, job)
}

/// Announces every process to the first, which decides. All return the same arrangement, or the same refusal.
pub(crate) fn call<T: Transport>(wire: &mut Wire<T>, settings: &Settings) -> Result<Arrangement, MemberError> {
    let message = match presence(settings) {
        Ok(presence) => DriverMessage::Present(presence),
        Err(error) => DriverMessage::Absent(error.to_string()),
    };
    wire.send_driver(0, &message)?;
    if wire.rank() == 0 {
        let message = match gather(wire)?.and_then(|present| arrange(&present, settings)) {
            Ok(arrangement) => DriverMessage::Arrange(arrangement),
            Err(reason) => DriverMessage::Refuse(reason),
        };
        wire.send_driver_to_all(&message)?;
    }
    match wire.message_among(|message| matches!(message, DriverMessage::Arrange(_) | DriverMessage::Refuse(_)))? {
        (_, DriverMessage::Arrange(arrangement)) => Ok(arrangement),
        (_, DriverMessage::Refuse(reason)) => Err(MemberError::Disagreement(reason)),
        _ => unreachable!("no other was asked for"),
    }
}

fn presence(settings: &Settings) -> Result<Presence, MemberError> {
    let directory = memory_place::take(&settings.memory, settings.job)?;
    Ok(Presence {
        job: settings.job,
        node: settings.node.clone(),
        terms: settings.terms(),
        shard_stores: shard_stores(&directory)?,
    })
}

/// Collects the presence of all processes, or the reason why one is absent.
fn gather<T: Transport>(wire: &mut Wire<T>) -> Result<Result<Vec<Presence>, String>, MemberError> {
    let mut present = BTreeMap::new();
    while present.len() < wire.ranks() as usize {
        let (from, presence) = match wire
            .message_among(|message| matches!(message, DriverMessage::Present(_) | DriverMessage::Absent(_)))?
        {
            (from, DriverMessage::Present(presence)) => (from, Ok(presence)),
            (from, DriverMessage::Absent(reason)) => (from, Err(format!("process {from}: {reason}"))),
            _ => unreachable!("no other was asked for"),
        };
        present.insert(from, presence);
    }
    Ok(present.into_values().collect())
}

/// Lists the shard stores in a directory. An unreadable one counts as lost.
fn shard_stores(directory: &Path) -> Result<Vec<ShardStoreNote>, MemberError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(MemberError::file(directory))? {
        let entry = entry.map_err(MemberError::file(directory))?;
        let Ok(Some(state)) = read_state(&entry.path()) else { continue };
        if entry.path() != logical_rank_directory(directory, state.logical_rank) {
            continue;
        }
        let age = |epoch: EpochId| (epoch.life, epoch.number);
        let newest = state.shards.iter().map(|shard| age(shard.id.epoch)).max();
        let plan = (!state.shards.is_empty()).then(|| state.plan.clone());
        let age = newest.unwrap_or((state.life, 0));
        let epochs = state.shards.iter().map(|shard| (shard.id.epoch, shard.level())).collect();
        found.push(ShardStoreNote { logical_rank: state.logical_rank, age, plan, life: state.life, epochs });
    }
    found.sort_by_key(|shard_store| shard_store.logical_rank);
    Ok(found)
}

/// Decides on the arrangement, or why there can be none.
fn arrange(present: &[Presence], settings: &Settings) -> Result<Arrangement, String> {
    for (rank, presence) in present.iter().enumerate() {
        if presence.job != settings.job {
            return Err(format!("process {rank} is of job {}, process 0 of {}", presence.job, settings.job));
        }
        if presence.terms != settings.terms() {
            let (theirs, ours) = (&presence.terms, settings.terms());
            return Err(format!("process {rank} has other settings than process 0: {theirs}; {ours}"));
        }
    }
    let leader = |presence: &Presence| present.iter().position(|it| it.node == presence.node).expect("it is there");
    let leaders: Vec<u32> = present.iter().map(|presence| leader(presence) as u32).collect();
    let (kept, directory) = in_directory(present, settings)?;
    let plan = plan(present, &leaders, settings, kept)?;
    let moves = moves(present, &leaders);
    let sites: Vec<Site> = leaders.iter().map(|leader| Site { rack: *leader, node: *leader }).collect();
    let whole = plan.plan(settings.job).map_err(|error| error.to_string())?;
    let mut warnings: Vec<String> = weaknesses(&whole, &sites).iter().map(ToString::to_string).collect();
    // Each node is its own rack here.
    warnings.retain(|warning| warning.contains(" node "));
    Ok(Arrangement { plan, leaders, moves, warnings, directory, job: settings.job })
}

/// Returns what the directory holds of the job, and the plan of those epochs.
fn in_directory(
    present: &[Presence],
    settings: &Settings,
) -> Result<(Option<PlanRecord>, Option<InDirectory>), String> {
    let Some(path) = &settings.directory else { return Ok((None, None)) };
    let directory = LevelDirectory::new(path);
    let epochs = directory.epochs_of(settings.job).map_err(|error| error.to_string())?;
    let Some(newest) = epochs.first() else { return Ok((None, None)) };
    let plan = newest.plan.clone();
    let shard_stores = || present.iter().flat_map(|presence| &presence.shard_stores);
    if shard_stores().any(|shard_store| shard_store.plan.as_ref().is_some_and(|theirs| *theirs != plan)) {
        return Err(format!("the epochs in {} are of other groups than those in memory", path.display()));
    }
    let enough = |held: &&HeldEpoch| held.lacking().is_ok_and(|lacking| lacking.is_none());
    let good: Vec<&HeldEpoch> = epochs.iter().filter(enough).collect();
    let Some(first) = good.first() else {
        let reason = format!("{} holds too few shards of epoch {}", path.display(), newest.epoch);
        return Ok((Some(plan), Some(InDirectory::NotEnough(reason))));
    };
    let noted = directory.life().map_err(|error| error.to_string())?;
    let known = epochs.iter().map(|held| held.life).chain([noted]);
    let life = shard_stores().map(|shard_store| shard_store.life).chain(known).max().unwrap_or_default();
    let whole = plan.plan(settings.job).map_err(|error| error.to_string())?;
    let newest_in_memory = newest_that_suffices(&whole, shard_stores());
    let is_newest = newest_in_memory.is_none_or(|age| age < (first.epoch.life, first.epoch.number));
    let epochs = good.iter().map(|held| held.epoch).collect();
    Ok((Some(plan), Some(InDirectory::Epochs { epochs, life, is_newest })))
}

/// Returns life and number of the newest epoch of which memory seems to hold enough.
fn newest_that_suffices<'s>(
    plan: &Plan,
    shard_stores: impl Iterator<Item = &'s ShardStoreNote>,
) -> Option<(Life, u64)> {
    let mut held: BTreeMap<(EpochId, EpochLevel), BTreeSet<LogicalRank>> = BTreeMap::new();
    for shard_store in shard_stores {
        for epoch in &shard_store.epochs {
            held.entry(*epoch).or_default().insert(shard_store.logical_rank);
        }
    }
    let suffices = |((_, level), logical_ranks): &(&(EpochId, EpochLevel), &BTreeSet<LogicalRank>)| {
        let has = |logical_rank: LogicalRank| logical_ranks.contains(&logical_rank);
        if *level == EpochLevel::Encoded { plan.lacking(has) } else { plan.incomplete(has) }.is_none()
    };
    held.iter().filter(suffices).map(|((epoch, _), _)| (epoch.life, epoch.number)).max()
}

/// Returns the plan of the newest shards anywhere; a new one if there are none.
fn plan(
    present: &[Presence],
    leaders: &[u32],
    settings: &Settings,
    kept: Option<PlanRecord>,
) -> Result<PlanRecord, String> {
    let shard_stores = present.iter().flat_map(|presence| &presence.shard_stores);
    let newest =
        shard_stores.filter(|shard_store| shard_store.plan.is_some()).max_by_key(|shard_store| shard_store.age);
    if let Some(plan) = newest.and_then(|shard_store| shard_store.plan.clone()).or(kept) {
        if plan.members() != present.len() {
            let (before, now) = (plan.members(), present.len());
            return Err(format!(
                "the job's checkpoints are of {before} processes, and {now} were started: start as many as before"
            ));
        }
        return Ok(plan);
    }
    if present.len() < 2 {
        return Err("a group needs at least two processes".into());
    }
    let sites: Vec<Site> = leaders.iter().map(|leader| Site { rack: *leader, node: *leader }).collect();
    let groups = rotating_groups(&sites, settings.scheme, settings.group_members.max(least_members(settings.scheme)));
    Ok(PlanRecord::new(&groups))
}

fn least_members(scheme: Scheme) -> usize {
    match scheme {
        Scheme::Mirroring | Scheme::Parity => 2,
        Scheme::EvenOdd => 3,
        Scheme::OneDimensional { groups: checks } | Scheme::ReedSolomon { checks } => checks + 1,
    }
}

/// Returns the shard stores whose rank runs on another node than their newest copy.
fn moves(present: &[Presence], leaders: &[u32]) -> Vec<Move> {
    let mut newest: BTreeMap<LogicalRank, ((Life, u64), Vec<u32>)> = BTreeMap::new();
    for (presence, leader) in present.iter().zip(leaders) {
        for shard_store in &presence.shard_stores {
            let best = newest.entry(shard_store.logical_rank).or_insert_with(|| (shard_store.age, Vec::new()));
            if shard_store.age > best.0 {
                *best = (shard_store.age, Vec::new());
            }
            if shard_store.age == best.0 {
                best.1.push(*leader);
            }
        }
    }
    let home = |logical_rank: LogicalRank| leaders.get(logical_rank.0 as usize).copied();
    let away = newest
        .into_iter()
        .filter(|(logical_rank, (_, nodes))| home(*logical_rank).is_some_and(|home| !nodes.contains(&home)));
    away.map(|(logical_rank, (_, nodes))| Move { logical_rank, from: nodes[0], to: logical_rank.0 }).collect()
}

/// Moves shard stores to where their ranks run now. If one move fails, the others are made all the same.
///
/// # Errors
/// Why this process could not receive its shard store.
pub(crate) fn carry_out<T: Transport>(
    wire: &mut Wire<T>,
    directory: &Path,
    arrangement: &Arrangement,
) -> Result<(), MemberError> {
    Removal { wire, directory, failed: None }.carry_out(arrangement)
}

/// The moves in which this process takes part.
struct Removal<'w, T> {
    wire: &'w mut Wire<T>,
    directory: &'w Path,
    /// Why something could not be received. Later parts are discarded.
    failed: Option<MemberError>,
}

fn is_of_a_move(message: &DriverMessage) -> bool {
    matches!(
        message,
        DriverMessage::Part(..) | DriverMessage::Taken(_) | DriverMessage::Whole(_) | DriverMessage::Lacking(..)
    )
}

/// A shard store that is being sent.
struct Departure {
    to: u32,
    logical_rank: LogicalRank,
    parts: VecDeque<(String, u64, u64)>,
    under_way: usize,
}

impl Departure {
    fn goes_on(&self) -> bool {
        self.under_way > 0 || !self.parts.is_empty()
    }
}

impl<T: Transport> Removal<'_, T> {
    fn carry_out(mut self, arrangement: &Arrangement) -> Result<(), MemberError> {
        let me = self.wire.rank();
        let mut arrivals: Vec<LogicalRank> = Vec::new();
        for arriving in arrangement.moves.iter().filter(|it| it.to == me) {
            let path = self.arriving(arriving.logical_rank);
            let _ = fs::remove_dir_all(&path);
            self.try_to(|_| make_directory(&path));
            arrivals.push(arriving.logical_rank);
        }
        let mut departures = Vec::new();
        for leaving in arrangement.moves.iter().filter(|it| it.from == me) {
            let (to, logical_rank) = (leaving.to, leaving.logical_rank);
            match parts(&logical_rank_directory(self.directory, logical_rank)) {
                Ok(parts) => departures.push(Departure { to, logical_rank, parts, under_way: 0 }),
                Err(error) => self.wire.send_driver(to, &DriverMessage::Lacking(logical_rank, error.to_string()))?,
            }
        }
        for departure in &mut departures {
            self.send_on(departure)?;
        }
        departures.retain(Departure::goes_on);
        while !(arrivals.is_empty() && departures.is_empty()) {
            let (from, message) = self.wire.message_among(is_of_a_move)?;
            match message {
                DriverMessage::Part(logical_rank, name, offset, bytes) => {
                    self.try_to(|it| it.take(logical_rank, &name, offset, &bytes));
                    self.wire.send_driver(from, &DriverMessage::Taken(logical_rank))?;
                }
                DriverMessage::Whole(logical_rank) => {
                    self.try_to(|it| it.settle(logical_rank));
                    arrivals.retain(|it| *it != logical_rank);
                }
                DriverMessage::Lacking(logical_rank, reason) => {
                    self.try_to(|it| Err(MemberError::unusable(&it.arriving(logical_rank), reason)));
                    arrivals.retain(|it| *it != logical_rank);
                }
                DriverMessage::Taken(logical_rank) => {
                    if let Some(departure) = departures.iter_mut().find(|it| it.logical_rank == logical_rank) {
                        departure.under_way -= 1;
                        self.send_on(departure)?;
                    }
                    departures.retain(Departure::goes_on);
                }
                _ => unreachable!("no other was asked for"),
            }
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// Runs some work, unless an earlier one has failed.
    fn try_to(&mut self, work: impl FnOnce(&Self) -> Result<(), MemberError>) {
        if self.failed.is_none() {
            self.failed = work(self).err();
        }
    }

    fn send_on(&mut self, departure: &mut Departure) -> Result<(), MemberError> {
        while departure.under_way < PARTS_UNDER_WAY
            && let Some((name, offset, length)) = departure.parts.pop_front()
        {
            let path = logical_rank_directory(self.directory, departure.logical_rank).join(&name);
            let mut bytes = vec![0; length as usize];
            let read = File::open(&path).and_then(|file| file.read_exact_at(&mut bytes, offset));
            if let Err(error) = read {
                let reason = format!("{}: {error}", path.display());
                departure.parts.clear();
                return self.wire.send_driver(departure.to, &DriverMessage::Lacking(departure.logical_rank, reason));
            }
            self.wire
                .send_driver(departure.to, &DriverMessage::Part(departure.logical_rank, name, offset, bytes.into()))?;
            departure.under_way += 1;
            if departure.parts.is_empty() {
                self.wire.send_driver(departure.to, &DriverMessage::Whole(departure.logical_rank))?;
            }
        }
        Ok(())
    }

    fn arriving(&self, logical_rank: LogicalRank) -> PathBuf {
        self.directory.join(format!("seat-{}.arriving", logical_rank.0))
    }

    fn take(&self, logical_rank: LogicalRank, name: &str, offset: u64, bytes: &[u8]) -> Result<(), MemberError> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = self.arriving(logical_rank).join(name);
        if name.contains('/') {
            return Err(MemberError::unusable(&path, "a file of a shard store has a plain name"));
        }
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
        file.and_then(|file| file.write_all_at(bytes, offset)).map_err(MemberError::file(&path))
    }

    /// Replaces the local shard store by the one that has arrived.
    fn settle(&self, logical_rank: LogicalRank) -> Result<(), MemberError> {
        let (from, to) = (self.arriving(logical_rank), logical_rank_directory(self.directory, logical_rank));
        let _ = fs::remove_dir_all(&to);
        fs::rename(&from, &to).map_err(MemberError::file(&to))
    }
}

/// Returns the files of a shard store in parts: name, offset, length. The state comes last, so that it names only files
/// that exist.
fn parts(directory: &Path) -> Result<VecDeque<(String, u64, u64)>, MemberError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(MemberError::file(directory))? {
        let entry = entry.map_err(MemberError::file(directory))?;
        let length = entry.metadata().map_err(MemberError::file(directory))?.len();
        let name =
            entry.file_name().into_string().map_err(|_| MemberError::unusable(directory, "a strange file name"))?;
        files.push((name == "state", name, length));
    }
    files.sort();
    let part = |(_, name, length): (bool, String, u64)| {
        (0..length.max(1).div_ceil(PART_BYTES as u64)).map(move |index| {
            let offset = index * PART_BYTES as u64;
            (name.clone(), offset, (length - offset).min(PART_BYTES as u64))
        })
    };
    Ok(files.into_iter().flat_map(part).collect())
}

/// Removes the shard stores of logical ranks that are on other nodes now, and incomplete moves of a launch that was
/// killed. Only the first process of a node calls this.
pub(crate) fn remove_strangers(directory: &Path, logical_ranks_here: &[LogicalRank]) -> Result<(), MemberError> {
    let here: Vec<PathBuf> =
        logical_ranks_here.iter().map(|logical_rank| logical_rank_directory(directory, *logical_rank)).collect();
    for entry in fs::read_dir(directory).map_err(MemberError::file(directory))? {
        let path = entry.map_err(MemberError::file(directory))?.path();
        if !here.contains(&path) {
            fs::remove_dir_all(&path).map_err(MemberError::file(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present(settings: &Settings) -> Presence {
        let (job, node, terms) = (settings.job, settings.node.clone(), settings.terms());
        Presence { job, node, terms, shard_stores: Vec::new() }
    }

    #[test]
    fn processes_of_another_version_or_job_are_named() {
        let settings = Settings::new(JobId::from_bytes([1; 16]), "/dev/shm".into(), "node".into());
        let ours = present(&settings);
        assert!(arrange(&[ours.clone(), ours.clone()], &settings).is_ok());
        let version = concat!("version ", env!("CARGO_PKG_VERSION"));
        let older = Presence { terms: ours.terms.replace(version, "version 0.0.1"), ..ours.clone() };
        let refused = arrange(&[ours.clone(), ours.clone(), older], &settings).unwrap_err();
        assert!(refused.contains("process 2 has other settings") && refused.contains("version 0.0.1"), "{refused}");
        let foreign = Presence { job: JobId::from_bytes([2; 16]), ..ours.clone() };
        let refused = arrange(&[ours, foreign], &settings).unwrap_err();
        assert!(refused.contains("process 1 is of job 0202"), "{refused}");
    }
}
