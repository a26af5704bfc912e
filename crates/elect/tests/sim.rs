//! The simulator: safety and liveness under faults for a number of seeds, and the cost of many candidates.
//!
//! More seeds: `cargo run --release -p pole-elect --features sim --bin elect-sim -- --seeds 2000`.

use pole_elect::Strategy;
use pole_elect::sim::{large, run};

#[test]
fn no_seed_has_two_leaders_or_none_at_the_end() {
    let (mut terms, mut faults) = (0, 0);
    for seed in 1..=SEEDS {
        let outcome = run(seed, false);
        assert_eq!(outcome.violation, None, "replay: elect-sim --seed {seed} --trace");
        terms += outcome.terms;
        faults += outcome.faults;
    }
    // A simulation in which nothing happens would pass as well.
    assert!(terms > 5 * SEEDS && faults > 20 * SEEDS, "{terms} terms, {faults} faults");
}

#[test]
fn a_seed_is_the_same_every_time() {
    for seed in [1, 2, 3] {
        let (first, second) = (run(seed, true), run(seed, true));
        assert!(first.trace.len() > 1000);
        assert!(first.trace == second.trace, "seed {seed} differs");
    }
}

#[test]
fn a_change_of_leader_among_a_thousand_wakes_few() {
    let (best, first_come) = (large(1000, Strategy::BestScore, 1), large(1000, Strategy::FirstCome, 1));
    assert_eq!((&best.violation, &first_come.violation), (&None, &None));
    assert!(best.first.ms < 10_000, "{best:?}");
    // At rest most candidates renew six times less often.
    assert!(best.rest.operations * 3 < first_come.rest.operations, "{best:?} {first_come:?}");
    // The change costs the store no more than its ordinary work, and not a write for each candidate.
    let change = |cost: &pole_elect::sim::Large| cost.change.operations + cost.after.operations;
    assert!(change(&best) * 3 < change(&first_come), "{best:?} {first_come:?}");
}

const SEEDS: u64 = 200;
