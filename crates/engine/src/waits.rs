//! Waits with a time limit keep it, however often a checkpoint or a restart interrupts them.
//!
//! The kernel repeats an interrupted call with all of its arguments, including the time limit. The exceptions are the
//! few calls for which it remembers when to stop (`nanosleep`, `poll`, `futex`), but a rebuilt process remembers
//! nothing. The arguments belong to the program and stay as they are. So we remember when we first found a wait and how
//! long it may last. At that time we *end* it, with the answer that the kernel gives when a limit is reached. A wait may
//! last longer than requested by the time that it had already lasted when it was first found, unless it was seen to
//! sleep before that. It never lasts shorter.
//!
//! A tag that we leave at the call ([`Registers::tag_wait`]) distinguishes the same wait from a later one with the same
//! arguments. Older kernels have no room for it: there, each checkpoint restarts the limit.

use standfast_core::Address;
use standfast_format::records::Wait;
use standfast_linux::abi;
use standfast_linux::proc::{self, Sleep};
use standfast_linux::sys::{process, socket};
use standfast_linux::{Abort, Pid, ProcessMemory, Registers, SYSCALL_INSTRUCTION, Tid};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How far before a `syscall` instruction we look for the number of the call.
const CODE_BEFORE_CALL: usize = 34;
/// Two clocks of a machine differ in speed by one part in this many at most; adjustments are limited to half of that.
const CLOCKS_DIFFER: u64 = 1000;
/// Calls that sleep for a limited time on request, and whose limits a new process or a stop restarts.
const MAY_HAVE_LIMITS: [i64; 17] = [
    abi::SYS_epoll_wait,
    abi::SYS_epoll_pwait,
    abi::SYS_epoll_pwait2,
    abi::SYS_poll,
    abi::SYS_nanosleep,
    abi::SYS_clock_nanosleep,
    abi::SYS_futex,
    abi::SYS_rt_sigtimedwait,
    abi::SYS_semtimedop,
    abi::SYS_read,
    abi::SYS_readv,
    abi::SYS_recvfrom,
    abi::SYS_recvmsg,
    abi::SYS_recvmmsg,
    abi::SYS_accept,
    abi::SYS_accept4,
    abi::SYS_sendmsg,
];
const FUTEX_COMMAND: u64 = 0x7f;
const TIMER_ABSTIME: u64 = abi::TIMER_ABSTIME as u64;
/// Clocks that continue while a thread waits, all at the same speed.
const TIMES_OF_DAY: [i32; 6] = [
    abi::CLOCK_REALTIME,
    abi::CLOCK_MONOTONIC,
    abi::CLOCK_BOOTTIME,
    abi::CLOCK_REALTIME_ALARM,
    abi::CLOCK_BOOTTIME_ALARM,
    abi::CLOCK_TAI,
];

/// The waits in which the job's threads have been found, by thread.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    met: HashMap<Tid, Met>,
    /// Threads that were seen to sleep shortly before the stop, and since when they slept.
    asleep: HashMap<Tid, (Sleep, Instant)>,
    last_tag: u32,
}

/// A wait in which a thread was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Met {
    pub(crate) pid: Pid,
    /// 0 on kernels that have no room for a tag.
    tag: u32,
    /// The call that was first made.
    pub(crate) call: i64,
    /// When its limit is reached, if it has one.
    end: Option<Instant>,
    /// Whether we must end it, since the kernel would let it last longer.
    is_ours_to_end: bool,
}

/// What is known about the call in which a task was interrupted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Interrupted {
    /// The call that was first made, if it is known.
    pub(crate) call: Option<i64>,
    /// When its limit is reached, if it has one.
    end: Option<Instant>,
}

impl Interrupted {
    /// Returns the wait for the image.
    pub(crate) fn wait(&self) -> Option<Wait> {
        let remaining = self.end?.saturating_duration_since(Instant::now());
        Some(Wait { call: self.call?, remaining_nanoseconds: u64::try_from(remaining.as_nanos()).unwrap_or(u64::MAX) })
    }
}

impl Waits {
    /// Notes which threads of these processes sleep in a call that may have a limit, and since when. They run meanwhile.
    pub(crate) fn prefetch(&mut self, pids: &[Pid]) {
        self.asleep.clear();
        for tid in pids.iter().flat_map(|pid| proc::threads(*pid).unwrap_or_default()) {
            let may_have_limit = call_of_task(tid).is_some_and(|call| MAY_HAVE_LIMITS.contains(&call));
            let Some(sleep) = Some(tid).filter(|_| may_have_limit).and_then(Sleep::of) else { continue };
            // The scheduler's clock differs from the one that measures limits, and may be faster by this much.
            let slept = Duration::from_nanos(sleep.nanoseconds - sleep.nanoseconds / CLOCKS_DIFFER);
            self.asleep.extend(Instant::now().checked_sub(slept).map(|since| (tid, (sleep, since))));
        }
    }

