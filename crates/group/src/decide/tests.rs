//! Recovery decisions, case by case. The simulator and the exhaustive explorer cover what no list of cases can.

use super::*;
use crate::plan::RecoveryMode;
use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;

const JOB: JobId = JobId::from_bytes([7; 16]);

fn epoch(life: u64, number: u64, random: u64) -> EpochId {
    EpochId { job: JOB, life: Life(life), number, random }
}

fn rotating(members: u32) -> Plan {
    Plan::rotating(JOB, RecoveryMode::Relaunch, Scheme::Parity, members).unwrap()
}

fn dedicated() -> Plan {
    Plan::dedicated(JOB, RecoveryMode::InPlace, Scheme::ReedSolomon { checks: 2 }, 3, 2).unwrap()
}

/// A process that had a logical rank and holds its shards of some epochs.
fn holds(logical_rank: u32, epochs: &[EpochId]) -> Report {
    let holding = |epoch: &EpochId| Holding {
        epoch: *epoch,
        logical_rank: LogicalRank(logical_rank),
        acknowledged: false,
        level: EpochLevel::Encoded,
    };
    let holdings: Vec<_> = epochs.iter().map(holding).collect();
    Report { life: Life(1), started: true, prefers: Some(LogicalRank(logical_rank)), holdings, unpromised: false }
}

fn spare() -> Report {
    Report::default()
}

fn reports(list: impl IntoIterator<Item = Report>) -> BTreeMap<Rank, Report> {
    (0..).map(Rank).zip(list).collect()
}

fn logical_rank_of(restore: &Restore, rank: u32) -> Option<u32> {
    restore.logical_ranks.iter().find(|(_, holder)| *holder == Rank(rank)).map(|(logical_rank, _)| logical_rank.0)
}

#[test]
fn the_newest_recoverable_epoch_is_chosen_even_if_unacknowledged() {
    let (old, new) = (epoch(1, 6, 1), epoch(1, 7, 2));
    let mut list = vec![holds(0, &[old, new]), holds(1, &[old, new]), holds(2, &[old])];
    list[2].holdings[0].acknowledged = true;
    let restore = decide(&rotating(3), &reports(list.clone()), &Rejected::new()).unwrap();
    assert_eq!(restore.epoch, Some(new), "two of three suffice for parity");
    assert_eq!((restore.sources.len(), restore.logical_ranks.len(), restore.life), (2, 3, Life(2)));
    list[1] = holds(1, &[old]);
    assert_eq!(decide(&rotating(3), &reports(list), &Rejected::new()).unwrap().epoch, Some(old));
}

#[test]
fn an_epoch_is_chosen_only_if_all_groups_can_recover_it() {
    let (old, new) = (epoch(1, 6, 1), epoch(1, 7, 2));
    let group = |members: [u32; 2]| crate::Group {
        members: members.map(LogicalRank).to_vec(),
        parity_nodes: vec![],
        scheme: Scheme::Parity,
    };
    let plan = Plan::new(JOB, RecoveryMode::Relaunch, vec![group([0, 1]), group([2, 3])]).unwrap();
    let list = [holds(0, &[old, new]), holds(1, &[old, new]), holds(2, &[old]), holds(3, &[old])];
    assert_eq!(decide(&plan, &reports(list), &Rejected::new()).unwrap().epoch, Some(old));
}

#[test]
fn epochs_with_the_same_number_are_not_mixed() {
    let (stale, fresh) = (epoch(1, 7, 0xbad), epoch(2, 7, 0x600d));
    let list = [holds(0, &[stale]), holds(1, &[fresh]), holds(2, &[fresh])];
    let restore = decide(&rotating(3), &reports(list), &Rejected::new()).unwrap();
    assert_eq!(restore.epoch, Some(fresh));
    assert_eq!(restore.sources, [(LogicalRank(1), Rank(1)), (LogicalRank(2), Rank(2))]);
    let list = [holds(0, &[stale]), holds(1, &[fresh]), holds(2, &[])];
    let refused = decide(&rotating(3), &reports(list), &Rejected::new()).unwrap_err();
    assert!(
        matches!(refused, Refusal::TooMuchLost { epoch, group: 0, ref missing } if epoch == fresh && missing.len() == 2)
    );
}

