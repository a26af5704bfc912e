//! An ensemble on a topology with exact measurements, as the servers would have them after a minute of steady
//! operation.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::collections::{BTreeMap, BTreeSet};

use pole_election::{Rank, Standing};
use pole_oracle::{Assessed, Gossip, MeasureConfig, Measurements, Moment, Oracle, Report, Spec, View};
use pole_topology::Topology;
use pole_types::{Epoch, ServerId, Span, Time, Voters, Zxid};

/// The time at which everything is measured and assessed.
pub(crate) const NOW: Time = Time(60_000_000_000);

pub(crate) struct Ensemble {
    pub(crate) topology: Topology,
    pub(crate) leader: ServerId,
    pub(crate) dead: BTreeSet<ServerId>,
    pub(crate) standings: BTreeMap<ServerId, Standing>,
    /// The bytes that each server lacks of the whole history.
    pub(crate) lacking: BTreeMap<ServerId, u64>,
    /// The rates of the servers, which tests may override.
    pub(crate) rates: BTreeMap<ServerId, u64>,
}

impl Ensemble {
    /// An ensemble led by p5, with all servers up to date.
    pub(crate) fn of(topology: Topology) -> Self {
        let standings = topology.servers().map(|server| (ServerId(server.id), standing(1, 100))).collect();
        let rates = topology.servers().map(|server| (ServerId(server.id), topology.rate_milli(server.id))).collect();
        Self { topology, leader: ServerId(5), dead: BTreeSet::new(), standings, lacking: BTreeMap::new(), rates }
    }

    /// Puts a server behind the others by this many bytes.
    pub(crate) fn falls_behind(&mut self, id: u64, bytes: u64) {
        let counter = if bytes == 0 { 100 } else { 50 };
        self.standings.insert(ServerId(id), standing(1, counter));
        self.lacking.insert(ServerId(id), bytes);
    }

    /// The bytes that the others lack of the history of `source`.
    fn lacking_of(&self, source: ServerId) -> BTreeMap<ServerId, u64> {
        let lacks = |id: &ServerId| self.lacking.get(id).copied().unwrap_or(0);
        let behind = |id: &ServerId| lacks(id).saturating_sub(lacks(&source));
        self.servers().into_iter().filter(|id| *id != source).map(|id| (id, behind(&id))).collect()
    }

    pub(crate) fn servers(&self) -> Vec<ServerId> {
        self.topology.servers().map(|server| ServerId(server.id)).collect()
    }

    /// The servers that take part in the election after the leader's crash.
    pub(crate) fn survivors(&self) -> Vec<ServerId> {
        self.servers().into_iter().filter(|id| *id != self.leader && !self.dead.contains(id)).collect()
    }

    fn round_trips(&self, of: ServerId) -> BTreeMap<ServerId, Span> {
        let peers = self.servers().into_iter().filter(|id| *id != of);
        peers.map(|id| (id, Span(self.topology.rtt(of.0, id.0).unwrap()))).collect()
    }

    pub(crate) fn report(&self, of: ServerId) -> Report {
        Report {
            rate_milli: self.rates[&of],
            standing: self.standings[&of],
            lacking: self.lacking_of(of),
            bandwidths: BTreeMap::new(),
            round_trips: self.round_trips(of),
            fsync_p50: Span::ZERO,
            fsync_p99: Span::ZERO,
            after_crash: Gossip::unknown(Zxid::ZERO, 0),
            before_resignation: Gossip::unknown(Zxid::ZERO, 0),
        }
    }

    /// Measurements with noise: round trips with the jitter of the topology at every heartbeat, and a minute of
    /// requests at random times.
    pub(crate) fn jittered(&self, me: ServerId, heartbeat: Span, random: &mut impl FnMut() -> u64) -> Measurements {
        let mut measured = Measurements::new(me, Voters::new(self.servers()), MeasureConfig::default());
        for peer in self.round_trips(me).into_keys() {
            let link = self.topology.link(me.0, peer.0).unwrap();
            for at in (0..=NOW.0).step_by(heartbeat.0 as usize) {
                measured.record_round_trip(peer, Span(link.delay(random()) + link.delay(random())), Time(at));
            }
        }
        // Open loop: in each millisecond a request arrives or not.
        for ms in 1..=NOW.0 / 1_000_000 {
            let comes = u128::from(random()) * 1_000_000 < u128::from(self.rates[&me]) << 64;
            measured.record_requests(comes.into(), Time(ms * 1_000_000));
        }
        measured
    }

    /// The exact measurements of `me`, with the reports of the others.
    pub(crate) fn measurements(&self, me: ServerId) -> Measurements {
        let mut measured = Measurements::new(me, Voters::new(self.servers()), MeasureConfig::default());
        for (peer, round_trip) in self.round_trips(me) {
            measured.record_round_trip(peer, round_trip, NOW);
            measured.record_report(peer, self.report(peer), NOW);
            let speed = u128::from(self.topology.bandwidth(me.0, peer.0).unwrap()) / 8;
            let took = 100_000_000 * 1_000_000_000 / speed;
            measured.record_transfer(peer, 100_000_000, Span(took as u64));
        }
        self.lacking_of(me).into_iter().for_each(|(id, bytes)| measured.record_lacking(id, bytes));
        load(&mut measured, self.rates[&me]);
        measured
    }

    pub(crate) fn view(&self, me: ServerId, moment: Moment) -> View {
        self.measurements(me).view(NOW, Some(self.leader), &self.dead, moment, self.standings[&me])
    }

    pub(crate) fn assess(&self, me: ServerId, oracle: &dyn Oracle, epoch: u64) -> Option<Assessed> {
        oracle.assess(&self.view(me, Moment::AfterCrash), epoch)
    }

    pub(crate) fn rank(&self, me: ServerId, oracle: &dyn Oracle, epoch: u64) -> Rank {
        let assessed = self.assess(me, oracle, epoch);
        assessed.map_or(Rank::Unknown, |assessed| {
            oracle.validate(&assessed.score).expect("our own scores are valid");
            Rank::Known(assessed.score)
        })
    }

    /// The winner among the survivors: the best rank, among equals the higher id.
    pub(crate) fn winner(&self, oracle: &dyn Oracle, epoch: u64) -> ServerId {
        let ranked = self.survivors().into_iter().map(|id| (self.rank(id, oracle, epoch), std::cmp::Reverse(id)));
        ranked.min().expect("somebody survives").1.0
    }

    /// A score in the oracle's unit for display.
    pub(crate) fn value(&self, me: ServerId, oracle: &str) -> f64 {
        let oracle = build(oracle);
        oracle.value(&self.assess(me, oracle.as_ref(), 1).expect("enough is measured").score)
    }
}

/// Records requests so that this rate is read at `NOW`, as closely as integers allow.
fn load(measured: &mut Measurements, rate_milli: u64) {
    // Ten batches per second, evenly spaced, for the whole minute.
    for tenth in 1..=600_u64 {
        let due = |until: u64| until * rate_milli / 10_000;
        measured.record_requests(due(tenth) - due(tenth - 1), Time(tenth * 100_000_000));
    }
}

pub(crate) fn build(spec: &str) -> Box<dyn Oracle> {
    Spec::parse(spec).and_then(|spec| spec.build()).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

pub(crate) fn standing(epoch: u32, counter: u32) -> Standing {
    let epoch = Epoch(epoch);
    Standing { current_epoch: epoch, last_zxid: Zxid::new(epoch, counter), accepted_epoch: epoch }
}
