//! What clients were promised: every answer is held against the committed history.
//!
//! A write that was acknowledged is in the history, once, with the answer that its client got; one that was not is
//! unknown: there once or not at all. A session's requests stand in the order asked, and none of a connection that
//! the session has left comes after the next attachment. A write stands after all that was acknowledged before it was
//! asked; what is read after a sync shows all that was acknowledged before the sync. What a session sees never goes
//! back, and every read is of exactly the state that it claims.

use std::collections::BTreeMap;

use bytes::Bytes;
use pole_election::Zxid;
use pole_node::ClientId;
use pole_zab::{Cxid, Entry, SessionId};

use super::Verdict;
use super::history::History;
use crate::kv::{Answer, Ask, Change, Key, OpId, Txn};

/// Everything asked so far.
#[derive(Debug)]
pub(crate) struct Promises {
    asked: Vec<Record>,
    sessions: BTreeMap<SessionId, Session>,
    /// The last write that any client knows to be done.
    acknowledged: Zxid,
    pub(crate) writes_acknowledged: u64,
}

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Attach(Change),
    Write(Change),
    Read(Key),
    Sync,
}

/// What a client hears.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) zxid: Zxid,
    pub(crate) body: Bytes,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    session: SessionId,
    connection: ClientId,
    cxid: Cxid,
    asked: Asked,
    /// What had been acknowledged to anyone when this was asked.
    after: Zxid,
    committed: Option<Zxid>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Session {
    /// By the committed history: the connection that the session is attached to, and its last request.
    attached: Option<ClientId>,
    last: Cxid,
    /// The newest state that the client has seen.
    seen: Zxid,
}

impl Promises {
    pub(crate) fn new() -> Self {
        let (asked, sessions) = (Vec::new(), BTreeMap::new());
        Self { asked, sessions, acknowledged: Zxid::ZERO, writes_acknowledged: 0 }
    }

    /// A client is about to ask; the name for it.
    pub(crate) fn ask(&mut self, session: SessionId, connection: ClientId, cxid: Cxid, asked: Asked) -> OpId {
        let after = self.acknowledged;
        self.asked.push(Record { session, connection, cxid, asked, after, committed: None });
        self.asked.len() as OpId - 1
    }

    /// An entry is about to join the history.
    pub(crate) fn committed(&mut self, entry: &Entry, history: &History) -> Verdict {
        let txn = Txn::decode(&entry.body).ok_or_else(|| format!("{} is no transaction", entry.zxid))?;
        let (op, zxid) = (txn.op(), entry.zxid);
        let Some(record) = self.asked.get_mut(op as usize) else {
            return Err(format!("{zxid} answers request {op}, which nobody asked"));
        };
        if let Some(first) = record.committed.replace(zxid) {
            return Err(format!("request {op} ({:?}) took effect twice, at {first} and {zxid}", record.asked));
        }
        let record = *record;
        let is_same = match record.asked {
            Asked::Attach(_) => entry.origin.cxid.is_attachment(),
            Asked::Write(_) => entry.origin.cxid == record.cxid,
            Asked::Read(_) | Asked::Sync => false,
        };
        if !is_same || entry.origin.session != record.session {
            return Err(format!("{zxid} is of {}, but its request is {record:?}", entry.origin));
        }
        let (Asked::Attach(change) | Asked::Write(change)) = record.asked else { return Ok(()) };
        let expected = history.decides(Ask { op, change }, record.session);
        if expected != txn {
            return Err(format!(
                "{zxid} says {txn:?}, but after {} the request {change:?} becomes {expected:?}",
                history.last()
            ));
        }
        self.in_session_order(zxid, op, &record, txn)
    }

    fn in_session_order(&mut self, zxid: Zxid, op: OpId, record: &Record, txn: Txn) -> Verdict {
        let session = self.sessions.entry(record.session).or_default();
        if let Asked::Attach(_) = record.asked {
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

    /// A client hears the answer to a request.
    pub(crate) fn answered(&mut self, op: OpId, heard: &Heard, history: &History) -> Verdict {
        let record = self.asked[op as usize];
        match record.asked {
            Asked::Attach(_) | Asked::Write(_) => self.write_answered(op, &record, heard, history)?,
            Asked::Read(key) => {
                let (said, right) = (Answer::decode(&heard.body), history.value_at(key, heard.zxid));
                if said != Some(Answer::Holds(right)) {
                    return Err(format!("a read of {key} at {} says {said:?}, the history {right:?}", heard.zxid));
                }
            }
            Asked::Sync if heard.zxid < record.after => {
                let (zxid, after) = (heard.zxid, record.after);
                return Err(format!("a sync is answered at {zxid}, but {after} had been acknowledged before it"));
            }
            Asked::Sync => {}
        }
        let session = self.sessions.entry(record.session).or_default();
        if heard.zxid < session.seen {
            return Err(format!(
                "session {} had seen {} and is answered at {} ({:?})",
                record.session, session.seen, heard.zxid, record.asked
            ));
        }
        session.seen = session.seen.max(heard.zxid);
        Ok(())
    }

    fn write_answered(&mut self, op: OpId, record: &Record, heard: &Heard, history: &History) -> Verdict {
        let zxid = heard.zxid;
        if record.committed != Some(zxid) {
            return Err(format!(
                "request {op} ({:?}) is acknowledged at {zxid}, the history has it at {:?}",
                record.asked, record.committed
            ));
        }
        let txn = history.entry(zxid).and_then(|entry| Txn::decode(&entry.body));
        let (said, right) = (Answer::decode(&heard.body), txn.map(Txn::answer));
        if said != right {
            return Err(format!("request {op} is answered {said:?}, its transaction {zxid} says {right:?}"));
        }
        if zxid <= record.after {
            return Err(format!(
                "request {op} stands at {zxid}, but {} had been acknowledged before it was asked",
                record.after
            ));
        }
        self.acknowledged = self.acknowledged.max(zxid);
        self.writes_acknowledged += u64::from(matches!(record.asked, Asked::Write(_)));
        Ok(())
    }
}
