//! `/proc/PID/fdinfo/N`: position, flags, and what some kinds of descriptor add.

use super::{parse, parse_hex, parse_octal, words};
use crate::Pid;
use std::io;

/// The fields of `/proc/PID/fdinfo/N`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DescriptorInformation {
    /// Offset in bytes.
    pub position: u64,
    /// Open flags, including O_CLOEXEC if the descriptor has it.
    pub flags: u32,
    /// Count of an eventfd.
    pub event_count: Option<u64>,
    /// Whether that eventfd is a semaphore; absent before Linux 6.5.
    pub event_semaphore: Option<bool>,
    /// Targets that an epoll instance watches.
    pub epoll_targets: Vec<EpollTarget>,
    /// Locks on the file: those of this open file description, and those of the process that holds the descriptor.
    pub locks: Vec<Lock>,
    /// Setting of a timerfd.
    pub timer: TimerSetting,
    /// Signals that a signalfd receives; bit n - 1 is signal n.
    pub signal_mask: Option<u64>,
    /// Objects that an inotify instance watches.
    pub watches: Vec<ShownWatch>,
    /// The process to which a pidfd refers, as the reader of the file sees it; -1 once it has been reaped.
    pub process: Option<i32>,
    /// Open files that wait in messages to a Unix socket; 0 before Linux 5.10.
    pub files_to_receive: u32,
}

/// Setting of a timerfd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimerSetting {
    /// Its clock, as in `clock_gettime(2)`.
    pub clock: i32,
    /// Expirations that have not been read.
    pub ticks: u64,
    /// TFD_TIMER_ flags with which it was set.
    pub flags: u32,
    /// Nanoseconds until it next expires; 0 when it does not run.
    pub remaining_nanoseconds: u64,
    /// Nanoseconds from each expiration to the next; 0 for a single one.
    pub interval_nanoseconds: u64,
}

/// One `lock:` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    /// Kind of the lock.
    pub kind: ShownLockKind,
    /// Whether it excludes everyone else, instead of only writers.
    pub exclusive: bool,
    /// The process that took it, as the reader of the file sees it; it may have ended. Its number is -1 for
    /// open file descriptions.
    pub process: Pid,
    /// First byte.
    pub start: u64,
    /// Last byte; absent if the lock reaches to the end of the file, wherever that is.
    pub end: Option<u64>,
}

/// The kinds of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownLockKind {
    /// `flock(2)`.
    Whole,
    /// `F_SETLK`.
    Process,
    /// `F_OFD_SETLK`.
    OpenFile,
    /// `F_SETLEASE`, and kinds added later.
    Other,
}

/// One `inotify` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownWatch {
    /// Its number within the instance.
    pub descriptor: i32,
    /// Inode of the watched object.
    pub inode: u64,
    /// Device of the watched object, as major and minor number.
    pub device: (u32, u32),
    /// IN_ events and flags.
    pub mask: u32,
}

/// One `tfd:` line of an epoll instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpollTarget {
    /// The watched descriptor.
    pub descriptor: i32,
    /// Events and input flags.
    pub events: u32,
    /// The program's own data word.
    pub data: u64,
    /// Inode of the watched file: shows whether the descriptor still refers to the file for which it was added.
    pub inode: u64,
}

impl DescriptorInformation {
    /// Reads the fields of one descriptor of a process.
    ///
    /// # Errors
    /// When it is gone.
    pub fn of(pid: Pid, descriptor: i32) -> io::Result<Self> {
        Ok(Self::parse(&super::read(pid, &format!("fdinfo/{descriptor}"))?))
    }

    /// Parses the file.
    pub fn parse(text: &[u8]) -> Self {
        let mut information = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
            match name {
                b"pos" => information.position = parse(value).unwrap_or_default(),
                b"flags" => information.flags = parse_octal(value).unwrap_or_default(),
                b"eventfd-count" => information.event_count = parse_hex(value),
                b"eventfd-semaphore" => information.event_semaphore = Some(value == b"1"),
                b"tfd" => information.epoll_targets.extend(epoll_target(line)),
                b"lock" => information.locks.extend(lock(value)),
                b"clockid" => information.timer.clock = parse(value).unwrap_or_default(),
                b"ticks" => information.timer.ticks = parse(value).unwrap_or_default(),
                b"settime flags" => information.timer.flags = parse_octal(value).unwrap_or_default(),
                b"it_value" => information.timer.remaining_nanoseconds = seconds_and_nanoseconds(value),
                b"it_interval" => information.timer.interval_nanoseconds = seconds_and_nanoseconds(value),
                b"sigmask" => information.signal_mask = parse_hex(value),
                b"Pid" => information.process = parse(value),
                b"scm_fds" => information.files_to_receive = parse(value).unwrap_or_default(),
                _ if name.starts_with(b"inotify wd") => information.watches.extend(watch(line)),
                _ => {}
            }
        }
        information
    }
}

/// Parses `1: FLOCK  ADVISORY  WRITE 4711 00:1f:1234 0 EOF`.
pub(super) fn lock(value: &[u8]) -> Option<Lock> {
    let mut fields = words(value).skip(1);
    let kind = match fields.next()? {
        b"FLOCK" => ShownLockKind::Whole,
        b"POSIX" => ShownLockKind::Process,
        b"OFDLCK" => ShownLockKind::OpenFile,
        _ => ShownLockKind::Other,
    };
    let exclusive = fields.nth(1)? == b"WRITE";
    let process = Pid::new(parse(fields.next()?)?);
    let (start, end) = (parse(fields.nth(1)?)?, fields.next()?);
    Some(Lock { kind, exclusive, process, start, end: parse(end) })
}

