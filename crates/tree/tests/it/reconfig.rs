//! Changes of the members of the ensemble.

use pole_jute::{ErrorCode, GetDataRequest, GetDataResponse, Perms, ReconfigRequest, Reply, Request, WatcherEvent};
use pole_tree::{Caller, Frozen, Rules, Tree, members_of};
use pole_types::ServerId;

use crate::server::{ALICE, Server, acl, encode_write, set_data};

const CONFIG: &str = "/zookeeper/config";

const THREE: &str = "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:participant;0.0.0.0:3\n\
                     server.3=c:1:2:participant;0.0.0.0:3\nversion=0";

/// A server of an ensemble of three, asked by an administrator.
fn server() -> Server {
    let mut server = Server::with(Rules { reconfig: true, ..Rules::default() });
    server.tree.set_config(THREE.as_bytes());
    server.caller = Caller::admin();
    server
}

fn list(members: &str) -> ReconfigRequest {
    ReconfigRequest {
        joining_servers: None,
        leaving_servers: None,
        new_members: Some(members.into()),
        cur_config_id: -1,
    }
}

fn change(joining: &str, leaving: &str) -> ReconfigRequest {
    let given = |text: &str| (!text.is_empty()).then(|| text.into());
    ReconfigRequest {
        joining_servers: given(joining),
        leaving_servers: given(leaving),
        new_members: None,
        cur_config_id: -1,
    }
}

impl Server {
    /// The new description of the members, without the line of its version, which is checked.
    fn reconfig(&mut self, request: ReconfigRequest) -> Result<String, ErrorCode> {
        let zxid = self.zxid;
        let Reply::Reconfig(GetDataResponse { data, stat }) = self.write(&Request::Reconfig(request))? else {
            panic!("another reply")
        };
        let text = String::from_utf8(data.unwrap().to_vec()).unwrap();
        assert_eq!((stat.version, stat.mzxid), (-1, zxid));
        assert_eq!(self.tree.data(CONFIG), Some(Some(text.as_bytes())));
        let (lines, version) = text.rsplit_once('\n').unwrap();
        assert_eq!(version, format!("version={zxid:x}"));
        Ok(lines.to_owned())
    }
}

#[test]
fn servers_join_and_leave() {
    let mut server = server();
    let joined = server.reconfig(change("server.4=d:1:2:observer;3, 2=e:1:2;f:3", "1")).unwrap();
    let expected =
        "server.2=e:1:2:participant;f:3\nserver.3=c:1:2:participant;0.0.0.0:3\nserver.4=d:1:2:observer;0.0.0.0:3";
    assert_eq!(joined, expected);
    let (members, version) = server.tree.members().unwrap();
    assert_eq!(version, server.zxid - 1);
    assert_eq!(members.membership().to_string(), "voters 2 3, observers 4");
}

#[test]
fn a_list_replaces_all_members_and_may_have_weights() {
    let mut server = server();
    let members = "server.1=a:1:2;3\nserver.5=e:1:2;3,group.1=1:5,weight.1=3,weight.5=1,version=0";
    let lines = server.reconfig(list(members)).unwrap();
    assert!(lines.ends_with("group.1=1:5\nweight.1=3\nweight.5=1"), "{lines}");
    let voters = server.tree.members().unwrap().0.membership().voters().clone();
    assert!(voters.is_quorum([ServerId(1)]) && !voters.is_quorum([ServerId(5)]));
    assert_eq!(server.reconfig(change("", "5")), Err(ErrorCode::BadArguments), "who counts how is not obvious");
}

#[test]
fn the_transaction_tells_the_members_and_others_do_not() {
    let mut server = server();
    let request = encode_write(&server.caller, &Request::Reconfig(change("", "3")));
    let origin = pole_tree::RequestOrigin { session: ALICE, cxid: 1, floor: i64::MAX };
    server.propose(origin, &request).unwrap();
    let txn = server.in_flight.front().unwrap();
    assert_eq!(members_of(txn).unwrap().to_string(), "voters 1 2");
    (0..txn.len()).for_each(|length| assert_eq!(members_of(&txn.slice(..length)), None));
    server.settle();
    server.propose(origin, &encode_write(&server.caller, &set_data("/", b"x", -1))).unwrap();
    assert_eq!(members_of(server.in_flight.front().unwrap()), None);
}

