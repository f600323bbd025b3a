//! x86-64: the general registers, how they make a system call, and the signal frame that heals.

use std::ops::RangeInclusive;

/// The bytes of the `syscall` instruction.
pub const SYSCALL_INSTRUCTION: [u8; 2] = [0x0f, 0x05];

/// General registers in the order of `struct user_regs_struct`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers(pub [u64; 27]);

const RBX: usize = 5;
const RBP: usize = 4;
const R15: usize = 0;
const R14: usize = 1;
const R13: usize = 2;
const R12: usize = 3;
const R11: usize = 6;
const R10: usize = 7;
const R9: usize = 8;
const R8: usize = 9;
const RAX: usize = 10;
const RCX: usize = 11;
const RDX: usize = 12;
const RSI: usize = 13;
const RDI: usize = 14;
const ORIG_RAX: usize = 15;
const RIP: usize = 16;
const CS: usize = 17;
const EFLAGS: usize = 18;
const RSP: usize = 19;
const SS: usize = 20;
const FS_BASE: usize = 21;

/// Value of ORIG_RAX if no system call is in progress.
const NO_SYSCALL: u64 = u64::MAX;
/// The ABI's red zone: the bytes below its stack pointer that a leaf function may use.
const RED_ZONE_BYTES: u64 = 128;
/// `-ERESTARTNOHAND`: with a handler to run, the call gives EINTR; without one, it is made again.
const RESTART_UNLESS_HANDLED: i64 = -514;
/// `-ERESTART_RESTARTBLOCK`: as above, but made again through `restart_syscall` with the time that remains.
const RESTART_BLOCK: i64 = -516;
/// The codes with which the kernel marks a call that it will make again: -512, -513, -514, -516.
const RESTART_CODES: RangeInclusive<i64> = -516..=-512;
const CODE_515_IS_NO_RESTART: i64 = -515;

/// `-ERESTARTNOINTR`: made again in any case.
const RESTART_ALWAYS: i64 = -513;

/// Calls that return EINTR because of the stop itself, though no signal is to be handled (nine of them measured on
/// Linux 6.18; signal(7) names those that are never restarted, and sockets with a timeout). None of them has done
/// anything by then, so that making them again is harmless. If no handler runs, a program must not see that EINTR.
const INTERRUPTED_BY_STOP: [i64; 26] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    // These three only if the time limit is in memory to which the kernel cannot write the remaining time.
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_ppoll,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
    libc::SYS_io_uring_enter,
];

/// What happens to a call in progress when its tracer is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abort {
    /// No call, or one that is complete.
    None,
    /// The kernel would make this call again.
    Restart {
        /// Its number.
        number: i64,
    },
}

impl Registers {
    /// Returns the instruction pointer.
    pub fn instruction(&self) -> u64 {
        self.0[RIP]
    }

    /// Sets the instruction pointer.
    pub fn set_instruction(&mut self, address: u64) {
        self.0[RIP] = address;
    }

    /// Returns the stack pointer.
    pub fn stack(&self) -> u64 {
        self.0[RSP]
    }

    /// Returns the end of the memory that the stack does not use: below the stack pointer and its red zone.
    pub fn stack_dead_below(&self) -> u64 {
        self.0[RSP].saturating_sub(RED_ZONE_BYTES)
    }

    /// Returns the base of the thread's own variables.
    pub fn thread_pointer(&self) -> u64 {
        self.0[FS_BASE]
    }

    /// Reports whether the task runs 64-bit code; 32-bit programs are not supported.
    pub fn is_64_bit(&self) -> bool {
        self.0[CS] == 0x33
    }

    /// Returns the result of the system call just made.
    pub fn result(&self) -> i64 {
        self.0[RAX] as i64
    }

    /// Returns registers that make the call `number` at the `syscall` instruction at `instruction`, and keep everything
    /// else.
    #[must_use]
    pub fn calling(&self, instruction: u64, number: i64, arguments: [u64; 6]) -> Self {
        let mut registers = *self;
        registers.0[RIP] = instruction;
        registers.0[RAX] = number as u64;
        registers.0[ORIG_RAX] = NO_SYSCALL;
        for (place, argument) in [RDI, RSI, RDX, R10, R8, R9].into_iter().zip(arguments) {
            registers.0[place] = argument;
        }
        registers
    }

