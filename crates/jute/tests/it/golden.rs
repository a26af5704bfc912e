//! Single records, compared with the encoding of Apache's own classes.

use std::collections::BTreeMap;

use bytes::Bytes;
use pole_jute::*;

use crate::apache::unhex;

/// Compares a record with Apache's bytes of that name, in both directions.
#[track_caller]
fn golden<T: Record + PartialEq + std::fmt::Debug>(name: &str, record: T) {
    let bytes = recorded().remove(name).unwrap_or_else(|| panic!("{name} is not recorded"));
    assert_eq!(record.encode(), bytes, "{name} as we write it");
    assert_eq!(T::decode(bytes), Ok(record), "{name} as we read it");
}

fn recorded() -> BTreeMap<&'static str, Bytes> {
    let lines = include_str!("apache/records.txt").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(' ').unwrap()).map(|(name, hex)| (name, unhex(hex))).collect()
}

fn data() -> Option<Bytes> {
    Some(Bytes::from_static(&[1, 2, 0xff]))
}

fn passwd() -> Option<Bytes> {
    Some((0..16).collect())
}

fn acl() -> Vec<Acl> {
    vec![
        Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } },
        Acl { perms: Perms::READ, id: Id { scheme: "digest".into(), id: "u:p".into() } },
    ]
}

fn stat() -> Stat {
    Stat {
        czxid: 0x1_0000_0001,
        mzxid: 0x1_0000_0002,
        ctime: 1_700_000_000_001,
        mtime: 1_700_000_000_002,
        version: 3,
        cversion: 4,
        aversion: 5,
        ephemeral_owner: 0x0123_4567_89ab_cdef,
        data_length: 6,
        num_children: 7,
        pzxid: 0x1_0000_0008,
    }
}

fn strings(strings: &[&str]) -> Vec<String> {
    strings.iter().map(|string| (*string).into()).collect()
}

#[test]
fn connecting() {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0x2_0000_0003,
        timeout: 30_000,
        session_id: 0x0100_0000_dead_beef,
        passwd: passwd(),
        read_only: None,
    };
    golden("connect_request", request);
    let response = ConnectResponse {
        protocol_version: 0,
        timeout: 30_000,
        session_id: 0x0100_0000_dead_beef,
        passwd: passwd(),
        read_only: None,
    };
    golden("connect_response", response);
}

#[test]
fn headers() {
    golden("request_header", RequestHeader { xid: 7, op: OpCode::SetData.number() });
    golden("reply_header", ReplyHeader { xid: 7, zxid: 0x1_0000_0009, err: ErrorCode::NoNode });
}

#[test]
fn creating() {
    let flags = CreateMode::EphemeralSequential.number();
    golden("create_request", CreateRequest { path: "/a/é".into(), data: data(), acl: acl(), flags });
    golden("create_request_null", CreateRequest { path: "/n".into(), data: None, acl: acl(), flags: 0 });
    let flags = CreateMode::PersistentWithTtl.number();
    golden("create_ttl_request", CreateTtlRequest { path: "/t".into(), data: data(), acl: acl(), flags, ttl: 60_000 });
    golden("create2_response", Create2Response { path: "/a/b0000000001".into(), stat: stat() });
}

#[test]
fn content_and_access() {
    golden("set_data_request", SetDataRequest { path: "/a".into(), data: data(), version: -1 });
    golden("get_data_response", GetDataResponse { data: data(), stat: stat() });
    golden("get_acl_response", GetAclResponse { acl: acl(), stat: stat() });
    golden("set_acl_request", SetAclRequest { path: "/a".into(), acl: acl(), version: 2 });
}

#[test]
fn lists_and_identities() {
    golden("get_children2_response", GetChildren2Response { children: strings(&["x", "y"]), stat: stat() });
    golden("get_ephemerals_request", GetEphemeralsRequest { prefix_path: Some("/e".into()) });
    golden("auth_packet", AuthPacket { kind: 0, scheme: "digest".into(), auth: Some(Bytes::from_static(b"u:p")) });
    let client_info = vec![ClientInfo { auth_scheme: "ip".into(), user: "127.0.0.1".into() }];
    golden("whoami_response", WhoAmIResponse { client_info });
    let reconfig = ReconfigRequest {
        joining_servers: None,
        leaving_servers: Some("3".into()),
        new_members: None,
        cur_config_id: -1,
    };
    golden("reconfig_request", reconfig);
}

#[test]
fn watches() {
    let set_watches = SetWatches {
        relative_zxid: 9,
        data_watches: strings(&["/d"]),
        exist_watches: strings(&["/e"]),
        child_watches: strings(&["/c"]),
    };
    golden("set_watches", set_watches);
    let set_watches2 = SetWatches2 {
        relative_zxid: 9,
        data_watches: strings(&["/d"]),
        exist_watches: strings(&["/e"]),
        child_watches: strings(&["/c"]),
        persistent_watches: strings(&["/p"]),
        persistent_recursive_watches: strings(&["/r"]),
    };
    golden("set_watches2", set_watches2);
    golden("add_watch_request", AddWatchRequest { path: "/a".into(), mode: AddWatchMode::PersistentRecursive });
    golden("remove_watches_request", RemoveWatchesRequest { path: "/a".into(), kind: WatcherType::Any });
    let event = WatcherEvent { kind: EventType::NodeDataChanged, state: KeeperState::SyncConnected, path: "/a".into() };
    golden("watcher_event", event);
}