/// Parses `(3, 250000000)`.
fn seconds_and_nanoseconds(value: &[u8]) -> u64 {
    let text: Vec<u8> = value.iter().map(|byte| if b"(),".contains(byte) { b' ' } else { *byte }).collect();
    let mut numbers = words(&text).map(|word| parse::<u64>(word).unwrap_or_default());
    let (seconds, nanoseconds) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// Parses `inotify wd:3 ino:9e7e sdev:800013 mask:800afce ignored_mask:0 fhandle-bytes:8 fhandle-type:1
/// f_handle:7e9e0000640d1b6d`.
fn watch(line: &[u8]) -> Option<ShownWatch> {
    let fields: Vec<&[u8]> = words(line).collect();
    let after = |name: &[u8]| fields.iter().find_map(|word| word.strip_prefix(name));
    // The kernel's own form of a device number: 12 bits, then 20.
    let device = parse_hex(after(b"sdev:")?)?;
    Some(ShownWatch {
        descriptor: parse_hex(after(b"wd:")?)? as i32,
        inode: parse_hex(after(b"ino:")?)?,
        device: ((device >> 20) as u32, (device & 0xf_ffff) as u32),
        mask: parse_hex(after(b"mask:")?)? as u32,
    })
}

/// Parses `tfd:        8 events:       1a data:                8  pos:0 ino:35 sdev:a`.
fn epoll_target(line: &[u8]) -> Option<EpollTarget> {
    let text: Vec<u8> = line.iter().map(|byte| if *byte == b':' { b' ' } else { *byte }).collect();
    let fields: Vec<&[u8]> = words(&text).collect();
    let after = |name: &[u8]| fields.iter().position(|word| *word == name).and_then(|place| fields.get(place + 1));
    Some(EpollTarget {
        descriptor: parse(after(b"tfd")?)?,
        events: parse_hex(after(b"events")?)? as u32,
        data: parse_hex(after(b"data")?)?,
        inode: parse_hex(after(b"ino")?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_of_an_epoll_instance_are_parsed() {
        let text = b"pos:\t0\nfuture\nfuture:\tx: y\nflags:\t02000002\nmnt_id:\t15\nino:\t1\n\
            tfd:        8 events: 8000001a data: fffffffffffffff8  pos:0 ino:35 sdev:a future:1\n";
        let information = DescriptorInformation::parse(text);
        assert_eq!(information.flags, 0o2_000_002);
        let target = EpollTarget { descriptor: 8, events: 0x8000_001a, data: u64::MAX - 7, inode: 0x35 };
        assert_eq!(information.epoll_targets, [target]);
    }

    #[test]
    fn locks_of_every_kind_are_distinguished() {
        let text = b"pos:\t0\nflags:\t02\nlock:\t1: FLOCK  ADVISORY  WRITE 4711 00:1f:1234 0 EOF\n\
            lock:\t2: POSIX  ADVISORY  READ 4711 fe:00:5 100 199\nlock:\t3: OFDLCK ADVISORY  WRITE -1 fe:00:5 0 0\n\
            lock:\t4: LEASE  ACTIVE    READ 4711 fe:00:5 0 EOF\n";
        let lock =
            |kind, exclusive, process, start, end| Lock { kind, exclusive, process: Pid::new(process), start, end };
        let locks = [
            lock(ShownLockKind::Whole, true, 4711, 0, None),
            lock(ShownLockKind::Process, false, 4711, 100, Some(199)),
            lock(ShownLockKind::OpenFile, true, -1, 0, Some(0)),
            lock(ShownLockKind::Other, false, 4711, 0, None),
        ];
        assert_eq!(DescriptorInformation::parse(text).locks, locks);
    }

    #[test]
    fn an_eventfd_count_is_parsed_as_hexadecimal() {
        let text = b"pos:\t0\nflags:\t02004002\neventfd-count:               1f\neventfd-id: 3\neventfd-semaphore: 1\n";
        let information = DescriptorInformation::parse(text);
        assert_eq!((information.event_count, information.event_semaphore), (Some(0x1f), Some(true)));
    }

    #[test]
    fn the_settings_of_a_timerfd_are_parsed() {
        let text =
            b"pos:\t0\nflags:\t02\nclockid: 7\nticks: 4\nsettime flags: 03\nit_value: (3, 25)\nit_interval: (0, 7)\n";
        let timer = TimerSetting {
            clock: 7,
            ticks: 4,
            flags: 3,
            remaining_nanoseconds: 3_000_000_025,
            interval_nanoseconds: 7,
        };
        assert_eq!(DescriptorInformation::parse(text).timer, timer);
    }

    #[test]
    fn the_watches_of_an_inotify_instance_are_parsed() {
        let text =
            b"pos:\t0\nflags:\t00\ninotify wd:1f ino:3c4a3 sdev:fe00000 mask:fff ignored_mask:0 fhandle-bytes:8 \
            fhandle-type:1 f_handle:a3c4030000000000\n";
        let watch = ShownWatch { descriptor: 31, inode: 0x3c4a3, device: (254, 0), mask: 0xfff };
        assert_eq!(DescriptorInformation::parse(text).watches, [watch]);
    }
}
