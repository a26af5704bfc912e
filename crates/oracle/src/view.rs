//! The input of an oracle: N, N', RTT_i, F_i and the positions in the history, at one point in time.
//!
//! A view is built from the measurements, the leader and the suspected servers, and does not change. It is separate
//! from `Measurements` so that an oracle cannot depend on a clock or on the order of messages, and so that custom
//! oracles can be tested with the same view as the built-in ones.
//!
//! Invariants: a server is always in its own N'. The request rates of servers excluded from N' are added to the
//! servers to which their clients will fail over. The paper defines N'; the failover of clients, and its decay as they
//! move, are additions.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use pole_election::{Score, Standing};
use pole_types::{ServerId, Span, Time, Voters};

use crate::measure::{Measurements, ReceivedReport, decayed};

/// The situation for which a score is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// The current leader has failed: it is excluded from N'.
    AfterCrash,
    /// The current leader stays as a follower: it remains in N'.
    BeforeResignation,
}

/// The state of the ensemble from the point of view of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    me: ServerId,
    voters: Voters,
    moment: Moment,
    live: BTreeSet<ServerId>,
    /// N' and the live observers.
    serving: BTreeSet<ServerId>,
    round_trips: BTreeMap<ServerId, Span>,
    /// The round trips that each of the other servers last reported.
    peer_round_trips: BTreeMap<ServerId, BTreeMap<ServerId, Span>>,
    /// The round trips that the lost leader last reported.
    lost_leader_round_trips: BTreeMap<ServerId, Span>,
    rates: BTreeMap<ServerId, u64>,
    /// The part of the rates of observers that counts at this server, because it is the nearest voter.
    observed_rate: u64,
    standings: BTreeMap<ServerId, Standing>,
    /// By the server that has the data, then by the server that lacks it.
    lacking: BTreeMap<ServerId, BTreeMap<ServerId, u64>>,
    disk: BTreeMap<ServerId, Span>,
    bandwidths: BTreeMap<ServerId, u64>,
    probe_milli: Option<i64>,
    direct_acks: Option<Span>,
    previous: BTreeMap<u64, Score>,
}

impl View {
    pub(crate) fn new(
        measured: &Measurements,
        now: Time,
        leader: Option<ServerId>,
        suspected: &BTreeSet<ServerId>,
        moment: Moment,
        own: Standing,
    ) -> Self {
        let gone = |id: ServerId| suspected.contains(&id) || (moment == Moment::AfterCrash && leader == Some(id));
        let me = measured.me;
        let members = &measured.members;
        let live: BTreeSet<ServerId> = members.voters().iter().filter(|id| *id == me || !gone(*id)).collect();
        let observers: BTreeSet<ServerId> =
            members.observers().iter().copied().filter(|id| *id == me || !gone(*id)).collect();
        let serving: BTreeSet<ServerId> = live.union(&observers).copied().collect();
        let mut standings: BTreeMap<_, _> =
            live_reports(measured, &live).map(|(id, received)| (id, received.report.standing)).collect();
        standings.insert(me, own);
        let mut lacking: BTreeMap<_, _> =
            live_reports(measured, &live).map(|(id, received)| (id, received.report.lacking.clone())).collect();
        lacking.insert(me, measured.lacking.clone());
        let mut disk: BTreeMap<_, _> =
            live_reports(measured, &live).map(|(id, received)| (id, received.report.fsync_p50)).collect();
        disk.insert(me, measured.disk.percentile(50));
        let peer_round_trips =
            live_reports(measured, &serving).map(|(id, received)| (id, received.report.round_trips.clone())).collect();
        let leader_report = leader.filter(|leader| gone(*leader)).and_then(|leader| measured.reports.get(&leader));
        let mut round_trips = measured.round_trips.vector(now);
        round_trips.retain(|id, _| serving.contains(id));
        round_trips.insert(me, Span::ZERO);
        let rates = rates(measured, now, &serving);
        Self {
            me,
            moment,
            bandwidths: bandwidths(measured, &round_trips),
            observed_rate: observed_rate(measured, now, &rates, &observers, &live),
            rates,
            voters: members.voters().clone(),
            live,
            serving,
            round_trips,
            peer_round_trips,
            lost_leader_round_trips: leader_report
                .map(|received| received.report.round_trips.clone())
                .unwrap_or_default(),
            standings,
            lacking,
            disk,
            probe_milli: measured.probe_milli(now),
            direct_acks: measured.config.direct_acks,
            previous: measured.last_scores(moment),
        }
    }

