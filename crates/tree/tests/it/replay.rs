//! Transactions that do not fit the tree, as in a log of Apache that follows a snapshot taken while writes went on.
//!
//! Applying them never fails, and in the end the tree is the same as if each had been applied once.

use pole_jute::{
    CloseSessionTxn, CreateMode, CreateSessionTxn, CreateTtlTxn, CreateTxn, DeleteTxn, MultiTxn, SetAclTxn, SetDataTxn,
    Txn, TxnEntry, TxnHeader,
};
use pole_tree::{Changes, Rules, Tree};
use proptest::prelude::*;

use crate::server::{ALICE, BOB, Server, open};

/// Applies a transaction that was not prepared.
pub(crate) fn replay(server: &mut Server, txn: Txn) {
    server.settle();
    let header =
        TxnHeader { client_id: ALICE, cxid: 0, zxid: server.zxid, time: server.wall_ms, op: txn.op().number() };
    server.zxid += 1;
    server.last = server.tree.apply(&TxnEntry { header, txn, digest: None }, true, &mut Changes::new());
}

fn create(path: &str, parent_cversion: i32) -> Txn {
    Txn::Create(CreateTxn { path: path.into(), data: None, acl: open(), ephemeral: false, parent_cversion })
}

#[test]
fn a_node_that_exists_still_moves_the_counter_of_its_parent() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    server.create("/p/a", CreateMode::Persistent);
    replay(&mut server, create("/p/a", 9));
    assert_eq!(server.tree.stat("/p").unwrap().cversion, 2 * 9 - 1);
    assert_eq!(server.tree.stat("/p").unwrap().pzxid, server.tree.last_zxid());
    replay(&mut server, create("/p/a", 4));
    assert_eq!(server.tree.stat("/p").unwrap().cversion, 2 * 9 - 1, "never back");
}

#[test]
fn a_log_before_3_4_increments_the_counter() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    replay(&mut server, create("/p/a", -1));
    replay(&mut server, create("/p/b", -1));
    assert_eq!(server.tree.stat("/p").unwrap().cversion, 2);
}

#[test]
fn transactions_on_missing_nodes_are_ignored() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    let before = server.tree.node_count();
    replay(&mut server, Txn::Delete(DeleteTxn { path: "/p/none".into() }));
    assert_eq!(server.tree.stat("/p").unwrap().pzxid, server.tree.last_zxid());
    replay(&mut server, Txn::Delete(DeleteTxn { path: "/none/none".into() }));
    replay(&mut server, Txn::Delete(DeleteTxn { path: "/".into() }));
    replay(&mut server, Txn::Delete(DeleteTxn { path: "odd".into() }));
    replay(&mut server, Txn::SetData(SetDataTxn { path: "/none".into(), data: None, version: 3 }));
    replay(&mut server, Txn::SetAcl(SetAclTxn { path: "/none".into(), acl: open(), version: 3 }));
    replay(&mut server, create("/none/x", 3));
    replay(&mut server, create("odd", 3));
    let paths_to_delete = vec!["/none".into(), "odd".into()];
    replay(&mut server, Txn::CloseSession(Some(CloseSessionTxn { paths_to_delete })));
    assert_eq!(server.tree.node_count(), before);
}

#[test]
fn deleting_a_node_deletes_its_children() {
    let mut server = Server::new();
    for path in ["/p", "/p/a", "/p/a/b", "/p/c"] {
        server.create(path, CreateMode::Persistent);
    }
    replay(&mut server, Txn::Delete(DeleteTxn { path: "/p".into() }));
    assert_eq!(server.tree.node_count(), Tree::new(Rules::default()).node_count());
}

#[test]
fn closing_a_session_without_a_list_deletes_all_its_nodes() {
    let mut server = Server::new();
    server.attach(BOB, 4000);
    server.create("/mine", CreateMode::Ephemeral);
    replay(&mut server, Txn::CloseSession(None));
    assert_eq!((server.tree.stat("/mine"), server.tree.session(ALICE)), (None, None));
    assert!(server.tree.session(BOB).is_some());
}

/// Transactions that no leader would prepare, on valid and invalid paths.
fn any_txn() -> impl Strategy<Value = Txn> {
    let path = || {
        let paths = [
            "/a",
            "/a/b",
            "/a/b/c",
            "/",
            "",
            "odd",
            "//",
            "/a/",
            "/zookeeper",
            "/zookeeper/config",
            "/zookeeper/quota/a",
        ];
        let quotas = ["/zookeeper/quota/a/zookeeper_limits", "/zookeeper/quota/a/zookeeper_stats", "/zookeeper/pole"];
        prop::sample::select(paths.into_iter().chain(quotas).map(str::to_owned).collect::<Vec<_>>())
    };
    let number = || prop::sample::select(vec![-1, 0, 1, i32::MAX, i32::MIN]);
    let list = || prop::sample::select(vec![open(), vec![]]);
    let data = || prop::option::of(prop::collection::vec(any::<u8>(), 0..5).prop_map(bytes::Bytes::from));
    let create =
        (path(), data(), list(), any::<bool>(), number()).prop_map(|(path, data, acl, ephemeral, parent_cversion)| {
            CreateTxn { path, data, acl, ephemeral, parent_cversion }
        });
    let part = prop_oneof![
        4 => create.prop_map(Txn::Create2),
        1 => (path(), any::<i64>()).prop_map(|(path, ttl)| {
            Txn::CreateTtl(CreateTtlTxn { path, data: None, acl: open(), parent_cversion: -1, ttl })
        }),
        3 => path().prop_map(|path| Txn::Delete(DeleteTxn { path })),
        2 => (path(), data(), number()).prop_map(|(path, data, version)| Txn::SetData(SetDataTxn { path, data, version })),
        1 => (path(), list(), number()).prop_map(|(path, acl, version)| Txn::SetAcl(SetAclTxn { path, acl, version })),
    ];
    let close = prop::collection::vec(path(), 0..3).prop_map(|paths_to_delete| CloseSessionTxn { paths_to_delete });
    prop_oneof![
        6 => part.clone(),
        1 => prop::collection::vec(part, 0..4).prop_map(|txns| Txn::Multi(MultiTxn { txns })),
        1 => Just(Txn::CreateSession(CreateSessionTxn { timeout: 5 })),
        1 => prop::option::of(close).prop_map(Txn::CloseSession),
    ]
}

proptest! {
    #[test]
    fn any_transaction_can_be_applied(txns in prop::collection::vec(any_txn(), 0..40)) {
        let mut server = Server::new();
        for txn in txns {
            replay(&mut server, txn);
        }
        let restored = Tree::restore(Rules::default(), &server.snapshot());
        prop_assert_eq!(restored.map(|tree| tree.digest()), Ok(server.tree.digest()));
    }
}
