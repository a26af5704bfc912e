//! Claims of the paper, each on the production code in the simulator. Sections are those of the paper (2011); the table
//! holds what its formulas predict after the crash of p5, mean request latency in ms.

use pole_lab::paper::{DISK, Experiment};
use pole_lab::sim::SECOND;
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
    Experiment { topology, oracle, seed: 1, load_percent: 20, before: 10 * SECOND, after: 6 * SECOND }
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
            let why = outcome.account.map(|account| account.to_string()).unwrap_or_default();
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
