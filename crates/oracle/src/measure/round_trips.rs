//! The round trip to each peer, smoothed so that a spike does not move it.
//!
//! In: samples. Out: for each peer the mean of those recent samples that lie near their median, or nothing if all are old.
//! Why not a plain mean: a single garbage collection of 300 ms would move a round trip of 10 ms by 20, and with it the
//! leader. Why not the median or the middle half: delays have a long tail on one side, so both lie below the mean that
//! requests feel, by enough to carry a score over a class border. Near the median is whatever is not wild.
//! Holds: a peer not sampled for `stale_after` has no round trip; memory is bounded by the window and the peers.
//! Not here: sending probes (`node`); which peers are voters (`Measurements`).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use pole_election::{ServerId, Span};

use crate::time::Time;

/// The last round trips to each peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoundTrips {
    stale_after: Span,
    peers: BTreeMap<ServerId, Window>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Window {
    /// When each came and how long it took, newest last.
    samples: VecDeque<(Time, Span)>,
}

impl RoundTrips {
    /// Nothing measured yet; a peer is forgotten after `stale_after` without a sample.
    #[must_use]
    pub fn new(stale_after: Span) -> Self {
        Self { stale_after, peers: BTreeMap::new() }
    }

    /// One probe came back after `round_trip`.
    pub fn record(&mut self, peer: ServerId, round_trip: Span, now: Time) {
        let window = self.peers.entry(peer).or_default();
        // After a silence the path may be another one: old samples would vouch for it falsely.
        if window.last().is_none_or(|last| now - last > self.stale_after) {
            window.samples.clear();
        }
        window.samples.push_back((now, round_trip.min(LONGEST)));
        let old = |window: &Window| window.samples.front().is_some_and(|(at, _)| now - *at > WINDOW_AGE);
        while window.samples.len() > WINDOW || (window.samples.len() > WINDOW_LEAST && old(window)) {
            window.samples.pop_front();
        }
    }

    /// The link to `peer` is gone: what was measured says nothing about the next one.
    pub fn forget(&mut self, peer: ServerId) {
        self.peers.remove(&peer);
    }

    /// The round trip to `peer`, or nothing if there is no fresh sample.
    #[must_use]
    pub fn smoothed(&self, peer: ServerId, now: Time) -> Option<Span> {
        let window = self.peers.get(&peer)?;
        (now - window.last()? <= self.stale_after).then(|| window.smoothed())
    }

    /// The slower of the last two round trips, for timeouts. It rises with the first slow sample and falls with the second
    /// fast one, or by time. The last sample counts however old it is: a timeout is wanted precisely when nothing arrives any
    /// more.
    #[must_use]
    pub fn slowest_recent(&self, peer: ServerId, now: Time) -> Option<Span> {
        let samples = &self.peers.get(&peer)?.samples;
        let (_, last) = samples.back()?;
        let recent = samples.iter().rev().take(RECENT_SAMPLES).take_while(|(at, _)| now - *at <= RECENT);
        Some(recent.map(|(_, sample)| *sample).fold(*last, Span::max))
    }

    /// Whether the last two round trips to `peer` differ by more than scheduling explains: a path that has changed, or a
    /// spike. Another sample tells which.
    #[must_use]
    pub fn is_unsettled(&self, peer: ServerId) -> bool {
        let Some(window) = self.peers.get(&peer) else { return false };
        let mut last = window.samples.iter().rev().map(|(_, sample)| *sample);
        matches!((last.next(), last.next()), (Some(a), Some(b)) if a.0.abs_diff(b.0) > SETTLED.0)
    }

    /// All fresh round trips, by peer.
    #[must_use]
    pub fn vector(&self, now: Time) -> BTreeMap<ServerId, Span> {
        self.peers.keys().filter_map(|peer| Some((*peer, self.smoothed(*peer, now)?))).collect()
    }
}

impl Window {
    fn last(&self) -> Option<Time> {
        self.samples.back().map(|(at, _)| *at)
    }

    /// The mean of the samples within half of their median, either way. Nearly half of all samples may be wild before it
    /// notices; and when a path changes for good, it turns to the new one as soon as that has the majority.
    fn smoothed(&self) -> Span {
        let mut sorted: Vec<u64> = self.samples.iter().map(|(_, sample)| sample.0).collect();
        sorted.sort_unstable();
        let Some(median) = sorted.get(sorted.len() / 2).copied() else { return Span::ZERO };
        let near = (median / 2).max(NEAR.0);
        let kept: Vec<Span> = sorted.into_iter().filter(|sample| sample.abs_diff(median) <= near).map(Span).collect();
        mean(kept.into_iter())
    }
}

fn mean(spans: impl ExactSizeIterator<Item = Span>) -> Span {
    let count = spans.len() as u64;
    // No overflow: at most WINDOW spans of at most LONGEST.
    Span(spans.map(|span| span.0).sum::<u64>().checked_div(count).unwrap_or(0))
}

/// Samples kept for each peer, at most: half a minute of heartbeats of 100 ms.
const WINDOW: usize = 256;

/// Samples kept for each peer, at least, however long ago: or heartbeats of ten seconds would leave three.
const WINDOW_LEAST: usize = 8;

/// How long a sample counts. A new route shows after half of it; a shorter window would let the jitter of a long path
/// (2 % of 170 ms) carry scores over class borders of 1 ms.
const WINDOW_AGE: Span = Span::from_ms(30_000);

