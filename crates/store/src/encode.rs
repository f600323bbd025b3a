//! Encodes blocks on their way into an image. An encoding is used if it was requested, or if the speed of the level and
//! the results for earlier blocks show that it pays off ([`standfast_core::codec::choice`], C1). Differences need the
//! generation on which the image builds.

use crate::chain::{Chain, Loaded};
use crate::level_directory::LevelDirectory;
use crate::rates::{Encodings, lock};
use rustix::time::{ClockId, clock_gettime};
use standfast_core::Mask;
use standfast_core::codec::Encoding;
use standfast_core::codec::choice::Compressed;
use standfast_format::Run;
use standfast_format::image::{BLOCK_PAGES_MAX, Base, BlockEncoder, NewBlock};
use standfast_format::manifest::GenerationNumber;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The generation on which an image in progress builds, and the numbers that owners had in it.
#[derive(Debug)]
pub(crate) struct Origin {
    level_directory: Arc<LevelDirectory>,
    parent: GenerationNumber,
    was: Mutex<BTreeMap<u32, u32>>,
    /// Opened when first needed. `None` if it cannot be read; a restore of that generation will report why.
    chain: OnceLock<Option<Chain>>,
}

impl Origin {
    pub(crate) fn new(level_directory: &Arc<LevelDirectory>, parent: GenerationNumber) -> Self {
        Self { level_directory: Arc::clone(level_directory), parent, was: Mutex::default(), chain: OnceLock::new() }
    }

    /// Records that `owner` had the number `was` in the parent.
    pub(crate) fn note(&self, owner: u32, was: u32) {
        lock(&self.was).entry(owner).or_insert(was);
    }

    /// Returns the bases of all owners with pages stored as differences.
    pub(crate) fn bases(&self, blocks: &[NewBlock]) -> Vec<Base> {
        let differences = blocks.iter().filter(|block| block.encoding == Encoding::Differences);
        let owners: BTreeSet<u32> = differences.flat_map(|block| &block.runs).map(|run| run.owner).collect();
        let known = lock(&self.was);
        owners.into_iter().filter_map(|owner| Some(Base { owner, was: *known.get(&owner)? })).collect()
    }

    /// Returns the runs with their owners' numbers in the parent; `None` if an owner did not exist there.
    fn runs(&self, runs: &[Run]) -> Option<Vec<Run>> {
        let known = lock(&self.was);
        runs.iter().map(|run| Some(Run { owner: *known.get(&run.owner)?, ..*run })).collect()
    }

    fn chain(&self) -> Option<&Chain> {
        let open = || {
            // While this lock is held, nobody can replace an image that is about to be opened.
            let mut known = self.level_directory.known_manifest();
            let manifest = self.level_directory.manifest(&mut known).ok()?;
            Chain::open(&self.level_directory, &manifest, manifest.generation(self.parent)?).ok()
        };
        self.chain.get_or_init(open).as_ref()
    }
}

/// The words of some pages that count.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Counts<'a> {
    /// All words.
    All,
    /// The words that are not zero; most are zero.
    NotZero,
    /// These words of each page. The other words read as in the parent generation.
    Of(&'a [Mask]),
}

impl Counts<'_> {
    /// Returns the part that belongs to block number `at` of the pages.
    pub(crate) fn of_block(self, at: usize) -> Self {
        let Self::Of(masks) = self else { return self };
        let start = at * BLOCK_PAGES_MAX as usize;
        Self::Of(&masks[start..masks.len().min(start + BLOCK_PAGES_MAX as usize)])
    }
}

/// Encodes blocks for a level, one after the other, reusing its buffers.
#[derive(Debug)]
pub(crate) struct Shrinker {
    level_directory: Arc<LevelDirectory>,
    encodings: Encodings,
    origin: Option<Arc<Origin>>,
    encoder: BlockEncoder,
    before: Vec<u8>,
    loaded: Loaded,
}

impl Shrinker {
    pub(crate) fn new(
        level_directory: &Arc<LevelDirectory>,
        encodings: Encodings,
        origin: Option<Arc<Origin>>,
    ) -> Self {
        Self {
            level_directory: Arc::clone(level_directory),
            encodings,
            origin,
            encoder: BlockEncoder::default(),
            before: Vec::new(),
            loaded: Loaded::default(),
        }
    }

    /// Encodes the pages of some runs, appends the result to `into`, and returns the encoding. Appends nothing if the
    /// pages stay raw.
    pub(crate) fn put(&mut self, runs: &[Run], pages: &[u8], counts: Counts<'_>, into: &mut Vec<u8>) -> Encoding {
        for encoding in [Encoding::Differences, Encoding::Sparse, Encoding::Lz4, Encoding::Zstd] {
            let (encoding, encoded) = match encoding {
                Encoding::Sparse => match self.without_masked_words(runs, pages, counts) {
                    Some(done) => done,
                    None => continue,
                },
                _ if !self.encodings.always.contains(encoding) => continue,
                _ => match self.encoded(encoding, runs, pages) {
                    Some(encoded) => (encoding, encoded),
                    None => continue,
                },
            };
            into.extend_from_slice(encoded);
            return encoding;
        }
        let encoding = self.choose(runs, pages.len());
        if encoding != Encoding::Raw {
            if encoding == Encoding::Differences {
                // The chain is opened once for all blocks. The cost counted for a single block would say nothing about
                // the others.
                self.origin.as_ref().and_then(|origin| origin.chain());
            }
            let (begun, processor) = (Instant::now(), processor_time());
            let kept = self.encoded(encoding, runs, pages).map(|encoded| {
                into.extend_from_slice(encoded);
                encoded.len()
            });
            // Before-images may have to be read from a disk.
            let time = if encoding == Encoding::Differences { begun.elapsed() } else { processor_time() - processor };
            let done = Compressed { asked: encoding, bytes: pages.len(), kept: kept.unwrap_or(pages.len()), time };
            self.level_directory.rates.choice().compressed(done);
            if kept.is_some() {
                return encoding;
            }
        }
        Encoding::Raw
    }

    fn choose(&self, runs: &[Run], bytes: usize) -> Encoding {
        let mut allowed = self.encodings.where_it_pays;
        if self.origin.as_ref().and_then(|origin| origin.runs(runs)).is_none() {
            allowed = allowed.without(Encoding::Differences);
        }
        if allowed.is_empty() {
            return Encoding::Raw;
        }
        let rates = &self.level_directory.rates;
        rates.choice().next(bytes, allowed, rates.age()).encoding
    }

    /// Encodes pages with words that do not count, if that makes them much shorter.
    fn without_masked_words(&mut self, runs: &[Run], pages: &[u8], counts: Counts<'_>) -> Option<(Encoding, &[u8])> {
        match counts {
            Counts::All => None,
            Counts::NotZero => Some((Encoding::Sparse, self.encoder.encode(Encoding::Sparse, &[], pages)?)),
            Counts::Of(masks) => {
                self.origin.as_ref().and_then(|origin| origin.runs(runs))?;
                Some((Encoding::Differences, self.encoder.patch(pages, masks)?))
            }
        }
    }

    fn encoded(&mut self, encoding: Encoding, runs: &[Run], pages: &[u8]) -> Option<&[u8]> {
        if encoding == Encoding::Differences {
            let origin = self.origin.as_ref()?;
            let were = origin.runs(runs)?;
            origin.chain()?.before_images(were, &mut self.before, &mut self.loaded).ok()?;
        }
        self.encoder.encode(encoding, &self.before, pages)
    }
}

/// Returns the processor time that this thread has used.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}
