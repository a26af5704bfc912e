//! Tests of the state of a session: frames go in as a server would send them.

use pole_jute::{EventType, GetDataResponse, KeeperState, Record as _, ReplyHeader, SetDataResponse, Stat, Writer};

use super::*;
use crate::{add_auth, get_data, set_data};

#[test]
fn replies_complete_requests_in_order_with_their_tags() {
    let mut session = opened();
    let mut frames = Frames::default();
    session.send(&mut frames, set_data("/a", b"1"), 'a');
    session.send(&mut frames, set_data("/b", b"2"), 'b');
    let first = replied(session.receive(reply(1, 5, &set_reply())));
    assert_eq!((first.tag, first.zxid, first.request), ('a', 5, set_data("/a", b"1")));
    assert!(first.result.is_ok());
    let second = replied(session.receive(error_reply(2, 6, ErrorCode::NoNode)));
    assert_eq!((second.tag, second.result), ('b', Err(ErrorCode::NoNode)));
    assert_eq!(session.in_flight(), 0);
}

#[test]
fn a_reply_out_of_order_is_an_error_and_all_requests_are_lost() {
    let mut session = opened();
    let mut frames = Frames::default();
    session.send(&mut frames, set_data("/a", b"1"), 'a');
    session.send(&mut frames, set_data("/b", b"2"), 'b');
    let wrong = session.receive(reply(2, 5, &set_reply()));
    assert!(matches!(wrong, Err(Error::Order { expected: 1, got: 2 })), "{wrong:?}");
    assert_eq!(session.disconnected().collect::<String>(), "ab");
    let unexpected = session.receive(reply(3, 5, &set_reply()));
    assert!(matches!(unexpected, Err(Error::Order { expected: 0, got: 3 })), "{unexpected:?}");
}

#[test]
fn a_reply_that_cannot_be_decoded_loses_its_request() {
    let mut session = opened();
    session.send(&mut Frames::default(), set_data("/a", b"1"), 'a');
    let header_only = reply(1, 5, &Reply::Delete);
    assert!(matches!(session.receive(header_only), Err(Error::Decode(_))));
    assert_eq!(session.disconnected().collect::<String>(), "a");
}

#[test]
fn a_session_is_resumed_with_its_password_and_the_last_zxid_seen() {
    let mut session = opened();
    session.send(&mut Frames::default(), set_data("/a", b"1"), 'a');
    replied(session.receive(reply(1, 5, &set_reply())));
    let request = session.connect_request();
    assert_eq!((request.session_id, request.last_zxid_seen, request.timeout), (77, 5, 10_000));
    assert_eq!(request.passwd.as_deref(), Some(&b"secret"[..]));
}

#[test]
fn an_accepted_identity_is_sent_again_and_a_refused_one_is_not() {
    let mut session = opened();
    let mut frames = Frames::default();
    session.send(&mut frames, set_data("/a", b"1"), 'w');
    session.send(&mut frames, add_auth("digest", b"u:p"), 'y');
    session.send(&mut frames, add_auth("other", b""), 'n');
    // Servers may answer them before earlier requests.
    assert_eq!(replied(session.receive(reply(Xid::AUTH, 0, &Reply::Auth))).tag, 'y');
    assert_eq!(replied(session.receive(error_reply(Xid::AUTH, 0, ErrorCode::AuthFailed))).tag, 'n');
    assert_eq!(session.disconnected().collect::<String>(), "w");

    let mut frames = Frames::default();
    session.accepted(response(), &mut frames);
    assert_eq!(frames.take_output(), crate::request_frame(Xid::AUTH, &add_auth("digest", b"u:p")));
    assert!(matches!(session.receive(reply(Xid::AUTH, 0, &Reply::Auth)), Ok(Received::Nothing)));
}

#[test]
fn a_server_that_refuses_a_known_identity_breaks_the_connection() {
    let mut session = opened();
    session.send(&mut Frames::default(), add_auth("digest", b"u:p"), 'y');
    replied(session.receive(reply(Xid::AUTH, 0, &Reply::Auth)));
    session.accepted(response(), &mut Frames::default());
    let refused = session.receive(error_reply(Xid::AUTH, 0, ErrorCode::AuthFailed));
    assert!(matches!(refused, Err(Error::Refused(ErrorCode::AuthFailed))), "{refused:?}");
}

#[test]
fn watches_are_set_again_until_they_fire() {
    let mut session = opened();
    session.send(&mut Frames::default(), get_data("/a", true), 'a');
    replied(session.receive(reply(1, 5, &data_reply(3))));
    let mut frames = Frames::default();
    session.accepted(response(), &mut frames);
    let watches = pole_jute::SetWatches {
        relative_zxid: 5,
        data_watches: vec!["/a".into()],
        exist_watches: Vec::new(),
        child_watches: Vec::new(),
    };
    assert_eq!(frames.take_output(), crate::request_frame(Xid::SET_WATCHES, &Request::SetWatches(watches)));

    let event = WatcherEvent { kind: EventType::NodeDataChanged, state: KeeperState::SyncConnected, path: "/a".into() };
    let received = session.receive(reply(Xid::NOTIFICATION, -1, &Reply::Notification(event.clone())));
    assert!(matches!(received, Ok(Received::Event(got)) if got == event));
    session.accepted(response(), &mut frames);
    assert!(frames.take_output().is_empty());
}

#[test]
fn a_read_that_overtakes_the_event_of_a_watch_is_marked() {
    let mut session = opened();
    for (tag, watch) in [('a', true), ('b', false), ('c', false)] {
        session.send(&mut Frames::default(), get_data("/a", watch), tag);
    }
    assert!(!replied(session.receive(reply(1, 5, &data_reply(5)))).overtook_watch);
    assert!(!replied(session.receive(reply(2, 5, &data_reply(5)))).overtook_watch);
    assert!(replied(session.receive(reply(3, 6, &data_reply(6)))).overtook_watch);
}

fn opened() -> SessionState<char> {
    let mut session = SessionState::new(Duration::from_secs(10));
    session.accepted(response(), &mut Frames::default());
    session
}

fn response() -> ConnectResponse {
    let passwd = Some(Bytes::from_static(b"secret"));
    ConnectResponse { protocol_version: 0, timeout: 4000, session_id: 77, passwd, read_only: None }
}

fn set_reply() -> Reply {
    Reply::SetData(SetDataResponse { stat: Stat::default() })
}

fn data_reply(mzxid: i64) -> Reply {
    Reply::GetData(GetDataResponse { data: None, stat: Stat { mzxid, ..Stat::default() } })
}

fn reply(xid: i32, zxid: i64, body: &Reply) -> Bytes {
    let mut writer = Writer::new();
    ReplyHeader { xid, zxid, err: ErrorCode::Ok }.write(&mut writer);
    body.write(&mut writer);
    writer.into_bytes()
}

fn error_reply(xid: i32, zxid: i64, err: ErrorCode) -> Bytes {
    ReplyHeader { xid, zxid, err }.encode()
}

fn replied(received: Result<Received<char>, Error>) -> Completed<char> {
    match received {
        Ok(Received::Reply(completed)) => completed,
        other => panic!("expected a reply, got {other:?}"),
    }
}
