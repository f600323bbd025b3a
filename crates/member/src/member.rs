//! A member: one process of a running program in its group. It joins, registers memory, takes checkpoints together with
//! all others, rolls back, and leaves.

mod flushes;
mod memory;

use crate::Settings;
use crate::directory::{Flush, LevelDirectory};
use crate::driver_message::{Arrangement, DriverMessage, InDirectory, Wire};
use crate::encode_every::EncodeRatio;
use crate::error::MemberError;
use crate::launch_progress::LaunchProgress;
use crate::memory_place;
use crate::regions::RegisteredRegions;
use crate::rendezvous::{self, logical_rank_directory};
use crate::shard_store::FileShardStore;
use crate::transport::{Patience, Transport};
use rustix::rand::{GetRandomFlags, getrandom};
use standfast_group::{
    Beginning, Effect, EpochId, EpochLevel, Event, Life, LogicalRank, Membership, Process, Rank, Resumption, ShardId,
    ShardStore as _, SlotMap, SlotSet, Stage,
};
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How a process begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joined {
    /// The job begins.
    New,
    /// The job rolls back to this epoch, and this process found its own shard of it.
    Survivor(EpochId),
    /// The same, but its shard was lost and has been rebuilt.
    Replacement(EpochId),
}

/// How a checkpoint ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckpointEnd {
    /// The checkpoint counts.
    Committed(EpochId),
    /// The checkpoint does not count, for this reason. The previous one does, and the program continues.
    Abandoned(String),
}

/// One process in its group.
#[derive(Debug)]
pub struct Member<T> {
    wire: Wire<T>,
    process: Process,
    shard_store: FileShardStore,
    regions: RegisteredRegions,
    directory: PathBuf,
    arrangement: Arrangement,
    joined: Joined,
    /// Whether this process's shard of the epoch that was sealed last had been lost.
    rebuilt: bool,
    /// Whether shard stores of other nodes' logical ranks lie here, until an epoch has been committed.
    strangers: bool,
    resumption: Option<Resumption>,
    last: Instant,
    copies: Copies,
    /// Chooses which epochs are encoded, if that is left to the group.
    encode_ratio: Option<EncodeRatio>,
    /// The file in which this process reports the progress of the launch.
    launch_progress: Option<PathBuf>,
}

/// The copying of epochs to the directory.
#[derive(Debug)]
struct Copies {
    directory: Option<LevelDirectory>,
    every: u64,
    /// Number of the last encoded epoch.
    encoded: u64,
    /// This process's copy in progress.
    flush: Option<Flush>,
    /// Number of copies, of all processes, whose end has not been reported to the first process.
    awaited: u32,
}

impl<T: Transport> Member<T> {
    /// Joins the group; all processes of the job do so at once. Lost shards are rebuilt before this returns.
    ///
    /// # Errors
    /// [`MemberError`]: existing data has not been harmed.
    pub fn join(transport: T, settings: &Settings) -> Result<Self, MemberError> {
        let buffers = transport.buffers();
        let mut wire = Wire::new(transport, settings.job);
        let mut arrangement = rendezvous::call(&mut wire, settings)?;
        let launch_progress = settings.launch_progress.clone().filter(|_| wire.rank() == 0);
        if let Some(Err(error)) = launch_progress.as_deref().map(|path| LaunchProgress::Joined.report(path)) {
            arrangement.warnings.push(format!("cannot report to `standfast group run` that all have joined: {error}"));
        }
        let directory = wire.agree(memory_place::take(&settings.memory, settings.job))?;
        let logical_rank = LogicalRank(wire.rank());
        let opened = rendezvous::carry_out(&mut wire, &directory, &arrangement).and_then(|()| {
            FileShardStore::open(
                &logical_rank_directory(&directory, logical_rank),
                settings.job,
                logical_rank,
                &arrangement.plan,
            )
        });
        let shard_store = wire.agree(opened)?;
        let beginning = Beginning {
            rank: Rank(wire.rank()),
            prefers: Some(logical_rank),
            started: shard_store.is_unreadable(),
            costs: settings.costs,
            encode_every: settings.encode_every.at_first(),
        };
        let process_settings = standfast_group::ProcessSettings { beginning, compress: settings.compress, full: None };
        let plan = Arc::new(arrangement.plan.plan(settings.job)?);
        let copies = Copies {
            directory: settings.directory.as_deref().map(LevelDirectory::new),
            every: settings.directory_every,
            encoded: 0,
            flush: None,
            awaited: 0,
        };
        let mut member = Self {
            process: Process::new(plan, process_settings).with_buffers(buffers),
            regions: RegisteredRegions::new(settings.tracking),
            strangers: true,
            joined: Joined::New,
            rebuilt: false,
            resumption: None,
            last: Instant::now(),
            copies,
            encode_ratio: EncodeRatio::of(settings.encode_every),
            launch_progress,
            wire,
            shard_store,
            directory,
            arrangement,
        };
        let recovered = member.recover(logical_rank);
        member.and_pause(recovered)?;
        Ok(member)
    }

