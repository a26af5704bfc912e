//! Direct acknowledgements in the predicted latency: what the clients of a follower gain if it counts acknowledgements
//! itself, and for which followers that pays.
//!
//! Without them, a client of follower *r* waits for the request to reach leader *i*, for agreement, and for the
//! announcement to come back: RTT(i,r) + θc. With them, *r* knows of the commit when a quorum's acknowledgements have
//! reached it: the leader's own, its own, and those of others, which learn of the proposal from *i* and tell *r*.
//!
//! The leader decides by this function for whom acknowledgements are sent, and the oracles predict with the same one.

use pole_types::{ServerId, Span};

use crate::oracles::consensus_time;
use crate::view::View;

/// By how much earlier the clients of `id` are answered with direct acknowledgements while the server of this view leads.
/// Zero if there are none: they are switched off, the gain is not above the margin, or too little is measured.
#[must_use]
pub fn direct_saving(view: &View, id: ServerId) -> Span {
    consensus_time(view).map_or(Span::ZERO, |consensus| saving_over(view, consensus, id))
}

/// The same with a known θc, which is the same for all followers.
pub(crate) fn saving_over(view: &View, consensus: Span, id: ServerId) -> Span {
    let saving = || {
        let margin = view.direct_acks()?;
        let announced = consensus.saturating_add(one_way(view, view.me(), id)?);
        let saved = Span(announced.0.saturating_sub(known_at(view, id)?.0));
        (id != view.me() && saved > margin).then_some(saved)
    };
    saving().unwrap_or(Span::ZERO)
}

/// The time from a proposal of this server until the acknowledgements of a quorum have reached `id`, and `id` has the
/// proposal on its own disk.
fn known_at(view: &View, id: ServerId) -> Option<Span> {
    let acknowledged = |voter: ServerId| {
        let there = one_way(view, view.me(), voter)?.saturating_add(view.disk_time(voter));
        Some((voter, there.saturating_add(one_way(view, voter, id)?)))
    };
    let quorum = view.voters().quorum_value(view.live().iter().filter_map(|voter| acknowledged(*voter)))?;
    let here = one_way(view, view.me(), id)?.saturating_add(view.disk_time(id));
    Some(quorum.max(here))
}

/// The gain from which direct acknowledgements pay unless configured otherwise. Within a site they would save a fraction of
/// this and cost a message for each write and server.
pub const DIRECT_ACKS_MARGIN: Span = Span::from_ms(1);

fn one_way(view: &View, from: ServerId, to: ServerId) -> Option<Span> {
    Some(Span(view.round_trip_between(from, to)?.0 / 2))
}
