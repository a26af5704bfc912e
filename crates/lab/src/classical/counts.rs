//! Messages and message delays of a run in which nothing fails but the old leader, against the formulas.
//!
//! In: an algorithm and N. Out: a [`Count`]. N is as the source counts: for the ring the living members, for all others
//! the dead leader too.
//! Best and worst are schedules, made so that they cannot be better or worse; where no worst one exists, the worst is the
//! most that was seen over the seeds, and no formula is claimed. The mean is over all initiators for the ring and bully, and
//! over seeds for the others: each process finds out at a random time within two message delays.
//! The derivations stand at the head of each algorithm and in `docs/algorithms.md`.

use std::fmt;

use super::{Case, Dice, End, Happening, Kind, Outcome};
use crate::rng::Rng;
use crate::sim::MS;

/// Which of the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// The cheapest.
    Best,
    /// The dearest.
    Worst,
    /// The mean.
    Mean,
}

/// A sum over so many runs: a mean that compares exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Of all runs.
    pub sum: u64,
    /// How many.
    pub runs: u64,
}

/// What was counted.
#[derive(Clone, Debug)]
pub struct Count {
    /// The algorithm.
    pub kind: Kind,
    /// N.
    pub n: usize,
    /// Which case.
    pub which: Which,
    /// The seed of what is random.
    pub seed: u64,
    /// Messages of the election; in the worst case of bully, Election messages only, as the lecture counts.
    pub messages: Figure,
    /// Message delays.
    pub delays: Figure,
    /// What the formulas say of messages and delays, where there are any.
    pub expected: Option<(Figure, Figure)>,
    /// The mean time to a leader, in milliseconds, if a message takes one.
    pub time_ms: f64,
    /// Runs that did not end with one leader. None should not.
    pub unsettled: u64,
    /// Two leaders at once.
    pub violations: u64,
}

impl Count {
    /// Whether count and formula are the same.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let same = |(messages, delays): (Figure, Figure)| self.messages.equals(messages) && self.delays.equals(delays);
        self.unsettled == 0 && self.expected.is_none_or(same)
    }
}

/// Counts one case of one algorithm.
#[must_use]
pub fn count(kind: Kind, n: usize, which: Which, seed: u64) -> Count {
    let outcomes: Vec<Outcome> = cases(kind, n, which, seed).iter().map(|case| kind.run(case)).collect();
    let counted = |outcome: &Outcome| match (kind, which) {
        (Kind::Bully, Which::Worst) => outcome.sent.get("Election").copied().unwrap_or(0),
        _ => outcome.messages(),
    };
    let messages: Vec<u64> = outcomes.iter().map(counted).collect();
    let delays: Vec<u64> = outcomes.iter().map(|outcome| u64::from(outcome.delays)).collect();
    let figure = |of: &[u64]| match which {
        Which::Worst => Figure::one(of.iter().copied().max().unwrap_or(0)),
        Which::Best | Which::Mean => Figure { sum: of.iter().sum(), runs: of.len() as u64 },
    };
    let times = outcomes.iter().filter_map(|outcome| outcome.agreed_at).sum::<u64>() as f64;
    Count {
        kind,
        n,
        which,
        seed,
        messages: figure(&messages),
        delays: figure(&delays),
        expected: expected(kind, n as u64, which),
        time_ms: times / MS as f64 / outcomes.len() as f64,
        unsettled: outcomes.iter().filter(|outcome| outcome.end != End::Settled).count() as u64,
        violations: outcomes.iter().map(|outcome| outcome.violations.len() as u64).sum(),
    }
}

/// The runs of a case: one schedule, or several.
fn cases(kind: Kind, n: usize, which: Which, seed: u64) -> Vec<Case> {
    let dead = || Case::leader_dead(n);
    let called_by = |who: usize| {
        let mut case = Case::counting(n);
        case.happenings.push((0, Happening::Elect(who)));
        case
    };
    let first = |case: Case| Case { dice: Dice::First(0), ..case };
    let falling = |case: Case| Case { attributes: (0..n as u64).rev().collect(), ..case };
    match (kind, which) {
        (Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2, Which::Best) => vec![called_by(n - 1)],
        (Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2, Which::Worst) => vec![called_by(0)],
        (Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2, Which::Mean) => (0..n).map(called_by).collect(),
        (Kind::Bully, Which::Best) => vec![dead().suspected_by([n - 2])],
        (Kind::Bully, Which::Worst) => vec![dead().suspected_by([0])],
        (Kind::Bully, Which::Mean) => (0..n - 1).map(|who| dead().suspected_by([who])).collect(),
        (Kind::Raft | Kind::RaftPreVote, Which::Best) => vec![first(dead().suspected_by(0..n - 1))],
        (Kind::Chubby, Which::Best) => vec![first(dead())],
        (Kind::Fle | Kind::Pole, Which::Best) => vec![dead().suspected_by((0..n - 1).rev())],
        (Kind::Santos, Which::Best) => vec![falling(dead().suspected_by(0..n - 1))],
        (Kind::Invitation | Kind::Viewstamped, Which::Best) => vec![dead().suspected_by(0..n - 1)],
        (Kind::Rotating, Which::Best | Which::Worst) => vec![dead().suspected_by(0..n - 1)],
        (Kind::Fle | Kind::Santos, Which::Worst) => vec![dead().suspected_by(0..n - 1)],
        (Kind::Viewstamped, Which::Worst) => vec![dead().suspected_by([1])],
        (Kind::Invitation | Kind::Raft | Kind::RaftPreVote | Kind::Chubby | Kind::Pole, Which::Worst)
        | (
            Kind::Invitation
            | Kind::Raft
            | Kind::RaftPreVote
            | Kind::Chubby
            | Kind::Fle
            | Kind::Rotating
            | Kind::Viewstamped
            | Kind::Santos
            | Kind::Pole,
            Which::Mean,
        ) => (0..SEEDS).map(|run| at_random(n, seed.wrapping_add(run))).collect(),
    }
}