    /// Returns the arguments of the system call in progress.
    pub fn arguments(&self) -> [u64; 6] {
        [RDI, RSI, RDX, R10, R8, R9].map(|place| self.0[place])
    }

    /// Returns the number of the system call in progress, negative if there is none. The kernel looks only at the lower
    /// half.
    fn number(&self) -> i64 {
        (self.0[ORIG_RAX] as i32).into()
    }

    /// Returns registers that continue at `instruction` with the stack at `stack`, and no call to be made again.
    #[must_use]
    pub fn going_on(&self, instruction: u64, stack: u64) -> Self {
        let mut registers = *self;
        registers.0[RIP] = instruction;
        registers.0[RSP] = stack;
        registers.0[ORIG_RAX] = NO_SYSCALL;
        registers
    }

    /// Returns what the kernel would do with the interrupted call.
    pub fn pending_restart(&self) -> Abort {
        let (number, code) = (self.number(), self.0[RAX] as i64);
        if number < 0 || !RESTART_CODES.contains(&code) || code == CODE_515_IS_NO_RESTART {
            return Abort::None;
        }
        Abort::Restart { number }
    }

    /// Replaces an EINTR caused only by our stop with the code that lets the kernel decide, race-free, at the moment of
    /// the thaw: EINTR if a handler runs, the call again otherwise. Returns whether anything changed.
    pub fn forgive_interruption(&mut self) -> bool {
        let spurious = self.0[RAX] as i64 == -i64::from(libc::EINTR) && INTERRUPTED_BY_STOP.contains(&self.number());
        if spurious {
            self.0[RAX] = RESTART_UNLESS_HANDLED as u64;
        }
        spurious
    }

    /// Reports whether the kernel keeps the deadline of the interrupted call.
    pub fn has_restart_block(&self) -> bool {
        self.number() >= 0 && self.result() == RESTART_BLOCK
    }

    /// Returns the tag set by [`Registers::tag_wait`], or 0 if there is none.
    pub fn tag(&self) -> u32 {
        if self.number() < 0 { 0 } else { (self.0[ORIG_RAX] >> 32) as u32 }
    }

    /// Tags the interrupted call, which the kernel is about to make again, so that this wait can be distinguished from
    /// a later one with the same arguments. The tag is next to the call's number, in the half of the register that the
    /// kernel ignores (see [`crate::sys::process::call_numbers_have_room`]). It shows at later stops in the same wait,
    /// and is gone with it: no program can see it.
    pub fn tag_wait(&mut self, tag: u32) {
        let mut number = self.number();
        assert!(number >= 0 && tag <= i32::MAX as u32, "a call is tagged, and by a positive number");
        if self.has_restart_block() {
            // The kernel does the same, without the tag.
            number = libc::SYS_restart_syscall;
            self.0[RAX] = RESTART_UNLESS_HANDLED as u64;
        }
        self.0[ORIG_RAX] = u64::from(tag) << 32 | number as u64;
    }

    /// Reports whether this may be a task that the kernel has moved back to the `syscall` instruction, where it will make
    /// an interrupted call again: one with a restart block, or one with this tag.
    pub fn may_be_making_call_again(&self, tag: u32) -> bool {
        let (number, upper) = (self.0[RAX] as i32, (self.0[RAX] >> 32) as u32);
        i64::from(number) == libc::SYS_restart_syscall || (number >= 0 && tag != 0 && upper == tag)
    }

    /// Returns such a task to the state in which the kernel decides on the call.
    pub fn take_back_restart(&mut self) {
        let has_block = i64::from(self.0[RAX] as i32) == libc::SYS_restart_syscall;
        self.0[ORIG_RAX] = self.0[RAX];
        self.0[RAX] = if has_block { RESTART_BLOCK } else { RESTART_ALWAYS } as u64;
        self.0[RIP] += SYSCALL_INSTRUCTION.len() as u64;
    }

    /// Ends the interrupted call with `result`.
    pub fn end_call(&mut self, result: i64) {
        self.0[RAX] = result as u64;
        self.forget_call();
    }

