//! Lives of several coordinators, each of which takes some checkpoints that some parts seal. A coordinator that is believed
//! dead may still be at work, so two of them may count alike.

use super::{PARTS_MAX, SEEDS, SEEDS_OF_REST};
use crate::{PartsEpoch, SealedEpoch, complete_epochs};

const LIVES_MAX: u64 = 4;
const EPOCHS_MAX: u64 = 6;

/// What the parts have sealed. A part seals what all have captured, unless it was lost.
fn sealed(random: &mut fastrand::Rng) -> Vec<Vec<SealedEpoch>> {
    let mut parts = vec![Vec::new(); random.usize(2..=PARTS_MAX)];
    for life in 0..random.u64(1..=LIVES_MAX) {
        let first = random.u64(1..=EPOCHS_MAX);
        for number in first..=first + random.u64(0..EPOCHS_MAX) {
            let is_seldom_lost = random.bool();
            for part in &mut parts {
                if random.u32(0..100) >= if is_seldom_lost { 1 } else { 30 } {
                    let generation = part.len() as u64 + 1;
                    part.push(SealedEpoch { epoch: PartsEpoch { number, cut: life * 100 + number }, generation });
                }
            }
        }
    }
    parts
}

/// Returns what is wrong with the epochs that count.
fn fault(sealed: &[Vec<SealedEpoch>], believes_stale_lives: bool) -> Option<&'static str> {
    // A coordinator that goes by numbers alone believes what an earlier one has left.
    let seen = |it: &SealedEpoch| {
        let cut = if believes_stale_lives { 0 } else { it.epoch.cut };
        SealedEpoch { epoch: PartsEpoch { cut, ..it.epoch }, ..*it }
    };
    let told: Vec<Vec<_>> = sealed.iter().map(|part| part.iter().map(seen).collect()).collect();
    for complete in complete_epochs(&told) {
        let of_part = |(part, generation): (&Vec<SealedEpoch>, &u64)| {
            part.iter().find(|it| it.generation == *generation).map(|it| it.epoch)
        };
        let epochs: Vec<_> = sealed.iter().zip(&complete.generations).map(of_part).collect();
        if epochs.windows(2).any(|two| two[0] != two[1]) {
            return Some("checkpoints of two cuts count as one");
        }
    }
    None
}

fn search(seeds: u64, believes_stale_lives: bool) -> Option<&'static str> {
    (0..seeds).find_map(|seed| fault(&sealed(&mut fastrand::Rng::with_seed(seed)), believes_stale_lives))
}

#[test]
fn checkpoints_of_two_lives_never_count_as_one() {
    assert_eq!(search(SEEDS, false), None);
}

#[test]
#[ignore = "a minute; the first 2,000 seeds are in make test"]
fn checkpoints_of_many_lives_never_count_as_one() {
    assert_eq!(search(SEEDS_OF_REST, false), None);
}

#[test]
fn a_coordinator_that_believes_a_stale_life_is_found() {
    assert_eq!(search(SEEDS, true), Some("checkpoints of two cuts count as one"));
}
