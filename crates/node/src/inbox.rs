//! The requests that wait for the leader to propose them, in an order that is fair to their sessions.
//!
//! In order of arrival, a client that sends large multis one after another would keep all others waiting, because a multi
//! of a megabyte takes tens of milliseconds. Instead, the sessions that wait share the leader equally, by bytes (weighted
//! fair queueing). A clock counts how much each of them could have had. A request gets a tag, the time by this clock at
//! which it would be done: its own size after the request of its session before it or, if none waits, after the present
//! time. The lowest tag is next, and of equal ones the first to arrive. So a small request passes the large ones, and these
//! wait only until small ones have had the same share.
//!
//! Invariant: the requests of one session keep their order.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pole_types::{ServerId, SessionId};

use crate::Request;

/// Requests with the servers that they came from.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// By tag and arrival.
    waiting: BTreeMap<(u64, u64), (ServerId, Request)>,
    /// The sessions with waiting requests.
    sessions: BTreeMap<SessionId, Queue>,
    /// How many bytes each session that waits could have had.
    clock: u64,
    arrivals: u64,
}

/// The waiting requests of a session.
#[derive(Debug)]
struct Queue {
    last_tag: u64,
    count: usize,
}

impl Inbox {
    pub(crate) fn push(&mut self, from: ServerId, request: Request) {
        let queue = self.sessions.entry(request.origin.session).or_insert(Queue { last_tag: self.clock, count: 0 });
        queue.last_tag += cost(&request);
        queue.count += 1;
        self.waiting.insert((queue.last_tag, self.arrivals), (from, request));
        self.arrivals += 1;
    }

    /// Takes the next request.
    pub(crate) fn pop(&mut self) -> Option<(ServerId, Request)> {
        let (_, (from, request)) = self.waiting.pop_first()?;
        self.clock += cost(&request) / self.sessions.len() as u64;
        self.taken(request.origin.session);
        Some((from, request))
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Drops the requests of a server.
    pub(crate) fn forget(&mut self, server: ServerId) {
        let dropped: Vec<_> = self.waiting.extract_if(.., |_, (from, _)| *from == server).collect();
        dropped.into_iter().for_each(|(_, (_, request))| self.taken(request.origin.session));
    }

    /// A request of this session does not wait any more.
    fn taken(&mut self, session: SessionId) {
        if let Some(queue) = self.sessions.get_mut(&session) {
            queue.count -= 1;
            if queue.count == 0 {
                self.sessions.remove(&session);
            }
        }
    }
}

fn cost(request: &Request) -> u64 {
    request.body.len().max(SMALL_BYTES) as u64
}

/// Smaller requests count as this much: each has a cost of its own. Among them the order is that of arrival.
const SMALL_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use pole_types::{Cxid, Zxid};
    use pole_zab::Origin;

    fn request(session: i64, cxid: i32, bytes: usize) -> Request {
        let origin = Origin { session: SessionId(session), cxid: Cxid(cxid) };
        Request { origin, floor: Zxid::ZERO, body: vec![0; bytes].into() }
    }

    /// The sessions and numbers of everything, in the order in which it is taken.
    fn all(mut inbox: Inbox) -> Vec<(i64, i32)> {
        core::iter::from_fn(|| inbox.pop()).map(|(_, r)| (r.origin.session.0, r.origin.cxid.0)).collect()
    }

    #[test]
    fn small_requests_are_taken_in_order_of_arrival() {
        let mut inbox = Inbox::default();
        for (session, bytes) in [(3, 900), (1, 10), (2, 3_000)] {
            inbox.push(ServerId(1), request(session, 1, bytes));
        }
        assert_eq!(all(inbox), [(3, 1), (1, 1), (2, 1)]);
    }

    #[test]
    fn a_small_request_does_not_wait_for_the_large_ones_before_it() {
        let mut inbox = Inbox::default();
        for session in 1..=20 {
            for cxid in 1..=4 {
                inbox.push(ServerId(1), request(session, cxid, 1 << 20));
            }
        }
        inbox.pop();
        inbox.push(ServerId(2), request(99, 1, 100));
        inbox.push(ServerId(2), request(99, 2, 100));
        assert_eq!(all(inbox)[..2], [(99, 1), (99, 2)]);
    }

    #[test]
    fn a_large_request_does_not_wait_for_ever_behind_small_ones() {
        let mut inbox = Inbox::default();
        inbox.push(ServerId(1), request(1, 1, 1 << 20));
        let mut taken = 0;
        // Two sessions always have a small request waiting.
        for cxid in 1.. {
            inbox.push(ServerId(1), request(2, cxid, 100));
            inbox.push(ServerId(1), request(3, cxid, 100));
            taken += 2;
            let next = [inbox.pop(), inbox.pop()];
            if next.iter().flatten().any(|(_, request)| request.origin.session.0 == 1) {
                break;
            }
        }
        // A share for each session that waits: two or three requests of 4 KiB pass for each 4 KiB of the megabyte.
        assert!((512..=768).contains(&taken), "{taken}");
    }

    #[test]
    fn a_session_keeps_its_order_and_nothing_is_kept_of_it_afterwards() {
        let mut inbox = Inbox::default();
        for (cxid, bytes) in [(1, 1 << 20), (2, 1), (3, 1 << 16), (4, 1)] {
            inbox.push(ServerId(1), request(7, cxid, bytes));
        }
        assert_eq!((0..4).filter_map(|_| inbox.pop()).map(|(_, r)| r.origin.cxid.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(inbox.sessions.is_empty() && inbox.is_empty());
    }

    #[test]
    fn what_came_over_a_link_that_was_replaced_is_dropped() {
        let mut inbox = Inbox::default();
        inbox.push(ServerId(1), request(7, 1, 1));
        inbox.push(ServerId(2), request(8, 1, 1));
        inbox.forget(ServerId(1));
        assert_eq!((inbox.len(), inbox.sessions.len()), (1, 1));
        assert_eq!(all(inbox), [(8, 1)]);
    }
}
