//! Permission checks, and setting ACLs.

use pole_jute::{
    CheckVersionRequest, CreateMode, CreateRequest, ErrorCode, GetAclRequest, GetAclResponse,
    GetAllChildrenNumberRequest, GetChildrenRequest, GetDataRequest, MultiOp, MultiReadOp, MultiReadRequest,
    MultiReadResult, MultiResult, Perms, Reply, Request,
};
use pole_tree::{AuthSettings, Caller, Rules, authenticate, digest_id};

use crate::server::{Server, acl, delete, id, new_node, open, set_acl, set_data};

fn get_data(path: &str) -> Request {
    Request::GetData(GetDataRequest { path: path.into(), watch: false })
}

fn get_acl(server: &mut Server, path: &str) -> Result<GetAclResponse, ErrorCode> {
    let reply = server.read(&Request::GetAcl(GetAclRequest { path: path.into() }))?;
    let Reply::GetAcl(reply) = reply else { panic!("{reply:?}") };
    Ok(reply)
}

/// A server with a node that only `user:password` may access; the caller has that identity.
fn protected() -> Server {
    let mut server = Server::new();
    server.caller.ids.extend(authenticate("digest", b"user:password", &AuthSettings::default()).unwrap());
    let list = vec![acl(Perms::ALL, "auth", "")];
    server.write(&Request::Create(CreateRequest { acl: list, ..new_node("/p", b"", CreateMode::Persistent) })).unwrap();
    server
}

#[test]
fn auth_becomes_the_digest_of_the_caller() {
    let mut server = protected();
    let list = get_acl(&mut server, "/p").unwrap().acl;
    assert_eq!(list, [acl(Perms::ALL, "digest", &digest_id("user:password"))]);
}

#[test]
fn a_stranger_may_only_call_exists() {
    let mut server = protected();
    server.create("/p/x", CreateMode::Persistent);
    server.caller = Caller { ids: vec![id("ip", "10.0.0.1")] };
    let refused = [
        Request::Create(new_node("/p/y", b"", CreateMode::Persistent)),
        set_data("/p", b"", -1),
        set_acl("/p", open(), -1),
        delete("/p/x", -1),
    ];
    for request in refused {
        assert_eq!(server.write(&request), Err(ErrorCode::NoAuth), "{request:?}");
    }
    let children = Request::GetChildren(GetChildrenRequest { path: "/p".into(), watch: false });
    for request in [get_data("/p"), children, Request::GetAcl(GetAclRequest { path: "/p".into() })] {
        assert_eq!(server.read(&request), Err(ErrorCode::NoAuth), "{request:?}");
    }
    let exists = Request::Exists(pole_jute::ExistsRequest { path: "/p".into(), watch: false });
    assert!(server.read(&exists).is_ok());
    // Deleting needs permission on the parent, which is open.
    assert_eq!(server.write(&delete("/p", -1)), Err(ErrorCode::NotEmpty));
}

#[test]
fn a_stranger_learns_nothing_by_reads_and_checks_that_are_parts_of_others() {
    let mut server = protected();
    server.caller = Caller { ids: vec![id("ip", "10.0.0.1")] };
    let data = MultiReadOp::GetData(GetDataRequest { path: "/p".into(), watch: false });
    let children = MultiReadOp::GetChildren(GetChildrenRequest { path: "/p".into(), watch: false });
    let read = Request::MultiRead(MultiReadRequest { ops: vec![data, children] });
    let Ok(Reply::MultiRead(reply)) = server.read(&read) else { panic!("it cannot fail") };
    let refused = MultiReadResult::Error(ErrorCode::NoAuth);
    assert_eq!(reply.results, [refused.clone(), refused]);
    let check = MultiOp::Check(CheckVersionRequest { path: "/p".into(), version: 0 });
    assert_eq!(server.multi(vec![check]), [MultiResult::Error(ErrorCode::NoAuth)]);
    let count = Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path: "/p".into() });
    assert_eq!(server.read(&count), Err(ErrorCode::NoAuth));
}

#[test]
fn who_may_do_everything_else_may_not_change_the_acl() {
    let mut server = Server::new();
    server.create("/p", CreateMode::Persistent);
    let all_but_admin = Perms::READ | Perms::WRITE | Perms::CREATE | Perms::DELETE;
    server.write(&set_acl("/p", vec![acl(all_but_admin, "world", "anyone")], -1)).unwrap();
    assert!(server.set("/p", b"").is_ok());
    assert_eq!(server.write(&set_acl("/p", open(), -1)), Err(ErrorCode::NoAuth));
}

#[test]
fn the_super_user_and_skip_acl_bypass_all_checks() {
    let mut server = protected();
    server.caller = Caller { ids: vec![id("super", "")] };
    assert!(server.read(&get_data("/p")).is_ok());
    let body = server.snapshot();
    let rules = Rules { skip_acl: true, ..Rules::default() };
    let mut server = Server::over(pole_tree::Tree::restore(rules, &body).unwrap());
    server.caller = Caller::default();
    assert!(server.read(&get_data("/p")).is_ok());
}

#[test]
fn a_reader_sees_no_password_hashes() {
    let mut server = protected();
    let list = vec![acl(Perms::ALL, "digest", "u:hash"), acl(Perms::READ, "world", "anyone")];
    server.write(&set_acl("/p", list.clone(), -1)).unwrap();
    let shown = get_acl(&mut server, "/p").unwrap().acl;
    assert_eq!(shown, [acl(Perms::ALL, "digest", "u:x"), list[1].clone()]);
    server.caller.ids.push(id("digest", "u:hash"));
    assert_eq!(get_acl(&mut server, "/p").unwrap().acl, list);
}

#[test]
fn an_acl_has_a_version_of_its_own() {
    let mut server = Server::new();
    server.create("/a", CreateMode::Persistent);
    let Ok(Reply::SetAcl(reply)) = server.write(&set_acl("/a", open(), 0)) else { panic!("version 0 is there") };
    assert_eq!((reply.stat.aversion, reply.stat.version), (1, 0));
    assert_eq!(server.write(&set_acl("/a", open(), 0)), Err(ErrorCode::BadVersion));
    assert_eq!(server.write(&set_acl("/a", vec![], -1)), Err(ErrorCode::InvalidAcl));
    assert_eq!(server.write(&set_acl("/none", open(), -1)), Err(ErrorCode::NoNode));
}

#[test]
fn an_acl_in_flight_is_already_enforced() {
    let mut server = Server::new();
    server.create("/a", CreateMode::Persistent);
    server.send(crate::server::ALICE, &set_acl("/a", vec![acl(Perms::ALL, "digest", "u:h")], -1));
    assert_eq!(server.write(&set_data("/a", b"", -1)), Err(ErrorCode::NoAuth));
}

#[test]
fn the_configuration_can_be_read_by_all_and_written_by_none() {
    let mut server = Server::new();
    let digest = server.tree.digest();
    server.tree.set_config(b"server.1=one:2888:3888:participant;0.0.0.0:2181\nversion=0");
    assert_eq!(server.tree.digest(), digest, "it is each server's own");
    assert!(server.read(&get_data("/zookeeper/config")).is_ok());
    assert_eq!(server.set("/zookeeper/config", b"mine"), Err(ErrorCode::NoAuth));
    assert_eq!(server.tree.stat("/zookeeper/config").unwrap().aversion, -1);
}
