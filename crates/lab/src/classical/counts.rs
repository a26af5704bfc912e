//! Messages and message delays of runs in which only the old leader fails, compared with the formulas.
//!
//! N is as in the source: for the ring the running members, for all others including the crashed leader.
//!
//! Best and worst are constructed schedules that cannot be better or worse. Where no worst one exists, the worst is
//! the largest count over the seeds, and no formula is claimed. The mean is over all initiators for the ring and
//! bully, and over seeds for the others: each process detects the failure at a random time within two message delays.
//!
//! The derivations are at the head of each algorithm and in `docs/algorithms.md`.

use std::fmt;

use super::{Case, End, Kind, Occurrence, Outcome, RandomSource};
use pole_sim::MS;
use pole_sim::Rng;

/// Which runs are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statistic {
    /// The cheapest run.
    Best,
    /// The most expensive run.
    Worst,
    /// The mean over several runs.
    Mean,
}

/// A sum over a number of runs: a mean that can be compared exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The sum over all runs.
    pub sum: u64,
    /// The number of runs.
    pub runs: u64,
}

/// The counts of one algorithm.
#[derive(Clone, Debug)]
pub struct Count {
    /// The algorithm.
    pub kind: Kind,
    /// The number of processes.
    pub n: usize,
    /// Which runs were counted.
    pub statistic: Statistic,
    /// The seed of the random runs.
    pub seed: u64,
    /// Election messages. The worst case of bully counts only those of type Election, as the lecture does.
    pub messages: Figure,
    /// Message delays.
    pub delays: Figure,
    /// Messages and delays by the formulas, where there are any.
    pub expected: Option<(Figure, Figure)>,
    /// The mean time to a leader in milliseconds, with a message delay of 1 ms.
    pub time_ms: f64,
    /// Runs that did not end with one leader. Should be 0.
    pub unsettled: u64,
    /// The number of times with two leaders at once.
    pub violations: u64,
}

impl Count {
    /// Whether the counts equal the formulas.
    #[must_use]
    pub fn agrees(&self) -> bool {
        let same = |(messages, delays): (Figure, Figure)| self.messages.equals(messages) && self.delays.equals(delays);
        self.unsettled == 0 && self.expected.is_none_or(same)
    }
}

/// Runs and counts one algorithm.
#[must_use]
pub fn count(kind: Kind, n: usize, statistic: Statistic, seed: u64) -> Count {
    let outcomes: Vec<Outcome> = cases(kind, n, statistic, seed).iter().map(|case| kind.run(case)).collect();
    let counted = |outcome: &Outcome| match (kind, statistic) {
        (Kind::Bully, Statistic::Worst) => outcome.sent.get("Election").copied().unwrap_or(0),
        _ => outcome.messages(),
    };
    let messages: Vec<u64> = outcomes.iter().map(counted).collect();
    let delays: Vec<u64> = outcomes.iter().map(|outcome| u64::from(outcome.delays)).collect();
    let figure = |of: &[u64]| match statistic {
        Statistic::Worst => Figure::one(of.iter().copied().max().unwrap_or(0)),
        Statistic::Best | Statistic::Mean => Figure { sum: of.iter().sum(), runs: of.len() as u64 },
    };
    let times = outcomes.iter().filter_map(|outcome| outcome.agreed_at).sum::<u64>() as f64;
    Count {
        kind,
        n,
        statistic,
        seed,
        messages: figure(&messages),
        delays: figure(&delays),
        expected: expected(kind, n as u64, statistic),
        time_ms: times / MS as f64 / outcomes.len() as f64,
        unsettled: outcomes.iter().filter(|outcome| outcome.end != End::Settled).count() as u64,
        violations: outcomes.iter().map(|outcome| outcome.violations.len() as u64).sum(),
    }
}

/// The runs to count: one schedule, or several.
fn cases(kind: Kind, n: usize, statistic: Statistic, seed: u64) -> Vec<Case> {
    let dead = || Case::leader_dead(n);
    let called_by = |who: usize| {
        let mut case = Case::counting(n);
        case.occurrences.push((0, Occurrence::Elect(who)));
        case
    };
    let with_first_drawn = |case: Case| Case { random: RandomSource::First(0), ..case };
    let with_falling_attributes = |case: Case| Case { attributes: (0..n as u64).rev().collect(), ..case };
    match (kind, statistic) {
        (Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2, Statistic::Best) => vec![called_by(n - 1)],
        (Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2, Statistic::Worst) => vec![called_by(0)],
        (Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2, Statistic::Mean) => (0..n).map(called_by).collect(),
        (Kind::Bully, Statistic::Best) => vec![dead().suspected_by([n - 2])],
        (Kind::Bully, Statistic::Worst) => vec![dead().suspected_by([0])],
        (Kind::Bully, Statistic::Mean) => (0..n - 1).map(|who| dead().suspected_by([who])).collect(),
        (Kind::Raft | Kind::RaftPreVote, Statistic::Best) => vec![with_first_drawn(dead().suspected_by(0..n - 1))],
        (Kind::Chubby, Statistic::Best) => vec![with_first_drawn(dead())],
        (Kind::Fle | Kind::Pole, Statistic::Best) => vec![dead().suspected_by((0..n - 1).rev())],
        (Kind::Santos, Statistic::Best) => vec![with_falling_attributes(dead().suspected_by(0..n - 1))],
        (Kind::Invitation | Kind::Viewstamped, Statistic::Best) => vec![dead().suspected_by(0..n - 1)],
        (Kind::Rotating, Statistic::Best | Statistic::Worst) => vec![dead().suspected_by(0..n - 1)],
        (Kind::Fle | Kind::Santos, Statistic::Worst) => vec![dead().suspected_by(0..n - 1)],
        (Kind::Viewstamped, Statistic::Worst) => vec![dead().suspected_by([1])],
        (Kind::Invitation | Kind::Raft | Kind::RaftPreVote | Kind::Chubby | Kind::Pole, Statistic::Worst)
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
            Statistic::Mean,
        ) => (0..SEEDS).map(|run| random_case(n, seed.wrapping_add(run))).collect(),
    }
}

