//! Regions that the program packs itself: state that lies nowhere in one piece. The packed bytes are a region like others.
//!
//! # Safety
//! The functions do what the header says, and the buffer of a region is not moved while it is registered.

use crate::line::Line;
use standfast_group::RegionId;
use standfast_linux::RegisteredMemory;
use standfast_member::{Member, MemberError};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

pub(crate) type Size = extern "C" fn(*mut c_void) -> usize;
pub(crate) type Pack = extern "C" fn(*mut c_void, *mut c_void, usize) -> c_int;
pub(crate) type Unpack = extern "C" fn(*mut c_void, *const c_void, usize) -> c_int;

/// What a program does for a region of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackFunctions {
    pub(crate) size: Size,
    pub(crate) pack: Pack,
    pub(crate) unpack: Unpack,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct PackedRegions(BTreeMap<u64, Packed>);

#[derive(Debug)]
struct Packed {
    functions: PackFunctions,
    context: *mut c_void,
    buffer: Vec<u8>,
    /// It has been filled by a restore only when this says so.
    awaited: bool,
}

impl PackedRegions {
    /// Registers one; where the epoch that is gone back to has it, with as many bytes.
    pub(crate) fn register(
        &mut self,
        member: &mut Member<Line>,
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

    /// Forgets one, if it is one.
    pub(crate) fn forget(&mut self, id: u64) {
        self.0.remove(&id);
    }

    /// Has all of them packed, before a checkpoint.
    pub(crate) fn pack(&mut self, member: &mut Member<Line>) -> Result<(), MemberError> {
        for (id, packed) in self.0.iter_mut().filter(|(_, packed)| !packed.awaited) {
            let bytes = (packed.functions.size)(packed.context);
            packed.protect(member, *id, bytes)?;
            if (packed.functions.pack)(packed.context, packed.buffer.as_mut_ptr().cast(), bytes) != 0 {
                return Err(MemberError::Region { id: *id, reason: "its function could not pack it".into() });
            }
        }
        Ok(())
    }

    /// Hands out what has been restored.
    pub(crate) fn unpack(&mut self) -> Result<(), MemberError> {
        for (id, packed) in self.0.iter_mut().filter(|(_, packed)| packed.awaited) {
            packed.awaited = false;
            if (packed.functions.unpack)(packed.context, packed.buffer.as_ptr().cast(), packed.buffer.len()) != 0 {
                let reason = "its function could not unpack it; end the job".into();
                return Err(MemberError::Region { id: *id, reason });
            }
        }
        Ok(())
    }
}

impl Packed {
    /// Makes the buffer so long, and registers it where it is another one then.
    fn protect(&mut self, member: &mut Member<Line>, id: u64, bytes: usize) -> Result<(), MemberError> {
        if bytes > self.buffer.capacity() {
            // A region that is registered stays where it is until the new one has taken its place.
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

fn register(member: &mut Member<Line>, id: u64, buffer: &mut Vec<u8>) -> Result<(), MemberError> {
    // SAFETY: the bytes are the vector's, which is moved by nobody else and dropped after it is registered no more.
    let memory = unsafe { RegisteredMemory::new(buffer.as_mut_ptr(), buffer.len()) };
    member.protect(id, memory)
}
