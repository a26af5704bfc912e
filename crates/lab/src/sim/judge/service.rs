//! What the clients of the service were promised: the committed history as transactions on one tree.
//!
//! In: entries as they join the history; what clients ask and hear. Out: nothing, or a sentence with both values.
//! Every transaction is what its request becomes on the tree of all that stands before it. A session's requests stand
//! once and in the order asked, none of a connection that the session has left after the next attachment. Answers are
//! those of their transactions, reads are of exactly the state that they claim, and neither goes back.
//! Why it validates again: a leader decides over what is in flight, with a view that is not this one.
//! Not here: who was silent for how long (`sessions`), watches (`watches`), ephemerals (`ephemerals`).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use pole_election::Zxid;
use pole_jute::{
    ErrorCode, EventType, ExistsResponse, GetChildren2Response, GetDataResponse, Reader, Record, Request, Stat, Txn,
    TxnEntry,
};
use pole_tree::{Ask, Changes, From, Position, Prepared, SessionChange, Tree};
use pole_zab::{Cxid, Entry, SessionId};

use super::ephemerals::Ephemerals;
use super::{Heard, Verdict};
use crate::sim::state::RULES;

/// Everything asked of the service so far, and what it became.
#[derive(Debug)]
pub(crate) struct Service {
    tree: Tree,
    /// Of one transaction; kept for its memory.
    changes: Changes,
    /// What each transaction answers.
    replies: BTreeMap<Zxid, Bytes>,
    /// Everything that a watch could see, in order.
    pub(crate) news: Vec<News>,
    /// Of each path: since when it was what.
    timelines: BTreeMap<String, Vec<(Zxid, Option<Seen>)>>,
    asked: BTreeMap<(SessionId, Cxid), Asked>,
    sessions: BTreeMap<SessionId, Session>,
    ephemerals: Ephemerals,
    /// The last write that any client knows to be done.
    acknowledged: Zxid,
    pub(crate) writes_acknowledged: u64,
    /// Sessions that the leader ended since this was last looked at.
    expired: Vec<SessionId>,
}

/// Something that a watch could see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) zxid: Zxid,
    pub(crate) kind: EventType,
    pub(crate) path: Arc<str>,
}

/// A node at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) stat: Stat,
    data: Option<Bytes>,
}

/// A write that was asked.
#[derive(Clone, Debug)]
struct Asked {
    body: Bytes,
    /// The attachment under which it was asked.
    floor: Zxid,
    /// What had been acknowledged to anyone by then.
    after: Zxid,
}

#[derive(Clone, Debug, Default)]
struct Session {
    /// The attachments that were asked for; a resumed session has two forms of them.
    attachments: Vec<Bytes>,
    timeout_ms: i32,
    /// By the committed history: its last attachment, and its last request.
    attached: Zxid,
    last: Cxid,
    is_over: bool,
    /// What its client has seen.
    seen: Zxid,
}

impl Service {
    pub(crate) fn new() -> Self {
        Self {
            tree: Tree::new(RULES),
            changes: Changes::new(),
            replies: BTreeMap::new(),
            news: Vec::new(),
            timelines: BTreeMap::new(),
            asked: BTreeMap::new(),
            sessions: BTreeMap::new(),
            ephemerals: Ephemerals::default(),
            acknowledged: Zxid::ZERO,
            writes_acknowledged: 0,
            expired: Vec::new(),
        }
    }

    /// Of the state after all that is committed.
    pub(crate) fn digest(&self) -> u64 {
        self.tree.digest()
    }

    /// What had been acknowledged to anyone.
    pub(crate) fn acknowledged(&self) -> Zxid {
        self.acknowledged
    }

    /// How long a session may be silent, in milliseconds, if the history has it open.
    pub(crate) fn timeout_ms(&self, session: SessionId) -> Option<u64> {
        let known = self.sessions.get(&session).filter(|known| known.attached > Zxid::ZERO && !known.is_over)?;
        Some(u64::from(known.timeout_ms.unsigned_abs()))
    }

