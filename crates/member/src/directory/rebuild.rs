//! Rebuilding what a directory lacks of an epoch, without the program: the protocol's own recovery, with all seats in this
//! one process.

use super::{Directory, HeldEpoch};
use crate::error::MemberError;
use crate::settings::COSTS;
use crate::shelf::{FileShelf, make_durable};
use standfast_group::{
    Beginning, EpochId, Input, Muster, Nothing, Output, PieceId, Plan, Process, Rank, Resumption, Seat,
};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// What has been rebuilt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuilt {
    /// Of which epoch.
    pub epoch: EpochId,
    /// Whose pieces there were none of.
    pub seats: Vec<Seat>,
}

/// Rebuilds what the newest epoch that suffices lacks. Every piece is verified, also where nothing is missing.
///
/// # Errors
/// [`MemberError`]: there is none that suffices; the file system.
pub fn rebuild(directory: &Path) -> Result<Rebuilt, MemberError> {
    let place = Directory::new(directory);
    for held in place.epochs()? {
        if held.lacking()?.is_some() {
            continue;
        }
        match Workshop::open(&place, &held)?.work(held.epoch) {
            // A damaged piece of a local epoch cannot be rebuilt; the encoded one before it can.
            Err(MemberError::Refused(_)) if held.is_local() => {}
            rebuilt => return rebuilt,
        }
    }
    Err(MemberError::unusable(directory, "it holds no epoch of which the pieces that are there suffice"))
}

/// All seats of a job.
struct Workshop {
    seats: Vec<(Process, FileShelf)>,
    inputs: VecDeque<(usize, Input)>,
    missing: Vec<Seat>,
    place: Directory,
}

impl Workshop {
    fn open(place: &Directory, held: &HeldEpoch) -> Result<Self, MemberError> {
        let plan: Arc<Plan> = Arc::new(held.plan()?);
        let ranks = || (0..held.members() as u32).map(Rank);
        let seat = |rank: Rank| -> Result<(Process, FileShelf), MemberError> {
            let seat = Seat(rank.0);
            let path = place.place(PieceId { epoch: held.epoch, seat });
            let shelf = FileShelf::open(&path, held.epoch.job, seat, &held.plan)?;
            let beginning = Beginning { rank, prefers: Some(seat), started: true, costs: COSTS, encode_every: 1 };
            let settings = standfast_group::Settings { beginning, compress: false, anew: None };
            Ok((Process::new(plan.clone(), settings), shelf))
        };
        let seats = ranks().map(seat).collect::<Result<_, _>>()?;
        let muster = Muster { number: 1, present: ranks().collect() };
        let inputs = (0..held.members()).map(|at| (at, Input::Muster(muster.clone()))).collect();
        Ok(Self { seats, inputs, missing: held.missing(), place: place.clone() })
    }

    fn work(mut self, epoch: EpochId) -> Result<Rebuilt, MemberError> {
        let mut back = 0;
        while let Some((at, input)) = self.inputs.pop_front() {
            let (process, shelf) = &mut self.seats[at];
            let outputs = process.handle(input, &mut Nothing::default(), shelf);
            for output in outputs {
                back += usize::from(self.act(at, output, epoch)?);
            }
        }
        if back != self.seats.len() {
            return Err(MemberError::Disagreement("the rebuilding did not come to its end".into()));
        }
        for seat in &self.missing {
            make_durable(&self.place.place(PieceId { epoch, seat: *seat }))?;
        }
        self.place.prune()?;
        Ok(Rebuilt { epoch, seats: self.missing })
    }

    /// Does what one of them asks for. Says whether it has gone back to the epoch.
    fn act(&mut self, at: usize, output: Output, epoch: EpochId) -> Result<bool, MemberError> {
        let shelf = &mut self.seats[at].1;
        let input = match output {
            Output::Send(to, bytes) => {
                self.inputs.push_back((to.0 as usize, Input::Message(Rank(at as u32), bytes)));
                return Ok(false);
            }
            Output::Survey(muster) => Input::Surveyed(muster, shelf.survey()),
            Output::Seal(work) => {
                shelf.seal(work)?;
                Input::Sealed(work.epoch)
            }
            Output::Mark(epoch) => {
                shelf.mark(epoch)?;
                Input::Marked(epoch)
            }
            Output::Keep { epoch, seat, life } => {
                shelf.keep(epoch, seat, life)?;
                Input::Kept
            }
            Output::Resume(Resumption::Rollback(to, _)) if to == epoch => return Ok(true),
            Output::Resume(other) => {
                return Err(MemberError::Disagreement(format!("not what was asked for: {other:?}")));
            }
            Output::Refuse(refusal) => return Err(refusal.into()),
            Output::Leave(reason) => return Err(MemberError::Leave(reason)),
            Output::Rejected(from, error) => {
                return Err(MemberError::Disagreement(format!("seat {}: {error}", from.0)));
            }
        };
        self.inputs.push_back((at, input));
        Ok(false)
    }
}
