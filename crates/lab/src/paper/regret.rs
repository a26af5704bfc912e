//! The regret of each oracle: over thousands of random topologies and loads, how much slower is its leader than the
//! best?
//!
//! For each oracle this gives the leader that it elects after a crash and the mean latency under it, beside the best.
//! The production oracles score measurements with the jitter of the links, as servers would take them; the latencies
//! are those of the formula. A sample is run in the simulator to show that the two agree.
//!
//! The paper shows five servers in four deployments and could not say whether those are typical.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use pole_election::{Rank, Standing};
use pole_oracle::{Gossip, MeasureConfig, Measurements, Moment, Oracle, Report, Spec};
use pole_topology::Topology;
use pole_types::{Epoch, ServerId, Span, Time, Voters, Zxid};

use super::figures::ORACLES;
use super::formula::Formula;
use super::random::deployment;
use super::rows::DISK_MS;
use pole_sim::Rng;

/// One oracle on one random topology.
#[derive(Clone, Debug, PartialEq)]
pub struct Regret {
    /// The seed of the topology and its load.
    pub topology_seed: u64,
    /// The oracle, by its short name.
    pub oracle: &'static str,
    /// The server that it elects.
    pub leader: u64,
    /// The mean latency under it in milliseconds, including disk and processing.
    pub mean_ms: f64,
    /// The best possible leader.
    pub best_leader: u64,
    /// The mean latency under the best leader, in milliseconds.
    pub best_ms: f64,
}

impl Regret {
    /// How much slower the leader is than the best, in percent.
    #[must_use]
    pub fn percent(&self) -> f64 {
        100.0 * (self.mean_ms / self.best_ms - 1.0)
    }
}

/// Every oracle on the topology of a seed, after the crash of the server with the highest id.
///
/// # Panics
/// If one of our oracles cannot be built.
#[must_use]
pub fn regrets(seed: u64) -> Vec<Regret> {
    let topology = random_topology(seed);
    let formula = Formula::after_crash(&topology);
    let best = formula.best();
    let mut rng = Rng::new(seed).fork("measurements", 0);
    let measured: Vec<Measurements> = formula.live().iter().map(|id| measurements(&topology, *id, &mut rng)).collect();
    let epoch = rng.below(1_000);
    let elected = |oracle: &dyn Oracle| {
        let leader = Some(ServerId(topology.servers().count() as u64));
        let rank = |own: &Measurements| {
            let view = own.view(NOW, leader, &BTreeSet::new(), Moment::AfterCrash, STANDING);
            oracle.assess(&view, epoch).map_or(Rank::Unknown, |assessed| Rank::Known(assessed.score))
        };
        let best = measured.iter().min_by_key(|own| (rank(own), std::cmp::Reverse(own.me())));
        best.map_or(0, |own| own.me().0)
    };
    let each = |oracle: &'static str| {
        let spec = configured(oracle, topology.servers().count());
        let built = Spec::parse(&spec).and_then(|spec| spec.build()).unwrap_or_else(|error| panic!("{spec}: {error}"));
        let leader = elected(built.as_ref());
        Regret {
            topology_seed: seed,
            oracle,
            leader,
            mean_ms: formula.latency_ms(leader) + DISK_MS,
            best_leader: best,
            best_ms: formula.latency_ms(best) + DISK_MS,
        }
    };
    ORACLES.map(each).to_vec()
}

/// The oracle as an operator would configure it, without the classes of the paper's experiments.
fn configured(oracle: &str, servers: usize) -> String {
    let ids: Vec<String> = (1..=servers).map(|id| id.to_string()).collect();
    match oracle {
        "combined" => "combined=latency/10ms,history".to_owned(),
        "preference" => format!("preference={}", ids.join(",")),
        other => other.to_owned(),
    }
}

/// Three to seven servers at two to five sites, round trips log-uniform from 0.2 to 300 ms, a random share of the
/// load at each site, sometimes none.
///
/// # Panics
/// If the generated topology is invalid, which would be a bug.
#[must_use]
pub fn random_topology(seed: u64) -> Topology {
    let mut rng = Rng::new(seed).fork("topology", 0);
    let (mut text, sites) = deployment(&format!("random-{seed}"), &mut rng, |_| 940.0);
    let mut weights: Vec<u64> =
        (0..sites).map(|_| if rng.per_mille(200) { 0 } else { rng.between(1, 1_000) }).collect();
    if weights.iter().all(|weight| *weight == 0) {
        weights[0] = 1;
    }
    let sum: u64 = weights.iter().sum();
    for (site, weight) in (1..).zip(&weights).filter(|(_, weight)| **weight > 0) {
        let _ = writeln!(text, "[[load]]\nsite = \"S{site}\"\nrate = {:.3}", 1e3 * *weight as f64 / sum as f64);
    }
    Topology::parse(&text).unwrap_or_else(|error| panic!("random topology {seed}: {error}"))
}

/// What one server has measured about the others and received from them.
fn measurements(topology: &Topology, me: u64, rng: &mut Rng) -> Measurements {
    let ids: Vec<u64> = topology.servers().map(|server| server.id).collect();
    let config = MeasureConfig::default();
    let mut measured = Measurements::new(ServerId(me), Voters::new(ids.iter().copied().map(ServerId)), config);
    for peer in ids.iter().copied().filter(|id| *id != me) {
        let Some(link) = topology.link(me, peer) else { continue };
        for ago in (0..PROBES).rev() {
            let at = Time(NOW.0 - ago * config.heartbeat.0);
            measured.record_round_trip(ServerId(peer), Span(link.delay(rng.any()) + link.delay(rng.any())), at);
        }
        measured.record_lacking(ServerId(peer), 0);
        measured.record_report(ServerId(peer), report(topology, &ids, peer), NOW);
    }
    record_rate(&mut measured, topology.rate_milli(me));
    measured
}

/// Records requests ten times a second for a minute, so that exactly this rate is measured.
pub(super) fn record_rate(measured: &mut Measurements, rate_milli: u64) {
    for tenth in 1..=600_u64 {
        let due = |until: u64| until * rate_milli / 10_000;
        measured.record_requests(due(tenth) - due(tenth - 1), Time(tenth * 100_000_000));
    }
}

fn report(topology: &Topology, ids: &[u64], of: u64) -> Report {
    let trips = ids.iter().filter(|id| **id != of).filter_map(|id| Some((ServerId(*id), Span(topology.rtt(of, *id)?))));
    let nothing = || Gossip::unknown(Zxid::ZERO, 0);
    Report {
        rate_milli: topology.rate_milli(of),
        standing: STANDING,
        lacking: ids.iter().map(|id| (ServerId(*id), 0)).collect(),
        bandwidths: BTreeMap::new(),
        round_trips: trips.collect(),
        fsync_p50: Span::ZERO,
        fsync_p99: Span::ZERO,
        after_crash: nothing(),
        before_resignation: nothing(),
    }
}

/// All servers are level.
const STANDING: Standing =
    Standing { current_epoch: Epoch(1), last_zxid: Zxid::new(Epoch(1), 100), accepted_epoch: Epoch(1) };

/// The time of the measurements and of the assessment.
const NOW: Time = Time(60_000_000_000);

/// The number of round trips measured to each peer, one per heartbeat.
const PROBES: u64 = 5;
