//! Which generation a restart takes: the newest that is good, and why those before it were not.

use crate::job::image_name;
use crate::{ImageFile, JobDirectory, Lease, StoreError};
use standfast_format::manifest::{Generation, GenerationNumber, Manifest};
use std::collections::BTreeSet;
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
    if skipped.is_empty() {
        return "there is no older one".into();
    }
    let each = skipped.iter().map(|it| format!("generation {}: {}", it.number, it.reason));
    each.collect::<Vec<_>>().join("; ")
}

impl JobDirectory {
    /// Chooses a generation and opens its image.
    ///
    /// # Errors
    /// [`StoreError::NoCheckpoint`], [`StoreError::NoneGood`], [`StoreError::NoSuchGeneration`]; with
    /// [`Wish::Exactly`] whatever is wrong with that one.
    pub fn choose(&self, wish: Wish) -> Result<Choice, StoreError> {
        let manifest = self.manifest()?;
        let eligible = |it: &&Generation| match wish {
            Wish::Newest => !it.superseded,
            Wish::Before(number) => !it.superseded && it.number < number,
            Wish::Exactly(number) => it.number == number,
        };
        let mut skipped = Vec::new();
        for generation in manifest.generations.iter().rev().filter(eligible) {
            let number = generation.number;
            match ImageFile::open(&self.shelf, manifest.job, generation) {
                Ok(image) => return Ok(Choice { number, image, skipped }),
                Err(error) if wish == Wish::Exactly(number) => return Err(error),
                Err(error) => {
                    self.shelf.bad_generations().insert(number);
                    skipped.push(Skipped { number, reason: Box::new(error) });
                }
            }
        }
        let directory = self.path().to_owned();
        Err(match wish {
            Wish::Exactly(number) => StoreError::NoSuchGeneration { directory, number },
            Wish::Newest if skipped.is_empty() => StoreError::NoCheckpoint(directory),
            _ => StoreError::NoneGood { directory, skipped },
        })
    }

    /// Opens the image of a generation and verifies all but its pages.
    ///
    /// # Errors
    /// [`StoreError::NoSuchGeneration`], or what is wrong with the file.
    pub fn image(&self, number: GenerationNumber) -> Result<ImageFile, StoreError> {
        self.choose(Wish::Exactly(number)).map(|choice| choice.image)
    }

    /// Removes what is older than the `keep` newest generations of the present life, and says which they were.
    /// Generations that proved to be bad do not count, so that the newest good one always stays.
    ///
    /// # Errors
    /// When the manifest cannot be rewritten.
    pub fn retain(&self, lease: &Lease, keep: NonZeroU32) -> Result<Vec<GenerationNumber>, StoreError> {
        let bad = self.shelf.bad_generations().clone();
        let mut removed = Vec::new();
        self.shelf.update_manifest(lease.core(), |manifest| {
            removed = outdated(&manifest.generations, keep, &bad);
            manifest.generations.retain(|generation| !removed.contains(&generation.number));
        })?;
        for &number in &removed {
            // The manifest no longer names it: if it stays, the next holder of the lease removes it.
            let _ = self.shelf.medium.remove(&image_name(number));
        }
        if !removed.is_empty() {
            self.shelf.clear_tails(|number| !removed.contains(&number));
        }
        Ok(removed)
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
        self.shelf.update_manifest(lease.core(), mark).map(drop)
    }
}

/// The generations that need not be kept: all that are older than the `keep` newest good ones of the present life.
fn outdated(generations: &[Generation], keep: NonZeroU32, bad: &BTreeSet<GenerationNumber>) -> Vec<GenerationNumber> {
    let counts = |it: &&Generation| !it.superseded && !bad.contains(&it.number);
    let oldest_kept = generations.iter().rev().filter(counts).nth(keep.get() as usize - 1);
    let numbers = generations.iter().map(|it| it.number);
    oldest_kept.map_or_else(Vec::new, |oldest| numbers.take_while(|number| *number < oldest.number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_core::Root;

    fn number(number: u64) -> GenerationNumber {
        GenerationNumber::new(number).unwrap()
    }

    fn generation(at: u64, superseded: bool) -> Generation {
        Generation {
            number: number(at),
            parent: None,
            root: Root::default(),
            file_bytes: 0,
            stored_pages: 0,
            taken_nanoseconds: 0,
            pause_nanoseconds: 0,
            superseded,
        }
    }

    fn outdated_of(superseded: &[(u64, bool)], keep: u32, bad: &[u64]) -> Vec<u64> {
        let generations: Vec<_> = superseded.iter().map(|(at, superseded)| generation(*at, *superseded)).collect();
        let bad = bad.iter().map(|at| number(*at)).collect();
        outdated(&generations, NonZeroU32::new(keep).unwrap(), &bad).iter().map(|it| it.get()).collect()
    }

    #[test]
    fn the_newest_are_kept_and_given_up_lives_do_not_count() {
        let live = [(3, false), (4, false), (5, false)];
        assert_eq!(outdated_of(&live, 2, &[]), [3]);
        assert_eq!(outdated_of(&live, 3, &[]), [0; 0]);
        assert_eq!(outdated_of(&live, 9, &[]), [0; 0]);
        assert_eq!(outdated_of(&[], 1, &[]), [0; 0]);
        let restarted_from_3 = [(2, false), (3, false), (4, true), (5, true), (6, false)];
        assert_eq!(outdated_of(&restarted_from_3, 2, &[]), [2], "the two newest live ones are 3 and 6");
        assert_eq!(outdated_of(&restarted_from_3, 1, &[]), [2, 3, 4, 5]);
    }

    #[test]
    fn the_newest_good_generation_is_never_outdated() {
        let live = [(3, false), (4, false), (5, false)];
        assert_eq!(outdated_of(&live, 1, &[5]), [3]);
        assert_eq!(outdated_of(&live, 1, &[4, 5]), [0; 0]);
        assert_eq!(outdated_of(&live, 1, &[3, 4, 5]), [0; 0]);
    }
}