    /// Returns the same registers for a process in which the kernel has no state of an interrupted call. The tag is
    /// removed, and a restart through the kernel's restart block becomes a plain one of `number`, the call that was
    /// first made. The kernel still decides whether a handler runs first when the thread is released.
    #[must_use]
    pub fn without_restart_block(&self, number: i64) -> Self {
        let mut registers = *self;
        let Abort::Restart { number: own } = self.pending_restart() else { return registers };
        if self.has_restart_block() {
            registers.0[RAX] = RESTART_UNLESS_HANDLED as u64;
        }
        let is_nameless = self.has_restart_block() || own == libc::SYS_restart_syscall;
        registers.0[ORIG_RAX] = if is_nameless { number } else { own } as u64;
        registers
    }

    /// Returns the same registers with the restart carried out by hand: at the `syscall` instruction, about to make the
    /// call again. For the signal frame that heals, since the kernel restarts nothing on a return from a handler.
    #[must_use]
    fn restarted(&self, number: i64) -> Self {
        let mut registers = *self;
        registers.0[RIP] -= SYSCALL_INSTRUCTION.len() as u64;
        registers.0[RAX] = number as u64;
        registers.0[ORIG_RAX] = NO_SYSCALL;
        registers
    }

    /// Removes the call from the registers: the task resumes at its current instruction, and no call is made again.
    pub fn forget_call(&mut self) {
        self.0[ORIG_RAX] = NO_SYSCALL;
    }

    /// Returns the number of the call in progress, for a task that waits in `restart_syscall`. The real number is found
    /// in the code before the `syscall` instruction, where compilers put `mov $number, %eax`. `before` are the bytes up
    /// to it.
    pub fn call_in_code(before: &[u8]) -> Option<i64> {
        const MOVE_TO_EAX: u8 = 0xb8;
        before.windows(5).rev().find_map(|code| match *code {
            [MOVE_TO_EAX, low, high, 0, 0] => Some(i64::from(low) | i64::from(high) << 8),
            _ => None,
        })
    }
}

/// Returns code that makes one system call after the other from [`CallRecord`]s on the stack, and leaves each result in
/// its record. The last one is the return from a signal handler at the start of a [`SigreturnFrame`]: a task that is
/// released anywhere in this code reaches that return and restores its own state.
pub fn healing_blob() -> [u64; 2] {
    let code: [u8; 16] = [
        0x58, // pop %rax
        0x5f, // pop %rdi
        0x5e, // pop %rsi
        0x5a, // pop %rdx
        0x41, 0x5a, // pop %r10
        0x41, 0x58, // pop %r8
        0x41, 0x59, // pop %r9
        0x0f, 0x05, // syscall
        0x50, // push %rax
        0x59, // pop %rcx
        0xeb, 0xf0, // jmp to the start
    ];
    let (low, high) = code.split_at(8);
    [low, high].map(|half| u64::from_le_bytes(half.try_into().expect("half of sixteen bytes")))
}

/// Offset of the `syscall` instruction in [`healing_blob`].
pub(crate) const SYSCALL_OFFSET: u64 = 10;

/// A system call as [`healing_blob`] takes it from the stack: number and arguments. The result replaces the last
/// argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallRecord([u64; 7]);

impl CallRecord {
    /// Size on the stack.
    pub(crate) const BYTES: usize = 7 * 8;

    /// Makes a record of the call `number` with these arguments.
    pub(crate) fn new(number: i64, arguments: [u64; 6]) -> Self {
        let [a, b, c, d, e, f] = arguments;
        Self([number as u64, a, b, c, d, e, f])
    }

    /// Returns the bytes on the stack.
    pub(crate) fn bytes(self) -> impl Iterator<Item = u8> {
        self.0.into_iter().flat_map(u64::to_le_bytes)
    }

    /// Returns the kernel's result from a record, negative errors included.
    pub(crate) fn result(record: &[u8]) -> i64 {
        i64::from_le_bytes(record[Self::BYTES - 8..Self::BYTES].try_into().expect("a whole record"))
    }
}

/// A signal frame that restores a task's own registers, vector state and mask, as bytes and their address.
///
/// ```text
///  high   | red zone of the task            |
///         | XSAVE area, both magic numbers  | 64-byte aligned
///         | ucontext                        | rt_sigreturn reads from here
///         | record of rt_sigreturn          | <- stack pointer when all injected calls are made
///         | (records of injected calls)     |
///  low    | (outputs of injected calls)     |
/// ```
#[derive(Debug, Clone)]
pub struct SigreturnFrame {
    /// Address of the first byte.
    pub start: u64,
    /// Bytes of the frame.
    pub bytes: Vec<u8>,
}

