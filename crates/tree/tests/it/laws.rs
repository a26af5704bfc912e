//! Properties that hold for random requests on a few paths and sessions.

use bytes::Bytes;
use pole_jute::{
    CheckVersionRequest, CreateMode, CreateRequest, CreateTtlRequest, DeleteRequest, ErrorCode, MultiOp, MultiRequest,
    MultiResult, OpCode, Perms, Record, Reply, Request, SetDataRequest, Txn, TxnEntry,
};
use pole_tree::{Caller, RequestOrigin, Rules, Tree, WriteRequest};
use proptest::prelude::*;

use crate::apache::content;
use crate::server::{ALICE, Server, acl, body, encode_write, open, reply, set_acl};

const RULES: Rules = Rules { extended_types: true, ..Rules::DEFAULT };

/// An event at the leader.
#[derive(Clone, Debug)]
enum Step {
    Write(i64, Request),
    Attach(i64, bool),
    Close(i64),
    DeleteContainer(String),
    /// Applies the oldest transaction in flight.
    Apply,
}

fn sessions() -> impl Strategy<Value = i64> {
    1_i64..4
}

fn paths() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec!["a", "b", "zookeeper", "quota"]);
    let quotas = prop::sample::select(vec![
        "/zookeeper/quota/a",
        "/zookeeper/quota/a/zookeeper_limits",
        "/zookeeper/quota/a/zookeeper_stats",
        "/zookeeper/quota/a/b",
        "/zookeeper/quota/a/b/zookeeper_limits",
        "/zookeeper/quota/a/b/zookeeper_stats",
        "/a/s0000000001",
        "/",
    ]);
    let plain = prop::collection::vec(names, 1..4).prop_map(|names| format!("/{}", names.join("/")));
    prop_oneof![4 => plain, 1 => quotas.prop_map(str::to_owned)]
}

fn data() -> impl Strategy<Value = Option<Bytes>> {
    prop::option::of(prop::collection::vec(any::<u8>(), 0..9).prop_map(Bytes::from))
}

fn modes() -> impl Strategy<Value = i32> {
    prop::sample::select(CreateMode::ALL).prop_map(CreateMode::number)
}

fn creates() -> impl Strategy<Value = CreateRequest> {
    let lists = prop::sample::select(vec![open(), open(), vec![acl(Perms::READ | Perms::CREATE, "world", "anyone")]]);
    (paths(), data(), modes(), lists).prop_map(|(path, data, flags, acl)| CreateRequest { path, data, acl, flags })
}

fn ops() -> impl Strategy<Value = MultiOp> {
    let version = || prop_oneof![4 => Just(-1), 1 => 0..3];
    prop_oneof![
        4 => creates().prop_map(MultiOp::Create),
        2 => creates().prop_map(MultiOp::Create2),
        1 => creates().prop_map(|r| MultiOp::CreateContainer(CreateRequest { flags: CreateMode::Container.number(), ..r })),
        1 => (creates(), 1_i64..50).prop_map(|(r, ttl)| MultiOp::CreateTtl(CreateTtlRequest {
            path: r.path, data: r.data, acl: r.acl, flags: CreateMode::PersistentWithTtl.number(), ttl
        })),
        3 => (paths(), version()).prop_map(|(path, version)| MultiOp::Delete(DeleteRequest { path, version })),
        3 => (paths(), data(), version())
            .prop_map(|(path, data, version)| MultiOp::SetData(SetDataRequest { path, data, version })),
        1 => (paths(), version()).prop_map(|(path, version)| MultiOp::Check(CheckVersionRequest { path, version })),
    ]
}

fn requests() -> impl Strategy<Value = Request> {
    let single = ops().prop_map(|op| match op {
        MultiOp::Create(request) => Request::Create(request),
        MultiOp::Create2(request) => Request::Create2(request),
        MultiOp::CreateContainer(request) => Request::CreateContainer(request),
        MultiOp::CreateTtl(request) => Request::CreateTtl(request),
        MultiOp::Delete(request) => Request::Delete(request),
        MultiOp::SetData(request) => Request::SetData(request),
        MultiOp::Check(request) => Request::Check(request),
    });
    let acls =
        (paths(), 1..32).prop_map(|(path, perms)| set_acl(&path, vec![acl(Perms(perms), "world", "anyone")], -1));
    let multi = prop::collection::vec(ops(), 0..5).prop_map(|ops| Request::Multi(MultiRequest { ops }));
    prop_oneof![6 => single, 1 => acls, 2 => multi]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (sessions(), requests()).prop_map(|(session, request)| Step::Write(session, request)),
        2 => (sessions(), any::<bool>()).prop_map(|(session, resume)| Step::Attach(session, resume)),
        1 => sessions().prop_map(Step::Close),
        1 => paths().prop_map(Step::DeleteContainer),
        10 => Just(Step::Apply),
    ];
    prop::collection::vec(step, 0..80)
}