#[test]
fn multi() {
    let create = |path: &str, flags: CreateMode| CreateRequest {
        path: path.into(),
        data: data(),
        acl: acl(),
        flags: flags.number(),
    };
    let flags = CreateMode::PersistentWithTtl.number();
    let ops = vec![
        MultiOp::Create(create("/m", CreateMode::Persistent)),
        MultiOp::CreateContainer(create("/c", CreateMode::Container)),
        MultiOp::CreateTtl(CreateTtlRequest { path: "/t".into(), data: data(), acl: acl(), flags, ttl: 1000 }),
        MultiOp::Delete(DeleteRequest { path: "/x".into(), version: 1 }),
        MultiOp::SetData(SetDataRequest { path: "/y".into(), data: data(), version: 2 }),
        MultiOp::Check(CheckVersionRequest { path: "/z".into(), version: 3 }),
    ];
    golden("multi_request", MultiRequest { ops });
    golden("multi_request_empty", MultiRequest { ops: vec![] });
    let results = vec![
        MultiResult::Create(CreateResponse { path: "/m".into() }),
        MultiResult::Create2(Create2Response { path: "/c".into(), stat: stat() }),
        MultiResult::Delete,
        MultiResult::SetData(SetDataResponse { stat: stat() }),
        MultiResult::Check,
    ];
    golden("multi_response", MultiResponse { results });
    let results = [ErrorCode::Ok, ErrorCode::NodeExists, ErrorCode::RuntimeInconsistency].map(MultiResult::Error);
    golden("multi_response_failed", MultiResponse { results: results.into() });
}

#[test]
fn multi_read() {
    let ops = vec![
        MultiReadOp::GetChildren(GetChildrenRequest { path: "/a".into(), watch: false }),
        MultiReadOp::GetData(GetDataRequest { path: "/b".into(), watch: false }),
    ];
    golden("multi_read_request", MultiReadRequest { ops });
    let results = vec![
        MultiReadResult::GetChildren(GetChildrenResponse { children: strings(&["x"]) }),
        MultiReadResult::GetData(GetDataResponse { data: data(), stat: stat() }),
        MultiReadResult::Error(ErrorCode::NoNode),
    ];
    golden("multi_read_response", MultiReadResponse { results });
}

#[test]
fn transactions() {
    let header = TxnHeader {
        client_id: 0x0100_0000_dead_beef,
        cxid: 7,
        zxid: 0x1_0000_0009,
        time: 1_700_000_000_003,
        op: OpCode::Create.number(),
    };
    golden("txn_header", header);
    let create = CreateTxn { path: "/a".into(), data: data(), acl: acl(), ephemeral: true, parent_cversion: 4 };
    golden("create_txn", create);
    golden("create_txn_v0", CreateTxnV0 { path: "/a".into(), data: data(), acl: acl(), ephemeral: true });
    let container = CreateContainerTxn { path: "/c".into(), data: data(), acl: acl(), parent_cversion: 4 };
    golden("create_container_txn", container);
    let ttl = CreateTtlTxn { path: "/t".into(), data: data(), acl: acl(), parent_cversion: 4, ttl: 1000 };
    golden("create_ttl_txn", ttl);
    golden("set_acl_txn", SetAclTxn { path: "/a".into(), acl: acl(), version: 4 });
    golden("set_data_txn", SetDataTxn { path: "/a".into(), data: None, version: 4 });
    golden("close_session_txn", CloseSessionTxn { paths_to_delete: strings(&["/e1", "/e2"]) });
    let txns = vec![
        Txn::Delete(DeleteTxn { path: "/x".into() }),
        Txn::SetData(SetDataTxn { path: "/y".into(), data: data(), version: 3 }),
        Txn::Check(CheckVersionTxn { path: "/z".into(), version: 3 }),
    ];
    golden("multi_txn", MultiTxn { txns });
    let codes = [ErrorCode::Ok, ErrorCode::NodeExists, ErrorCode::RuntimeInconsistency];
    golden("multi_txn_failed", MultiTxn { txns: codes.map(|code| Txn::Error(code.into())).into() });
    golden("txn_digest", TxnDigest { version: 2, tree_digest: 0x1122_3344_5566_7788 });
}

#[test]
fn files() {
    golden("file_header", FileHeader { magic: LOG_MAGIC, version: VERSION, dbid: 0 });
    let Stat { czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeral_owner, pzxid, .. } = stat();
    let stat = StatPersisted { czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeral_owner, pzxid };
    golden("data_node", DataNode { data: data(), acl: OPEN_ACL_REFERENCE, stat });
}

#[test]
fn an_old_create_gets_a_parent_version_of_minus_one() {
    let mut reader = Reader::new(recorded().remove("create_txn_v0").unwrap());
    let Ok(Txn::Create(create)) = Txn::decode(OpCode::Create, &mut reader) else { panic!("it is a create") };
    assert_eq!((create.path.as_str(), create.parent_cversion, reader.left()), ("/a", -1, 0));
}

#[test]
fn an_old_close_has_no_paths_and_may_have_a_digest() {
    let header = TxnHeader { client_id: 1, cxid: 0, zxid: 2, time: 3, op: OpCode::CloseSession.number() };
    // The upper half of this digest, read as the length of a path, would be negative.
    for digest in [None, Some(TxnDigest { version: 2, tree_digest: -7 })] {
        let entry = TxnEntry { header, txn: Txn::CloseSession(None), digest };
        assert_eq!(TxnEntry::decode(entry.encode()), Ok(entry));
    }
}
