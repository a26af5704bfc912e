//! Self-test: the harness plants a bug, and the checker must find it within a short time.
//!
//! There is no switch in production code: the harness alters the inputs and outputs of the production state machine.

use std::process::ExitCode;
use std::time::Duration;

use crate::run::{Limit, Outcome, explore};
use crate::zab::{Agreement, Bounds, Members, Sabotage, Start};

/// Searches for every planted bug and prints how each was found.
pub(crate) fn run(threads: usize) -> ExitCode {
    let mut missed = 0;
    for sabotage in Sabotage::ALL {
        let outcome = find(sabotage, threads);
        match outcome.violations.first() {
            Some((property, steps)) => {
                println!("{sabotage:?}: found after {:.1} s: \"{property}\" is broken by", outcome.seconds);
                steps.iter().for_each(|step| println!("  {step}"));
            }
            None => {
                println!("{sabotage:?}: MISSED among {} states", outcome.unique);
                missed += 1;
            }
        }
    }
    println!("{} planted, {missed} missed", Sabotage::ALL.len());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn find(sabotage: Sabotage, threads: usize) -> Outcome {
    let limit = Limit::after(Duration::from_secs(120));
    explore(Agreement::new(bounds(sabotage), sabotage, limit.clone()), &limit, threads, true, Agreement::describe)
}

/// Bounds that are sufficient to find each bug.
fn bounds(sabotage: Sabotage) -> Bounds {
    let no_faults = Bounds { epochs: 3, liveness_one_in: u64::MAX, ..Bounds::NO_FAULTS };
    match sabotage {
        Sabotage::None | Sabotage::ReportsEarly => no_faults,
        Sabotage::SkipsTruncation => Bounds { crashes: 1, writes: 2, start: Start::Serving, ..no_faults },
        Sabotage::HidesPromises => Bounds { hints: true, timeouts: 1, ..no_faults },
        Sabotage::ForgetsPromises => Bounds { hints: true, crashes: 1, ..no_faults },
        Sabotage::ClaimsNewerHistory => Bounds { crashes: 1, writes: 1, ..no_faults },
        Sabotage::CountsProposals => Bounds { writes: 1, direct: true, start: Start::Serving, ..no_faults },
        // Servers 1 and 4 are a quorum after the change, 2 and 3 one before it.
        Sabotage::CountsNewMembersAtOnce => {
            Bounds { timeouts: 2, writes: 1, start: Start::Serving, change: Some(Members(0b1001)), ..no_faults }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_bug_is_found() {
        for sabotage in Sabotage::ALL {
            assert!(!find(sabotage, 1).violations.is_empty(), "{sabotage:?} was missed");
        }
    }
}