    fn recover(&mut self, logical_rank: LogicalRank) -> Result<(), MemberError> {
        match self.recovered()? {
            Resumption::Start(_) => self.joined = Joined::New,
            Resumption::Rollback(epoch, taken) if taken == logical_rank => {
                let encoded = self.process.protocol().kept();
                self.copies.encoded = encoded.map_or(0, |encoded| encoded.number);
                let map = self.own_map(epoch);
                let mut differs = SlotSet::default();
                if encoded != Some(epoch) {
                    differs.extend(&map.used());
                    differs.extend(&encoded.map(|encoded| self.own_map(encoded).used()).unwrap_or_default());
                }
                self.regions.adopt(map, differs);
            }
            other => return Err(MemberError::Disagreement(format!("the job cannot begin like this: {other:?}"))),
        }
        match &self.copies.directory {
            Some(directory) if self.wire.rank() == 0 => directory.note_life(self.shard_store.life()),
            _ => Ok(()),
        }
    }

    /// Returns the map of this process's slots to pages in an epoch that is stored here.
    fn own_map(&self, epoch: EpochId) -> SlotMap {
        let logical_rank = LogicalRank(self.wire.rank());
        let descriptions = self.shard_store.descriptions(ShardId { epoch, logical_rank });
        let own = descriptions.iter().find(|description| description.logical_rank == logical_rank);
        own.map(|own| own.map.clone()).unwrap_or_default()
    }

    /// Recovers from memory; if that has too little, or nothing at all, from the directory. All processes do the same.
    fn recovered(&mut self) -> Result<Resumption, MemberError> {
        let older = self.arrangement.directory.clone();
        let from_memory = match &older {
            Some(InDirectory::Epochs { is_newest: true, .. }) => None,
            _ => Some(self.begin_with(1)),
        };
        match (from_memory, older) {
            (Some(Ok(back @ Resumption::Rollback(..))), _) => Ok(back),
            (Some(Ok(_)), Some(InDirectory::NotEnough(reason))) => Err(MemberError::Disagreement(reason)),
            (Some(Err(MemberError::Refused(refusal))), Some(InDirectory::NotEnough(reason))) => {
                Err(MemberError::Disagreement(format!("{refusal}; and {reason}")))
            }
            (None | Some(Ok(_) | Err(MemberError::Refused(_))), Some(InDirectory::Epochs { epochs, life, .. })) => {
                self.go_back_by_directory(&epochs, life)
            }
            (Some(from_memory), _) => from_memory,
            (None, _) => unreachable!("only an epoch of the directory can be newer than what is in memory"),
        }
    }

    /// Rolls back to the newest of these epochs whose copies prove good.
    fn go_back_by_directory(&mut self, epochs: &[EpochId], life: Life) -> Result<Resumption, MemberError> {
        let mut refused = None;
        for (membership, epoch) in (2..).zip(epochs) {
            self.fetch(*epoch, life)?;
            match self.begin_with(membership) {
                Err(MemberError::Refused(refusal)) => refused = refused.or(Some(refusal)),
                began => return began,
            }
        }
        Err(refused.expect("there is one epoch at least").into())
    }

