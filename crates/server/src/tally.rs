//! Counts the requests and replies of all connections, with a separate counter per thread.
//!
//! Every batch of reads is counted, and a cache line that several cores write costs each of them more than the count
//! itself. The sum is exact, but a reader does not see one consistent moment across threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use pole_node::{Latency, ReplySizes};
use pole_types::Time;

use crate::metrics::{Distribution, LazySamples};

#[derive(Debug, Default)]
pub(crate) struct Tally {
    shares: [Share; SHARES],
}

/// The counters of a thread, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Share(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    packets: Packets,
    /// The sizes of the replies, and when the last one was counted.
    reply_sizes: Option<(ReplySizes, Time)>,
    /// The latency of the replies in microseconds, by [`RequestKind`].
    latencies: [LazySamples; 2],
}

/// What kind of request was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// A write of a client of this server.
    Update,
    /// Everything else.
    Read,
}

/// Requests, replies, and the latency of the replies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packets {
    pub(crate) received: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) latency: Latency,
}

impl Tally {
    /// Counts requests. `bytes` may include a connect request, which is not counted.
    pub(crate) fn received(&self, count: u64, bytes: usize) {
        let mut counted = self.own().0.lock();
        counted.packets.received += count;
        counted.packets.received_bytes += bytes as u64;
    }

    /// Counts replies to requests received at `asked`, with `bytes` in all.
    pub(crate) fn answered(&self, kind: RequestKind, count: u64, bytes: usize, asked: Time, now: Time) {
        if count == 0 {
            return;
        }
        let mut counted = self.own().0.lock();
        counted.packets.sent += count;
        counted.packets.sent_bytes += bytes as u64;
        counted.packets.latency.record(asked, now, count);
        counted.latencies[kind as usize].record((now - asked).as_us(), count, now);
    }

    /// Adds the sizes of replies that were counted with [`Tally::answered`].
    pub(crate) fn reply_sizes(&self, sizes: Option<ReplySizes>, now: Time) {
        let Some(later) = sizes else { return };
        let mut counted = self.own().0.lock();
        let mut sum = counted.reply_sizes.map(|(sizes, _)| sizes);
        ReplySizes::add(&mut sum, later);
        counted.reply_sizes = sum.map(|sizes| (sizes, now));
    }

    /// The sizes of all replies; `None` before the first.
    pub(crate) fn all_reply_sizes(&self) -> Option<ReplySizes> {
        let mut shares: Vec<_> = self.shares.iter().filter_map(|share| share.0.lock().reply_sizes).collect();
        shares.sort_by_key(|(_, at)| *at);
        let mut sum = None;
        shares.into_iter().for_each(|(sizes, _)| ReplySizes::add(&mut sum, sizes));
        sum
    }

    pub(crate) fn sum(&self) -> Packets {
        let mut sum = Packets::default();
        for share in &self.shares {
            let packets = share.0.lock().packets;
            sum.received += packets.received;
            sum.received_bytes += packets.received_bytes;
            sum.sent += packets.sent;
            sum.sent_bytes += packets.sent_bytes;
            sum.latency.add(&packets.latency);
        }
        sum
    }

    /// The latency of replies to requests of this kind, in microseconds.
    pub(crate) fn latency(&self, kind: RequestKind, now: Time) -> Distribution {
        let mut sum = Distribution::default();
        self.shares.iter().for_each(|share| share.0.lock().latencies[kind as usize].add_to(&mut sum, now));
        sum
    }

    pub(crate) fn reset(&self) {
        self.shares.iter().for_each(|share| *share.0.lock() = Counted::default());
    }

    fn own(&self) -> &Share {
        &self.shares[NUMBER.with(|number| number % SHARES)]
    }
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of this thread, in order of first use.
    static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// With more threads than this, some share a counter, which only makes them slower.
const SHARES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_count_adds_up() {
        let tally = Tally::default();
        std::thread::scope(|scope| {
            for ms in 1..=40 {
                let tally = &tally;
                scope.spawn(move || {
                    tally.received(3, 100);
                    tally.answered(RequestKind::Read, 2, 50, Time(0), Time(ms * 1_000_000));
                    tally.answered(RequestKind::Update, 1, 7, Time(0), Time(1_000_000));
                });
            }
        });
        let Packets { received, received_bytes, sent, sent_bytes, latency } = tally.sum();
        assert_eq!((received, received_bytes, sent, sent_bytes, latency.count), (120, 4_000, 120, 2_280, 120));
        assert_eq!((latency.min_ms, latency.max_ms), (1, 40));
        let sizes = |last| Some(ReplySizes { last, min: 20, max: 90 });
        tally.reply_sizes(sizes(30), Time(5));
        tally.reply_sizes(sizes(50), Time(7));
        std::thread::scope(|scope| drop(scope.spawn(|| tally.reply_sizes(sizes(40), Time(6)))));
        assert_eq!(tally.all_reply_sizes(), sizes(50), "the last is the latest of all threads");
        let reads = tally.latency(RequestKind::Read, Time(40_000_000));
        assert_eq!((reads.count, reads.min(), reads.max, reads.mean()), (80, 1_000, 40_000, 20_500.0));
        assert_eq!(tally.latency(RequestKind::Update, Time(40_000_000)).count, 40);
        tally.reset();
        assert_eq!((tally.sum().received, tally.latency(RequestKind::Read, Time(0)).count), (0, 0));
        assert_eq!((tally.sum().latency.min_ms, tally.sum().latency.count), (0, 0));
    }
}
