//! One connection of an observer to a leader of Apache ZooKeeper, without I/O: bytes go in, effects come out.
//!
//! ```text
//! observer                              leader
//! ObserverInfo(accepted epoch, id)  ->
//!                                   <-  LeaderInfo(epoch)
//! AckEpoch(current epoch, last zxid)->
//!                                   <-  Diff | Trunc | Snap, state, signature
//!                                   <-  Proposal, Commit … | Inform …
//!                                   <-  NewLeader(epoch, configuration)
//! Ack                               ->
//!                                   <-  UpToDate
//! Ack                               ->
//!                                   <-  Inform …, Ping(last proposed)
//! Ping                              ->
//! ```
//!
//! Effects have to be carried out in order. What an acknowledgement promises comes before it in the list.
//!
//! Apache writes the state of `Snap` while its leader goes on: it may already contain later transactions, and lack none
//! up to its zxid. The transactions that follow are applied on top, also those that it contains. At `NewLeader` the
//! result is exact; only then is it written to disk as a snapshot.
//!
//! Invariant: the zxids of [`Effect::Commit`] have no gap, and never go back.

use std::collections::{BTreeSet, VecDeque};

use bytes::{BufMut, Bytes, BytesMut};
use pole_jute::{Reader, Record, TxnHeader};
use pole_tree::{RestoreError, Restorer, Rules, Tree};
use pole_types::{Cxid, Epoch, ServerId, SessionId, Zxid};
use pole_zab::{Entry, Origin};

use crate::packet::{Kind, Packet, PacketError};

/// What an observer knows when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// An id that no server of the ensemble has.
    pub id: ServerId,
    /// The last epoch promised.
    pub accepted: Epoch,
    /// The last epoch whose history was adopted.
    pub current: Epoch,
    /// The last transaction.
    pub last: Zxid,
}

/// Limits on what a leader may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest packet. A transaction is about as large as its request, which `jute.maxbuffer` limits to 1 MiB unless
    /// it is set; one that closes a session lists its ephemeral nodes.
    pub packet_bytes_max: usize,
    /// The largest state. The tree in memory takes about twice as much.
    pub state_bytes_max: u64,
    /// Proposals that wait for their commit while a `Diff` arrives. Apache sends each commit right after its proposal.
    pub proposals_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { packet_bytes_max: 64 << 20, state_bytes_max: 64 << 30, proposals_max: 1_000 }
    }
}

/// What the driver has to do, in order.
#[derive(Debug)]
pub enum Effect {
    /// Send these bytes, after everything before is durable.
    Send(Bytes),
    /// Record the promise to follow no leader of a lower epoch.
    Accept(Epoch),
    /// Remove all transactions after this one.
    Truncate(Zxid),
    /// Replace the state in memory by this one, which contains everything up to the zxid and perhaps more.
    Restore(Zxid, Box<Tree>),
    /// Apply a transaction again that a restored state may contain already. It is not part of the log.
    Reapply(Entry),
    /// Apply and log the next committed transaction.
    Commit(Entry),
    /// Make everything durable, the state too if it was restored, and record the epoch of the leader.
    Adopt {
        /// The leader's epoch.
        epoch: Epoch,
        /// The servers of the ensemble, as the leader knows them; empty if it does not say.
        members: BTreeSet<ServerId>,
    },
    /// The servers of the ensemble have changed. A new connection says what they are now.
    Changed,
    /// The leader is established, and this observer has what it had committed.
    UpToDate,
    /// The leader's last proposal, committed or not.
    Proposed(Zxid),
}

