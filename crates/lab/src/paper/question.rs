//! The question that the paper leaves open: which server brings the ensemble back soonest, in any deployment?
//!
//! In: a deployment, and how far behind each survivor of the leader's crash is. Out: how long the recovery takes under each
//! of them, found by running it, and whom the oracle `recovery` picks.
//! How: the scores are those of the production oracle over measurements that are wrong by up to a tenth; each candidate is
//! then made to win in the simulator, on the production code, from the same disks. The best is the best of these runs.
//! Holds: the same seed gives the same cases, on every machine.
//! Source: sections 4.4 and 7 of the paper; experiments 8a and 8b are the first cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use pole_election::{Epoch, ServerId, Span, Standing, Voters, Zxid};
use pole_oracle::{Gossip, MeasureConfig, Measurements, Moment, Oracle, Recovery, Report, Time};
use pole_topology::Topology;
use serde::{Deserialize, Serialize};

use super::experiment::DISK;
use super::random::deployment;
use super::regret::record_rate;
use super::rows::ms;
use crate::rng::Rng;
use crate::sim::{SECOND, Setup, World};

/// A deployment whose leader, the server with the highest id, has just crashed.
#[derive(Clone, Debug)]
pub struct Question {
    /// What it is called: a figure of the paper, or its number.
    pub name: String,
    /// Decides the errors of the measurements and the jitter of the lines.
    pub seed: u64,
    /// The deployment.
    pub topology: Topology,
    /// What each survivor lacks of the history that the leader had, in bytes.
    pub lacks: BTreeMap<u64, u64>,
    /// How wrong measurements are, at most.
    pub error_percent: u64,
    /// Whether each survivor begins to elect when it hears of the crash, or all at once.
    pub staggered: bool,
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whom the oracle picks.
    pub chosen: u64,
    /// Of each survivor: how long the oracle thinks that it takes under it, and how long it took, in nanoseconds.
    pub times: BTreeMap<u64, Times>,
}

/// A recovery, as foreseen and as it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// By the oracle; none if it could not tell.
    pub predicted: Option<u64>,
    /// From the choice of the leader to its first committed write.
    pub measured: u64,
}

impl Answer {
    /// Who was best, by the runs.
    #[must_use]
    pub fn best(&self) -> u64 {
        self.times.iter().min_by_key(|(_, times)| times.measured).map_or(self.chosen, |(id, _)| *id)
    }

    /// How much longer it took under the chosen one than under the best, in parts of one.
    #[must_use]
    pub fn regret(&self) -> f64 {
        let took = |id: u64| self.times[&id].measured as f64;
        took(self.chosen) / took(self.best()) - 1.0
    }

    /// Whether the second best is within so many percent of the best: then hardly anything was to be decided.
    #[must_use]
    pub fn is_close(&self, percent: u64) -> bool {
        let mut times: Vec<u64> = self.times.values().map(|times| times.measured).collect();
        times.sort_unstable();
        times.get(1).is_none_or(|second| second * 100 < times[0] * (100 + percent))
    }
}

impl Question {
    /// An experiment of the paper: in this deployment these are behind by so many bytes, and the others by none.
    #[must_use]
    pub fn of_paper(topology: Topology, behind: &[(u64, u64)], seed: u64) -> Self {
        let mut lacks: BTreeMap<u64, u64> = (1..topology.servers().count() as u64).map(|id| (id, 0)).collect();
        lacks.extend(behind.iter().copied());
        let name = topology.name().to_owned();
        Self { name, seed, topology, lacks, error_percent: ERROR_PERCENT, staggered: false }
    }

    /// The same, measured without error, and as it goes after a real crash.
    pub(super) fn exact(topology: Topology, behind: &[(u64, u64)]) -> Self {
        Self { error_percent: 0, staggered: true, ..Self::of_paper(topology, behind, 0) }
    }

    /// A random deployment with lines of 10 Mbit/s to 10 Gbit/s, and 1 to N-1 servers behind by up to 1 GB, both
    /// log-uniform.
    ///
    /// # Panics
    /// Never: the file that it writes is a topology.
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

    /// Runs it under every survivor.
    ///
    /// # Errors
    /// If nobody recovered, another won than was meant to, or an invariant broke.
    pub fn run(&self) -> Result<Answer, String> {
        let mut times = BTreeMap::new();
        for id in self.lacks.keys() {
            let measured = self.recover_under(*id).map_err(|why| format!("{}, server {id}: {why}", self.name))?;
            times.insert(*id, Times { predicted: self.predict(*id), measured });
        }
        // The order of the election: an unknown score is worst, of equals the higher id is best.
        let rank = |(id, times): (&u64, &Times)| (times.predicted.unwrap_or(u64::MAX), std::cmp::Reverse(*id));
        let chosen = times.iter().map(rank).min().map(|(_, id)| id.0).ok_or("nobody survived")?;
        Ok(Answer { chosen, times })
    }

