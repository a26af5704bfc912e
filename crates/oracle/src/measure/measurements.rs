//! Everything that this server has measured, and the latest report of each peer. Fed by `node`.
//!
//! Round trips, requests, transfers, fsyncs, probe values and reports of peers come in, each with `now`. This server's
//! own report and a `View` for the oracles come out.
//!
//! Invariants: memory is bounded (members only, windows of fixed size). Values from a peer are clamped, so that sums
//! cannot overflow. The float of a probe is validated and converted here and nowhere else.
//!
//! The meaning of the values is in `View` and the oracles, the schedule of reports in `node`.

use alloc::collections::{BTreeMap, BTreeSet};

use pole_election::{Rank, Score, Standing};
use pole_types::{Membership, ServerId, Span, Time, Zxid};

use super::{Bandwidths, DiskTimes, Gossip, Report, RequestRate, RoundTrips};
use crate::oracle::{Assessed, Oracle};
use crate::view::{Moment, View};

/// How to measure. Only the heartbeat and the half-life are configurable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MeasureConfig {
    /// The period of reports (`pole.heartbeatMs`). A report older than five periods is stale.
    pub heartbeat: Span,
    /// The half-life of the request rate (`pole.oracle.rateHalfLifeMs`).
    pub half_life: Span,
    /// When this server started. Zero, unless a simulator restarts a server in the middle of a run.
    pub started: Time,
    /// The bandwidth assumed before any transfer: a gigabit line as seen by TCP.
    pub assumed_bytes_per_s: u64,
    /// The TCP window assumed before any transfer, which limits the bandwidth to one window per round trip.
    pub assumed_window_bytes: u64,
    /// `pole.directAcks`: a leader has acknowledgements sent to a follower directly if that saves its clients more than
    /// this; `None`: never.
    pub direct_acks: Option<Span>,
}

impl Default for MeasureConfig {
    fn default() -> Self {
        Self {
            heartbeat: Span::from_ms(1_000),
            half_life: Span::from_ms(10_000),
            started: Time(0),
            assumed_bytes_per_s: 940_000_000 / 8,
            assumed_window_bytes: 4 << 20,
            direct_acks: None,
        }
    }
}

impl MeasureConfig {
    /// The age beyond which a measurement or a report is ignored. At least a second, because heartbeats of 100 ms may
    /// be delayed together on a busy machine.
    #[must_use]
    pub fn stale_after(&self) -> Span {
        self.heartbeat.saturating_mul(5).max(Span::from_ms(1_000))
    }
}