/// Why a connection cannot go on. Nothing wrong was written.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// Bytes that are no packet.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// A packet that is not allowed here.
    #[error("expected {expected}, got a packet of type {got:?}")]
    Unexpected {
        /// What the protocol allows.
        expected: &'static str,
        /// What arrived.
        got: Kind,
    },
    /// A leader of an epoch that is over.
    #[error("the leader is of epoch {got}, and epoch {accepted} was accepted before; it is not the leader any more")]
    OldEpoch {
        /// The leader's epoch.
        got: Epoch,
        /// The last epoch promised.
        accepted: Epoch,
    },
    /// Another protocol version.
    #[error("the leader speaks version {got:#x} of the protocol, expected {PROTOCOL_VERSION:#x}")]
    Version {
        /// Its version.
        got: i32,
    },
    /// The id of this observer belongs to a server.
    #[error(
        "the ensemble has a server {id}: an observer under this id would vote in its name; choose another with --id"
    )]
    IdTaken {
        /// The id.
        id: ServerId,
    },
    /// A transaction is missing.
    #[error("expected the transaction after {last}, got {got}")]
    Gap {
        /// The last transaction here.
        last: Zxid,
        /// The one that arrived.
        got: Zxid,
    },
    /// A truncation to a later transaction than the last one, or to a negative one.
    #[error("the leader wants a truncation to {to:#x}, and the history ends at {last}")]
    Truncation {
        /// The last transaction to keep.
        to: i64,
        /// The last one here.
        last: Zxid,
    },
    /// A packet whose content is not what its type says.
    #[error("a packet of type {kind:?} has {what}")]
    Content {
        /// The type.
        kind: Kind,
        /// What is wrong.
        what: String,
    },
    /// The state is invalid.
    #[error(transparent)]
    State(#[from] RestoreError),
    /// The state is not followed by its signature.
    #[error("the state is not followed by the signature that ends it")]
    Signature,
    /// More than a limit allows.
    #[error("{what} of more than {max}")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// The limit.
        max: u64,
    },
}

/// The observer's side of a connection.
#[derive(Debug)]
pub struct Learner {
    start: Start,
    limits: Limits,
    /// The leader's epoch, once it is known.
    epoch: Epoch,
    /// The last transaction committed here.
    last: Zxid,
    arrived: BytesMut,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// Waits for `LeaderInfo`.
    Greeting,
    /// Waits for `Diff`, `Trunc` or `Snap`.
    Choosing,
    /// Receives the state.
    Restoring {
        zxid: Zxid,
        bytes: u64,
        restorer: Box<Restorer>,
    },
    /// Waits for the signature after the state.
    Signature {
        zxid: Zxid,
        restorer: Box<Restorer>,
    },
    /// Receives what the leader has committed meanwhile, up to `UpToDate`.
    Synchronising {
        restored: bool,
        adopted: bool,
        proposals: VecDeque<Entry>,
    },
    Following,
}

impl Learner {
    /// A new connection, and the bytes to send first.
    #[must_use]
    pub fn new(start: Start, limits: Limits) -> (Self, Bytes) {
        let mut info = BytesMut::new();
        info.put_u64(start.id.0);
        info.put_i32(PROTOCOL_VERSION);
        // The version of our configuration: we have none, so it is never newer than the leader's.
        info.put_i64(0);
        let first = Packet::new(Kind::ObserverInfo, first_of(start.accepted), Some(info.freeze()));
        let (epoch, last) = (start.accepted, start.last);
        let learner = Self { start, limits, epoch, last, arrived: BytesMut::new(), phase: Phase::Greeting };
        (learner, first.encode())
    }

