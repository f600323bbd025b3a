//! Copies the pages of a chain into one image, and verifies each page as it is read. The caller decides what to do with
//! the image: the module `coalesce` replaces another image with it, the module `flush` puts it on another level.

use crate::chain::{Buffers, Chain};
use crate::encode::{Counts, Shrinker};
use crate::prepare::Draft;
use crate::{StorageFile, StoreError};
use standfast_core::PAGE_BYTES;
use standfast_core::codec::Encoding;
use standfast_format::image::{BLOCK_PAGES_MAX, Contained, HEADER_BYTES, NewBlock};
use standfast_format::{Contents, ImageSource, Run};
use std::io;

/// Called before each portion with the file and the number of bytes written so far.
pub(crate) type GoOn<'a> = &'a dyn Fn(&dyn StorageFile, u64) -> io::Result<bool>;

/// Writes pages into full blocks, one after the other.
pub(crate) struct Packer<'a> {
    file: &'a dyn StorageFile,
    offset: u64,
    blocks: Vec<NewBlock>,
    runs: Vec<Run>,
    bytes: Vec<u8>,
    shrinker: Shrinker,
    /// A block in the form in which the file stores it.
    encoded: Vec<u8>,
}

impl<'a> Packer<'a> {
    /// Copies all pages of a chain, and records the ranges that lie beyond it. Calls `go_on` before each portion, with
    /// the file and the number of bytes written so far. Returns `None` if `go_on` returns false.
    pub(crate) fn copy(
        chain: &Chain,
        file: &'a dyn StorageFile,
        go_on: GoOn<'_>,
        draft: &Draft,
    ) -> Result<Option<Contained>, StoreError> {
        let mut packer = Self {
            file,
            offset: HEADER_BYTES as u64,
            blocks: Vec::new(),
            runs: Vec::new(),
            bytes: Vec::new(),
            shrinker: Shrinker::new(&draft.level_directory, draft.level_directory.encodings(), None),
            encoded: Vec::new(),
        };
        let mut buffers = Buffers::default();
        for portion in chain.portions() {
            if !go_on(file, packer.offset).map_err(|error| draft.writing(error))? {
                return Ok(None);
            }
            let (runs, bytes) = chain.read(&portion, &mut buffers)?;
            packer.add(runs, bytes).map_err(|error| draft.writing(error))?;
        }
        packer.flush().map_err(|error| draft.writing(error))?;
        let is_zero = |run: &&Run| run.contents == Contents::Zero;
        let zeros = chain.runs().iter().filter(is_zero).copied().collect();
        let (blocks, inherited) = (packer.blocks, chain.beyond().to_vec());
        Ok(Some(Contained { blocks, zeros, inherited, bases: Vec::new() }))
    }

    fn add(&mut self, runs: &[Run], bytes: &[u8]) -> io::Result<()> {
        let mut pages = bytes;
        for run in runs {
            let mut rest = run.range;
            while rest.pages() > 0 {
                let room = u64::from(BLOCK_PAGES_MAX) - (self.bytes.len() / PAGE_BYTES) as u64;
                let (piece, after) = rest.split_at(room);
                let (own, others) = pages.split_at(piece.bytes() as usize);
                self.runs.push(Run { range: piece, ..*run });
                self.bytes.extend_from_slice(own);
                (rest, pages) = (after, others);
                if piece.pages() == room {
                    self.flush()?;
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let runs = std::mem::take(&mut self.runs);
        self.encoded.clear();
        let encoding = self.shrinker.put(&runs, &self.bytes, Counts::All, &mut self.encoded);
        let stored = if encoding == Encoding::Raw { &self.bytes } else { &self.encoded };
        self.file.write_at(stored, self.offset)?;
        self.blocks.push(NewBlock::new(self.offset, encoding, stored, runs));
        self.offset += stored.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}