    fn begin_with(&mut self, membership: u64) -> Result<Resumption, MemberError> {
        let present = (0..self.wire.ranks()).map(Rank).collect();
        let resumption = self.drive(Event::Membership(Membership { number: membership, present }))?;
        if let Resumption::Rollback(epoch, _) = resumption {
            self.joined = if self.rebuilt { Joined::Replacement(epoch) } else { Joined::Survivor(epoch) };
        }
        Ok(resumption)
    }

    /// Replaces the shard of this process's logical rank in memory by the one in the directory.
    fn fetch(&mut self, epoch: EpochId, life: Life) -> Result<(), MemberError> {
        let (logical_rank, job) = (LogicalRank(self.wire.rank()), epoch.job);
        let directory = self.copies.directory.as_ref().expect("the arrangement names an epoch of it");
        let place = logical_rank_directory(&self.directory, logical_rank);
        directory.fetch(ShardId { epoch, logical_rank }, life, &place)?;
        self.shard_store = FileShardStore::open(&place, job, logical_rank, &self.arrangement.plan)?;
        let reason = "memory holds too little to continue from";
        self.arrangement.warnings.push(format!("the job rolls back to epoch {epoch} of the directory: {reason}"));
        Ok(())
    }

    /// Returns how this process began.
    pub fn joined(&self) -> Joined {
        self.joined
    }

    /// Returns the newest epoch that survives the loss of a node, within the tolerance of the code. Later ones are local.
    pub fn encoded(&self) -> Option<EpochId> {
        self.process.protocol().kept()
    }

    /// Returns the pages that it keeps beside the program: its own, and those of checks.
    pub fn pages(&self) -> (usize, usize) {
        self.shard_store.pages()
    }

    /// Returns warnings as text: a node whose loss would be too much, losses beyond the tolerance of the code, a failed
    /// copy to the directory.
    pub fn warnings(&self) -> &[String] {
        &self.arrangement.warnings
    }

    /// Returns the registered memory.
    pub fn regions(&self) -> &RegisteredRegions {
        &self.regions
    }

    /// Fills the registered memory from the epoch to which the job rolls back. All processes call it at once.
    ///
    /// # Errors
    /// If there is no epoch, or a process has not registered one of its regions; then no memory of any process has been
    /// touched. If the shard of one process is damaged, all get the error, and their memory may hold anything: end the
    /// job. No checkpoint can be taken of it.
    pub fn restore(&mut self) -> Result<EpochId, MemberError> {
        self.restore_and(|| Ok(()))
    }

    /// Restores like [`Self::restore`], and then calls `take_up` to let the program adopt the restored state. If that
    /// fails in one process, all get an error.
    ///
    /// # Errors
    /// As above.
    pub fn restore_and(&mut self, take_up: impl FnOnce() -> Result<(), MemberError>) -> Result<EpochId, MemberError> {
        let (Joined::Survivor(epoch) | Joined::Replacement(epoch)) = self.joined else {
            return Err(MemberError::Disagreement("the job has just begun: there is nothing to restore".into()));
        };
        let filled = self.fill(epoch, take_up);
        self.and_pause(filled)?;
        self.regions.is_restored();
        Ok(epoch)
    }

    fn fill(&mut self, epoch: EpochId, take_up: impl FnOnce() -> Result<(), MemberError>) -> Result<(), MemberError> {
        let registered = self.regions.check_registered();
        self.wire.agree(registered)?;
        let filled =
            self.regions.fill(&self.shard_store, ShardId { epoch, logical_rank: LogicalRank(self.wire.rank()) });
        self.wire.agree(filled.and_then(|()| take_up()))
    }

    /// Takes a checkpoint. All processes call it at once, with none of the program's messages in flight.
    ///
    /// # Errors
    /// [`MemberError`]: the group cannot continue. If a checkpoint fails but the program can continue, the result is
    /// [`CheckpointEnd::Abandoned`].
    pub fn checkpoint(&mut self) -> Result<CheckpointEnd, MemberError> {
        match self.regions.check_restored() {
            Ok(()) => self.take_checkpoint(Event::Arrived(random())),
            Err(error) => self.give_up_checkpoint(format!("process {}: {error}", self.wire.rank())),
        }
    }

