//! The question that the paper leaves open: under which server does an ensemble recover fastest, in any deployment?
//!
//! A case is a deployment and how far each survivor of the leader's crash is behind. The answer is how long the
//! recovery takes under each of them, found by running it, and which one the oracle `recovery` picks.
//!
//! The scores are those of the production oracle over measurements with errors of up to 10 %. Each candidate is then
//! made to win in the simulator, on the production code, from the same disks; the best is the fastest of these runs.
//! The same seed gives the same cases on every machine.
//!
//! Source: sections 4.4 and 7 of the paper; experiments 8a and 8b are the first cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use pole_election::Standing;
use pole_oracle::{Gossip, MeasureConfig, Measurements, Moment, Oracle, Recovery, Report};
use pole_topology::Topology;
use pole_types::{Epoch, ServerId, Span, Time, Voters, Zxid};
use serde::{Deserialize, Serialize};

use super::experiment::DISK;
use super::random::deployment;
use super::regret::record_rate;
use super::rows::ms;
use pole_sim::Rng;
use pole_sim::{SECOND, Setup, World};

/// A deployment whose leader, the server with the highest id, has just crashed.
#[derive(Clone, Debug)]
pub struct Question {
    /// The name: a figure of the paper, or the number of the case.
    pub name: String,
    /// The seed of measurement errors and link jitter.
    pub seed: u64,
    /// The deployment.
    pub topology: Topology,
    /// How much of the leader's history each survivor lacks, in bytes.
    pub lacks: BTreeMap<u64, u64>,
    /// The largest measurement error, in percent.
    pub error_percent: u64,
    /// Whether each survivor starts electing when it learns of the crash, or all at once.
    pub staggered: bool,
}

/// The answer to a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The server that the oracle picks.
    pub chosen: u64,
    /// The predicted and measured recovery times under each survivor, in nanoseconds.
    pub times: BTreeMap<u64, Times>,
}

/// The predicted and the measured time of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Predicted by the oracle; none if it has no score.
    pub predicted: Option<u64>,
    /// From the election of the leader to its first committed write.
    pub measured: u64,
}

impl Answer {
    /// The server with the fastest recovery.
    #[must_use]
    pub fn best(&self) -> u64 {
        self.times.iter().min_by_key(|(_, times)| times.measured).map_or(self.chosen, |(id, _)| *id)
    }

    /// How much longer the recovery took under the chosen server than under the best, as a fraction.
    #[must_use]
    pub fn regret(&self) -> f64 {
        let took = |id: u64| self.times[&id].measured as f64;
        took(self.chosen) / took(self.best()) - 1.0
    }

    /// Whether the second best is within this many percent of the best, so that the choice hardly matters.
    #[must_use]
    pub fn is_close(&self, percent: u64) -> bool {
        let mut times: Vec<u64> = self.times.values().map(|times| times.measured).collect();
        times.sort_unstable();
        times.get(1).is_none_or(|second| second * 100 < times[0] * (100 + percent))
    }
}

impl Question {
    /// An experiment of the paper: the servers in `behind` lack this many bytes, the others none.
    #[must_use]
    pub fn of_paper(topology: Topology, behind: &[(u64, u64)], seed: u64) -> Self {
        let mut lacks: BTreeMap<u64, u64> = (1..topology.servers().count() as u64).map(|id| (id, 0)).collect();
        lacks.extend(behind.iter().copied());
        let name = topology.name().to_owned();
        Self { name, seed, topology, lacks, error_percent: ERROR_PERCENT, staggered: false }
    }

    /// The same without measurement errors, with the staggered start of a real crash.
    pub(super) fn exact(topology: Topology, behind: &[(u64, u64)]) -> Self {
        Self { error_percent: 0, staggered: true, ..Self::of_paper(topology, behind, 0) }
    }

