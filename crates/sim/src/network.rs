//! The links between servers: connections that open, carry messages in order, stall, break and are redialled.
//!
//! The network takes sends, resets, crashes and blocked directions, and computes when something arrives at an end.
//!
//! It gives the guarantees of a driver over TCP: a connection delivers a prefix of what was sent on it, in order; an
//! end receives nothing of an old connection after it learned that it is closed, or after it closed it itself. On the
//! election channel single messages may also be lost or duplicated.
//!
//! Each end has its own view of the connection, because a process that is paused or busy learns of changes late and a
//! peer that lost power sends nothing: the two ends often disagree on whether a connection is open.

use pole_node::{Channel, Message};
use pole_topology::Link as Line;
use pole_types::ServerId;

use crate::Rng;

/// An index into [`Network::links`].
pub(crate) type LinkId = usize;

/// All links of an ensemble.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) links: Vec<Link>,
    servers: usize,
    /// How many faults block the direction from the first to the second server.
    blocked: Vec<u32>,
    pub(crate) settings: Settings,
    rng: Rng,
    holds: Vec<Hold>,
}

/// Holds back messages from one server to another, and all messages behind them.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Starts with the first message of this name; none: with any message.
    pub(crate) name: Option<String>,
    /// How many matching messages pass first.
    pub(crate) passes: u32,
}

/// Rates of random network faults, and transport timeouts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Lost messages per thousand on the election channel.
    pub(crate) lost_per_mille: u64,
    /// Duplicated messages per thousand on the election channel.
    pub(crate) doubled_per_mille: u64,
    /// Messages per hundred thousand on the quorum channel that break the connection.
    pub(crate) broken_per_100k: u64,
    /// Closed connections per thousand whose other end is not notified.
    pub(crate) fins_lost_per_mille: u64,
    /// How long a stalled connection stays open.
    pub(crate) transport_timeout: u64,
    /// The shortest wait before a connection is dialled again.
    pub(crate) redial: u64,
}

/// One link and its current connection.
#[derive(Debug)]
pub(crate) struct Link {
    /// The indices of the two servers; their ends are 0 and 1.
    pub(crate) ends: [usize; 2],
    pub(crate) channel: Channel,
    line: Line,
    /// The number of the current connection.
    pub(crate) generation: u32,
    /// Whether the current connection carries messages.
    pub(crate) up: bool,
    /// The connection that each end takes for open.
    pub(crate) view: [Option<u32>; 2],
    /// Towards each end: when the last message arrives, and when the line is free for the next one.
    arrives: [u64; 2],
    free: [u64; 2],
    /// Towards each end: messages held by a blocked direction, and since when it is blocked.
    held: [Vec<Message>; 2],
    stalled: [Option<u64>; 2],
    /// Towards each end: a message was lost, and with it all that follow.
    severed: [bool; 2],
    /// Whether a dial is scheduled.
    pub(crate) dialling: bool,
}

/// The fate of a message.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It arrives at this time, and a duplicate at the second one.
    Arrives(u64, Option<u64>),
    /// It is held; if the direction stays blocked, the connection breaks at this time.
    Stalls { breaks_at: u64 },
    /// It is lost.
    Lost,
    /// It is lost, and the connection breaks at this time.
    Breaks { at: u64 },
}

impl Network {
    pub(crate) fn new(servers: usize, settings: Settings, rng: Rng, line: impl Fn(usize, usize) -> Line) -> Self {
        let mut links = Vec::new();
        for a in 0..servers {
            for b in a + 1..servers {
                for channel in [Channel::Election, Channel::Quorum] {
                    links.push(Link::new([a, b], channel, line(a, b)));
                }
            }
        }
        Self { links, servers, blocked: vec![0; servers * servers], settings, rng, holds: Vec::new() }
    }

    /// The link between two servers, and the end of the first one.
    pub(crate) fn find(&self, me: usize, peer: ServerId, channel: Channel) -> Option<(LinkId, usize)> {
        let peer = usize::try_from(peer.0).ok()?.checked_sub(1)?;
        let (a, b) = (me.min(peer), me.max(peer));
        if a == b || b >= self.servers {
            return None;
        }
        // Links are in the order of `new`: all of the first server, then all of the second, in pairs.
        let pairs_before = a * (2 * self.servers - a - 1) / 2 + (b - a - 1);
        let link = 2 * pairs_before + usize::from(channel == Channel::Quorum);
        debug_assert_eq!((self.links[link].ends, self.links[link].channel), ([a, b], channel));
        Some((link, usize::from(me != a)))
    }

    pub(crate) fn is_blocked(&self, from: usize, to: usize) -> bool {
        self.blocked[from * self.servers + to] > 0
    }

    /// Counts one more fault that blocks the direction.
    pub(crate) fn block(&mut self, from: usize, to: usize) {
        self.blocked[from * self.servers + to] += 1;
    }

