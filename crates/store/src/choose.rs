//! Which generation a restart takes: the newest that is good, and why those before it were not.

use crate::{ImageFile, StoreError};
use standfast_format::manifest::GenerationNumber;
use std::num::NonZeroU32;

/// Which generation is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// The newest good one of the job's present life.
    Newest,
    /// As [`Wish::Newest`], but older than this one, which turned out to be bad while its pages were delivered.
    Before(GenerationNumber),
    /// This one and no other, also if it belongs to a life that was given up.
    Exactly(GenerationNumber),
}

/// The generation that was chosen. Its header, tables and state have been verified, its pages not yet.
#[derive(Debug)]
pub struct Choice {
    /// Which.
    pub number: GenerationNumber,
    /// Its image.
    pub image: ImageFile,
    /// Newer ones that were passed over, newest first.
    pub skipped: Vec<Skipped>,
}

/// A generation that was passed over.
#[derive(Debug)]
pub struct Skipped {
    /// Which.
    pub number: GenerationNumber,
    /// Why.
    pub reason: Box<StoreError>,
}

/// Skipped generations as part of a sentence.
pub(crate) fn list_skipped(skipped: &[Skipped]) -> String {
    let each = skipped.iter().map(|it| format!("generation {}: {}", it.number, it.reason));
    each.collect::<Vec<_>>().join("; ")
}

impl crate::JobDirectory {
    /// Chooses a generation and opens its image.
    ///
    /// # Errors
    /// [`StoreError::NoCheckpoint`], [`StoreError::NoneGood`], [`StoreError::NoSuchGeneration`]; with
    /// [`Wish::Exactly`] whatever is wrong with that one.
    pub fn choose(&self, _wish: Wish) -> Result<Choice, StoreError> {
        unimplemented!("skeleton")
    }

    /// Opens the image of a generation and verifies all but its pages.
    ///
    /// # Errors
    /// [`StoreError::NoSuchGeneration`], or what is wrong with the file.
    pub fn image(&self, _number: GenerationNumber) -> Result<ImageFile, StoreError> {
        unimplemented!("skeleton")
    }

    /// Removes what is older than the `keep` newest generations of the present life, and says which they were.
    /// The newest good generation always stays.
    ///
    /// # Errors
    /// When the manifest cannot be rewritten.
    pub fn retain(&self, _lease: &crate::Lease, _keep: NonZeroU32) -> Result<Vec<GenerationNumber>, StoreError> {
        unimplemented!("skeleton")
    }

    /// Notes that the job was continued from this generation: all later ones belong to a life that was given up.
    ///
    /// # Errors
    /// When the manifest cannot be rewritten.
    pub fn mark_superseded_after(&self, _lease: &crate::Lease, _number: GenerationNumber) -> Result<(), StoreError> {
        unimplemented!("skeleton")
    }
}
