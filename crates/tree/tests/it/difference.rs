//! The requests that turn one content into another: every one is possible in its order, and nothing differs afterwards.

use pole_jute::{CreateMode, Perms, Request};
use pole_tree::{Counts, Rules, Step, Tree};
use proptest::prelude::*;

use crate::server::{ALICE, BOB, Server, acl, id, new_node, new_ttl, set_acl, set_data};

fn counts(from: &Server, to: &Server) -> Counts {
    from.tree.freeze().difference(&to.tree.freeze()).counts()
}

/// Carries out the difference as a superuser, one request at a time.
fn bring(from: &mut Server, to: &Server) -> Counts {
    from.caller.ids.push(id("super", ""));
    let (live, target) = (from.tree.freeze(), to.tree.freeze());
    let difference = live.difference(&target);
    for step in difference.steps() {
        let done = match step.clone() {
            Step::SetAcl(request) => from.write(&Request::SetAcl(request)).is_ok(),
            Step::Op(op) => {
                !from.multi(vec![op]).iter().any(|result| matches!(result, pole_jute::MultiResult::Error(_)))
            }
        };
        assert!(done, "{step:?}");
    }
    difference.counts()
}

fn data(server: &Server, path: &str) -> Option<Vec<u8>> {
    server.tree.data(path).map(|data| data.unwrap_or_default().to_vec())
}

#[test]
fn nodes_data_and_acls_become_those_of_the_other() {
    let (mut from, mut to) = (Server::new(), Server::new());
    for path in ["/gone", "/gone/a", "/gone/a/b", "/both", "/both/old"] {
        from.create(path, CreateMode::Persistent);
    }
    for path in ["/both", "/new", "/new/a", "/new/a/b"] {
        to.create(path, CreateMode::Persistent);
    }
    to.set("/both", b"data").unwrap();
    to.write(&set_acl("/both", vec![acl(Perms::READ, "digest", "u:h")], -1)).unwrap();
    to.set("/", b"of the root").unwrap();
    let done = bring(&mut from, &to);
    assert_eq!(done, Counts { created: 3, changed: 2, deleted: 4, ephemerals: 0 });
    assert_eq!(counts(&from, &to), Counts::default());
    assert_eq!((data(&from, "/both"), data(&from, "/")), (Some(b"data".to_vec()), Some(b"of the root".to_vec())));
    assert!(from.tree.stat("/gone").is_none() && from.tree.stat("/new/a/b").is_some());
}

#[test]
fn containers_and_nodes_with_a_time_to_live_are_created_as_such() {
    let (mut from, mut to) = (Server::new(), Server::new());
    to.write(&new_ttl("/t", CreateMode::PersistentWithTtl, 500)).unwrap();
    to.write(&Request::CreateContainer(new_node("/c", b"", CreateMode::Container))).unwrap();
    bring(&mut from, &to);
    from.create("/c/child", CreateMode::Persistent);
    from.delete("/c/child").unwrap();
    let later = from.wall_ms + 10_000;
    assert_eq!(from.tree.due(later), ["/c", "/t"]);
}

#[test]
fn ephemeral_nodes_and_what_is_above_them_belong_to_their_sessions() {
    let (mut from, mut to) = (Server::new(), Server::new());
    from.create("/locks", CreateMode::Persistent);
    from.create("/locks/held", CreateMode::Ephemeral);
    from.create("/locks/other", CreateMode::Persistent);
    to.create("/was", CreateMode::Ephemeral);
    // Where an ephemeral node is, no other can be.
    from.create("/same", CreateMode::Ephemeral);
    to.create("/same", CreateMode::Persistent);
    to.create("/same/child", CreateMode::Persistent);
    let done = bring(&mut from, &to);
    assert_eq!(done, Counts { created: 0, changed: 0, deleted: 1, ephemerals: 3 });
    assert_eq!(from.tree.ephemerals(ALICE).len(), 2);
    assert!(from.tree.stat("/locks").is_some() && from.tree.stat("/was").is_none());
    assert_eq!(counts(&from, &to).deleted, 0);
}

#[test]
fn quotas_are_content_and_the_rest_of_zookeeper_is_not() {
    let (mut from, mut to) = (Server::new(), Server::new());
    let limits = "/zookeeper/quota/app/zookeeper_limits";
    for (path, text) in [("/app", &b""[..]), ("/zookeeper/quota/app", b""), (limits, b"count=5,bytes=-1")] {
        to.write(&Request::Create(new_node(path, text, CreateMode::Persistent))).unwrap();
    }
    let stats = new_node("/zookeeper/quota/app/zookeeper_stats", b"count=1,bytes=0", CreateMode::Persistent);
    to.write(&Request::Create(stats)).unwrap();
    to.tree.set_config(b"another ensemble");
    bring(&mut from, &to);
    assert_eq!(data(&from, limits), Some(b"count=5,bytes=-1".to_vec()));
    assert_eq!(counts(&from, &to), Counts::default());
    assert_ne!(data(&from, "/zookeeper/config"), Some(b"another ensemble".to_vec()));
}

#[test]
fn sessions_are_not_content() {
    let (mut from, to) = (Server::new(), Server::new());
    from.attach(BOB, 4000);
    assert_eq!(counts(&from, &to), Counts::default());
}

/// A few paths, so that two random trees have much in common.
fn change() -> impl Strategy<Value = (usize, u8)> {
    (0..12_usize, 0..4_u8)
}

const PATHS: [&str; 12] =
    ["/a", "/a/b", "/a/b/c", "/a/d", "/a-b", "/a-b/c", "/e", "/e/f", "/e/f/g", "/e/f/g/h", "/e/i", "/j"];

fn tree_of(changes: &[(usize, u8)]) -> Server {
    let mut server = Server::new();
    for (path, what) in changes {
        let path = PATHS[*path];
        // Most of them fail, because there is no parent or there are children.
        let _ = match what {
            0 | 1 => server.write(&Request::Create(new_node(path, &[*what], CreateMode::Persistent))),
            2 => server.write(&set_data(path, b"changed", -1)),
            _ => server.delete(path),
        };
    }
    server
}

proptest! {
    #[test]
    fn any_tree_becomes_any_other(
        from in prop::collection::vec(change(), 0..60),
        to in prop::collection::vec(change(), 0..60),
    ) {
        let (mut from, to) = (tree_of(&from), tree_of(&to));
        bring(&mut from, &to);
        prop_assert_eq!(counts(&from, &to), Counts::default());
        for path in PATHS {
            prop_assert_eq!(data(&from, path), data(&to, path));
        }
        prop_assert_eq!(from.tree.node_count(), to.tree.node_count());
    }
}

#[test]
fn an_acl_of_another_scheme_is_found_before_anything_is_written() {
    let (from, mut to) = (Server::new(), Server::new());
    to.create("/a", CreateMode::Persistent);
    to.write(&set_acl("/a", vec![acl(Perms::READ, "digest", "u:h")], -1)).unwrap();
    assert_eq!(from.tree.freeze().difference(&to.tree.freeze()).unsupported_acl(Rules::DEFAULT), None);
    // As in a backup of an ensemble that has a scheme of its own.
    let mut bytes = to.snapshot().to_vec();
    let at = bytes.windows(6).position(|window| window == b"digest").unwrap();
    bytes[at..at + 6].copy_from_slice(b"custom");
    let other = Tree::restore(Rules::default(), &bytes.into()).unwrap();
    assert_eq!(from.tree.freeze().difference(&other.freeze()).unsupported_acl(Rules::DEFAULT), Some(("/a", "custom")));
}
