//! Pole's settings node, which only the admin path writes; and operations that are not supported.

use pole_jute::{
    CheckVersionRequest, CreateMode, ErrorCode, GetDataRequest, MultiOp, MultiResult, Perms, ReconfigRequest, Request,
};
use pole_tree::{Caller, is_write};

use crate::server::{Server, acl, delete, id, new_node, set_acl, set_data};

const POLE: &str = "/zookeeper/pole";

fn create() -> Request {
    Request::Create(new_node(POLE, b"latency", CreateMode::Persistent))
}

#[test]
fn the_settings_are_absent_until_the_admin_path_sets_them() {
    let mut server = Server::new();
    assert_eq!(server.tree.stat(POLE), None);
    server.caller = Caller::admin();
    server.write(&create()).unwrap();
    assert!(server.last.settings_changed);
    server.write(&set_data(POLE, b"request", -1)).unwrap();
    assert!(server.last.settings_changed);
    server.write(&delete(POLE, -1)).unwrap();
    assert!(server.last.settings_changed);
    server.write(&set_data("/zookeeper", b"", -1)).unwrap();
    assert!(!server.last.settings_changed);
}

#[test]
fn the_admin_path_needs_no_session() {
    let mut server = Server::new();
    server.caller = Caller::admin();
    server.write_by(0, &create()).unwrap();
    let mine = Request::Create(new_node("/mine", b"", CreateMode::Ephemeral));
    assert_eq!(server.write_by(0, &mine), Err(ErrorCode::SessionExpired));
}

#[test]
fn nobody_else_writes_them_not_even_the_super_user() {
    let mut server = Server::new();
    for ids in [vec![], vec![id("super", "")], vec![id("digest", "pole:admin")]] {
        server.caller = Caller { ids };
        assert_eq!(server.write(&create()), Err(ErrorCode::NoAuth));
    }
    server.caller = Caller::admin();
    server.write(&create()).unwrap();
    server.caller = Caller { ids: vec![id("super", "")] };
    let open = vec![acl(Perms::ALL, "world", "anyone")];
    let below = Request::Create(new_node("/zookeeper/pole/x", b"", CreateMode::Persistent));
    for request in [set_data(POLE, b"", -1), delete(POLE, -1), set_acl(POLE, open, -1), below] {
        assert_eq!(server.write(&request), Err(ErrorCode::NoAuth), "{request:?}");
    }
}

#[test]
fn everyone_reads_them() {
    let mut server = Server::new();
    server.caller = Caller::admin();
    server.write(&create()).unwrap();
    server.caller = Caller::default();
    assert!(server.read(&Request::GetData(GetDataRequest { path: POLE.into(), watch: false })).is_ok());
    let check = MultiOp::Check(CheckVersionRequest { path: POLE.into(), version: 0 });
    assert_eq!(server.multi(vec![check]), [MultiResult::Check]);
}

#[test]
fn unsupported_operations_are_rejected() {
    let mut server = Server::new();
    let request = ReconfigRequest {
        joining_servers: None,
        leaving_servers: Some("2".into()),
        new_members: None,
        cur_config_id: -1,
    };
    assert_eq!(server.write(&Request::Reconfig(request)), Err(ErrorCode::ReconfigDisabled));
    let check = Request::Check(CheckVersionRequest { path: "/".into(), version: -1 });
    assert_eq!(server.write(&check), Err(ErrorCode::Unimplemented));
    assert!(is_write(check.op()) && !is_write(Request::Ping.op()));
    assert_eq!(server.read(&Request::Ping), Err(ErrorCode::Unimplemented));
}
