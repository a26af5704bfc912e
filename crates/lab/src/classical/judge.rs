//! The one thing that must not be: two leaders at once whose word counts.
//!
//! In: who leads, and who would accept whom. Out: a [`Violation`], once for each time it begins.
//! Why so: two processes may *believe* that they lead, in a quorum algorithm too, for as long as one has not heard of the
//! other. What matters is whether both would be obeyed: by as many as the algorithm itself asks for.

use std::fmt;

use super::Algorithm;
use crate::sim::MS;

/// Two leaders at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Since when, in nanoseconds.
    pub at: u64,
    /// Each leader with those who accept it.
    pub leaders: Vec<(usize, Vec<usize>)>,
}

/// What the judge sees.
#[derive(Clone, Debug, Default)]
pub(super) struct Judge {
    is_broken: bool,
    /// The most processes that believed at once that they lead.
    pub(super) believers_max: usize,
    pub(super) violations: Vec<Violation>,
}

impl Judge {
    /// Looks at the living, after every step.
    pub(super) fn look<'a, A: Algorithm + 'a>(
        &mut self,
        at: u64,
        n: usize,
        living: impl Iterator<Item = (usize, &'a A)> + Clone,
    ) {
        let leading: Vec<_> = living.clone().filter_map(|(who, process)| Some((who, process.leads()?))).collect();
        self.believers_max = self.believers_max.max(leading.len());
        if leading.len() < 2 {
            self.is_broken = false;
            return;
        }
        let accepting = |leader: usize, generation: u64| -> Vec<usize> {
            living.clone().filter(|(_, process)| process.accepts(leader, generation)).map(|(who, _)| who).collect()
        };
        let counted = leading.iter().map(|(leader, generation)| (*leader, accepting(*leader, *generation)));
        let leaders: Vec<_> = counted.filter(|(_, by)| by.len() >= A::needed(n)).collect();
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