    /// Takes the next bytes from the leader.
    ///
    /// # Errors
    /// If they violate the protocol or a limit. The connection has to be closed. Effects that were returned before are
    /// valid; those of this call are lost.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Effect>, ProtocolError> {
        let mut effects = Vec::new();
        self.arrived.extend_from_slice(bytes);
        loop {
            let went_on = match &mut self.phase {
                Phase::Restoring { .. } => self.restore()?,
                Phase::Signature { .. } => self.check_signature(&mut effects)?,
                Phase::Greeting | Phase::Choosing | Phase::Synchronising { .. } | Phase::Following => {
                    match Packet::cut(&mut self.arrived, self.limits.packet_bytes_max)? {
                        Some(packet) => self.packet(packet, &mut effects).map(|()| true)?,
                        None => false,
                    }
                }
            };
            if !went_on {
                return Ok(effects);
            }
        }
    }

    /// The leader's epoch, or the last one that was accepted.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether a state is being received, which takes long and has no pings.
    #[must_use]
    pub fn is_restoring(&self) -> bool {
        matches!(self.phase, Phase::Restoring { .. } | Phase::Signature { .. })
    }

    /// Takes a part of the state. Returns whether the phase has changed.
    fn restore(&mut self) -> Result<bool, ProtocolError> {
        let Phase::Restoring { zxid, bytes, restorer } = &mut self.phase else { return Ok(false) };
        let piece = self.arrived.split().freeze();
        *bytes += piece.len() as u64;
        let max = self.limits.state_bytes_max;
        if *bytes > max {
            return Err(ProtocolError::Limit { what: "a state", max });
        }
        restorer.feed(piece)?;
        let Some(rest) = restorer.take_rest() else { return Ok(false) };
        let (zxid, restorer) = (*zxid, std::mem::replace(restorer, Box::new(Restorer::new(Rules::default()))));
        self.arrived = BytesMut::from(&rest[..]);
        self.phase = Phase::Signature { zxid, restorer };
        Ok(true)
    }

    /// Ends the state. Returns whether the phase has changed.
    fn check_signature(&mut self, effects: &mut Vec<Effect>) -> Result<bool, ProtocolError> {
        if !SIGNATURE.starts_with(&self.arrived[..self.arrived.len().min(SIGNATURE.len())]) {
            return Err(ProtocolError::Signature);
        }
        if self.arrived.len() < SIGNATURE.len() {
            return Ok(false);
        }
        let _ = self.arrived.split_to(SIGNATURE.len());
        let next = Phase::Synchronising { restored: true, adopted: false, proposals: VecDeque::new() };
        let Phase::Signature { zxid, restorer } = std::mem::replace(&mut self.phase, next) else { return Ok(false) };
        self.last = zxid;
        let tree = restorer.finish()?.with_last_zxid(zxid.0.cast_signed());
        effects.push(Effect::Restore(zxid, Box::new(tree)));
        Ok(true)
    }

    fn packet(&mut self, packet: Packet, effects: &mut Vec<Effect>) -> Result<(), ProtocolError> {
        match &self.phase {
            Phase::Greeting => self.leader_info(&packet, effects),
            Phase::Choosing => self.choice(&packet, effects),
            Phase::Synchronising { .. } => self.synchronise(packet, effects),
            Phase::Following => self.follow(packet, effects),
            Phase::Restoring { .. } | Phase::Signature { .. } => Ok(()),
        }
    }

    fn leader_info(&mut self, packet: &Packet, effects: &mut Vec<Effect>) -> Result<(), ProtocolError> {
        if packet.kind != Kind::LeaderInfo {
            return Err(ProtocolError::Unexpected { expected: "LeaderInfo", got: packet.kind });
        }
        let version = packet.data.as_deref().and_then(|data| data.first_chunk().copied()).map(i32::from_be_bytes);
        if version != Some(PROTOCOL_VERSION) {
            return Err(ProtocolError::Version { got: version.unwrap_or_default() });
        }
        let (epoch, accepted) = (zxid_of(packet)?.epoch(), self.start.accepted);
        if epoch < accepted {
            return Err(ProtocolError::OldEpoch { got: epoch, accepted });
        }
        // A promise is made once; -1 stands for one that was made before.
        let acknowledged = if epoch > accepted { self.start.current.0 } else { u32::MAX };
        self.epoch = epoch;
        self.phase = Phase::Choosing;
        effects.push(Effect::Accept(epoch));
        let data = Bytes::copy_from_slice(&acknowledged.to_be_bytes());
        effects.push(send(Kind::AckEpoch, self.last.0.cast_signed(), Some(data)));
        Ok(())
    }

    fn choice(&mut self, packet: &Packet, effects: &mut Vec<Effect>) -> Result<(), ProtocolError> {
        let synchronising = || Phase::Synchronising { restored: false, adopted: false, proposals: VecDeque::new() };
        #[expect(clippy::wildcard_enum_match_arm, reason = "the leader chooses one of three")]
        match packet.kind {
            Kind::Diff => self.phase = synchronising(),
            Kind::Trunc => {
                let to = u64::try_from(packet.zxid).map(Zxid).ok().filter(|to| *to <= self.last);
                let to = to.ok_or(ProtocolError::Truncation { to: packet.zxid, last: self.last })?;
                self.last = to;
                self.phase = synchronising();
                effects.push(Effect::Truncate(to));
            }
            Kind::Snap => {
                let restorer = Box::new(Restorer::new(Rules::default()));
                self.phase = Phase::Restoring { zxid: zxid_of(packet)?, bytes: 0, restorer };
            }
            got => return Err(ProtocolError::Unexpected { expected: "Diff, Trunc or Snap", got }),
        }
        Ok(())
    }

    fn synchronise(&mut self, packet: Packet, effects: &mut Vec<Effect>) -> Result<(), ProtocolError> {
        let Phase::Synchronising { adopted, proposals, .. } = &mut self.phase else { return Ok(()) };
        #[expect(clippy::wildcard_enum_match_arm, reason = "everything else is not allowed here")]
        match packet.kind {
            Kind::Proposal => {
                proposals.push_back(entry_of(&packet, 0)?);
                let max = self.limits.proposals_max;
                if proposals.len() > max {
                    return Err(ProtocolError::Limit { what: "proposals without a commit", max: max as u64 });
                }
            }
            Kind::Commit | Kind::CommitAndActivate => {
                let zxid = zxid_of(&packet)?;
                match proposals.pop_front() {
                    Some(entry) if entry.zxid == zxid => self.commit(entry, effects)?,
                    Some(_) | None => return Err(ProtocolError::Gap { last: self.last, got: zxid }),
                }
            }
            Kind::Inform => self.commit(entry_of(&packet, 0)?, effects)?,
            Kind::InformAndActivate => self.commit(entry_of(&packet, DESIGNATED_BYTES)?, effects)?,
            Kind::NewLeader => {
                *adopted = true;
                let members = members_of(&packet.data.unwrap_or_default());
                if members.contains(&self.start.id) {
                    return Err(ProtocolError::IdTaken { id: self.start.id });
                }
                effects.push(Effect::Adopt { epoch: self.epoch, members });
                effects.push(send(Kind::Ack, packet.zxid, None));
            }
            Kind::UpToDate if *adopted => {
                self.phase = Phase::Following;
                effects.push(Effect::UpToDate);
                effects.push(send(Kind::Ack, first_of(self.epoch), None));
            }
            Kind::Ping => self.ping(&packet, effects),
            got => return Err(ProtocolError::Unexpected { expected: "transactions, NewLeader or UpToDate", got }),
        }
        Ok(())
    }

    fn follow(&mut self, packet: Packet, effects: &mut Vec<Effect>) -> Result<(), ProtocolError> {
        match packet.kind {
            Kind::Inform => self.commit(entry_of(&packet, 0)?, effects)?,
            Kind::InformAndActivate => {
                self.commit(entry_of(&packet, DESIGNATED_BYTES)?, effects)?;
                effects.push(Effect::Changed);
            }
            Kind::Ping => self.ping(&packet, effects),
            // They are for followers or for clients of this observer, and a release that sends them is no reason to stop:
            // a transaction that is missed shows as a gap.
            Kind::Proposal | Kind::Commit | Kind::Sync | Kind::Revalidate | Kind::UpToDate | Kind::Other(_) => {}
            got @ (Kind::Ack
            | Kind::CommitAndActivate
            | Kind::NewLeader
            | Kind::Diff
            | Kind::Trunc
            | Kind::Snap
            | Kind::ObserverInfo
            | Kind::LeaderInfo
            | Kind::AckEpoch) => return Err(ProtocolError::Unexpected { expected: "Inform or Ping", got }),
        }
        Ok(())
    }

    /// A transaction that the leader has committed.
    fn commit(&mut self, entry: Entry, effects: &mut Vec<Effect>) -> Result<(), ProtocolError> {
        let (last, got) = (self.last, entry.zxid);
        if got <= last {
            if let Phase::Synchronising { restored: true, adopted: false, .. } = self.phase {
                effects.push(Effect::Reapply(entry));
            }
            return Ok(());
        }
        let same_epoch = got.epoch() == last.epoch() && got.counter() == last.counter().wrapping_add(1);
        let new_epoch = got.epoch() > last.epoch() && got.epoch() <= self.epoch && got.counter() == 1;
        if !same_epoch && !new_epoch {
            return Err(ProtocolError::Gap { last, got });
        }
        self.last = got;
        effects.push(Effect::Commit(entry));
        Ok(())
    }

    fn ping(&self, packet: &Packet, effects: &mut Vec<Effect>) {
        if let Ok(proposed) = u64::try_from(packet.zxid) {
            effects.push(Effect::Proposed(Zxid(proposed)));
        }
        // Without sessions of its own, an observer has none to keep alive. The leader requires data, even if empty.
        effects.push(send(Kind::Ping, packet.zxid, Some(Bytes::new())));
    }
}

