//! Which messages to observers wait a little for others, so that an observer costs the leader little.
//!
//! No quorum waits for an observer. Proposals, commits and pings to it are sent together after a delay, with one system
//! call here, and one wake-up, one sync and one acknowledgement there. An observer's clients see changes that much later.
//! Nothing waits while the observer has forwarded requests a moment ago, because its clients wait for the answers. Any
//! other message leaves at once and takes with it what waits.
//!
//! The links are not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use pole_node::{Channel, Message};
use pole_types::{Membership, ServerId};
use pole_zab::Message as Zab;

/// The observers for which something waits.
#[derive(Debug)]
pub(super) struct Batching {
    /// How long a message waits at most; zero: not at all.
    delay: Duration,
    observers: BTreeSet<ServerId>,
    waiting: BTreeMap<ServerId, Waiting>,
    /// Observers that have forwarded requests, and until when nothing to them waits.
    busy: BTreeMap<ServerId, Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    until: Instant,
    bytes: usize,
}

impl Batching {
    pub(super) fn new(delay: Duration) -> Self {
        Self { delay, observers: BTreeSet::new(), waiting: BTreeMap::new(), busy: BTreeMap::new() }
    }

    pub(super) fn set_members(&mut self, members: &Membership) {
        self.observers = if self.delay.is_zero() { BTreeSet::new() } else { members.observers().clone() };
        self.busy.retain(|id, _| self.observers.contains(id));
    }

    /// This server has forwarded requests of its clients.
    pub(super) fn forwarded(&mut self, from: ServerId, now: Instant) {
        if self.observers.contains(&from) {
            self.busy.insert(from, now + BUSY);
        }
    }

    /// Whether this message waits. If not, everything queued for its server leaves now.
    pub(super) fn waits(
        &mut self,
        to: ServerId,
        channel: Channel,
        message: &Message,
        now: impl Fn() -> Instant,
    ) -> bool {
        if channel != Channel::Quorum || !self.observers.contains(&to) {
            return false;
        }
        let may_wait = matches!(message, Message::Zab(Zab::Propose { .. } | Zab::Commit { .. } | Zab::Ping { .. }));
        let now = now();
        if may_wait && self.busy.get(&to).is_none_or(|until| *until <= now) {
            let waiting = self.waiting.entry(to).or_insert(Waiting { until: now + self.delay, bytes: 0 });
            waiting.bytes += message.size_bytes();
            if waiting.bytes < BYTES_MAX {
                return true;
            }
        }
        self.waiting.remove(&to);
        false
    }

    /// Takes the servers whose messages have waited long enough.
    pub(super) fn due(&mut self, now: Instant) -> impl Iterator<Item = ServerId> {
        self.waiting.extract_if(.., move |_, waiting| waiting.until <= now).map(|(id, _)| id)
    }

    /// When the next messages have waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.values().map(|waiting| waiting.until).min()
    }
}

/// How long after a forwarded request nothing waits: longer than a write takes.
const BUSY: Duration = Duration::from_millis(200);

/// More than this leaves at once.
const BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use pole_types::{Epoch, Voters, Zxid};

    const OBSERVER: ServerId = ServerId(4);
    const DELAY: Duration = Duration::from_millis(5);

    fn batching() -> Batching {
        let mut batching = Batching::new(DELAY);
        batching.set_members(&Membership::new(Voters::new((1..=3).map(ServerId)), [OBSERVER]));
        batching
    }

    fn commit() -> Message {
        Message::Zab(Zab::Commit { epoch: Epoch(1), zxid: Zxid::ZERO })
    }

    #[test]
    fn commits_for_an_observer_wait_for_each_other_and_nothing_else_does() {
        let (mut batching, start) = (batching(), Instant::now());
        let mut waits = |to, channel, message: &Message| batching.waits(to, channel, message, || start);
        assert!(!waits(ServerId(2), Channel::Quorum, &commit()), "a voter");
        assert!(!waits(OBSERVER, Channel::Election, &commit()), "an election");
        assert!(waits(OBSERVER, Channel::Quorum, &commit()));
        assert!(waits(OBSERVER, Channel::Quorum, &commit()));
        assert_eq!(batching.deadline(), Some(start + DELAY));
        assert_eq!(batching.due(start).count(), 0);
        assert_eq!(batching.due(start + DELAY).collect::<Vec<_>>(), [OBSERVER]);
        assert_eq!(batching.deadline(), None);
    }

    #[test]
    fn an_answer_leaves_at_once_and_takes_with_it_what_waits() {
        let (mut batching, start) = (batching(), Instant::now());
        assert!(batching.waits(OBSERVER, Channel::Quorum, &commit(), || start));
        let answer = Message::SyncDone { epoch: Epoch(1), through: 1, zxid: Zxid::ZERO };
        assert!(!batching.waits(OBSERVER, Channel::Quorum, &answer, || start));
        assert_eq!(batching.deadline(), None);
    }

    #[test]
    fn nothing_waits_while_clients_of_the_observer_write() {
        let (mut batching, start) = (batching(), Instant::now());
        batching.forwarded(OBSERVER, start);
        assert!(!batching.waits(OBSERVER, Channel::Quorum, &commit(), || start + BUSY / 2));
        assert!(batching.waits(OBSERVER, Channel::Quorum, &commit(), || start + BUSY));
    }

    #[test]
    fn many_bytes_do_not_wait() {
        let (mut batching, start) = (batching(), Instant::now());
        let waits = |_| batching.waits(OBSERVER, Channel::Quorum, &commit(), || start);
        let waited = (0..BYTES_MAX).map(waits).take_while(|waits| *waits).count();
        assert!((1..BYTES_MAX).contains(&waited), "{waited}");
    }

    #[test]
    fn without_a_delay_nothing_waits() {
        let mut batching = Batching::new(Duration::ZERO);
        batching.set_members(&Membership::new(Voters::new((1..=3).map(ServerId)), [OBSERVER]));
        assert!(!batching.waits(OBSERVER, Channel::Quorum, &commit(), Instant::now));
    }
}
