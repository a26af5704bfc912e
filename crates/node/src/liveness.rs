//! Failure detection on the quorum links: when a message was last received from each peer.
//!
//! Any message counts, so a bulk transfer does not hide that its sender is alive. Leader and followers send something
//! every `pole.livenessMs`, each on its own, so the gap between two messages depends on the variation of the delay and
//! not on the round trip. When a link becomes slower by `d` one way, the receiver sees one gap of `d` plus a period.
//!
//! The consequences of silence are decided in `roles`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pole_types::{ServerId, Span, Time};

/// When a message was last received from each watched peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Liveness {
    /// `None` until the first message: the peer may not know of its role yet.
    last_received: BTreeMap<ServerId, Option<Time>>,
    /// When this server last checked. A long gap is a pause of its own and not the silence of others.
    checked: Time,
}

impl Liveness {
    /// Stops watching all peers.
    pub(crate) fn clear(&mut self) {
        self.last_received.clear();
    }

    /// Watches a peer, whose silence counts from now on.
    pub(crate) fn watch(&mut self, peer: ServerId, now: Time) {
        self.last_received.insert(peer, Some(now));
    }

    /// Watches a peer, whose silence counts from its first message on. Until then the time limit of the phase applies.
    pub(crate) fn expect(&mut self, peer: ServerId) {
        self.last_received.insert(peer, None);
    }

    /// Whether the peer is watched and a message was received from it.
    pub(crate) fn has_received(&self, peer: ServerId) -> bool {
        self.last_received.get(&peer).is_some_and(Option::is_some)
    }

    pub(crate) fn forget(&mut self, peer: ServerId) {
        self.last_received.remove(&peer);
    }

    pub(crate) fn received(&mut self, peer: ServerId, now: Time) {
        if let Some(at) = self.last_received.get_mut(&peer) {
            *at = Some(now);
        }
    }

    /// The peers that were silent for longer than their timeout.
    pub(crate) fn silent(&self, now: Time, timeout: impl Fn(ServerId) -> Span) -> Vec<ServerId> {
        let last_received = self.last_received.iter().filter_map(|(peer, at)| Some((*peer, (*at)?)));
        last_received.filter(|(peer, at)| now - *at > timeout(*peer)).map(|(peer, _)| peer).collect()
    }

    /// Records the time of a check. Returns true if this server itself was paused for longer than `pause`. Then its
    /// view of other servers may be outdated: their messages may be waiting to be read. With `grace` their silence is
    /// counted from now on.
    pub(crate) fn check_for_pause(&mut self, now: Time, pause: Span, grace: bool) -> bool {
        let paused = now - core::mem::replace(&mut self.checked, now) > pause;
        if paused && grace {
            self.last_received.values_mut().flatten().for_each(|at| *at = now);
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
        liveness.expect(peer);
        let first = Time(0) + Span::from_ms(5_000);
        assert!(liveness.silent(first, |_| limit).is_empty() && !liveness.has_received(peer));
        liveness.received(peer, first);
        assert!(liveness.silent(first + limit, |_| limit).is_empty() && liveness.has_received(peer));
        assert_eq!(liveness.silent(first + limit + Span(1), |_| limit), [peer]);
    }

    #[test]
    fn a_pause_of_our_own_is_not_the_silence_of_others() {
        let mut liveness = Liveness::default();
        liveness.watch(ServerId(2), Time(0));
        let late = Time(0) + Span::from_ms(30_000);
        assert!(liveness.check_for_pause(late, Span::from_ms(200), true));
        assert!(liveness.silent(late, |_| Span::from_ms(400)).is_empty());
    }
}