    /// The server that this view belongs to and whose score is computed.
    #[must_use]
    pub fn me(&self) -> ServerId {
        self.me
    }

    /// N: all voters, alive or not. It determines the quorum.
    #[must_use]
    pub fn voters(&self) -> &Voters {
        &self.voters
    }

    /// The situation for which the score is computed.
    #[must_use]
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// N': the servers that would take part if this one led, including itself.
    #[must_use]
    pub fn live(&self) -> &BTreeSet<ServerId> {
        &self.live
    }

    /// The servers whose clients would wait for this one if it led: N' and the live observers.
    #[must_use]
    pub fn serving(&self) -> &BTreeSet<ServerId> {
        &self.serving
    }

    /// RTT_i: the fresh round trips to the servers of N' and to observers, zero for this server.
    #[must_use]
    pub fn round_trips(&self) -> &BTreeMap<ServerId, Span> {
        &self.round_trips
    }

    /// The round trip to a server of N' or an observer. If it is not measured, it is what that server last measured to us, or else
    /// the longest round trip measured by us. A missing measurement must not be an advantage.
    #[must_use]
    pub fn distance(&self, id: ServerId) -> Span {
        let farthest = || self.round_trips.values().copied().max().unwrap_or(Span::ZERO);
        let theirs = || self.peer_round_trips.get(&id)?.get(&self.me);
        self.round_trips.get(&id).or_else(theirs).copied().unwrap_or_else(farthest)
    }

    /// The round trip between two servers of N'. If both have measured it, it is the mean, which has a smaller error
    /// than either.
    #[must_use]
    pub fn round_trip_between(&self, a: ServerId, b: ServerId) -> Option<Span> {
        let measured = |id: ServerId, other: ServerId| {
            let of = if id == self.me { Some(&self.round_trips) } else { self.peer_round_trips.get(&id) };
            of?.get(&other).copied()
        };
        match (measured(a, b), measured(b, a)) {
            _ if a == b => Some(Span::ZERO),
            (Some(there), Some(back)) => Some(Span(there.0.midpoint(back.0))),
            (there, back) => there.or(back),
        }
    }

    /// The time after which a server notices that the leader is lost: half of the round trip that the leader last
    /// measured to it, or zero if unknown.
    #[must_use]
    pub fn leader_loss_delay(&self, id: ServerId) -> Span {
        Span(self.lost_leader_round_trips.get(&id).map_or(0, |round_trip| round_trip.0 / 2))
    }

    /// Whether the round trips of a quorum are measured. With fewer, an isolated server would look best.
    #[must_use]
    pub fn measured_quorum(&self) -> bool {
        self.voters.is_quorum(self.round_trips.keys().copied())
    }

    /// F_i: the write requests of the clients of each server of N' and of each observer, in thousandths per second,
    /// including clients that will fail over to it.
    #[must_use]
    pub fn rates_milli(&self) -> &BTreeMap<ServerId, u64> {
        &self.rates
    }

    /// The write requests that have this server as their nearest voter: those of its own clients, and its part of those of
    /// observers, in thousandths per second.
    #[must_use]
    pub fn near_rate_milli(&self) -> u64 {
        self.rates.get(&self.me).copied().unwrap_or(0).saturating_add(self.observed_rate)
    }

