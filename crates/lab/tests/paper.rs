//! Claims of the paper (2011), each checked on the production code in the simulator. The table holds the mean request
//! latencies in ms that its formulas predict after the crash of p5.

use pole_lab::paper::{DISK, Experiment, Recovered, Recovery};
use pole_sim::SECOND;
use pole_topology::{Topology, favoured};

/// The columns of the table.
const ORACLES: [&str; 6] = ["history", "rotating", "request", "consensus", "latency", "worst-case"];

/// Deployment, share p in thousandths (none: even), then winner and latency under each oracle.
type Row = (&'static str, Option<u64>, [(u64, f64); 6]);

#[rustfmt::skip]
const PREDICTED: [Row; 11] = [
    ("two", Some(0),    [(4, 41.5), (1, 20.8), (2, 20.8), (4, 41.5), (2, 20.8), (4, 41.5)]),
    ("two", Some(500),  [(4, 31.1), (1, 31.1), (4, 31.1), (4, 31.1), (4, 31.1), (4, 31.1)]),
    ("two", Some(1000), [(4, 20.8), (1, 41.5), (4, 20.8), (4, 20.8), (4, 20.8), (4, 20.8)]),
    ("d1", None,        [(4, 38.9), (1, 96.7), (4, 38.9), (4, 38.9), (3, 30.9), (3, 30.9)]),
    ("d1", Some(0),     [(4, 14.8), (1, 118.4), (4, 14.8), (4, 14.8), (4, 14.8), (3, 14.8)]),
    ("d1", Some(1000),  [(4, 86.9), (1, 53.3), (1, 53.3), (4, 86.9), (1, 53.3), (3, 63.1)]),
    ("d2", None,        [(4, 30.9), (1, 120.5), (4, 30.9), (4, 30.9), (4, 30.9), (4, 30.9)]),
    ("d2", Some(1000),  [(4, 63.1), (1, 77.1), (1, 77.1), (4, 63.1), (4, 63.1), (4, 63.1)]),
    ("d3", None,        [(4, 74.3), (1, 106.0), (4, 74.3), (4, 74.3), (4, 74.3), (4, 74.3)]),
    ("d3", Some(750),   [(4, 94.4), (1, 136.1), (3, 69.5), (4, 94.4), (3, 69.5), (4, 94.4)]),
    ("d3", Some(1000),  [(4, 106.5), (1, 154.1), (3, 53.3), (4, 106.5), (3, 53.3), (4, 106.5)]),
];

fn experiment(deployment: &str, share: Option<u64>, oracle: &str) -> Experiment {
    let even = Topology::preset(deployment).expect("a preset");
    let topology = match share {
        Some(permille) => even.weighted(favoured(deployment).expect("a preset"), permille),
        None => even,
    };
    let oracle = Experiment::oracle_in_classes(oracle);
    Experiment { topology, oracle, seed: 1, load_percent: 20, before: 10 * SECOND, after: 6 * SECOND, direct: false }
}

/// Runs one column of the table, and compares winners and latencies.
fn column(oracle: &str) {
    let at = ORACLES.iter().position(|name| *name == oracle).expect("a column");
    let mut wrong = Vec::new();
    for (deployment, share, row) in PREDICTED {
        let (winner, predicted) = row[at];
        let outcome = experiment(deployment, share, oracle).run().expect("a run without a broken promise");
        let (mean, before) = (outcome.mean_after_ms(), outcome.mean_before_ms());
        let found = format!("{deployment} p={share:?} {oracle}: p{} {mean:.1} ms", outcome.winner);
        println!("{found}, predicted p{winner} {predicted} ms, before the crash {before:.1} ms");
        let expected = predicted + DISK as f64 / 1e6;
        if outcome.winner != winner || (mean - expected).abs() > expected / 10.0 {
            let why = outcome.leadership_change.map(|change| change.to_string()).unwrap_or_default();
            wrong.push(format!("{found}, not p{winner} {predicted} ms\n{why}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn section_5_history_elects_the_highest_id_when_all_are_in_step() {
    column("history");
}

#[test]
fn section_5_rotating_elects_the_next_in_turn_wherever_it_stands() {
    column("rotating");
}

#[test]
fn section_5_request_elects_where_the_requests_arrive() {
    column("request");
}

#[test]
fn section_5_consensus_elects_the_nearest_to_a_quorum() {
    column("consensus");
}

#[test]
fn section_5_latency_elects_the_fastest_for_the_clients() {
    column("latency");
}

#[test]
fn section_5_worst_case_elects_the_fastest_for_the_farthest_client() {
    column("worst-case");
}

fn recover(deployment: &str, outdated: &[u64], backlog_mb: usize, oracle: &str) -> Recovered {
    let topology = Topology::preset(deployment).expect("a preset");
    let (outdated, backlog_bytes) = (outdated.to_vec(), backlog_mb << 20);
    let recovered =
        Recovery { topology, oracle: Experiment::oracle_in_classes(oracle), seed: 1, outdated, backlog_bytes }.run();
    let recovered = recovered.expect("a run without a broken promise");
    let ms = recovered.took as f64 / 1e6;
    println!("{deployment}, {backlog_mb} MB behind, {oracle}: p{} in {ms:.1} ms", recovered.winner);
    recovered
}

#[test]
fn section_4_4_an_outdated_leader_pays_for_its_backlog_and_recovery_never_elects_it() {
    let mut last = 0;
    for backlog_mb in [40, 80, 160] {
        for oracle in ["history", "recovery"] {
            let recovered = recover("recovery-8a", &[1], backlog_mb, oracle);
            assert_eq!(recovered.winner, 4, "{}", recovered.leadership_change);
            assert!(recovered.took < 200_000_000, "next to nothing at any size: {}", recovered.leadership_change);
        }
        let outdated = recover("recovery-8a", &[1], backlog_mb, "preference=1,2,3,4,5");
        assert_eq!(outdated.winner, 1, "{}", outdated.leadership_change);
        assert!(outdated.took > last + last / 2, "grows with the size");
        last = outdated.took;
    }
}

#[test]
fn section_4_4_in_three_data_centres_recovery_elects_the_closer_one_where_history_does_not() {
    for backlog_mb in [32, 128] {
        let by_history = recover("recovery-8b", &[2, 3], backlog_mb, "history");
        let by_recovery = recover("recovery-8b", &[2, 3], backlog_mb, "recovery");
        assert_eq!(by_history.winner, 4, "{}", by_history.leadership_change);
        assert_eq!(by_recovery.winner, 1, "{}", by_recovery.leadership_change);
        assert!(by_recovery.took < by_history.took, "the closer one is faster");
    }
}
