//! Tests of a session against servers that are scripted by the test.

use bytes::BytesMut;
use pole_jute::{
    ConnectRequest, ConnectResponse, Deframer, GetDataResponse, KeeperState, Record as _, ReplyHeader, RequestHeader,
    SetDataResponse, Stat, Writer, Xid,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::{get_data, set_data};

#[test]
fn a_session_moves_with_its_identity_its_last_zxid_and_its_watches() {
    run(async {
        let (first, second) = (listen().await, listen().await);
        let (session, _events) = Session::open(vec![address(&first), address(&second)], 0, TIMING);
        let answer = session.ask(get_data("/a", true));

        let (mut peer, request) = Peer::accept(&first).await;
        assert_eq!((request.session_id, request.last_zxid_seen), (0, 0));
        peer.open_session(77).await;
        let (header, _) = peer.receive().await;
        let body = Reply::GetData(GetDataResponse { data: None, stat: Stat::default() });
        peer.reply(header.xid, 5, &body).await;
        assert_eq!(answer.await.unwrap().zxid, 5);
        drop(peer);

        let (mut peer, request) = Peer::accept(&second).await;
        assert_eq!((request.session_id, request.last_zxid_seen), (77, 5));
        assert_eq!(request.passwd.as_deref(), Some(&b"password of 77"[..]));
        peer.open_session(77).await;
        let (header, request) = peer.receive().await;
        assert_eq!(header.xid, Xid::SET_WATCHES);
        let Request::SetWatches(watches) = request else { panic!("expected setWatches, got {request:?}") };
        assert_eq!((watches.relative_zxid, watches.data_watches), (5, vec!["/a".to_owned()]));
    });
}

#[test]
fn a_watch_that_has_fired_is_not_set_again() {
    run(async {
        let server = listen().await;
        let (session, mut events) = Session::open(vec![address(&server)], 0, TIMING);
        let answer = session.ask(get_data("/a", true));
        let (mut peer, _) = Peer::accept(&server).await;
        peer.open_session(77).await;
        let (header, _) = peer.receive().await;
        peer.reply(header.xid, 5, &Reply::GetData(GetDataResponse { data: None, stat: Stat::default() })).await;
        answer.await.unwrap();
        let kind = pole_jute::EventType::NodeDataChanged;
        let event = WatcherEvent { kind, state: KeeperState::SyncConnected, path: "/a".into() };
        peer.reply(Xid::NOTIFICATION, -1, &Reply::Notification(event.clone())).await;
        until(&mut events, |got| matches!(got, Event::Watch(seen) if *seen == event)).await;
        drop(peer);

        let (mut peer, _) = Peer::accept(&server).await;
        peer.open_session(77).await;
        drop(session.ask(set_data("/b", b"")));
        assert_eq!(peer.receive().await.1.op(), OpCode::SetData);
    });
}

#[test]
fn a_read_that_overtakes_the_event_of_a_watch_is_reported() {
    run(async {
        let server = listen().await;
        let (session, mut events) = Session::open(vec![address(&server)], 0, TIMING);
        let (first, second) = (session.ask(get_data("/a", true)), session.ask(get_data("/a", false)));
        let (mut peer, _) = Peer::accept(&server).await;
        peer.open_session(77).await;
        for mzxid in [5, 6] {
            let (header, _) = peer.receive().await;
            let stat = Stat { mzxid, ..Stat::default() };
            peer.reply(header.xid, mzxid, &Reply::GetData(GetDataResponse { data: None, stat })).await;
        }
        assert_eq!((first.await.unwrap().zxid, second.await.unwrap().zxid), (5, 6));
        until(&mut events, |event| matches!(event, Event::WatchOvertaken(path) if path == "/a")).await;
    });
}

#[test]
fn a_request_in_flight_is_lost_and_a_later_one_is_sent_on_the_next_connection() {
    run(async {
        let server = listen().await;
        let (session, mut events) = Session::open(vec![address(&server)], 0, TIMING);
        let lost = session.ask(set_data("/a", b"1"));
        let (mut peer, _) = Peer::accept(&server).await;
        peer.open_session(77).await;
        peer.receive().await;
        drop(peer);
        assert_eq!(lost.await.unwrap_err(), Refusal::Lost);
        until(&mut events, |event| matches!(event, Event::Disconnected(0, _))).await;

        let later = session.ask(set_data("/a", b"2"));
        let (mut peer, _) = Peer::accept(&server).await;
        peer.open_session(77).await;
        let (header, request) = peer.receive().await;
        assert_eq!(request, set_data("/a", b"2"));
        peer.reply(header.xid, 9, &Reply::SetData(SetDataResponse { stat: Stat::default() })).await;
        assert_eq!(later.await.unwrap().zxid, 9);
    });
}

#[test]
fn a_reply_to_something_else_breaks_the_connection() {
    run(async {
        let server = listen().await;
        let (session, mut events) = Session::open(vec![address(&server)], 0, TIMING);
        let answer = session.ask(set_data("/a", b"1"));
        let (mut peer, _) = Peer::accept(&server).await;
        peer.open_session(77).await;
        let (header, _) = peer.receive().await;
        peer.reply(header.xid + 1, 9, &Reply::SetData(SetDataResponse { stat: Stat::default() })).await;
        assert_eq!(answer.await.unwrap_err(), Refusal::Lost);
        let expected =
            |event: &Event| matches!(event, Event::Disconnected(0, why) if why.contains("expected the reply"));
        until(&mut events, expected).await;
    });
}

#[test]
fn a_session_that_a_server_does_not_know_is_over() {
    run(async {
        let server = listen().await;
        let (session, mut events) = Session::open(vec![address(&server)], 0, TIMING);
        let (mut peer, _) = Peer::accept(&server).await;
        peer.refuse().await;
        assert!(matches!(events.recv().await, Some(Event::Expired)));
        assert_eq!(session.ask(set_data("/a", b"1")).await.unwrap_err(), Refusal::Expired);
    });
}

/// The server's end of a connection.
struct Peer {
    stream: TcpStream,
    received: BytesMut,
}

impl Peer {
    async fn accept(listener: &TcpListener) -> (Self, ConnectRequest) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut peer = Self { stream, received: BytesMut::new() };
        let request = ConnectRequest::decode(peer.frame().await).unwrap();
        (peer, request)
    }

    async fn open_session(&mut self, session_id: i64) {
        let passwd = Some(format!("password of {session_id}").into());
        self.respond(ConnectResponse { protocol_version: 0, timeout: 4000, session_id, passwd, read_only: None }).await;
    }

    async fn refuse(&mut self) {
        self.respond(ConnectResponse { protocol_version: 0, timeout: 0, session_id: 0, passwd: None, read_only: None })
            .await;
    }

    async fn respond(&mut self, response: ConnectResponse) {
        let mut writer = Writer::new();
        writer.frame(|writer| response.write(writer));
        self.stream.write_all(&writer.into_bytes()).await.unwrap();
    }

    /// Receives the next request that is not a ping.
    async fn receive(&mut self) -> (RequestHeader, Request) {
        loop {
            let mut reader = pole_jute::Reader::new(self.frame().await);
            let header = RequestHeader::read(&mut reader).unwrap();
            if header.xid != Xid::PING {
                return (header, Request::decode(header.operation().unwrap(), &mut reader).unwrap());
            }
        }
    }

    async fn reply(&mut self, xid: i32, zxid: i64, body: &Reply) {
        let mut writer = Writer::new();
        writer.frame(|writer| {
            ReplyHeader { xid, zxid, err: ErrorCode::Ok }.write(writer);
            body.write(writer);
        });
        self.stream.write_all(&writer.into_bytes()).await.unwrap();
    }

    async fn frame(&mut self) -> Bytes {
        loop {
            if let Some(frame) = Deframer::default().next(&mut self.received).unwrap() {
                return frame;
            }
            assert_ne!(self.stream.read_buf(&mut self.received).await.unwrap(), 0, "the client closed the connection");
        }
    }
}

/// Waits for an event that matches.
async fn until(events: &mut mpsc::UnboundedReceiver<Event>, matches: impl Fn(&Event) -> bool) {
    while !matches(&events.recv().await.expect("the session goes on")) {}
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limited = async { timeout(Duration::from_secs(60), test).await };
    tokio::task::LocalSet::new().block_on(&runtime, limited).expect("it ends within a minute");
}

async fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

fn address(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().unwrap()
}

/// No test waits for one of these timeouts.
const TIMING: Timing = Timing {
    session_timeout: Duration::from_secs(60),
    silence_max: Duration::from_secs(60),
    reconnect_pause: Duration::from_millis(1),
};
