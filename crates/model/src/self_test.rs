//! Planted bugs are found: the harness takes a protection away, and the checker must notice, soon.
//!
//! Not a switch in production code: the machine is the one that ships, and is lied to or misquoted.

use std::process::ExitCode;
use std::time::Duration;

use crate::run::{Limit, Outcome, explore};
use crate::zab::{Agreement, Bounds, Sabotage, Start};

/// Looks for every planted bug, and says how each was found.
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
    explore(Agreement::new(bounds(sabotage), sabotage, limit.clone()), &limit, threads, true, Agreement::tell)
}

/// The bounds within which each bug shows.
fn bounds(sabotage: Sabotage) -> Bounds {
    let calm = Bounds { epochs: 3, heal_one_in: u64::MAX, ..Bounds::CALM };
    match sabotage {
        Sabotage::None | Sabotage::ReportsEarly => calm,
        Sabotage::SkipsTruncation => Bounds { crashes: 1, writes: 2, start: Start::Serving, ..calm },
        Sabotage::HidesPromises => Bounds { hints: true, impatience: 1, ..calm },
        Sabotage::ForgetsPromises => Bounds { hints: true, crashes: 1, ..calm },
        Sabotage::ClaimsNewerHistory => Bounds { crashes: 1, writes: 1, ..calm },
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