    /// The position of each server of N' in the history, as far as known.
    #[must_use]
    pub fn standings(&self) -> &BTreeMap<ServerId, Standing> {
        &self.standings
    }

    /// The median fsync time of a server of N', or zero if it never reported one.
    #[must_use]
    pub fn disk_time(&self, id: ServerId) -> Span {
        self.disk.get(&id).copied().unwrap_or(Span::ZERO)
    }

    /// The time to transfer this many bytes between this server and `id`: round trip + bytes / bandwidth, both
    /// measured (before the first bulk transfer the bandwidth is assumed). None if `id` is not reachable.
    #[must_use]
    pub fn transfer_time(&self, id: ServerId, bytes: u64) -> Option<Span> {
        let speed = self.bandwidths.get(&id)?;
        let round_trip = self.round_trip_between(self.me, id)?;
        let flow = u128::from(bytes) * 1_000_000_000 / u128::from((*speed).max(1));
        Some(round_trip.saturating_add(Span(u64::try_from(flow).unwrap_or(u64::MAX))))
    }

    /// The number of bytes that bring `id` up to date with `source`, as reported by the source, or None if it has not.
    #[must_use]
    pub fn lacking(&self, id: ServerId, source: ServerId) -> Option<u64> {
        if id == source { Some(0) } else { self.lacking.get(&source)?.get(&id).copied() }
    }

    /// The value of an external probe in thousandths, higher is better; None if there is none or it has expired.
    #[must_use]
    pub fn probe_milli(&self) -> Option<i64> {
        self.probe_milli
    }

    /// What a follower's clients must gain before the leader has acknowledgements sent to it directly; `None`: it never
    /// has.
    #[must_use]
    pub fn direct_acks(&self) -> Option<Span> {
        self.direct_acks
    }

    /// The same view with or without direct acknowledgements.
    #[must_use]
    pub fn with_direct_acks(mut self, margin: Option<Span>) -> Self {
        self.direct_acks = margin;
        self
    }

    /// The same view with another rate of a server of N' or an observer.
    #[must_use]
    pub fn with_rate(mut self, id: ServerId, milli: u64) -> Self {
        if self.serving.contains(&id) {
            self.rates.insert(id, milli);
        }
        self
    }

    /// The same view with another round trip between two servers, in both directions.
    #[must_use]
    pub fn with_round_trip(&self, a: ServerId, b: ServerId, round_trip: Span) -> Self {
        let mut view = self.clone();
        for (id, other) in [(a, b), (b, a)] {
            let of = if id == view.me { Some(&mut view.round_trips) } else { view.peer_round_trips.get_mut(&id) };
            if let Some(measured) = of.and_then(|of| of.get_mut(&other)) {
                *measured = round_trip;
            }
        }
        view
    }

    /// This server's last score in the same situation under the oracle with this fingerprint. Use it only for
    /// hysteresis: a server's own past may affect its own score, but the order on scores stays a function of the
    /// messages.
    #[must_use]
    pub fn previous(&self, fingerprint: u64) -> Option<&Score> {
        self.previous.get(&fingerprint)
    }
}

