//! `recovery`: prefers the server under which the ensemble serves again soonest. Estimated time, lower is better.
//!
//! The score is the estimated time from the election of this server to its first committed write. It is computed from
//! the standings in heartbeats, the bytes that each server lacks of another's history, round trips, bandwidths and
//! disk times.
//!
//! History alone picks a server that has everything but is far from the servers that have nothing (experiment 8b of
//! the paper); a latency oracle picks one that must first pull 250 MB (experiment 8a).
//!
//! The estimate follows the steps of the agreement: a quorum promises; the leader pulls what the best of the quorum
//! has and it lacks; the followers are brought up to date in parallel, and the slowest of the quorum counts; then a
//! write is sent.
//!
//! Known only if the round trips and standings of a quorum are known, and each server that would have to send has
//! reported how much. The paper leaves the question open; this oracle is an addition.

use alloc::vec::Vec;

use pole_election::{Score, Standing};
use pole_types::{ServerId, Span};

use crate::oracle::{Assessed, InvalidScore, MICROS_MAX, Oracle, Scale, micros};
use crate::view::View;

/// Scores by the estimated recovery time, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovery;

impl Oracle for Recovery {
    fn name(&self) -> &str {
        "recovery"
    }

    fn assess(&self, view: &View, _epoch: u64) -> Option<Assessed> {
        let timeline = Timeline::estimate(view)?;
        let inputs = [
            ("promised_us", micros(timeline.promised)),
            ("pulled_us", micros(timeline.pulled)),
            ("level_us", micros(timeline.level)),
            ("lacking_bytes", i64::try_from(timeline.lacking).unwrap_or(i64::MAX)),
        ];
        Some(Assessed::new(micros(timeline.committed), &inputs))
    }

    fn validate(&self, score: &Score) -> Result<(), InvalidScore> {
        InvalidScore::check(self.name(), score, &[(0, MICROS_MAX)])
    }

    /// Positions change with every transaction.
    fn gossip_decides(&self) -> bool {
        false
    }

    fn clearly_worse(&self, _a: &Score, _b: &Score) -> bool {
        false
    }

    fn scale(&self) -> Scale {
        Scale::TIME
    }
}

/// The estimated steps of a recovery under this server, as times since its election.
struct Timeline {
    /// A quorum has promised the new epoch.
    promised: Span,
    /// The leader has everything that the quorum has.
    pulled: Span,
    /// A quorum is up to date.
    level: Span,
    /// The first write is committed.
    committed: Span,
    /// The number of bytes that the leader pulls.
    lacking: u64,
}

impl Timeline {
    fn estimate(view: &View) -> Option<Self> {
        let (me, voters) = (view.me(), view.voters());
        let followers = followers(view);
        let prefix_ids = |count: usize| followers[..count].iter().map(|follower| follower.id).chain([me]);
        let needed = (0..=followers.len()).find(|count| voters.is_quorum(prefix_ids(*count)))?;
        let (quorum, _) = followers.split_at(needed);
        let promised = quorum.last().map_or(Span::ZERO, |last| last.promised).max(view.disk_time(me));
        let source = source(view, quorum)?;
        let lacking = view.lacking(me, source)?;
        let pull = if source == me { Span::ZERO } else { view.transfer_time(source, lacking)? };
        let pulled = promised.saturating_add(pull);
        let levels = followers.iter().map(|follower| (follower, follower.level(view, source, pulled)));
        let times: Vec<_> = levels.filter_map(|(follower, at)| Some((follower, at?))).collect();
        let own = pulled.saturating_add(durable_time(view, me, lacking));
        let level =
            voters.quorum_value(times.iter().map(|(follower, at)| (follower.id, *at)).chain([(me, own)]))?.max(own);
        let acknowledged = times.iter().map(|(follower, at)| {
            let acknowledged = level.max(*at).saturating_add(follower.ack_time(view));
            (follower.id, acknowledged)
        });
        let own = level.saturating_add(view.disk_time(me));
        let committed = voters.quorum_value(acknowledged.chain([(me, own)]))?.max(own);
        Some(Self { promised, pulled, level, committed, lacking })
    }
}

struct Follower {
    id: ServerId,
    standing: Standing,
    round_trip: Span,
    /// The time until it has elected us, connected, been asked, and made its promise durable.
    promised: Span,
}

