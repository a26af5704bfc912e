//! The state machine.

use std::collections::BTreeMap;

use bytes::Bytes;
use pole_node::{AttachAnswer, ClientId, Machine, MayChange, Outcome, ReadResult, Request};
use pole_types::{Membership, ServerId, SessionId, Voters, Zxid};
use pole_zab::{Body, Entry, MembersOf};

use super::overlay::Overlay;
use super::records::{pad, padding};
use super::{Answer, Change, Key, KvRequest, OpId, Refusal, Txn, Value};

/// A key-value state with sessions.
#[derive(Clone, Debug)]
pub struct Kv {
    values: BTreeMap<Key, Value>,
    sessions: BTreeMap<SessionId, Session>,
    /// The digest of the two maps above, updated with every change.
    digest: u64,
    prepared_values: Overlay<Key, Option<Value>>,
    prepared_sessions: Overlay<SessionId, Session>,
}

/// The state of a session. Closed sessions are remembered, so that a late attachment cannot reopen them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    /// Open, last attached at this position.
    Attached(Zxid),
    /// Closed; it was last attached at this position.
    Closed(Zxid),
}

impl Kv {
    /// An empty machine.
    #[must_use]
    pub fn new() -> Self {
        Self {
            values: BTreeMap::new(),
            sessions: BTreeMap::new(),
            digest: 0,
            prepared_values: Overlay::new(),
            prepared_sessions: Overlay::new(),
        }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<Value> {
        self.values.get(&key).copied()
    }

    /// The transaction that a request becomes on the committed state plus everything prepared since.
    pub(crate) fn decide(&self, request: KvRequest, session: SessionId) -> Txn {
        let op = request.op;
        let known = self.prepared_sessions.get(session).or_else(|| self.sessions.get(&session)).copied();
        match (request.change, known) {
            (Change::Create, Some(Session::Attached(_)) | None) | (Change::Resume, Some(Session::Attached(_))) => {
                Txn::Attached(op)
            }
            (_, Some(Session::Closed(_)) | None) => Txn::Refused(op, Refusal::NoSession),
            (Change::CloseSession, Some(Session::Attached(_))) => Txn::Closed(op),
            (change, Some(Session::Attached(_))) => self.decide_write(op, change),
        }
    }

    fn decide_write(&self, op: OpId, change: Change) -> Txn {
        let value = |key| self.prepared_values.get(key).copied().unwrap_or_else(|| self.get(key));
        let set = |key, data, old: Option<Value>| {
            Txn::Set(op, key, Some(Value { data, version: old.map_or(1, |v| v.version + 1) }))
        };
        match change {
            Change::Put(key, data) => set(key, data, value(key)),
            Change::PutIf(key, data, version) => match value(key) {
                Some(old) if old.version == version => set(key, data, Some(old)),
                Some(_) => Txn::Refused(op, Refusal::BadVersion),
                None => Txn::Refused(op, Refusal::Absent),
            },
            Change::Insert(key, data) => match value(key) {
                Some(_) => Txn::Refused(op, Refusal::Exists),
                None => set(key, data, None),
            },
            Change::Delete(key) => match value(key) {
                Some(_) => Txn::Set(op, key, None),
                None => Txn::Refused(op, Refusal::Absent),
            },
            Change::Add(key, data) => {
                let old = value(key);
                set(key, old.map_or(0, |v| v.data).wrapping_add(data), old)
            }
            Change::Create | Change::Resume | Change::CloseSession => Txn::Refused(op, Refusal::Malformed),
        }
    }

    fn set_value(&mut self, key: Key, value: Option<Value>) {
        let old = match value {
            Some(value) => self.values.insert(key, value),
            None => self.values.remove(&key),
        };
        self.digest = self.digest.wrapping_sub(old.map_or(0, |v| hash_value(key, v)));
        self.digest = self.digest.wrapping_add(value.map_or(0, |v| hash_value(key, v)));
    }

    fn set_session(&mut self, id: SessionId, session: Session) {
        let old = self.sessions.insert(id, session);
        self.digest = self.digest.wrapping_sub(old.map_or(0, |s| hash_session(id, s)));
        self.digest = self.digest.wrapping_add(hash_session(id, session));
    }
}

impl Default for Kv {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine for Kv {
    fn prepare(&mut self, zxid: Zxid, request: &Request, _wall_ms: i64, may_change: MayChange<'_>) -> Option<Bytes> {
        let session = request.origin.session;
        let known = self.prepared_sessions.get(session).or_else(|| self.sessions.get(&session));
        if !request.origin.cxid.is_attachment()
            && let Some(Session::Attached(last) | Session::Closed(last)) = known
            && request.floor < *last
        {
            return None;
        }
        let Some(kv_request) = KvRequest::decode(&request.body) else {
            return Some(Txn::Refused(0, Refusal::Malformed).encode());
        };
        let last = known.map_or(Zxid::ZERO, |session| session.last_attached());
        let txn = match self.decide(kv_request, session) {
            txn if members_of(txn).is_some_and(|members| !may_change(&members)) => {
                Txn::Refused(kv_request.op, Refusal::NotNow)
            }
            txn => txn,
        };
        match txn {
            Txn::Attached(_) => self.prepared_sessions.set(zxid, session, Session::Attached(zxid)),
            Txn::Closed(_) => self.prepared_sessions.set(zxid, session, Session::Closed(last)),
            Txn::Set(_, key, value) => self.prepared_values.set(zxid, key, value),
            Txn::Refused(..) | Txn::Nothing => {}
        }
        Some(pad(txn.encode(), padding(&request.body)))
    }

