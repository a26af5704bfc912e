//! Sessions: attachments, ephemeral nodes, the end.

use bytes::Bytes;
use pole_jute::{
    CloseSessionTxn, CreateMode, CreateSessionTxn, ErrorCode, GetEphemeralsRequest, OpCode, Reply, Request, Txn,
};
use pole_tree::{Ask, Caller, From, SessionChange};

use crate::server::{ALICE, BOB, Server, ask, delete, new_node};

fn from(session: i64, floor: i64) -> From {
    From { session, cxid: 3, floor }
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
    let resumed = server.propose(from(ALICE, 0), &Ask::attach(9999, true));
    assert_eq!(resumed, Some(Txn::CreateSession(CreateSessionTxn { timeout: 4000 })));
    server.settle();
    assert_eq!(server.last.session, Some(SessionChange::Attached { id: ALICE, timeout_ms: 4000 }));
    assert_eq!(server.tree.ephemerals(ALICE).iter().map(|path| &**path).collect::<Vec<_>>(), ["/mine"]);
}

#[test]
fn a_session_that_is_no_more_cannot_be_resumed() {
    let mut server = Server::new();
    assert_eq!(server.propose(from(BOB, 0), &Ask::attach(4000, true)), error(ErrorCode::SessionExpired));
    server.propose(from(ALICE, 0), &Ask::close());
    assert_eq!(server.propose(from(ALICE, 0), &Ask::attach(4000, true)), error(ErrorCode::SessionExpired));
}

#[test]
fn a_request_of_a_connection_that_the_session_left_is_dropped() {
    let mut server = Server::new();
    let floor = server.tree.last_zxid();
    let request = ask(&Caller::default(), &ephemeral("/a"));
    // Already when the new attachment is in flight, and still when it is applied.
    server.propose(from(ALICE, 0), &Ask::attach(4000, true));
    assert_eq!(server.propose(from(ALICE, floor), &request), None);
    server.settle();
    assert_eq!(server.propose(from(ALICE, floor), &request), None);
    assert!(matches!(server.propose(from(ALICE, server.tree.last_zxid()), &request), Some(Txn::Create(_))));
}

#[test]
fn without_a_session_nothing_is_written() {
    let mut server = Server::new();
    assert_eq!(server.write_by(BOB, &ephemeral("/a")), Err(ErrorCode::SessionExpired));
    server.propose(from(ALICE, 0), &Ask::close());
    assert_eq!(server.write(&delete("/", -1)), Err(ErrorCode::SessionExpired));
}

#[test]
fn the_end_takes_exactly_the_nodes_of_the_session_those_in_flight_included() {
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
    let closed = server.propose(from(ALICE, 0), &Ask::close());
    let paths_to_delete = vec!["/a".into(), "/b".into(), "/kept/late".into()];
    assert_eq!(closed, Some(Txn::CloseSession(Some(CloseSessionTxn { paths_to_delete }))));
    // Its parent will have no children then.
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
    assert!(matches!(server.propose(from(ALICE, 0), &Ask::close()), Some(Txn::CloseSession(_))));
    assert_eq!(server.propose(from(ALICE, 0), &Ask::close()), error(ErrorCode::SessionExpired));
    server.settle();
    assert_eq!(server.propose(from(ALICE, 0), &Ask::close()), error(ErrorCode::SessionExpired));
}

#[test]
fn a_client_closes_its_own_session() {
    let mut server = Server::new();
    assert_eq!(server.write(&Request::CloseSession), Ok(Reply::CloseSession));
    assert_eq!(server.tree.sessions().count(), 0);
}

#[test]
fn a_body_that_makes_no_sense_is_an_error_in_its_place() {
    let mut server = Server::new();
    let ask = Ask::encode(OpCode::SetData, &Caller::default(), &[0, 0, 0, 9, b'/']);
    assert_eq!(server.propose(from(ALICE, i64::MAX), &ask), error(ErrorCode::MarshallingError));
    assert_eq!(server.propose(from(ALICE, i64::MAX), &Bytes::new()), error(ErrorCode::MarshallingError));
}

#[test]
fn what_was_prepared_is_forgotten_when_another_leads() {
    let mut server = Server::new();
    server.send(ALICE, &ephemeral("/a"));
    server.propose(from(ALICE, 0), &Ask::close());
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
    let dump: Vec<(i64, usize)> = server.tree.sessions_with_ephemerals().map(|(id, paths)| (id, paths.len())).collect();
    assert_eq!(dump, [(ALICE, 2), (BOB, 1)]);
}
