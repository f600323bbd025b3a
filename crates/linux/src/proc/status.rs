//! `/proc/PID/status`: ids in namespaces, signals that are caught or ignored, umask, tracer, restrictions.

use super::{parse, parse_hex, parse_octal, words};
use std::io;

/// What `/proc/PID/status` tells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Status {
    /// The task's id in each nested namespace, the innermost last.
    pub ids: Vec<i32>,
    /// The same of its process.
    pub process_ids: Vec<i32>,
    /// Effective user.
    pub user: u32,
    /// Who traces it; 0 if nobody.
    pub tracer: i32,
    /// File mode creation mask.
    pub umask: u32,
    /// Ignored signals; bit n - 1 is signal n.
    pub ignored: u64,
    /// Caught signals.
    pub caught: u64,
    /// Pending for the thread and for the process.
    pub pending: u64,
    /// Blocked signals.
    pub blocked: u64,
    /// 0 off, 1 strict, 2 filter.
    pub seccomp: u32,
    /// Whether exec can no longer gain privileges.
    pub no_new_privileges: bool,
    /// Memory locked into RAM, in KiB.
    pub locked_kib: u64,
    /// Whether it runs on a shadow stack.
    pub shadow_stack: bool,
}

impl Status {
    /// Of a process.
    ///
    /// # Errors
    /// When it is gone.
    pub fn of(pid: i32) -> io::Result<Self> {
        Ok(Self::parse(&super::read(pid, "status")?))
    }

    /// Of one of its threads.
    ///
    /// # Errors
    /// When it is gone.
    pub fn of_task(pid: i32, tid: i32) -> io::Result<Self> {
        Ok(Self::parse(&super::read(pid, &format!("task/{tid}/status"))?))
    }

    /// Parses the file. Lines that a kernel lacks leave their field at zero.
    pub fn parse(text: &[u8]) -> Self {
        let mut status = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            let hex = || parse_hex(value).unwrap_or_default();
            match name {
                b"NSpid" => status.ids = words(value).filter_map(parse).collect(),
                b"NStgid" => status.process_ids = words(value).filter_map(parse).collect(),
                b"Uid" => status.user = words(value).nth(1).and_then(parse).unwrap_or_default(),
                b"TracerPid" => status.tracer = parse(value).unwrap_or_default(),
                b"Umask" => status.umask = parse_octal(value).unwrap_or_default(),
                b"SigIgn" => status.ignored = hex(),
                b"SigCgt" => status.caught = hex(),
                b"SigPnd" | b"ShdPnd" => status.pending |= hex(),
                b"SigBlk" => status.blocked = hex(),
                b"Seccomp" => status.seccomp = parse(value).unwrap_or_default(),
                b"NoNewPrivs" => status.no_new_privileges = value == b"1",
                b"VmLck" => status.locked_kib = words(value).next().and_then(parse).unwrap_or_default(),
                b"x86_Thread_features" => status.shadow_stack = words(value).any(|word| word == b"shstk"),
                _ => {}
            }
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let text = b"Name:\ta: b\nUmask:\t0022\nUid:\t1\t2\t3\t4\nTracerPid:\t7\nNStgid:\t9\t3\nNSpid:\t10\t4\n\
            SigPnd:\t0000000000000001\nShdPnd:\t0000000000000002\nSigIgn:\t0000000000001000\nSigCgt:\tffffffffffffffff\n\
            SigBlk:\t0000000000000004\nSeccomp:\t2\nNoNewPrivs:\t1\nVmLck:\t      12 kB\nx86_Thread_features:\tshstk wrss\n";
        let expected = Status {
            ids: vec![10, 4],
            process_ids: vec![9, 3],
            user: 2,
            tracer: 7,
            umask: 0o22,
            ignored: 0x1000,
            caught: u64::MAX,
            pending: 3,
            blocked: 4,
            seccomp: 2,
            no_new_privileges: true,
            locked_kib: 12,
            shadow_stack: true,
        };
        assert_eq!(Status::parse(text), expected);
    }
}