    fn forget_prepared(&mut self) {
        self.prepared_values.clear();
        self.prepared_sessions.clear();
    }

    fn apply(&mut self, entry: &Entry, _answer: bool) -> Result<Outcome, String> {
        let session = entry.origin.session;
        let txn = Txn::decode(&entry.body).ok_or("no transaction")?;
        match txn {
            Txn::Attached(_) => {
                self.set_session(session, Session::Attached(entry.zxid));
                self.prepared_sessions.applied(entry.zxid, session);
            }
            Txn::Closed(_) => {
                let last = self.sessions.get(&session).map_or(Zxid::ZERO, |known| known.last_attached());
                self.set_session(session, Session::Closed(last));
                self.prepared_sessions.applied(entry.zxid, session);
            }
            Txn::Set(_, key, value) => {
                self.set_value(key, value);
                self.prepared_values.applied(entry.zxid, key);
                if key == MEMBERS {
                    self.set_value(MEMBERS_AT, Some(Value { data: entry.zxid.0, version: 0 }));
                }
            }
            Txn::Refused(..) | Txn::Nothing => {}
        }
        let ended = matches!(txn, Txn::Closed(_)).then_some(session);
        // Sessions of this machine never expire, so there is no timeout.
        let attached = matches!(txn, Txn::Attached(_)).then_some(AttachAnswer::Opened { timeout_ms: 0 });
        let members = members_of(txn).is_some();
        Ok(Outcome { reply: txn.answer().encode(), attached, ended, members, ..Outcome::default() })
    }

    const MEMBERS_OF: MembersOf = MembersOf(|body| members_of(Txn::decode(body)?));

    fn members(&self) -> Option<(Bytes, Zxid)> {
        let (members, at) = (self.get(MEMBERS)?, self.get(MEMBERS_AT)?);
        Some((Bytes::copy_from_slice(&members.data.to_le_bytes()), Zxid(at.data)))
    }

    fn nothing(&self, _zxid: Zxid, _wall_ms: i64) -> Bytes {
        Txn::Nothing.encode()
    }

    fn parse_members(description: &Bytes) -> Option<Membership> {
        Some(decode_members(u64::from_le_bytes(description.as_ref().try_into().ok()?)))
    }

