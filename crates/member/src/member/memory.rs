//! What a process registers, and what of it is left out.

use super::Member;
use crate::error::MemberError;
use crate::transport::Transport;
use standfast_group::RegionId;
use standfast_linux::RegisteredMemory;

impl<T: Transport> Member<T> {
    /// Registers memory under a number, or other memory or another length under one that is registered.
    ///
    /// # Errors
    /// [`MemberError::Region`]
    pub fn protect(&mut self, id: u64, memory: RegisteredMemory) -> Result<(), MemberError> {
        self.regions.protect(RegionId(id), memory)
    }

    /// Forgets a region.
    ///
    /// # Errors
    /// [`MemberError::Region`]
    pub fn unprotect(&mut self, id: u64) -> Result<(), MemberError> {
        self.regions.unprotect(RegionId(id))
    }

    /// Leaves those pages of a region out that lie wholly within so many bytes from `offset` on. What they hold after a
    /// restore is not defined.
    ///
    /// # Errors
    /// [`MemberError::Region`]
    pub fn exclude(&mut self, id: u64, offset: usize, bytes: usize) -> Result<(), MemberError> {
        self.regions.set_excluded(RegionId(id), offset..offset.saturating_add(bytes), true)
    }

    /// Takes them in again.
    ///
    /// # Errors
    /// [`MemberError::Region`]
    pub fn include(&mut self, id: u64, offset: usize, bytes: usize) -> Result<(), MemberError> {
        self.regions.set_excluded(RegionId(id), offset..offset.saturating_add(bytes), false)
    }
}
