//! Counts the requests and replies of all connections, with a separate counter per thread.
//!
//! Every batch of reads is counted, and a cache line that several cores write costs each of them more than the count
//! itself. The sum is exact, but a reader does not see one consistent moment across threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use pole_node::Latency;
use pole_types::Time;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    shares: [Share; SHARES],
}

/// The counter of a thread, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Share(Mutex<Packets>);

/// Requests, replies, and the latency of the replies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packets {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) latency: Latency,
}

impl Tally {
    pub(crate) fn received(&self, count: u64) {
        self.own().0.lock().received += count;
    }

    /// Counts replies to requests received at `asked`.
    pub(crate) fn answered(&self, count: u64, asked: Time, now: Time) {
        let mut packets = self.own().0.lock();
        packets.sent += count;
        packets.latency.record(asked, now, count);
    }

    pub(crate) fn sum(&self) -> Packets {
        let mut sum = Packets::default();
        for share in &self.shares {
            let packets = *share.0.lock();
            sum.received += packets.received;
            sum.sent += packets.sent;
            sum.latency.add(&packets.latency);
        }
        sum
    }

    pub(crate) fn reset(&self) {
        self.shares.iter().for_each(|share| *share.0.lock() = Packets::default());
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
                    tally.received(3);
                    tally.answered(2, Time(0), Time(ms * 1_000_000));
                });
            }
        });
        let Packets { received, sent, latency } = tally.sum();
        assert_eq!((received, sent, latency.count), (120, 80, 80));
        assert_eq!((latency.min_ms, latency.max_ms, latency.mean_ms()), (1, 40, 20.5));
        tally.reset();
        assert_eq!(tally.sum().received, 0);
        assert_eq!((tally.sum().latency.min_ms, tally.sum().latency.count), (0, 0));
    }
}
