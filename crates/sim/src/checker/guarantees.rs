//! Checks the answers to workload clients against the committed history.
//!
//! - An acknowledged write is in the history, once, with the answer that its client received. An unacknowledged one is
//!   unknown: there once or not at all.
//! - The requests of a session are in the order in which they were sent, and none of a connection that the session has
//!   left comes after the next attachment.
//! - A write is ordered after everything that was acknowledged before it was sent; a read after a sync shows everything
//!   that was acknowledged before the sync.
//! - What a session sees never goes back, and every read returns exactly the state at its zxid.

use std::collections::BTreeMap;

use bytes::Bytes;
use pole_node::ClientId;
use pole_types::{Cxid, SessionId, Zxid};
use pole_zab::Entry;

use super::CheckResult;
use super::history::History;
use crate::kv::{Answer, Change, Key, KvRequest, MEMBERS, OpId, Refusal, Txn};

/// All requests so far.
#[derive(Debug)]
pub(crate) struct Guarantees {
    requests: Vec<Record>,
    sessions: BTreeMap<SessionId, Session>,
    /// The last write acknowledged to any client.
    acknowledged: Zxid,
    pub(crate) writes_acknowledged: u64,
}

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientOp {
    Attach(Change),
    Write(Change),
    Read(Key),
    Sync,
}

/// The answer that a client received.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) zxid: Zxid,
    pub(crate) body: Bytes,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    session: SessionId,
    connection: ClientId,
    cxid: Cxid,
    request: ClientOp,
    /// The last write acknowledged to any client when this was sent.
    after: Zxid,
    committed: Option<Zxid>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Session {
    /// By the committed history: the connection to which the session is attached, and its last request.
    attached: Option<ClientId>,
    last: Cxid,
    /// The newest state that the client has seen.
    seen: Zxid,
}

impl Guarantees {
    pub(crate) fn new() -> Self {
        let (requests, sessions) = (Vec::new(), BTreeMap::new());
        Self { requests, sessions, acknowledged: Zxid::ZERO, writes_acknowledged: 0 }
    }

    /// Registers a request that a client is about to send.
    pub(crate) fn register(&mut self, session: SessionId, connection: ClientId, cxid: Cxid, request: ClientOp) -> OpId {
        let after = self.acknowledged;
        self.requests.push(Record { session, connection, cxid, request, after, committed: None });
        self.requests.len() as OpId - 1
    }

    /// Checks an entry that is about to be added to the history.
    pub(crate) fn committed(&mut self, entry: &Entry, history: &History) -> CheckResult {
        let txn = Txn::decode(&entry.body).ok_or_else(|| format!("{} is no transaction", entry.zxid))?;
        let (Some(op), zxid) = (txn.op(), entry.zxid) else { return Ok(()) };
        let Some(record) = self.requests.get_mut(op as usize) else {
            return Err(format!("{zxid} answers request {op}, which nobody asked"));
        };
        if let Some(first) = record.committed.replace(zxid) {
            return Err(format!("request {op} ({:?}) took effect twice, at {first} and {zxid}", record.request));
        }
        let record = *record;
        let matches_request = match record.request {
            ClientOp::Attach(_) => entry.origin.cxid.is_attachment(),
            ClientOp::Write(_) => entry.origin.cxid == record.cxid,
            ClientOp::Read(_) | ClientOp::Sync => false,
        };
        if !matches_request || entry.origin.session != record.session {
            return Err(format!("{zxid} is of {}, but its request is {record:?}", entry.origin));
        }
        let (ClientOp::Attach(change) | ClientOp::Write(change)) = record.request else { return Ok(()) };
        let expected = history.expected_txn(KvRequest { op, change }, record.session);
        // Whether the members can be changed depends on who is reachable.
        let is_refused_change = matches!(expected, Txn::Set(_, MEMBERS, _)) && txn == Txn::Refused(op, Refusal::NotNow);
        if expected != txn && !is_refused_change {
            return Err(format!(
                "{zxid} says {txn:?}, but after {} the request {change:?} becomes {expected:?}",
                history.last()
            ));
        }
        self.check_session_order(zxid, op, &record, txn)
    }

    fn check_session_order(&mut self, zxid: Zxid, op: OpId, record: &Record, txn: Txn) -> CheckResult {
        let session = self.sessions.entry(record.session).or_default();
        if let ClientOp::Attach(_) = record.request {
            if let Txn::Attached(_) = txn {
                (session.attached, session.last) = (Some(record.connection), Cxid(0));
            }
            return Ok(());
        }
        if session.attached != Some(record.connection) {
            return Err(format!(
                "{zxid} is request {op} of connection {}, but session {} is attached to {:?}",
                record.connection.0, record.session, session.attached
            ));
        }
        if record.cxid <= session.last {
            return Err(format!(
                "{zxid} is request #{} of session {}, after its #{}",
                record.cxid, record.session, session.last
            ));
        }
        session.last = record.cxid;
        Ok(())
    }

    /// Checks the answer to a request.
    pub(crate) fn check_answer(&mut self, op: OpId, response: &Response, history: &History) -> CheckResult {
        let record = self.requests[op as usize];
        match record.request {
            ClientOp::Attach(_) | ClientOp::Write(_) => self.check_write_answer(op, &record, response, history)?,
            ClientOp::Read(key) => {
                let (actual, expected) = (Answer::decode(&response.body), history.value_at(key, response.zxid));
                if actual != Some(Answer::Holds(expected)) {
                    return Err(format!(
                        "a read of {key} at {} says {actual:?}, the history {expected:?}",
                        response.zxid
                    ));
                }
            }
            ClientOp::Sync if response.zxid < record.after => {
                let (zxid, after) = (response.zxid, record.after);
                return Err(format!("a sync is answered at {zxid}, but {after} had been acknowledged before it"));
            }
            ClientOp::Sync => {}
        }
        let session = self.sessions.entry(record.session).or_default();
        if response.zxid < session.seen {
            return Err(format!(
                "session {} had seen {} and is answered at {} ({:?})",
                record.session, session.seen, response.zxid, record.request
            ));
        }
        session.seen = session.seen.max(response.zxid);
        Ok(())
    }

    fn check_write_answer(&mut self, op: OpId, record: &Record, response: &Response, history: &History) -> CheckResult {
        let zxid = response.zxid;
        if record.committed != Some(zxid) {
            return Err(format!(
                "request {op} ({:?}) is acknowledged at {zxid}, the history has it at {:?}",
                record.request, record.committed
            ));
        }
        let txn = history.entry(zxid).and_then(|entry| Txn::decode(&entry.body));
        let (actual, expected) = (Answer::decode(&response.body), txn.map(Txn::answer));
        if actual != expected {
            return Err(format!("request {op} is answered {actual:?}, its transaction {zxid} says {expected:?}"));
        }
        if zxid <= record.after {
            return Err(format!(
                "request {op} stands at {zxid}, but {} had been acknowledged before it was asked",
                record.after
            ));
        }
        self.acknowledged = self.acknowledged.max(zxid);
        self.writes_acknowledged += u64::from(matches!(record.request, ClientOp::Write(_)));
        Ok(())
    }
}
