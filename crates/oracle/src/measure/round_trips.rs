//! The smoothed round trip to each peer, robust against spikes.
//!
//! It is the mean of the recent samples near their median, or None if all samples are old. In a plain mean, a single
//! garbage collection of 300 ms would move a round trip of 10 ms by 20 ms, and the leader with it. The median or the
//! middle half would be too low: delays have a long tail on one side, so both lie below the mean that requests
//! experience, by enough to carry a score across a class border.
//!
//! Invariants: a peer without a sample for `stale_after` has no round trip. Memory is bounded by the window and the
//! number of peers.
//!
//! Sending probes is in `node`; the check that a peer is a voter is in `Measurements`.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use pole_types::{ServerId, Span, Time};

/// The last round trips to each peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoundTrips {
    stale_after: Span,
    peers: BTreeMap<ServerId, Window>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Window {
    /// The time and the length of each round trip, newest last.
    samples: VecDeque<(Time, Span)>,
}

impl RoundTrips {
    /// Creates an empty set. A peer becomes stale after `stale_after` without a sample.
    #[must_use]
    pub fn new(stale_after: Span) -> Self {
        Self { stale_after, peers: BTreeMap::new() }
    }

    /// Records a probe that returned after `round_trip`.
    pub fn record(&mut self, peer: ServerId, round_trip: Span, now: Time) {
        let window = self.peers.entry(peer).or_default();
        // After a silence the path may have changed, so older samples say nothing about it.
        if window.last().is_none_or(|last| now - last > self.stale_after) {
            window.samples.clear();
        }
        window.samples.push_back((now, round_trip.min(ROUND_TRIP_MAX)));
        let old = |window: &Window| window.samples.front().is_some_and(|(at, _)| now - *at > WINDOW_AGE);
        while window.samples.len() > WINDOW || (window.samples.len() > WINDOW_MIN && old(window)) {
            window.samples.pop_front();
        }
    }

    /// Discards the samples of `peer` after its link closed: they say nothing about the next link.
    pub fn forget(&mut self, peer: ServerId) {
        self.peers.remove(&peer);
    }

    /// The round trip to `peer`, or None without a fresh sample.
    #[must_use]
    pub fn smoothed(&self, peer: ServerId, now: Time) -> Option<Span> {
        let window = self.peers.get(&peer)?;
        (now - window.last()? <= self.stale_after).then(|| window.smoothed())
    }

    /// The slower of the last two round trips, for timeouts. It rises with the first slow sample and falls with the
    /// second fast one, or with time. The last sample counts no matter how old it is: a timeout is needed precisely when
    /// nothing arrives any more.
    #[must_use]
    pub fn slowest_recent(&self, peer: ServerId, now: Time) -> Option<Span> {
        let samples = &self.peers.get(&peer)?.samples;
        let (_, last) = samples.back()?;
        let recent = samples.iter().rev().take(RECENT_SAMPLES).take_while(|(at, _)| now - *at <= RECENT);
        Some(recent.map(|(_, sample)| *sample).fold(*last, Span::max))
    }

    /// The faster of the last two round trips: a path that has become slower shows, a single spike does not. None if the
    /// last sample is stale.
    #[must_use]
    pub fn fastest_recent(&self, peer: ServerId, now: Time) -> Option<Span> {
        let window = self.peers.get(&peer)?;
        let samples = window.samples.iter().rev().take(RECENT_SAMPLES).map(|(_, sample)| *sample);
        (now - window.last()? <= self.stale_after).then(|| samples.min())?
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

    /// The mean of the samples within half of their median, in both directions. It tolerates outliers in almost half
    /// of the samples; when a path changes permanently, it follows as soon as the new path has the majority.
    fn smoothed(&self) -> Span {
        let mut sorted: Vec<u64> = self.samples.iter().map(|(_, sample)| sample.0).collect();
        sorted.sort_unstable();
        let Some(median) = sorted.get(sorted.len() / 2).copied() else { return Span::ZERO };
        let near = (median / 2).max(NEAR_MEDIAN.0);
        let kept: Vec<Span> = sorted.into_iter().filter(|sample| sample.abs_diff(median) <= near).map(Span).collect();
        mean(kept.into_iter())
    }
}

fn mean(spans: impl ExactSizeIterator<Item = Span>) -> Span {
    let count = spans.len() as u64;
    // Cannot overflow: at most WINDOW spans of at most ROUND_TRIP_MAX.
    Span(spans.map(|span| span.0).sum::<u64>().checked_div(count).unwrap_or(0))
}

/// The maximum number of samples per peer: half a minute of heartbeats of 100 ms.
const WINDOW: usize = 256;

/// The minimum number of samples kept per peer, of any age; heartbeats of ten seconds would otherwise leave three.
const WINDOW_MIN: usize = 8;

/// How long a sample counts. A new route shows after half of it. With a shorter window the jitter of a long path (2 %
/// of 170 ms) could carry scores across class borders of 1 ms.
const WINDOW_AGE: Span = Span::from_ms(30_000);

/// For how long, and over how many samples, a slow round trip keeps timeouts long. Higher values would delay the
/// detection of a silent peer after every spike, for example when a peer was cut off for seconds and then answers all
/// queued heartbeats at once.
const RECENT: Span = Span::from_ms(3_000);
const RECENT_SAMPLES: usize = 2;

/// Two samples that differ by less than this belong to the same path.
const SETTLED: Span = Span::from_ms(50);

/// On short paths, differences below this are scheduling delays rather than outliers.
const NEAR_MEDIAN: Span = Span::from_us(200);

/// No round trip is longer than an hour. A longer sample is a clock error, and sums must not overflow.
const ROUND_TRIP_MAX: Span = Span::from_ms(3_600_000);

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
    fn the_fastest_recent_round_trip_rises_with_the_second_slow_sample() {
        let (mut round_trips, now) = measured(&[10; 30]);
        let mut after = |sample: u64| {
            round_trips.record(PEER, Span::from_ms(sample), now);
            round_trips.fastest_recent(PEER, now)
        };
        assert_eq!(after(170), Some(Span::from_ms(10)), "a spike");
        assert_eq!(after(175), Some(Span::from_ms(170)), "another path");
        assert_eq!(after(11), Some(Span::from_ms(11)));
        assert_eq!(round_trips.fastest_recent(PEER, now + Span::from_ms(5_001)), None);
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
        assert_eq!(round_trips.smoothed(PEER, Time(0)), Some(ROUND_TRIP_MAX));
    }
}
