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

/// A durable checkpoint of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedEpoch {
    /// The epoch that it belongs to.
    pub epoch: PartsEpoch,
    /// The generation of the part.
    pub generation: u64,
}

/// Returns the newest epoch that every part has sealed, and the generation of each part. `sealed[part]` are the checkpoints
/// of a part.
pub fn newest_complete(sealed: &[Vec<SealedEpoch>]) -> Option<(PartsEpoch, Vec<u64>)> {
    let by_epoch = |of_part: &Vec<SealedEpoch>| of_part.iter().map(|it| (it.epoch, it.generation)).collect();
    let generations: Vec<BTreeMap<PartsEpoch, u64>> = sealed.iter().map(by_epoch).collect();
    let of_all = |epoch: &PartsEpoch| generations.iter().map(|it| it.get(epoch).copied()).collect::<Option<Vec<_>>>();
    generations.first()?.keys().rev().find_map(|epoch| Some((*epoch, of_all(epoch)?)))
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

    #[test]
    fn an_epoch_counts_only_if_every_part_has_sealed_it() {
        let parts = [
            sealed(&[[1, 7, 4], [2, 7, 5], [3, 7, 6]]),
            sealed(&[[1, 7, 1], [2, 7, 3]]),
            sealed(&[[3, 7, 9], [2, 7, 8]]),
        ];
        assert_eq!(newest_complete(&parts), Some((PartsEpoch { number: 2, cut: 7 }, vec![5, 3, 8])));
        assert_eq!(newest_complete(&[sealed(&[[1, 7, 1]]), sealed(&[[2, 7, 2]])]), None);
        assert_eq!(newest_complete(&[]), None);
    }

    #[test]
    fn cuts_of_two_lives_are_not_mixed() {
        let parts = [sealed(&[[1, 7, 4], [2, 8, 5]]), sealed(&[[1, 7, 4], [2, 9, 5]])];
        assert_eq!(newest_complete(&parts), Some((PartsEpoch { number: 1, cut: 7 }, vec![4, 4])));
    }
}
