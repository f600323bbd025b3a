//! Regions that the program packs itself, for state that is not in one piece. The packed bytes are a region like others.
//!
//! # Safety
//! The functions follow the header, and the buffer of a region does not move while it is registered.

use crate::table_transport::TableTransport;
use standfast_group::RegionId;
use standfast_linux::RegisteredMemory;
use standfast_member::{Member, MemberError};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

pub(crate) type Size = extern "C" fn(*mut c_void) -> usize;
pub(crate) type Pack = extern "C" fn(*mut c_void, *mut c_void, usize) -> c_int;
pub(crate) type Unpack = extern "C" fn(*mut c_void, *const c_void, usize) -> c_int;

/// The functions of a program for a region of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackFunctions {
    pub(crate) size: Size,
    pub(crate) pack: Pack,
    pub(crate) unpack: Unpack,
}

/// All packed regions.
#[derive(Debug, Default)]
pub(crate) struct PackedRegions(BTreeMap<u64, Packed>);

#[derive(Debug)]
struct Packed {
    functions: PackFunctions,
    context: *mut c_void,
    buffer: Vec<u8>,
    /// Whether it waits for a restore to fill it.
    awaited: bool,
}

impl PackedRegions {
    /// Registers a region, with the length that it has in the epoch to be restored, if any.
    pub(crate) fn register(
        &mut self,
        member: &mut Member<TableTransport>,
        id: u64,
        functions: PackFunctions,
        context: *mut c_void,
    ) -> Result<(), MemberError> {
        let recorded = member.regions().recorded(RegionId(id));
        let mut packed = Packed { functions, context, buffer: Vec::new(), awaited: recorded.is_some() };
        if let Some(bytes) = recorded {
            packed.protect(member, id, bytes as usize)?;
        }
        self.0.insert(id, packed);
        Ok(())
    }

    /// Removes a region, if it is a packed one.
    pub(crate) fn forget(&mut self, id: u64) {
        self.0.remove(&id);
    }

    /// Lets the program pack all of them, before a checkpoint.
    pub(crate) fn pack(&mut self, member: &mut Member<TableTransport>) -> Result<(), MemberError> {
        for (id, packed) in self.0.iter_mut().filter(|(_, packed)| !packed.awaited) {
            let bytes = (packed.functions.size)(packed.context);
            packed.protect(member, *id, bytes)?;
            if (packed.functions.pack)(packed.context, packed.buffer.as_mut_ptr().cast(), bytes) != 0 {
                return Err(MemberError::Region { id: *id, reason: "its function could not pack it".into() });
            }
        }
        Ok(())
    }

    /// Lets the program unpack what has been restored.
    pub(crate) fn unpack(&mut self) -> Result<(), MemberError> {
        for (id, packed) in self.0.iter_mut().filter(|(_, packed)| packed.awaited) {
            packed.awaited = false;
            if (packed.functions.unpack)(packed.context, packed.buffer.as_ptr().cast(), packed.buffer.len()) != 0 {
                let reason = "its function could not unpack it\nhint: end the job".into();
                return Err(MemberError::Region { id: *id, reason });
            }
        }
        Ok(())
    }
}

impl Packed {
    /// Sets the length of the buffer, and registers it again if it moved.
    fn protect(&mut self, member: &mut Member<TableTransport>, id: u64, bytes: usize) -> Result<(), MemberError> {
        if bytes > self.buffer.capacity() {
            // A registered region stays where it is until the new one has replaced it.
            let mut grown = Vec::with_capacity(bytes.next_power_of_two());
            grown.resize(bytes, 0);
            register(member, id, &mut grown)?;
            self.buffer = grown;
            return Ok(());
        }
        self.buffer.resize(bytes, 0);
        register(member, id, &mut self.buffer)
    }
}

fn register(member: &mut Member<TableTransport>, id: u64, buffer: &mut Vec<u8>) -> Result<(), MemberError> {
    // SAFETY: the bytes belong to the vector; it is not moved by others, and is dropped only after the region is removed.
    let memory = unsafe { RegisteredMemory::new(buffer.as_mut_ptr(), buffer.len()) };
    member.protect(id, memory)
}
