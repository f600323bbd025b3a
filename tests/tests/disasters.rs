//! A checkpoint or a restart that is struck at any of its calls. These tests strike a slice of all moments; the soak
//! strikes the rest.
#![allow(missing_docs, reason = "a test binary")]

use anyhow::{Result, ensure};
use fastrand::Rng;
use standfast_tests::damage::one_flipped_bit_is_noticed;
use standfast_tests::disaster::{Before, Disaster, FlushDisaster, KilledJob, Subject};
use standfast_tests::seed;
use standfast_tests::tracer::Sighting;

/// The number of calls that one sweep strikes in this slice, evenly apart, unless `STANDFAST_SWEEP` sets it.
const STRIKES: u64 = 24;
/// The same number for each further way to take memory, and for a tree of processes.
const FURTHER_STRIKES: u64 = 8;

/// No checkpoint of so small a program makes this many calls. A sweep that does not end would be a fault of its own.
const CALLS_MAX: u64 = 20_000;

/// Strikes at growing `n` until there is no n-th call. Begins with a probe past the end to learn the stride. A random
/// offset lets repeated test runs meet all calls in time.
fn sweep(usual: u64, mut strike: impl FnMut(u64) -> Result<Sighting>) -> Result<()> {
    let wished = std::env::var("STANDFAST_SWEEP").ok().and_then(|strikes| strikes.parse().ok());
    let Sighting { calls, struck } = strike(CALLS_MAX)?;
    ensure!(struck.is_none() && calls > 0, "saw {calls} calls");
    let stride = calls.div_ceil(wished.unwrap_or(usual).max(1));
    let first = 1 + Rng::with_seed(seed()).u64(..stride);
    let (mut struck_often, mut fewest) = (0, calls);
    for at in (first..=calls).step_by(usize::try_from(stride)?) {
        let seen = strike(at)?;
        struck_often += u64::from(seen.struck.is_some());
        fewest = if seen.struck.is_none() { fewest.min(seen.calls) } else { fewest };
    }
    if struck_often == 0 {
        // The probe made more calls than the other runs, for example because it took longer to stop the program.
        struck_often += u64::from(strike(fewest.div_ceil(2))?.struck.is_some());
    }
    ensure!(struck_often > 0, "no call was struck among {calls}, or {fewest} at other times");
    Ok(())
}

fn sweep_checkpoint(before: Before, disaster: Disaster) -> Result<()> {
    let subject = Subject::small()?;
    sweep(STRIKES, |at| subject.strike_checkpoint(before, disaster, at))
}

/// Strikes checkpoints of another program, or checkpoints taken in another way.
fn sweep_further(subject: &Subject, disaster: Disaster) -> Result<()> {
    sweep(FURTHER_STRIKES, |at| subject.strike_checkpoint(Before::OneGeneration, disaster, at))
}

#[test]
fn a_program_outlives_its_supervisor_killed_at_any_call_of_a_checkpoint() -> Result<()> {
    sweep_checkpoint(Before::OneGeneration, Disaster::SupervisorKilled)
}

#[test]
fn a_program_outlives_a_killed_supervisor_and_its_clones_do_not() -> Result<()> {
    sweep_by("fork")
}

#[test]
fn a_program_outlives_its_supervisor_killed_during_a_precopy() -> Result<()> {
    sweep_by("precopy")
}

#[test]
fn a_clone_killed_at_any_call_fails_only_its_checkpoint() -> Result<()> {
    let subject = Subject::small()?.protected_with(&["--snapshot", "fork"]);
    sweep_further(&subject, Disaster::CloneKilled)
}

#[test]
fn a_tree_outlives_a_killed_supervisor_and_its_clones_do_not() -> Result<()> {
    let subject = Subject::ring()?.protected_with(&["--snapshot", "fork"]);
    sweep_further(&subject, Disaster::SupervisorKilled)
}

#[test]
fn memory_full_from_any_call_on_sends_the_checkpoint_to_disk() -> Result<()> {
    let subject = Subject::small()?.in_memory();
    sweep(FURTHER_STRIKES, |at| subject.strike_full_memory(at))
}

/// Strikes flushes, alternately those made while the program is frozen and those made while it runs.
fn sweep_flush(disaster: FlushDisaster) -> Result<()> {
    let small = Subject::small()?.in_memory();
    let mut subjects = ["foreground", "background"]
        .map(|flush_mode| small.protected_with(&["--flush-every", "1", "--flush", flush_mode]))
        .into_iter()
        .cycle();
    sweep(FURTHER_STRIKES, |at| {
        let subject = subjects.next().expect("they come again and again");
        subject.strike_flush(disaster, at)
    })
}

