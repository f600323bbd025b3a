//! Which checkpoints of the parts belong together. Each part records with a generation the epoch that it belongs to. No
//! other record is needed.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Names one cut. Two lives of a coordinator may count alike, if one is believed dead; their cuts differ all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartsEpoch {
    /// Ascends with each cut.
    pub number: u64,
    /// Chosen at random for each cut.
    pub cut: u64,
}

/// What a part is asked for in a cut, and what it may forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CutOrder {
    /// The epoch that its checkpoint belongs to.
    pub epoch: PartsEpoch,
    /// The newest one that all parts have sealed and that is not in doubt: what is older may go.
    pub complete: Option<PartsEpoch>,
    /// The newest such epoch that all parts have on disk: what is older may go from there.
    pub on_disk: Option<PartsEpoch>,
    /// Whether a checkpoint in memory is flushed to the disk.
    pub is_to_flush: bool,
}

/// A durable checkpoint of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedEpoch {
    /// The epoch that it belongs to.
    pub epoch: PartsEpoch,
    /// The generation of the part.
    pub generation: u64,
}

/// An epoch that every part has sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteEpoch {
    /// Its name.
    pub epoch: PartsEpoch,
    /// The generation of each part.
    pub generations: Vec<u64>,
}

/// Returns the epochs that every part has sealed, newest first. `sealed[part]` are the checkpoints of a part.
pub fn complete_epochs(sealed: &[Vec<SealedEpoch>]) -> Vec<CompleteEpoch> {
    let by_epoch = |of_part: &Vec<SealedEpoch>| of_part.iter().map(|it| (it.epoch, it.generation)).collect();
    let generations: Vec<BTreeMap<PartsEpoch, u64>> = sealed.iter().map(by_epoch).collect();
    let of_all = |epoch: &PartsEpoch| generations.iter().map(|it| it.get(epoch).copied()).collect::<Option<Vec<_>>>();
    let epochs = generations.first().into_iter().flat_map(|first| first.keys().rev());
    epochs.filter_map(|epoch| Some(CompleteEpoch { epoch: *epoch, generations: of_all(epoch)? })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Epoch, cut, and generation of each.
    fn sealed(epochs: &[[u64; 3]]) -> Vec<SealedEpoch> {
        let sealed =
            |&[number, cut, generation]: &[u64; 3]| SealedEpoch { epoch: PartsEpoch { number, cut }, generation };
        epochs.iter().map(sealed).collect()
    }

    fn complete([number, cut]: [u64; 2], generations: &[u64]) -> CompleteEpoch {
        CompleteEpoch { epoch: PartsEpoch { number, cut }, generations: generations.to_vec() }
    }

    #[test]
    fn an_epoch_counts_only_if_every_part_has_sealed_it() {
        let parts = [
            sealed(&[[1, 7, 4], [2, 7, 5], [3, 7, 6]]),
            sealed(&[[1, 7, 1], [2, 7, 3]]),
            sealed(&[[3, 7, 9], [2, 7, 8]]),
        ];
        assert_eq!(complete_epochs(&parts), [complete([2, 7], &[5, 3, 8])]);
        assert_eq!(complete_epochs(&[sealed(&[[1, 7, 1]]), sealed(&[[2, 7, 2]])]), []);
        assert_eq!(complete_epochs(&[]), []);
        assert_eq!(complete_epochs(&parts[..1]).first(), Some(&complete([3, 7], &[6])), "the newest comes first");
    }

    #[test]
    fn cuts_of_two_lives_are_not_mixed() {
        let parts = [sealed(&[[1, 7, 4], [2, 8, 5]]), sealed(&[[1, 7, 4], [2, 9, 5]])];
        assert_eq!(complete_epochs(&parts), [complete([1, 7], &[4, 4])]);
    }
}
