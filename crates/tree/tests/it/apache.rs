//! Replays a log of a real Apache server, and compares with the snapshot that it wrote.

use std::collections::BTreeMap;

use bytes::Bytes;
use pole_jute::{AclEntry, DataNode, Place, Reader, Record, SessionEntry, SnapshotNode, TxnEntry};
use pole_tree::{Changes, Rules, Tree};

use crate::server::body;

const SNAPSHOT: &str = include_str!("apache/snapshot.txt");
const LOG: &str = include_str!("apache/log.txt");

#[test]
fn the_log_leads_to_the_state_that_apache_saved() {
    let restored = Tree::restore(Rules::default(), &snapshot()).unwrap().with_last_zxid(0x2f);
    let replayed = replayed();
    assert_eq!(content(&body(&replayed)), content(&snapshot()));
    assert_eq!(content(&body(&restored)), content(&snapshot()));
    assert_eq!(replayed.digest(), restored.digest());
    assert_eq!(replayed.last_zxid(), restored.last_zxid());
}

#[test]
fn clients_see_the_same_stats_as_with_apache() {
    let tree = replayed();
    let root = tree.stat("/").unwrap();
    assert_eq!((root.cversion, root.num_children, root.pzxid, root.data_length), (12, 10, 47, 0));
    let a = tree.stat("/a").unwrap();
    assert_eq!((a.czxid, a.mzxid, a.version, a.ctime, a.data_length), (10, 25, 3, 1_794_749_434_811, 5));
    let config = tree.stat("/zookeeper/config").unwrap();
    assert_eq!((config.version, config.aversion, config.ctime), (0, -1, 0));
    assert_eq!(tree.data("/zookeeper/quota/q/zookeeper_stats"), Some(Some(&b"count=3,bytes=9"[..])));
    assert_eq!((tree.sessions().count(), tree.ephemerals_count(), tree.dead_sessions().len()), (1, 1, 0));
    assert_eq!(tree.due(0), ["/box"]);
    let mut later = tree.due(i64::MAX);
    later.sort();
    assert_eq!(later, ["/box", "/ttl", "/ttl-0000000003"]);
}

#[test]
fn a_part_of_the_log_that_the_snapshot_already_holds_changes_nothing() {
    let restored = Tree::restore(Rules::default(), &snapshot()).unwrap();
    for first in 0..entries().len() {
        let mut tree = restored.clone();
        entries()[first..].iter().for_each(|entry| drop(tree.apply(entry, false, &mut Changes::new())));
        assert_eq!(content(&body(&tree)), content(&snapshot()), "from entry {first}");
    }
}

fn replayed() -> Tree {
    let mut tree = Tree::new(Rules::default());
    entries().iter().for_each(|entry| drop(tree.apply(entry, false, &mut Changes::new())));
    tree
}

fn entries() -> Vec<TxnEntry> {
    lines(LOG).map(|line| TxnEntry::decode(line).unwrap()).collect()
}

fn snapshot() -> Bytes {
    lines(SNAPSHOT).next().unwrap()
}

/// Sessions, and nodes with their ACL instead of its reference, because references may differ.
type Content = (BTreeMap<i64, i32>, BTreeMap<String, (DataNode, String)>);

/// The content of a snapshot, independent of its order.
pub(crate) fn content(body: &Bytes) -> Content {
    let mut reader = Reader::new(body.clone());
    let sessions: Vec<SessionEntry> = reader.vector(Place::new("snapshot", "sessions")).unwrap();
    let acls: Vec<AclEntry> = reader.vector(Place::new("snapshot", "acls")).unwrap();
    let mut nodes = BTreeMap::new();
    while let SnapshotNode::Node(path, node) = SnapshotNode::read(&mut reader).unwrap() {
        let acl = acls.iter().find(|entry| entry.reference == node.acl).map(|entry| format!("{:?}", entry.acl));
        nodes.insert(path, (DataNode { acl: 0, ..node }, acl.unwrap_or_default()));
    }
    reader.finish("snapshot").unwrap();
    (sessions.into_iter().map(|session| (session.id, session.timeout)).collect(), nodes)
}

fn lines(text: &str) -> impl Iterator<Item = Bytes> {
    text.lines().filter(|line| !line.starts_with('#')).map(unhex)
}

fn unhex(text: &str) -> Bytes {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
