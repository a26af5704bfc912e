//! The size of a study: a few minutes, or the paper's scale.

use super::figures::Share;
use pole_sim::SECOND;

/// The size of everything that `pole lab paper` runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The load in percent of the paper's 1000 requests per second.
    pub load_percent: u32,
    /// How long the load runs before the crash, in nanoseconds.
    pub before: u64,
    /// How long the load runs after the crash, in nanoseconds.
    pub after: u64,
    /// Each case is run once per seed.
    pub seeds: Vec<u64>,
    /// The values of p, in thousandths.
    pub shares_permille: Vec<u64>,
    /// The round trips of figure 8a, in microseconds.
    pub round_trips_us: Vec<u64>,
    /// The backlogs of figures 8a and 8b, in megabytes.
    pub backlogs_mb: Vec<u64>,
    /// The number of random cases of the open question.
    pub questions: u64,
    /// The number of random topologies for the regret, by the formulas.
    pub topologies: u64,
    /// The number of those that are also run in the simulator.
    pub sampled: u64,
    /// How long a wandering load stays at one site, in nanoseconds.
    pub stay: u64,
    /// The number of sites that it visits in sequence.
    pub stays: usize,
}

impl Scale {
    /// About three minutes on two cores.
    #[must_use]
    pub fn quick(seed: u64) -> Self {
        Self {
            load_percent: 20,
            before: 10 * SECOND,
            after: 20 * SECOND,
            seeds: vec![seed],
            shares_permille: vec![0, 250, 500, 750, 1000],
            // The smallest one is that between two servers of one site.
            round_trips_us: vec![100, 9_880, 20_750, 53_260],
            backlogs_mb: vec![0, 50, 100, 150, 200, 250],
            questions: 1_000,
            topologies: 3_000,
            sampled: 12,
            stay: 900 * SECOND,
            stays: 6,
        }
    }

    /// The paper's scale: 1000 requests per second, a minute before and a minute after the crash, five seeds.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self {
            load_percent: 100,
            before: 60 * SECOND,
            after: 60 * SECOND,
            seeds: (seed..seed.saturating_add(5)).collect(),
            topologies: 10_000,
            sampled: 50,
            ..Self::quick(seed)
        }
    }

    /// The scale for real servers: 50 requests per second per ensemble, so that a machine with two cores can run
    /// several ensembles at a time. Times are real time here.
    #[must_use]
    pub fn real(seed: u64) -> Self {
        Self { load_percent: 5, before: 3 * SECOND, after: 5 * SECOND, ..Self::quick(seed) }
    }

    /// The values of p.
    pub(super) fn shares(&self) -> impl Iterator<Item = Share> + '_ {
        self.shares_permille.iter().map(|permille| Share::Permille(*permille))
    }
}