    /// Returns when a task that was just stopped in a call fell asleep in it. Returns `None` unless the task was seen to
    /// sleep, and has only woken up and stopped since.
    fn asleep_since(&self, tid: Tid, call: i64, registers: &Registers) -> Option<Instant> {
        let (sleep, since) = self.asleep.get(&tid)?;
        let same = (sleep.call, sleep.arguments, sleep.stack) == (call, registers.arguments(), registers.stack());
        (same && Sleep::times_slept(tid)? == sleep.times_slept + 1).then_some(*since)
    }

    /// Notes a task that was just stopped; if it is in a call, the kernel will repeat that call. Tags the wait, or ends
    /// it if its limit has been reached. `is_limited` says that the kernel reported the interruption as it does for
    /// waits with a limit.
    pub(crate) fn meet(
        &mut self,
        pid: Pid,
        tid: Tid,
        registers: &mut Registers,
        memory: &ProcessMemory,
        is_limited: bool,
    ) -> Interrupted {
        let known_tag = self.met.get(&tid).map_or(0, |met| met.tag);
        if registers.may_be_making_call_again(known_tag) && is_at_call(registers, memory) {
            registers.take_back_restart();
        }
        let Abort::Restart { number } = registers.pending_restart() else {
            self.met.remove(&tid);
            return Interrupted::default();
        };
        let tag = registers.tag();
        let is_nameless = number == abi::SYS_restart_syscall;
        let known = self.met.remove(&tid).filter(|met| met.tag == tag && (tag != 0 || is_nameless));
        let call = match known {
            Some(met) => Some(met.call),
            None if is_nameless => call_in_code(registers, memory),
            None => Some(number),
        };
        let has_block = registers.has_restart_block();
        let Some(call) = call.filter(|_| is_limited || has_block || tag != 0) else {
            return Interrupted { call, end: None };
        };
        let now = Instant::now();
        let end = match known.filter(|_| tag != 0) {
            Some(met) => met.end,
            None => limit(pid, memory, call, registers.arguments()).and_then(|limit| match limit {
                Limit::Whole(limit) => self.asleep_since(tid, call, registers).unwrap_or(now).checked_add(limit),
                Limit::Remaining(limit) => now.checked_add(limit),
            }),
        };
        if end.is_none() && !has_block && tag == 0 {
            return Interrupted { call: Some(call), end };
        }
        if known.is_some() && end.is_some_and(|end| end <= now) {
            registers.end_call(answer_at_limit(call));
            return Interrupted::default();
        }
        let is_ours_to_end = known.is_some_and(|met| met.is_ours_to_end || !has_block);
        let met = Met { pid, tag: self.new_tag(), call, end, is_ours_to_end };
        if met.tag != 0 {
            registers.tag_wait(met.tag);
        }
        self.met.insert(tid, met);
        Interrupted { call: Some(call), end }
    }

    /// Notes a wait of a thread in a rebuilt process. Its registers must not have been changed since they were saved.
    pub(crate) fn resume(&mut self, pid: Pid, tid: Tid, registers: &mut Registers, wait: &Wait) {
        let is_there = registers.pending_restart() == Abort::Restart { number: wait.call };
        let end = Instant::now().checked_add(Duration::from_nanos(wait.remaining_nanoseconds));
        let tag = self.new_tag();
        if is_there && tag != 0 {
            registers.tag_wait(tag);
            self.met.insert(tid, Met { pid, tag, call: wait.call, end, is_ours_to_end: true });
        }
    }

    /// Returns what is known about the call of a thread that has not run since it was rebuilt.
    pub(crate) fn resumed(&self, tid: Tid, registers: &Registers) -> Interrupted {
        let Abort::Restart { number } = registers.pending_restart() else { return Interrupted::default() };
        Interrupted { call: Some(number), end: self.met.get(&tid).and_then(|met| met.end) }
    }

    /// Takes over the waits of another process of the job.
    pub(crate) fn append(&mut self, others: &Self) {
        self.met.extend(&others.met);
        self.last_tag = self.last_tag.max(others.last_tag);
    }

    /// Returns a tag that does not repeat within two billion calls.
    fn new_tag(&mut self) -> u32 {
        if !process::call_numbers_have_room() {
            return 0;
        }
        self.last_tag = self.last_tag % (i32::MAX as u32) + 1;
        self.last_tag
    }

