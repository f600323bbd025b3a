//! The kernel's code in every program (vdso), as bytes: finds its functions, and redirects the code of one kernel to
//! that of another. Pure.
//!
//! A program keeps addresses of these functions, so they must stay valid when it continues under another kernel. The
//! old code becomes ordinary memory in which each function jumps to the function of the same name in the new code. Where
//! the new code has none, it makes the system call or returns an error. The rest of the old code is never executed.

use std::collections::BTreeMap;

/// Names of functions and their offsets.
type Functions = BTreeMap<Vec<u8>, usize>;

/// What can replace a function that the new kernel lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Substitute {
    /// The system call of this number.
    Call(i64),
    /// `getrandom`. A program also asks it for the form of the state that it must provide (its fifth argument is then
    /// -1). That is answered with an error: without a form, programs make the system call themselves.
    GetRandom,
    /// An error. No restored program has anything that the function could work on.
    Error,
}

/// An enclave (SGX) needs memory of its device, which no checkpoint accepts.
const SUBSTITUTES: [(&[u8], Substitute); 7] = [
    (b"__vdso_clock_gettime", Substitute::Call(libc::SYS_clock_gettime)),
    (b"__vdso_clock_getres", Substitute::Call(libc::SYS_clock_getres)),
    (b"__vdso_gettimeofday", Substitute::Call(libc::SYS_gettimeofday)),
    (b"__vdso_time", Substitute::Call(libc::SYS_time)),
    (b"__vdso_getcpu", Substitute::Call(libc::SYS_getcpu)),
    (b"__vdso_getrandom", Substitute::GetRandom),
    (b"__vdso_sgx_enter_enclave", Substitute::Error),
];
/// `jmp *0(%rip)` and the address.
const JUMP_BYTES: usize = 14;
const SECTION_DYNAMIC_SYMBOLS: u32 = 11;
const SYMBOL_BYTES: usize = 24;
const FUNCTION: u8 = 2;

/// Returns the old code, changed so that every function continues in the new code at `base`.
///
/// # Errors
/// A description, when the form of either is unknown, or a function cannot be replaced.
pub fn redirect(old: &[u8], new: &[u8], base: u64) -> Result<Vec<u8>, String> {
    let unknown = || "the vdso is of unknown form".to_owned();
    let (were, are) = (functions(old).ok_or_else(unknown)?, functions(new).ok_or_else(unknown)?);
    if were.is_empty() {
        return Err(unknown());
    }
    let mut starts: Vec<usize> = were.values().copied().collect();
    starts.sort_unstable();
    let mut redirected = old.to_vec();
    for (name, offset) in &were {
        let room = starts.iter().find(|start| *start > offset).unwrap_or(&old.len()) - offset;
        let code = match (are.get(name), Substitute::of(name)) {
            (Some(target), _) => jump(base + *target as u64),
            (None, Some(substitute)) => substitute.code(),
            (None, None) => {
                return Err(format!("this kernel has no {} for programs", String::from_utf8_lossy(name)));
            }
        };
        if room < code.len() {
            return Err(unknown());
        }
        redirected[*offset..offset + code.len()].copy_from_slice(&code);
    }
    Ok(redirected)
}

impl Substitute {
    /// Returns the substitute for a function, which also has a name without the prefix.
    fn of(name: &[u8]) -> Option<Self> {
        let of = |(known, substitute): &(&[u8], Self)| {
            let short = known.strip_prefix(b"__vdso_").expect("they all have it");
            (*known == name || short == name).then_some(*substitute)
        };
        SUBSTITUTES.iter().find_map(of)
    }

    fn code(self) -> Vec<u8> {
        match self {
            Self::Call(number) => call(number),
            // `cmp $-1, %r8; jne +8`, over the error.
            Self::GetRandom => {
                let question = [0x49, 0x83, 0xf8, 0xff, 0x75, 0x08];
                [&question[..], &error(), &call(libc::SYS_getrandom)].concat()
            }
            Self::Error => error(),
        }
    }
}

fn jump(target: u64) -> Vec<u8> {
    let mut code = vec![0xff, 0x25, 0, 0, 0, 0];
    code.extend(target.to_le_bytes());
    debug_assert_eq!(code.len(), JUMP_BYTES);
    code
}

/// `mov $number, %eax; mov %rcx, %r10; syscall; ret`: a C function whose arguments are those of the call.
fn call(number: i64) -> Vec<u8> {
    let mut code = vec![0xb8];
    code.extend((number as u32).to_le_bytes());
    code.extend([0x49, 0x89, 0xca, 0x0f, 0x05, 0xc3]);
    code
}

/// `mov $-ENOSYS, %rax; ret`: a C function that always fails.
fn error() -> Vec<u8> {
    let mut code = vec![0x48, 0xc7, 0xc0];
    code.extend((-libc::ENOSYS).to_le_bytes());
    code.push(0xc3);
    code
}

