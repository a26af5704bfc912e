//! The order on proposals: the one rule by which every server prefers the same candidate.
//!
//! In: two proposals of one round and the round's demoted servers. Out: which is better, and by which component.
//! Why: the election ends because all servers climb the same order; one rule that looked at the pair compared, or at
//! anything but the messages, would give it cycles, and an election might never end.
//! Holds: total, antisymmetric and transitive (proptest in `tests/order.rs`); two proposals are equal only if they
//! are of the same server.
//! Not here: rounds themselves; proposals of different rounds never meet, since the older round is forgotten.
//! Source: PAPER.md, section 2, "The order on proposals is total".

use alloc::collections::BTreeSet;
use core::cmp::Ordering;
use core::fmt;

use crate::{Proposal, Round, ServerId};

/// The order of one round.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    demoted: &'a BTreeSet<ServerId>,
    places: &'static [Component],
}

/// The components of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// Not demoted is better.
    Able,
    /// The newer oracle configuration is better: a rolling change ends with all on the new one.
    Version,
    /// Any total order will do: it only keeps scores of different oracles from being compared with each other.
    Fingerprint,
    /// The smaller score is better; unknown is worst.
    Score,
    /// The later (current epoch, last zxid) is better.
    History,
    /// The higher id is better.
    Id,
}

impl<'a> Order<'a> {
    /// The order of `round`, in which these servers are known to be unable to lead.
    #[must_use]
    pub fn new(round: Round, demoted: &'a BTreeSet<ServerId>) -> Self {
        Self { demoted, places: if is_fallback(round) { BY_HISTORY } else { BY_SCORE } }
    }

    /// Whether the candidate is not known to be unable to lead.
    #[must_use]
    pub fn able(&self, proposal: &Proposal) -> bool {
        !self.demoted.contains(&proposal.id)
    }

    /// `Greater` when `a` is the better. `Equal` means the same candidate, whatever the details beside the order.
    #[must_use]
    pub fn compare(&self, a: &Proposal, b: &Proposal) -> Ordering {
        self.decide(a, b).map_or(Ordering::Equal, |(ordering, _)| ordering)
    }

    /// As [`compare`](Self::compare), with the component that decided. None when they are equal.
    #[must_use]
    pub fn decide(&self, a: &Proposal, b: &Proposal) -> Option<(Ordering, Component)> {
        self.places.iter().map(|place| (self.compare_at(*place, a, b), *place)).find(|(ordering, _)| ordering.is_ne())
    }

    fn compare_at(&self, place: Component, a: &Proposal, b: &Proposal) -> Ordering {
        match place {
            Component::Able => self.able(a).cmp(&self.able(b)),
            Component::Version => a.version.cmp(&b.version),
            Component::Fingerprint => a.fingerprint.cmp(&b.fingerprint),
            Component::Score => b.rank.cmp(&a.rank),
            Component::History => a.standing.history().cmp(&b.standing.history()),
            Component::Id => a.id.cmp(&b.id),
        }
    }
}

/// Whether scores have failed so often that the round goes by history: plain fast leader election.
#[must_use]
pub fn is_fallback(round: Round) -> bool {
    round.failed >= FALLBACK_FROM
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Able => "able",
            Self::Version => "version",
            Self::Fingerprint => "fingerprint",
            Self::Score => "score",
            Self::History => "history",
            Self::Id => "id",
        })
    }
}

/// From so many failed rounds on, history decides instead of scores. The number travels in the round, so the switch
/// happens on all servers of a round together.
pub const FALLBACK_FROM: u32 = 3;

const BY_SCORE: &[Component] =
    &[Component::Able, Component::Version, Component::Fingerprint, Component::Score, Component::Id];

const BY_HISTORY: &[Component] = &[Component::Able, Component::History, Component::Id];