    /// Returns when the next wait must be ended.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        self.met.values().filter(|met| met.is_ours_to_end).filter_map(|met| met.end).min()
    }

    /// Returns the threads whose waits must be ended by now, and the calls in which they wait. Each is returned once.
    pub(crate) fn take_due(&mut self) -> Vec<(Tid, Met)> {
        let now = Instant::now();
        let is_due = |met: &Met| met.is_ours_to_end && met.end.is_some_and(|end| end <= now);
        let due = self.met.iter_mut().map(|(tid, met)| (*tid, met)).filter(|(_, met)| is_due(met));
        due.map(|(tid, met)| {
            met.is_ours_to_end = false;
            (tid, *met)
        })
        .collect()
    }
}

/// The maximum time for which a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// Counted from its beginning.
    Whole(Duration),
    /// Counted from now on.
    Remaining(Duration),
}

pub(crate) fn call_of_task(tid: Tid) -> Option<i64> {
    call_of(&proc::read(tid.as_process(), "syscall").ok()?)
}

/// Returns the call in which a thread waits, according to `/proc/PID/syscall`; `None` if the thread runs.
fn call_of(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.split_whitespace().next()?.parse().ok()
}

/// Reports whether a thread continues at a `syscall` instruction.
fn is_at_call(registers: &Registers, memory: &ProcessMemory) -> bool {
    let mut next = [0; SYSCALL_INSTRUCTION.len()];
    memory.read(Address::new(registers.instruction()), &mut next).is_ok() && next == SYSCALL_INSTRUCTION
}

/// Returns the number of the call in progress, according to the code before it.
fn call_in_code(registers: &Registers, memory: &ProcessMemory) -> Option<i64> {
    let mut code = [0u8; CODE_BEFORE_CALL];
    let end = registers.instruction().saturating_sub(SYSCALL_INSTRUCTION.len() as u64);
    memory.read(Address::new(end.saturating_sub(code.len() as u64)), &mut code).ok()?;
    Registers::call_in_code(&code)
}

/// Returns what a call returns when its limit is reached.
fn answer_at_limit(call: i64) -> i64 {
    match call {
        abi::SYS_nanosleep | abi::SYS_clock_nanosleep | abi::SYS_poll => 0,
        abi::SYS_epoll_wait | abi::SYS_epoll_pwait | abi::SYS_epoll_pwait2 => 0,
        abi::SYS_futex => -i64::from(abi::ETIMEDOUT),
        // Sockets, semaphores and signals.
        _ => -i64::from(abi::EAGAIN),
    }
}

/// Returns how long an interrupted call waits at most. Returns `None` if it has no limit, if its limit is a point in
/// time, or if the limit is measured in processor time.
fn limit(pid: Pid, memory: &ProcessMemory, call: i64, arguments: [u64; 6]) -> Option<Limit> {
    let [first, second, third, fourth, ..] = arguments;
    let milliseconds = |argument: u64| u64::try_from(argument as i32).ok().map(Duration::from_millis);
    let at = |address: u64| timespec(memory, address);
    // The kernel has just stored the rest of the sleep, if the program wants to know it.
    let remaining = |address: u64| at(address).map(Limit::Remaining);
    let whole = match call {
        abi::SYS_epoll_wait | abi::SYS_epoll_pwait => milliseconds(fourth),
        abi::SYS_poll => milliseconds(third),
        abi::SYS_epoll_pwait2 | abi::SYS_semtimedop => at(fourth),
        abi::SYS_rt_sigtimedwait => at(third),
        abi::SYS_nanosleep if second != 0 => return remaining(second),
        abi::SYS_nanosleep => at(first),
        abi::SYS_clock_nanosleep if !TIMES_OF_DAY.contains(&(first as i32)) || second & TIMER_ABSTIME != 0 => None,
        abi::SYS_clock_nanosleep if fourth != 0 => return remaining(fourth),
        abi::SYS_clock_nanosleep => at(third),
        abi::SYS_futex if second & FUTEX_COMMAND == abi::FUTEX_WAIT as u64 => at(fourth),
        abi::SYS_read
        | abi::SYS_readv
        | abi::SYS_recvfrom
        | abi::SYS_recvmsg
        | abi::SYS_recvmmsg
        | abi::SYS_accept
        | abi::SYS_accept4 => limit_of_socket(pid, first, abi::SO_RCVTIMEO),
        abi::SYS_write | abi::SYS_writev | abi::SYS_sendto | abi::SYS_sendmsg | abi::SYS_sendmmsg => {
            limit_of_socket(pid, first, abi::SO_SNDTIMEO)
        }
        _ => None,
    };
    whole.map(Limit::Whole)
}

