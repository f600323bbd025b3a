//! Commit and recovery under every order of events and every kill point, for up to six processes.

use standfast_core::erasure::Scheme;
use standfast_format::manifest::JobId;
use standfast_group::{Group, LogicalRank, Plan, RecoveryMode};
use standfast_sim::explore::{Explored, explore, symmetry_holds};
use standfast_sim::world::{Model, ProtocolFault, Violation};
use std::sync::Arc;

const JOB: JobId = JobId::from_bytes([3; 16]);

fn model(plan: Plan) -> Model {
    Model {
        plan: Arc::new(plan),
        spares: 0,
        epochs: 2,
        encode_every: 1,
        kills: 1,
        crashes: 0,
        beyond: false,
        returns: false,
        messages: false,
        symmetric: true,
        plant: None,
    }
}

/// Returns a plan in which the few slots of these programs lie in every stripe group.
fn rotating(recovery_mode: RecoveryMode, scheme: Scheme, members: u32) -> Plan {
    Plan::rotating(JOB, recovery_mode, scheme, members).expect("the tests ask for codes that there are").in_runs_of(1)
}

fn holds(model: &Model) -> Explored {
    match explore(model) {
        Ok(explored) => explored,
        Err(counterexample) => panic!("{:?}\n{:?}", counterexample.violation, counterexample.steps),
    }
}

#[test]
fn parity_over_two_to_six_survives_a_kill_at_every_point() {
    for members in 2..=6 {
        for recovery_mode in [RecoveryMode::Relaunch, RecoveryMode::InPlace] {
            let explored = {
                let spares = u32::from(recovery_mode == RecoveryMode::InPlace);
                holds(&Model { spares, ..model(rotating(recovery_mode, Scheme::Parity, members)) })
            };
            assert!(explored.ends > 0 && explored.states > 100);
        }
    }
}

#[test]
fn two_checks_survive_a_second_kill_during_recovery() {
    for members in 3..=6 {
        let plan = rotating(RecoveryMode::Relaunch, Scheme::ReedSolomon { checks: 2 }, members);
        let explored = holds(&Model { kills: 2, epochs: 1, ..model(plan) });
        assert_eq!(explored.refusals, 0, "nothing is refused that two checks bear");
    }
}

/// With one check, the second failure may come at any moment after the first is recovered, or during the recovery. In the
/// latter case too little may be left; that must be refused, and never mixed.
#[test]
fn a_second_kill_with_one_check_is_survived_or_refused() {
    for members in 2..=3 {
        for recovery_mode in [RecoveryMode::Relaunch, RecoveryMode::InPlace] {
            let plan = rotating(recovery_mode, Scheme::Parity, members);
            let explored = holds(&Model { kills: 2, spares: 2, beyond: true, epochs: 1, ..model(plan) });
            assert!(explored.ends > explored.refusals);
        }
    }
}

#[test]
fn nodes_returning_from_an_abandoned_history_are_not_mixed_in() {
    for members in 2..=3 {
        let plan = rotating(RecoveryMode::Relaunch, Scheme::Parity, members);
        holds(&Model { kills: 2, returns: true, symmetric: false, ..model(plan) });
    }
    let mirrors = rotating(RecoveryMode::Relaunch, Scheme::Mirroring, 2);
    holds(&Model { kills: 3, returns: true, symmetric: false, ..model(mirrors) });
}

#[test]
fn parity_nodes_replace_members_without_a_spare() {
    for spares in 0..=1 {
        let plan = Plan::dedicated(JOB, RecoveryMode::InPlace, Scheme::ReedSolomon { checks: 2 }, 2, 2).unwrap();
        holds(&Model { kills: 2, spares, epochs: 1, symmetric: false, ..model(plan) });
    }
}

