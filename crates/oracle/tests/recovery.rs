//! Section 5, both recovery experiments: whom `recovery` elects, and whom `history` would.

mod ensemble;

use ensemble::{Ensemble, build, standing};
use pole_election::ServerId;
use pole_oracle::Position;
use pole_topology::Topology;

/// A position that lacks so many megabytes of the full history, or a snapshot of that size.
fn behind(megabytes: u64) -> Position {
    let full = 1 << 30;
    let counter = if megabytes == 0 { 100 } else { 50 };
    Position { standing: standing(1, counter), log_bytes: full - (megabytes << 20), state_bytes: 250 << 20 }
}

#[test]
fn p4_recovers_soonest_at_any_backlog_of_p1_and_any_round_trip_experiment_8a() {
    let topology = Topology::preset("recovery-8a").unwrap();
    for rtt_ms in [0, 1, 10, 20, 50, 100, 200] {
        for megabytes in [0, 1, 50, 100, 250] {
            let mut ensemble = Ensemble::of(topology.with_rtt("D1", "D2", rtt_ms * 1_000_000));
            ensemble.positions.insert(ServerId(1), behind(megabytes));
            let winner = ensemble.winner(build("recovery").as_ref(), 1);
            // With no distance at all the servers of D1 are as near as those of D2, or nearer: 0 ms against 0.1.
            if rtt_ms > 0 {
                assert_eq!(winner, ServerId(4), "{rtt_ms} ms, {megabytes} MB");
            }
            let (best, outdated) = (ensemble.value(ServerId(4), "recovery"), ensemble.value(ServerId(1), "recovery"));
            assert!(best <= rtt_ms as f64 + 0.2, "electing p4 costs next to nothing: {best} ms");
            assert!(megabytes == 0 || outdated > best + megabytes as f64 * 8.0, "1 MB takes over 8 ms at 940 Mbit/s");
        }
    }
}

#[test]
fn electing_p1_costs_more_with_its_backlog_and_the_round_trip_amplifies_it_experiment_8a() {
    let cost = |rtt_ms: u64, megabytes| {
        let topology = Topology::preset("recovery-8a").unwrap().with_rtt("D1", "D2", rtt_ms * 1_000_000);
        let mut ensemble = Ensemble::of(topology);
        // p2 is as outdated as p1: what p1 lacks must come from afar.
        ensemble.positions.extend([(ServerId(1), behind(megabytes)), (ServerId(2), behind(megabytes))]);
        ensemble.value(ServerId(1), "recovery")
    };
    assert!(cost(20, 50) < cost(20, 100) && cost(20, 100) < cost(20, 250));
    assert!(cost(20, 250) < cost(100, 250) / 2.0, "4 MB a round trip: {} against {} ms", cost(20, 250), cost(100, 250));
}

#[test]
fn recovery_picks_p1_and_history_p4_when_the_outdated_are_nearer_to_p1_experiment_8b() {
    for megabytes in [1, 10, 100, 250] {
        let mut ensemble = Ensemble::of(Topology::preset("recovery-8b").unwrap());
        ensemble.positions.extend([(ServerId(2), behind(megabytes)), (ServerId(3), behind(megabytes))]);
        assert_eq!(ensemble.winner(build("recovery").as_ref(), 1), ServerId(1), "{megabytes} MB");
        assert_eq!(ensemble.winner(build("history").as_ref(), 1), ServerId(4), "{megabytes} MB");
    }
}

#[test]
fn what_the_log_no_longer_reaches_travels_as_a_snapshot() {
    let mut ensemble = Ensemble::of(Topology::preset("recovery-8b").unwrap());
    // 900 MB behind, but a snapshot has 250.
    ensemble.positions.extend([(ServerId(2), behind(900)), (ServerId(3), behind(900))]);
    let far_behind = ensemble.value(ServerId(1), "recovery");
    ensemble.positions.extend([(ServerId(2), behind(250)), (ServerId(3), behind(250))]);
    assert_eq!(far_behind, ensemble.value(ServerId(1), "recovery"));
}

#[test]
fn a_latency_that_ties_is_decided_by_recovery_in_a_combination() {
    let mut ensemble = Ensemble::of(Topology::preset("recovery-8b").unwrap());
    ensemble.positions.extend([(ServerId(2), behind(100)), (ServerId(3), behind(100))]);
    // All latencies within one class of a second: recovery decides, and history no more.
    let oracle = build("combined=latency/1s,recovery/50ms,history");
    assert_eq!(ensemble.winner(oracle.as_ref(), 1), ServerId(1));
}
