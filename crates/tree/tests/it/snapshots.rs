//! Snapshots: frozen while the tree changes, restored, and rejected when damaged.

use std::thread;

use bytes::Bytes;
use pole_jute::{CreateMode, CreateRequest, Perms, Request};
use pole_tree::{Caller, RequestOrigin, RestoreError, Restorer, Rules, Tree, WriteRequest};

use crate::apache::content;
use crate::server::{ALICE, Server, acl, body, encode_write, new_node, new_ttl, set_acl, set_data};

/// A server with nodes of every kind.
fn populated() -> Server {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    for _ in 0..5 {
        server.create("/p/s", CreateMode::PersistentSequential);
    }
    server.delete("/p/s0000000001").unwrap();
    server.create("/e", CreateMode::Ephemeral);
    server.write(&new_ttl("/t", CreateMode::PersistentWithTtl, 500)).unwrap();
    server.write(&Request::CreateContainer(new_node("/c", b"", CreateMode::Container))).unwrap();
    server
        .write(&Request::Create(CreateRequest { data: None, ..new_node("/n", b"", CreateMode::Persistent) }))
        .unwrap();
    server.write(&set_acl("/n", vec![acl(Perms::READ, "digest", "u:h")], -1)).unwrap();
    server
}

#[test]
fn what_is_written_reads_back_the_same() {
    let server = populated();
    let restored = Tree::restore(Rules::default(), &server.snapshot()).unwrap();
    assert_eq!(restored.digest(), server.tree.digest());
    assert_eq!(content(&body(&restored)), content(&server.snapshot()));
    assert_eq!(restored.node_count(), server.tree.node_count());
    assert_eq!(restored.approximate_data_bytes(), server.tree.approximate_data_bytes());
    assert_eq!(restored.ephemerals_count(), 1);
}

#[test]
fn a_frozen_tree_does_not_see_later_changes() {
    let mut server = populated();
    let before = server.snapshot();
    let frozen = server.tree.freeze();
    server.set("/p", b"later").unwrap();
    server.delete("/e").unwrap();
    for _ in 0..200 {
        server.create("/p/s", CreateMode::PersistentSequential);
    }
    server.write(&Request::CloseSession).unwrap();
    // On another thread, as in a server.
    let write = move || {
        let mut bytes = Vec::new();
        frozen.write(&mut |piece| bytes.extend_from_slice(piece));
        bytes
    };
    assert_eq!(content(&thread::spawn(write).join().unwrap().into()), content(&before));
    assert_ne!(content(&server.snapshot()), content(&before));
}

#[test]
fn a_large_tree_is_written_in_pieces() {
    let mut server = Server::new();
    for _ in 0..40 {
        server.write(&Request::Create(new_node("/s", &[7; 5000], CreateMode::PersistentSequential))).unwrap();
    }
    let mut pieces = Vec::new();
    server.tree.freeze().write(&mut |piece| pieces.push(piece.len()));
    assert!(pieces.len() > 2 && pieces.iter().all(|piece| *piece < 80_000), "{pieces:?}");
}

#[test]
fn a_truncated_snapshot_is_rejected() {
    let whole = populated().snapshot();
    for end in 0..whole.len() {
        assert!(Tree::restore(Rules::default(), &whole.slice(..end)).is_err(), "{end} of {} bytes", whole.len());
    }
}

#[test]
fn damage_is_an_error_or_another_tree_and_never_a_panic() {
    let whole = populated().snapshot();
    for at in 0..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = whole.to_vec();
            bytes[at] ^= flip;
            if let Ok(tree) = Tree::restore(Rules::default(), &bytes.into()) {
                let again = Tree::restore(Rules::default(), &body(&tree)).unwrap();
                assert_eq!(again.digest(), tree.digest());
            }
        }
    }
}

#[test]
fn a_leader_from_a_snapshot_still_knows_which_connection_a_session_has_left() {
    let mut server = populated();
    let old = server.tree.last_zxid();
    server.propose(RequestOrigin { session: ALICE, cxid: 0, floor: 0 }, &WriteRequest::attach(4000, true));
    server.settle();
    let now = server.tree.last_zxid();
    let mut server = Server::over(Tree::restore(Rules::default(), &server.snapshot()).unwrap().with_last_zxid(now));
    let request = encode_write(&Caller::default(), &set_data("/p", b"", -1));
    assert_eq!(server.propose(RequestOrigin { session: ALICE, cxid: 1, floor: old }, &request), None);
    assert!(server.propose(RequestOrigin { session: ALICE, cxid: 1, floor: now }, &request).is_some());
}