    /// A random deployment with links of 10 Mbit/s to 10 Gbit/s, and 1 to N-1 servers behind by up to 1 GB, both
    /// log-uniform.
    ///
    /// # Panics
    /// Never: the generated text is a valid topology.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork("recovery", 0);
        let name = format!("case {seed}");
        let (mut text, sites) = deployment(&name, &mut rng, |rng| rng.log_uniform(10.0, 10_000.0));
        for site in 1..=sites {
            let _ = writeln!(text, "[[load]]\nsite = \"S{site}\"\nrate = 100");
        }
        let topology = Topology::parse(&text).unwrap_or_else(|error| panic!("{error} in\n{text}"));
        let mut survivors: Vec<u64> = (1..topology.servers().count() as u64).collect();
        rng.shuffle(&mut survivors);
        let behind = rng.between(1, survivors.len() as u64) as usize;
        let mut lacks: BTreeMap<u64, u64> = survivors.iter().map(|id| (*id, 0)).collect();
        for id in &survivors[..behind] {
            lacks.insert(*id, rng.log_uniform(1.0, f64::from(1 << 30)) as u64);
        }
        Self { name, seed, topology, lacks, error_percent: ERROR_PERCENT, staggered: false }
    }

    /// Runs the recovery under every survivor.
    ///
    /// # Errors
    /// If there was no recovery, if another server won than intended, or if an invariant was violated.
    pub fn run(&self) -> Result<Answer, String> {
        let mut times = BTreeMap::new();
        for id in self.lacks.keys() {
            let measured = self.recovery_time_under(*id).map_err(|why| format!("{}, server {id}: {why}", self.name))?;
            times.insert(*id, Times { predicted: self.predict(*id), measured });
        }
        // As in the election, an unknown score is worst, and among equals the higher id is best.
        let rank = |(id, times): (&u64, &Times)| (times.predicted.unwrap_or(u64::MAX), std::cmp::Reverse(*id));
        let chosen = times.iter().map(rank).min().map(|(_, id)| id.0).ok_or("nobody survived")?;
        Ok(Answer { chosen, times })
    }

    /// The longest round trip between two survivors, in milliseconds.
    pub(super) fn longest_ms(&self) -> f64 {
        let pairs = self.lacks.keys().flat_map(|a| self.lacks.keys().map(move |b| (*a, *b)));
        ms(pairs.filter_map(|(a, b)| self.topology.rtt(a, b)).max().unwrap_or(0))
    }

    /// How far the server with the shortest history is behind, in bytes.
    pub(super) fn backlog(&self) -> u64 {
        self.lacks.values().copied().max().unwrap_or(0)
    }

    fn leader(&self) -> u64 {
        self.topology.servers().count() as u64
    }

    /// The recovery time under a survivor as predicted by the oracle `recovery`, in nanoseconds.
    #[must_use]
    pub fn predict(&self, me: u64) -> Option<u64> {
        let voters = Voters::new((1..=self.leader()).map(ServerId));
        let mut measured = Measurements::new(ServerId(me), voters, MeasureConfig::default());
        for peer in self.lacks.keys().filter(|peer| **peer != me) {
            measured.record_round_trip(ServerId(*peer), self.round_trip(me, *peer)?, NOW);
            measured.record_transfer(ServerId(*peer), PROBE, Span(PROBE * 1_000_000_000 / self.bandwidth(me, *peer)?));
            measured.record_lacking(ServerId(*peer), self.lacking(*peer, me));
            measured.record_report(ServerId(*peer), self.report(*peer), NOW);
        }
        measured.record_fsync(Span(DISK));
        record_rate(&mut measured, self.topology.rate_milli(me));
        if self.staggered {
            measured.record_report(ServerId(self.leader()), self.report(self.leader()), NOW);
        }
        let leader = Some(ServerId(self.leader()));
        let view = measured.view(NOW, leader, &BTreeSet::new(), Moment::AfterCrash, self.standing(me));
        let assessed = Recovery.assess(&view, 1)?;
        u64::try_from(assessed.score.components().first()?.checked_mul(1_000)?).ok()
    }

    fn report(&self, of: u64) -> Report {
        let others = || self.lacks.keys().filter(|id| **id != of);
        Report {
            rate_milli: self.topology.rate_milli(of),
            standing: self.standing(of),
            lacking: others().map(|id| (ServerId(*id), self.lacking(*id, of))).collect(),
            bandwidths: others().filter_map(|id| Some((ServerId(*id), self.bandwidth(of, *id)?))).collect(),
            round_trips: others().filter_map(|id| Some((ServerId(*id), self.round_trip(of, *id)?))).collect(),
            fsync_p50: Span(DISK),
            fsync_p99: Span(DISK),
            after_crash: Gossip::unknown(Zxid::ZERO, 0),
            before_resignation: Gossip::unknown(Zxid::ZERO, 0),
        }
    }

    /// The round trip that one server has measured to another.
    fn round_trip(&self, from: u64, to: u64) -> Option<Span> {
        Some(Span(self.with_error("round trip", (from, to), self.topology.rtt(from, to)?)))
    }

    /// The bandwidth that one server has measured to another, in bytes per second.
    fn bandwidth(&self, from: u64, to: u64) -> Option<u64> {
        let took = self.with_error("width", (from, to), self.topology.link(from, to)?.occupied(PROBE));
        Some(PROBE * 1_000_000_000 / took.max(1))
    }

    /// Adds a random measurement error to a true value.
    fn with_error(&self, what: &str, (from, to): (u64, u64), truth: u64) -> u64 {
        let permille = 10 * self.error_percent;
        let mut rng = Rng::new(self.seed).fork(what, from << 32 | to);
        let drawn = rng.between(1_000 - permille, 1_000 + permille);
        (u128::from(truth) * u128::from(drawn) / 1_000) as u64
    }

    fn standing(&self, id: u64) -> Standing {
        // A server with more of the history has a higher position; the number of transactions does not matter.
        let rank = self.lacks.values().filter(|lacks| **lacks > self.lacks(id)).count() as u32 + 1;
        Standing { current_epoch: Epoch(1), last_zxid: Zxid::new(Epoch(1), rank), accepted_epoch: Epoch(1) }
    }

    /// How much of another server's history a server lacks, in bytes.
    fn lacking(&self, id: u64, source: u64) -> u64 {
        self.lacks(id).saturating_sub(self.lacks(source))
    }

    /// How much of the leader's history a server lacks, in bytes.
    fn lacks(&self, id: u64) -> u64 {
        self.lacks.get(&id).copied().unwrap_or(0)
    }

    /// The recovery time when this server wins, in nanoseconds.
    fn recovery_time_under(&self, id: u64) -> Result<u64, String> {
        let mut setup = Setup::on(self.topology.clone(), self.seed);
        setup.oracle = "recovery".to_owned();
        setup.load_percent = 100;
        setup.allow_long_recovery();
        setup.set_fsync(DISK);
        let whole = self.backlog() + COMMON;
        let has = |server: u64| whole - self.lacks(server);
        let sizes: Vec<_> = (1..=self.leader()).map(has).collect();
        let mut world = World::with_history(setup, &sizes, id, None);
        let (winner, began) = world.first_leader(LIMIT)?;
        if winner != id {
            return Err(format!("server {winner} won"));
        }
        world.first_commit(LIMIT).map(|at| at - began)
    }
}

/// The time at which all measurements are taken.
const NOW: Time = Time(60 * SECOND);

/// The size of the transfer by which bandwidth is measured, in bytes.
const PROBE: u64 = 100 << 20;

/// The part of the history that all servers have, in bytes.
const COMMON: u64 = 1 << 10;

/// A gigabyte twice over the slowest line takes half an hour.
const LIMIT: u64 = 7_200 * SECOND;

/// The largest error of a measurement.
const ERROR_PERCENT: u64 = 10;