/// Everybody finds out within two message delays, and attributes are in any order.
fn at_random(n: usize, seed: u64) -> Case {
    let mut case = Case::leader_dead(n);
    case.seed = seed;
    let mut rng = Rng::new(seed).fork("schedule", n as u64);
    let whom = n - 1;
    case.happenings.extend((0..whom).map(|who| (rng.below(2 * MS), Happening::Suspects { who, whom })));
    for at in (1..whom).rev() {
        case.attributes.swap(at, rng.below(at as u64 + 1) as usize);
    }
    case
}

/// What the formulas say: messages and delays.
#[must_use]
pub(super) fn expected(kind: Kind, n: u64, which: Which) -> Option<(Figure, Figure)> {
    // Those who live, and a quorum.
    let (m, q) = (n - 1, n / 2 + 1);
    let one = |messages: u64, delays: u64| Some((Figure::one(messages), Figure::one(delays)));
    match (kind, which) {
        (Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2, Which::Best) => one(2 * n, 2 * n),
        (Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2, Which::Worst) => one(3 * n - 1, 3 * n - 1),
        (Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2, Which::Mean) => {
            // The initiator is 0 to N - 1 steps before the best.
            let all = Figure { sum: 2 * n * n + n * (n - 1) / 2, runs: n };
            Some((all, all))
        }
        (Kind::Bully, Which::Best) => one(n - 2, 1),
        (Kind::Bully, Which::Worst) => one(n * (n - 1) / 2, 5),
        (Kind::Bully, Which::Mean) => {
            // The initiator that is k places below the dead leader: none but Coordinator messages for k = 1; else
            // k(k + 1)/2 Election, k(k - 1)/2 Answer: k^2, and Coordinator.
            let messages = m * (n - 2) + (2..=m).map(|k| k * k).sum::<u64>();
            Some((Figure { sum: messages, runs: m }, Figure { sum: 5 * (m - 1) + 1, runs: m }))
        }
        (Kind::Invitation, Which::Best) => one(5 * (n - 2), 6),
        (Kind::Raft, Which::Best) => one(3 * n - 4, 4),
        (Kind::RaftPreVote, Which::Best) => one(5 * n - 7, 6),
        (Kind::Chubby, Which::Best) => one(3 * n - 4, 5),
        (Kind::Fle, Which::Best) => one((2 * m - 1) * (n - 1), 3),
        (Kind::Fle, Which::Worst) => one(n * (n - 1) * (n - 1) / 2, 3),
        (Kind::Rotating, Which::Best | Which::Worst) => one(2 * n - 3, 2),
        (Kind::Viewstamped, Which::Best) => one(n * n - 2, 3),
        (Kind::Viewstamped, Which::Worst) => one(n * n - 2, 4),
        (Kind::Santos, Which::Best) => one(2 * n - 3, 3),
        (Kind::Santos, Which::Worst) => one((7 * m * m - 5 * m) / 2, 3 + 4 * (m - 1)),
        (Kind::Pole, Which::Best) => one(5 * m * m + 2 - (5 + q) * m, 2),
        (
            Kind::Invitation
            | Kind::Raft
            | Kind::RaftPreVote
            | Kind::Chubby
            | Kind::Pole
            | Kind::Fle
            | Kind::Rotating
            | Kind::Viewstamped
            | Kind::Santos,
            Which::Worst | Which::Mean,
        ) => None,
    }
}

/// The formulas as one would write them: best and worst.
#[must_use]
pub(super) fn formula(kind: Kind) -> &'static str {
    match kind {
        Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2 => "2N .. 3N-1; delays the same",
        Kind::Bully => "N-2 .. N(N-1)/2 Election; 1 .. 5",
        Kind::Invitation => "5(N-2); 6",
        Kind::Raft => "3N-4; 4",
        Kind::RaftPreVote => "5N-7; 6",
        Kind::Chubby => "3N-4; 5",
        Kind::Fle => "(2N-3)(N-1) .. N(N-1)^2/2; 3",
        Kind::Rotating => "2N-3; 2",
        Kind::Viewstamped => "N^2-2; 3 .. 4",
        Kind::Santos => "2N-3 .. (7M^2-5M)/2; 3 .. 4M-1",
        Kind::Pole => "5M^2-(5+Q)M+2; 2",
    }
}

impl Figure {
    fn one(value: u64) -> Self {
        Self { sum: value, runs: 1 }
    }

    /// Whether the means are the same, exactly.
    #[must_use]
    pub fn equals(self, other: Self) -> bool {
        self.sum * other.runs == other.sum * self.runs
    }

    /// The mean.
    #[must_use]
    pub fn mean(self) -> f64 {
        self.sum as f64 / self.runs.max(1) as f64
    }
}

impl fmt::Display for Figure {
    /// Whole if it is, else with two decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.sum.checked_rem(self.runs) {
            Some(0) => (self.sum / self.runs).to_string(),
            Some(_) | None => format!("{:.2}", self.mean()),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Best => "best",
            Self::Worst => "worst",
            Self::Mean => "mean",
        })
    }
}

impl Which {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Best, Self::Worst, Self::Mean];
}

/// Runs of a mean.
const SEEDS: u64 = 10;
