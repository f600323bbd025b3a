//! `/proc/PID/stat`: parent, start time, and the memory layout that the kernel has recorded.

use super::{malformed, parse, words};
use crate::{Pid, Tid};
use std::io;

/// The fields of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// State letter: `R`, `S`, `D`, `T`, `t`, `Z`.
    pub state: u8,
    /// Parent process; its number is 0 if this process cannot see it.
    pub parent: Pid,
    /// Process group.
    pub process_group: i32,
    /// Session.
    pub session: i32,
    /// Device number of its controlling terminal, as the kernel packs it; 0 if it has none.
    pub terminal: u32,
    /// The signal that its parent gets at its end; 0 for none.
    pub exit_signal: i32,
    /// The kernel's own flags of the thread; see [`Stat::is_exiting`].
    pub flags: u32,
    /// Page faults that needed no disk, of all its threads, including ended ones. A first write to a protected page is
    /// one.
    pub faults: u64,
    /// Number of its threads, including those that have ended and not been reaped.
    pub threads: usize,
    /// Clock ticks from boot to its start: together with the pid this identifies a process for good.
    pub start_time: u64,
    /// Processor on which it last ran.
    pub cpu: usize,
    /// `start_code, end_code, start_stack, start_data, end_data, start_brk, arg_start, arg_end, env_start, env_end`;
    /// zeros if the process may not be inspected.
    pub layout: [u64; 10],
    /// Its status, as `waitpid(2)` reports it, once it is a zombie; 0 if the process may not be inspected.
    pub wait_status: i32,
}

/// `PF_EXITING` of `include/linux/sched.h`; it has had this value since Linux 2.6.
const EXITING: u32 = 0x4;

impl Stat {
    /// Reports whether the thread executes no more instructions of its program: it is exiting, or has ended.
    pub fn is_exiting(&self) -> bool {
        self.flags & EXITING != 0 || matches!(self.state, b'Z' | b'X')
    }

    /// Reads the fields of a process.
    ///
    /// # Errors
    /// When it is gone.
    pub fn of(pid: Pid) -> io::Result<Self> {
        Self::parse(&super::read(pid, "stat")?)
    }

    /// Reads the fields of one of its threads.
    ///
    /// # Errors
    /// When it is gone.
    pub fn of_task(pid: Pid, tid: Tid) -> io::Result<Self> {
        Self::parse(&super::read(pid, &format!("task/{tid}/stat"))?)
    }

    /// Parses the file. The name in parentheses may hold anything, even parentheses: the last one ends it.
    ///
    /// # Errors
    /// When it is of unknown form.
    pub fn parse(text: &[u8]) -> io::Result<Self> {
        let parsed = || {
            let after_name = text.iter().rposition(|byte| *byte == b')')? + 1;
            let fields: Vec<&[u8]> = words(&text[after_name..]).collect();
            // Field numbers of proc(5); the first after the name is number 3.
            let field = |number: usize| fields.get(number - 3).copied();
            let number = |place: usize| parse::<u64>(field(place)?);
            let mut layout = [0; 10];
            for (value, place) in layout.iter_mut().zip([26, 27, 28, 45, 46, 47, 48, 49, 50, 51]) {
                *value = number(place)?;
            }
            Some(Self {
                state: *field(3)?.first()?,
                parent: Pid::new(parse(field(4)?)?),
                process_group: parse(field(5)?)?,
                session: parse(field(6)?)?,
                terminal: parse::<i32>(field(7)?)? as u32,
                exit_signal: parse(field(38)?)?,
                flags: parse(field(9)?)?,
                faults: number(10)?,
                threads: number(20)? as usize,
                start_time: number(22)?,
                cpu: number(39)? as usize,
                layout,
                wait_status: parse(field(52)?)?,
            })
        };
        parsed().ok_or_else(|| malformed("stat"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_stat_is_understood() {
        let stat = Stat::of(Pid::own()).unwrap();
        assert_eq!(stat.parent, Pid::new(std::os::unix::process::parent_id() as i32));
        assert!(stat.start_time > 0 && stat.layout.iter().all(|address| *address != 0));
    }

    #[test]
    fn a_name_may_hold_parentheses_and_blanks() {
        let mut text = b"7 (a) R 9 (b) S 42".to_vec();
        (5..=52).for_each(|number| text.extend(format!(" {number}").bytes()));
        text.extend(b" 53 future");
        let stat = Stat::parse(&text).unwrap();
        assert_eq!((stat.state, stat.parent.get(), stat.threads, stat.start_time, stat.cpu), (b'S', 42, 20, 22, 39));
        assert_eq!((stat.flags, stat.faults), (9, 10));
        assert!(!stat.is_exiting());
        assert!(Stat { flags: 4, ..stat.clone() }.is_exiting() && Stat { state: b'Z', ..stat }.is_exiting());
        assert!(Stat::parse(b"7 (a) S 1").is_err());
    }
}