#[test]
fn a_later_life_is_newer_than_a_higher_number_of_an_earlier_one() {
    let mirrors = Plan::rotating(JOB, RecoveryMode::Relaunch, Scheme::Mirroring, 2).unwrap();
    let (given_up, gone_on_with) = (epoch(1, 9, 1), epoch(2, 8, 2));
    let list = [holds(0, &[given_up]), holds(1, &[gone_on_with])];
    assert_eq!(decide(&mirrors, &reports(list), &Rejected::new()).unwrap().epoch, Some(gone_on_with));
}

#[test]
fn a_lost_member_is_replaced_by_a_spare_or_else_a_parity_node() {
    let now = [epoch(1, 3, 3)];
    let lost_one = || vec![holds(0, &now), holds(2, &now), holds(3, &now), holds(4, &now)];
    let mut with_spare = lost_one();
    with_spare.push(spare());
    let restore = decide(&dedicated(), &reports(with_spare), &Rejected::new()).unwrap();
    assert_eq!((logical_rank_of(&restore, 4), restore.logical_ranks.len()), (Some(1), 5));
    let restore = decide(&dedicated(), &reports(lost_one()), &Rejected::new()).unwrap();
    assert_eq!(logical_rank_of(&restore, 2), Some(1), "the first parity node takes the member's logical rank");
    assert_eq!((restore.logical_ranks.len(), restore.sources.len()), (4, 4), "and lends its check to the rebuilding");
    let too_few = [holds(0, &now), holds(2, &now)];
    let refused = decide(&rotating(3), &reports(too_few), &Rejected::new()).unwrap_err();
    assert_eq!(refused, Refusal::TooFew { members: 3, present: 2 });
    assert!(refused.to_string().contains("3 members and only 2 processes"));
}

#[test]
fn processes_that_come_later_become_parity_nodes() {
    let now = [epoch(1, 3, 3)];
    let list = [holds(0, &now), holds(1, &now), holds(2, &now), spare(), holds(4, &now)];
    let restore = decide(&dedicated(), &reports(list), &Rejected::new()).unwrap();
    assert_eq!(logical_rank_of(&restore, 3), Some(3));
}

#[test]
fn a_returning_duplicate_shard_does_not_displace_a_process() {
    let now = [epoch(1, 3, 3)];
    let mut back = holds(1, &now);
    back.prefers = None;
    let list = [back, holds(0, &now), holds(1, &now), holds(2, &now)];
    let restore = decide(&rotating(3), &reports(list), &Rejected::new()).unwrap();
    assert_eq!((logical_rank_of(&restore, 2), logical_rank_of(&restore, 0)), (Some(1), None));
}

#[test]
fn a_job_starts_only_if_no_process_had_started() {
    let fresh = (0..3).map(|logical_rank| Report { prefers: Some(LogicalRank(logical_rank)), ..spare() });
    let restore = decide(&rotating(3), &reports(fresh.clone()), &Rejected::new()).unwrap();
    assert_eq!((restore.epoch, restore.life, restore.logical_ranks.len()), (None, Life(1), 3));
    let begun = fresh.map(|report| Report { started: true, ..report });
    assert_eq!(decide(&rotating(3), &reports(begun), &Rejected::new()), Err(Refusal::Nothing));
}

#[test]
fn a_job_interrupted_before_its_first_epoch_starts_again() {
    let first = epoch(1, 1, 1);
    let unpromised = Report { life: Life(1), prefers: Some(LogicalRank(1)), unpromised: true, ..Report::default() };
    let sealed = Report { started: false, ..holds(0, &[first]) };
    let list = reports([sealed.clone(), unpromised.clone(), spare()]);
    assert_eq!(decide(&rotating(3), &list, &Rejected::new()).unwrap().epoch, None);
    let list = reports([sealed, spare(), spare()]);
    assert!(matches!(decide(&rotating(3), &list, &Rejected::new()), Err(Refusal::TooMuchLost { .. })));
    // A process that was there at the beginning and absent since does not know what counted later.
    let later = Report { started: false, life: Life(2), ..holds(0, &[epoch(2, 5, 5)]) };
    let list = reports([later, unpromised, spare()]);
    assert!(matches!(decide(&rotating(3), &list, &Rejected::new()), Err(Refusal::TooMuchLost { .. })));
}

