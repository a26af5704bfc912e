//! The total order on proposals, by which every server prefers the same candidate.
//!
//! It compares two proposals of one round, given the demoted servers of that round, and returns which is better and by
//! which component. An election ends because all servers climb the same order. A rule that depended on anything but
//! the messages, or only on the pair compared, could create cycles, and an election might never end.
//!
//! Invariant: the order is total, antisymmetric and transitive (see the property tests in `tests/it/order.rs`), and
//! two proposals are equal only if they belong to the same server.
//!
//! Rounds are not compared here: proposals of different rounds never meet, since the older round is forgotten.

use alloc::collections::BTreeSet;
use core::cmp::Ordering;
use core::fmt;

use crate::{Proposal, Round};
use pole_types::ServerId;

/// The order of one round.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    demoted: &'a BTreeSet<ServerId>,
    components: &'static [Component],
}

/// The components of the order, which are compared one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// A server that is not demoted is better.
    Able,
    /// The newer oracle configuration is better, so a rolling change ends with all servers on the new one.
    Version,
    /// The higher fingerprint is better. The direction is arbitrary; it only keeps scores of different oracles from
    /// being compared with each other.
    Fingerprint,
    /// The smaller score is better; unknown is worst.
    Score,
    /// The later (current epoch, last zxid) is better.
    History,
    /// The higher id is better.
    Id,
}

impl<'a> Order<'a> {
    /// The order of `round`, given the servers known to be unable to lead.
    #[must_use]
    pub fn new(round: Round, demoted: &'a BTreeSet<ServerId>) -> Self {
        Self { demoted, components: if is_fallback(round) { BY_HISTORY } else { BY_SCORE } }
    }

    /// Whether the candidate is not demoted.
    #[must_use]
    pub fn able(&self, proposal: &Proposal) -> bool {
        !self.demoted.contains(&proposal.id)
    }

    /// Returns `Greater` if `a` is better. `Equal` means the same candidate; details outside the order may differ.
    #[must_use]
    pub fn compare(&self, a: &Proposal, b: &Proposal) -> Ordering {
        self.decide(a, b).map_or(Ordering::Equal, |(ordering, _)| ordering)
    }

    /// Like [`compare`](Self::compare), with the component that decided. None if they are equal.
    #[must_use]
    pub fn decide(&self, a: &Proposal, b: &Proposal) -> Option<(Ordering, Component)> {
        self.components
            .iter()
            .map(|component| (self.compare_at(*component, a, b), *component))
            .find(|(ordering, _)| ordering.is_ne())
    }

    fn compare_at(&self, component: Component, a: &Proposal, b: &Proposal) -> Ordering {
        match component {
            Component::Able => self.able(a).cmp(&self.able(b)),
            Component::Version => a.version.cmp(&b.version),
            Component::Fingerprint => a.fingerprint.cmp(&b.fingerprint),
            Component::Score => b.rank.cmp(&a.rank),
            Component::History => a.standing.history().cmp(&b.standing.history()),
            Component::Id => a.id.cmp(&b.id),
        }
    }
}

/// Whether scores have failed so often that history decides in this round, as in ZooKeeper's fast leader election.
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

/// The number of failed rounds from which on history decides instead of scores. The count travels in the round, so all
/// servers of a round switch together.
pub const FALLBACK_FROM: u32 = 3;

const BY_SCORE: &[Component] =
    &[Component::Able, Component::Version, Component::Fingerprint, Component::Score, Component::Id];

const BY_HISTORY: &[Component] = &[Component::Able, Component::History, Component::Id];
