//! The safety properties, checked at every step against a global history that no server has.
//!
//! The messages, commits and roles of servers come in; the first violation comes out, with its property and both
//! values. In every explored state:
//!
//! - what any server considers committed is one history and is durable on a quorum;
//! - every established leader has all of it;
//! - an epoch has one established leader;
//! - an acknowledgement covers only what is durable;
//! - a promise is given once and kept;
//! - zxids are contiguous;
//! - `current_epoch <= accepted_epoch` on every disk.

use std::collections::BTreeMap;

use pole_types::{Epoch, ServerId, Zxid};
use pole_zab::{Entry, Message};

use super::members;
use super::world::{Server, World, id};
use crate::violation::{NO_PANIC, Violation};

/// The names of all properties, as reported by the checker.
pub(crate) const AGREEMENT: &str = "what is committed anywhere is one history";
pub(crate) const DURABILITY: &str = "what is committed lies durably on a quorum";
pub(crate) const LEADER_COMPLETE: &str = "an established leader has all that was committed before it";
pub(crate) const ONE_LEADER: &str = "an epoch has one established leader";
pub(crate) const ACKNOWLEDGED: &str = "an acknowledgement covers only what is durable";
pub(crate) const PROMISE: &str = "a promise is given once and kept";
pub(crate) const CONTIGUOUS: &str = "zxids are contiguous on every disk";
pub(crate) const EPOCHS: &str = "no disk has a current epoch above its accepted epoch";

/// All safety properties.
pub(crate) const SAFETY: [&str; 9] =
    [AGREEMENT, DURABILITY, LEADER_COMPLETE, ONE_LEADER, ACKNOWLEDGED, PROMISE, CONTIGUOUS, EPOCHS, NO_PANIC];

/// A log with a gap on disk.
pub(crate) fn gap(last: Zxid, next: Zxid) -> Violation {
    Violation::new(CONTIGUOUS, format!("{next} is appended after {last}"))
}

/// A disk operation that breaks a promise.
pub(crate) fn broken_promise(promised: Epoch, epoch: Epoch) -> Violation {
    Violation::new(PROMISE, format!("{promised} is promised on disk, and now {epoch}"))
}

/// Epochs out of order on disk.
pub(crate) fn epochs(current: Epoch, accepted: Epoch) -> Violation {
    Violation::new(EPOCHS, format!("current {current} above accepted {accepted}"))
}

/// What was observed in the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Observations {
    /// The longest history that any server ever considered committed.
    pub(crate) committed: Vec<Entry>,
    established: BTreeMap<Epoch, ServerId>,
    /// The latest fresh promise of each server, and to whom it was made. A promise of a lower epoch would break the
    /// one on its disk.
    promised: BTreeMap<ServerId, (Epoch, ServerId)>,
}

impl Observations {
    /// Compares a server's committed history with the observed one, and extends the latter.
    pub(crate) fn record_commits(&mut self, id: ServerId, server: &Server) -> Result<(), Violation> {
        let zab = &server.zab;
        let log = zab.log();
        let (mut count, mut differs) = (0, None);
        for entry in log.between(Zxid::ZERO, zab.committed()) {
            match self.committed.get(count) {
                Some(known) if known == entry => {}
                Some(known) => differs = differs.or(Some((known.zxid, entry.zxid))),
                None => self.committed.push(entry.clone()),
            }
            count += 1;
        }
        match differs {
            Some((known, here)) => {
                let detail = format!("{known} was committed, and server {id} has {here} committed in its place");
                Err(Violation::new(AGREEMENT, detail))
            }
            None => Ok(()),
        }
    }

    /// Records that a server is established, and checks that it may be.
    pub(crate) fn record_established(&mut self, id: ServerId, epoch: Epoch, server: &Server) -> Result<(), Violation> {
        let other = *self.established.entry(epoch).or_insert(id);
        if other != id {
            return Err(Violation::new(ONE_LEADER, format!("{other} and {id} in epoch {epoch}")));
        }
        let has = |entry: &&Entry| server.zab.log().between(Zxid::ZERO, entry.zxid).any(|ours| ours == *entry);
        // Only earlier epochs: a leader may learn late that it is established, when the next one has committed
        // already.
        let mut earlier = self.committed.iter().take_while(|entry| entry.zxid.epoch() < epoch);
        if let Some(lost) = earlier.find(|entry| !has(entry)) {
            let detail = format!("server {id} leads epoch {epoch} without {}, which is committed", lost.zxid);
            return Err(Violation::new(LEADER_COMPLETE, detail));
        }
        let image = &server.disk.image;
        if image.current_epoch != epoch || !server.disk.holds(server.zab.log().last()) {
            let detail = format!("server {id} counted itself in epoch {epoch} before its disk had it");
            return Err(Violation::new(ACKNOWLEDGED, detail));
        }
        Ok(())
    }

