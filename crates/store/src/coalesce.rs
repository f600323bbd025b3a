//! Coalescing: makes a generation that inherits pages full, and removes the generations that only led up to it (L7).
//! The program is not touched.
//!
//! ```text
//! before   1 full <- 2 <- 3 <- ... <- 15 <- 16        two must be kept
//! after    1 full                     15 full <- 16   1 stays, since 15 and 16 do not depend on it
//! ```
//!
//! The full image of the old generation has a new name. The manifest switches from one image to the other in one step,
//! so a crash at any moment leaves either the old chain or the new one intact. Its children refer to it by its
//! [`Generation::origin`], which does not change. Every page is verified as it is copied.

use crate::chain::{Chain, LINKS_MAX};
use crate::level_directory::Slot;
use crate::names::{image_name, image_name_of};
use crate::pack::Packer;
use crate::prepare::{Draft, write_frame};
use crate::progress::Progress;
use crate::retention::counting;
use crate::{JobDirectory, Lease, StorageFile, StoreError};
use standfast_format::ImageSource;
use standfast_format::image::{Assembled, ImageIdentity, assemble};
use standfast_format::manifest::{Generation, GenerationNumber, Manifest};
use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};

/// Decides when a chain is coalesced, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoalesceRule {
    /// Number of newest generations that stay as they are.
    pub keep: NonZeroU32,
    /// Chain length from which coalescing is due. If it does not exceed `keep`, `keep` plus one counts instead.
    pub links: u32,
    /// Minimum bytes of differences that make coalescing worthwhile before the chain is that long.
    pub bytes_min: u64,
}

/// The result of coalescing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coalesced {
    /// The generation that is now full.
    pub number: GenerationNumber,
    /// Length of its new file.
    pub file_bytes: u64,
    /// Number of removed generations, which only led up to it.
    pub removed: u64,
}

impl CoalesceRule {
    /// Coalesces as far as possible, whatever the length of the chain.
    pub fn at_once(keep: NonZeroU32) -> Self {
        Self { keep, links: 0, bytes_min: 0 }
    }

    /// Returns the generation that should become full, if it is time. It is time if the chain of the newest generation
    /// is long, or if its differences have grown as large as the full image on which they build.
    fn target(
        self,
        manifest: &Manifest,
        newest: GenerationNumber,
        oldest_kept: GenerationNumber,
    ) -> Option<&Generation> {
        let links: Vec<_> = manifest.chain(newest).collect();
        let (base, differences) = links.split_last()?;
        let bytes: u64 = differences.iter().map(|link| link.file_bytes).sum();
        let keep = self.keep.get() as usize;
        let is_long = links.len() >= (self.links as usize).max(keep + 1).min(LINKS_MAX);
        let is_large = links.len() > keep + 1 && bytes >= base.file_bytes.max(self.bytes_min);
        let target = links.iter().find(|link| link.number == oldest_kept && link.parent.is_some());
        target.copied().filter(|_| is_long || is_large)
    }
}

impl JobDirectory {
    /// Coalesces the chain of the newest generation, if the rule says that it is time. Returns `None` if there was
    /// nothing to do, if `cancelled` was set meanwhile, or if the target has gone. May run while a checkpoint is taken. Counts
    /// the bytes that it writes in `progress`.
    ///
    /// # Errors
    /// If a link is not good, or the disk refuses. All generations then stay as they were.
    pub fn coalesce(
        &self,
        lease: &Lease,
        rule: CoalesceRule,
        cancelled: &AtomicBool,
        progress: &Progress,
    ) -> Result<Option<Coalesced>, StoreError> {
        let manifest = self.manifest()?;
        let bad = self.level_directory.bad_generations().clone();
        let kept: Vec<_> = counting(&manifest, &bad).take(rule.keep.get() as usize).collect();
        let (Some(newest), Some(oldest)) = (kept.first(), kept.last()) else { return Ok(None) };
        let Some(target) = rule.target(&manifest, *newest, *oldest) else { return Ok(None) };
        let chain = Chain::open(&self.level_directory, &manifest, target)?;
        let full = image_name_of(target.number, target.revision + 1);
        let mut draft = Draft::begin(&self.level_directory, lease, Slot::Coalescing, full)?;
        let file = draft.create()?;
        let written = Cell::new(0);
        let go_on = |_: &dyn StorageFile, bytes: u64| {
            progress.add(bytes - written.replace(bytes));
            Ok(!cancelled.load(Ordering::Relaxed))
        };
        let Some(contained) = Packer::copy(&chain, &*file, &go_on, &draft)? else { return Ok(None) };
        let identity = ImageIdentity { job: manifest.job, generation: target.number, parent: None };
        let image = assemble(identity, contained, chain.state())
            .map_err(|source| StoreError::Image { path: draft.path(), source })?;
        write_frame(&*file, &image).and_then(|()| file.sync()).map_err(|error| draft.writing(error))?;
        draft.publish()?;
        self.exchange(draft, target, &image)
    }

    /// Replaces the old image with the full one, and removes from the manifest the generations that only led up to it.
    fn exchange(
        &self,
        mut draft: Draft,
        target: &Generation,
        image: &Assembled,
    ) -> Result<Option<Coalesced>, StoreError> {
        let full = Generation {
            parent: None,
            root: image.root,
            file_bytes: image.header.file_bytes(),
            stored_pages: image.header.stored_pages(),
            inherited_pages: 0,
            revision: target.revision + 1,
            ..target.clone()
        };
        let in_the_making = self.level_directory.parents();
        let mut gone = Vec::new();
        let exchanged = self.level_directory.update_manifest(&draft.lease, |manifest| {
            let before: Vec<_> = manifest.chain(target.number).map(|link| link.number).collect();
            // The generation may have been superseded meanwhile; the image is the same.
            let place = manifest.generations.iter_mut().find(|it| (it.number, it.root) == (target.number, target.root));
            let Some(place) = place else { return };
            let superseded = place.superseded;
            gone.push(image_name(place));
            *place = Generation { superseded, ..full.clone() };
            let between = before.iter().skip(1).take(before.len().saturating_sub(2));
            for number in between.filter(|number| !in_the_making.contains(number)) {
                if manifest.generations.iter().any(|it| it.parent == Some(*number)) {
                    break;
                }
                gone.extend(manifest.generation(*number).map(image_name));
                manifest.generations.retain(|it| it.number != *number);
            }
        });
        // After an error only the directory shows which manifest is current. An unreadable one may name the new image.
        let known = self.level_directory.known_manifest().clone();
        draft.kept = known.is_none_or(|it| it.generation(target.number).is_some_and(|it| it.root == full.root));
        exchanged?;
        for name in &gone {
            // The manifest no longer names the file. If this fails, the next holder of the lease removes it.
            let _ = self.level_directory.storage_backend.remove(name);
        }
        let removed = (gone.len() as u64).saturating_sub(1);
        if let Some(manifest) = self.level_directory.known_manifest().clone() {
            self.level_directory.clear_tails(|number| manifest.generation(number).is_some());
        }
        Ok(draft.kept.then_some(Coalesced { number: full.number, file_bytes: full.file_bytes, removed }))
    }
}
