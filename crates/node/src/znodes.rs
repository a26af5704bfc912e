//! The tree of a coordination service as the state machine of a server.
//!
//! In: what clients ask, as `tree` encodes it; entries whose bodies are transactions as ZooKeeper's log holds them.
//! Out: answers, each a code and a body; events of watches; sessions opened and ended.
//! Why a shelf: connections read the tree on their own threads, the simulator reads it between two steps, and neither
//! is known here. Whoever owns the shelf decides when what was written may be read.
//! Not here: what an operation does (`tree`).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use core::fmt;
use core::ops::{Deref, DerefMut};
use pole_election::{Span, Zxid};
use pole_jute::{ErrorCode, Reader, Record, TxnEntry, WatcherEvent, Writer};
use pole_tree::{Ask, Changes, From, Position, Prepared, Refusals, Rules, SessionChange, Tree, Watcher, Watches, What};
use pole_zab::{Body, Entry, Image, SessionId};

use crate::{AttachAnswer, ClientId, Limits, Machine, Outcome, Request, Told};

/// Where the tree stands while others read it.
pub trait Shelf {
    /// To read it: the last state, also if others may not read it yet.
    fn tree(&self) -> impl Deref<Target = Tree> + '_;

    /// To change it. Others read the change when the owner of the shelf lets them: after the events of watches that the
    /// change caused are queued, so that nobody reads what he was not told.
    fn tree_mut(&mut self) -> &mut Tree;

    /// Who watches what.
    fn watches(&self) -> impl DerefMut<Target = Watches> + '_;
}

/// The state machine.
pub struct Znodes<S> {
    shelf: S,
    rules: Rules,
    /// What `/zookeeper/config` holds: each server's own, and no part of a snapshot that counts.
    config: Bytes,
    /// The largest reply to a read.
    reply_bytes_max: usize,
    /// Reads that would have needed more.
    replies_over_limit: u64,
    prepared: Prepared,
    /// Of one transaction; kept for its memory.
    changes: Changes,
    fired: Vec<(Watcher, WatcherEvent)>,
}

impl<S: Shelf> Znodes<S> {
    /// Over the tree on this shelf.
    pub fn new(mut shelf: S, rules: Rules, config: Bytes) -> Self {
        tell(shelf.tree_mut(), &config);
        Self {
            shelf,
            rules,
            config,
            reply_bytes_max: Limits::default().reply_bytes_max,
            replies_over_limit: 0,
            prepared: Prepared::default(),
            changes: Changes::default(),
            fired: Vec::new(),
        }
    }

    /// The same with another limit on the size of a reply to a read; see [`Limits::reply_bytes_max`].
    #[must_use]
    pub fn with_reply_bytes_max(self, reply_bytes_max: usize) -> Self {
        Self { reply_bytes_max, ..self }
    }

    /// How many requests exceeded a limit of the tree.
    pub fn refusals(&self) -> Refusals {
        self.prepared.refusals()
    }

    /// How many reads were refused because their reply would exceed [`Limits::reply_bytes_max`].
    pub fn replies_over_limit(&self) -> u64 {
        self.replies_over_limit
    }

    /// Where the tree stands.
    pub fn shelf(&self) -> &S {
        &self.shelf
    }

    /// Takes a restored tree at this position in place of the present one, which is returned: whoever drops a large tree
    /// should do so where nobody waits.
    pub fn replace(&mut self, zxid: Zxid, tree: Tree) -> Tree {
        let mut tree = tree.at(signed(zxid));
        tell(&mut tree, &self.config);
        self.prepared.clear();
        core::mem::replace(self.shelf.tree_mut(), tree)
    }

    /// Where the tree stands, for its owner.
    pub fn shelf_mut(&mut self) -> &mut S {
        &mut self.shelf
    }
}

