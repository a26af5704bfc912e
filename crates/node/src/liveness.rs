//! Who was heard when: the failure detection that the links between leader and followers give for free.
//!
//! In: any message on a quorum link. Out: who has been silent for too long.
//! Why any message: a bulk transfer must not starve the question whether the other side lives.
//! Not here: what silence leads to (`node`).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pole_election::{ServerId, Span};
use pole_oracle::Time;

/// When each peer that matters was last heard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Liveness {
    heard: BTreeMap<ServerId, Time>,
    /// When this server last looked: a long gap is a pause of its own, not the silence of others.
    looked: Time,
}

impl Liveness {
    /// Nobody matters any more.
    pub(crate) fn clear(&mut self) {
        self.heard.clear();
    }

    /// From now on this peer matters.
    pub(crate) fn watch(&mut self, peer: ServerId, now: Time) {
        self.heard.insert(peer, now);
    }

    pub(crate) fn forget(&mut self, peer: ServerId) {
        self.heard.remove(&peer);
    }

    pub(crate) fn hear(&mut self, peer: ServerId, now: Time) {
        if let Some(at) = self.heard.get_mut(&peer) {
            *at = now;
        }
    }

    /// The peers that were silent for longer than their timeout.
    pub(crate) fn silent(&self, now: Time, timeout: impl Fn(ServerId) -> Span) -> Vec<ServerId> {
        self.heard.iter().filter(|(peer, at)| now - **at > timeout(**peer)).map(|(peer, _)| *peer).collect()
    }

    /// Notes a look at the clock. If this server itself stood still for longer than `pause`, what it knows about the
    /// silence of others may be worth nothing: they may have spoken, and their words lie unread. With `grace` they are
    /// given their time anew.
    pub(crate) fn look(&mut self, now: Time, pause: Span, grace: bool) -> bool {
        let paused = now - core::mem::replace(&mut self.looked, now) > pause;
        if paused && grace {
            self.heard.values_mut().for_each(|at| *at = now);
        }
        paused
    }
}

/// The silence that a round trip and its deviation make improbable.
pub(crate) fn timeout(floor: Span, cap: Span, round_trip: Option<Span>, deviation: Option<Span>) -> Span {
    let adaptive = round_trip
        .unwrap_or_default()
        .saturating_mul(4)
        .saturating_add(deviation.unwrap_or_default().saturating_mul(4));
    floor.max(adaptive).min(cap.max(floor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_link_gets_a_longer_timeout_up_to_the_cap() {
        let (floor, cap) = (Span::from_ms(400), Span::from_ms(2_000));
        assert_eq!(timeout(floor, cap, None, None), floor);
        assert_eq!(timeout(floor, cap, Some(Span::from_ms(170)), Some(Span::from_ms(5))), Span::from_ms(700));
        assert_eq!(timeout(floor, cap, Some(Span::from_ms(900)), None), cap);
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
