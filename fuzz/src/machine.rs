//! The state machine: whatever is asked becomes a transaction, and whatever a log holds can be applied.
//!
//! Laws: validating against the tree and what is in flight gives what validating gives once all is applied; a tree
//! that was written to a snapshot and read back has the digest it had; a tree that was damaged is refused, not built.

use bytes::Bytes;
use pole_jute::{Record, TxnEntry, Writer};
use pole_tree::{Ask, Changes, From, Position, Prepared, Rules, Tree, Watcher, Watches, What, is_write, read};

/// Entries of a log, each after a byte that nobody reads and two of length: read, written again, applied.
pub(crate) fn txns(input: &[u8]) {
    let mut tree = Tree::new(RULES);
    let mut changes = Changes::new();
    for (_, body) in pieces(input) {
        let Ok(entry) = TxnEntry::decode(body) else { continue };
        assert_eq!(TxnEntry::decode(entry.encode()).as_ref(), Ok(&entry));
        changes.clear();
        let _ = tree.apply(&entry, true, &mut changes);
    }
    survives(&tree);
}

/// Requests, each after a byte that says how and two of length. Two leaders get them: one applies each at once, the other
/// only when the byte says so. They must decide the same.
pub(crate) fn machine(input: &[u8]) {
    let mut prompt = Leader::new();
    let mut tardy = Leader::new();
    for (zxid, (how, ask)) in (10..).zip(pieces(input)) {
        let at = Position { zxid, wall_ms: 1_000_000 + 1_000 * zxid };
        let from = From { session: i64::from(how & 3), cxid: how.into(), floor: i64::from(how >> 6) };
        let decided = prompt.prepare(at, from, &ask);
        assert_eq!(tardy.prepare(at, from, &ask), decided, "what is in flight makes a difference");
        prompt.apply();
        if how & 4 != 0 {
            tardy.apply();
        }
        prompt.read(&ask, from.session);
    }
    tardy.apply();
    assert_eq!(prompt.tree.digest(), tardy.tree.digest());
    assert!(prompt.prepared.is_empty() && tardy.prepared.is_empty(), "something applied is still in flight");
    survives(&prompt.tree);
}

/// The body of a snapshot.
pub(crate) fn snapshots(input: &[u8]) {
    match Tree::restore(RULES, &Bytes::copy_from_slice(input)) {
        Ok(tree) => survives(&tree),
        Err(refused) => drop(refused.to_string()),
    }
}

struct Leader {
    tree: Tree,
    prepared: Prepared,
    in_flight: Vec<Bytes>,
    changes: Changes,
    watches: Watches,
}

impl Leader {
    fn new() -> Self {
        let (tree, prepared, changes) = (Tree::new(RULES), Prepared::new(), Changes::new());
        let mut leader = Self { tree, prepared, in_flight: Vec::new(), changes, watches: Watches::new() };
        for (zxid, session) in (1..).zip(1..=2) {
            let at = Position { zxid, wall_ms: 1_000 };
            let _ = leader.prepare(at, From { session, cxid: 0, floor: 0 }, &Ask::attach(4_000, false));
        }
        leader.apply();
        leader
    }

    fn prepare(&mut self, at: Position, from: From, ask: &Bytes) -> Option<Bytes> {
        let txn = self.prepared.prepare(&self.tree, at, from, ask);
        self.in_flight.extend(txn.clone());
        txn
    }

    fn apply(&mut self) {
        for txn in self.in_flight.drain(..) {
            let entry = TxnEntry::decode(txn).expect("what was prepared reads back");
            self.changes.clear();
            let applied = self.tree.apply(&entry, true, &mut self.changes);
            assert!(applied.reply.is_some(), "an answer was wanted: {entry:?}");
            self.prepared.applied(entry.header.zxid);
            self.watches.fire(&self.changes, &mut Vec::new());
        }
    }

    /// If it is no write, it can be read, and may set a watch.
    fn read(&mut self, ask: &Bytes, session: i64) {
        let Ok(Ask { caller, what: What::Request(request) }) = Ask::decode(ask) else { return };
        if is_write(request.op()) {
            return;
        }
        let watches = &mut self.watches;
        let _ = read(
            &self.tree,
            move || watches,
            Watcher(session.cast_unsigned()),
            session,
            &caller,
            &request,
            &mut Writer::new(),
            &mut Vec::new(),
        );
    }
}

/// It comes out of a snapshot as it went in.
fn survives(tree: &Tree) {
    let mut body = Vec::new();
    tree.freeze().write(&mut |piece| body.extend_from_slice(piece));
    let again = Tree::restore(RULES, &body.into()).unwrap_or_else(|refused| panic!("of its own: {refused}"));
    assert_eq!(again.digest(), tree.digest(), "{} nodes, then {}", tree.node_count(), again.node_count());
}

/// A byte, two bytes of length, and so many bytes or what is left; again and again.
pub(crate) fn pieces(mut input: &[u8]) -> impl Iterator<Item = (u8, Bytes)> {
    std::iter::from_fn(move || {
        let (&[how, high, low], rest) = input.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes([high, low])).min(rest.len());
        let (piece, rest) = rest.split_at(length);
        input = rest;
        Some((how, Bytes::copy_from_slice(piece)))
    })
}

/// Everything that can be asked for is looked at.
const RULES: Rules = Rules { extended_types: true, enforce_quota: true, ..Rules::DEFAULT };
