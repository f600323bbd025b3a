//! The version of the running kernel, and the oldest one on which Standfast runs.

use std::fmt;

/// Version of a kernel: its first two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
}

impl KernelVersion {
    /// The oldest kernel on which tests have run. Nothing works without `pidfd_open` (5.3), and no restart without
    /// `pidfd_getfd` (5.6) and `close_range` (5.9).
    pub const OLDEST: Self = Self { major: 5, minor: 10 };

    /// Returns the version of the running kernel, or `None` if `/proc` does not show it. `uname` would return what this
    /// process has chosen to see (`setarch --uname-2.6`).
    pub fn running() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?)
    }

    /// Parses a release such as `6.1.0-13-amd64`.
    fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(|digits| digits.parse().ok());
        Some(Self { major: numbers.next()??, minor: numbers.next()?? })
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        let version = |release| KernelVersion::parse(release);
        assert_eq!(version("6.1.0-13-amd64\n"), Some(KernelVersion { major: 6, minor: 1 }));
        assert_eq!(version("6.18-rc3\n"), Some(KernelVersion { major: 6, minor: 18 }));
        assert!(
            version("5.9.16") < Some(KernelVersion::OLDEST)
                && version("4.18.0-553.el8_10.x86_64") < Some(KernelVersion::OLDEST)
        );
        assert!(version("5.10.0-30-amd64") >= Some(KernelVersion::OLDEST) && version("6.1.0") > version("5.15.0"));
        assert_eq!((version(""), version("unknown"), version("6")), (None, None, None));
    }

    #[test]
    fn the_kernel_of_the_tests_is_recent_enough() {
        assert!(KernelVersion::running() >= Some(KernelVersion::OLDEST));
    }
}