    /// Counts one fault less. When the direction opens, held messages arrive, as TCP retransmits them. Returns (link,
    /// end, arrival, message).
    pub(crate) fn unblock(&mut self, from: usize, to: usize, now: u64) -> Vec<(LinkId, usize, u64, Message)> {
        let count = &mut self.blocked[from * self.servers + to];
        *count = count.saturating_sub(1);
        if *count > 0 {
            return Vec::new();
        }
        self.release_held(from, to, now)
    }

    /// Adds a hold.
    pub(crate) fn hold(&mut self, hold: Hold) {
        self.holds.push(hold);
    }

    /// Removes all holds of a direction. Returns the held messages as (link, end, arrival, message).
    pub(crate) fn release(&mut self, from: usize, to: usize, now: u64) -> Vec<(LinkId, usize, u64, Message)> {
        self.holds.retain(|hold| (hold.from, hold.to) != (from, to));
        self.release_held(from, to, now)
    }

    /// Changes the line between two servers.
    pub(crate) fn set_line(&mut self, a: usize, b: usize, change: impl Fn(&mut Line)) {
        let between = |link: &&mut Link| link.ends == [a.min(b), a.max(b)];
        self.links.iter_mut().filter(between).for_each(|link| change(&mut link.line));
    }

    fn release_held(&mut self, from: usize, to: usize, now: u64) -> Vec<(LinkId, usize, u64, Message)> {
        let mut sent = Vec::new();
        for (id, link) in self.links.iter_mut().enumerate() {
            let Some(end) = link.ends.iter().position(|s| *s == to).filter(|end| link.ends[1 - end] == from) else {
                continue;
            };
            link.stalled[end] = None;
            for message in std::mem::take(&mut link.held[end]) {
                let at = link.transmit(end, message.size_bytes(), now, &mut self.rng);
                sent.push((id, end, at, message));
            }
        }
        sent
    }

    /// Sends a message from the other end to `end`.
    pub(crate) fn send(&mut self, id: LinkId, end: usize, message: &Message, now: u64) -> Fate {
        let settings = self.settings;
        let (from, to) = (self.links[id].ends[1 - end], self.links[id].ends[end]);
        let blocked = self.is_blocked(from, to);
        let held = self.is_held(from, to, message);
        let link = &mut self.links[id];
        if !link.up || link.view[1 - end] != Some(link.generation) || link.severed[end] {
            return Fate::Lost;
        }
        if blocked || held || link.stalled[end].is_some() {
            let since = *link.stalled[end].get_or_insert(now);
            if link.channel == Channel::Quorum || !blocked {
                link.held[end].push(message.clone());
            }
            return Fate::Stalls { breaks_at: since + settings.transport_timeout };
        }
        match link.channel {
            Channel::Election if self.rng.per_mille(settings.lost_per_mille) => return Fate::Lost,
            Channel::Quorum if self.rng.below(100_000) < settings.broken_per_100k => {
                link.severed[end] = true;
                return Fate::Breaks { at: now + self.rng.below(300_000_000) };
            }
            Channel::Election | Channel::Quorum => {}
        }
        let doubled = link.channel == Channel::Election && self.rng.per_mille(settings.doubled_per_mille);
        let size = message.size_bytes();
        let first = link.transmit(end, size, now, &mut self.rng);
        let second = doubled.then(|| link.transmit(end, size, now, &mut self.rng));
        Fate::Arrives(first, second)
    }

    /// Whether a hold keeps the message back. Counts it as passed if not.
    fn is_held(&mut self, from: usize, to: usize, message: &Message) -> bool {
        let named = |hold: &&mut Hold| {
            (hold.from, hold.to) == (from, to) && hold.name.as_ref().is_none_or(|name| name == message.name())
        };
        let Some(hold) = self.holds.iter_mut().find(named) else { return false };
        let held = hold.passes == 0;
        hold.passes = hold.passes.saturating_sub(1);
        held
    }

    /// Whether the connection has been stalled towards `end` for the whole transport timeout.
    pub(crate) fn still_stalls(&self, id: LinkId, end: usize, generation: u32, now: u64) -> bool {
        let link = &self.links[id];
        let due = link.stalled[end].is_some_and(|since| since + self.settings.transport_timeout <= now);
        link.up && link.generation == generation && due
    }

    /// An end closes the connection. Returns when the other end learns of it; none if the direction is blocked.
    pub(crate) fn close(&mut self, id: LinkId, end: usize, now: u64) -> Option<u64> {
        let other = 1 - end;
        let blocked = self.is_blocked(self.links[id].ends[end], self.links[id].ends[other]);
        let link = &mut self.links[id];
        link.view[end] = None;
        if !link.up {
            return None;
        }
        link.up = false;
        link.forget_unsent(other, now);
        (!blocked).then(|| link.transmit(other, 40, now, &mut self.rng))
    }

