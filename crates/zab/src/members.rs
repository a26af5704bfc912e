//! Which servers belong to the ensemble, as the history says.
//!
//! An entry may change the members. It does so as soon as it is in the log, because its own commit needs a quorum of the
//! new voters too: while it is the last entry and not known to be committed, a quorum is one of the voters before it *and*
//! of those after it. A leader proposes nothing behind such an entry before it is committed. So an entry behind it proves
//! that it is committed, and then the new voters alone decide.
//!
//! Invariant: of the changes in a log, all but the last one are committed, and the last one is too if an entry follows it.
//!
//! How a change is encoded is up to the state machine ([`MembersOf`]).

use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use core::hash::{Hash, Hasher};
use pole_types::{Membership, Zxid};

/// Finds out whether a transaction changes the members, and if so returns the new ones. It is a plain function, so that
/// all servers read a transaction alike.
#[derive(Clone, Copy)]
pub struct MembersOf(pub fn(&Bytes) -> Option<Membership>);

impl MembersOf {
    /// For a state machine whose transactions never change the members.
    pub const NEVER: Self = Self(|_| None);
}

/// All servers of an ensemble use the same function, so it makes no difference between two states.
impl PartialEq for MembersOf {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for MembersOf {}

impl Hash for MembersOf {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl fmt::Debug for MembersOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MembersOf")
    }
}

/// The members of the ensemble, and the changes in the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Members {
    members_of: MembersOf,
    /// The members after all changes that are known to be committed.
    committed: Membership,
    /// The position of the last of these changes; zero if the members come from the configuration.
    version: Zxid,
    /// The changes in the log that are not known to be committed, in order.
    changes: Vec<(Zxid, Membership)>,
    /// The members that count now.
    in_force: Membership,
}

impl Members {
    pub(crate) fn new(members_of: MembersOf, committed: Membership, version: Zxid) -> Self {
        Self { members_of, in_force: committed.clone(), committed, version, changes: Vec::new() }
    }

    /// The members that count now; during a change, those before and after it.
    pub(crate) fn in_force(&self) -> &Membership {
        &self.in_force
    }

    /// The position of the last change that counts, committed or not.
    pub(crate) fn version(&self) -> Zxid {
        self.changes.last().map_or(self.version, |(at, _)| *at)
    }

    pub(crate) fn logged(&mut self, at: Zxid, body: &Bytes) {
        // A change that we learned of before it arrives, or of an older one, is known to be committed.
        if at > self.version {
            self.changes.extend((self.members_of.0)(body).map(|members| (at, members)));
        }
    }

    pub(crate) fn truncated(&mut self, to: Zxid) {
        self.changes.retain(|(at, _)| *at <= to);
    }

    pub(crate) fn committed(&mut self, through: Zxid) {
        while let Some((at, _)) = self.changes.first().filter(|(at, _)| *at <= through) {
            self.version = *at;
            self.committed = self.changes.remove(0).1;
        }
    }

    /// Takes over a committed change that is not in our log: from a snapshot, or from a server that knows of it. An older
    /// one than ours is ignored.
    pub(crate) fn learned(&mut self, version: Zxid, members: Membership) {
        if version > self.version {
            self.changes.retain(|(at, _)| *at > version);
            self.version = version;
            self.committed = members;
        }
    }

    /// Recomputes the members in force, for a log that ends at `last`. Returns whether they have changed.
    pub(crate) fn update(&mut self, last: Zxid) -> bool {
        let in_force = match self.changes.as_slice() {
            [] => self.committed.clone(),
            [.., (at, members)] if *at < last => members.clone(),
            [(_, members)] => Membership::joint(&self.committed, members),
            [.., (_, before), (_, members)] => Membership::joint(before, members),
        };
        let changed = in_force != self.in_force;
        self.in_force = in_force;
        changed
    }

    /// Whether [`Members::update`] can have any effect after an ordinary entry, which is far more frequent than a change.
    pub(crate) fn is_settled(&self) -> bool {
        self.changes.is_empty()
    }
}