/// Reads a `struct timespec` of the program.
fn timespec(memory: &ProcessMemory, address: u64) -> Option<Duration> {
    let mut words = [[0u8; 8]; 2];
    if address == 0 {
        return None;
    }
    memory.read(Address::new(address), words.as_flattened_mut()).ok()?;
    let [seconds, nanoseconds] = words.map(i64::from_le_bytes);
    Some(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?))
}

/// Returns how long calls on a socket may wait; a `struct timeval` of zero means for ever.
fn limit_of_socket(pid: Pid, descriptor: u64, option: i32) -> Option<Duration> {
    let process = process::pidfd_open(pid).ok()?;
    let socket = process::pidfd_getfd(process.as_fd(), descriptor as i32).ok()?;
    let value = socket::option(socket.as_fd(), abi::SOL_SOCKET, option, 16).ok()?;
    let word = |place: usize| Some(u64::from_le_bytes(value.get(place..place + 8)?.try_into().ok()?));
    let limit = Duration::from_secs(word(0)?).checked_add(Duration::from_micros(word(8)?))?;
    (!limit.is_zero()).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAX: usize = 10;
    const ORIG_RAX: usize = 15;

    const RIP: usize = 16;

    /// Returns a thread of this process that waits in a call with a limit of one minute, in milliseconds.
    fn waiting() -> Registers {
        let mut words = [60_000u64; 27];
        words[ORIG_RAX] = abi::SYS_epoll_wait as u64;
        words[RAX] = -514i64 as u64;
        Registers(words)
    }

    #[test]
    fn a_wait_is_recognised_by_its_tag() {
        let own = Pid::own();
        let thread = own.main_thread();
        let memory = ProcessMemory::open(own).unwrap();
        let mut waits = Waits::default();
        let mut first = waiting();
        let end = waits.meet(own, thread, &mut first, &memory, true).end.unwrap();
        assert_eq!(waits.next_end(), None, "the kernel ends it in time");
        let mut again = first;
        assert_eq!(waits.meet(own, thread, &mut again, &memory, false).end, Some(end));
        assert_eq!(waits.next_end(), Some(end));
        let mut later = waiting();
        assert!(waits.meet(own, thread, &mut later, &memory, true).end.unwrap() > end);
        assert_eq!(waits.next_end(), None);
    }

    #[test]
    fn a_wait_is_recognised_where_the_kernel_is_about_to_make_its_call_again() {
        // mov $SYS_poll, %eax; syscall
        let code = [0xb8, abi::SYS_poll as u8, 0, 0, 0, SYSCALL_INSTRUCTION[0], SYSCALL_INSTRUCTION[1], 0x90];
        let syscall = code.as_ptr().addr() as u64 + 5;
        let own = Pid::own();
        let thread = own.main_thread();
        let memory = ProcessMemory::open(own).unwrap();
        let mut waits = Waits::default();
        let back_at = |number: u64| {
            let mut words = [60_000u64; 27];
            (words[ORIG_RAX], words[RAX], words[RIP]) = (u64::MAX, number, syscall);
            Registers(words)
        };
        let mut nameless = back_at(abi::SYS_restart_syscall as u64);
        let first = waits.meet(own, thread, &mut nameless, &memory, false);
        assert_eq!((first.call, nameless.instruction()), (Some(abi::SYS_poll), syscall + 2));
        let again = Abort::Restart { number: abi::SYS_restart_syscall };
        assert_eq!((first.end.is_some(), nameless.pending_restart()), (true, again));
        let mut tagged = back_at(u64::from(nameless.tag()) << 32 | abi::SYS_epoll_wait as u64);
        assert_eq!(waits.meet(own, thread, &mut tagged, &memory, false).end, first.end);
        let mut untagged = back_at(abi::SYS_epoll_wait as u64);
        assert_eq!(waits.meet(own, thread, &mut untagged, &memory, false).call, None);
    }

    #[test]
    fn a_wait_ends_only_when_its_time_limit_is_reached() {
        let own = Pid::own();
        let thread = own.main_thread();
        let memory = ProcessMemory::open(own).unwrap();
        for (remaining, ended) in [(0, true), (60_000_000_000, false)] {
            let mut waits = Waits::default();
            let mut registers = waiting();
            waits.resume(
                own,
                thread,
                &mut registers,
                &Wait { call: abi::SYS_epoll_wait, remaining_nanoseconds: remaining },
            );
            assert_eq!(waits.take_due().len(), usize::from(ended));
            waits.meet(own, thread, &mut registers, &memory, false);
            assert_eq!((registers.pending_restart() == Abort::None, registers.result() == 0), (ended, ended));
        }
    }

    #[test]
    fn the_call_of_a_waiting_thread_is_read() {
        assert_eq!(call_of(b"232 0x3 0x7ffc 0x1\n"), Some(232));
        assert_eq!(call_of(b"running\n"), None);
    }
}
