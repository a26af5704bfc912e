//! Direct acknowledgements: a follower learns that a transaction is committed from the acknowledgements themselves.
//!
//! Acknowledgements go to the leader, which counts them and announces what is committed. A client of a distant follower
//! therefore waits for a round trip of the quorum and then for the announcement. With direct acknowledgements the leader
//! names, with each proposal, the followers that listen for it. Every server that acknowledges the proposal tells these
//! too, and so does the leader when its own disk has it: a proposal is sent before that write and proves nothing. A
//! listener counts with the predicate of the leader.
//!
//! Why that is safe: the leader decides nothing when it commits. A transaction is committed as soon as a quorum that has
//! adopted the epoch has it durably; promises queue behind appends, so every later leader finds it. A server that sees
//! these acknowledgements may conclude the same. Only acknowledgements of the epoch in which the listener itself serves count:
//! the log of a server that acknowledged in an older epoch may have been truncated since.
//!
//! This module does not know for whom it pays (`node` decides that).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;
use pole_types::{Epoch, ServerId, Zxid};

use crate::state::{State, send};
use crate::{Message, Output};

/// The servers that are told, besides the leader, what becomes durable here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Listeners {
    /// Proposals that are not durable here yet, in order.
    waiting: VecDeque<Group>,
}

/// Consecutive proposals with the same listeners.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    first: Zxid,
    through: Zxid,
    listeners: Vec<ServerId>,
}

impl Listeners {
    /// Adds proposals that are being written.
    pub(crate) fn add(&mut self, first: Zxid, through: Zxid, listeners: Vec<ServerId>) {
        match self.waiting.back_mut() {
            _ if listeners.is_empty() => {}
            Some(group) if group.listeners == listeners => group.through = through,
            Some(_) | None => self.waiting.push_back(Group { first, through, listeners }),
        }
    }

    /// Sends an acknowledgement of what is durable here to everyone who listens for a part of it.
    pub(crate) fn tell(&mut self, state: &State, epoch: Epoch, out: &mut Vec<Output>) {
        let durable = state.durable;
        let mut told = BTreeSet::new();
        while let Some(group) = self.waiting.front().filter(|group| group.first <= durable) {
            told.extend(group.listeners.iter().copied());
            if group.through > durable {
                break;
            }
            self.waiting.pop_front();
        }
        for id in told.into_iter().filter(|id| *id != state.me && state.links.contains(id)) {
            send(id, Message::Ack { epoch, zxid: durable, server: state.me }, out);
        }
    }
}

/// What other servers have acknowledged to this follower, in the epoch that it has joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Acknowledged {
    durable: BTreeMap<ServerId, Zxid>,
}

impl Acknowledged {
    /// Records an acknowledgement of the present epoch.
    pub(crate) fn record(&mut self, from: ServerId, zxid: Zxid) {
        let durable = self.durable.entry(from).or_default();
        *durable = zxid.max(*durable);
    }

    /// A server that starts over may have lost its disk, so it acknowledges anew.
    pub(crate) fn forget(&mut self, peer: ServerId) {
        self.durable.remove(&peer);
    }

    /// The last position that a quorum has durably, this server included, as far as it is known here.
    pub(crate) fn of_quorum(&self, state: &State) -> Option<Zxid> {
        let others = self.durable.iter().map(|(id, zxid)| (*id, Reverse(*zxid)));
        let all = others.chain([(state.me, Reverse(state.durable))]);
        state.voters().quorum_value(all).map(|Reverse(zxid)| zxid)
    }
}