    /// Whether the message acknowledges anything.
    pub(crate) fn is_acknowledgement(message: &Message) -> bool {
        matches!(
            message,
            Message::AckEpoch(_) | Message::AckLeader { .. } | Message::TakenOver { .. } | Message::Ack { .. }
        )
    }

    /// Records a message and checks that whatever it acknowledges is durable.
    pub(crate) fn record_sent(
        &mut self,
        id: ServerId,
        to: ServerId,
        message: &Message,
        server: &Server,
    ) -> Result<(), Violation> {
        let (disk, image) = (&server.disk, &server.disk.image);
        let (epoch, durable) = match message {
            Message::AckEpoch(promise) => {
                if promise.fresh {
                    let before = self.promised.insert(id, (promise.epoch, to));
                    if let Some((_, first)) = before.filter(|(epoch, first)| *epoch == promise.epoch && *first != to) {
                        let detail = format!("server {id} promised {} to {first} and to {to}", promise.epoch);
                        return Err(Violation::new(PROMISE, detail));
                    }
                }
                let history = image.current_epoch == promise.current_epoch && disk.last() == promise.last_zxid;
                (promise.epoch, history && image.accepted_epoch >= promise.epoch)
            }
            Message::AckLeader { epoch, last } | Message::TakenOver { epoch, last } => {
                (*epoch, image.current_epoch == *epoch && disk.holds(*last))
            }
            Message::Ack { epoch, zxid, .. } => (*epoch, image.current_epoch == *epoch && disk.holds(*zxid)),
            Message::Hello(_)
            | Message::Decline
            | Message::NewEpoch { .. }
            | Message::RefuseEpoch { .. }
            | Message::Pull { .. }
            | Message::Truncate { .. }
            | Message::Snapshot(_)
            | Message::Entries { .. }
            | Message::Received
            | Message::PullEnd { .. }
            | Message::NewLeader { .. }
            | Message::UpToDate { .. }
            | Message::Propose { .. }
            | Message::Commit { .. }
            | Message::Handover { .. }
            | Message::Ping { .. }
            | Message::Pong { .. } => return Ok(()),
        };
        if !durable {
            let detail = format!("server {id} sends {message:?} with {image:?} on its disk");
            return Err(Violation::new(ACKNOWLEDGED, detail));
        }
        if epoch < image.accepted_epoch {
            let detail = format!("server {id} promised {} and sends {message:?}", image.accepted_epoch);
            return Err(Violation::new(PROMISE, detail));
        }
        Ok(())
    }
}

/// Checks that everything committed is on the disks of a quorum: of the members after the last change and, if nothing
/// behind that is committed, also of those before it.
pub(crate) fn durability(world: &World) -> Result<(), Violation> {
    let committed = &world.observations.committed;
    let has_all = |server: &&Server| {
        let entries = &server.disk.image.entries;
        entries.len() >= committed.len() && entries.iter().zip(committed).all(|(ours, theirs)| ours == theirs)
    };
    let (mut before, mut members) = (None, world.members.membership());
    for entry in committed {
        let change = members::changed_by(&entry.body);
        before = change.is_some().then(|| members.clone());
        members = change.unwrap_or(members);
    }
    let holders: Vec<_> = world.all().filter(|at| has_all(&&world.servers[*at].server)).map(id).collect();
    let mut counted = before.iter().chain([&members]);
    if !counted.all(|members| members.voters().is_quorum(holders.iter().copied())) {
        let last = committed.last().map_or(Zxid::ZERO, |entry| entry.zxid);
        return Err(Violation::new(DURABILITY, format!("{last} is committed, but on the disks of {holders:?} only")));
    }
    Ok(())
}
