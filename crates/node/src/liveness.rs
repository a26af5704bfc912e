//! Failure detection on the quorum links: when a message was last received from each peer.
//!
//! Any message counts, so a bulk transfer does not hide that its sender is alive. Leader and followers send something
//! every `pole.livenessMs`, each on its own, so the gap between two messages depends on the variation of the delay and
//! not on the round trip. When a link becomes slower by `d` one way, the receiver sees one gap of `d` plus a period.
//!
//! A server on a long link tolerates a longer silence, because a lost packet takes longer to be repaired there. If another
//! server has given up the leader during that silence, the loss is hardly one packet, and the time limit is that of a short
//! link.
//!
//! The target of a hand-over has not sent anything yet as leader, and the limit of the phase applies to it. If another
//! server gives it up, its silence counts from the hand-over on.
//!
//! The consequences of silence are decided in `roles`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pole_types::{ServerId, Span, Time};

/// When a message was last received from each watched peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Liveness {
    peers: BTreeMap<ServerId, Watched>,
    /// When this server last checked. A long gap is a pause of its own and not the silence of others.
    checked: Time,
}

/// A watched peer.
#[derive(Clone, Copy, Debug)]
struct Watched {
    /// When the last message was received; until the first one, when the peer began to be watched.
    since: Time,
    /// Whether a message was received. Until then the peer may not know of its role yet.
    received: bool,
    /// Whether another server has given up this peer since the last message.
    given_up: bool,
}

impl Liveness {
    /// Stops watching all peers.
    pub(crate) fn clear(&mut self) {
        self.peers.clear();
    }

    /// Watches a peer, whose silence counts from now on.
    pub(crate) fn watch(&mut self, peer: ServerId, now: Time) {
        self.peers.insert(peer, Watched { since: now, received: true, given_up: false });
    }

    /// Watches a peer, whose silence counts from its first message on. Until then the time limit of the phase applies,
    /// unless another server gives up the peer.
    pub(crate) fn expect(&mut self, peer: ServerId, now: Time) {
        self.peers.insert(peer, Watched { since: now, received: false, given_up: false });
    }

    /// Whether the peer is watched and a message was received from it.
    pub(crate) fn has_received(&self, peer: ServerId) -> bool {
        self.peers.get(&peer).is_some_and(|watched| watched.received)
    }

    pub(crate) fn forget(&mut self, peer: ServerId) {
        self.peers.remove(&peer);
    }

    pub(crate) fn received(&mut self, peer: ServerId, now: Time) {
        if let Some(watched) = self.peers.get_mut(&peer) {
            *watched = Watched { since: now, received: true, given_up: false };
        }
    }

    /// Records that another server has given up this peer.
    pub(crate) fn given_up(&mut self, peer: ServerId) {
        if let Some(watched) = self.peers.get_mut(&peer) {
            watched.given_up = true;
        }
    }

    /// The peers that were silent for longer than their timeout, or than `floor` if another server has given them up.
    pub(crate) fn silent(&self, now: Time, floor: Span, timeout: impl Fn(ServerId) -> Span) -> Vec<ServerId> {
        let is_silent = |peer: ServerId, watched: &Watched| {
            let limit = match (watched.received, watched.given_up) {
                (true, true) => floor,
                // Its first message may still be on its way over a long link.
                (true, false) | (false, true) => timeout(peer),
                (false, false) => return false,
            };
            now - watched.since > limit
        };
        self.peers.iter().filter(|(peer, watched)| is_silent(**peer, watched)).map(|(peer, _)| *peer).collect()
    }

    /// Records the time of a check. Returns true if this server itself was paused for longer than `pause`. Then its
    /// view of other servers may be outdated: their messages may be waiting to be read. With `grace` their silence is
    /// counted from now on.
    pub(crate) fn check_for_pause(&mut self, now: Time, pause: Span, grace: bool) -> bool {
        let paused = now - core::mem::replace(&mut self.checked, now) > pause;
        if paused && grace {
            self.peers.values_mut().for_each(|watched| watched.since = now);
        }
        paused
    }
}

/// The silence after which a peer is considered lost.
///
/// The floor tolerates an increase of the delay. On a long link the silence after a lost packet is longer than that: the
/// sender learns of the loss after a round trip and waits a quarter of one for reordered packets (RACK, RFC 8985), and
/// half of the floor is left for the messages that reveal the loss.
pub(crate) fn timeout(floor: Span, cap: Span, slowest_round_trip: Option<Span>) -> Span {
    let repair = slowest_round_trip.unwrap_or_default().saturating_mul(5);
    floor.max(Span(floor.0 / 2).saturating_add(Span(repair.0 / 4))).min(cap.max(floor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_link_gets_a_longer_timeout_up_to_the_cap() {
        let (floor, cap) = (Span::from_ms(400), Span::from_ms(2_000));
        assert_eq!(timeout(floor, cap, None), floor);
        assert_eq!(timeout(floor, cap, Some(Span::from_ms(100))), floor);
        assert_eq!(timeout(floor, cap, Some(Span::from_ms(400))), Span::from_ms(700));
        assert_eq!(timeout(floor, cap, Some(Span::from_ms(1_900))), cap);
    }

    #[test]
    fn the_silence_of_an_expected_peer_counts_from_its_first_message() {
        let mut liveness = Liveness::default();
        let (peer, limit) = (ServerId(2), Span::from_ms(400));
        liveness.expect(peer, Time(0));
        let first = Time(0) + Span::from_ms(5_000);
        assert!(liveness.silent(first, limit, |_| limit).is_empty() && !liveness.has_received(peer));
        liveness.received(peer, first);
        assert!(liveness.silent(first + limit, limit, |_| limit).is_empty() && liveness.has_received(peer));
        assert_eq!(liveness.silent(first + limit + Span(1), limit, |_| limit), [peer]);
    }

    #[test]
    fn a_peer_that_another_server_has_given_up_is_silent_after_the_floor() {
        let mut liveness = Liveness::default();
        let (peer, floor, limit) = (ServerId(2), Span::from_ms(400), Span::from_ms(700));
        liveness.watch(peer, Time(0));
        liveness.given_up(peer);
        assert!(liveness.silent(Time(0) + floor, floor, |_| limit).is_empty());
        assert_eq!(liveness.silent(Time(0) + floor + Span(1), floor, |_| limit), [peer]);
        let heard = Time(0) + floor;
        liveness.received(peer, heard);
        assert!(liveness.silent(heard + limit, floor, |_| limit).is_empty(), "a message shows that the peer lives");
    }

    #[test]
    fn an_expected_peer_that_another_server_has_given_up_is_silent_after_its_timeout() {
        let mut liveness = Liveness::default();
        let (peer, floor, limit) = (ServerId(2), Span::from_ms(400), Span::from_ms(700));
        liveness.expect(peer, Time(0));
        let late = Time(0) + limit + Span(1);
        assert!(liveness.silent(late, floor, |_| limit).is_empty(), "nobody has given it up");
        liveness.given_up(peer);
        assert!(liveness.silent(Time(0) + limit, floor, |_| limit).is_empty());
        assert_eq!(liveness.silent(late, floor, |_| limit), [peer]);
    }

    #[test]
    fn a_pause_of_our_own_is_not_the_silence_of_others() {
        let mut liveness = Liveness::default();
        liveness.watch(ServerId(2), Time(0));
        let late = Time(0) + Span::from_ms(30_000);
        assert!(liveness.check_for_pause(late, Span::from_ms(200), true));
        assert!(liveness.silent(late, Span::from_ms(400), |_| Span::from_ms(400)).is_empty());
    }
}
