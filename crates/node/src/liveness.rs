//! Failure detection on the quorum links: which peer was last heard when.
//!
//! Any message counts, so that a bulk transfer does not hide that its sender lives. Leader and followers send something
//! every `pole.livenessMs`, each on its own, so the silence between two messages does not depend on the round trip, only
//! on how much the delay varies. When a link becomes slower by `d` one way, the receiver sees one gap of `d` and a period.
//!
//! Not here: what silence leads to (`roles`).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pole_election::{ServerId, Span};
use pole_oracle::Time;

/// When each peer that matters was last heard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Liveness {
    /// None until the peer is first heard: it may not even know yet that it matters.
    heard: BTreeMap<ServerId, Option<Time>>,
    /// When this server last looked: a long gap is a pause of its own, not the silence of others.
    looked: Time,
}

impl Liveness {
    /// Nobody matters any more.
    pub(crate) fn clear(&mut self) {
        self.heard.clear();
    }

    /// From now on the silence of this peer counts.
    pub(crate) fn watch(&mut self, peer: ServerId, now: Time) {
        self.heard.insert(peer, Some(now));
    }

    /// The silence of this peer counts from its first message on. Until then the time limit of the phase applies.
    pub(crate) fn expect(&mut self, peer: ServerId) {
        self.heard.insert(peer, None);
    }

    /// Whether the peer is watched and was heard.
    pub(crate) fn is_heard(&self, peer: ServerId) -> bool {
        self.heard.get(&peer).is_some_and(Option::is_some)
    }

    pub(crate) fn forget(&mut self, peer: ServerId) {
        self.heard.remove(&peer);
    }

    pub(crate) fn hear(&mut self, peer: ServerId, now: Time) {
        if let Some(at) = self.heard.get_mut(&peer) {
            *at = Some(now);
        }
    }

    /// The peers that were silent for longer than their timeout.
    pub(crate) fn silent(&self, now: Time, timeout: impl Fn(ServerId) -> Span) -> Vec<ServerId> {
        let heard = self.heard.iter().filter_map(|(peer, at)| Some((*peer, (*at)?)));
        heard.filter(|(peer, at)| now - *at > timeout(*peer)).map(|(peer, _)| peer).collect()
    }

    /// Notes a look at the clock. If this server itself stood still for longer than `pause`, what it knows about the
    /// silence of others may be worth nothing: they may have spoken, and their words lie unread. With `grace` they are
    /// given their time anew.
    pub(crate) fn look(&mut self, now: Time, pause: Span, grace: bool) -> bool {
        let paused = now - core::mem::replace(&mut self.looked, now) > pause;
        if paused && grace {
            self.heard.values_mut().flatten().for_each(|at| *at = now);
        }
        paused
    }
}

/// After how much silence a peer is given up. The floor tolerates a rise of the delay; the round trip is what the
/// transport needs to repair a loss.
pub(crate) fn timeout(floor: Span, cap: Span, slowest_round_trip: Option<Span>) -> Span {
    floor.saturating_add(slowest_round_trip.unwrap_or_default()).min(cap.max(floor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_link_gets_a_longer_timeout_up_to_the_cap() {
        let (floor, cap) = (Span::from_ms(400), Span::from_ms(2_000));
        assert_eq!(timeout(floor, cap, None), floor);
        assert_eq!(timeout(floor, cap, Some(Span::from_ms(170))), Span::from_ms(570));
        assert_eq!(timeout(floor, cap, Some(Span::from_ms(1_900))), cap);
    }

    #[test]
    fn the_silence_of_an_expected_peer_counts_from_its_first_message() {
        let mut liveness = Liveness::default();
        let (peer, limit) = (ServerId(2), Span::from_ms(400));
        liveness.expect(peer);
        let first = Time(0) + Span::from_ms(5_000);
        assert!(liveness.silent(first, |_| limit).is_empty() && !liveness.is_heard(peer));
        liveness.hear(peer, first);
        assert!(liveness.silent(first + limit, |_| limit).is_empty() && liveness.is_heard(peer));
        assert_eq!(liveness.silent(first + limit + Span(1), |_| limit), [peer]);
    }

    #[test]
    fn a_pause_of_our_own_is_not_the_silence_of_others() {
        let mut liveness = Liveness::default();
        liveness.watch(ServerId(2), Time(0));
        let late = Time(0) + Span::from_ms(30_000);
        assert!(liveness.look(late, Span::from_ms(200), true));
        assert!(liveness.silent(late, |_| Span::from_ms(400)).is_empty());
    }
}