    fn read(&mut self, _client: ClientId, _session: SessionId, body: &Bytes) -> ReadResult {
        let key = body.as_ref().try_into().ok().map(u32::from_le_bytes);
        let answer = key.map_or(Answer::Refused(Refusal::Malformed), |key| Answer::Holds(self.get(key)));
        ReadResult { events: Vec::new(), reply: answer.encode() }
    }

    fn snapshot(&self) -> Body {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&(self.values.len() as u64).to_le_bytes());
        for (key, value) in &self.values {
            bytes.extend_from_slice(&u64::from(*key).to_le_bytes());
            bytes.extend_from_slice(&value.data.to_le_bytes());
            bytes.extend_from_slice(&u64::from(value.version).to_le_bytes());
        }
        for (id, session) in &self.sessions {
            bytes.extend_from_slice(&id.0.to_le_bytes());
            bytes.extend_from_slice(&session.code().to_le_bytes());
        }
        Bytes::from(bytes).into()
    }

    fn restore(&mut self, _zxid: Zxid, body: &Bytes) -> Result<(), String> {
        if !body.len().is_multiple_of(8) {
            return Err("a snapshot is a whole number of words".into());
        }
        let mut words = body.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("chunks of eight")));
        let mut next = || words.next().ok_or("the snapshot ends too early");
        let mut fresh = Self::new();
        for _ in 0..next()? {
            let key = u32::try_from(next()?).map_err(|_| "a key is too large")?;
            let data = next()?;
            let version = u32::try_from(next()?).map_err(|_| "a version is too large")?;
            fresh.set_value(key, Some(Value { data, version }));
        }
        while let Some(id) = words.next() {
            let code = words.next().ok_or("a session is cut off")?;
            fresh.set_session(SessionId(id as i64), Session::from_code(code));
        }
        *self = fresh;
        Ok(())
    }

    fn digest(&self) -> u64 {
        self.digest
    }
}

/// The key whose value is the members of the ensemble, see [`encode_members`].
pub(crate) const MEMBERS: Key = Key::MAX;

/// The key whose value is the position of the last change of [`MEMBERS`].
const MEMBERS_AT: Key = Key::MAX - 1;

/// Members as a number: a bit for each voter in the lower half, for each observer in the upper half.
pub(crate) fn encode_members(voters: impl IntoIterator<Item = u64>, observers: impl IntoIterator<Item = u64>) -> u64 {
    let bits = |ids: &mut dyn Iterator<Item = u64>| ids.fold(0, |bits, id| bits | 1 << id);
    bits(&mut voters.into_iter()) | bits(&mut observers.into_iter()) << 32
}

fn decode_members(bits: u64) -> Membership {
    let ids = |from: u32| (0..32).filter(move |id| bits >> (from + id) & 1 == 1).map(|id| ServerId(id.into()));
    Membership::new(Voters::new(ids(0)), ids(32))
}

/// The members that a transaction sets.
fn members_of(txn: Txn) -> Option<Membership> {
    match txn {
        Txn::Set(_, MEMBERS, Some(value)) => Some(decode_members(value.data)),
        Txn::Set(..) | Txn::Attached(_) | Txn::Closed(_) | Txn::Refused(..) | Txn::Nothing => None,
    }
}

impl Session {
    fn last_attached(self) -> Zxid {
        match self {
            Self::Attached(zxid) | Self::Closed(zxid) => zxid,
        }
    }

    fn code(self) -> u64 {
        match self {
            Self::Attached(zxid) => zxid.0,
            Self::Closed(zxid) => zxid.0 | CLOSED,
        }
    }

    fn from_code(code: u64) -> Self {
        match code & CLOSED {
            0 => Self::Attached(Zxid(code)),
            _ => Self::Closed(Zxid(code & !CLOSED)),
        }
    }
}

/// Marks a closed session in its code. No epoch gets large enough to set this bit.
const CLOSED: u64 = 1 << 63;

