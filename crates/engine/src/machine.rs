//! The machine on which a checkpoint is taken: its kernel, processor and clocks.

use standfast_core::Address;
use standfast_core::Checksum;
use standfast_format::records::{Clocks, Machine, StateArea};
use standfast_linux::Pid;
use standfast_linux::abi;
use standfast_linux::proc::Map;
use standfast_linux::processor;
use standfast_linux::sys::process;
use std::sync::{Mutex, PoisonError};

/// Returns what a restart must find again of this machine, for a program that has these processor features.
pub(crate) fn machine(xsave_features: u64) -> Machine {
    static LAST: Mutex<Option<Machine>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    match last.take().filter(|last| last.xsave_features == xsave_features) {
        Some(found) => last.insert(found).clone(),
        None => last.insert(find_machine(xsave_features)).clone(),
    }
}

fn find_machine(xsave_features: u64) -> Machine {
    let line = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    Machine {
        architecture: std::env::consts::ARCH.to_owned(),
        kernel_release: line("/proc/sys/kernel/osrelease"),
        host: line("/proc/sys/kernel/hostname"),
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        vdso: Checksum::of(&own_vdso_code()),
        xsave_features,
        processor_features: processor::features().into_iter().map(str::to_owned).collect(),
        state_areas: processor::state_areas(xsave_features)
            .into_iter()
            .map(|(feature, offset, bytes)| StateArea { feature, offset, bytes })
            .collect(),
        vdso_code: own_vdso_code().into(),
    }
}

/// Returns the vdso of this process; the kernel gives every process the same code.
pub(crate) fn own_vdso_code() -> Vec<u8> {
    let own = Pid::own();
    let bytes = || {
        let maps = Map::of(own).ok()?;
        let vdso = maps.iter().find(|map| map.path == b"[vdso]")?;
        let mut bytes = vec![0u8; vdso.range().bytes() as usize];
        let memory = standfast_linux::ProcessMemory::open(own).ok()?;
        memory.read(Address::new(vdso.start), &mut bytes).ok()?;
        Some(bytes)
    };
    bytes().unwrap_or_default()
}

pub(crate) fn clocks(pid: Pid) -> Clocks {
    let (monotonic_nanoseconds, boottime_nanoseconds) = standfast_linux::monotonic_clocks_of(pid);
    Clocks {
        realtime_nanoseconds: process::clock_nanoseconds(abi::CLOCK_REALTIME),
        monotonic_nanoseconds,
        boottime_nanoseconds,
    }
}