/// How long, and over how many samples, a slow round trip keeps timeouts long. Longer would delay the detection of a silent
/// peer after every spike: one that was cut off for seconds and answers all that waited at once.
const RECENT: Span = Span::from_ms(3_000);
const RECENT_SAMPLES: usize = 2;

/// Two samples that differ by less are of one path.
const SETTLED: Span = Span::from_ms(50);

/// Differences below this are scheduling, not wildness, on a path that is itself this short.
const NEAR: Span = Span::from_us(200);

/// No round trip is longer than an hour; a sample that says so is a clock's mistake, and sums must not overflow.
const LONGEST: Span = Span::from_ms(3_600_000);

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: ServerId = ServerId(2);

    /// One sample a second.
    fn measured(samples: &[u64]) -> (RoundTrips, Time) {
        let mut round_trips = RoundTrips::new(Span::from_ms(5_000));
        let mut now = Time(0);
        for sample in samples {
            now = now + Span::from_ms(1_000);
            round_trips.record(PEER, Span::from_ms(*sample), now);
        }
        (round_trips, now)
    }

    #[test]
    fn seven_wild_samples_of_sixteen_do_not_move_a_round_trip() {
        let (round_trips, now) = measured(&[10, 10, 900, 10, 900, 10, 900, 10, 0, 900, 10, 0, 10, 900, 10, 10]);
        assert_eq!(round_trips.smoothed(PEER, now), Some(Span::from_ms(10)));
    }

    #[test]
    fn jitter_with_a_tail_on_one_side_reads_as_its_mean_not_its_median() {
        let (round_trips, now) = measured(&[100, 100, 100, 104, 100, 100, 100, 104]);
        assert_eq!(round_trips.smoothed(PEER, now), Some(Span::from_ms(101)));
    }

    #[test]
    fn a_new_route_shows_alone_as_soon_as_it_has_the_majority() {
        let mut samples = [10; 100];
        samples[80..].fill(70);
        let (round_trips, now) = measured(&samples);
        assert_eq!(round_trips.smoothed(PEER, now), Some(Span::from_ms(70)), "20 of the last 30 seconds");
    }

    #[test]
    fn an_old_round_trip_is_none_and_does_not_vouch_for_a_new_one() {
        let (mut round_trips, now) = measured(&[10; 16]);
        let later = now + Span::from_ms(5_001);
        assert_eq!(round_trips.smoothed(PEER, later), None);
        assert_eq!(round_trips.vector(later), BTreeMap::new());
        round_trips.record(PEER, Span::from_ms(50), later);
        assert_eq!(round_trips.smoothed(PEER, later), Some(Span::from_ms(50)));
    }

    #[test]
    fn a_forgotten_peer_has_no_round_trip() {
        let (mut round_trips, now) = measured(&[10, 14]);
        round_trips.forget(PEER);
        assert_eq!((round_trips.smoothed(PEER, now), round_trips.slowest_recent(PEER, now)), (None, None));
    }

    #[test]
    fn the_slowest_recent_round_trip_rises_at_once_and_falls_with_the_second_fast_sample_or_by_time() {
        let (mut round_trips, now) = measured(&[10; 30]);
        assert_eq!(round_trips.slowest_recent(PEER, now), Some(Span::from_ms(10)));
        let spike = now + Span::from_ms(500);
        round_trips.record(PEER, Span::from_ms(600), spike);
        assert_eq!(round_trips.smoothed(PEER, spike), Some(Span::from_ms(10)), "a spike does not move a score");
        assert_eq!(round_trips.slowest_recent(PEER, spike), Some(Span::from_ms(600)));
        round_trips.record(PEER, Span::from_ms(12), spike + Span::from_ms(1_000));
        let (before, after) = (spike + RECENT, spike + RECENT + Span(1));
        assert_eq!(round_trips.slowest_recent(PEER, before), Some(Span::from_ms(600)));
        assert_eq!(round_trips.slowest_recent(PEER, after), Some(Span::from_ms(12)), "no sample was needed for it");
        round_trips.record(PEER, Span::from_ms(11), before);
        assert_eq!(round_trips.slowest_recent(PEER, before), Some(Span::from_ms(12)), "the spike is over");
    }

    #[test]
    fn a_round_trip_is_unsettled_until_two_samples_agree() {
        let (mut round_trips, now) = measured(&[10, 12]);
        assert!(!round_trips.is_unsettled(PEER));
        let mut unsettled_after = |sample: u64| {
            round_trips.record(PEER, Span::from_ms(sample), now);
            round_trips.is_unsettled(PEER)
        };
        assert_eq!([600, 12, 11].map(&mut unsettled_after), [true, true, false], "a spike");
        assert_eq!([600, 610].map(&mut unsettled_after), [true, false], "another path");
    }

    #[test]
    fn the_last_round_trip_counts_however_old_it_is() {
        let (round_trips, now) = measured(&[10, 90]);
        assert_eq!(round_trips.slowest_recent(PEER, now + Span::from_ms(60_000)), Some(Span::from_ms(90)));
    }

    #[test]
    fn absurd_samples_do_not_overflow() {
        let mut round_trips = RoundTrips::new(Span(u64::MAX));
        (0..300).for_each(|_| round_trips.record(PEER, Span(u64::MAX), Time(u64::MAX)));
        assert_eq!(round_trips.smoothed(PEER, Time(0)), Some(LONGEST));
    }
}
