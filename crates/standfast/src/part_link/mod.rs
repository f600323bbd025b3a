//! How a part reaches the other parts: it asks the coordinator, over the connection of whoever has asked for the cut or the
//! restart. If that connection ends, the part gives up: it runs on without a checkpoint.

mod conversation;
mod datagrams;
mod wire;

pub(crate) use conversation::Conversation;

use crate::quoting::InWords;
use datagrams::WantedDatagrams;
use standfast_engine::{CutPartners, CutReport, DistantDatagram, Meeting, RestartPartners, RestartStep, RestartToken};
use standfast_format::BoxError;
use standfast_format::manifest::Epoch;
use standfast_parts::{
    ConnectionEnd, CutOrder, FromPart, ListChanges, MeetingReport, OppositeEnd, RestartBarrier, ToPart,
};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a part waits until all are ready. The coordinator gives up earlier.
const READY_MAX: Duration = Duration::from_secs(900);
/// How long a part stays frozen for the others. The coordinator gives up earlier.
const FROZEN_MAX: Duration = Duration::from_secs(30);
/// How long a part of a restart waits for the others, which may have to wait for their ports.
const RESTART_MAX: Duration = Duration::from_secs(180);

const NOT_ALONE: &str = "a part of a distributed job is checkpointed with all others only";

/// What makes a job a part of a distributed one.
#[derive(Debug, Clone)]
pub struct JobPart {
    link: Arc<PartLink>,
    restart: Option<Arc<RestartLink>>,
}

impl JobPart {
    /// Returns a part that begins.
    pub(crate) fn new() -> Self {
        Self { link: Arc::default(), restart: None }
    }

    /// Returns the part in `directory`, which continues together with the others.
    pub(crate) fn restarting(stream: UnixStream, token: RestartToken, directory: &Path) -> io::Result<Self> {
        let conversation = Mutex::new(Conversation::begin(stream, RESTART_MAX)?);
        let datagrams = WantedDatagrams::new(directory, &token);
        Ok(Self { link: Arc::default(), restart: Some(Arc::new(RestartLink { conversation, token, datagrams })) })
    }

    pub(crate) fn link(&self) -> Arc<PartLink> {
        Arc::clone(&self.link)
    }

    /// Returns the other parts, if they are being restarted as well.
    pub(crate) fn in_restart(&self) -> Option<&dyn RestartPartners> {
        self.restart.as_deref().map(|link| link as &dyn RestartPartners)
    }
}

/// The way to the other parts during a cut.
#[derive(Debug, Default)]
pub(crate) struct PartLink {
    under_way: Mutex<Option<CutUnderWay>>,
    needed: Mutex<NeededEpochs>,
    /// Whether the last attempt of this part had used what was no longer so.
    was_outdated: AtomicBool,
    wait: Mutex<WaitForOthers>,
}

/// What the coordinator has said of epochs.
#[derive(Debug, Clone, Copy, Default)]
struct NeededEpochs {
    /// The last one that all parts are known to have sealed.
    complete: Option<Epoch>,
    /// The last one that all parts are known to have on disk.
    on_disk: Option<Epoch>,
    /// The last one that was to be flushed.
    to_flush: Option<Epoch>,
    /// The last one that was asked for.
    last: Option<Epoch>,
}

/// The wait until all parts are ready. It may be long, and ends with the job of this part.
#[derive(Debug, Default)]
struct WaitForOthers {
    is_over: bool,
    /// The connection over which the answer comes, while this part waits.
    stream: Option<UnixStream>,
}

#[derive(Debug)]
struct CutUnderWay {
    epoch: Epoch,
    conversation: Conversation,
    /// What was reported at the last meeting, and heard there.
    ends: Vec<ConnectionEnd>,
    others: Vec<OppositeEnd>,
}

impl PartLink {
    /// Begins a cut. `stream` is the connection to whoever has asked for it, and `said` what was read from it already.
    pub(crate) fn begin_cut(&self, order: CutOrder, stream: UnixStream, said: Vec<u8>) {
        let epoch = wire::epoch(order.epoch);
        let conversation = Conversation::begin_after(said, stream, FROZEN_MAX);
        *locked(&self.under_way) = conversation.ok().map(|conversation| CutUnderWay {
            epoch,
            conversation,
            ends: Vec::new(),
            others: Vec::new(),
        });
        *locked(&self.wait) = WaitForOthers::default();
        let mut needed = locked(&self.needed);
        *needed = NeededEpochs {
            complete: order.complete.map(wire::epoch).or(needed.complete),
            on_disk: order.on_disk.map(wire::epoch).or(needed.on_disk),
            to_flush: order.is_to_flush.then_some(epoch).or(needed.to_flush),
            last: Some(epoch),
        };
    }

    /// Ends it, however it went.
    pub(crate) fn end_cut(&self) {
        *locked(&self.under_way) = None;
    }