#[test]
fn an_epoch_is_valid_in_all_groups_or_in_none() {
    let group = |members: [u32; 2]| Group {
        members: members.map(LogicalRank).to_vec(),
        parity_nodes: Vec::new(),
        scheme: Scheme::Parity,
    };
    let plan = Plan::new(JOB, RecoveryMode::Relaunch, vec![group([0, 1]), group([2, 3])]).unwrap().in_runs_of(1);
    holds(&Model { symmetric: false, ..model(plan) });
}

#[test]
fn every_message_order_keeps_the_job_recoverable() {
    for members in 2..=3 {
        for recovery_mode in [RecoveryMode::Relaunch, RecoveryMode::InPlace] {
            let spares = u32::from(recovery_mode == RecoveryMode::InPlace);
            let plan = rotating(recovery_mode, Scheme::Parity, members);
            let messages = Model { messages: true, symmetric: false, spares, epochs: 1, ..model(plan) };
            holds(&messages);
        }
    }
}

/// The second and third epochs are local, and the fourth is encoded. The model covers a crash at every point, and the
/// loss of a node before or after it. A loss never costs more than the local epochs since the last encoded one, and a
/// crash alone costs none.
#[test]
fn a_crash_keeps_local_epochs_and_a_loss_keeps_the_encoded_one() {
    for (members, kills, epochs) in [(2, 1, 4), (3, 1, 3), (4, 0, 4)] {
        let plan = rotating(RecoveryMode::Relaunch, Scheme::Parity, members);
        let explored = holds(&Model { encode_every: 3, crashes: 1, kills, epochs, ..model(plan) });
        assert!(explored.ends > 0 && explored.refusals == 0);
    }
    let plan = rotating(RecoveryMode::Relaunch, Scheme::ReedSolomon { checks: 2 }, 3);
    holds(&Model { encode_every: 2, crashes: 1, kills: 2, epochs: 3, ..model(plan) });
}

#[test]
fn local_epochs_survive_every_order_of_messages_and_nodes_that_come_back() {
    let plan = || rotating(RecoveryMode::Relaunch, Scheme::Parity, 2);
    let local = || Model { encode_every: 2, crashes: 1, symmetric: false, ..model(plan()) };
    holds(&Model { messages: true, ..local() });
    holds(&Model { kills: 2, returns: true, epochs: 3, ..local() });
}

#[test]
fn states_that_differ_in_names_alone_have_equal_futures() {
    for (members, kills, encode_every) in [(2, 2, 1), (3, 1, 1), (4, 1, 1), (2, 1, 2)] {
        let plan = rotating(RecoveryMode::Relaunch, Scheme::Parity, members);
        let local = Model { encode_every, crashes: u32::from(encode_every > 1), ..model(plan) };
        let (states, classes) = symmetry_holds(&Model { kills, epochs: encode_every, ..local });
        assert!(classes < states);
    }
}

#[test]
fn planted_faults_are_found() {
    let found = |model: &Model| explore(model).expect_err("the fault shows").violation;
    let plan = || rotating(RecoveryMode::Relaunch, Scheme::Parity, 3);
    let early = Model { plant: Some(ProtocolFault::CommittedTooEarly), ..model(plan()) };
    assert!(matches!(found(&early), Violation::Unrecoverable(_) | Violation::Mixed(_)));
    let deleted = Model { plant: Some(ProtocolFault::DeletedTooEarly), ..model(plan()) };
    assert!(matches!(found(&deleted), Violation::Unrecoverable(_)));
    let local = Model { encode_every: 3, crashes: 1, epochs: 3, ..model(plan()) };
    let deleted = Model { plant: Some(ProtocolFault::DeletedTooEarly), ..local };
    assert!(matches!(found(&deleted), Violation::Unrecoverable(_) | Violation::Mixed(_)));
    let mixed =
        Model { plant: Some(ProtocolFault::IdIgnored), kills: 2, returns: true, symmetric: false, ..model(plan()) };
    assert!(matches!(found(&mixed), Violation::Mixed(_)));
}
