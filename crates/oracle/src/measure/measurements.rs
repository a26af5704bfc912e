//! Everything that this server has measured and heard: the single place that `node` feeds.
//!
//! In: round trips, requests, transfers, fsyncs, a probe's number, the reports of peers; each with `now`.
//! Out: this server's own report, and a `View` for the oracles.
//! Holds: bounded memory (voters only, windows of fixed size); numbers from a peer are clamped, so that no sum of
//! theirs overflows; the float of a probe is checked and converted here and nowhere else.
//! Not here: what the numbers mean (`View`, the oracles), when to send a report (`node`).

use alloc::collections::{BTreeMap, BTreeSet};

use pole_election::{Rank, Score, ServerId, Span, Standing, Voters, Zxid};

use super::{Bandwidths, DiskTimes, Gossip, Report, RequestRate, RoundTrips};
use crate::oracle::{Assessed, Oracle};
use crate::time::Time;
use crate::view::{Moment, View};

/// How to measure. Only the heartbeat and the half-life are configured; the rest has its reason beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MeasureConfig {
    /// The period of reports (`pole.heartbeatMs`). What was heard longer than five of them ago is stale.
    pub heartbeat: Span,
    /// The half-life of the request rate (`pole.oracle.rateHalfLifeMs`).
    pub half_life: Span,
    /// When this server started; zero unless a simulator restarts one in the middle of a run.
    pub started: Time,
    /// The bandwidth assumed before any transfer: a gigabit line as TCP sees it.
    pub assumed_bytes_per_s: u64,
    /// The window assumed before any transfer: TCP gives at most one a round trip.
    pub assumed_window_bytes: u64,
}

impl Default for MeasureConfig {
    fn default() -> Self {
        Self {
            heartbeat: Span::from_ms(1_000),
            half_life: Span::from_ms(10_000),
            started: Time(0),
            assumed_bytes_per_s: 940_000_000 / 8,
            assumed_window_bytes: 4 << 20,
        }
    }
}

impl MeasureConfig {
    /// The age beyond which a measurement or a report counts no more. At least a second: heartbeats of 100 ms on a busy
    /// machine may come in late together.
    #[must_use]
    pub fn stale_after(&self) -> Span {
        self.heartbeat.saturating_mul(5).max(Span::from_ms(1_000))
    }
}