/// The servers of N' with a known standing and round trip, in the order in which they promise.
fn followers(view: &View) -> Vec<Follower> {
    let ours = chosen_at(view, view.me());
    let known = view.standings().iter().filter(|(id, _)| **id != view.me());
    let mut followers: Vec<_> = known
        .filter_map(|(id, standing)| {
            view.round_trips().get(id)?;
            let round_trip = view.round_trip_between(view.me(), *id)?;
            let connected = Span(chosen_at(view, *id).saturating_add(half(round_trip)).0.saturating_sub(ours.0));
            let promised = connected.saturating_add(round_trip).saturating_add(view.disk_time(*id));
            Some(Follower { id: *id, standing: *standing, round_trip, promised })
        })
        .collect();
    followers.sort_by_key(|follower| follower.promised);
    followers
}

/// The time at which a server knows that this one is elected: it has received a proposal from every server, and from a
/// quorum that it chose this one too. A server begins when it notices the loss of the last leader, or receives from
/// one that has begun. A round trip between two others that neither has reported counts as zero.
fn chosen_at(view: &View, id: ServerId) -> Span {
    let me = view.me();
    let one_way = |a: ServerId, b: ServerId| half(view.round_trip_between(a, b).unwrap_or_default());
    let begins = |id: ServerId| {
        let starts = view.live().iter().map(|other| view.leader_loss_delay(*other).saturating_add(one_way(*other, id)));
        starts.min().unwrap_or_default()
    };
    let proposed =
        view.live().iter().map(|other| begins(*other).saturating_add(one_way(*other, id))).max().unwrap_or_default();
    let votes = view.live().iter().map(|other| {
        let chooses = begins(*other).max(begins(me).saturating_add(one_way(me, *other)));
        (*other, chooses.saturating_add(one_way(*other, id)))
    });
    proposed.max(view.voters().quorum_value(votes).unwrap_or_default())
}

fn half(span: Span) -> Span {
    Span(span.0 / 2)
}

/// The server whose history is continued: the best of the quorum, or this one if none is better. Among equals it is
/// the first to promise.
fn source(view: &View, quorum: &[Follower]) -> Option<ServerId> {
    let own = view.standings().get(&view.me())?.history();
    let best = quorum.iter().rev().max_by_key(|follower| follower.standing.history());
    let better = best.filter(|best| best.standing.history() > own).map(|best| best.id);
    Some(better.or_else(|| likely_ahead(view, quorum)).unwrap_or(view.me()))
}

/// Returns a follower that was up to date with us and probably has more by now: the last writes of the lost leader
/// were in flight and reached the servers nearer to it first. A follower counts as up to date if what it lacks,
/// according to its last report, fits into a round trip.
fn likely_ahead(view: &View, quorum: &[Follower]) -> Option<ServerId> {
    let level = quorum.iter().filter(|follower| {
        let time = view.lacking(follower.id, view.me()).and_then(|bytes| view.transfer_time(follower.id, bytes));
        time.is_some_and(|time| time <= follower.round_trip.saturating_mul(2))
    });
    let nearest = level.min_by_key(|follower| view.leader_loss_delay(follower.id))?;
    let before_us = view.leader_loss_delay(view.me()).0.saturating_sub(view.leader_loss_delay(nearest.id).0);
    let writes_milli: u64 = view.rates_milli().values().sum();
    // In thousandths of a write; it suffices that there probably was one.
    let in_flight = u128::from(before_us) * u128::from(writes_milli) / 1_000_000_000;
    (in_flight >= 300).then_some(nearest.id)
}

impl Follower {
    /// The time at which it is up to date, if what it lacks is sent as soon as the leader has it and the follower has
    /// promised.
    fn level(&self, view: &View, source: ServerId, pulled: Span) -> Option<Span> {
        let lacking = view.lacking(self.id, source)?;
        let there = pulled.max(self.promised).saturating_add(view.transfer_time(self.id, lacking)?);
        Some(there.saturating_add(durable_time(view, self.id, lacking)))
    }

    /// The time to acknowledge a write.
    fn ack_time(&self, view: &View) -> Span {
        self.round_trip.saturating_add(view.disk_time(self.id))
    }
}

/// The disk time to write the received data, if any, and then the epoch.
fn durable_time(view: &View, id: ServerId, received: u64) -> Span {
    let disk = view.disk_time(id);
    if received > 0 { disk.saturating_mul(2) } else { disk }
}
