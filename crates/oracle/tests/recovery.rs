//! Both recovery experiments of the paper (8a, 8b): the winner under `recovery`, compared with `history`.

mod ensemble;

use ensemble::{Ensemble, NOW, build};
use pole_oracle::{Measurements, Moment};
use pole_topology::Topology;
use pole_types::ServerId;

#[test]
fn p4_recovers_soonest_at_any_backlog_of_p1_and_any_round_trip_experiment_8a() {
    let topology = Topology::preset("recovery-8a").unwrap();
    for rtt_ms in [0, 1, 10, 20, 50, 100, 200] {
        for megabytes in [0, 1, 50, 100, 250] {
            let mut ensemble = Ensemble::of(topology.with_rtt("D1", "D2", rtt_ms * 1_000_000));
            ensemble.falls_behind(1, megabytes << 20);
            let winner = ensemble.winner(build("recovery").as_ref(), 1);
            // Without any distance the servers of D1 are as near as those of D2, or nearer: 0 ms against 0.1.
            if rtt_ms > 0 {
                assert_eq!(winner, ServerId(4), "{rtt_ms} ms, {megabytes} MB");
            }
            let (best, outdated) = (ensemble.value(ServerId(4), "recovery"), ensemble.value(ServerId(1), "recovery"));
            // Promise, synchronisation and the first write take three and a half round trips.
            assert!(best <= 3.5 * rtt_ms as f64 + 0.4, "electing p4 costs next to nothing: {best} ms");
            assert!(megabytes == 0 || outdated > best + megabytes as f64 * 8.0, "1 MB takes over 8 ms at 940 Mbit/s");
        }
    }
}

#[test]
fn electing_p1_costs_more_with_its_backlog_and_the_round_trip_amplifies_it_experiment_8a() {
    let cost = |rtt_ms: u64, megabytes: u64| {
        let topology = Topology::preset("recovery-8a").unwrap().with_rtt("D1", "D2", rtt_ms * 1_000_000);
        let mut ensemble = Ensemble::of(topology);
        // p2 is as outdated as p1, so what p1 lacks must come from far away.
        [1, 2].iter().for_each(|id| ensemble.falls_behind(*id, megabytes << 20));
        ensemble.value(ServerId(1), "recovery")
    };
    assert!(cost(20, 50) < cost(20, 100) && cost(20, 100) < cost(20, 250));
    assert!(cost(20, 250) < cost(100, 250) / 2.0, "4 MB a round trip: {} against {} ms", cost(20, 250), cost(100, 250));
}

#[test]
fn recovery_picks_p1_and_history_p4_when_the_outdated_are_nearer_to_p1_experiment_8b() {
    // With less, one of the outdated servers is as fast: what it lacks arrives while the others promise.
    for megabytes in [10, 100, 250] {
        let mut ensemble = Ensemble::of(Topology::preset("recovery-8b").unwrap());
        [2, 3].iter().for_each(|id| ensemble.falls_behind(*id, megabytes << 20));
        assert_eq!(ensemble.winner(build("recovery").as_ref(), 1), ServerId(1), "{megabytes} MB");
        assert_eq!(ensemble.winner(build("history").as_ref(), 1), ServerId(4), "{megabytes} MB");
    }
}

#[test]
fn a_server_that_must_pull_is_unknown_until_the_source_has_said_how_much() {
    let mut ensemble = Ensemble::of(Topology::preset("recovery-8a").unwrap());
    ensemble.falls_behind(1, 1 << 20);
    let (oracle, moment) = (build("recovery"), Moment::AfterCrash);
    let mut measured = ensemble.measurements(ServerId(1));
    let assess = |measured: &Measurements| {
        let view = measured.view(NOW, Some(ensemble.leader), &ensemble.dead, moment, ensemble.standings[&ServerId(1)]);
        oracle.assess(&view, 1)
    };
    assert!(assess(&measured).is_some());
    for source in [2, 3, 4] {
        let mut silent = ensemble.report(ServerId(source));
        silent.lacking.clear();
        measured.record_report(ServerId(source), silent, NOW);
    }
    assert_eq!(assess(&measured), None);
}

#[test]
fn a_latency_that_ties_is_decided_by_recovery_in_a_combination() {
    let mut ensemble = Ensemble::of(Topology::preset("recovery-8b").unwrap());
    [2, 3].iter().for_each(|id| ensemble.falls_behind(*id, 100 << 20));
    // All latencies are within one class of a second, so recovery decides, and history no longer does.
    let oracle = build("combined=latency/1s,recovery/50ms,history");
    assert_eq!(ensemble.winner(oracle.as_ref(), 1), ServerId(1));
}