/// Prepares the request of a step and returns the transaction.
fn prepare(server: &mut Server, step: &Step) -> Option<Bytes> {
    let (session, encoded) = match step {
        Step::Write(session, request) => (*session, encode_write(&Caller::default(), request)),
        Step::Attach(session, resume) => (*session, WriteRequest::attach(4000, *resume)),
        Step::Close(session) => (*session, WriteRequest::close()),
        Step::DeleteContainer(path) => (0, WriteRequest::delete_container(path)),
        Step::Apply => return None,
    };
    server.wall_ms += 10;
    server.propose(RequestOrigin { session, cxid: 1, floor: 0 }, &encoded);
    server.in_flight.back().cloned()
}

/// Applies the oldest transaction, whose result must be the one that was prepared.
fn apply(server: &mut Server) {
    let Some(entry) = server.in_flight.front().map(|bytes| TxnEntry::decode(bytes.clone()).unwrap()) else { return };
    server.step();
    let (code, body) = server.last.reply.clone().unwrap();
    if let Txn::Multi(multi) = entry.txn {
        let Reply::Multi(reply) = reply(OpCode::Multi, body) else { panic!("the reply to a multi") };
        let expected_to_fail = multi.txns.iter().any(|txn| matches!(txn, Txn::Error(_)));
        let failed = reply.results.iter().any(|result| matches!(result, MultiResult::Error(_)));
        assert_eq!((failed, reply.results.len()), (expected_to_fail, multi.txns.len()));
    } else {
        let expected = if let Txn::Error(error) = entry.txn { error.code() } else { Some(ErrorCode::Ok) };
        assert_eq!(Some(code), expected);
    }
}

fn server() -> Server {
    Server::over(Tree::new(RULES))
}

proptest! {
    #[test]
    fn validation_does_not_depend_on_how_much_is_applied(steps in steps()) {
        let (mut lazy, mut eager) = (server(), server());
        for step in &steps {
            let (decided, at_once) = (prepare(&mut lazy, step), prepare(&mut eager, step));
            prop_assert_eq!(decided, at_once, "{:?}", step);
            eager.settle();
            if matches!(step, Step::Apply) {
                apply(&mut lazy);
            }
        }
        lazy.settle();
        prop_assert_eq!(content(&lazy.snapshot()), content(&eager.snapshot()));
        prop_assert_eq!(lazy.tree.digest(), eager.tree.digest());
    }

    #[test]
    fn applying_gives_the_result_that_was_prepared(steps in steps()) {
        let mut server = server();
        for step in &steps {
            prepare(&mut server, step);
            if matches!(step, Step::Apply) {
                apply(&mut server);
            }
        }
        while !server.in_flight.is_empty() {
            apply(&mut server);
        }
        prop_assert!(server.prepared.is_empty(), "{:?}", server.prepared);
    }

    #[test]
    fn the_digest_matches_the_content(steps in steps()) {
        let mut server = server();
        for step in &steps {
            prepare(&mut server, step);
            server.settle();
            let restored = Tree::restore(RULES, &server.snapshot()).unwrap();
            prop_assert_eq!(restored.digest(), server.tree.digest(), "after {:?}", step);
            prop_assert_eq!(content(&body(&restored)), content(&server.snapshot()));
        }
    }

    #[test]
    fn any_bytes_yield_a_transaction(step in steps(), junk in prop::collection::vec((0_usize..300, any::<u8>()), 1..4)) {
        let mut server = Server::new();
        for step in &step {
            let Step::Write(_, request) = step else { continue };
            let mut bytes = encode_write(&server.caller, request).to_vec();
            for (at, byte) in &junk {
                let at = at % bytes.len();
                bytes[at] = *byte;
            }
            let decided = server.propose(RequestOrigin { session: ALICE, cxid: 1, floor: 0 }, &bytes.into());
            prop_assert!(decided.is_some());
            server.settle();
        }
        prop_assert_eq!(Tree::restore(RULES, &server.snapshot()).map(|tree| tree.digest()), Ok(server.tree.digest()));
    }

    #[test]
    fn a_restored_server_behaves_like_the_others(steps in steps(), at in 0_usize..80) {
        let (mut one, mut other) = (server(), server());
        for (number, step) in steps.iter().enumerate() {
            if number == at {
                let zxid = other.tree.last_zxid();
                other.tree = Tree::restore(RULES, &other.snapshot()).unwrap().with_last_zxid(zxid);
            }
            prepare(&mut one, step);
            prepare(&mut other, step);
            one.settle();
            other.settle();
            prop_assert_eq!(one.tree.digest(), other.tree.digest(), "after {:?}", step);
            prop_assert_eq!(&one.last, &other.last);
        }
    }
}
