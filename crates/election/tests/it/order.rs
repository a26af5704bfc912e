//! Laws of the order on proposals. Without them an election might never end (`docs/election.md`, "The order of
//! proposals").

use std::cmp::Ordering;
use std::collections::BTreeSet;

use pole_election::*;
use proptest::prelude::*;

use crate::test_server::proposal;

// Small ranges, so that ties in every component are common.
fn proposals() -> impl Strategy<Value = Proposal> {
    let rank = prop_oneof![
        1 => Just(Rank::Unknown),
        4 => prop::collection::vec(-1..3i64, 0..3).prop_map(|components| Rank::Known(Score::new(components))),
    ];
    let standing = (0..2u32, 0..2u64, 0..2u32).prop_map(|(current, zxid, accepted)| Standing {
        current_epoch: Epoch(current),
        last_zxid: Zxid(zxid),
        accepted_epoch: Epoch(accepted),
    });
    (0..4u64, rank, 0..2u64, 0..2u64, standing).prop_map(|(id, rank, version, fingerprint, standing)| Proposal {
        id: ServerId(id),
        rank,
        version: Zxid(version),
        fingerprint,
        standing,
        inputs: Vec::new(),
    })
}

fn sets() -> impl Strategy<Value = BTreeSet<ServerId>> {
    prop::collection::btree_set((0..4u64).prop_map(ServerId), 0..4)
}

proptest! {
    #![proptest_config(crate::generated(4000))]

    #[test]
    fn the_order_is_antisymmetric(a in proposals(), b in proposals(), demoted in sets(), failed in 0..5u32) {
        let order = Order::new(Round { epoch: 1, failed }, &demoted);
        prop_assert_eq!(order.compare(&a, &b), order.compare(&b, &a).reverse());
        prop_assert_eq!(order.compare(&a, &a), Ordering::Equal);
    }

    #[test]
    fn the_order_is_transitive(
        a in proposals(), b in proposals(), c in proposals(), demoted in sets(), failed in 0..5u32,
    ) {
        let order = Order::new(Round { epoch: 1, failed }, &demoted);
        if order.compare(&a, &b).is_ge() && order.compare(&b, &c).is_ge() {
            prop_assert!(order.compare(&a, &c).is_ge());
        }
    }

    #[test]
    fn different_servers_are_never_equal(a in proposals(), b in proposals(), demoted in sets(), failed in 0..5u32) {
        let order = Order::new(Round { epoch: 1, failed }, &demoted);
        prop_assert!(a.id == b.id || order.compare(&a, &b).is_ne());
    }

    #[test]
    fn the_component_named_is_the_one_that_differs(a in proposals(), b in proposals(), demoted in sets()) {
        let order = Order::new(Round { epoch: 1, failed: 0 }, &demoted);
        if let Some((_, component)) = order.decide(&a, &b) {
            let differs = match component {
                Component::Able => order.able(&a) != order.able(&b),
                Component::Version => a.version != b.version,
                Component::Fingerprint => a.version == b.version && a.fingerprint != b.fingerprint,
                Component::Score => a.fingerprint == b.fingerprint && a.rank != b.rank,
                Component::Id => a.rank == b.rank && a.id != b.id,
                Component::History => false,
            };
            prop_assert!(differs, "{:?}", component);
        }
    }
}

fn better(a: &Proposal, b: &Proposal, failed: u32, demoted: &[u64]) -> Component {
    let demoted = demoted.iter().map(|id| ServerId(*id)).collect();
    let order = Order::new(Round { epoch: 1, failed }, &demoted);
    let (ordering, component) = order.decide(a, b).expect("a difference");
    assert_eq!(ordering, Ordering::Greater, "{a:?} should be better than {b:?}");
    component
}

#[test]
fn a_smaller_score_is_better_and_equal_scores_go_to_the_higher_id() {
    assert_eq!(better(&proposal(1, 10), &proposal(2, 20), 0, &[]), Component::Score);
    assert_eq!(better(&proposal(2, 10), &proposal(1, 10), 0, &[]), Component::Id);
}

#[test]
fn unknown_is_worse_than_every_known_score() {
    let unknown = Proposal { rank: Rank::Unknown, ..proposal(9, 0) };
    assert_eq!(better(&proposal(1, i64::MAX), &unknown, 0, &[]), Component::Score);
}

#[test]
fn a_demoted_server_is_worse_than_any_able_one() {
    assert_eq!(better(&proposal(1, 1000), &proposal(2, 1), 0, &[2]), Component::Able);
    assert_eq!(better(&proposal(1, 1000), &proposal(2, 1), 3, &[2]), Component::Able);
}

#[test]
fn a_newer_oracle_configuration_outranks_scores_of_an_older_one() {
    // Scenario 31: during a rolling change scores of both exist; they are never compared with each other.
    let new = Proposal { version: Zxid(7), ..proposal(1, 1000) };
    assert_eq!(better(&new, &proposal(2, 1), 0, &[]), Component::Version);
    let other = Proposal { fingerprint: 2, ..proposal(1, 1000) };
    assert_eq!(better(&other, &proposal(2, 1), 0, &[]), Component::Fingerprint);
}

#[test]
fn from_three_failed_rounds_on_history_decides_then_the_id() {
    let mut late = proposal(1, 1000);
    late.standing.current_epoch = Epoch(2);
    let mut long = proposal(2, 1);
    (long.standing.current_epoch, long.standing.last_zxid) = (Epoch(1), Zxid::new(Epoch(1), 99));
    assert_eq!(better(&long, &late, 2, &[]), Component::Score);
    assert_eq!(better(&late, &long, 3, &[]), Component::History);
    assert_eq!(better(&proposal(2, 9), &proposal(1, 1), 3, &[]), Component::Id);
}

#[test]
fn inputs_and_promises_take_no_part_in_the_order() {
    // ZOOKEEPER-1732: servers that agree must not be split by details.
    let mut other = proposal(1, 10);
    other.inputs.push(Input { name: "rtt_us".into(), value: 3 });
    other.standing.accepted_epoch = Epoch(9);
    for failed in [0, 3] {
        let demoted = BTreeSet::new();
        let order = Order::new(Round { epoch: 1, failed }, &demoted);
        assert_eq!(order.compare(&proposal(1, 10), &other), Ordering::Equal);
    }
}