/// The measurements of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Measurements {
    pub(crate) me: ServerId,
    pub(crate) voters: Voters,
    pub(crate) config: MeasureConfig,
    pub(crate) round_trips: RoundTrips,
    pub(crate) rate: RequestRate,
    pub(crate) bandwidths: Bandwidths,
    pub(crate) disk: DiskTimes,
    /// What each peer lacks of our history, in bytes.
    pub(crate) lacking: BTreeMap<ServerId, u64>,
    /// The last report of each peer, kept when the peer dies: it says where its clients will go.
    pub(crate) heard: BTreeMap<ServerId, Heard>,
    pub(super) probe: Option<Probe>,
    /// Our last score under each oracle: the memory of the hysteresis at class borders.
    pub(super) last: BTreeMap<(Moment, u64), Score>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Heard {
    pub(crate) report: Report,
    pub(crate) at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Probe {
    milli: i64,
    until: Time,
}

impl Measurements {
    /// Nothing measured yet by the server `me`.
    #[must_use]
    pub fn new(me: ServerId, voters: Voters, config: MeasureConfig) -> Self {
        Self {
            me,
            voters,
            round_trips: RoundTrips::new(config.stale_after()),
            rate: RequestRate::new(config.half_life, config.started),
            bandwidths: Bandwidths::default(),
            disk: DiskTimes::default(),
            lacking: BTreeMap::new(),
            heard: BTreeMap::new(),
            probe: None,
            last: BTreeMap::new(),
            config,
        }
    }

    /// The server that measures.
    #[must_use]
    pub fn me(&self) -> ServerId {
        self.me
    }

    /// A probe of `peer` came back.
    pub fn record_round_trip(&mut self, peer: ServerId, round_trip: Span, now: Time) {
        if peer != self.me && self.voters.contains(peer) {
            self.round_trips.record(peer, round_trip, now);
        }
    }

    /// Clients of this server sent so many write requests.
    pub fn record_requests(&mut self, count: u64, now: Time) {
        self.rate.record(count, now);
    }

    /// A bulk transfer to or from `peer` took so long.
    pub fn record_transfer(&mut self, peer: ServerId, bytes: u64, took: Span) {
        if peer != self.me && self.voters.contains(peer) {
            self.bandwidths.record(peer, bytes, took);
        }
    }

    /// So many bytes would bring `peer` level with this server.
    pub fn record_lacking(&mut self, peer: ServerId, bytes: u64) {
        if peer != self.me && self.voters.contains(peer) {
            self.lacking.insert(peer, bytes);
        }
    }

    /// An fsync took so long.
    pub fn record_fsync(&mut self, took: Span) {
        self.disk.record(took.min(LONGEST));
    }

    /// An external probe says how good a leader this server would be, higher is better, for the next `ttl`.
    ///
    /// # Errors
    /// Not a finite number, or beyond ± 10^12. The last value then stays in force until its own end.
    pub fn record_probe(&mut self, value: f64, ttl: Span, now: Time) -> Result<(), InvalidProbe> {
        // The one float that enters: thousandths of it from here on. No range contains NaN.
        if !(-PROBE_MAX..=PROBE_MAX).contains(&value) {
            return Err(InvalidProbe { value });
        }
        self.probe = Some(Probe { milli: (value * 1000.0) as i64, until: now + ttl });
        Ok(())
    }

    /// A report of `peer` arrived. Strangers are ignored.
    pub fn hear(&mut self, peer: ServerId, mut report: Report, now: Time) {
        if peer == self.me || !self.voters.contains(peer) {
            return;
        }
        report.rate_milli = report.rate_milli.min(RATE_MILLI_MAX);
        report.fsync_p50 = report.fsync_p50.min(LONGEST);
        report.fsync_p99 = report.fsync_p99.min(LONGEST);
        report.round_trips.retain(|id, _| self.voters.contains(*id));
        report.lacking.retain(|id, _| self.voters.contains(*id));
        report.bandwidths.retain(|id, _| self.voters.contains(*id));
        report.round_trips.values_mut().for_each(|round_trip| *round_trip = (*round_trip).min(LONGEST));
        self.heard.insert(peer, Heard { report, at: now });
    }

    /// The link to `peer` is gone: its round trip is void. Its last report stays, for the time after its death.
    pub fn forget(&mut self, peer: ServerId) {
        self.round_trips.forget(peer);
    }

    /// This server's heartbeat.
    #[must_use]
    pub fn report(&self, now: Time, standing: Standing, after_crash: Gossip, before_resignation: Gossip) -> Report {
        Report {
            rate_milli: self.own_rate_milli(now),
            standing,
            lacking: self.lacking.clone(),
            bandwidths: self.bandwidths.all(),
            round_trips: self.round_trips.vector(now),
            fsync_p50: self.disk.percentile(50),
            fsync_p99: self.disk.percentile(99),
            after_crash,
            before_resignation,
        }
    }

    /// What an oracle sees: `leader` is the current or the just lost leader, `suspected` are the servers believed dead,
    /// `own` is where this server stands.
    #[must_use]
    pub fn view(
        &self,
        now: Time,
        leader: Option<ServerId>,
        suspected: &BTreeSet<ServerId>,
        moment: Moment,
        own: Standing,
    ) -> View {
        View::new(self, now, leader, suspected, moment, own)
    }

    /// Asks the oracle and remembers the answer, so that the next one does not flap at a class border. Whoever proposes
    /// or reports a score asks here; whoever is merely curious asks the oracle itself.
    pub fn assess(&mut self, oracle: &dyn Oracle, view: &View, epoch: u64) -> Option<Assessed> {
        let assessed = oracle.assess(view, epoch);
        let key = (view.moment(), oracle.fingerprint());
        if self.last.len() >= REMEMBERED_MAX && !self.last.contains_key(&key) {
            self.last.clear();
        }
        match &assessed {
            Some(assessed) => self.last.insert(key, assessed.score.clone()),
            None => self.last.remove(&key),
        };
        assessed
    }

    /// What `peer` last said of its rank, if that is at most two heartbeats old: rule (c) of the election.
    #[must_use]
    pub fn gossip(&self, peer: ServerId, moment: Moment, now: Time) -> Option<&Gossip> {
        let heard = self.heard.get(&peer)?;
        (now - heard.at <= self.config.heartbeat.saturating_mul(2)).then_some(match moment {
            Moment::AfterCrash => &heard.report.after_crash,
            Moment::BeforeResignation => &heard.report.before_resignation,
        })
    }

    /// The servers that the leader may resign for, with their ranks: fresh gossip under the same configuration.
    #[must_use]
    pub fn candidates(
        &self,
        now: Time,
        version: Zxid,
        fingerprint: u64,
        suspected: &BTreeSet<ServerId>,
    ) -> BTreeMap<ServerId, Rank> {
        let alive = self.voters.peers(self.me).filter(|peer| !suspected.contains(peer));
        let fresh = alive.filter_map(|peer| Some((peer, self.gossip(peer, Moment::BeforeResignation, now)?)));
        let same = fresh.filter(|(_, gossip)| (gossip.version, gossip.fingerprint) == (version, fingerprint));
        same.map(|(peer, gossip)| (peer, gossip.rank.clone())).collect()
    }

    /// The smoothed round trip to `peer`, if fresh.
    #[must_use]
    pub fn round_trip(&self, peer: ServerId, now: Time) -> Option<Span> {
        self.round_trips.smoothed(peer, now)
    }

    /// Whether another sample of the round trip to `peer` is wanted, see [`RoundTrips::is_unsettled`].
    #[must_use]
    pub fn is_unsettled(&self, peer: ServerId) -> bool {
        self.round_trips.is_unsettled(peer)
    }

    /// The slowest recent round trip to `peer`, see [`RoundTrips::slowest_recent`].
    #[must_use]
    pub fn slowest_recent(&self, peer: ServerId, now: Time) -> Option<Span> {
        self.round_trips.slowest_recent(peer, now)
    }

    /// The last report of `peer`, and when it came.
    #[must_use]
    pub fn last_report(&self, peer: ServerId) -> Option<(&Report, Time)> {
        self.heard.get(&peer).map(|heard| (&heard.report, heard.at))
    }

    /// The rate of this server's own clients, in thousandths of a write request a second.
    #[must_use]
    pub fn own_rate_milli(&self, now: Time) -> u64 {
        self.rate.milli_per_s(now).min(RATE_MILLI_MAX)
    }

    /// The 99th percentile of our fsyncs.
    #[must_use]
    pub fn fsync_p99(&self) -> Span {
        self.disk.percentile(99)
    }

    /// The probe's value in thousandths, while it lives.
    pub(crate) fn probe_milli(&self, now: Time) -> Option<i64> {
        self.probe.as_ref().filter(|probe| now < probe.until).map(|probe| probe.milli)
    }

    /// Our last scores at this moment, by fingerprint.
    pub(crate) fn last_scores(&self, moment: Moment) -> BTreeMap<u64, Score> {
        let ours = self.last.iter().filter(|((at, _), _)| *at == moment);
        ours.map(|((_, fingerprint), score)| (*fingerprint, score.clone())).collect()
    }
}

/// A probe's number that is not one.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("score {value}: must be a finite number between -1e12 and 1e12, higher is better")]
pub struct InvalidProbe {
    /// What the probe said.
    pub value: f64,
}

/// The largest magnitude of a probe's number: its thousandths are exact in a float and far from the ends of an i64.
const PROBE_MAX: f64 = 1e12;

/// A peer that claims more than 10^12 requests a second is mistaken; the clamp keeps weighted sums within 128 bits.
const RATE_MILLI_MAX: u64 = 1_000_000_000_000_000;

/// No round trip and no fsync that ended took longer than an hour; sums of such spans stay within 64 bits.
const LONGEST: Span = Span::from_ms(3_600_000);

/// Oracles whose last score is remembered, at both moments. Two are in use; `/v1/scores` may ask all; run-time changes
/// would otherwise add up. Forgetting costs one damped border.
const REMEMBERED_MAX: usize = 32;
