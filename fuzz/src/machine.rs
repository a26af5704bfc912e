//! Targets `txns`, `machine` and `snapshots`: the tree and the validation of requests.
//!
//! Properties: validation against the tree plus the transactions in flight gives the same result as validation after
//! all of them are applied; a tree that is written to a snapshot and read back has the same digest; a damaged
//! snapshot is refused.

use bytes::Bytes;
use pole_jute::{Record, TxnEntry, Writer};
use pole_tree::{
    Changes, Operation, Position, Prepared, RequestOrigin, Rules, Tree, Watcher, Watches, WriteRequest, is_write, read,
};

/// The input is a sequence of log entries as [`steps`], whose selectors are ignored. Each entry is decoded, encoded
/// again, and applied.
pub(crate) fn txns(input: &[u8]) {
    let mut tree = Tree::new(RULES);
    let mut changes = Changes::new();
    for (_, body) in steps(input) {
        let Ok(entry) = TxnEntry::decode(body) else { continue };
        assert_eq!(TxnEntry::decode(entry.encode()).as_ref(), Ok(&entry));
        changes.clear();
        let _ = tree.apply(&entry, true, &mut changes);
    }
    assert_snapshot_round_trip(&tree);
}

/// The input is a sequence of requests as [`steps`]. Two leaders get them: one applies each transaction at once, the
/// other only when the selector says so. Both must produce the same transactions.
pub(crate) fn machine(input: &[u8]) {
    let mut eager = Leader::new();
    let mut lazy = Leader::new();
    for (zxid, (selector, ask)) in (10..).zip(steps(input)) {
        let at = Position { zxid, wall_ms: 1_000_000 + 1_000 * zxid };
        let from =
            RequestOrigin { session: i64::from(selector & 3), cxid: selector.into(), floor: i64::from(selector >> 6) };
        let txn = eager.prepare(at, from, &ask);
        assert_eq!(lazy.prepare(at, from, &ask), txn, "transactions in flight make a difference");
        eager.apply();
        if selector & 4 != 0 {
            lazy.apply();
        }
        eager.read(&ask, from.session);
    }
    lazy.apply();
    assert_eq!(eager.tree.digest(), lazy.tree.digest());
    assert!(eager.prepared.is_empty() && lazy.prepared.is_empty(), "an applied transaction is still in flight");
    assert_snapshot_round_trip(&eager.tree);
}

/// The input is the body of a snapshot.
pub(crate) fn snapshots(input: &[u8]) {
    match Tree::restore(RULES, &Bytes::copy_from_slice(input)) {
        Ok(tree) => assert_snapshot_round_trip(&tree),
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
            let _ =
                leader.prepare(at, RequestOrigin { session, cxid: 0, floor: 0 }, &WriteRequest::attach(4_000, false));
        }
        leader.apply();
        leader
    }

    fn prepare(&mut self, at: Position, from: RequestOrigin, ask: &Bytes) -> Option<Bytes> {
        let txn = self.prepared.prepare(&self.tree, at, from, ask, &|_| true);
        self.in_flight.extend(txn.clone());
        txn
    }

    fn apply(&mut self) {
        for txn in self.in_flight.drain(..) {
            let entry = TxnEntry::decode(txn).expect("a prepared transaction can be decoded");
            self.changes.clear();
            let applied = self.tree.apply(&entry, true, &mut self.changes);
            assert!(applied.reply.is_some(), "no reply for {entry:?}");
            self.prepared.applied(entry.header.zxid);
            self.watches.fire(&self.changes, |_, _| {});
        }
    }

    /// Executes a request that is a read. It may set a watch.
    fn read(&mut self, ask: &Bytes, session: i64) {
        let Ok(WriteRequest { caller, operation: Operation::Request(request) }) = WriteRequest::decode(ask) else {
            return;
        };
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

/// Asserts that the tree can be written to a snapshot and restored from it.
fn assert_snapshot_round_trip(tree: &Tree) {
    let mut body = Vec::new();
    tree.freeze().write(&mut |piece| body.extend_from_slice(piece));
    let again =
        Tree::restore(RULES, &body.into()).unwrap_or_else(|refused| panic!("its own snapshot is refused: {refused}"));
    assert_eq!(again.digest(), tree.digest(), "{} nodes, then {}", tree.node_count(), again.node_count());
}

/// Splits an input into steps: a selector byte, a length of two bytes (big-endian), and a body of this length or what
/// is left.
pub(crate) fn steps(mut input: &[u8]) -> impl Iterator<Item = (u8, Bytes)> {
    std::iter::from_fn(move || {
        let (&[selector, high, low], rest) = input.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes([high, low])).min(rest.len());
        let (body, rest) = rest.split_at(length);
        input = rest;
        Some((selector, Bytes::copy_from_slice(body)))
    })
}

/// Enables all request types and checks.
const RULES: Rules = Rules { extended_types: true, enforce_quota: true, ..Rules::DEFAULT };