/// The measurements of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Measurements {
    pub(crate) me: ServerId,
    pub(crate) members: Membership,
    pub(crate) config: MeasureConfig,
    pub(crate) round_trips: RoundTrips,
    pub(crate) rate: RequestRate,
    pub(crate) bandwidths: Bandwidths,
    pub(crate) disk: DiskTimes,
    /// The number of bytes of our history that each peer lacks.
    pub(crate) lacking: BTreeMap<ServerId, u64>,
    /// The last report of each peer. Kept when the peer fails, since it shows where its clients will go.
    pub(crate) reports: BTreeMap<ServerId, ReceivedReport>,
    pub(super) probe: Option<Probe>,
    /// Our last score under each oracle, for the hysteresis at class borders.
    pub(super) last: BTreeMap<(Moment, u64), Score>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReceivedReport {
    pub(crate) report: Report,
    pub(crate) at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Probe {
    milli: i64,
    until: Time,
}

impl Measurements {
    /// Creates the measurements of server `me`, with nothing measured yet.
    #[must_use]
    pub fn new(me: ServerId, members: impl Into<Membership>, config: MeasureConfig) -> Self {
        Self {
            me,
            members: members.into(),
            round_trips: RoundTrips::new(config.stale_after()),
            rate: RequestRate::new(config.half_life, config.started),
            bandwidths: Bandwidths::default(),
            disk: DiskTimes::default(),
            lacking: BTreeMap::new(),
            reports: BTreeMap::new(),
            probe: None,
            last: BTreeMap::new(),
            config,
        }
    }

    /// Sets the members of the ensemble after a change of them, and forgets servers that are none.
    pub fn set_members(&mut self, members: Membership) {
        self.reports.retain(|id, _| members.contains(*id));
        self.lacking.retain(|id, _| members.contains(*id));
        self.members = members;
    }

    /// The id of the measuring server.
    #[must_use]
    pub fn me(&self) -> ServerId {
        self.me
    }

    /// Records the round trip of a probe to `peer`. Ignored unless `peer` is another member.
    pub fn record_round_trip(&mut self, peer: ServerId, round_trip: Span, now: Time) {
        if peer != self.me && self.members.contains(peer) {
            self.round_trips.record(peer, round_trip, now);
        }
    }

    /// Records `count` write requests of this server's clients.
    pub fn record_requests(&mut self, count: u64, now: Time) {
        self.rate.record(count, now);
    }

    /// Records a bulk transfer to or from `peer` that took `took`. Ignored unless `peer` is another member.
    pub fn record_transfer(&mut self, peer: ServerId, bytes: u64, took: Span) {
        if peer != self.me && self.members.contains(peer) {
            self.bandwidths.record(peer, bytes, took);
        }
    }

    /// Records the number of bytes that would bring `peer` up to date with this server.
    pub fn record_lacking(&mut self, peer: ServerId, bytes: u64) {
        if peer != self.me && self.members.contains(peer) {
            self.lacking.insert(peer, bytes);
        }
    }

    /// Records the time of one fsync.
    pub fn record_fsync(&mut self, took: Span) {
        self.disk.record(took.min(SPAN_MAX));
    }

    /// Records the value of an external probe: how good a leader this server would be for the next `ttl`, higher is
    /// better.
    ///
    /// # Errors
    /// If the value is not finite or beyond ±10^12. The previous value then stays in force until it expires.
    pub fn record_probe(&mut self, value: f64, ttl: Span, now: Time) -> Result<(), InvalidProbe> {
        // The only float that enters; it is converted to thousandths. No range contains NaN.
        if !(-PROBE_MAX..=PROBE_MAX).contains(&value) {
            return Err(InvalidProbe { value });
        }
        self.probe = Some(Probe { milli: (value * 1000.0) as i64, until: now + ttl });
        Ok(())
    }

    /// Stores a report of `peer`. A report from a server that is not another member is ignored.
    pub fn record_report(&mut self, peer: ServerId, mut report: Report, now: Time) {
        if peer == self.me || !self.members.contains(peer) {
            return;
        }
        report.rate_milli = report.rate_milli.min(RATE_MILLI_MAX);
        report.fsync_p50 = report.fsync_p50.min(SPAN_MAX);
        report.fsync_p99 = report.fsync_p99.min(SPAN_MAX);
        report.round_trips.retain(|id, _| self.members.contains(*id));
        report.lacking.retain(|id, _| self.members.contains(*id));
        report.bandwidths.retain(|id, _| self.members.contains(*id));
        report.round_trips.values_mut().for_each(|round_trip| *round_trip = (*round_trip).min(SPAN_MAX));
        self.reports.insert(peer, ReceivedReport { report, at: now });
    }

    /// Discards the round trip to `peer` after its link closed. Its last report is kept for the time after its
    /// failure.
    pub fn forget(&mut self, peer: ServerId) {
        self.round_trips.forget(peer);
    }

    /// The report of this server for its next heartbeat.
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

    /// The input of an oracle. `leader` is the current or the just lost leader, `suspected` are the servers assumed to
    /// have failed, `own` is the standing of this server.
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

    /// Asks the oracle and stores the score, for the hysteresis of the next one. Use this for scores that are proposed
    /// or reported; for inspection call the oracle directly.
    pub fn assess(&mut self, oracle: &dyn Oracle, view: &View, epoch: u64) -> Option<Assessed> {
        let assessed = oracle.assess(view, epoch);
        let key = (view.moment(), oracle.fingerprint());
        if self.last.len() >= LAST_SCORES_MAX && !self.last.contains_key(&key) {
            self.last.clear();
        }
        match &assessed {
            Some(assessed) => self.last.insert(key, assessed.score.clone()),
            None => self.last.remove(&key),
        };
        assessed
    }

    /// The rank that `peer` last reported, if at most two heartbeats old: rule (c) of the election.
    #[must_use]
    pub fn gossip(&self, peer: ServerId, moment: Moment, now: Time) -> Option<&Gossip> {
        let received = self.reports.get(&peer)?;
        (now - received.at <= self.config.heartbeat.saturating_mul(2)).then_some(match moment {
            Moment::AfterCrash => &received.report.after_crash,
            Moment::BeforeResignation => &received.report.before_resignation,
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
        let voters = self.members.voters();
        let alive = voters.peers(self.me).filter(|peer| voters.may_lead(*peer) && !suspected.contains(peer));
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

    /// Whether a quorum is farther away at the moment, by more than `margin`, than the smoothed round trips say on which
    /// scores are based.
    #[must_use]
    pub fn quorum_is_farther(&self, margin: Span, now: Time) -> bool {
        let voters = self.members.voters();
        let quorum = |round_trip: &dyn Fn(ServerId) -> Option<Span>| {
            let peers = voters.peers(self.me).filter_map(|peer| Some((peer, round_trip(peer)?)));
            voters.quorum_value(peers.chain([(self.me, Span::ZERO)]))
        };
        let usual = quorum(&|peer| self.round_trips.smoothed(peer, now));
        let recent = quorum(&|peer| self.round_trips.fastest_recent(peer, now));
        matches!((usual, recent), (Some(usual), Some(recent)) if recent > usual.saturating_add(margin))
    }

    /// The last report of `peer`, and when it was received.
    #[must_use]
    pub fn last_report(&self, peer: ServerId) -> Option<(&Report, Time)> {
        self.reports.get(&peer).map(|received| (&received.report, received.at))
    }

    /// The rate of this server's own clients, in thousandths of a write request per second.
    #[must_use]
    pub fn own_rate_milli(&self, now: Time) -> u64 {
        self.rate.milli_per_s(now).min(RATE_MILLI_MAX)
    }

    /// The 99th percentile of this server's fsync times.
    #[must_use]
    pub fn fsync_p99(&self) -> Span {
        self.disk.percentile(99)
    }

    /// The probe's value in thousandths, until it expires.
    pub(crate) fn probe_milli(&self, now: Time) -> Option<i64> {
        self.probe.as_ref().filter(|probe| now < probe.until).map(|probe| probe.milli)
    }

    /// Our last scores for this moment, by fingerprint.
    pub(crate) fn last_scores(&self, moment: Moment) -> BTreeMap<u64, Score> {
        let ours = self.last.iter().filter(|((at, _), _)| *at == moment);
        ours.map(|((_, fingerprint), score)| (*fingerprint, score.clone())).collect()
    }
}

/// A probe value that is not a finite number in range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("score {value}: must be a finite number between -1e12 and 1e12, higher is better")]
pub struct InvalidProbe {
    /// The rejected value.
    pub value: f64,
}

/// The largest magnitude of a probe value: its thousandths are exact in a float and far from the limits of an i64.
const PROBE_MAX: f64 = 1e12;

/// A peer that claims more than 10^12 requests per second is wrong; the limit keeps weighted sums within 128 bits.
const RATE_MILLI_MAX: u64 = 1_000_000_000_000_000;

/// The longest round trip or fsync time accepted, one hour; sums of such spans stay within 64 bits.
const SPAN_MAX: Span = Span::from_ms(3_600_000);

/// The number of last scores kept, over both moments. Two oracles are in use, but `/v1/scores` may query all, and
/// run-time changes would add up. Discarding a score costs only the hysteresis at one border.
const LAST_SCORES_MAX: usize = 32;
