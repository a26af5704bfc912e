//! Sessions: attachments, ephemeral nodes and closing.

use bytes::Bytes;
use pole_jute::{
    CloseSessionTxn, CreateMode, CreateSessionTxn, ErrorCode, GetEphemeralsRequest, OpCode, Reply, Request, Txn,
};
use pole_tree::{Caller, RequestOrigin, SessionChange, WriteRequest};

use crate::server::{ALICE, BOB, Server, delete, encode_write, new_node};

fn origin(session: i64, floor: i64) -> RequestOrigin {
    RequestOrigin { session, cxid: 3, floor }
}

fn error(code: ErrorCode) -> Option<Txn> {
    Some(Txn::Error(code.into()))
}

fn ephemeral(path: &str) -> Request {
    Request::Create(new_node(path, b"", CreateMode::Ephemeral))
}

#[test]
fn a_session_that_is_resumed_keeps_its_timeout_and_its_nodes() {
    let mut server = Server::new();
    server.create("/mine", CreateMode::Ephemeral);
    let resumed = server.propose(origin(ALICE, 0), &WriteRequest::attach(9999, true));
    assert_eq!(resumed, Some(Txn::CreateSession(CreateSessionTxn { timeout: 4000 })));
    server.settle();
    assert_eq!(server.last.session, Some(SessionChange::Attached { id: ALICE, timeout_ms: 4000 }));
    assert_eq!(server.tree.ephemerals(ALICE).iter().map(|path| &**path).collect::<Vec<_>>(), ["/mine"]);
}

#[test]
fn a_closed_session_cannot_be_resumed() {
    let mut server = Server::new();
    assert_eq!(server.propose(origin(BOB, 0), &WriteRequest::attach(4000, true)), error(ErrorCode::SessionExpired));
    server.propose(origin(ALICE, 0), &WriteRequest::close());
    assert_eq!(server.propose(origin(ALICE, 0), &WriteRequest::attach(4000, true)), error(ErrorCode::SessionExpired));
}

#[test]
fn a_request_of_a_connection_that_the_session_left_is_dropped() {
    let mut server = Server::new();
    let floor = server.tree.last_zxid();
    let request = encode_write(&Caller::default(), &ephemeral("/a"));
    // Dropped already while the new attachment is in flight, and still after it is applied.
    server.propose(origin(ALICE, 0), &WriteRequest::attach(4000, true));
    assert_eq!(server.propose(origin(ALICE, floor), &request), None);
    server.settle();
    assert_eq!(server.propose(origin(ALICE, floor), &request), None);
    assert!(matches!(server.propose(origin(ALICE, server.tree.last_zxid()), &request), Some(Txn::Create(_))));
}

#[test]
fn without_a_session_nothing_is_written() {
    let mut server = Server::new();
    assert_eq!(server.write_by(BOB, &ephemeral("/a")), Err(ErrorCode::SessionExpired));
    server.propose(origin(ALICE, 0), &WriteRequest::close());
    assert_eq!(server.write(&delete("/", -1)), Err(ErrorCode::SessionExpired));
}

#[test]
fn closing_deletes_exactly_the_nodes_of_the_session_including_those_in_flight() {
    let mut server = Server::new();
    server.attach(BOB, 4000);
    server.create("/kept", CreateMode::Persistent);
    for path in ["/b", "/a", "/gone", "/swapped"] {
        server.create(path, CreateMode::Ephemeral);
    }
    server.send(ALICE, &delete("/gone", -1));
    server.send(ALICE, &delete("/swapped", -1));
    server.send(BOB, &ephemeral("/swapped"));
    server.send(ALICE, &ephemeral("/kept/late"));
    let closed = server.propose(origin(ALICE, 0), &WriteRequest::close());
    let paths_to_delete = vec!["/a".into(), "/b".into(), "/kept/late".into()];
    assert_eq!(closed, Some(Txn::CloseSession(Some(CloseSessionTxn { paths_to_delete }))));
    // Its parent will then have no children.
    assert!(matches!(server.send(BOB, &delete("/kept", -1)), Txn::Delete(_)));
    server.step();
    server.step();
    server.step();
    server.step();
    server.step();
    assert_eq!(server.last.session, Some(SessionChange::Closed { id: ALICE }));
    server.settle();
    assert_eq!((server.tree.ephemerals_count(), server.tree.session(ALICE)), (1, None));
    assert!(server.tree.stat("/swapped").is_some());
}

#[test]
fn a_session_is_closed_once() {
    let mut server = Server::new();
    server.create("/a", CreateMode::Ephemeral);
    assert!(matches!(server.propose(origin(ALICE, 0), &WriteRequest::close()), Some(Txn::CloseSession(_))));
    assert_eq!(server.propose(origin(ALICE, 0), &WriteRequest::close()), error(ErrorCode::SessionExpired));
    server.settle();
    assert_eq!(server.propose(origin(ALICE, 0), &WriteRequest::close()), error(ErrorCode::SessionExpired));
}

#[test]
fn a_client_closes_its_own_session() {
    let mut server = Server::new();
    assert_eq!(server.write(&Request::CloseSession), Ok(Reply::CloseSession));
    assert_eq!(server.tree.sessions().count(), 0);
}

#[test]
fn a_malformed_body_yields_an_error_transaction() {
    let mut server = Server::new();
    let encoded = WriteRequest::encode(OpCode::SetData, &Caller::default(), &[0, 0, 0, 9, b'/']);
    assert_eq!(server.propose(origin(ALICE, i64::MAX), &encoded), error(ErrorCode::MarshallingError));
    assert_eq!(server.propose(origin(ALICE, i64::MAX), &Bytes::new()), error(ErrorCode::MarshallingError));
}

#[test]
fn prepared_transactions_are_discarded_when_another_server_leads() {
    let mut server = Server::new();
    server.send(ALICE, &ephemeral("/a"));
    server.propose(origin(ALICE, 0), &WriteRequest::close());
    server.prepared.clear();
    server.in_flight.clear();
    assert_eq!(server.write(&ephemeral("/a")).map(|_| ()), Ok(()));
}

#[test]
fn a_session_lists_its_own_nodes() {
    let mut server = Server::new();
    server.attach(BOB, 4000);
    server.create("/dir", CreateMode::Persistent);
    server.create("/dir/a", CreateMode::Ephemeral);
    server.create("/b", CreateMode::Ephemeral);
    server.write_by(BOB, &ephemeral("/bobs")).unwrap();
    let mut list = |prefix: Option<&str>| {
        let request = GetEphemeralsRequest { prefix_path: prefix.map(Into::into) };
        match server.read(&Request::GetEphemerals(request)) {
            Ok(Reply::GetEphemerals(mut reply)) => {
                reply.ephemerals.sort_unstable();
                reply.ephemerals
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(list(None), ["/b", "/dir/a"]);
    assert_eq!(list(Some("/")), ["/b", "/dir/a"]);
    assert_eq!(list(Some("/di")), ["/dir/a"]);
    let counts = |part: Vec<(i64, Vec<_>)>| part.into_iter().map(|(id, paths)| (id, paths.len())).collect::<Vec<_>>();
    assert_eq!(counts(server.tree.ephemerals_after(None, 3)), [(ALICE, 2), (BOB, 1)]);
    assert_eq!(counts(server.tree.ephemerals_after(None, 1)), [(ALICE, 2)], "a session is listed as a whole");
    assert_eq!(counts(server.tree.ephemerals_after(Some(ALICE), 1)), [(BOB, 1)]);
}
