//! Any bytes as the records of a job, and runs of pages around its first mapping: the core file of each process is
//! refused, or every byte that is written lies within it. The first eight bytes place the runs.

#![no_main]

use libfuzzer_sys::fuzz_target;
use standfast_core::{Address, PageRange};
use standfast_format::core_file::{CoreFilePlan, MappedFileNow};
use standfast_format::records::JobState;
use standfast_format::{Contents, Run};

fuzz_target!(|input: &[u8]| {
    let Some((places, records)) = input.split_first_chunk::<8>() else { return };
    let Ok(mut job) = minicbor::decode::<JobState>(records) else { return };
    job.machine.architecture = "x86_64".to_owned();
    let first = job.processes.iter().flat_map(|process| &process.mappings).next().map_or(0, |mapping| mapping.start);
    let run = |place: &u8| {
        let start = (first & !0xfff).saturating_add(u64::from(place & 0x1f) << 12) & !0xfff;
        let contents = if place & 0x20 == 0 { Contents::Stored } else { Contents::Zero };
        Some(Run { owner: u32::from(place >> 6), range: PageRange::checked(Address::new(start), 1)?, contents })
    };
    let mut runs: Vec<Run> = places.iter().filter_map(run).collect();
    runs.sort_unstable();
    runs.dedup_by_key(|run| (run.owner, run.range));
    let header = |_: &_| MappedFileNow {
        path: Some(b"/lib"[..].into()),
        first_page: Some([&b"\x7fELF"[..], &[0; 4092]].concat()),
    };
    for place in 0..job.processes.len() {
        let Ok(plan) = CoreFilePlan::of(&job, place, &runs, &header) else { continue };
        let mut put = |offset: u64, bytes: &[u8]| {
            assert!(offset + bytes.len() as u64 <= plan.bytes());
            Ok::<(), ()>(())
        };
        plan.constants().try_for_each(|(offset, bytes)| put(offset, bytes)).expect("it never fails");
        for run in runs.iter().filter(|run| run.contents == Contents::Stored) {
            plan.place(&[*run], &[7; 4096], &mut put).expect("it never fails");
        }
    }
});
