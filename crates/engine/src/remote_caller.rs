//! Asks the kernel what only a task itself can ask, by injected system calls, many in one [`RemoteCallBatch`].

use crate::EngineError;
use crate::error::kernel;
use crate::freeze::FrozenTask;
use standfast_linux::abi;
use standfast_linux::proc::{self, Status};
use standfast_linux::sys::process;
use standfast_linux::{
    Call, DescriptorPassage, Injector, OwnState, ParasiteArea, Pid, RemoteTask, TaskError, WriteProtection,
};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};

/// Asks the kernel on behalf of one task.
pub(crate) struct RemoteCaller<'a> {
    pub(crate) injector: &'a Injector<'a>,
    pub(crate) remote_task: RemoteTask<'a>,
    extended: &'a [u8],
    /// Translates an error of the task. The error may carry the program's exit status, which can be read only once.
    ended: &'a dyn Fn(TaskError) -> EngineError,
}

impl<'a> RemoteCaller<'a> {
    pub(crate) fn new(
        injector: &'a Injector<'a>,
        task: &'a FrozenTask,
        extended: &'a [u8],
        status: &Status,
        ended: &'a dyn Fn(TaskError) -> EngineError,
    ) -> Result<Self, EngineError> {
        let (process, thread) = status.process_ids.last().zip(status.ids.last()).ok_or(EngineError::Ended)?;
        let ids = (*process, *thread);
        let (registers, mask, first_call) = (&task.registers, task.mask, task.interrupted.call);
        let own = OwnState { registers, extended, mask, first_call, ids };
        Ok(Self { injector, remote_task: injector.take(&task.task, own).map_err(ended)?, extended, ended })
    }

    /// Returns its XSAVE area.
    pub(crate) fn extended(&self) -> &[u8] {
        self.extended
    }

    pub(crate) fn call(&self, number: i64, arguments: [u64; 6]) -> Result<i64, EngineError> {
        self.remote_task.call(number, arguments).map_err(self.ended)
    }

    /// Takes over a userfaultfd of the program's address space; nothing of it stays in the program.
    pub(crate) fn make_userfault(&self, pid: Pid) -> Result<io::Result<OwnedFd>, EngineError> {
        let take = |made| process::pidfd_open(pid).and_then(|process| process::pidfd_getfd(process.as_fd(), made));
        let call = Call { number: abi::SYS_userfaultfd, arguments: [WriteProtection::CREATION_FLAGS, 0, 0, 0, 0, 0] };
        let numbers = proc::numbers(pid, "fd").map_err(|_| EngineError::Ended)?;
        let taken = self.remote_task.borrow_descriptor(call, lowest_free(&numbers), take).map_err(self.ended)?;
        Ok(taken.and_then(|taken| taken))
    }

    /// Returns our own copies of these descriptors of the process, which the process sends to us. `all` are the numbers
    /// of all its descriptors.
    pub(crate) fn take_descriptors(&self, numbers: &[i32], all: &[i32]) -> Result<Vec<OwnedFd>, EngineError> {
        let taking = |source| kernel("taking the program's descriptors", source);
        let (lowest, at) = (lowest_free(all), self.injector.output());
        let mut taken = Vec::with_capacity(numbers.len());
        for some in numbers.chunks(DescriptorPassage::DESCRIPTORS_MAX) {
            let passage = DescriptorPassage::open().map_err(taking)?;
            self.injector.write_output(&passage.message(at, some)).map_err(|_| EngineError::Ended)?;
            let results = self.remote_task.calls(&DescriptorPassage::calls(at, lowest)).map_err(self.ended)?;
            if results[0] >= 0 && results[0] != i64::from(lowest) {
                self.call(abi::SYS_close, [results[0] as u64, 0, 0, 0, 0, 0])?;
            }
            if let Some(failed) = results.iter().find(|result| **result < 0) {
                return Err(taking(io::Error::from_raw_os_error(-*failed as i32)));
            }
            let received = passage.receive().map_err(taking)?;
            if received.len() != some.len() {
                return Err(taking(io::Error::other("the message carries fewer than were sent")));
            }
            taken.extend(received);
        }
        Ok(taken)
    }

