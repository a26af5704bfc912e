//! What an oracle sees: N, N', RTT_i, F_i and the positions, at one instant, for one moment.
//!
//! In: the measurements, the leader, the suspected. Out: an immutable view.
//! Why apart from `Measurements`: an oracle that sees only this cannot depend on a clock or on the order of messages,
//! and a user's own oracle is tested with the same view as ours.
//! Holds: this server is always in its own N'; rates of servers left out of N' are with those who inherit their clients.
//! Not here: scores (`oracles`).
//! Source: section 3. Ours to add: who inherits the clients of a server left out, and that this fades as they move.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use pole_election::{Score, ServerId, Span, Standing, Voters};

use crate::measure::{Heard, Measurements, decayed};
use crate::time::Time;

/// The moment that a score is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moment {
    /// The current leader will be gone: it is left out of N'.
    AfterCrash,
    /// The current leader stays as a follower: it is kept in N'.
    BeforeResignation,
}

/// The state of the ensemble as one server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    me: ServerId,
    voters: Voters,
    moment: Moment,
    live: BTreeSet<ServerId>,
    round_trips: BTreeMap<ServerId, Span>,
    /// What each of the others last measured.
    hearsay: BTreeMap<ServerId, BTreeMap<ServerId, Span>>,
    /// What the leader that is gone last measured.
    gone: BTreeMap<ServerId, Span>,
    rates: BTreeMap<ServerId, u64>,
    standings: BTreeMap<ServerId, Standing>,
    /// By who has it, then by who lacks it.
    lacking: BTreeMap<ServerId, BTreeMap<ServerId, u64>>,
    disk: BTreeMap<ServerId, Span>,
    bandwidths: BTreeMap<ServerId, u64>,
    probe_milli: Option<i64>,
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
        let live: BTreeSet<ServerId> = measured.voters.iter().filter(|id| *id == me || !gone(*id)).collect();
        let mut standings: BTreeMap<_, _> =
            heard_of(measured, &live).map(|(id, heard)| (id, heard.report.standing)).collect();
        standings.insert(me, own);
        let mut lacking: BTreeMap<_, _> =
            heard_of(measured, &live).map(|(id, heard)| (id, heard.report.lacking.clone())).collect();
        lacking.insert(me, measured.lacking.clone());
        let mut disk: BTreeMap<_, _> =
            heard_of(measured, &live).map(|(id, heard)| (id, heard.report.fsync_p50)).collect();
        disk.insert(me, measured.disk.percentile(50));
        let hearsay = heard_of(measured, &live).map(|(id, heard)| (id, heard.report.round_trips.clone())).collect();
        let last_word = leader.filter(|leader| gone(*leader)).and_then(|leader| measured.heard.get(&leader));
        let mut round_trips = measured.round_trips.vector(now);
        round_trips.retain(|id, _| live.contains(id));
        round_trips.insert(me, Span::ZERO);
        Self {
            me,
            moment,
            bandwidths: bandwidths(measured, &round_trips),
            rates: rates(measured, now, &live),
            voters: measured.voters.clone(),
            live,
            round_trips,
            hearsay,
            gone: last_word.map(|heard| heard.report.round_trips.clone()).unwrap_or_default(),
            standings,
            lacking,
            disk,
            probe_milli: measured.probe_milli(now),
            previous: measured.last_scores(moment),
        }
    }

    /// The server whose view it is, and whom the score is for.
    #[must_use]
    pub fn me(&self) -> ServerId {
        self.me
    }

    /// N: all voters, alive or not. Quorums are counted in it.
    #[must_use]
    pub fn voters(&self) -> &Voters {
        &self.voters
    }

    /// The moment that the score is for.
    #[must_use]
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// N': the servers that would be there if this one led, itself included.
    #[must_use]
    pub fn live(&self) -> &BTreeSet<ServerId> {
        &self.live
    }

    /// RTT_i: the fresh round trips to the servers of N', its own entry zero.
    #[must_use]
    pub fn round_trips(&self) -> &BTreeMap<ServerId, Span> {
        &self.round_trips
    }

    /// The round trip to a server of N', measured or not: else what it last measured to us, else as far as the farthest
    /// that we did measure. Not to have measured someone must be no advantage.
    #[must_use]
    pub fn distance(&self, id: ServerId) -> Span {
        let farthest = || self.round_trips.values().copied().max().unwrap_or(Span::ZERO);
        let theirs = || self.hearsay.get(&id)?.get(&self.me);
        self.round_trips.get(&id).or_else(theirs).copied().unwrap_or_else(farthest)
    }

    /// The round trip between two servers of N', by the word of both if both have measured it: the mean of the two errs
    /// less than either.
    #[must_use]
    pub fn apart(&self, a: ServerId, b: ServerId) -> Option<Span> {
        let measured = |id: ServerId, other: ServerId| {
            let of = if id == self.me { Some(&self.round_trips) } else { self.hearsay.get(&id) };
            of?.get(&other).copied()
        };
        match (measured(a, b), measured(b, a)) {
            _ if a == b => Some(Span::ZERO),
            (Some(there), Some(back)) => Some(Span(there.0.midpoint(back.0))),
            (there, back) => there.or(back),
        }
    }

    /// How long a server takes to hear that the leader is gone: half of what the leader last measured to it, no time if
    /// nobody knows.
    #[must_use]
    pub fn hears_of_the_end(&self, id: ServerId) -> Span {
        Span(self.gone.get(&id).map_or(0, |round_trip| round_trip.0 / 2))
    }

    /// Whether a quorum of round trips is measured: below that a vector says nothing, and an isolated server would look
    /// best.
    #[must_use]
    pub fn measured_quorum(&self) -> bool {
        self.round_trips.len() >= self.voters.quorum()
    }

    /// F_i: the write requests of the clients of each server of N', in thousandths a second, with the clients inherited.
    #[must_use]
    pub fn rates_milli(&self) -> &BTreeMap<ServerId, u64> {
        &self.rates
    }

    /// Where each server of N' stands in the history, as far as it is known.
    #[must_use]
    pub fn standings(&self) -> &BTreeMap<ServerId, Standing> {
        &self.standings
    }

    /// The usual time of an fsync at a server of N'; no time if it never said.
    #[must_use]
    pub fn disk_time(&self, id: ServerId) -> Span {
        self.disk.get(&id).copied().unwrap_or(Span::ZERO)
    }

    /// How long a transfer of so many bytes between this server and `id` takes: round trip + bytes / bandwidth, both
    /// measured (before the first bulk transfer the bandwidth is assumed). Nothing if `id` is out of reach.
    #[must_use]
    pub fn transfer_time(&self, id: ServerId, bytes: u64) -> Option<Span> {
        let speed = self.bandwidths.get(&id)?;
        let round_trip = self.apart(self.me, id)?;
        let flow = u128::from(bytes) * 1_000_000_000 / u128::from((*speed).max(1));
        Some(round_trip.saturating_add(Span(u64::try_from(flow).unwrap_or(u64::MAX))))
    }

    /// How many bytes bring `id` level with `source`, by the word of the source; nothing if it has not said.
    #[must_use]
    pub fn lacking(&self, id: ServerId, source: ServerId) -> Option<u64> {
        if id == source { Some(0) } else { self.lacking.get(&source)?.get(&id).copied() }
    }

    /// The number of an external probe, in thousandths, higher is better; nothing if there is none or it is too old.
    #[must_use]
    pub fn probe_milli(&self) -> Option<i64> {
        self.probe_milli
    }

    /// This server's last score at the same moment under the oracle of this fingerprint: for hysteresis, and only for
    /// that. The order on scores stays a function of the messages, since a server's own past shapes only its own score.
    #[must_use]
    pub fn previous(&self, fingerprint: u64) -> Option<&Score> {
        self.previous.get(&fingerprint)
    }
}