/// The same, with a local last epoch based on the first.
fn holds_local(logical_rank: u32, encoded: EpochId, local: EpochId) -> Report {
    let mut report = holds(logical_rank, &[encoded, local]);
    report.holdings[1].level = EpochLevel::Local(Some(encoded));
    report
}

#[test]
fn a_local_epoch_is_restored_only_with_all_its_shards() {
    let (encoded, local) = (epoch(1, 6, 1), epoch(1, 7, 2));
    let whole: Vec<Report> = (0..3).map(|logical_rank| holds_local(logical_rank, encoded, local)).collect();
    let restore = decide(&rotating(3), &reports(whole.clone()), &Rejected::new()).unwrap();
    assert_eq!((restore.epoch, restore.level), (Some(local), EpochLevel::Local(Some(encoded))));
    let mut lost = whole.clone();
    lost[1] = spare();
    let restore = decide(&rotating(3), &reports(lost), &Rejected::new()).unwrap();
    assert_eq!((restore.epoch, restore.level), (Some(encoded), EpochLevel::Encoded), "the code bears one lost shard");
    let mut half_sealed = whole.clone();
    half_sealed[2] = holds(2, &[encoded]);
    let restore = decide(&rotating(3), &reports(half_sealed), &Rejected::new()).unwrap();
    assert_eq!(restore.epoch, Some(encoded));
    let mut damaged = whole;
    damaged[0].holdings.remove(0);
    let restore = decide(&rotating(3), &reports(damaged), &Rejected::new()).unwrap();
    assert_eq!(restore.epoch, Some(encoded), "the next differences could not be told from what is damaged");
}

#[test]
fn a_local_shard_is_not_handed_over() {
    let (encoded, local) = (epoch(1, 6, 1), epoch(1, 7, 2));
    let mut both = holds_local(0, encoded, local);
    both.holdings.extend(holds_local(1, encoded, local).holdings);
    let list = reports([both, spare(), holds_local(2, encoded, local)]);
    let restore = decide(&rotating(3), &list, &Rejected::new()).unwrap();
    assert_eq!(restore.epoch, Some(encoded));
}

#[test]
fn a_refusal_names_the_encoded_epoch() {
    let (encoded, local) = (epoch(1, 6, 1), epoch(1, 7, 2));
    let list = reports([holds_local(0, encoded, local), spare(), spare()]);
    let refused = decide(&rotating(3), &list, &Rejected::new()).unwrap_err();
    assert!(matches!(refused, Refusal::TooMuchLost { epoch, .. } if epoch == encoded), "{refused}");
}

#[test]
fn an_epoch_that_could_not_be_rebuilt_is_not_tried_again() {
    let (old, new) = (epoch(1, 6, 1), epoch(1, 7, 2));
    let list = || reports((0..3).map(|logical_rank| holds(logical_rank, &[old, new])));
    let mut rejected = Rejected::from([(new, "logical rank 1 differs".to_owned())]);
    assert_eq!(decide(&rotating(3), &list(), &rejected).unwrap().epoch, Some(old));
    rejected.insert(old, "logical rank 2 differs".to_owned());
    let refused = decide(&rotating(3), &list(), &rejected).unwrap_err();
    assert!(refused.to_string().contains("logical rank 1 differs"), "{refused}");
}

#[test]
fn a_refusal_names_the_failed_epoch_before_an_incomplete_one() {
    let (old, new) = (epoch(1, 6, 1), epoch(1, 7, 2));
    let mut list: Vec<_> = (0..3).map(|logical_rank| holds(logical_rank, &[old])).collect();
    list[0] = holds(0, &[old, new]);
    let rejected = Rejected::from([(old, "logical rank 2 differs".to_owned())]);
    let refused = decide(&rotating(3), &reports(list), &rejected).unwrap_err();
    assert!(refused.to_string().contains("logical rank 2 differs"), "{refused}");
}
