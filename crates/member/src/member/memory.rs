//! Registration of memory, and its exclusion from checkpoints.

use super::Member;
use crate::error::MemberError;
use crate::transport::Transport;
use standfast_group::RegionId;
use standfast_linux::RegisteredMemory;

impl<T: Transport> Member<T> {
    /// Registers memory under a number. If the number is registered already, replaces its memory or length.
    ///
    /// # Errors
    /// [`MemberError::Region`]
    pub fn protect(&mut self, id: u64, memory: RegisteredMemory) -> Result<(), MemberError> {
        self.regions.protect(RegionId(id), memory)
    }

    /// Removes a region.
    ///
    /// # Errors
    /// [`MemberError::Region`]
    pub fn unprotect(&mut self, id: u64) -> Result<(), MemberError> {
        self.regions.unprotect(RegionId(id))
    }

    /// Excludes those pages of a region that lie completely within `bytes` bytes from `offset` on. Their content after a
    /// restore is undefined.
    ///
    /// # Errors
    /// [`MemberError::Region`]
    pub fn exclude(&mut self, id: u64, offset: usize, bytes: usize) -> Result<(), MemberError> {
        self.regions.set_excluded(RegionId(id), offset..offset.saturating_add(bytes), true)
    }

    /// Includes such pages again.
    ///
    /// # Errors
    /// [`MemberError::Region`]
    pub fn include(&mut self, id: u64, offset: usize, bytes: usize) -> Result<(), MemberError> {
        self.regions.set_excluded(RegionId(id), offset..offset.saturating_add(bytes), false)
    }
}