    /// Returns the epoch of the cut under way.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        locked(&self.under_way).as_ref().map(|cut| cut.epoch)
    }

    /// Returns the last epoch that all parts are known to have sealed.
    pub(crate) fn last_complete(&self) -> Option<Epoch> {
        locked(&self.needed).complete
    }

    /// Returns the last epoch that all parts are known to have on disk.
    pub(crate) fn last_on_disk(&self) -> Option<Epoch> {
        locked(&self.needed).on_disk
    }

    /// Reports whether the checkpoint that was asked for last is to be flushed to the disk, if it is in memory.
    pub(crate) fn is_to_flush(&self) -> bool {
        let needed = locked(&self.needed);
        needed.last == needed.to_flush
    }

    /// Reports whether an epoch is to be on disk when the job has ended. Of newer ones it is not known whether all parts have
    /// them.
    pub(crate) fn is_for_disk(&self, epoch: Option<Epoch>) -> bool {
        let needed = locked(&self.needed);
        epoch.is_some() && (epoch == needed.complete || epoch == needed.to_flush)
    }

    pub(crate) fn was_outdated(&self) -> bool {
        self.was_outdated.load(Ordering::Relaxed)
    }

    pub(crate) fn note_outdated(&self, is_outdated: bool) {
        self.was_outdated.store(is_outdated, Ordering::Relaxed);
    }

    /// Reports that this part is ready to be frozen, and waits until all are.
    pub(crate) fn await_freeze(&self) -> Result<(), String> {
        let stream = locked(&self.under_way).as_ref().and_then(|cut| cut.conversation.stream().ok());
        {
            let mut wait = locked(&self.wait);
            if wait.is_over {
                return Err("the job of this part has stopped or ended".to_owned());
            }
            wait.stream = stream;
        }
        let answer = self.ask_within(READY_MAX, &FromPart::Ready);
        locked(&self.wait).stream = None;
        match answer? {
            ToPart::Freeze => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Ends the wait until all parts are ready, now or when it begins.
    pub(crate) fn interrupt_wait(&self) {
        let mut wait = locked(&self.wait);
        wait.is_over = true;
        if let Some(stream) = wait.stream.take() {
            // If it has been closed, nobody waits for anything.
            let _ = stream.shutdown(Shutdown::Read);
        }
    }

    /// Reports that this part is captured, and waits until all are.
    pub(crate) fn await_thaw(&self) -> Result<(), String> {
        match self.ask(&FromPart::Captured)? {
            ToPart::Thaw => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// Says something while this part is frozen, and waits for the answer.
    fn ask(&self, message: &FromPart) -> Result<ToPart, String> {
        self.ask_within(FROZEN_MAX, message)
    }

    fn ask_within(&self, patience: Duration, message: &FromPart) -> Result<ToPart, String> {
        locked(&self.under_way).as_mut().ok_or(NOT_ALONE)?.ask(patience, message)
    }
}

impl CutUnderWay {
    /// Returns what has changed since the last meeting.
    fn changes(&mut self, report: &CutReport) -> MeetingReport {
        let said = wire::report(report);
        let before = std::mem::replace(&mut self.ends, said.ends);
        MeetingReport { ends: ListChanges::between(&before, &self.ends), found: said.found, udp: said.udp }
    }

    /// Says something, and waits for the answer.
    fn ask(&mut self, patience: Duration, message: &FromPart) -> Result<ToPart, String> {
        self.conversation.set_patience(patience).map_err(|error| InWords(&error).to_string())?;
        ask(&mut self.conversation, message)
    }
}

impl CutPartners for PartLink {
    fn meet(&self, report: CutReport) -> Result<Meeting, BoxError> {
        let mut under_way = locked(&self.under_way);
        let cut = under_way.as_mut().ok_or(NOT_ALONE)?;
        let changes = cut.changes(&report);
        match cut.ask(FROZEN_MAX, &FromPart::Frozen(changes))? {
            ToPart::Partners { others, asked, closed, udp, is_settled } => {
                if !others.apply(&mut cut.others) {
                    return Err("the coordinator has answered for ends that this part does not have".into());
                }
                let meeting = wire::meeting(&cut.others, &asked, &closed, is_settled);
                Ok(Meeting { udp: udp.into_iter().map(wire::endpoint).collect(), ..meeting })
            }
            other => Err(unexpected(other).into()),
        }
    }
}

/// The way to the other parts during a restart.
#[derive(Debug)]
struct RestartLink {
    conversation: Mutex<Conversation>,
    token: RestartToken,
    datagrams: WantedDatagrams,
}

impl RestartPartners for RestartLink {
    fn arrive(&self, step: RestartStep) -> Result<(), BoxError> {
        let phase = match step {
            RestartStep::Listening => RestartBarrier::Listening,
            RestartStep::Rebuilt => RestartBarrier::Rebuilt,
            RestartStep::Ready => RestartBarrier::Ready,
        };
        match ask(&mut locked(&self.conversation), &FromPart::Reached { phase })? {
            ToPart::Continue => Ok(()),
            other => Err(unexpected(other).into()),
        }
    }

    fn connect(&self, has_all: bool) -> Result<bool, BoxError> {
        let reached = FromPart::Reached { phase: RestartBarrier::Connected };
        match ask(&mut locked(&self.conversation), if has_all { &reached } else { &FromPart::Short })? {
            ToPart::Continue => Ok(true),
            ToPart::Again => Ok(false),
            other => Err(unexpected(other).into()),
        }
    }

    fn want_datagrams(&self, wanted: &[DistantDatagram]) -> Result<(), BoxError> {
        self.datagrams.want(wanted)
    }

    fn wanted_datagrams(&self) -> Result<Vec<DistantDatagram>, BoxError> {
        self.datagrams.wanted()
    }

    fn token(&self) -> RestartToken {
        self.token
    }
}

fn ask(conversation: &mut Conversation, message: &FromPart) -> Result<ToPart, String> {
    let answer = conversation.say(message).and_then(|()| conversation.hear());
    answer.map_err(|error| format!("the coordinator of the distributed job does not answer: {}", InWords(&error)))
}

fn unexpected(message: ToPart) -> String {
    match message {
        ToPart::GiveUp { reason } => reason,
        other => format!("the coordinator said what was not its turn to say: {other:?}"),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
