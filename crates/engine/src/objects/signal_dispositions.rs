//! What each signal does in a process (sigaction(2)).

use crate::EngineError;
use crate::construction::Construction;
use crate::remote_caller::{Answers, RemoteCallBatch, RemoteCaller, Words};
use standfast_format::records::Disposition;
use standfast_linux::abi;
use standfast_linux::proc::Status;

const SIGCHLD: u8 = abi::SIGCHLD as u8;
const SIGNAL_SET_BYTES: u64 = 8;
/// The kernel's `struct sigaction`: handler, flags, restorer, mask.
const WORDS: usize = 4;
/// A number that leaves room for all other questions in the batch.
const AT_ONCE: usize = 16;

/// Questions about the signals of a process.
pub(crate) struct AskedDispositions {
    asked: Vec<AskedDisposition>,
    /// Signals for which the batch had no room.
    more_signals: Vec<u8>,
}

/// A signal, and the question about it.
type AskedDisposition = (u8, Words<WORDS>);

impl AskedDispositions {
    /// Asks only about signals that are caught or ignored, and about SIGCHLD, whose flags matter even with the default
    /// action. Only these can differ from those of a new process.
    pub(crate) fn of(batch: &mut RemoteCallBatch, status: &Status) -> Self {
        let changed = status.caught | status.ignored | 1 << (SIGCHLD - 1);
        let mut signals: Vec<u8> = (1..=64).filter(|signal| changed & 1 << (signal - 1) != 0).collect();
        let more_signals = signals.split_off(signals.len().min(AT_ONCE));
        Self { asked: ask(batch, &signals), more_signals }
    }

    /// Returns the dispositions that differ from the default, and asks for those that the batch had no room for.
    pub(crate) fn dispositions(
        &self,
        answers: &Answers,
        remote_caller: &RemoteCaller<'_>,
    ) -> Result<Vec<Disposition>, EngineError> {
        let mut dispositions = changed(&self.asked, answers)?;
        for some in self.more_signals.chunks(AT_ONCE) {
            let mut batch = remote_caller.batch();
            let asked = ask(&mut batch, some);
            dispositions.append(&mut changed(&asked, &remote_caller.put(&batch)?)?);
        }
        Ok(dispositions)
    }
}

fn ask(batch: &mut RemoteCallBatch, signals: &[u8]) -> Vec<AskedDisposition> {
    let mut ask =
        |signal: u8| batch.ask(abi::SYS_rt_sigaction, |output| [u64::from(signal), 0, output, SIGNAL_SET_BYTES]);
    signals.iter().map(|signal| (*signal, ask(*signal))).collect()
}

fn changed(asked: &[AskedDisposition], answers: &Answers) -> Result<Vec<Disposition>, EngineError> {
    let mut dispositions = Vec::new();
    for (signal, question) in asked.iter().copied() {
        let [handler, flags, restorer, mask] = answers.words(question)?;
        if [handler, flags, mask] != [0; 3] {
            dispositions.push(Disposition { signal, handler, flags, restorer, mask });
        }
    }
    Ok(dispositions)
}

impl Construction {
    pub(crate) fn set_disposition(&self, disposition: &Disposition) -> Result<(), EngineError> {
        let words = [disposition.handler, disposition.flags, disposition.restorer, disposition.mask];
        self.set_action(disposition.signal, words)
    }

    /// Gives a signal its default action.
    pub(crate) fn reset_disposition(&self, signal: i32) -> Result<(), EngineError> {
        self.set_action(signal as u8, [0; WORDS])
    }

    fn set_action(&self, signal: u8, words: [u64; WORDS]) -> Result<(), EngineError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let action = format!("setting what signal {signal} does");
        let arguments = [signal.into(), self.argument(&bytes)?, 0, SIGNAL_SET_BYTES, 0, 0];
        self.call(&action, abi::SYS_rt_sigaction, arguments).map(drop)
    }
}