fn live_reports<'a>(
    measured: &'a Measurements,
    live: &'a BTreeSet<ServerId>,
) -> impl Iterator<Item = (ServerId, &'a ReceivedReport)> + 'a {
    measured.reports.iter().filter(|(id, _)| live.contains(id)).map(|(id, received)| (*id, received))
}

/// Bytes per second to each reachable server: as measured by either side, otherwise the assumed line rate, limited to
/// one assumed window per round trip.
fn bandwidths(measured: &Measurements, round_trips: &BTreeMap<ServerId, Span>) -> BTreeMap<ServerId, u64> {
    let (line, window) = (measured.config.assumed_bytes_per_s, measured.config.assumed_window_bytes);
    let assumed = |round_trip: Span| {
        let windows = u128::from(window) * 1_000_000_000;
        windows
            .checked_div(u128::from(round_trip.0))
            .map_or(line, |speed| line.min(u64::try_from(speed).unwrap_or(line)))
    };
    let theirs = |id| measured.reports.get(&id)?.report.bandwidths.get(&measured.me).copied();
    let known = |id| match (measured.bandwidths.bytes_per_s(id), theirs(id)) {
        (Some(there), Some(back)) => Some(there.midpoint(back)),
        (there, back) => there.or(back),
    };
    let speed = |id, round_trip| known(id).unwrap_or_else(|| assumed(round_trip));
    round_trips.iter().map(|(id, round_trip)| (*id, speed(*id, *round_trip))).collect()
}

/// The rates of the serving servers, plus those of the excluded servers in equal parts at the nearest serving ones.
fn rates(measured: &Measurements, now: Time, serving: &BTreeSet<ServerId>) -> BTreeMap<ServerId, u64> {
    let rate =
        |id: ServerId| if id == measured.me { measured.own_rate_milli(now) } else { reported_rate(measured, now, id) };
    let mut rates: BTreeMap<ServerId, u64> = serving.iter().map(|id| (*id, rate(*id))).collect();
    for excluded in measured.members.iter().filter(|id| !serving.contains(id)) {
        let targets = nearest(measured, now, excluded, serving);
        let share = rate(excluded) / targets.len().max(1) as u64;
        for target in targets {
            *rates.entry(target).or_default() += share;
        }
    }
    rates
}

/// The part of the rates of observers that counts at this server: each observer's in equal parts at its nearest voters.
fn observed_rate(
    measured: &Measurements,
    now: Time,
    rates: &BTreeMap<ServerId, u64>,
    observers: &BTreeSet<ServerId>,
    live: &BTreeSet<ServerId>,
) -> u64 {
    let part = |observer: &ServerId| {
        let nearest = nearest(measured, now, *observer, live);
        let rate = rates.get(observer).copied().unwrap_or(0);
        if nearest.contains(&measured.me) { rate / nearest.len() as u64 } else { 0 }
    };
    observers.iter().map(part).fold(0, u64::saturating_add)
}

/// The rate that a peer last reported. When its reports stop, its clients move to other servers, whose measured rates
/// rise with the same half-life with which this one decays, so no client is counted twice for long.
fn reported_rate(measured: &Measurements, now: Time, id: ServerId) -> u64 {
    let Some(received) = measured.reports.get(&id) else { return 0 };
    let overdue = Span((now - received.at).0.saturating_sub(measured.config.stale_after().0));
    decayed(received.report.rate_milli, overdue, measured.config.half_life)
}

/// Those of `servers` that are nearest to `from`; the clients of a server that fails go there. Distances are those that
/// `from` measured itself or, if missing, those that the others measured to it. Two servers of one site differ by noise,
/// hence the tolerance. Without any distance, all are equally near.
fn nearest(measured: &Measurements, now: Time, from: ServerId, servers: &BTreeSet<ServerId>) -> Vec<ServerId> {
    let own_measurement = |id: &ServerId| measured.reports.get(&from)?.report.round_trips.get(id).copied();
    let peer_measurement = |id: &ServerId| match *id == measured.me {
        true => measured.round_trips.smoothed(from, now),
        false => measured.reports.get(id)?.report.round_trips.get(&from).copied(),
    };
    let distances: Vec<(ServerId, Span)> =
        servers.iter().filter_map(|id| Some((*id, own_measurement(id).or_else(|| peer_measurement(id))?))).collect();
    let Some(nearest) = distances.iter().map(|(_, distance)| *distance).min() else {
        return servers.iter().copied().collect();
    };
    let within = nearest.saturating_add(Span(nearest.0 / 10).max(SAME_SITE));
    distances.into_iter().filter(|(_, distance)| *distance <= within).map(|(id, _)| id).collect()
}

/// Round trips that differ by less belong to one site: scheduling alone causes such differences.
const SAME_SITE: Span = Span::from_us(500);
