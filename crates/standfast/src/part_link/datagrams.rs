//! Which datagrams the parts of a restart want to have sent again. Each writes them to a file in its own directory, which all
//! nodes see, and reads those of the others once all have written. So contents do not pass through the coordinator.

use super::wire::{address, endpoint};
use serde::{Deserialize, Serialize};
use standfast_engine::{DistantDatagram, RestartToken};
use standfast_format::BoxError;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What the names of these files begin with. The restart's token follows, so that nobody reads what an earlier one has left.
const NAME: &str = "datagrams-";
/// They may hold secrets.
const MODE: u32 = 0o600;

/// The files of one restart.
#[derive(Debug)]
pub(super) struct WantedDatagrams {
    /// The directory of this part. Those of the others are beside it.
    directory: PathBuf,
    name: String,
}

/// A datagram in such a file.
#[derive(Serialize, Deserialize)]
struct Line {
    from: SocketAddr,
    to: SocketAddr,
    contents: Vec<u8>,
}

impl WantedDatagrams {
    pub(super) fn new(directory: &Path, token: &RestartToken) -> Self {
        let token: String = token.0.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { directory: directory.to_owned(), name: format!("{NAME}{token}") }
    }

    /// Says which datagrams this part wants.
    pub(super) fn want(&self, wanted: &[DistantDatagram]) -> Result<(), BoxError> {
        self.remove_old();
        if wanted.is_empty() {
            return Ok(());
        }
        let line =
            |it: &DistantDatagram| Line { from: address(it.from), to: address(it.to), contents: it.contents.clone() };
        let lines: Vec<Line> = wanted.iter().map(line).collect();
        let path = self.directory.join(&self.name);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)?;
        file.write_all(&serde_json::to_vec(&lines)?)?;
        Ok(file.sync_all()?)
    }

    /// Returns what the other parts want.
    pub(super) fn wanted(&self) -> Result<Vec<DistantDatagram>, BoxError> {
        let mut wanted = Vec::new();
        for part in std::fs::read_dir(self.directory.parent().ok_or("a part has a place")?)? {
            let part = part?.path();
            if part == self.directory {
                continue;
            }
            let file = match File::open(part.join(&self.name)) {
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
                opened => opened?,
            };
            let lines: Vec<Line> = serde_json::from_reader(std::io::BufReader::new(file))?;
            wanted.extend(lines.into_iter().map(|it| DistantDatagram {
                from: endpoint(it.from),
                to: endpoint(it.to),
                contents: it.contents,
            }));
        }
        Ok(wanted)
    }

    /// Removes what earlier restarts have left. That costs nothing but room, and so failures do not count.
    fn remove_old(&self) {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let old = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(NAME));
        old.for_each(|entry| _ = std::fs::remove_file(entry.path()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_hears_what_the_others_want_in_this_restart() {
        let job = tempfile::tempdir().unwrap();
        let part = |index: usize, token: u8| {
            let directory = job.path().join(format!("part-{index}"));
            std::fs::create_dir_all(&directory).unwrap();
            WantedDatagrams::new(&directory, &RestartToken([token; 16]))
        };
        std::fs::write(job.path().join("distributed.json"), "{}").unwrap();
        let at = |port| endpoint(SocketAddr::from(([10, 0, 0, 1], port)));
        let datagram = |port| DistantDatagram { from: at(port), to: at(9), contents: vec![0, 255, 7] };
        part(0, 1).want(&[datagram(1)]).unwrap();
        assert_eq!(part(1, 1).wanted().unwrap(), [datagram(1)]);
        assert_eq!(part(1, 2).wanted().unwrap(), [], "of an earlier restart");
        part(0, 2).want(&[datagram(2), datagram(3)]).unwrap();
        part(1, 2).want(&[]).unwrap();
        assert_eq!((part(0, 2).wanted().unwrap(), part(1, 2).wanted().unwrap().len()), (vec![], 2));
        assert_eq!(std::fs::read_dir(job.path().join("part-0")).unwrap().count(), 1, "the old one is gone");
    }
}
