//! Checks the one safety property: never two effective leaders at once.
//!
//! Two processes may *consider* themselves leader, even in a quorum algorithm, while one has not received news of the
//! other. What counts is whether both would be accepted, by as many processes as the algorithm itself requires. Each
//! time this starts, a [`Violation`] is recorded.

use std::fmt;

use super::Algorithm;
use pole_sim::MS;

/// Two effective leaders at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When it started, in nanoseconds.
    pub at: u64,
    /// Each leader with the processes that accept it.
    pub leaders: Vec<(usize, Vec<usize>)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SafetyChecker {
    is_broken: bool,
    /// The largest number of processes that considered themselves leader at the same time.
    pub(super) leaders_max: usize,
    pub(super) violations: Vec<Violation>,
}

impl SafetyChecker {
    /// Checks all running processes; called after every step.
    pub(super) fn check<'a, A: Algorithm + 'a>(
        &mut self,
        at: u64,
        n: usize,
        living: impl Iterator<Item = (usize, &'a A)> + Clone,
    ) {
        let claimants: Vec<_> = living.clone().filter_map(|(who, process)| Some((who, process.leads()?))).collect();
        self.leaders_max = self.leaders_max.max(claimants.len());
        if claimants.len() < 2 {
            self.is_broken = false;
            return;
        }
        let accepting = |leader: usize, generation: u64| -> Vec<usize> {
            living.clone().filter(|(_, process)| process.accepts(leader, generation)).map(|(who, _)| who).collect()
        };
        let acceptances = claimants.iter().map(|(leader, generation)| (*leader, accepting(*leader, *generation)));
        let leaders: Vec<_> = acceptances.filter(|(_, by)| by.len() >= A::needed(n)).collect();
        let was_broken = std::mem::replace(&mut self.is_broken, leaders.len() >= 2);
        if self.is_broken && !was_broken {
            self.violations.push(Violation { at, leaders });
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} ms:", self.at as f64 / MS as f64)?;
        for (at, (leader, by)) in self.leaders.iter().enumerate() {
            let by: Vec<String> = by.iter().map(ToString::to_string).collect();
            write!(f, "{} {leader} leads, accepted by {}", if at == 0 { "" } else { ";" }, by.join(" "))?;
        }
        Ok(())
    }
}