    /// Takes part in a checkpoint of all processes in which this one cannot do its share. The checkpoint is abandoned,
    /// for this reason.
    ///
    /// # Errors
    /// As above.
    pub fn give_up_checkpoint(&mut self, reason: String) -> Result<CheckpointEnd, MemberError> {
        self.take_checkpoint(Event::Unable(random(), reason))
    }

    fn take_checkpoint(&mut self, arrival: Event) -> Result<CheckpointEnd, MemberError> {
        let taken = self.commit_or_abandon(arrival);
        self.and_pause(taken)
    }

    fn commit_or_abandon(&mut self, arrival: Event) -> Result<CheckpointEnd, MemberError> {
        let begun = Instant::now();
        self.regions.scan();
        self.report_flush()?;
        let outcome = match self.drive(arrival)? {
            Resumption::Committed(epoch, level) => {
                if let Some(ratio) = &mut self.encode_ratio {
                    ratio.note(level, begun.elapsed());
                    ratio.every().into_iter().for_each(|every| self.process.set_encode_every(every));
                }
                // A local epoch leaves everything stored beside it unchanged.
                if level == EpochLevel::Encoded {
                    self.regions.is_encoded();
                    self.remove_strangers()?;
                    self.flush(epoch)?;
                    self.copies.encoded = epoch.number;
                }
                CheckpointEnd::Committed(epoch)
            }
            Resumption::Abandoned(reason) => CheckpointEnd::Abandoned(reason),
            other => return Err(MemberError::Disagreement(format!("a checkpoint cannot end like this: {other:?}"))),
        };
        self.last = Instant::now();
        Ok(outcome)
    }

    /// Reports whether this much time has passed since the last checkpoint, by the clock of the first process. All
    /// processes call it at once, and get the same answer.
    ///
    /// # Errors
    /// [`MemberError::Transport`]
    pub fn due(&mut self, interval: Duration) -> Result<bool, MemberError> {
        if self.wire.rank() == 0 {
            let due = self.last.elapsed() >= interval;
            self.wire.send_driver_to_all(&DriverMessage::Due(due))?;
        }
        let due = self.wire.message_of(|message| match message {
            DriverMessage::Due(due) => Some(*due),
            _ => None,
        });
        self.and_pause(due)
    }

    /// Pauses the transport and returns this result: the program continues, or ends.
    fn and_pause<V>(&mut self, done: Result<V, MemberError>) -> Result<V, MemberError> {
        let paused = self.wire.pause();
        done.and_then(|value| paused.map(|()| value))
    }

    /// Leaves the group at the end of the program. When all processes have called this, nothing of the job remains in
    /// memory.
    ///
    /// # Errors
    /// [`MemberError`]
    pub fn finish(mut self) -> Result<(), MemberError> {
        // The result of the last copy no longer matters.
        drop(self.copies.flush.take().map(Flush::end));
        self.wire.send_driver(0, &DriverMessage::Done)?;
        if self.wire.rank() == 0 {
            for _ in 0..self.wire.ranks() {
                self.await_done()?;
            }
            let job = self.arrangement.job;
            self.copies.directory.take().map_or(Ok(()), |directory| directory.remove_all(job))?;
            // The launching process can do without this report: it waits for the launcher's end all the same.
            let _ = self.launch_progress.take().map(|path| LaunchProgress::Left.report(&path));
            self.wire.send_driver_to_all(&DriverMessage::Done)?;
        }
        self.await_done()?;
        self.remove_strangers()?;
        let directory = logical_rank_directory(&self.directory, LogicalRank(self.wire.rank()));
        drop(self.shard_store);
        fs::remove_dir_all(&directory).map_err(MemberError::file(&directory))?;
        // The last process of a node removes the job's directory, and that of the last job the user's.
        let _ = fs::remove_dir(&self.directory);
        let _ = self.directory.parent().map(fs::remove_dir);
        Ok(())
    }