#[test]
fn a_snapshot_in_pieces_is_the_same_wherever_it_is_cut() {
    let server = populated();
    let whole = server.snapshot();
    let in_pieces = |size: usize, length: usize| {
        let mut restorer = Restorer::new(Rules::default());
        for at in (0..length).step_by(size) {
            restorer.feed(whole.slice(at..length.min(at + size)))?;
        }
        restorer.finish()
    };
    for size in [1, 7, 64, 1000] {
        assert_eq!(in_pieces(size, whole.len()).unwrap().digest(), server.tree.digest());
        // An error does not depend on the pieces either.
        let short = in_pieces(size, whole.len() - 3).unwrap_err();
        assert_eq!(short, Tree::restore(Rules::default(), &whole.slice(..whole.len() - 3)).unwrap_err());
    }
    let mut restorer = Restorer::new(Rules::default());
    restorer.feed(whole.clone()).unwrap();
    restorer.feed(Bytes::from_static(b"more")).unwrap();
    assert!(matches!(restorer.finish(), Err(RestoreError::Malformed(_))));
}

/// A snapshot with these nodes (path, ACL reference) and no sessions.
fn with_nodes(nodes: &[(&str, i64)]) -> Result<Tree, RestoreError> {
    use pole_jute::{DataNode, Record, SnapshotNode, StatPersisted, Writer};
    let mut writer = Writer::new();
    writer.int(0);
    writer.int(0);
    for (path, acl) in nodes {
        let node = DataNode { data: None, acl: *acl, stat: StatPersisted::default() };
        SnapshotNode::Node((*path).into(), node).write(&mut writer);
    }
    SnapshotNode::End.write(&mut writer);
    Tree::restore(Rules::default(), &writer.into_bytes())
}

#[test]
fn every_reference_is_checked() {
    let path = |path: &str| path.to_owned();
    assert_eq!(with_nodes(&[]).unwrap_err(), RestoreError::Orphan { path: path("") });
    assert_eq!(with_nodes(&[("/a", -1)]).unwrap_err(), RestoreError::Orphan { path: path("/a") });
    assert_eq!(with_nodes(&[("", -1), ("/a/b", -1)]).unwrap_err(), RestoreError::Orphan { path: path("/a/b") });
    assert_eq!(
        with_nodes(&[("", -1), ("/a", -1), ("/a", -1)]).unwrap_err(),
        RestoreError::Duplicate { path: path("/a") }
    );
    assert_eq!(with_nodes(&[("", -1), ("a", -1)]).unwrap_err(), RestoreError::InvalidPath { path: path("a") });
    assert_eq!(with_nodes(&[("", -1), ("/a/", -1)]).unwrap_err(), RestoreError::InvalidPath { path: path("/a/") });
    let unknown = RestoreError::UnknownAcl { path: path("/a"), reference: 7 };
    assert_eq!(with_nodes(&[("", -1), ("/a", 7)]).unwrap_err(), unknown);
    let message = "the snapshot is damaged: node \"/a\" refers to ACL 7, which is not in the table";
    assert_eq!(unknown.to_string(), message);
}

#[test]
fn a_snapshot_without_the_reserved_nodes_gets_them() {
    let tree = with_nodes(&[("", -1), ("/zookeeper", -1)]).unwrap();
    assert!(tree.stat("/zookeeper/quota").is_some() && tree.stat("/zookeeper/config").is_some());
}

#[test]
fn ephemeral_nodes_without_a_session_are_found_and_can_be_closed() {
    let server = populated();
    let whole = server.snapshot();
    // The number of sessions and the one session.
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(&whole[16..]);
    let tree = Tree::restore(Rules::default(), &Bytes::from(bytes)).unwrap();
    assert_eq!(tree.dead_sessions(), [ALICE]);
    let mut server = Server::over(tree);
    server.propose(RequestOrigin { session: ALICE, cxid: 0, floor: 0 }, &WriteRequest::close());
    server.settle();
    assert_eq!((server.tree.dead_sessions().len(), server.tree.stat("/e")), (0, None));
}
