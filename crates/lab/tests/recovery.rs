//! The open question of the paper, on a few of its cases. `pole lab paper` runs a thousand.

use pole_lab::paper::Question;
use pole_topology::Topology;

fn of_paper(preset: &str, outdated: &[u64], backlog_mb: u64) -> Question {
    let behind: Vec<_> = outdated.iter().map(|id| (*id, backlog_mb << 20)).collect();
    Question::of_paper(Topology::preset(preset).expect("a preset"), &behind, 1)
}

#[test]
fn in_both_experiments_of_the_paper_recovery_picks_the_fastest() {
    for backlog_mb in [1, 32, 250] {
        for case in [of_paper("recovery-8a", &[1], backlog_mb), of_paper("recovery-8b", &[2, 3], backlog_mb)] {
            let answer = case.run().unwrap_or_else(|why| panic!("{why}"));
            assert!(answer.regret() < 0.05, "{}, {backlog_mb} MB: {answer:?}", case.name);
        }
    }
}

#[test]
fn in_random_cases_recovery_picks_the_fastest_or_one_that_is_as_good() {
    let mut missed = Vec::new();
    for seed in 1..=40 {
        let case = Question::random(seed);
        let answer = case.run().unwrap_or_else(|why| panic!("{why}"));
        if answer.regret() > 0.05 {
            missed.push(format!("{}: {answer:?} {:?}", case.name, case.lacks));
        }
    }
    assert!(missed.len() <= 2, "{} of 40 missed:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn what_the_oracle_foresees_is_what_happens() {
    for (preset, outdated) in [("recovery-8a", &[1][..]), ("recovery-8b", &[2, 3])] {
        let case = Question { error_percent: 0, ..of_paper(preset, outdated, 100) };
        for (id, times) in case.run().unwrap_or_else(|why| panic!("{why}")).times {
            let foreseen = times.predicted.expect("everything is measured") as f64;
            let off = foreseen / times.measured as f64 - 1.0;
            assert!(off.abs() < 0.1, "{preset}, server {id}: off by {:.0} %, {times:?}", 100.0 * off);
        }
    }
}