    /// Tries to open a new connection. Returns when each end learns of it.
    pub(crate) fn dial(&mut self, id: LinkId, now: u64) -> Option<[u64; 2]> {
        let [a, b] = self.links[id].ends;
        if self.is_blocked(a, b) || self.is_blocked(b, a) {
            return None;
        }
        let link = &mut self.links[id];
        link.generation += 1;
        link.up = true;
        link.severed = [false; 2];
        link.stalled = [None; 2];
        link.held = [Vec::new(), Vec::new()];
        link.arrives = [now; 2];
        let accepted = link.transmit(1, 40, now, &mut self.rng);
        let answered = link.transmit(0, 40, accepted, &mut self.rng);
        Some([answered, accepted])
    }

    /// Draws whether the notification of a close is lost.
    pub(crate) fn loses_fin(&mut self) -> bool {
        self.settings.fins_lost_per_mille > 0 && self.rng.per_mille(self.settings.fins_lost_per_mille)
    }

    /// Draws the wait until a closed link is dialled.
    pub(crate) fn redial_wait(&mut self) -> u64 {
        let least = self.settings.redial;
        self.rng.between(least, 2 * least)
    }
}

impl Link {
    fn new(ends: [usize; 2], channel: Channel, line: Line) -> Self {
        Self {
            ends,
            channel,
            line,
            generation: 0,
            up: false,
            view: [None; 2],
            arrives: [0; 2],
            free: [0; 2],
            held: [Vec::new(), Vec::new()],
            stalled: [None; 2],
            severed: [false; 2],
            dialling: false,
        }
    }

    /// Drops what has not left the process: of the queued bytes only a window's worth will still arrive.
    fn forget_unsent(&mut self, end: usize, now: u64) {
        self.free[end] = self.free[end].min(now + self.line.occupied(self.line.window_bytes));
        self.arrives[end] = self.arrives[end].min(self.free[end] + self.line.rtt_ns);
    }

    /// When a message of this size arrives: after those before it, its own transmission time and the line's delay.
    fn transmit(&mut self, end: usize, bytes: usize, now: u64, rng: &mut Rng) -> u64 {
        self.free[end] = self.free[end].max(now) + self.line.occupied(bytes as u64);
        self.arrives[end] = (self.free[end] + self.line.delay(rng.any())).max(self.arrives[end] + 1);
        self.arrives[end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Network {
        let settings = Settings {
            lost_per_mille: 0,
            doubled_per_mille: 0,
            broken_per_100k: 0,
            fins_lost_per_mille: 0,
            transport_timeout: 1_000_000_000,
            redial: 1_000_000,
        };
        let line =
            Line { rtt_ns: 100_000, jitter_ppm: 500_000, loss_ppm: 0, bandwidth_bps: 1 << 30, window_bytes: 1 << 22 };
        Network::new(4, settings, Rng::new(1), |_, _| line)
    }

    #[test]
    fn every_pair_finds_its_own_link_from_both_sides() {
        let network = network();
        for a in 0..4_usize {
            for b in (0..4).filter(|b| *b != a) {
                for channel in [Channel::Election, Channel::Quorum] {
                    let (id, end) = network.find(a, ServerId(b as u64 + 1), channel).expect("a link");
                    assert_eq!(network.links[id].ends[end], a);
                    assert_eq!(network.links[id].ends[1 - end], b);
                    assert_eq!(network.links[id].channel, channel);
                }
            }
        }
        assert!(network.find(1, ServerId(2), Channel::Quorum).is_none(), "no link to itself");
        assert!(network.find(1, ServerId(9), Channel::Quorum).is_none(), "no link to a stranger");
    }

    #[test]
    fn messages_of_one_link_keep_their_order_whatever_their_delay() {
        let mut network = network();
        let up = network.dial(0, 0).expect("open");
        network.links[0].view = [Some(1); 2];
        let mut last = up[1];
        for now in 0..100 {
            let Fate::Arrives(at, None) = network.send(0, 1, &Message::Echo { seq: now }, now) else { panic!("lost") };
            assert!(at > last);
            last = at;
        }
    }

    #[test]
    fn what_a_blocked_direction_held_arrives_in_order_when_it_opens() {
        let mut network = network();
        network.dial(1, 0);
        network.links[1].view = [Some(1); 2];
        network.block(0, 1);
        for seq in 0..3 {
            assert!(matches!(network.send(1, 1, &Message::Echo { seq }, 10), Fate::Stalls { .. }));
        }
        let sent = network.unblock(0, 1, 20);
        assert_eq!(sent.len(), 3);
        assert!(sent.is_sorted_by_key(|(_, _, at, _)| *at));
    }
}
