//! Decides which generations stay. The newest good one always stays, and so does every generation on which a staying
//! one builds.

use crate::names::image_name;
use crate::{JobDirectory, Lease, StoreError};
use standfast_format::manifest::{Generation, GenerationNumber, Manifest};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

impl JobDirectory {
    /// Removes the generations that need not stay, and returns their numbers. These stay:
    ///
    /// - the `keep` newest good generations of the current life, and everything newer than the oldest of them;
    /// - if these share one full image and `keep` exceeds one, the newest good generation with another full image, so
    ///   that no single damaged file destroys everything;
    /// - every generation on which one of these builds.
    ///
    /// Generations that proved bad, or that build on a bad one, do not count.
    ///
    /// # Errors
    /// If the manifest cannot be rewritten.
    pub fn retain(&self, lease: &Lease, keep: NonZeroU32) -> Result<Vec<GenerationNumber>, StoreError> {
        let bad = self.level_directory.bad_generations().clone();
        let parents = self.level_directory.parents();
        let (mut removed, mut names) = (Vec::new(), Vec::new());
        self.level_directory.update_manifest(lease.core(), |manifest| {
            let staying = staying(manifest, keep, &bad, &parents);
            let goes = |it: &&Generation| !staying.contains(&it.number);
            (removed, names) = manifest.generations.iter().filter(goes).map(|it| (it.number, image_name(it))).unzip();
            manifest.generations.retain(|it| staying.contains(&it.number));
        })?;
        for name in &names {
            // The manifest no longer names the file. If this fails, the next holder of the lease removes it.
            let _ = self.level_directory.storage_backend.remove(name);
        }
        if !removed.is_empty() {
            self.level_directory.clear_tails(|number| !removed.contains(&number));
        }
        Ok(removed)
    }
}

/// Returns the generations that stay. `parents` are the parents of generations in progress.
fn staying(
    manifest: &Manifest,
    keep: NonZeroU32,
    bad: &BTreeMap<GenerationNumber, bool>,
    parents: &[GenerationNumber],
) -> BTreeSet<GenerationNumber> {
    let all = || manifest.generations.iter().map(|it| it.number);
    let counting: Vec<_> = counting(manifest, bad).collect();
    let Some(oldest) = counting.get(keep.get() as usize - 1).copied() else { return all().collect() };
    let mut roots: BTreeSet<_> = all().filter(|number| *number >= oldest).chain(parents.iter().copied()).collect();
    let base = |number| manifest.chain(number).last().map(|link| link.number);
    let newest = counting.first().and_then(|newest| base(*newest));
    let one_base = counting.iter().take(keep.get() as usize).all(|number| base(*number) == newest);
    if keep.get() > 1 && one_base {
        roots.extend(counting.iter().find(|number| base(**number) != newest));
    }
    roots.iter().flat_map(|number| manifest.chain(*number)).map(|link| link.number).collect()
}

/// Returns the good generations of the current life, newest first.
pub(crate) fn counting<'a>(
    manifest: &'a Manifest,
    bad: &'a BTreeMap<GenerationNumber, bool>,
) -> impl Iterator<Item = GenerationNumber> + 'a {
    let is_good = |it: &&Generation| manifest.chain(it.number).all(|link| !bad.contains_key(&link.number));
    manifest.generations.iter().rev().filter(|it| !it.superseded).filter(is_good).map(|it| it.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use standfast_core::Root;
    use standfast_format::manifest::{JobDescription, JobId, RunOptions};

    fn number(number: u64) -> GenerationNumber {
        GenerationNumber::new(number).unwrap()
    }

    /// Builds a manifest from the number, parent (0: full) and superseded flag of each generation.
    fn manifest(generations: &[(u64, u64, bool)]) -> Manifest {
        let mut manifest = Manifest::new(JobId::from_bytes([0; 16]), JobDescription::default(), RunOptions::default());
        manifest.generations = generations
            .iter()
            .map(|(at, parent, superseded)| Generation {
                number: number(*at),
                parent: GenerationNumber::new(*parent),
                root: Root::default(),
                file_bytes: 0,
                stored_pages: 0,
                taken_nanoseconds: 0,
                pause_nanoseconds: 0,
                superseded: *superseded,
                origin: Root::default(),
                revision: 0,
                inherited_pages: 0,
                epoch: None,
            })
            .collect();
        manifest
    }

    fn removed(generations: &[(u64, u64, bool)], keep: u32, bad: &[u64]) -> Vec<u64> {
        let manifest = manifest(generations);
        let bad = bad.iter().map(|at| (number(*at), true)).collect();
        let staying = staying(&manifest, NonZeroU32::new(keep).unwrap(), &bad, &[]);
        for kept in &staying {
            assert!(manifest.chain(*kept).all(|link| staying.contains(&link.number)), "{kept} keeps its chain");
        }
        generations.iter().map(|it| it.0).filter(|at| !staying.contains(&number(*at))).collect()
    }

    const fn full(at: u64) -> (u64, u64, bool) {
        (at, 0, false)
    }

    #[test]
    fn retention_keeps_the_newest_and_ignores_superseded_ones() {
        let live = [full(3), full(4), full(5)];
        assert_eq!(removed(&live, 2, &[]), [3]);
        assert_eq!(removed(&live, 3, &[]), [0; 0]);
        assert_eq!(removed(&live, 9, &[]), [0; 0]);
        assert_eq!(removed(&[], 1, &[]), [0; 0]);
        let restarted_from_3 = [full(2), full(3), (4, 0, true), (5, 0, true), full(6)];
        assert_eq!(removed(&restarted_from_3, 2, &[]), [2], "the two newest live ones are 3 and 6");
        assert_eq!(removed(&restarted_from_3, 1, &[]), [2, 3, 4, 5]);
    }

    #[test]
    fn the_newest_good_generation_is_never_removed() {
        let live = [full(3), full(4), full(5)];
        assert_eq!(removed(&live, 1, &[5]), [3]);
        assert_eq!(removed(&live, 1, &[4, 5]), [0; 0]);
        assert_eq!(removed(&live, 1, &[3, 4, 5]), [0; 0]);
        let chain = [full(1), full(2), (3, 2, false), (4, 3, false)];
        assert_eq!(removed(&chain, 1, &[3]), [1], "4 builds upon 3, so 2 is the newest good one");
    }

    #[test]
    fn parents_of_a_kept_generation_are_kept() {
        let chain = [full(1), (2, 1, false), (3, 2, false), (4, 3, false)];
        assert_eq!(removed(&chain, 1, &[]), [0; 0]);
        let two = [full(1), full(2), (3, 2, false), (4, 3, false)];
        assert_eq!(removed(&two, 1, &[]), [1]);
        let abandoned = [full(1), (2, 1, true), (3, 2, true), full(4), (5, 1, false)];
        assert_eq!(removed(&abandoned, 2, &[]), [2, 3]);
    }

    #[test]
    fn kept_generations_depend_on_two_different_full_images() {
        let coalesced = [full(1), full(7), (8, 7, false), (9, 8, false)];
        assert_eq!(removed(&coalesced, 2, &[]), [0; 0], "1 stays as long as all others go back to 7");
        let again = [full(1), full(7), full(15), (16, 15, false)];
        assert_eq!(removed(&again, 2, &[]), [1], "7 has taken its place");
        assert_eq!(removed(&again, 1, &[]), [1, 7]);
        let apart = [full(1), full(2), (3, 2, false), full(4)];
        assert_eq!(removed(&apart, 2, &[]), [1], "3 and 4 go back to different images");
    }
}
