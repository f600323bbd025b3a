//! Which generation a restart takes: the newest that is good, and why those before it were not.

use crate::error::Skipped;
use crate::{Chain, JobDirectory, Lease, StoreError};
use standfast_format::manifest::{Generation, GenerationNumber, Manifest};

/// Which generation is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selector {
    /// The newest good one of the job's present life.
    Newest,
    /// As [`Selector::Newest`], but older than this one, which turned out to be bad while its pages were delivered.
    Before(GenerationNumber),
    /// This one and no other, also if it belongs to a life that was given up.
    Exactly(GenerationNumber),
}

/// The generation that was chosen. Header, tables and state of all that it builds upon have been verified, its pages not
/// yet.
#[derive(Debug)]
pub struct GenerationChoice {
    /// Which.
    pub number: GenerationNumber,
    /// Its image, and those that it inherits from.
    pub image: Chain,
    /// Newer ones that were passed over, newest first.
    pub skipped: Vec<Skipped>,
}

impl JobDirectory {
    /// Chooses a generation and opens its image.
    ///
    /// # Errors
    /// [`StoreError::NoCheckpoint`], [`StoreError::NoneGood`], [`StoreError::NoSuchGeneration`]; with
    /// [`Selector::Exactly`] whatever is wrong with that one.
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
                // What was found to be bad a moment ago need not be found once more.
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

    /// Opens the image of a generation, with those that it inherits from, and verifies all but their pages.
    ///
    /// # Errors
    /// [`StoreError::NoSuchGeneration`], or what is wrong with a file.
    pub fn image(&self, number: GenerationNumber) -> Result<Chain, StoreError> {
        self.choose(Selector::Exactly(number)).map(|choice| choice.image)
    }

    /// Notes that the job was continued from this generation: all later ones belong to a life that was given up.
    ///
    /// # Errors
    /// When the manifest cannot be rewritten.
    pub fn mark_superseded_after(&self, lease: &Lease, number: GenerationNumber) -> Result<(), StoreError> {
        let mark = |manifest: &mut Manifest| {
            for generation in &mut manifest.generations {
                // The one that the job continues from belongs to its life again, if it had been given up before.
                generation.superseded =
                    generation.number > number || generation.superseded && generation.number < number;
            }
        };
        self.level_directory.update_manifest(lease.core(), mark).map(drop)
    }
}
