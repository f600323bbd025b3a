//! A job whose processes are threads, on nodes that come and go. It computes, checkpoints and is killed at any moment,
//! and reports if it goes back to something that it must not.

use crate::threads::{Connection, Network};
use fastrand::Rng;
use standfast_core::Checksum;
use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;
use standfast_linux::RegisteredMemory;
use standfast_member::{CheckpointEnd, EncodeEvery, Joined, Member, MemberError, RegionTracking, Settings};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// The job of all clusters.
pub(crate) const JOB: JobId = JobId::from_bytes([7; 16]);

const STEP: u64 = 1;
const FIELD: u64 = 2;
const FIELD_BYTES_MAX: usize = 40 * 4096;

/// A program whose whole state follows from its rank, the seed and the step.
struct Program {
    seed: u64,
    rank: u32,
    step: RegisteredMemory,
    field: RegisteredMemory,
}

impl Program {
    fn new(seed: u64, rank: u32) -> Self {
        // Neither region begins at a page boundary.
        let field = RegisteredMemory::leaked(FIELD_BYTES_MAX + 100).part(24 + rank as usize, FIELD_BYTES_MAX);
        Self { seed, rank, step: RegisteredMemory::leaked(8), field }
    }

    fn step(&self) -> u64 {
        let mut bytes = [0; 8];
        self.step.read(0, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Returns the length of the field at a step.
    fn length(&self, step: u64) -> usize {
        Rng::with_seed(self.seed ^ (step / 3) ^ (u64::from(self.rank) << 40)).usize(1..FIELD_BYTES_MAX)
    }

    fn registered_field(&self, step: u64) -> RegisteredMemory {
        self.field.part(0, self.length(step))
    }

    /// Changes some parts of the field, and zeroes others.
    fn compute(&self) {
        let step = self.step() + 1;
        let mut random = Rng::with_seed(self.seed.wrapping_mul(31) ^ (step << 8) ^ u64::from(self.rank));
        for _ in 0..random.usize(0..6) {
            let (at, length) = (random.usize(..FIELD_BYTES_MAX), random.usize(1..9000));
            let value = if random.bool() { 0 } else { random.u8(..) };
            self.field.write(at, &vec![value; length]);
        }
        self.step.write(0, &step.to_le_bytes());
    }

    /// Returns the checksum of the field after this many steps, within its length then. Earlier content beyond a shorter
    /// length is lost when the program goes back, so the program clears it when it grows.
    fn truth(seed: u64, rank: u32, step: u64) -> Checksum {
        let program = Self::new(seed, rank);
        while program.step() < step {
            program.advance();
        }
        program.content()
    }

    fn advance(&self) {
        self.compute();
        let length = self.length(self.step());
        self.field.write(length, &vec![0; FIELD_BYTES_MAX - length]);
    }

    fn content(&self) -> Checksum {
        let mut bytes = vec![0; FIELD_BYTES_MAX];
        self.field.read(0, &mut bytes);
        Checksum::of(&bytes)
    }
}

/// A job on nodes that come and go.
pub(crate) struct Cluster {
    seed: u64,
    scheme: Scheme,
    tracking: RegionTracking,
    ranks: u32,
    pub(crate) nodes: Vec<TempDir>,
    /// The node of each rank.
    pub(crate) homes: Vec<usize>,
    /// The latest step that any process has heard is committed.
    promised: AtomicU64,
    /// The latest such step that is encoded.
    encoded: AtomicU64,
    /// The step at which rank 0 last continued from an epoch.
    back_at: AtomicU64,
    /// The number of epochs for each one that is encoded.
    pub(crate) encode_every: u64,
    /// A directory that all nodes see, and the number of epochs for each one that is copied to it.
    pub(crate) directory: Option<(PathBuf, u64)>,
}

/// How a launch ended for one rank.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The rank finished with this state.
    Finished(Checksum),
    Killed,
    Failed(String),
}

impl Cluster {
    pub(crate) fn new(seed: u64, scheme: Scheme, ranks: u32, nodes: usize) -> Self {
        let nodes: Vec<TempDir> = (0..nodes).map(|_| fresh_memory()).collect();
        let homes = (0..ranks as usize).map(|rank| rank % nodes.len()).collect();
        let tracking = if seed.is_multiple_of(2) { RegionTracking::Auto } else { RegionTracking::Compare };
        let (promised, encoded, back_at) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Self {
            seed,
            scheme,
            tracking,
            ranks,
            nodes,
            homes,
            promised,
            encoded,
            back_at,
            encode_every: 1,
            directory: None,
        }
    }

