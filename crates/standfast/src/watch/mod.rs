//! Notices of the machine: it is about to be taken away, as a cloud says of a spot machine, a file shows or a command
//! finds out. The supervisor then stops the program after a checkpoint. A notice belongs to a machine and not to a job, so
//! no manifest keeps what is watched.
//!
//! ```text
//! aws, gcp, azure   asked over HTTP, which these clouds serve to the machine itself at a fixed address
//! file:PATH         a notice is there as soon as the file exists
//! command:TEXT      a notice is there as soon as the command succeeds
//! ```

mod clouds;
mod http;
mod watcher;

use clouds::Cloud;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
pub(crate) use watcher::{Seen, Watcher};

/// Where all three clouds answer.
const METADATA: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);

/// What is watched for a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchNotice {
    /// What a cloud says of this machine.
    Cloud(CloudAddress),
    /// Whether a file exists.
    File(PathBuf),
    /// Whether a command of the shell succeeds.
    Command(String),
}

/// A cloud, and where it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloudAddress {
    cloud: Cloud,
    address: SocketAddr,
}

/// A text that does not say what to watch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' does not say what to watch\nhint: write 'aws', 'gcp', 'azure' (or aws:ADDRESS:PORT), 'file:PATH' or 'command:TEXT'"
)]
pub struct WatchNoticeError(String);

impl FromStr for WatchNotice {
    type Err = WatchNoticeError;

    fn from_str(text: &str) -> Result<Self, WatchNoticeError> {
        let wrong = || WatchNoticeError(text.to_owned());
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (text, None),
        };
        let cloud = match (kind, rest) {
            ("file", Some(path)) if !path.is_empty() => return Ok(Self::File(path.into())),
            ("command", Some(command)) if !command.trim().is_empty() => return Ok(Self::Command(command.to_owned())),
            ("aws", _) => Cloud::Aws,
            ("gcp", _) => Cloud::Gcp,
            ("azure", _) => Cloud::Azure,
            _ => return Err(wrong()),
        };
        let address = rest.map_or(Ok(METADATA), |rest| rest.parse().map_err(|_| wrong()))?;
        Ok(Self::Cloud(CloudAddress { cloud, address }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_watch_is_a_cloud_a_file_or_a_command() {
        let cloud = |cloud, address| Ok(WatchNotice::Cloud(CloudAddress { cloud, address }));
        assert_eq!("aws".parse(), cloud(Cloud::Aws, METADATA));
        assert_eq!("gcp:127.0.0.1:8080".parse(), cloud(Cloud::Gcp, "127.0.0.1:8080".parse().unwrap()));
        assert_eq!("file:/run/a:b".parse(), Ok(WatchNotice::File("/run/a:b".into())));
        assert_eq!("command:test -e x".parse(), Ok(WatchNotice::Command("test -e x".into())));
        for text in ["", "oracle", "aws:", "azure:localhost", "file:", "command: ", "/run/notice"] {
            let refused = text.parse::<WatchNotice>().expect_err(text).to_string();
            assert!(refused.contains("'file:PATH'"), "{refused}");
        }
    }

    /// After a change: `INSTA_UPDATE=always cargo test -p standfast`, then read the difference.
    #[test]
    fn error_texts_match_the_reviewed_snapshot() {
        insta::assert_snapshot!("oracle".parse::<WatchNotice>().expect_err("no cloud of ours").to_string());
    }
}