impl<S: Shelf> Machine for Znodes<S> {
    fn prepare(&mut self, zxid: Zxid, request: &Request, wall_ms: i64) -> Option<Bytes> {
        let at = Position { zxid: signed(zxid), wall_ms };
        let from =
            From { session: request.origin.session.0, cxid: request.origin.cxid.0, floor: signed(request.floor) };
        self.prepared.prepare(&self.shelf.tree(), at, from, &request.body)
    }

    fn is_waiting(&self) -> bool {
        self.prepared.is_waiting()
    }

    fn forget_prepared(&mut self) {
        self.prepared.clear();
    }

    fn apply(&mut self, entry: &Entry, answer: bool) -> Result<Outcome, String> {
        let txn = decode(entry)?;
        self.changes.clear();
        let applied = self.shelf.tree_mut().apply(&txn, answer, &mut self.changes);
        self.prepared.applied(txn.header.zxid);
        self.shelf.watches().fire(&self.changes, &mut self.fired);
        let events = self.fired.drain(..).map(|(watcher, event)| (ClientId(watcher.0), encode(&event))).collect();
        let (opened, attached, ended) = match applied.session {
            None => (None, None, None),
            Some(SessionChange::Attached { id, timeout_ms }) => {
                (Some((SessionId(id), timeout(timeout_ms))), Some(AttachAnswer::Opened { timeout_ms }), None)
            }
            Some(SessionChange::Closed { id }) => (None, None, Some(SessionId(id))),
        };
        let reply = applied.reply.map_or(Bytes::new(), |(code, body)| reply(code, &body));
        Ok(Outcome { reply, attached, events, opened, ended, oracle: applied.settings })
    }

    fn read(&mut self, client: ClientId, session: SessionId, body: &Bytes) -> Told {
        let mut answer = Writer::over(BytesMut::new()).limited(4 + self.reply_bytes_max);
        answer.int(0);
        let mut events = Vec::new();
        let code = match Ask::decode(body) {
            Ok(Ask { caller, what: What::Request(request) }) => {
                let watcher = Watcher(client.0);
                let tree = self.shelf.tree();
                let watches = || self.shelf.watches();
                pole_tree::read(&tree, watches, watcher, session.0, &caller, &request, &mut answer, &mut events)
            }
            Ok(Ask { what: What::Attach { .. } | What::CloseSession | What::DeleteContainer(_), .. }) | Err(_) => {
                ErrorCode::MarshallingError
            }
        };
        self.replies_over_limit += u64::from(answer.is_over_limit());
        let code = if answer.is_over_limit() { ErrorCode::MarshallingError } else { code };
        let body = if code == ErrorCode::Ok { answer.into_bytes().slice(4..) } else { Bytes::new() };
        Told { events: events.iter().map(encode).collect(), reply: reply(code, &body) }
    }

    fn forget(&mut self, client: ClientId) {
        self.shelf.watches().forget(Watcher(client.0));
    }

    fn sessions(&self) -> Vec<(SessionId, Span)> {
        let tree = self.shelf.tree();
        // Those that are no more but left nodes behind, as Apache's snapshots may show, are closed at the first look.
        let dead = tree.dead_sessions().into_iter().map(|id| (id, 0));
        tree.sessions().chain(dead).map(|(id, ms)| (SessionId(id), timeout(ms))).collect()
    }

    fn closing(&self) -> Bytes {
        Ask::close()
    }

    fn chores(&self, wall_ms: i64, from: u32) -> (Vec<Bytes>, Option<u32>) {
        let (due, next) = self.shelf.tree().due_from(wall_ms, from, LOOKED_AT_ONCE);
        (due.iter().map(|path| Ask::delete_container(path)).collect(), next)
    }

    fn oracle(&self) -> Option<(Bytes, Zxid)> {
        let tree = self.shelf.tree();
        let data = Bytes::copy_from_slice(tree.data(ORACLE_PATH)?.unwrap_or_default());
        Some((data, Zxid(tree.stat(ORACLE_PATH)?.mzxid.cast_unsigned())))
    }

