//! Decides on which thread a connection is served, from the requests that its client sends.
//!
//! A client with one outstanding write pays for every thread hop, and the hop from a client thread to the node's thread is
//! a tenth of the write. Such a connection moves to the node's thread. There it would also wait while the node waits for
//! the disk, so connections that read, or that send several requests at once, stay on the client threads.
//!
//! A move costs about as much as it saves on one request. A connection therefore moves only after its client has shown
//! the same pattern for a while, and the two thresholds differ so that it does not move back and forth.

use pole_jute::OpCode;

/// The thread of a connection, and how much its requests speak for the node's thread.
#[derive(Debug, Default)]
pub(super) struct Placement {
    thread: Thread,
    /// Rises with every write that arrives alone, and falls faster with every other request.
    lone_writes: u8,
}

/// Where a connection is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Thread {
    /// On a client thread, permanently. Connections with TLS cannot move.
    #[default]
    Fixed,
    /// On a client thread.
    Clients,
    /// On the node's thread.
    Node,
}

impl Placement {
    /// Records that the connection is served on this thread from now on.
    pub(super) fn moved_to(&mut self, thread: Thread) {
        // A connection that found no free slot on the node's thread tries again some writes later.
        if thread != Thread::Node {
            self.lone_writes = 0;
        }
        self.thread = thread;
    }

    /// Records that `requests` arrived together, the last of them with operation `last`. `is_alone`: no earlier request
    /// was outstanding.
    pub(super) fn learn(&mut self, requests: u64, last: i32, is_alone: bool) {
        let is_write = OpCode::from_number(last).is_some_and(pole_tree::is_write);
        self.lone_writes = if is_write && requests == 1 && is_alone {
            LONE_WRITES_MAX.min(self.lone_writes + 1)
        } else if last == OpCode::Ping.number() {
            // The client is idle.
            0
        } else {
            self.lone_writes.saturating_sub(OTHER_REQUEST_COSTS)
        };
    }

    /// Whether the connection should move to [`Self::next_thread`].
    pub(super) fn should_move(&self) -> bool {
        match self.thread {
            Thread::Fixed => false,
            Thread::Clients => self.lone_writes >= LONE_WRITES_MIN,
            Thread::Node => self.lone_writes == 0,
        }
    }

    pub(super) fn next_thread(&self) -> Thread {
        match self.thread {
            Thread::Fixed => Thread::Fixed,
            Thread::Clients => Thread::Node,
            Thread::Node => Thread::Clients,
        }
    }
}

/// A connection moves to the node's thread at this value of `lone_writes`.
const LONE_WRITES_MIN: u8 = 8;

/// The maximum of `lone_writes`.
const LONE_WRITES_MAX: u8 = 16;

/// With one read in five requests a connection stays on its thread; with more it stays on, or returns to, a client thread.
const OTHER_REQUEST_COSTS: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: i32 = 5;
    const READ: i32 = 4;
    const PING: i32 = 11;

    fn at(thread: Thread) -> Placement {
        Placement { thread, lone_writes: if thread == Thread::Node { LONE_WRITES_MIN } else { 0 } }
    }

    /// How often a connection moves whose client repeats these operations.
    fn moves(mut placement: Placement, pattern: &[i32]) -> usize {
        let mut moves = 0;
        for op in pattern.iter().cycle().take(1_000) {
            placement.learn(1, *op, true);
            if placement.should_move() {
                placement.moved_to(placement.next_thread());
                moves += 1;
            }
        }
        moves
    }

    #[test]
    fn a_connection_with_one_outstanding_write_moves_once() {
        assert_eq!(moves(at(Thread::Clients), &[WRITE]), 1);
        assert_eq!(moves(at(Thread::Clients), &[WRITE, WRITE, WRITE, WRITE, WRITE, WRITE, WRITE, WRITE, READ]), 1);
    }

    #[test]
    fn a_connection_that_reads_or_idles_is_served_on_a_client_thread() {
        for pattern in [&[READ][..], &[WRITE, READ], &[WRITE, WRITE, READ], &[WRITE, WRITE, PING]] {
            assert_eq!(moves(at(Thread::Clients), pattern), 0, "{pattern:?}");
            assert_eq!(moves(at(Thread::Node), pattern), 1, "{pattern:?}");
        }
    }

    #[test]
    fn a_connection_with_several_outstanding_requests_does_not_move() {
        let mut placement = at(Thread::Clients);
        for _ in 0..100 {
            placement.learn(2, WRITE, true);
            placement.learn(1, WRITE, false);
            assert!(!placement.should_move());
        }
    }

    #[test]
    fn a_connection_with_tls_never_moves() {
        assert_eq!(moves(Placement::default(), &[WRITE]), 0);
    }
}
