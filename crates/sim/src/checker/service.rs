//! Checks the answers to ZooKeeper clients against the committed history, applied to one tree.
//!
//! - Every transaction is what its request becomes on the tree of all transactions before it. The leader validated it
//!   against transactions in flight, with a different view, so this repeats the validation.
//! - The requests of a session are in the history once and in the order in which they were sent, and none of a
//!   connection that the session has left comes after the next attachment.
//! - Answers are those of their transactions, reads return exactly the state at their zxid, and neither goes back.
//!
//! Silence and expiry (`sessions`), watches (`watches`) and ephemerals (`ephemerals`) are checked elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use pole_jute::{
    ErrorCode, EventType, ExistsResponse, GetChildren2Response, GetDataResponse, Reader, Record, Request, Stat, Txn,
    TxnEntry,
};
use pole_tree::{Changes, Position, Prepared, RequestOrigin, SessionChange, Tree, WriteRequest};
use pole_types::{Cxid, SessionId, Zxid};
use pole_zab::{Entry, Origin};

use super::ephemerals::Ephemerals;
use super::{CheckResult, Response};
use crate::state::RULES;

/// The model of the service: its tree, and all requests so far.
#[derive(Debug)]
pub(crate) struct Service {
    tree: Tree,
    /// Scratch buffer, reused to avoid reallocation.
    changes: Changes,
    /// The reply to each transaction.
    replies: BTreeMap<Zxid, Bytes>,
    /// All changes that a watch can see, in order.
    pub(crate) node_events: Vec<NodeEvent>,
    /// The states of each path, with the zxid from which they hold.
    timelines: BTreeMap<String, Vec<(Zxid, Option<NodeState>)>>,
    writes: BTreeMap<(SessionId, Cxid), SentWrite>,
    sessions: BTreeMap<SessionId, Session>,
    ephemerals: Ephemerals,
    /// The last write acknowledged to any client.
    acknowledged: Zxid,
    pub(crate) writes_acknowledged: u64,
    /// Sessions that the leader expired since the last [`Service::take_expired`].
    expired: Vec<SessionId>,
}

/// A change that a watch can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeEvent {
    pub(crate) zxid: Zxid,
    pub(crate) kind: EventType,
    pub(crate) path: Arc<str>,
}

/// A node after some transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeState {
    pub(crate) stat: Stat,
    data: Option<Bytes>,
}

/// A write that was sent.
#[derive(Clone, Debug)]
struct SentWrite {
    body: Bytes,
    /// The attachment under which it was sent.
    floor: Zxid,
    /// The last write acknowledged to any client by then.
    after: Zxid,
}

#[derive(Clone, Debug, Default)]
struct Session {
    /// The attachment requests that were sent; a resumed session has two forms of them.
    attachments: Vec<Bytes>,
    timeout_ms: i32,
    /// By the committed history: its last attachment, and its last request.
    attached: Zxid,
    last: Cxid,
    is_over: bool,
    /// The newest state that its client has seen.
    seen: Zxid,
}

impl Service {
    /// The service of an ensemble whose members are described by `members`, if they can change.
    pub(crate) fn new(members: &[u8]) -> Self {
        let mut tree = Tree::new(RULES);
        if !members.is_empty() {
            tree.set_config(members);
        }
        Self {
            tree,
            changes: Changes::new(),
            replies: BTreeMap::new(),
            node_events: Vec::new(),
            timelines: BTreeMap::new(),
            writes: BTreeMap::new(),
            sessions: BTreeMap::new(),
            ephemerals: Ephemerals::default(),
            acknowledged: Zxid::ZERO,
            writes_acknowledged: 0,
            expired: Vec::new(),
        }
    }

    /// The digest of the tree after the whole history.
    pub(crate) fn digest(&self) -> u64 {
        self.tree.digest()
    }

    /// The last write acknowledged to any client.
    pub(crate) fn acknowledged(&self) -> Zxid {
        self.acknowledged
    }