/// Length of `struct ucontext` of the x86-64 kernel, including the 8-byte signal mask.
const UCONTEXT_BYTES: usize = 304;
const UCONTEXT_WORDS: usize = UCONTEXT_BYTES / 8;
/// `UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS`.
const UCONTEXT_FLAGS: u64 = 7;
/// An impossible mode for sigaltstack(2): the kernel then leaves the task's alternate stack as it is.
const STACK_MODE_REFUSED: u64 = 0x40;
/// Byte offset of the software-reserved part of the legacy XSAVE area.
const SOFTWARE_BYTES: usize = 464;
const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;
/// Length of magic number 2 after the XSAVE area.
const MAGIC_2_BYTES: usize = 4;

impl SigreturnFrame {
    /// Returns the maximum number of bytes that a frame takes below `top`.
    pub fn bytes_max(extended_registers: usize) -> u64 {
        (extended_registers + MAGIC_2_BYTES + 64 + UCONTEXT_BYTES + 16 + CallRecord::BYTES) as u64
    }

    /// Makes a frame below `top` for a task with these registers, XSAVE area and mask. `first_call` is the call that a
    /// `restart_syscall` continues, if the task waits in one.
    pub fn below(top: u64, registers: &Registers, extended: &[u8], mask: u64, first_call: Option<i64>) -> Self {
        let area = top.saturating_sub((extended.len() + MAGIC_2_BYTES) as u64) & !63;
        let start = (area - UCONTEXT_BYTES as u64) & !15;
        let own = match registers.pending_restart() {
            Abort::Restart { number } => registers.restarted(first_call.unwrap_or(number)),
            Abort::None => *registers,
        };
        let mut bytes: Vec<u8> = CallRecord::new(libc::SYS_rt_sigreturn, [0; 6]).bytes().collect();
        bytes.extend(ucontext(&own, area, mask).into_iter().flat_map(u64::to_le_bytes));
        let start = start - CallRecord::BYTES as u64;
        bytes.resize((area - start) as usize + extended.len() + MAGIC_2_BYTES, 0);
        write_extended(&mut bytes[(area - start) as usize..], extended);
        Self { start, bytes }
    }
}

/// Builds `uc_flags, uc_link, uc_stack (3), gregs (23), fpstate, reserved (8), sigmask`.
fn ucontext(own: &Registers, area: u64, mask: u64) -> [u64; UCONTEXT_WORDS] {
    let r = &own.0;
    let segments = r[CS] | r[SS] << 48;
    let general = [
        r[R8], r[R9], r[R10], r[R11], r[R12], r[R13], r[R14], r[R15], r[RDI], r[RSI], r[RBP], r[RBX], r[RDX], r[RAX],
        r[RCX], r[RSP], r[RIP], r[EFLAGS], segments,
    ];
    let mut words = [0u64; UCONTEXT_WORDS];
    words[0] = UCONTEXT_FLAGS;
    words[3] = STACK_MODE_REFUSED;
    words[5..5 + general.len()].copy_from_slice(&general);
    words[28] = area;
    words[37] = mask;
    words
}

/// Writes the XSAVE area with the fields that the kernel expects in a signal frame: the features and sizes, framed by
/// two magic numbers.
fn write_extended(place: &mut [u8], extended: &[u8]) {
    let (area, tail) = place.split_at_mut(extended.len());
    area.copy_from_slice(extended);
    tail.copy_from_slice(&MAGIC_2.to_le_bytes());
    let features = xsave_features(extended);
    let software = &mut area[SOFTWARE_BYTES..SOFTWARE_BYTES + 20];
    software[0..4].copy_from_slice(&MAGIC_1.to_le_bytes());
    software[4..8].copy_from_slice(&((extended.len() + MAGIC_2_BYTES) as u32).to_le_bytes());
    software[8..16].copy_from_slice(&features.to_le_bytes());
    software[16..20].copy_from_slice(&(extended.len() as u32).to_le_bytes());
}

/// Returns the enabled XSAVE features (XCR0), which the kernel puts into the software-reserved bytes of an area from
/// ptrace.
pub(crate) fn xsave_features(extended: &[u8]) -> u64 {
    match extended.get(SOFTWARE_BYTES..SOFTWARE_BYTES + 8) {
        Some(bytes) => u64::from_le_bytes(bytes.try_into().expect("eight bytes")),
        None => 0,
    }
}

