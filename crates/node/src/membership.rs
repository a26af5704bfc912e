//! Changes of the members of the ensemble: what follows from them, and how servers that missed one learn of it.
//!
//! The agreement decides who counts (`zab`). This module passes that on to the election and to the measurements.
//!
//! - While a change is not committed, servers elect among the voters before it: those of the future may not know yet that
//!   they are voters. The elected leader needs both for its promises.
//! - A change that no entry follows may be uncommitted, so that after a restart of all servers the voters before it would
//!   be needed, and these may be gone. So a leader puts an entry without effect behind it.
//! - A server that was away may know only servers that are gone by now, and never find the leader. So heartbeats tell which
//!   change a server has applied last, and a server that knows of a later one answers with it. It is a hint about whom to
//!   talk to and whom to believe, and replaces nothing in the log.

use alloc::vec::Vec;
use bytes::Bytes;
use pole_types::{Cxid, Membership, ServerId, SessionId, Zxid};
use pole_zab::Origin;

use crate::node::Node;
use crate::{Channel, Effect, Machine, Message, Note};

impl<M: Machine> Node<M> {
    /// Other members count from now on.
    pub(crate) fn members_changed(&mut self, members: Membership, version: Zxid, out: &mut Vec<Effect>) {
        self.scoring.set_members(members.clone());
        let (voters, observers) = (members.voters().before_change(), members.observers().clone());
        let note = Note::Members { members: members.clone(), version };
        self.config.members = members;
        out.push(Effect::Note(note));
        self.with_election(out, |election, host, outputs| election.set_members(voters, observers, host, outputs));
    }

    /// Leader: makes durable that the last change is committed, by an entry behind it; and hands over if the change left
    /// this server out.
    pub(crate) fn seal_change(&mut self, out: &mut Vec<Effect>) {
        if self.leadership.is_none() || self.zab.is_changing_members() || self.zab.members_version() == Zxid::ZERO {
            return;
        }
        if self.zab.log().last() == self.zab.members_version() {
            let body = self.machine.nothing(self.zab.next_zxid(), self.wall_ms);
            let origin = Origin { session: SessionId::default(), cxid: Cxid::OWN };
            self.with_zab(|zab, outputs| zab.propose(Vec::from([(origin, body)]), Vec::new(), outputs));
        }
        let is_idle = self.leadership.as_ref().is_some_and(|leadership| leadership.transfer.is_none());
        if is_idle && !self.config.voters().may_lead(self.config.me) {
            self.transfer(None, None, out);
        }
    }

    /// The position of the last change that this server has applied.
    pub(crate) fn applied_members(&self) -> Zxid {
        self.machine.members().map_or(Zxid::ZERO, |(_, version)| version)
    }

    /// A peer has applied all changes up to `theirs`: tells it of a later one.
    pub(crate) fn compare_members(&self, peer: ServerId, theirs: Zxid, out: &mut Vec<Effect>) {
        if theirs < self.applied_members() {
            self.send_members(peer, out);
        }
    }

    /// Tells a peer which members were committed last, if they were ever changed.
    fn send_members(&self, to: ServerId, out: &mut Vec<Effect>) {
        if let Some((members, version)) = self.machine.members() {
            let message = Message::Members { version, members };
            out.push(Effect::Send { to, channel: Channel::Election, message });
        }
    }

    /// Another server knows of a change that was committed.
    pub(crate) fn learn_members(&mut self, version: Zxid, description: Bytes, out: &mut Vec<Effect>) {
        if let Some(members) = M::parse_members(&description) {
            self.with_zab(|zab, outputs| zab.learn_members(members, version, outputs));
            self.report(description, version, out);
        }
    }

    /// Reports the members that the state holds, if they were changed since the last report.
    pub(crate) fn report_members(&mut self, out: &mut Vec<Effect>) {
        if let Some((description, version)) = self.machine.members() {
            self.report(description, version, out);
        }
    }

    fn report(&mut self, description: Bytes, version: Zxid, out: &mut Vec<Effect>) {
        if version > self.reported_members {
            self.reported_members = version;
            out.push(Effect::Members { description, version });
        }
    }
}