    /// The timeout of a session in milliseconds, if it is open by the history.
    pub(crate) fn timeout_ms(&self, session: SessionId) -> Option<u64> {
        let known = self.sessions.get(&session).filter(|known| known.attached > Zxid::ZERO && !known.is_over)?;
        Some(u64::from(known.timeout_ms.unsigned_abs()))
    }

    /// Takes the sessions that the leader expired since the last call.
    pub(crate) fn take_expired(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.expired)
    }

    /// Registers a session request.
    pub(crate) fn session_requested(&mut self, session: SessionId, body: &Bytes) {
        let attachments = &mut self.sessions.entry(session).or_default().attachments;
        if !attachments.contains(body) {
            attachments.push(body.clone());
        }
    }

    /// Registers a write, sent under the attachment at `floor`.
    pub(crate) fn write_requested(&mut self, session: SessionId, cxid: Cxid, floor: Zxid, body: Bytes) {
        let after = self.acknowledged;
        self.writes.insert((session, cxid), SentWrite { body, floor, after });
    }

    /// Checks and applies the next entry of the history.
    pub(crate) fn committed(&mut self, entry: &Entry) -> CheckResult {
        let zxid = entry.zxid;
        let txn = TxnEntry::read(&mut Reader::new(entry.body.clone()))
            .map_err(|error| format!("{zxid} is no transaction: {error}"))?;
        let header = &txn.header;
        if (header.client_id, header.cxid) != (entry.origin.session.0, entry.origin.cxid.0)
            || header.zxid != zxid.0.cast_signed()
        {
            return Err(format!("{zxid} is of {}, but its header says {header:?}", entry.origin));
        }
        self.check_request(entry, &txn)?;
        self.ephemerals.committed(zxid, &txn)?;
        self.changes.clear();
        let applied = self.tree.apply(&txn, true, &mut self.changes);
        self.node_events.extend(self.changes.iter().map(|c| NodeEvent {
            zxid,
            kind: c.kind,
            path: Arc::clone(&c.path),
        }));
        self.record_session(entry, applied.session)?;
        let (code, body) = applied.reply.unwrap_or((ErrorCode::SystemError, Bytes::new()));
        let body = match applied.session {
            Some(SessionChange::Attached { timeout_ms, .. }) => Bytes::copy_from_slice(&timeout_ms.to_be_bytes()),
            Some(SessionChange::Closed { .. }) | None => body,
        };
        self.replies.insert(zxid, [&code.number().to_be_bytes()[..], &body].concat().into());
        self.record_nodes(zxid, &txn.txn);
        Ok(())
    }

    /// Checks that the transaction is what its request becomes on top of the history.
    fn check_request(&mut self, entry: &Entry, txn: &TxnEntry) -> CheckResult {
        let (zxid, origin) = (entry.zxid, entry.origin);
        if origin == (Origin { session: SessionId::default(), cxid: Cxid::OWN }) {
            return self.check_seal(zxid, &txn.txn);
        }
        let session = self.sessions.entry(origin.session).or_default();
        let close = [WriteRequest::close()];
        let (bodies, floor) = if origin.cxid == Cxid::OWN {
            (&close[..], Zxid::ZERO)
        } else if origin.cxid.is_attachment() {
            (&session.attachments[..], Zxid::ZERO)
        } else {
            let asked = self.writes.get(&(origin.session, origin.cxid));
            let asked = asked.ok_or_else(|| format!("{zxid} is {origin}, which nobody asked"))?;
            if asked.floor != session.attached && !session.is_over {
                return Err(format!(
                    "{zxid} is {origin}, asked under the attachment at {}, but the session is attached at {}",
                    asked.floor, session.attached
                ));
            }
            // A request of an older connection may come after the end of the session, and gets its error.
            let is_late = asked.floor != session.attached;
            if origin.cxid <= session.last && !is_late {
                return Err(format!("{zxid} is {origin}, after #{} of the same session", session.last));
            }
            session.last = session.last.max(origin.cxid);
            (std::slice::from_ref(&asked.body), asked.floor)
        };
        let at = Position { zxid: zxid.0.cast_signed(), wall_ms: txn.header.time };
        let from = RequestOrigin { session: origin.session.0, cxid: origin.cxid.0, floor: floor.0.cast_signed() };
        // Whether the members can be changed depends on who is reachable.
        let becomes = |body, may_change| {
            let prepared = Prepared::new().prepare(&self.tree, at, from, body, &|_| may_change);
            prepared.is_some_and(|prepared| prepared == entry.body)
        };
        match bodies.iter().any(|body| becomes(body, true) || becomes(body, false)) {
            true => Ok(()),
            false => Err(format!("{zxid} says {:?}, which its request does not become after all before it", txn.txn)),
        }
    }

    /// Checks an entry without effect, which a leader puts behind a change of the members and nowhere else.
    fn check_seal(&self, zxid: Zxid, txn: &Txn) -> CheckResult {
        let is_behind_change = self.tree.members().is_some_and(|(_, version)| version == self.tree.last_zxid());
        if is_behind_change && matches!(txn, Txn::Error(error) if error.err == 0) {
            return Ok(());
        }
        Err(format!("{zxid} is {txn:?}, which nobody asked, after {:#x}", self.tree.last_zxid()))
    }

    fn record_session(&mut self, entry: &Entry, change: Option<SessionChange>) -> CheckResult {
        let session = self.sessions.entry(entry.origin.session).or_default();
        match change {
            None => {}
            Some(SessionChange::Attached { .. }) if session.is_over => {
                return Err(format!("{} attaches session {}, which is over", entry.zxid, entry.origin.session));
            }
            Some(SessionChange::Attached { timeout_ms, .. }) => {
                (session.attached, session.timeout_ms) = (entry.zxid, timeout_ms);
            }
            Some(SessionChange::Closed { .. }) if session.is_over => {
                return Err(format!("{} ends session {} a second time", entry.zxid, entry.origin.session));
            }
            Some(SessionChange::Closed { .. }) => {
                session.is_over = true;
                if entry.origin.cxid == Cxid::OWN {
                    self.expired.push(entry.origin.session);
                }
            }
        }
        Ok(())
    }

    fn record_nodes(&mut self, zxid: Zxid, txn: &Txn) {
        for path in touched(txn) {
            let data = self.tree.data(&path).flatten().map(Bytes::copy_from_slice);
            let seen = self.tree.stat(&path).map(|stat| NodeState { stat, data });
            self.timelines.entry(path).or_default().push((zxid, seen));
        }
    }

    /// The node after `zxid`.
    pub(crate) fn node_at(&self, path: &str, zxid: Zxid) -> Option<&NodeState> {
        let timeline = self.timelines.get(path)?;
        let after = timeline.partition_point(|(at, _)| *at <= zxid);
        timeline.get(after.checked_sub(1)?)?.1.as_ref()
    }

    /// Checks the answer to a session request: attached, or expired.
    pub(crate) fn attached(&mut self, session: SessionId, response: &Response) -> CheckResult {
        self.check_reply(session, response)?;
        self.check_monotonic(session, response.zxid)
    }

    /// Checks the answer to a write.
    pub(crate) fn wrote(&mut self, session: SessionId, cxid: Cxid, response: &Response) -> CheckResult {
        let asked = self.writes.get(&(session, cxid));
        let after = asked.map(|asked| asked.after).ok_or_else(|| format!("{session}#{cxid} was not asked"))?;
        self.check_reply(session, response)?;
        if response.zxid <= after {
            let zxid = response.zxid;
            return Err(format!("{session}#{cxid} stands at {zxid}, but {after} had been acknowledged before it"));
        }
        self.acknowledged = self.acknowledged.max(response.zxid);
        self.writes_acknowledged += 1;
        self.check_monotonic(session, response.zxid)
    }

    fn check_reply(&self, session: SessionId, response: &Response) -> CheckResult {
        let expected = self.replies.get(&response.zxid);
        match expected == Some(&response.body) {
            true => Ok(()),
            false => {
                Err(format!("session {session} is answered {:?} at {}, not {expected:?}", response.body, response.zxid))
            }
        }
    }

    /// Checks the answer to a sync that was sent when `after` had been acknowledged.
    pub(crate) fn synced(&mut self, session: SessionId, after: Zxid, response: &Response) -> CheckResult {
        if response.zxid < after {
            return Err(format!(
                "a sync is answered at {}, but {after} had been acknowledged before it",
                response.zxid
            ));
        }
        self.check_monotonic(session, response.zxid)
    }

    /// Checks the answer to a read.
    #[expect(clippy::wildcard_enum_match_arm, reason = "simulated clients send no other reads")]
    pub(crate) fn read(&mut self, session: SessionId, request: &Request, response: &Response) -> CheckResult {
        let (code, body) = split(response);
        let (path, actual) = match request {
            Request::GetData(request) => {
                let actual =
                    GetDataResponse::decode(body).map(|actual| NodeState { stat: actual.stat, data: actual.data });
                (&request.path, actual.ok())
            }
            Request::Exists(request) => {
                let data = self.node_at(&request.path, response.zxid).and_then(|node| node.data.clone());
                (&request.path, ExistsResponse::decode(body).map(|actual| NodeState { stat: actual.stat, data }).ok())
            }
            Request::GetChildren2(request) => {
                let data = self.node_at(&request.path, response.zxid).and_then(|node| node.data.clone());
                let actual = GetChildren2Response::decode(body).ok();
                let actual = actual.filter(|actual| actual.children.len() as i32 == actual.stat.num_children);
                (&request.path, actual.map(|actual| NodeState { stat: actual.stat, data }))
            }
            other => return Err(format!("{other:?} is no read that a client asks here")),
        };
        let expected = self.node_at(path, response.zxid);
        let is_expected = match code {
            0 => actual.as_ref() == expected && expected.is_some(),
            code => code == ErrorCode::NoNode.number() && expected.is_none(),
        };
        if !is_expected {
            let zxid = response.zxid;
            return Err(format!("a read of {path} at {zxid} says {actual:?} (code {code}), the history {expected:?}"));
        }
        self.check_monotonic(session, response.zxid)
    }

    /// Checks that what a session sees never goes back.
    pub(crate) fn check_monotonic(&mut self, session: SessionId, zxid: Zxid) -> CheckResult {
        let known = self.sessions.entry(session).or_default();
        if zxid < known.seen {
            return Err(format!("session {session} had seen {} and is answered at {zxid}", known.seen));
        }
        known.seen = zxid;
        Ok(())
    }
}

