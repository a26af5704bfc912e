//! `recovery`: the server under which the ensemble serves again soonest leads. Estimated time, lower is better.
//!
//! In: the standings of heartbeats, what each server lacks of another's history, round trips, bandwidths, disks.
//! Out: how long from the choice of this server to its first committed write.
//! Why: history alone picks a server that has everything but is far from those who have nothing (experiment 8b); a
//! latency oracle picks one that must first pull 250 MB (experiment 8a).
//! How: it goes through what the agreement will do. A quorum promises; the leader pulls what the best of it has and it
//! lacks; each follower is brought level beside the others, and the quorum's slowest counts; then a write goes out.
//! Holds: known only if a quorum's round trips and standings are, and whoever would have to send has said how much.
//! Source: ours; the paper leaves the question open (section 5).

use alloc::vec::Vec;

use pole_election::{Score, ServerId, Span, Standing};

use crate::oracle::{Assessed, InvalidScore, MICROS_MAX, Oracle, Scale, micros};
use crate::view::View;

/// Scores by the estimated time to recover, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovery;

impl Oracle for Recovery {
    fn name(&self) -> &str {
        "recovery"
    }

    fn assess(&self, view: &View, _epoch: u64) -> Option<Assessed> {
        let course = Course::of(view)?;
        let inputs = [
            ("promised_us", micros(course.promised)),
            ("pulled_us", micros(course.pulled)),
            ("level_us", micros(course.level)),
            ("lacking_bytes", i64::try_from(course.lacking).unwrap_or(i64::MAX)),
        ];
        Some(Assessed::new(micros(course.committed), &inputs))
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

/// What happens if this server is chosen, and when, from its choice on.
struct Course {
    /// A quorum has promised its epoch.
    promised: Span,
    /// It has all that the quorum has.
    pulled: Span,
    /// A quorum is in step.
    level: Span,
    /// The first write is committed.
    committed: Span,
    /// What it pulls, in bytes.
    lacking: u64,
}

impl Course {
    fn of(view: &View) -> Option<Self> {
        let (me, needed) = (view.me(), view.voters().quorum() - 1);
        let followers = followers(view);
        let promised = nth(followers.iter().map(|follower| follower.promised), needed)?.max(view.disk_time(me));
        let source = source(view, &followers[..needed])?;
        let lacking = view.lacking(me, source)?;
        let pull = if source == me { Span::ZERO } else { view.transfer_time(source, lacking)? };
        let pulled = promised.saturating_add(pull);
        let levels = followers.iter().map(|follower| (follower, follower.level(view, source, pulled)));
        let times: Vec<_> = levels.filter_map(|(follower, at)| Some((follower, at?))).collect();
        let own = pulled.saturating_add(made_durable(view, me, lacking));
        let level = nth(times.iter().map(|(_, at)| *at), needed)?.max(own);
        let acknowledged =
            times.iter().map(|(follower, at)| level.max(*at).saturating_add(follower.acknowledges(view)));
        let committed = nth(acknowledged, needed)?.max(level.saturating_add(view.disk_time(me)));
        Some(Self { promised, pulled, level, committed, lacking })
    }
}

struct Follower {
    id: ServerId,
    standing: Standing,
    round_trip: Span,
    /// It chooses us and greets us, is asked, and makes its promise durable.
    promised: Span,
}

/// The servers of N' whose standing and round trip we know, those first who promise first.
fn followers(view: &View) -> Vec<Follower> {
    let ours = chosen_by(view, view.me());
    let known = view.standings().iter().filter(|(id, _)| **id != view.me());
    let mut followers: Vec<_> = known
        .filter_map(|(id, standing)| {
            view.round_trips().get(id)?;
            let round_trip = view.apart(view.me(), *id)?;
            let greeted = Span(chosen_by(view, *id).saturating_add(half(round_trip)).0.saturating_sub(ours.0));
            let promised = greeted.saturating_add(round_trip).saturating_add(view.disk_time(*id));
            Some(Follower { id: *id, standing: *standing, round_trip, promised })
        })
        .collect();
    followers.sort_by_key(|follower| follower.promised);
    followers
}

/// When a server knows that this one is chosen: it has heard everyone, and of a quorum that it chose so too. Everyone
/// begins when it hears of the end of the last leader, or of one who has begun. What two others measured of each other
/// and did not tell counts for nothing.
fn chosen_by(view: &View, id: ServerId) -> Span {
    let me = view.me();
    let way = |a: ServerId, b: ServerId| half(view.apart(a, b).unwrap_or_default());
    let begins = |id: ServerId| {
        let told = view.live().iter().map(|other| view.hears_of_the_end(*other).saturating_add(way(*other, id)));
        told.min().unwrap_or_default()
    };
    let heard =
        view.live().iter().map(|other| begins(*other).saturating_add(way(*other, id))).max().unwrap_or_default();
    let votes = view.live().iter().map(|other| {
        let chooses = begins(*other).max(begins(me).saturating_add(way(me, *other)));
        chooses.saturating_add(way(*other, id))
    });
    heard.max(nth(votes, view.voters().quorum()).unwrap_or_default())
}

fn half(span: Span) -> Span {
    Span(span.0 / 2)
}

/// Whose history is continued: the best of the quorum, ourselves if none is better, of equals the first to promise.
fn source(view: &View, quorum: &[Follower]) -> Option<ServerId> {
    let own = view.standings().get(&view.me())?.history();
    let best = quorum.iter().rev().max_by_key(|follower| follower.standing.history());
    let better = best.filter(|best| best.standing.history() > own).map(|best| best.id);
    Some(better.or_else(|| latest(view, quorum)).unwrap_or(view.me()))
}

/// Who of those that were level with us has more by now: the last writes of the leader that is gone were on their way,
/// and reached whoever was nearer to it. By what was heard of it, whoever is level lacks what fits into a round trip.
fn latest(view: &View, quorum: &[Follower]) -> Option<ServerId> {
    let level = quorum.iter().filter(|follower| {
        let time = view.lacking(follower.id, view.me()).and_then(|bytes| view.transfer_time(follower.id, bytes));
        time.is_some_and(|time| time <= follower.round_trip.saturating_mul(2))
    });
    let nearest = level.min_by_key(|follower| view.hears_of_the_end(follower.id))?;
    let before_us = view.hears_of_the_end(view.me()).0.saturating_sub(view.hears_of_the_end(nearest.id).0);
    let writes_milli: u64 = view.rates_milli().values().sum();
    // In thousandths of a write: it is enough that there was probably one.
    let on_their_way = u128::from(before_us) * u128::from(writes_milli) / 1_000_000_000;
    (on_their_way >= 300).then_some(nearest.id)
}

impl Follower {
    /// When it is in step, if what it lacks is sent as soon as the leader has it and the follower has promised.
    fn level(&self, view: &View, source: ServerId, pulled: Span) -> Option<Span> {
        let lacking = view.lacking(self.id, source)?;
        let there = pulled.max(self.promised).saturating_add(view.transfer_time(self.id, lacking)?);
        Some(there.saturating_add(made_durable(view, self.id, lacking)))
    }

    /// How long it takes to acknowledge a write.
    fn acknowledges(&self, view: &View) -> Span {
        self.round_trip.saturating_add(view.disk_time(self.id))
    }
}

/// How long a disk takes that writes what came, if anything did, and then the epoch.
fn made_durable(view: &View, id: ServerId, came: u64) -> Span {
    let disk = view.disk_time(id);
    if came > 0 { disk.saturating_mul(2) } else { disk }
}

/// The n-th smallest; no time at all if nobody is needed; nothing if there are fewer.
fn nth(times: impl Iterator<Item = Span>, n: usize) -> Option<Span> {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    match n {
        0 => Some(Span::ZERO),
        n => times.get(n - 1).copied(),
    }
}
