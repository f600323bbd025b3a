//! Processor state that Linux gives only to programs that ask for it, with room only for threads that use it: the
//! matrix registers (AMX).
//!
//! Asking is a system call. The kernel makes room with the first instruction that loads such state; before that it does
//! not let a tracer set these registers (EINVAL). So a thread that had some loads it itself, from the scratch memory.
//! It does so by an instruction in front of a system call that does not exist.

use crate::EngineError;
use crate::construction::{Construction, building};
use crate::error::kernel;
use crate::remote_caller::{Answers, RemoteCallBatch, Words};
use crate::scratch::SCRATCH_BYTES;
use standfast_format::records::ThreadState;
use standfast_linux::abi;
use standfast_linux::{SYSCALL_INSTRUCTION, Task};

/// `arch_prctl(2)`: the processor state that the program may use, as XSAVE features.
const ARCH_GET_XCOMP_PERM: u64 = 0x1022;
/// `arch_prctl(2)`: asks for one of them.
const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
/// XSAVE features that must be asked for: AMX tile data.
const MUST_BE_ASKED_FOR: u64 = 1 << 18;
/// The same, with the feature that describes their layout.
const LOADED: u64 = 1 << 17 | MUST_BE_ASKED_FOR;
/// Offset in an XSAVE area of the mask of its features.
const FEATURES_OFFSET: usize = 512;
/// `xrstor64 (%rdi)`: loads from there what `edx:eax` selects.
const LOAD_INSTRUCTION: [u8; 4] = [0x48, 0x0f, 0xae, 0x2f];

/// The question which processor state a process may use.
pub(crate) struct AskedFeatures(Words<1>);

impl AskedFeatures {
    pub(crate) fn of(batch: &mut RemoteCallBatch) -> Self {
        Self(batch.ask(abi::SYS_arch_prctl, |output| [ARCH_GET_XCOMP_PERM, output, 0, 0]))
    }

    /// Returns the features. Kernels before 5.16 have none that need a request.
    pub(crate) fn features(&self, answers: &Answers) -> u64 {
        answers.words(self.0).map_or(0, |[features]| features)
    }
}

impl Construction {
    /// Asks for processor state that must be asked for, before any thread has some.
    pub(crate) fn ask_for_features(&self, permitted: u64) -> Result<(), EngineError> {
        // Features that every program may use need no asking; asking for an allowed feature again does no harm.
        for feature in (0..u64::BITS).filter(|feature| permitted & MUST_BE_ASKED_FOR & 1 << feature != 0) {
            let action = "asking for processor state (AMX)";
            self.call(action, abi::SYS_arch_prctl, [ARCH_REQ_XCOMP_PERM, feature.into(), 0, 0, 0, 0])?;
        }
        Ok(())
    }

    /// Makes a thread use what it had of that state, so that there is room for it when its registers are set.
    pub(crate) fn make_room_for_state(&self, task: &Task, thread: &ThreadState) -> Result<(), EngineError> {
        let area = &thread.extended_registers.0;
        if features(area) & MUST_BE_ASKED_FOR == 0 {
            return Ok(());
        }
        let code =
            self.argument(&[area, &LOAD_INSTRUCTION[..], &SYSCALL_INSTRUCTION[..]].concat())? + area.len() as u64;
        let protect = |protection: i32| {
            let arguments = [self.scratch, SCRATCH_BYTES, protection as u64, 0, 0, 0];
            self.call("protecting working memory", abi::SYS_mprotect, arguments).map(drop)
        };
        protect(abi::PROT_READ | abi::PROT_EXEC)?;
        let base = task.registers().map_err(building)?;
        // The call's number is in the register that selects the features; there is no call of that number.
        let answer = task.call(&base, code, LOADED as i64, [self.scratch, 0, 0, 0, 0, 0]).map_err(building)?;
        protect(abi::PROT_READ | abi::PROT_WRITE)?;
        if answer.result == i64::from(-abi::ENOSYS) {
            Ok(())
        } else {
            let reason = format!("answer {} to a system call that there is not", answer.result);
            Err(kernel("loading matrix registers", std::io::Error::other(reason)))
        }
    }
}

/// Returns the features in an XSAVE area, one bit for each.
fn features(area: &[u8]) -> u64 {
    let word = area.get(FEATURES_OFFSET..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_le_bytes(*word))
}
