//! A switch that a system call sets for a process or a thread: how it is read into the record, and how it is set again.
//! The tables of switches are beside the records that hold them; a new switch is one entry of one table.

use crate::EngineError;
use crate::construction::{Construction, building};
use crate::remote_caller::{Answers, Number, RemoteCallBatch, Words};
use standfast_linux::Call;
use standfast_linux::abi;
use standfast_linux::proc::Status;

/// One switch. `R` is the record that holds it.
pub(super) struct Switch<R> {
    /// What the task itself is asked.
    pub(super) ask: Ask,
    /// Notes the switch in the record.
    pub(super) note: fn(&mut R, Seen<'_>),
    /// Returns the call that sets the switch as recorded; `None` if a new process has it so.
    pub(super) set: fn(&R) -> Option<Call>,
    /// What an error of that call says.
    pub(super) action: &'static str,
    /// The consequence of such an error.
    pub(super) refused: Refused,
}

/// A question about a switch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask {
    /// None: `/proc/PID/status` shows the switch.
    Nothing,
    /// The result of a call. A kernel that does not know the call answers with a negative error.
    Result(Call),
    /// An int that prctl(2) stores, given this option.
    Stored(i32),
}

/// What is known about a switch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// The answer; 0 if nothing was asked.
    pub(super) answer: i64,
    pub(super) status: &'a Status,
}

/// What it means if the kernel refuses to set a switch.
#[derive(Debug, Clone, Copy)]
pub(super) enum Refused {
    /// The restart ends: the program may rely on the switch.
    Ends,
    /// Nothing: where the kernel refuses, the switch makes no difference.
    Passes,
    /// The program continues without the switch. That is noted with the field of the record, and what the switch is to
    /// people.
    Noted { field: &'static str, what: &'static str },
}

/// Returns a call of prctl(2).
pub(super) const fn prctl(option: i32, first: u64, second: u64) -> Call {
    Call { number: abi::SYS_prctl, arguments: [option as u64, first, second, 0, 0, 0] }
}

/// Switches that a task is asked about.
pub(super) struct AskedSwitches<R: 'static>(Vec<AskedSwitch<R>>);

struct AskedSwitch<R: 'static> {
    switch: &'static Switch<R>,
    question: Question,
}

enum Question {
    Nothing,
    Result(Number),
    Stored(Words<1>),
}

impl<R> AskedSwitches<R> {
    pub(super) fn of(batch: &mut RemoteCallBatch, switches: impl IntoIterator<Item = &'static Switch<R>>) -> Self {
        let asked = switches.into_iter().map(|switch| {
            let question = match switch.ask {
                Ask::Nothing => Question::Nothing,
                Ask::Result(Call { number, arguments }) => Question::Result(batch.call(number, arguments)),
                Ask::Stored(option) => {
                    Question::Stored(batch.ask(abi::SYS_prctl, |output| [option as u64, output, 0, 0]))
                }
            };
            AskedSwitch { switch, question }
        });
        Self(asked.collect())
    }

    /// Notes the switches in a record. `status` is that of the task that has answered.
    pub(super) fn note(&self, record: &mut R, answers: &Answers, status: &Status) -> Result<(), EngineError> {
        for AskedSwitch { switch, question } in &self.0 {
            let answer = match *question {
                Question::Nothing => 0,
                Question::Result(question) => answers.number(question),
                // The upper half of the word holds old contents.
                Question::Stored(question) => answers.words(question).map(|[word]| i64::from(word as u32))?,
            };
            (switch.note)(record, Seen { answer, status });
        }
        Ok(())
    }
}

impl Construction {
    /// Makes the thread at `place` set switches as recorded.
    pub(super) fn set_recorded<R>(
        &mut self,
        place: usize,
        switches: &[Switch<R>],
        record: &R,
    ) -> Result<(), EngineError> {
        let base = self.tasks[place].registers().map_err(building)?;
        for Switch { set, action, refused, .. } in switches {
            let Some(Call { number, arguments }) = set(record) else { continue };
            match (self.call_in(&self.tasks[place], &base, action, number, arguments), *refused) {
                (Ok(_), _) | (Err(_), Refused::Passes) => {}
                (Err(error), Refused::Ends) => return Err(error),
                (Err(error), Refused::Noted { field, what }) => self.go_without(field, what, &error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl<R: Default> Switch<R> {
    /// Reports whether some answer makes a restart set the switch, which it does not set in a new process.
    pub(super) fn is_carried(&self, status: &Status) -> bool {
        let is_set = |answer| {
            let mut record = R::default();
            (self.note)(&mut record, Seen { answer, status });
            (self.set)(&record).is_some()
        };
        (self.set)(&R::default()).is_none() && (0..=2).any(is_set)
    }
}