fn hash_value(key: Key, value: Value) -> u64 {
    mix(mix(mix(1, u64::from(key)), value.data), u64::from(value.version))
}

fn hash_session(id: SessionId, session: Session) -> u64 {
    mix(mix(2, id.0 as u64), session.code())
}

fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pole_types::Cxid;
    use pole_types::Epoch;
    use pole_zab::Origin;

    const SESSION: SessionId = SessionId(5);

    fn zxid(counter: u32) -> Zxid {
        Zxid::new(Epoch(1), counter)
    }

    fn request(cxid: Cxid, floor: Zxid, change: Change) -> Request {
        Request {
            origin: Origin { session: SESSION, cxid },
            floor,
            body: KvRequest { op: u64::from(cxid.0.unsigned_abs()), change }.encode(),
        }
    }

    fn prepare(kv: &mut Kv, at: u32, request: &Request) -> Option<Txn> {
        kv.prepare(zxid(at), request, 0, &|_| true).map(|bytes| Txn::decode(&bytes).expect("a transaction"))
    }

    fn attachment(nth: u32) -> Cxid {
        Cxid::attachment(ServerId(1), nth)
    }

    #[test]
    fn what_is_prepared_counts_before_it_is_applied_and_is_forgotten_on_request() {
        let mut kv = Kv::new();
        prepare(&mut kv, 1, &request(attachment(1), Zxid::ZERO, Change::Create));
        let insert = request(Cxid(1), zxid(1), Change::Insert(1, 7));
        assert!(matches!(prepare(&mut kv, 2, &insert), Some(Txn::Set(_, 1, Some(_)))));
        assert!(matches!(prepare(&mut kv, 3, &insert), Some(Txn::Refused(_, Refusal::Exists))));
        kv.forget_prepared();
        assert!(matches!(prepare(&mut kv, 2, &insert), Some(Txn::Refused(_, Refusal::NoSession))));
    }

    #[test]
    fn a_request_older_than_a_prepared_attachment_is_dropped() {
        let mut kv = Kv::new();
        prepare(&mut kv, 1, &request(attachment(1), Zxid::ZERO, Change::Create));
        prepare(&mut kv, 2, &request(attachment(2), Zxid::ZERO, Change::Resume));
        assert_eq!(prepare(&mut kv, 3, &request(Cxid(1), zxid(1), Change::Put(1, 1))), None);
    }

    #[test]
    fn a_closed_session_is_never_attached_again() {
        let mut kv = Kv::new();
        prepare(&mut kv, 1, &request(attachment(1), Zxid::ZERO, Change::Create));
        prepare(&mut kv, 2, &request(Cxid(1), zxid(1), Change::CloseSession));
        let late = prepare(&mut kv, 3, &request(attachment(2), Zxid::ZERO, Change::Create));
        assert!(matches!(late, Some(Txn::Refused(_, Refusal::NoSession))));
    }

    #[test]
    fn a_snapshot_restores_the_state_and_its_digest_and_bad_bytes_change_nothing() {
        let mut kv = Kv::new();
        for (counter, change) in [(1, Change::Create), (2, Change::Put(3, 4)), (3, Change::Add(3, 4))] {
            let cxid = if counter == 1 { attachment(1) } else { Cxid(counter as i32) };
            let body = kv.prepare(zxid(counter), &request(cxid, zxid(1), change), 0, &|_| true).expect("prepared");
            let entry = Entry { zxid: zxid(counter), origin: Origin { session: SESSION, cxid }, body };
            kv.apply(&entry, false).expect("a transaction");
        }
        let mut restored = Kv::new();
        restored.restore(zxid(3), &kv.snapshot().to_bytes()).expect("a snapshot");
        assert_eq!((restored.digest(), restored.get(3)), (kv.digest(), Some(Value { data: 8, version: 2 })));
        assert!(restored.restore(zxid(3), &Bytes::from_static(b"123")).is_err());
        assert_eq!(restored.digest(), kv.digest());
    }
}