/// Returns the functions of a vdso under all their names, or `None` if its form is unknown.
fn functions(code: &[u8]) -> Option<Functions> {
    let bytes = |at: usize, length: usize| code.get(at..at.checked_add(length)?);
    let half = |at: usize| bytes(at, 2).map(|it| u16::from_le_bytes(it.try_into().expect("two bytes")));
    let word = |at: usize| bytes(at, 4).map(|it| u32::from_le_bytes(it.try_into().expect("four bytes")));
    let long = |at: usize| bytes(at, 8).map(|it| u64::from_le_bytes(it.try_into().expect("eight bytes")) as usize);
    if bytes(0, 5)? != b"\x7fELF\x02" {
        return None;
    }
    // Elf64_Ehdr: section headers at 40, length of one at 58, their number at 60.
    let (table, size, count) = (long(40)?, usize::from(half(58)?), usize::from(half(60)?));
    let section = |index: usize| table.checked_add(index.checked_mul(size)?);
    let symbols = (0..count).filter_map(section).find(|at| word(at + 4) == Some(SECTION_DYNAMIC_SYMBOLS))?;
    // Elf64_Shdr: offset at 24, length at 32, section of the names at 40.
    let (start, length, names) = (long(symbols + 24)?, long(symbols + 32)?, word(symbols + 40)? as usize);
    let names = long(section(names)?.checked_add(24)?)?;
    let mut functions = Functions::new();
    for index in 0..length / SYMBOL_BYTES {
        let at = start.checked_add(index * SYMBOL_BYTES)?;
        // Elf64_Sym: name at 0, kind at 4, value at 8.
        if *code.get(at + 4)? & 0xf != FUNCTION {
            continue;
        }
        let name = code.get(names.checked_add(word(at)? as usize)?..)?;
        let name = &name[..name.iter().position(|byte| *byte == 0)?];
        let value = long(at + 8)?;
        if value >= code.len() {
            return None;
        }
        functions.insert(name.to_vec(), value);
    }
    Some(functions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Map;
    use crate::{Pid, ProcessMemory};

    fn own() -> Vec<u8> {
        let pid = Pid::own();
        let map = Map::of(pid).unwrap().into_iter().find(|map| map.path == b"[vdso]").unwrap();
        let mut code = vec![0; map.range().bytes() as usize];
        ProcessMemory::open(pid).unwrap().read(map.range().start(), &mut code).unwrap();
        code
    }

    #[test]
    fn every_function_is_redirected_to_the_new_vdso() {
        let code = own();
        let functions = functions(&code).unwrap();
        assert!(functions.contains_key(&b"__vdso_clock_gettime"[..]));
        let redirected = redirect(&code, &code, 0x7000_0000).unwrap();
        for offset in functions.values() {
            assert_eq!(redirected[*offset..offset + JUMP_BYTES], jump(0x7000_0000 + *offset as u64));
        }
    }

    #[test]
    fn a_missing_function_becomes_its_system_call_or_an_error() {
        let code = own();
        let name = |from: &[u8], to: &[u8]| {
            let mut other = code.clone();
            let places: Vec<usize> = (0..code.len() - from.len()).filter(|at| code[*at..].starts_with(from)).collect();
            assert!(!places.is_empty());
            places.into_iter().for_each(|at| other[at..at + to.len()].copy_from_slice(to));
            other
        };
        let time = functions(&code).unwrap()[&b"__vdso_time"[..]];
        let redirected = redirect(&code, &name(b"__vdso_time\0", b"__vdso_lime\0"), 0x1000).unwrap();
        assert_eq!(redirected[time..time + 11], call(libc::SYS_time));
        let strange = redirect(&name(b"__vdso_getcpu\0", b"__vdso_gotcpu\0"), &code, 0x1000);
        assert!(strange.unwrap_err().contains("__vdso_gotcpu"));
    }

    /// Calls code as a function of five arguments.
    fn execute(code: &[u8], arguments: [u64; 5]) -> i64 {
        let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        assert!(code.len() <= 4096);
        // SAFETY: a new page of its own, which holds the code and ends with this function.
        unsafe {
            let page = libc::mmap(std::ptr::null_mut(), 4096, rights, flags, -1, 0);
            assert_ne!(page, libc::MAP_FAILED);
            page.cast::<u8>().copy_from_nonoverlapping(code.as_ptr(), code.len());
            let function: extern "C" fn(u64, u64, u64, u64, u64) -> i64 = std::mem::transmute(page);
            let [first, second, third, fourth, fifth] = arguments;
            let result = function(first, second, third, fourth, fifth);
            libc::munmap(page, 4096);
            result
        }
    }

    #[test]
    fn substitutes_make_the_call_or_fail() {
        let code = |name: &str| Substitute::of(name.as_bytes()).unwrap().code();
        let mut time = [0_i64; 2];
        let clock = [libc::CLOCK_MONOTONIC as u64, time.as_mut_ptr() as u64, 0, 0, 0];
        assert_eq!(execute(&code("__vdso_clock_gettime"), clock), 0);
        assert!(time[0] > 0);
        let mut bytes = [0_u8; 32];
        let buffer = bytes.as_mut_ptr() as u64;
        assert_eq!(execute(&code("__vdso_getrandom"), [buffer, 32, 0, 0, 144]), 32);
        assert_ne!(bytes, [0; 32]);
        let form = [0, 0, 0, buffer, u64::MAX];
        assert_eq!(execute(&code("getrandom"), form), -i64::from(libc::ENOSYS));
        assert_eq!(execute(&code("__vdso_sgx_enter_enclave"), [0; 5]), -i64::from(libc::ENOSYS));
    }

    #[test]
    fn damaged_code_is_an_error() {
        let code = own();
        assert!(redirect(&code[..100], &code, 0).is_err());
        for at in (0..code.len()).step_by(7) {
            let mut other = code.clone();
            other[at] ^= 0xff;
            let _ = redirect(&other, &code, 0);
        }
        assert!(redirect(b"", b"", 0).is_err());
    }
}
