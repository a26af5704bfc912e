//! Transactions that do not fit the tree, as a log of Apache has them behind a snapshot that was taken while writes went
//! on. Applying them never fails, and in the end all is as if each had been applied once.

use pole_jute::{CloseSessionTxn, CreateMode, CreateTxn, DeleteTxn, SetAclTxn, SetDataTxn, Txn, TxnEntry, TxnHeader};
use pole_tree::{Changes, Tree};

use crate::server::{ALICE, BOB, Server, open};

/// Applies a transaction that nobody has prepared.
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
fn a_log_before_3_4_counts_by_itself() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    replay(&mut server, create("/p/a", -1));
    replay(&mut server, create("/p/b", -1));
    assert_eq!(server.tree.stat("/p").unwrap().cversion, 2);
}

#[test]
fn what_is_gone_is_no_loss() {
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
fn a_node_to_be_deleted_takes_its_children_along() {
    let mut server = Server::new();
    for path in ["/p", "/p/a", "/p/a/b", "/p/c"] {
        server.create(path, CreateMode::Persistent);
    }
    replay(&mut server, Txn::Delete(DeleteTxn { path: "/p".into() }));
    assert_eq!(server.tree.node_count(), Tree::new(pole_tree::Rules::default()).node_count());
}

#[test]
fn a_closed_session_of_old_takes_all_that_it_has() {
    let mut server = Server::new();
    server.attach(BOB, 4000);
    server.create("/mine", CreateMode::Ephemeral);
    replay(&mut server, Txn::CloseSession(None));
    assert_eq!((server.tree.stat("/mine"), server.tree.session(ALICE)), (None, None));
    assert!(server.tree.session(BOB).is_some());
}