    /// Sessions that the leader ended since the last call.
    pub(crate) fn take_expired(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.expired)
    }

    /// A client asks for a session.
    pub(crate) fn asks_session(&mut self, session: SessionId, body: &Bytes) {
        let attachments = &mut self.sessions.entry(session).or_default().attachments;
        if !attachments.contains(body) {
            attachments.push(body.clone());
        }
    }

    /// A client asks for a write, under the attachment at `floor`.
    pub(crate) fn asks(&mut self, session: SessionId, cxid: Cxid, floor: Zxid, body: Bytes) {
        let after = self.acknowledged;
        self.asked.insert((session, cxid), Asked { body, floor, after });
    }

    /// The next entry of the history.
    pub(crate) fn committed(&mut self, entry: &Entry) -> Verdict {
        let zxid = entry.zxid;
        let txn = TxnEntry::read(&mut Reader::new(entry.body.clone()))
            .map_err(|error| format!("{zxid} is no transaction: {error}"))?;
        let header = &txn.header;
        if (header.client_id, header.cxid) != (entry.origin.session.0, entry.origin.cxid.0)
            || header.zxid != zxid.0.cast_signed()
        {
            return Err(format!("{zxid} is of {}, but its header says {header:?}", entry.origin));
        }
        self.is_what_was_asked(entry, &txn)?;
        self.ephemerals.committed(zxid, &txn)?;
        self.changes.clear();
        let applied = self.tree.apply(&txn, true, &mut self.changes);
        self.news.extend(self.changes.iter().map(|c| News { zxid, kind: c.kind, path: Arc::clone(&c.path) }));
        self.note_session(entry, applied.session)?;
        let (code, body) = applied.reply.unwrap_or((ErrorCode::SystemError, Bytes::new()));
        let body = match applied.session {
            Some(SessionChange::Attached { timeout_ms, .. }) => Bytes::copy_from_slice(&timeout_ms.to_be_bytes()),
            Some(SessionChange::Closed { .. }) | None => body,
        };
        self.replies.insert(zxid, [&code.number().to_be_bytes()[..], &body].concat().into());
        self.note_nodes(zxid, &txn.txn);
        Ok(())
    }

    /// The transaction is what the request of that name becomes after all that is committed.
    fn is_what_was_asked(&mut self, entry: &Entry, txn: &TxnEntry) -> Verdict {
        let (zxid, origin) = (entry.zxid, entry.origin);
        let session = self.sessions.entry(origin.session).or_default();
        let close = [Ask::close()];
        let (bodies, floor) = if origin.cxid == Cxid::OWN {
            (&close[..], Zxid::ZERO)
        } else if origin.cxid.is_attachment() {
            (&session.attachments[..], Zxid::ZERO)
        } else {
            let asked = self.asked.get(&(origin.session, origin.cxid));
            let asked = asked.ok_or_else(|| format!("{zxid} is {origin}, which nobody asked"))?;
            if asked.floor != session.attached && !session.is_over {
                return Err(format!(
                    "{zxid} is {origin}, asked under the attachment at {}, but the session is attached at {}",
                    asked.floor, session.attached
                ));
            }
            // What an older connection asked may come after the end of the session, and gets its error.
            let is_late = asked.floor != session.attached;
            if origin.cxid <= session.last && !is_late {
                return Err(format!("{zxid} is {origin}, after #{} of the same session", session.last));
            }
            session.last = session.last.max(origin.cxid);
            (std::slice::from_ref(&asked.body), asked.floor)
        };
        let at = Position { zxid: zxid.0.cast_signed(), wall_ms: txn.header.time };
        let from = From { session: origin.session.0, cxid: origin.cxid.0, floor: floor.0.cast_signed() };
        let mut expected = bodies.iter().filter_map(|body| Prepared::new().prepare(&self.tree, at, from, body));
        match expected.any(|expected| expected == entry.body) {
            true => Ok(()),
            false => Err(format!("{zxid} says {:?}, which its request does not become after all before it", txn.txn)),
        }
    }

    fn note_session(&mut self, entry: &Entry, change: Option<SessionChange>) -> Verdict {
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

    fn note_nodes(&mut self, zxid: Zxid, txn: &Txn) {
        for path in touched(txn) {
            let data = self.tree.data(&path).flatten().map(Bytes::copy_from_slice);
            let seen = self.tree.stat(&path).map(|stat| Seen { stat, data });
            self.timelines.entry(path).or_default().push((zxid, seen));
        }
    }

    /// A node as it was after `zxid`.
    pub(crate) fn node_at(&self, path: &str, zxid: Zxid) -> Option<&Seen> {
        let timeline = self.timelines.get(path)?;
        let after = timeline.partition_point(|(at, _)| *at <= zxid);
        timeline.get(after.checked_sub(1)?)?.1.as_ref()
    }

    /// A client has its session, or hears that there is none any more.
    pub(crate) fn attached(&mut self, session: SessionId, heard: &Heard) -> Verdict {
        self.says_right(session, heard)?;
        self.sees(session, heard.zxid)
    }

    /// A client hears the answer to a write.
    pub(crate) fn wrote(&mut self, session: SessionId, cxid: Cxid, heard: &Heard) -> Verdict {
        let asked = self.asked.get(&(session, cxid));
        let after = asked.map(|asked| asked.after).ok_or_else(|| format!("{session}#{cxid} was not asked"))?;
        self.says_right(session, heard)?;
        if heard.zxid <= after {
            let zxid = heard.zxid;
            return Err(format!("{session}#{cxid} stands at {zxid}, but {after} had been acknowledged before it"));
        }
        self.acknowledged = self.acknowledged.max(heard.zxid);
        self.writes_acknowledged += 1;
        self.sees(session, heard.zxid)
    }

    fn says_right(&self, session: SessionId, heard: &Heard) -> Verdict {
        let right = self.replies.get(&heard.zxid);
        match right == Some(&heard.body) {
            true => Ok(()),
            false => Err(format!("session {session} is answered {:?} at {}, not {right:?}", heard.body, heard.zxid)),
        }
    }

    /// A client hears the answer to a sync that it asked when `after` had been acknowledged.
    pub(crate) fn synced(&mut self, session: SessionId, after: Zxid, heard: &Heard) -> Verdict {
        if heard.zxid < after {
            return Err(format!("a sync is answered at {}, but {after} had been acknowledged before it", heard.zxid));
        }
        self.sees(session, heard.zxid)
    }

    /// A client hears the answer to a read.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others do not come here")]
    pub(crate) fn read(&mut self, session: SessionId, request: &Request, heard: &Heard) -> Verdict {
        let (code, body) = split(heard);
        let (path, said) = match request {
            Request::GetData(request) => {
                let said = GetDataResponse::decode(body).map(|said| Seen { stat: said.stat, data: said.data });
                (&request.path, said.ok())
            }
            Request::Exists(request) => {
                let data = self.node_at(&request.path, heard.zxid).and_then(|node| node.data.clone());
                (&request.path, ExistsResponse::decode(body).map(|said| Seen { stat: said.stat, data }).ok())
            }
            Request::GetChildren2(request) => {
                let data = self.node_at(&request.path, heard.zxid).and_then(|node| node.data.clone());
                let said = GetChildren2Response::decode(body).ok();
                let said = said.filter(|said| said.children.len() as i32 == said.stat.num_children);
                (&request.path, said.map(|said| Seen { stat: said.stat, data }))
            }
            other => return Err(format!("{other:?} is no read that a client asks here")),
        };
        let right = self.node_at(path, heard.zxid);
        let is_right = match code {
            0 => said.as_ref() == right && right.is_some(),
            code => code == ErrorCode::NoNode.number() && right.is_none(),
        };
        if !is_right {
            let zxid = heard.zxid;
            return Err(format!("a read of {path} at {zxid} says {said:?} (code {code}), the history {right:?}"));
        }
        self.sees(session, heard.zxid)
    }

    /// What a session sees never goes back.
    pub(crate) fn sees(&mut self, session: SessionId, zxid: Zxid) -> Verdict {
        let known = self.sessions.entry(session).or_default();
        if zxid < known.seen {
            return Err(format!("session {session} had seen {} and is answered at {zxid}", known.seen));
        }
        known.seen = zxid;
        Ok(())
    }
}

/// The code of an answer, and its body.
pub(crate) fn split(heard: &Heard) -> (i32, Bytes) {
    match heard.body.split_first_chunk() {
        Some((code, _)) => (i32::from_be_bytes(*code), heard.body.slice(4..)),
        None => (ErrorCode::SystemError.number(), Bytes::new()),
    }
}

/// The nodes that a transaction may have changed, parents included.
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