#[test]
fn the_errors_come_in_the_order_of_apache() {
    let bad_version = ReconfigRequest { cur_config_id: 7, ..list("nonsense") };
    let mut disabled = Server::new();
    disabled.caller = Caller::admin();
    assert_eq!(disabled.reconfig(bad_version.clone()), Err(ErrorCode::ReconfigDisabled));
    let mut alone = Server::with(Rules { reconfig: true, ..Rules::default() });
    assert_eq!(alone.reconfig(bad_version.clone()), Err(ErrorCode::Unimplemented), "a standalone server");

    let mut server = server();
    server.has_new_quorum = false;
    assert_eq!(server.reconfig(bad_version), Err(ErrorCode::BadVersion));
    for wrong in [
        list("nonsense"),
        list("server.1=a:1:2"),
        list("server.1=a:1:2,server.2=a:1:3"),
        list("server.1=a:1:2,server.2=b:1:2,tickTime=5"),
        list(""),
        change("", "2,3"),
        change("", "x"),
        change("server.4=d:1:2", ""),
        change("server.4", ""),
        change("server.x=d:1:2;3", ""),
        change("server.-1=d:1:2;3", ""),
        change("server.4=a:1:9;3", ""),
    ] {
        assert_eq!(server.reconfig(wrong.clone()), Err(ErrorCode::BadArguments), "{wrong:?}");
    }
    server.caller = Caller::default();
    assert_eq!(server.reconfig(change("", "3")), Err(ErrorCode::NewConfigNoQuorum));
    server.has_new_quorum = true;
    assert_eq!(server.reconfig(change("", "3")), Err(ErrorCode::NoAuth));
    server.caller = Caller::admin();
    assert!(server.reconfig(change("", "3")).is_ok());
}

#[test]
fn the_expected_version_is_the_zxid_of_the_last_change() {
    let mut server = server();
    let expecting = |version| ReconfigRequest { cur_config_id: version, ..change("server.4=d:1:2;3", "") };
    assert!(server.reconfig(expecting(0)).is_ok());
    let version = server.tree.members().unwrap().1;
    assert_eq!(server.reconfig(expecting(0)), Err(ErrorCode::BadVersion));
    assert!(server.reconfig(expecting(version)).is_ok());
}

#[test]
fn one_voter_is_enough_where_standalone_servers_are_not_wanted() {
    let mut server = Server::with(Rules { reconfig: true, standalone: false, ..Rules::default() });
    server.tree.set_config(THREE.as_bytes());
    server.caller = Caller::admin();
    assert!(server.reconfig(change("", "2,3")).is_ok());
    assert_eq!(server.reconfig(change("", "1")), Err(ErrorCode::BadArguments));
}

#[test]
fn the_permission_to_write_the_node_changes_the_members_but_not_its_data() {
    let mut server = Server::with(Rules { reconfig: true, skip_acl: true, ..Rules::default() });
    server.tree.set_config(THREE.as_bytes());
    assert!(server.reconfig(change("", "3")).is_ok());
    assert_eq!(server.write(&set_data(CONFIG, b"x", -1)), Err(ErrorCode::NoAuth));

    let mut server = self::server();
    let open = vec![acl(Perms::READ, "world", "anyone"), acl(Perms::WRITE, "ip", "127.0.0.1")];
    server.caller = Caller { ids: vec![crate::server::id("super", "")] };
    assert!(server.write(&crate::server::set_acl(CONFIG, open, -1)).is_ok());
    server.caller = Caller { ids: vec![crate::server::id("ip", "127.0.0.1")] };
    assert!(server.reconfig(change("", "3")).is_ok());
    server.caller = Caller { ids: vec![crate::server::id("ip", "127.0.0.2")] };
    assert_eq!(server.reconfig(change("", "2")), Err(ErrorCode::BadArguments), "one voter would be left");
    assert_eq!(server.reconfig(change("server.3=c:1:2;3", "")), Err(ErrorCode::NoAuth));
}

#[test]
fn watchers_of_the_node_are_told() {
    let mut server = server();
    server.read(&Request::GetData(GetDataRequest { path: CONFIG.into(), watch: true })).unwrap();
    server.reconfig(change("", "3")).unwrap();
    let fired: Vec<WatcherEvent> = server.fired.drain(..).map(|(_, event)| event).collect();
    assert_eq!(fired.len(), 1);
    assert_eq!(fired[0].path, CONFIG);
}

#[test]
fn a_restored_tree_keeps_changed_members_unless_its_file_is_later() {
    let mut server = server();
    server.reconfig(change("", "3")).unwrap();
    let (members, version) = server.tree.members().unwrap();
    let mut image = Vec::new();
    Frozen::write(&server.tree.freeze(), &mut |bytes: &[u8]| image.extend_from_slice(bytes));
    let mut restored = Tree::restore(Rules::default(), &image.into()).unwrap();
    restored.set_config(THREE.as_bytes());
    assert_eq!(restored.members(), Some((members.clone(), version)));
    let mut later = members.clone();
    later.servers.remove(&ServerId(1));
    restored.set_config(later.description(version + 1).as_bytes());
    assert_eq!(restored.members(), Some((later, version + 1)));
}