#[test]
fn a_program_outlives_its_supervisor_killed_at_any_call_of_a_flush() -> Result<()> {
    sweep_flush(FlushDisaster::SupervisorKilled)
}

#[test]
fn a_program_killed_at_any_call_of_a_flush_continues_from_a_good_generation() -> Result<()> {
    sweep_flush(FlushDisaster::ProgramKilled)
}

#[test]
fn a_disk_full_from_any_call_of_a_flush_on_keeps_memory_intact() -> Result<()> {
    sweep_flush(FlushDisaster::DiskFull)
}

#[test]
fn memory_emptied_at_any_call_of_a_flush_keeps_a_whole_generation() -> Result<()> {
    sweep_flush(FlushDisaster::MemoryEmptied)
}

#[test]
fn a_chain_struck_at_any_call_of_coalescing_keeps_its_contents() -> Result<()> {
    let subject = Subject::small()?.protected_with(&["--incremental", "on", "--max-files", "100"]);
    for disaster in [Disaster::SupervisorKilled, Disaster::DiskFull] {
        sweep(FURTHER_STRIKES, |at| subject.strike_coalescing(disaster, at))?;
    }
    Ok(())
}

/// Kills the supervisor during checkpoints that take memory in this way.
fn sweep_by(snapshot: &str) -> Result<()> {
    let subject = Subject::small()?.protected_with(&["--snapshot", snapshot]);
    sweep_further(&subject, Disaster::SupervisorKilled)
}

#[test]
fn a_program_killed_at_any_call_of_a_checkpoint_continues_from_a_good_one() -> Result<()> {
    sweep_checkpoint(Before::OneGeneration, Disaster::ProgramKilled)
}

#[test]
fn a_disk_error_at_any_call_of_a_checkpoint_harms_neither_program_nor_generations() -> Result<()> {
    sweep_checkpoint(Before::OneGeneration, Disaster::DiskError)
}

#[test]
fn a_full_disk_from_any_call_of_a_checkpoint_on_harms_neither_program_nor_generations() -> Result<()> {
    sweep_checkpoint(Before::OneGeneration, Disaster::DiskFull)
}

#[test]
fn a_program_outlives_a_supervisor_killed_in_the_first_checkpoint() -> Result<()> {
    sweep_checkpoint(Before::Nothing, Disaster::SupervisorKilled)
}

#[test]
fn a_restart_killed_at_any_call_leaves_a_job_that_can_be_restarted() -> Result<()> {
    let job = KilledJob::new(&Subject::small()?)?;
    sweep(STRIKES, |at| job.strike_restart(at))
}

/// Strikes checkpoints of a tree of processes.
fn sweep_tree(disaster: Disaster) -> Result<()> {
    let subject = Subject::ring()?;
    sweep_further(&subject, disaster)
}

#[test]
fn a_tree_outlives_its_supervisor_killed_at_any_call_of_a_checkpoint() -> Result<()> {
    sweep_tree(Disaster::SupervisorKilled)
}

#[test]
fn a_tree_killed_at_any_call_of_a_checkpoint_continues() -> Result<()> {
    sweep_tree(Disaster::ProgramKilled)
}

#[test]
fn a_tree_that_loses_a_process_in_a_checkpoint_continues() -> Result<()> {
    sweep_tree(Disaster::SpareKilled)
}

#[test]
fn a_tree_restart_killed_at_any_call_leaves_a_restartable_job() -> Result<()> {
    let job = KilledJob::new(&Subject::ring()?)?;
    sweep(FURTHER_STRIKES, |at| job.strike_restart(at))
}

#[test]
fn a_tree_restart_that_loses_any_process_fails_as_a_whole() -> Result<()> {
    let job = KilledJob::new(&Subject::ring()?)?;
    let mut random = Rng::with_seed(seed());
    sweep(FURTHER_STRIKES, |at| job.strike_restarting(at, random.usize(..1000)))
}

#[test]
fn a_flipped_bit_is_noticed_and_never_runs_a_wrong_program() -> Result<()> {
    let job = KilledJob::new(&Subject::small()?)?;
    let seed = seed();
    let mut random = Rng::with_seed(seed);
    for turn in 0..30 {
        one_flipped_bit_is_noticed(&job, &mut random)
            .map_err(|problem| problem.context(format!("STANDFAST_SEED={seed}, flip {turn}")))?;
    }
    Ok(())
}