/// Every process detects the failure within two message delays, and the attributes are shuffled.
fn random_case(n: usize, seed: u64) -> Case {
    let mut case = Case::leader_dead(n);
    case.seed = seed;
    let mut rng = Rng::new(seed).fork("schedule", n as u64);
    let whom = n - 1;
    case.occurrences.extend((0..whom).map(|who| (rng.below(2 * MS), Occurrence::Suspects { who, whom })));
    for at in (1..whom).rev() {
        case.attributes.swap(at, rng.below(at as u64 + 1) as usize);
    }
    case
}

/// Messages and delays by the formulas.
#[must_use]
pub(super) fn expected(kind: Kind, n: u64, statistic: Statistic) -> Option<(Figure, Figure)> {
    // The number of running processes, and the size of a quorum.
    let (m, q) = (n - 1, n / 2 + 1);
    let one = |messages: u64, delays: u64| Some((Figure::one(messages), Figure::one(delays)));
    match (kind, statistic) {
        (Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2, Statistic::Best) => one(2 * n, 2 * n),
        (Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2, Statistic::Worst) => one(3 * n - 1, 3 * n - 1),
        (Kind::Ring | Kind::RingRepair1 | Kind::RingRepair2, Statistic::Mean) => {
            // The initiator is 0 to N - 1 hops before the best process.
            let all = Figure { sum: 2 * n * n + n * (n - 1) / 2, runs: n };
            Some((all, all))
        }
        (Kind::Bully, Statistic::Best) => one(n - 2, 1),
        (Kind::Bully, Statistic::Worst) => one(n * (n - 1) / 2, 5),
        (Kind::Bully, Statistic::Mean) => {
            // For an initiator k places below the crashed leader: only Coordinator messages if k = 1; otherwise k(k +
            // 1)/2 Election and k(k - 1)/2 Answer, together k^2, and the Coordinator messages.
            let messages = m * (n - 2) + (2..=m).map(|k| k * k).sum::<u64>();
            Some((Figure { sum: messages, runs: m }, Figure { sum: 5 * (m - 1) + 1, runs: m }))
        }
        (Kind::Invitation, Statistic::Best) => one(5 * (n - 2), 6),
        (Kind::Raft, Statistic::Best) => one(3 * n - 4, 4),
        (Kind::RaftPreVote, Statistic::Best) => one(5 * n - 7, 6),
        (Kind::Chubby, Statistic::Best) => one(3 * n - 4, 5),
        (Kind::Fle, Statistic::Best) => one((2 * m - 1) * (n - 1), 3),
        (Kind::Fle, Statistic::Worst) => one(n * (n - 1) * (n - 1) / 2, 3),
        (Kind::Rotating, Statistic::Best | Statistic::Worst) => one(2 * n - 3, 2),
        (Kind::Viewstamped, Statistic::Best) => one(n * n - 2, 3),
        (Kind::Viewstamped, Statistic::Worst) => one(n * n - 2, 4),
        (Kind::Santos, Statistic::Best) => one(2 * n - 3, 3),
        (Kind::Santos, Statistic::Worst) => one((7 * m * m - 5 * m) / 2, 3 + 4 * (m - 1)),
        (Kind::Pole, Statistic::Best) => one(5 * m * m + 1 - (4 + q) * m, 2),
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
            Statistic::Worst | Statistic::Mean,
        ) => None,
    }
}

/// The formulas as text: best and worst.
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
        Kind::Pole => "5M^2-(4+Q)M+1; 2",
    }
}

impl Figure {
    fn one(value: u64) -> Self {
        Self { sum: value, runs: 1 }
    }

    /// Whether the means are exactly equal.
    #[must_use]
    pub fn equals(self, other: Self) -> bool {
        self.sum * other.runs == other.sum * self.runs
    }

    /// The mean over the runs.
    #[must_use]
    pub fn mean(self) -> f64 {
        self.sum as f64 / self.runs.max(1) as f64
    }
}

impl fmt::Display for Figure {
    /// An integer if possible, otherwise with two decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.sum.checked_rem(self.runs) {
            Some(0) => (self.sum / self.runs).to_string(),
            Some(_) | None => format!("{:.2}", self.mean()),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Best => "best",
            Self::Worst => "worst",
            Self::Mean => "mean",
        })
    }
}

impl Statistic {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Best, Self::Worst, Self::Mean];
}

/// The number of random runs of a mean.
const SEEDS: u64 = 10;