    /// Has the process of this task read the beginning of a file. Returns how much it is, or `None` if it cannot read it.
    pub(crate) fn read_file(&self, path: &str, pid: Pid, text: &mut [u8]) -> Result<Option<usize>, EngineError> {
        const FLAGS: u64 = (abi::O_RDONLY | abi::O_CLOEXEC) as u64;
        let at = self.injector.output();
        let own = |_| EngineError::Ended;
        self.injector.write_output(&[path.as_bytes(), b"\0"].concat()).map_err(own)?;
        let number = lowest_free(&proc::numbers(pid, "fd").map_err(own)?);
        let call = |number, arguments| Call { number, arguments };
        let results = self.remote_task.calls(&[
            call(abi::SYS_open, [at.get(), FLAGS, 0, 0, 0, 0]),
            call(abi::SYS_read, [number as u64, at.get(), text.len() as u64, 0, 0, 0]),
            call(abi::SYS_close, [number as u64, 0, 0, 0, 0, 0]),
        ]);
        let results = results.map_err(self.ended)?;
        if results[0] != i64::from(number) {
            if results[0] >= 0 {
                self.call(abi::SYS_close, [results[0] as u64, 0, 0, 0, 0, 0])?;
            }
            return Ok(None);
        }
        self.injector.read_output(text).map_err(own)?;
        Ok(usize::try_from(results[1]).ok())
    }

    /// Returns an empty batch of questions for this task.
    pub(crate) fn batch(&self) -> RemoteCallBatch {
        RemoteCallBatch { output: self.injector.output().get(), calls: Vec::new(), words: 0 }
    }

    /// Asks these questions.
    pub(crate) fn put(&self, batch: &RemoteCallBatch) -> Result<Answers, EngineError> {
        let results = self.remote_task.calls(&batch.calls).map_err(self.ended)?;
        let mut output = vec![0u8; batch.words * WORD];
        self.injector.read_output(&mut output).map_err(|_| EngineError::Ended)?;
        let numbers = batch.calls.iter().map(|call| call.number);
        Ok(Answers { results: numbers.zip(results).collect(), output })
    }

    /// Makes a call that fills `N` words, and reads them. `arguments` returns the first four, given the words' address.
    pub(crate) fn ask<const N: usize>(
        &self,
        number: i64,
        arguments: impl Fn(u64) -> [u64; 4],
    ) -> Result<[u64; N], EngineError> {
        let mut batch = self.batch();
        let words = batch.ask(number, arguments);
        self.put(&batch)?.words(words)
    }
}

/// Returns the number that the kernel gives to the next descriptor of a process that has these. It is the lowest that is
/// free, and every task is stopped.
fn lowest_free(numbers: &[i32]) -> i32 {
    let free = (0..).zip(numbers).find(|(place, number)| place != *number);
    free.map_or(numbers.len() as i32, |(place, _)| place)
}

const WORD: usize = size_of::<u64>();

/// Calls that one task makes in a single step.
#[derive(Debug)]
pub(crate) struct RemoteCallBatch {
    /// The address of the words that calls fill.
    output: u64,
    calls: Vec<Call>,
    words: usize,
}

/// A question whose answer is the result of the call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number {
    call: usize,
}

/// A question whose answer is words that the call fills.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<const N: usize> {
    call: usize,
    first: usize,
    _words: PhantomData<[u64; N]>,
}

impl RemoteCallBatch {
    /// How many words one batch can ask for.
    const WORDS_MAX: usize = ParasiteArea::OUTPUT_BYTES / WORD;

    /// Returns the address of memory that calls may fill.
    pub(crate) fn output(&self) -> u64 {
        self.output
    }

    pub(crate) fn call(&mut self, number: i64, arguments: [u64; 6]) -> Number {
        self.calls.push(Call { number, arguments });
        Number { call: self.calls.len() - 1 }
    }

    /// Adds a call that fills `N` words. `arguments` returns the first four, given the words' address.
    pub(crate) fn ask<const N: usize>(&mut self, number: i64, arguments: impl Fn(u64) -> [u64; 4]) -> Words<N> {
        let first = self.words;
        self.words += N;
        assert!(self.words <= Self::WORDS_MAX, "so much cannot be asked at once");
        let [a, b, c, d] = arguments(self.output + (first * WORD) as u64);
        let Number { call } = self.call(number, [a, b, c, d, 0, 0]);
        Words { call, first, _words: PhantomData }
    }
}

/// The answers of a task.
#[derive(Debug)]
pub(crate) struct Answers {
    /// The number of each call and the kernel's result.
    results: Vec<(i64, i64)>,
    output: Vec<u8>,
}

impl Answers {
    /// Returns the kernel's result, including negative errors.
    pub(crate) fn number(&self, question: Number) -> i64 {
        self.results[question.call].1
    }

    pub(crate) fn words<const N: usize>(&self, question: Words<N>) -> Result<[u64; N], EngineError> {
        let (number, result) = self.results[question.call];
        if result < 0 {
            let error = io::Error::from_raw_os_error(-result as i32);
            return Err(kernel(&format!("asking the program's kernel state (call {number})"), error));
        }
        let words = self.output[question.first * WORD..].chunks_exact(WORD);
        let mut words = words.map(|word| u64::from_le_bytes(word.try_into().expect("a word")));
        Ok(std::array::from_fn(|_| words.next().expect("as many as were asked for")))
    }
}