fn heard_of<'a>(
    measured: &'a Measurements,
    live: &'a BTreeSet<ServerId>,
) -> impl Iterator<Item = (ServerId, &'a Heard)> + 'a {
    measured.heard.iter().filter(|(id, _)| live.contains(id)).map(|(id, heard)| (*id, heard))
}

/// Bytes a second to each server in reach: as measured here or there, else the assumed line or the assumed window a
/// round trip.
fn bandwidths(measured: &Measurements, round_trips: &BTreeMap<ServerId, Span>) -> BTreeMap<ServerId, u64> {
    let (line, window) = (measured.config.assumed_bytes_per_s, measured.config.assumed_window_bytes);
    let assumed = |round_trip: Span| {
        let windows = u128::from(window) * 1_000_000_000;
        windows
            .checked_div(u128::from(round_trip.0))
            .map_or(line, |speed| line.min(u64::try_from(speed).unwrap_or(line)))
    };
    let theirs = |id| measured.heard.get(&id)?.report.bandwidths.get(&measured.me).copied();
    let known = |id| match (measured.bandwidths.bytes_per_s(id), theirs(id)) {
        (Some(there), Some(back)) => Some(there.midpoint(back)),
        (there, back) => there.or(back),
    };
    let speed = |id, round_trip| known(id).unwrap_or_else(|| assumed(round_trip));
    round_trips.iter().map(|(id, round_trip)| (*id, speed(*id, *round_trip))).collect()
}

/// The rates of the live servers, and on top those of the servers left out, in equal parts with the nearest.
fn rates(measured: &Measurements, now: Time, live: &BTreeSet<ServerId>) -> BTreeMap<ServerId, u64> {
    let rate =
        |id: ServerId| if id == measured.me { measured.own_rate_milli(now) } else { heard_rate(measured, now, id) };
    let mut rates: BTreeMap<ServerId, u64> = live.iter().map(|id| (*id, rate(*id))).collect();
    for left_out in measured.voters.iter().filter(|id| !live.contains(id)) {
        let heirs = heirs(measured, now, left_out, live);
        let share = rate(left_out) / heirs.len().max(1) as u64;
        for heir in heirs {
            *rates.entry(heir).or_default() += share;
        }
    }
    rates
}

/// The rate that a peer last reported. Once its reports stop, its clients move to others, whose measured rates rise
/// with the same half-life with which this one falls: nobody is counted twice for long.
fn heard_rate(measured: &Measurements, now: Time, id: ServerId) -> u64 {
    let Some(heard) = measured.heard.get(&id) else { return 0 };
    let silence = Span((now - heard.at).0.saturating_sub(measured.config.stale_after().0));
    decayed(heard.report.rate_milli, silence, measured.config.half_life)
}

/// The live servers nearest to one left out, where its clients will go. Near as *it* measured before it went; where it
/// did not, as the others measured it. Two servers of one site differ by noise, hence the tolerance. If nobody knows
/// how far it was, all are equally near.
fn heirs(measured: &Measurements, now: Time, left_out: ServerId, live: &BTreeSet<ServerId>) -> Vec<ServerId> {
    let own_word = |id: &ServerId| measured.heard.get(&left_out)?.report.round_trips.get(id).copied();
    let others_word = |id: &ServerId| match *id == measured.me {
        true => measured.round_trips.smoothed(left_out, now),
        false => measured.heard.get(id)?.report.round_trips.get(&left_out).copied(),
    };
    let distances: Vec<(ServerId, Span)> =
        live.iter().filter_map(|id| Some((*id, own_word(id).or_else(|| others_word(id))?))).collect();
    let Some(nearest) = distances.iter().map(|(_, distance)| *distance).min() else {
        return live.iter().copied().collect();
    };
    let within = nearest.saturating_add(Span(nearest.0 / 10).max(SAME_SITE));
    distances.into_iter().filter(|(_, distance)| *distance <= within).map(|(id, _)| id).collect()
}

/// Round trips that differ by less are of one site: scheduling alone makes such differences.
const SAME_SITE: Span = Span::from_us(500);
