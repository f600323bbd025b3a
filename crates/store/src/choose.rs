//! Chooses the generation for a restart: the newest good one. Reports why newer generations were skipped.

use crate::error::Skipped;
use crate::{Chain, JobDirectory, Lease, StoreError};
use standfast_format::manifest::{Generation, GenerationNumber, Manifest};

/// Selects a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selector {
    /// The newest good generation of the job's current life.
    Newest,
    /// Like [`Selector::Newest`], but older than this generation, which proved bad while its pages were being
    /// delivered.
    Before(GenerationNumber),
    /// Exactly this generation, even if it belongs to an abandoned life.
    Exactly(GenerationNumber),
}

/// The chosen generation. The headers, tables and states of its whole chain have been verified, its pages not yet.
#[derive(Debug)]
pub struct GenerationChoice {
    /// Its number.
    pub number: GenerationNumber,
    /// Its image, with the images it inherits from.
    pub image: Chain,
    /// Newer generations that were skipped, newest first.
    pub skipped: Vec<Skipped>,
}

impl JobDirectory {
    /// Chooses a generation and opens its image.
    ///
    /// # Errors
    /// [`StoreError::NoCheckpoint`], [`StoreError::NoneGood`], [`StoreError::NoSuchGeneration`]; with
    /// [`Selector::Exactly`], the fault of that generation.
    pub fn choose(&self, selector: Selector) -> Result<GenerationChoice, StoreError> {
        let manifest = self.manifest()?;
        let eligible = |it: &&Generation| match selector {
            Selector::Newest => !it.superseded,
            Selector::Before(number) => !it.superseded && it.number < number,
            Selector::Exactly(number) => it.number == number,
        };
        let mut skipped = Vec::new();
        for generation in manifest.generations.iter().rev().filter(eligible) {
            let number = generation.number;
            let opened = match selector {
                // A generation that was just found bad need not be found bad again.
                Selector::Before(_) => self.found_bad(&manifest, number),
                Selector::Newest | Selector::Exactly(_) => Ok(()),
            };
            match opened.and_then(|()| Chain::open(&self.level_directory, &manifest, generation)) {
                Ok(image) => return Ok(GenerationChoice { number, image, skipped }),
                Err(error) if selector == Selector::Exactly(number) => return Err(error),
                Err(error) => skipped.push(Skipped { number, reason: Box::new(error) }),
            }
        }
        let directory = self.path().to_owned();
        Err(match selector {
            Selector::Exactly(number) => StoreError::NoSuchGeneration { directory, number },
            Selector::Newest if skipped.is_empty() => StoreError::NoCheckpoint(directory),
            _ => StoreError::NoneGood { directory, skipped },
        })
    }

    fn found_bad(&self, manifest: &Manifest, number: GenerationNumber) -> Result<(), StoreError> {
        let bad = self.level_directory.bad_generations();
        let found = |link: &Generation| Some((link.number, *bad.get(&link.number)?));
        let Some((link, is_damage)) = manifest.chain(number).find_map(found) else { return Ok(()) };
        let found = StoreError::FoundBad { is_damage };
        Err(if link == number { found } else { StoreError::Link { number: link, source: Box::new(found) } })
    }

    /// Opens the image of a generation with those it inherits from, and verifies everything except their pages.
    ///
    /// # Errors
    /// [`StoreError::NoSuchGeneration`], or the fault of a file.
    pub fn image(&self, number: GenerationNumber) -> Result<Chain, StoreError> {
        self.choose(Selector::Exactly(number)).map(|choice| choice.image)
    }

    /// Records that the job continued from this generation: all later ones belong to an abandoned life.
    ///
    /// # Errors
    /// If the manifest cannot be rewritten.
    pub fn mark_superseded_after(&self, lease: &Lease, number: GenerationNumber) -> Result<(), StoreError> {
        let mark = |manifest: &mut Manifest| {
            for generation in &mut manifest.generations {
                // The generation from which the job continues rejoins the current life, even if it was superseded
                // before.
                generation.superseded =
                    generation.number > number || generation.superseded && generation.number < number;
            }
        };
        self.level_directory.update_manifest(lease.core(), mark).map(drop)
    }
}