    pub(crate) fn settings(&self, rank: u32) -> Settings {
        let home = self.homes[rank as usize];
        let memory = self.nodes[home].path().to_owned();
        let job = JOB;
        let base = Settings::new(job, memory, format!("node-{home}"));
        let (directory, directory_every) = self.directory.clone().unzip();
        let directory_every = directory_every.unwrap_or(0);
        let (scheme, tracking) = (self.scheme, self.tracking);
        let encode_every = EncodeEvery::Nth(self.encode_every);
        Settings { scheme, group_members: 64, tracking, directory, directory_every, encode_every, ..base }
    }

    /// Runs the job to step `last`. The victim dies at its message number `strokes`, the others soon after.
    pub(crate) fn launch(&self, last: u64, strokes: Option<(u32, u64)>) -> Vec<End> {
        let network = Network::new(self.ranks, self.seed, strokes);
        let connections = network.connections();
        std::thread::scope(|scope| {
            let run = |connection: Connection| {
                let settings = self.settings(connection.number());
                scope.spawn(move || self.run(connection, &settings, last))
            };
            let threads: Vec<_> = connections.into_iter().map(run).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| panic!("seed {}: a rank panicked", self.seed)))
                .collect()
        })
    }

    fn run(&self, connection: Connection, settings: &Settings, last: u64) -> End {
        let rank = connection.number();
        match self.steps(connection, settings, last) {
            Ok(content) => End::Finished(content),
            Err(MemberError::Transport(_)) => End::Killed,
            Err(error) => End::Failed(format!("rank {rank}: {error}")),
        }
    }

    fn steps(&self, connection: Connection, settings: &Settings, last: u64) -> Result<Checksum, MemberError> {
        let (program, asks) = (Program::new(self.seed, connection.number()), connection.asks());
        let is_quiet =
            |after: &str| assert!(!asks.load(Ordering::SeqCst), "a message is asked for still, after {after}");
        let mut member = Member::join(connection, settings)?;
        is_quiet("joining");
        member.protect(STEP, program.step)?;
        if let Some(bytes) = member.regions().recorded(standfast_group::RegionId(FIELD)) {
            member.protect(FIELD, program.field.part(0, bytes as usize))?;
            member.restore()?;
            is_quiet("restoring");
            let (step, promised) = (program.step(), self.promised());
            assert!(step >= promised, "rank {} goes back to step {step}, and {promised} was promised", program.rank);
            assert_eq!(program.content(), Program::truth(self.seed, program.rank, step), "at step {step}");
            if program.rank == 0 {
                self.back_at.store(step, Ordering::SeqCst);
            }
        } else {
            assert_eq!(member.joined(), Joined::New);
            assert_eq!(self.promised(), 0, "the job begins again");
        }
        while program.step() < last {
            program.advance();
            assert!(member.due(Duration::ZERO)?);
            is_quiet("asking whether one is due");
            member.protect(FIELD, program.registered_field(program.step()))?;
            let taken = member.checkpoint()?;
            is_quiet("a checkpoint");
            match taken {
                CheckpointEnd::Committed(epoch) => {
                    self.promised.fetch_max(program.step(), Ordering::SeqCst);
                    if member.encoded() == Some(epoch) {
                        self.encoded.fetch_max(program.step(), Ordering::SeqCst);
                    }
                }
                CheckpointEnd::Abandoned(reason) => panic!("a checkpoint was given up: {reason}"),
            }
        }
        member.finish()?;
        Ok(program.content())
    }

    pub(crate) fn promised(&self) -> u64 {
        self.promised.load(Ordering::SeqCst)
    }

    pub(crate) fn encoded(&self) -> u64 {
        self.encoded.load(Ordering::SeqCst)
    }

    pub(crate) fn back_at(&self) -> u64 {
        self.back_at.load(Ordering::SeqCst)
    }

    /// Notes that more was lost than is tolerated. Only what the directory holds is promised, which may be as much as
    /// `step`.
    pub(crate) fn promise(&mut self, step: u64) {
        (self.promised, self.encoded) = (AtomicU64::new(step), AtomicU64::new(step));
    }

    /// Replaces a node's memory: the old one is gone, and with it what is not encoded.
    pub(crate) fn lose(&mut self, node: usize) {
        self.nodes[node] = fresh_memory();
        self.promised = AtomicU64::new(self.encoded());
    }

    pub(crate) fn truth(&self, last: u64) -> Vec<End> {
        (0..self.ranks).map(|rank| End::Finished(Program::truth(self.seed, rank, last))).collect()
    }

    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        let entries = |path: &Path| -> Vec<PathBuf> {
            let entries = std::fs::read_dir(path).expect("the node is there");
            entries.map(|entry| entry.expect("it can be listed").path()).collect()
        };
        self.nodes.iter().flat_map(|node| entries(node.path())).collect()
    }
}

pub(crate) fn fresh_memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").expect("there is a memory file system")
}
