//! The round trip to each peer, smoothed so that a spike does not move it.
//!
//! In: samples. Out: for each peer the mean of the middle half of its last samples, or nothing if they are old.
//! Why not a plain mean or an exponential one: a single garbage collection of 300 ms would move a round trip of 10 ms
//! by 20, and with it the leader. A quarter of the samples may be wild before the middle half notices.
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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Window {
    /// Newest last.
    samples: VecDeque<Span>,
    last: Time,
}

impl RoundTrips {
    /// Nothing measured yet; a peer is forgotten after `stale_after` without a sample.
    #[must_use]
    pub fn new(stale_after: Span) -> Self {
        Self { stale_after, peers: BTreeMap::new() }
    }

    /// One probe came back after `round_trip`.
    pub fn record(&mut self, peer: ServerId, round_trip: Span, now: Time) {
        let window = self.peers.entry(peer).or_insert_with(|| Window { samples: VecDeque::new(), last: now });
        // After a silence the path may be another one: old samples would vouch for it falsely.
        if now - window.last > self.stale_after {
            window.samples.clear();
        }
        if window.samples.len() == WINDOW {
            window.samples.pop_front();
        }
        window.samples.push_back(round_trip.min(LONGEST));
        window.last = now;
    }

    /// The link to `peer` is gone: what was measured says nothing about the next one.
    pub fn forget(&mut self, peer: ServerId) {
        self.peers.remove(&peer);
    }

    /// The round trip to `peer`, or nothing if there is no fresh sample.
    #[must_use]
    pub fn smoothed(&self, peer: ServerId, now: Time) -> Option<Span> {
        let window = self.peers.get(&peer)?;
        (now - window.last <= self.stale_after).then(|| window.middle())
    }

    /// How far samples lie from the smoothed round trip, on average: for timeouts that adapt. No staleness, because a
    /// timeout is wanted precisely when nothing comes any more.
    #[must_use]
    pub fn deviation(&self, peer: ServerId) -> Option<Span> {
        let window = self.peers.get(&peer)?;
        let middle = window.middle();
        Some(mean(window.samples.iter().map(|sample| Span(sample.0.abs_diff(middle.0)))))
    }

    /// All fresh round trips, by peer.
    #[must_use]
    pub fn vector(&self, now: Time) -> BTreeMap<ServerId, Span> {
        self.peers.keys().filter_map(|peer| Some((*peer, self.smoothed(*peer, now)?))).collect()
    }
}

impl Window {
    fn middle(&self) -> Span {
        let mut sorted: Vec<Span> = self.samples.iter().copied().collect();
        sorted.sort_unstable();
        let cut = sorted.len() / 4;
        mean(sorted[cut..sorted.len() - cut].iter().copied())
    }
}

fn mean(spans: impl ExactSizeIterator<Item = Span>) -> Span {
    let count = spans.len() as u64;
    // No overflow: at most WINDOW spans of at most LONGEST.
    Span(spans.map(|span| span.0).sum::<u64>().checked_div(count).unwrap_or(0))
}

/// Samples kept for each peer: enough that four wild ones do not show, few enough to follow a new route in 12 heartbeats.
const WINDOW: usize = 16;

/// No round trip is longer than an hour; a sample that says so is a clock's mistake, and sums must not overflow.
const LONGEST: Span = Span::from_ms(3_600_000);

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: ServerId = ServerId(2);

    fn measured(samples: &[u64]) -> RoundTrips {
        let mut round_trips = RoundTrips::new(Span::from_ms(5_000));
        for sample in samples {
            round_trips.record(PEER, Span::from_ms(*sample), Time(0));
        }
        round_trips
    }

    #[test]
    fn four_wild_samples_of_sixteen_do_not_move_a_round_trip() {
        let round_trips = measured(&[10, 10, 900, 10, 10, 10, 900, 10, 10, 900, 10, 10, 10, 900, 10, 10]);
        assert_eq!(round_trips.smoothed(PEER, Time(0)), Some(Span::from_ms(10)));
    }

    #[test]
    fn a_new_route_shows_within_a_window() {
        let mut samples = [10; 32];
        samples[16..].fill(70);
        assert_eq!(measured(&samples).smoothed(PEER, Time(0)), Some(Span::from_ms(70)));
    }

    #[test]
    fn an_old_round_trip_is_none_and_does_not_vouch_for_a_new_one() {
        let mut round_trips = measured(&[10; 16]);
        let later = Time(0) + Span::from_ms(5_001);
        assert_eq!(round_trips.smoothed(PEER, later), None);
        assert_eq!(round_trips.vector(later), BTreeMap::new());
        round_trips.record(PEER, Span::from_ms(50), later);
        assert_eq!(round_trips.smoothed(PEER, later), Some(Span::from_ms(50)));
    }

    #[test]
    fn a_forgotten_peer_has_neither_round_trip_nor_deviation() {
        let mut round_trips = measured(&[10, 20]);
        assert_eq!(round_trips.deviation(PEER), Some(Span::from_ms(5)));
        round_trips.forget(PEER);
        assert_eq!((round_trips.smoothed(PEER, Time(0)), round_trips.deviation(PEER)), (None, None));
    }

    #[test]
    fn absurd_samples_do_not_overflow() {
        let mut round_trips = RoundTrips::new(Span(u64::MAX));
        (0..32).for_each(|_| round_trips.record(PEER, Span(u64::MAX), Time(u64::MAX)));
        assert_eq!(round_trips.smoothed(PEER, Time(0)), Some(LONGEST));
    }
}