    fn await_done(&mut self) -> Result<(), MemberError> {
        self.wire.message_of(|message| matches!(message, DriverMessage::Done).then_some(()))
    }

    /// Removes the local shard stores of logical ranks that are on other nodes now.
    fn remove_strangers(&mut self) -> Result<(), MemberError> {
        let (me, leaders) = (self.wire.rank(), &self.arrangement.leaders);
        if std::mem::take(&mut self.strangers) && leaders[me as usize] == me {
            let here: Vec<LogicalRank> =
                (0..).zip(leaders).filter(|(_, leader)| **leader == me).map(|(it, _)| LogicalRank(it)).collect();
            return rendezvous::remove_strangers(&self.directory, &here);
        }
        Ok(())
    }

    /// Passes an event to the process and carries out its effects, until the program may continue and nothing is in
    /// progress. If this process fails, it informs the others, which would wait for it.
    fn drive(&mut self, event: Event) -> Result<Resumption, MemberError> {
        let driven = self.drive_on(event);
        if let Err(error) = driven.as_ref()
            && error.is_own()
        {
            let (me, message) = (self.wire.rank(), DriverMessage::Leaves(error.to_string()));
            for other in (0..self.wire.ranks()).filter(|rank| *rank != me) {
                // A process that cannot be informed has trouble of its own.
                let _ = self.wire.send_driver(other, &message);
            }
        }
        driven
    }

    fn drive_on(&mut self, event: Event) -> Result<Resumption, MemberError> {
        let mut events = VecDeque::from([event]);
        self.resumption = None;
        loop {
            while let Some(event) = events.pop_front() {
                for effect in self.process.handle(event, &mut self.regions, &mut self.shard_store) {
                    events.extend(self.act(effect)?);
                }
            }
            if *self.process.protocol().stage() == Stage::Idle
                && let Some(resumption) = self.resumption.take()
            {
                return Ok(resumption);
            }
            let patience = if self.process.moves_much() { Patience::Bulk } else { Patience::Answer };
            let (from, message) = self.wire.protocol_message(patience)?;
            events.push_back(Event::Message(Rank(from), message));
        }
    }

    fn act(&mut self, effect: Effect) -> Result<Option<Event>, MemberError> {
        let answer = |done: Result<(), MemberError>, event: Event, epoch: EpochId| match done {
            Ok(()) => event,
            Err(error) => Event::Unstored(epoch, error.to_string()),
        };
        Ok(match effect {
            Effect::Send(to, bytes) => {
                self.wire.send(to.0, bytes)?;
                None
            }
            Effect::Survey(membership) => Some(Event::Surveyed(membership, self.shard_store.survey())),
            Effect::Seal(work) => {
                let shard = ShardId { epoch: work.epoch, logical_rank: LogicalRank(self.wire.rank()) };
                self.rebuilt = work.recovery && self.shard_store.is_open(shard);
                Some(answer(self.shard_store.seal(work), Event::Sealed(work.epoch), work.epoch))
            }
            Effect::Acknowledge(epoch) => {
                Some(answer(self.shard_store.acknowledge(epoch), Event::Acknowledged(epoch), epoch))
            }
            Effect::Keep { epoch, logical_rank, life } => {
                self.shard_store.keep(epoch, logical_rank, life)?;
                Some(Event::Kept)
            }
            Effect::Resume(resumption) => {
                self.resumption = Some(resumption);
                None
            }
            Effect::Refuse(refusal) => return Err(refusal.into()),
            Effect::Leave(reason) => return Err(MemberError::Leave(reason)),
            Effect::Rejected(from, error) => {
                return Err(MemberError::Leave(format!("a message of process {}: {error}", from.0)));
            }
        })
    }
}

/// Returns a random number that no other process draws.
fn random() -> u64 {
    let mut bytes = [0; 8];
    while !matches!(getrandom(&mut bytes, GetRandomFlags::empty()), Ok(8)) {}
    u64::from_le_bytes(bytes)
}