/// Splits an answer into its error code and its body.
pub(crate) fn split(response: &Response) -> (i32, Bytes) {
    match response.body.split_first_chunk() {
        Some((code, _)) => (i32::from_be_bytes(*code), response.body.slice(4..)),
        None => (ErrorCode::SystemError.number(), Bytes::new()),
    }
}

/// The nodes that a transaction may have changed, including parents.
fn touched(txn: &Txn) -> Vec<String> {
    let with_parent = |path: &String| {
        let parent = path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
        [Some(path.clone()), parent.filter(|parent| !parent.is_empty())].into_iter().flatten().collect()
    };
    match txn {
        Txn::Create(txn) | Txn::Create2(txn) => with_parent(&txn.path),
        Txn::CreateContainer(txn) => with_parent(&txn.path),
        Txn::CreateTtl(txn) => with_parent(&txn.path),
        Txn::Delete(txn) | Txn::DeleteContainer(txn) => with_parent(&txn.path),
        Txn::SetData(txn) | Txn::Reconfig(txn) => vec![txn.path.clone()],
        Txn::SetAcl(txn) => vec![txn.path.clone()],
        Txn::CloseSession(Some(txn)) => txn.paths_to_delete.iter().flat_map(with_parent).collect(),
        Txn::Multi(multi) => multi.txns.iter().flat_map(touched).collect(),
        Txn::CloseSession(None) | Txn::Check(_) | Txn::CreateSession(_) | Txn::Error(_) => Vec::new(),
    }
}
