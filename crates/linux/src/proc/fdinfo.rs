//! `/proc/PID/fdinfo/N`: position, flags, and what some kinds of descriptor add.

use super::{parse, parse_hex, parse_octal, words};
use std::io;

/// What `/proc/PID/fdinfo/N` tells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DescriptorInformation {
    /// Offset in bytes.
    pub position: u64,
    /// Open flags, O_CLOEXEC among them where the descriptor has it.
    pub flags: u32,
    /// Count of an eventfd.
    pub event_count: Option<u64>,
    /// Whether that eventfd is a semaphore (shown from Linux 6.5 on).
    pub event_semaphore: bool,
    /// What an epoll instance watches.
    pub epoll_targets: Vec<EpollTarget>,
    /// Whether there are locks on the file, taken through this open file description.
    pub locked: bool,
}

/// One `tfd:` line of an epoll instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpollTarget {
    /// The watched descriptor.
    pub descriptor: i32,
    /// Events and input flags.
    pub events: u32,
    /// The program's own word.
    pub data: u64,
    /// Inode of the watched file: tells whether the descriptor still means what it meant when it was added.
    pub inode: u64,
}

impl DescriptorInformation {
    /// Of one descriptor of a process.
    ///
    /// # Errors
    /// When it is gone.
    pub fn of(pid: i32, descriptor: i32) -> io::Result<Self> {
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
                b"eventfd-semaphore" => information.event_semaphore = value == b"1",
                b"tfd" => information.epoll_targets.extend(epoll_target(line)),
                b"lock" => information.locked = true,
                _ => {}
            }
        }
        information
    }
}

/// `tfd:        8 events:       1a data:                8  pos:0 ino:35 sdev:a`
fn epoll_target(line: &[u8]) -> Option<EpollTarget> {
    let text: Vec<u8> = line.iter().map(|byte| if *byte == b':' { b' ' } else { *byte }).collect();
    let fields: Vec<&[u8]> = words(&text).collect();
    let behind = |name: &[u8]| fields.iter().position(|word| *word == name).and_then(|place| fields.get(place + 1));
    Some(EpollTarget {
        descriptor: parse(behind(b"tfd")?)?,
        events: parse_hex(behind(b"events")?)? as u32,
        data: parse_hex(behind(b"data")?)?,
        inode: parse_hex(behind(b"ino")?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoll_instance_tells_what_it_watches() {
        let text = b"pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t1\n\
            tfd:        8 events: 8000001a data: fffffffffffffff8  pos:0 ino:35 sdev:a\n";
        let information = DescriptorInformation::parse(text);
        assert_eq!(information.flags, 0o2_000_002);
        let target = EpollTarget { descriptor: 8, events: 0x8000_001a, data: u64::MAX - 7, inode: 0x35 };
        assert_eq!(information.epoll_targets, [target]);
    }

    #[test]
    fn an_event_counter_tells_its_count_in_hexadecimal() {
        let text = b"pos:\t0\nflags:\t02004002\neventfd-count:               1f\neventfd-id: 3\neventfd-semaphore: 1\n";
        let information = DescriptorInformation::parse(text);
        assert_eq!((information.event_count, information.event_semaphore), (Some(0x1f), true));
    }
}
