//! The audit log of a running server, compared with the lines that Apache ZooKeeper 3.9.2 wrote for the same requests.

use std::fs;

use pole_client::{add_auth, create, delete, set_data};
use pole_jute::{Acl, CreateMode, CreateRequest, Id, MultiOp, MultiRequest, Perms, Request, SetAclRequest};

use crate::test_server::TestServer;

#[test]
fn every_change_has_the_line_that_apache_writes() {
    let mut server = TestServer::standalone("audit.enable=true\n");
    server.wait_until_serving();
    let mut session = server.session();
    let id = format!("{:#x}", session.id());
    let mut ask = |request: Request| session.ask(request).is_ok();
    let made = |path: &str, mode| create(path, b"", mode);
    assert!(ask(made("/a", CreateMode::Persistent)));
    assert!(!ask(made("/a", CreateMode::Persistent)));
    assert!(ask(made("/e", CreateMode::Ephemeral)));
    assert!(ask(made("/s-", CreateMode::PersistentSequential)));
    assert!(ask(set_data("/a", b"y")));
    assert!(!ask(set_data("/none", b"y")));
    let acl = vec![Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } }];
    assert!(ask(Request::SetAcl(SetAclRequest { path: "/a".into(), acl, version: -1 })));
    let Request::Create(node) = made("/m", CreateMode::Persistent) else { panic!("a create") };
    let of = |path: &str| CreateRequest { path: path.into(), ..node.clone() };
    let good = vec![MultiOp::Create(of("/m")), MultiOp::Create(of("/m/n"))];
    assert!(ask(Request::Multi(MultiRequest { ops: good })));
    let _ = ask(Request::Multi(MultiRequest { ops: vec![MultiOp::Create(of("/no/parent"))] }));
    assert!(ask(add_auth("digest", b"user:pw")));
    assert!(ask(delete("/m/n")));
    assert!(ask(Request::CloseSession));
    let path = server.dir.join("zookeeper_audit.log");
    server.wait_until("the end of the session is applied", |server| {
        server.get("/commands/monitor")["ephemerals_count"] == 0
    });
    server.stop();

    let text = fs::read_to_string(path).expect("an audit log");
    let without_time = |line: &str| line.split_once(' ').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    let user = text.split("user=").nth(1).and_then(|rest| rest.split('\t').next()).expect("a user").to_owned();
    let lines: Vec<String> = text.lines().map(without_time).collect();
    let client = format!("session={id}\tuser=127.0.0.1\tip=127.0.0.1\t");
    let info = |rest: &str| format!("INFO audit: {client}{rest}\tresult=success");
    let error = |rest: &str| format!("ERROR audit: {client}{rest}\tresult=failure");
    let expected = [
        format!("INFO audit: user={user}\toperation=serverStart\tresult=success"),
        info("operation=create\tznode=/a\tznode_type=persistent"),
        error("operation=create\tznode=/a\tznode_type=persistent"),
        info("operation=create\tznode=/e\tznode_type=ephemeral"),
        info("operation=create\tznode=/s-0000000002\tznode_type=persistent_sequential"),
        info("operation=setData\tznode=/a"),
        error("operation=setData\tznode=/none"),
        info("operation=setAcl\tznode=/a\tacl=world:anyone:cdrwa"),
        info("operation=create\tznode=/m\tznode_type=persistent"),
        info("operation=create\tznode=/m/n\tznode_type=persistent"),
        error("operation=multiOperation"),
        info("operation=delete\tznode=/m/n").replace("user=127.0.0.1", "user=127.0.0.1,user"),
        format!(
            "INFO audit: session={id}\tuser={user}\toperation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode=/e\tresult=success"
        ),
        format!("INFO audit: user={user}\toperation=serverStop\tresult=invoked"),
    ];
    assert_eq!(lines, expected, "{text}");
}

#[test]
fn without_the_key_there_is_no_audit_log() {
    let mut server = TestServer::standalone("");
    server.wait_until_serving();
    server.session().ask(create("/a", b"", CreateMode::Persistent)).expect("it is created");
    server.stop();
    assert!(!server.dir.join("zookeeper_audit.log").exists());
}