    fn snapshot(&self) -> Body {
        Body::Image(Arc::new(Frozen(self.shelf.tree().freeze())))
    }

    fn restore(&mut self, zxid: Zxid, body: &Bytes) -> Result<(), String> {
        let tree = Tree::restore(self.rules, body).map_err(|error| error.to_string())?;
        self.replace(zxid, tree);
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        self.shelf.tree().size_bytes()
    }

    fn digest(&self) -> u64 {
        self.shelf.tree().digest()
    }
}

/// An answer as it leaves the state machine: the code, then the body, which is empty unless all is well.
fn reply(code: ErrorCode, body: &[u8]) -> Bytes {
    let mut writer = Writer::over(BytesMut::with_capacity(4 + body.len()));
    writer.int(code.number());
    writer.raw(body);
    writer.into_bytes()
}

/// Tells a tree of its ensemble. A server on its own has none to tell of, and its node stays as it was created.
fn tell(tree: &mut Tree, config: &Bytes) {
    if !config.is_empty() {
        tree.set_config(config);
    }
}

/// The transaction of an entry. The leader proposes only what it prepared, and what comes from a disk has a checksum; but
/// who sends and who wrote may be of another version, or damaged.
fn decode(entry: &Entry) -> Result<TxnEntry, String> {
    let txn = TxnEntry::read(&mut Reader::new(entry.body.clone())).map_err(|error| error.to_string())?;
    let at = (signed(entry.zxid), entry.origin.session.0, entry.origin.cxid.0);
    let says = (txn.header.zxid, txn.header.client_id, txn.header.cxid);
    if says != at {
        return Err(format!("its header names zxid {:#x}, session {:#x}, cxid {}", says.0, says.1, says.2));
    }
    Ok(txn)
}

fn encode(event: &WatcherEvent) -> Bytes {
    let mut writer = Writer::new();
    event.write(&mut writer);
    writer.into_bytes()
}

fn signed(zxid: Zxid) -> i64 {
    zxid.0.cast_signed()
}

fn timeout(ms: i32) -> Span {
    Span::from_ms(u64::from(ms.unsigned_abs()))
}

/// An image of the tree, to be written later.
struct Frozen(pole_tree::Frozen);

impl Image for Frozen {
    fn write(&self, sink: &mut dyn FnMut(&[u8])) {
        self.0.write(sink);
    }
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an image of about {} bytes", self.0.size_bytes())
    }
}

/// Containers and nodes with a time to live that are looked at in one go: about a millisecond.
const LOOKED_AT_ONCE: usize = 10_000;

/// Where the ensemble keeps the choice of its oracle.
pub const ORACLE_PATH: &str = "/zookeeper/pole";

#[cfg(test)]
mod tests {
    use super::*;
    use pole_jute::{Txn, TxnHeader};
    use pole_zab::{Cxid, Epoch, Origin};

    #[test]
    fn an_entry_that_is_no_transaction_or_another_one_is_refused() {
        let entry = |zxid, body| Entry { zxid, origin: Origin { session: SessionId(7), cxid: Cxid(3) }, body };
        let (here, elsewhere) = (Zxid::new(Epoch(1), 2), Zxid::new(Epoch(1), 3));
        let mut writer = Writer::new();
        let header = TxnHeader { client_id: 7, cxid: 3, zxid: signed(here), time: 0, op: -11 };
        TxnEntry { header, txn: Txn::CloseSession(None), digest: None }.write(&mut writer);
        let body = writer.into_bytes();
        assert!(decode(&entry(here, body.clone())).is_ok());
        let said = decode(&entry(elsewhere, body.clone())).expect_err("another zxid");
        assert_eq!(said, "its header names zxid 0x100000002, session 0x7, cxid 3");
        (0..body.len()).for_each(|length| drop(decode(&entry(here, body.slice(..length))).expect_err("cut short")));
    }
}