/// The servers in a configuration, which has a line `server.N=…` for each.
fn members_of(configuration: &[u8]) -> BTreeSet<ServerId> {
    let id = |line: &str| line.trim_start().strip_prefix("server.")?.split_once('=')?.0.trim().parse().ok();
    String::from_utf8_lossy(configuration).lines().filter_map(id).map(ServerId).collect()
}

/// The transaction in a packet, after `skipped` bytes of another meaning.
fn entry_of(packet: &Packet, skipped: usize) -> Result<Entry, ProtocolError> {
    let content = |what: String| ProtocolError::Content { kind: packet.kind, what };
    let data = packet.data.clone().unwrap_or_default();
    let body = match data.len().checked_sub(skipped) {
        Some(_) => data.slice(skipped..),
        None => return Err(content(format!("{} bytes, expected at least {skipped}", data.len()))),
    };
    let header = TxnHeader::read(&mut Reader::new(body.clone())).map_err(|error| content(error.to_string()))?;
    if header.zxid != packet.zxid || header.zxid <= 0 {
        return Err(content(format!("the zxid {:#x}, and its transaction {:#x}", packet.zxid, header.zxid)));
    }
    let origin = Origin { session: SessionId(header.client_id), cxid: Cxid(header.cxid) };
    // A copy: otherwise a transaction would keep the whole receive buffer in memory.
    Ok(Entry { zxid: Zxid(header.zxid.cast_unsigned()), origin, body: Bytes::copy_from_slice(&body) })
}

fn zxid_of(packet: &Packet) -> Result<Zxid, ProtocolError> {
    let negative = |_| ProtocolError::Content { kind: packet.kind, what: format!("the zxid {}", packet.zxid) };
    u64::try_from(packet.zxid).map(Zxid).map_err(negative)
}

fn send(kind: Kind, zxid: i64, data: Option<Bytes>) -> Effect {
    Effect::Send(Packet::new(kind, zxid, data).encode())
}

/// The position before the first transaction of an epoch.
fn first_of(epoch: Epoch) -> i64 {
    Zxid::new(epoch, 0).0.cast_signed()
}

/// The version of all releases since 3.4.
const PROTOCOL_VERSION: i32 = 0x1_0000;

/// The server that is to lead next, before the transaction of `InformAndActivate`.
const DESIGNATED_BYTES: usize = 8;

/// What Apache's leader writes after the state: a string with its length.
const SIGNATURE: &[u8] = b"\0\0\0\x0aBenWasHere";

#[cfg(test)]
mod tests;