impl Registers {
    /// Returns the XSAVE features with which an area from ptrace was saved.
    pub fn xsave_features(extended: &[u8]) -> u64 {
        xsave_features(extended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupted(number: i64, code: i64) -> Registers {
        let mut words = [7u64; 27];
        words[ORIG_RAX] = number as u64;
        words[RAX] = code as u64;
        words[RIP] = 0x1002;
        words[RSP] = 0x7fff_0000;
        Registers(words)
    }

    #[test]
    fn every_restart_code_is_recognised_and_no_other() {
        for code in -520..0 {
            let restarts = matches!(code, -512 | -513 | -514 | -516);
            assert_eq!(interrupted(35, code).pending_restart() != Abort::None, restarts, "code {code}");
        }
        assert_eq!(interrupted(-1, -512).pending_restart(), Abort::None);
    }

    #[test]
    fn eintr_of_a_stop_is_hidden_only_for_calls_where_it_leaks() {
        assert!(interrupted(libc::SYS_epoll_wait, -4).forgive_interruption());
        assert!(!interrupted(libc::SYS_close, -4).forgive_interruption());
        assert!(!interrupted(libc::SYS_epoll_wait, 0).forgive_interruption());
    }

    #[test]
    fn a_restart_block_becomes_a_plain_restart_of_the_first_call() {
        let moved = interrupted(libc::SYS_restart_syscall, -516).without_restart_block(libc::SYS_nanosleep);
        assert_eq!(moved.pending_restart(), Abort::Restart { number: libc::SYS_nanosleep });
        assert_eq!(moved.result(), -514);
        let same = interrupted(libc::SYS_read, -512);
        assert_eq!(same.without_restart_block(libc::SYS_nanosleep), same);
    }

    #[test]
    fn a_tag_is_readable_at_the_next_stop_and_removed_for_the_image() {
        let mut waiting = interrupted(libc::SYS_epoll_wait, -4);
        assert!(waiting.forgive_interruption());
        waiting.tag_wait(9);
        assert_eq!((waiting.tag(), waiting.arguments()), (9, [7; 6]));
        assert_eq!(waiting.pending_restart(), Abort::Restart { number: libc::SYS_epoll_wait });
        assert_eq!(waiting.without_restart_block(libc::SYS_epoll_wait), interrupted(libc::SYS_epoll_wait, -514));
        let mut asleep = interrupted(libc::SYS_nanosleep, -516);
        asleep.tag_wait(1);
        assert_eq!(asleep.pending_restart(), Abort::Restart { number: libc::SYS_restart_syscall });
        assert_eq!(asleep.without_restart_block(libc::SYS_nanosleep), interrupted(libc::SYS_nanosleep, -514));
        asleep.end_call(0);
        assert_eq!((asleep.pending_restart(), asleep.tag(), asleep.result()), (Abort::None, 0, 0));
    }

    #[test]
    fn a_sigreturn_frame_redoes_the_interrupted_call() {
        let frame = SigreturnFrame::below(0x8000_0000, &interrupted(35, -516), &[0u8; 2432], 0, Some(230));
        let (record, frame_bytes) = frame.bytes.split_at(CallRecord::BYTES);
        assert!(record.iter().copied().eq(CallRecord::new(libc::SYS_rt_sigreturn, [0; 6]).bytes()));
        let word = |index: usize| u64::from_le_bytes(frame_bytes[index * 8..][..8].try_into().unwrap());
        assert_eq!((word(5 + 13), word(5 + 16)), (230, 0x1000));
        assert_eq!((frame.start + CallRecord::BYTES as u64) % 16, 0);
        assert_eq!(word(28) % 64, 0);
        assert!(frame.start + frame.bytes.len() as u64 <= 0x8000_0000);
        assert!(0x8000_0000 - frame.start <= SigreturnFrame::bytes_max(2432));
    }

    #[test]
    fn the_first_call_is_found_in_the_code() {
        let code = [0x90, 0xb8, 0xe6, 0, 0, 0, 0x90];
        assert_eq!(Registers::call_in_code(&code), Some(230));
        assert_eq!(Registers::call_in_code(&[0x90; 20]), None);
    }
}
