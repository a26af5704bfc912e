//! Delays messages as a link of the topology would.
//!
//! This emulates wide-area networks on one machine. The delays are computed by the same pure functions of `topology`
//! that the simulator uses, so that results are comparable. In the code a *line* is one direction of an emulated link.
//!
//! Messages leave in order, whatever their individual delays are, and never early. Without a line a message waits only
//! for those before it. Waiting is done with `alarm`. There is no loss: a stream loses nothing, and its retransmissions
//! are part of the jitter. A line that is cut carries nothing until it is restored, in either direction if both ends know.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::topology::{Link as Line, Topology};
use pole_types::{ServerId, Time};

/// The emulated lines to other servers. Messages to a server without an entry are not delayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// By destination.
    pub lines: BTreeMap<ServerId, Line>,
    /// Servers that nothing is sent to until this changes. What they are owed waits, as behind a broken line.
    pub cut: BTreeSet<ServerId>,
    /// The seed of the jitter.
    pub seed: u64,
}

impl Delays {
    /// The lines from one server to all others of a topology.
    #[must_use]
    pub fn of(topology: &Topology, me: ServerId, seed: u64) -> Self {
        let others = topology.servers().filter(|server| server.id != me.0);
        let lines = others.filter_map(|server| Some((ServerId(server.id), topology.link(me.0, server.id)?)));
        let lines = lines.collect();
        let others = topology.servers().map(|server| server.id).filter(|id| topology.is_cut(me.0, *id));
        Self { lines, cut: others.map(ServerId).collect(), seed }
    }
}

/// Items in flight on one line.
#[derive(Clone, Debug)]
pub struct DelayLine<T> {
    line: Option<Line>,
    /// When the sender has transmitted everything before.
    free: Time,
    /// When the last item arrives.
    last: Time,
    random: u64,
    queue: VecDeque<(Time, T)>,
}

impl<T> DelayLine<T> {
    /// An empty queue. Without a line, items leave at once.
    #[must_use]
    pub fn new(line: Option<Line>, seed: u64) -> Self {
        Self { line, free: Time(0), last: Time(0), random: seed, queue: VecDeque::new() }
    }

    /// Sets the line for items pushed from now on.
    pub fn set_line(&mut self, line: Option<Line>) {
        self.line = line;
    }

    /// Whether items are delayed.
    #[must_use]
    pub fn is_delayed(&self) -> bool {
        self.line.is_some()
    }

    /// Adds an item of this size.
    pub fn push(&mut self, now: Time, bytes: usize, thing: T) {
        let out = match &self.line {
            None => self.last,
            Some(line) => {
                self.free = Time(self.free.max(now).0.saturating_add(line.occupied(bytes as u64)));
                Time(self.free.0.saturating_add(line.delay(draw(&mut self.random)))).max(self.last)
            }
        };
        self.last = out;
        self.queue.push_back((out, thing));
    }

    /// Removes the next item, if it is due.
    pub fn pop(&mut self, now: Time) -> Option<T> {
        let due = self.queue.front().is_some_and(|(out, _)| *out <= now);
        if due { self.queue.pop_front().map(|(_, thing)| thing) } else { None }
    }

    /// When the next item is due.
    #[must_use]
    pub fn next(&self) -> Option<Time> {
        self.queue.front().map(|(out, _)| *out)
    }

    /// The number of items in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no items are in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

/// splitmix64 (public domain, Vigna), which is good enough for jitter.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(all(test, feature = "emulation"))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn line(jitter_ppm: u64) -> Line {
        Line { rtt_ns: 20 * MS, jitter_ppm, loss_ppm: 0, bandwidth_bps: 8_000_000, window_bytes: u64::MAX }
    }

    #[test]
    fn a_message_takes_half_a_round_trip_and_its_own_length() {
        let mut delayed = DelayLine::new(Some(line(0)), 1);
        delayed.push(Time(5 * MS), 1_000, ());
        // 1,000 bytes at 8 Mbit/s occupy the sender for 1 ms.
        assert_eq!(delayed.next(), Some(Time(16 * MS)));
        assert_eq!(delayed.pop(Time(16 * MS - 1)), None);
        assert_eq!(delayed.pop(Time(16 * MS)), Some(()));
    }

    #[test]
    fn a_large_message_keeps_the_line_from_the_next() {
        let mut delayed = DelayLine::new(Some(line(0)), 1);
        delayed.push(Time(0), 5_000, 'a');
        delayed.push(Time(MS), 1_000, 'b');
        assert_eq!(delayed.pop(Time(15 * MS)), Some('a'));
        assert_eq!(delayed.next(), Some(Time(16 * MS)));
    }

    #[test]
    fn jitter_never_changes_the_order() {
        let mut delayed = DelayLine::new(Some(line(900_000)), 7);
        (0..1000_u64).for_each(|n| delayed.push(Time(n), 0, n));
        let times: Vec<_> = delayed.queue.iter().map(|(out, _)| *out).collect();
        assert!(times.is_sorted());
        assert!(times.first() < times.last());
    }

    #[test]
    fn what_follows_the_end_of_a_delay_still_waits_for_what_went_before() {
        let mut delayed = DelayLine::new(Some(line(0)), 1);
        delayed.push(Time(0), 0, 'a');
        delayed.set_line(None);
        delayed.push(Time(0), 0, 'b');
        assert_eq!(delayed.pop(Time(MS)), None);
        assert_eq!((delayed.pop(Time(10 * MS)), delayed.pop(Time(10 * MS))), (Some('a'), Some('b')));
    }
}