    /// The longest round trip between two survivors, in milliseconds.
    pub(super) fn longest_ms(&self) -> f64 {
        let pairs = self.lacks.keys().flat_map(|a| self.lacks.keys().map(move |b| (*a, *b)));
        ms(pairs.filter_map(|(a, b)| self.topology.rtt(a, b)).max().unwrap_or(0))
    }

    /// How far the one who has least is behind, in bytes.
    pub(super) fn backlog(&self) -> u64 {
        self.lacks.values().copied().max().unwrap_or(0)
    }

    fn leader(&self) -> u64 {
        self.topology.servers().count() as u64
    }

    /// How long the oracle `recovery` thinks that it takes under a survivor, in nanoseconds.
    #[must_use]
    pub fn predict(&self, me: u64) -> Option<u64> {
        let voters = Voters::new((1..=self.leader()).map(ServerId));
        let mut measured = Measurements::new(ServerId(me), voters, MeasureConfig::default());
        for peer in self.lacks.keys().filter(|peer| **peer != me) {
            measured.record_round_trip(ServerId(*peer), self.round_trip(me, *peer)?, NOW);
            measured.record_transfer(ServerId(*peer), PROBE, Span(PROBE * 1_000_000_000 / self.width(me, *peer)?));
            measured.record_lacking(ServerId(*peer), self.lacking(*peer, me));
            measured.hear(ServerId(*peer), self.report(*peer), NOW);
        }
        measured.record_fsync(Span(DISK));
        record_rate(&mut measured, self.topology.rate_milli(me));
        if self.staggered {
            measured.hear(ServerId(self.leader()), self.report(self.leader()), NOW);
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
            bandwidths: others().filter_map(|id| Some((ServerId(*id), self.width(of, *id)?))).collect(),
            round_trips: others().filter_map(|id| Some((ServerId(*id), self.round_trip(of, *id)?))).collect(),
            fsync_p50: Span(DISK),
            fsync_p99: Span(DISK),
            after_crash: Gossip::unknown(Zxid::ZERO, 0),
            before_resignation: Gossip::unknown(Zxid::ZERO, 0),
        }
    }

    /// What one server has measured to another.
    fn round_trip(&self, from: u64, to: u64) -> Option<Span> {
        Some(Span(self.mistaken("round trip", (from, to), self.topology.rtt(from, to)?)))
    }

    /// How wide one server has found the line to another, in bytes a second.
    fn width(&self, from: u64, to: u64) -> Option<u64> {
        let took = self.mistaken("width", (from, to), self.topology.link(from, to)?.occupied(PROBE));
        Some(PROBE * 1_000_000_000 / took.max(1))
    }

    /// What one server makes of something between itself and another: more or less than it is.
    fn mistaken(&self, what: &str, (from, to): (u64, u64), truth: u64) -> u64 {
        let permille = 10 * self.error_percent;
        let mut rng = Rng::new(self.seed).fork(what, from << 32 | to);
        let drawn = rng.between(1_000 - permille, 1_000 + permille);
        (u128::from(truth) * u128::from(drawn) / 1_000) as u64
    }

    fn standing(&self, id: u64) -> Standing {
        // Whoever has more of the one history has a higher position; how many transactions that is does not matter.
        let rank = self.lacks.values().filter(|lacks| **lacks > self.lacks(id)).count() as u32 + 1;
        Standing { current_epoch: Epoch(1), last_zxid: Zxid::new(Epoch(1), rank), accepted_epoch: Epoch(1) }
    }

    /// What one server lacks of another's history.
    fn lacking(&self, id: u64, source: u64) -> u64 {
        self.lacks(id).saturating_sub(self.lacks(source))
    }

    /// What a server lacks of the leader's.
    fn lacks(&self, id: u64) -> u64 {
        self.lacks.get(&id).copied().unwrap_or(0)
    }

    /// How long it takes when this server wins, in nanoseconds.
    fn recover_under(&self, id: u64) -> Result<u64, String> {
        let mut setup = Setup::on(self.topology.clone(), self.seed);
        setup.oracle = "recovery".to_owned();
        setup.load_percent = 100;
        setup.allow_long_recovery();
        setup.set_fsync(DISK);
        let whole = self.backlog() + COMMON;
        let has = |server: u64| whole - self.lacks(server);
        let past: Vec<_> = (1..=self.leader()).map(has).collect();
        let mut world = World::with_history(setup, &past, id, None);
        let (winner, began) = world.first_leader(LIMIT)?;
        if winner != id {
            return Err(format!("server {winner} won"));
        }
        world.first_commit(LIMIT).map(|at| at - began)
    }
}

/// When everything is measured.
const NOW: Time = Time(60 * SECOND);

/// The transfer that has shown the width of a line.
const PROBE: u64 = 100 << 20;

/// What all servers have in common.
const COMMON: u64 = 1 << 10;

/// A gigabyte twice over the slowest line takes half an hour.
const LIMIT: u64 = 7_200 * SECOND;

/// The error of every measurement, at most.
const ERROR_PERCENT: u64 = 10;
