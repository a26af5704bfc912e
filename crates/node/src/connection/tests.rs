//! The connection on its own: bytes in, bytes and events out.

mod authentication;

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use bytes::{Bytes, BytesMut};
use core::cell::{Cell, RefCell};
use pole_jute::{
    AuthPacket, ConnectRequest, ConnectResponse, CreateTxn, Deframer, ErrorCode, GetChildrenRequest, GetDataRequest,
    MultiReadOp, MultiReadRequest, OpCode, Reader, Record, ReplyHeader, RequestHeader, SyncRequest, Txn, TxnEntry,
    TxnHeader, Writer, Xid,
};
use pole_tree::{Caller, Changes, Rules, Tree, Watcher, Watches};
use pole_types::{Span, Time};

use super::*;

/// A connection and a driver that keeps the contract.
struct Driver {
    machine: Connection,
    input: BytesMut,
    tree: Tree,
    watches: RefCell<Watches>,
    context: CallContext,
    events: Vec<Event>,
    server: TestServer,
}

#[derive(Default)]
struct TestServer {
    is_read_only: Cell<bool>,
    is_full: Cell<bool>,
    /// What a connection may have outstanding although the server is full.
    own_requests: Cell<usize>,
    /// What a connection may have outstanding.
    bytes_max: Cell<usize>,
    /// The room for large requests.
    large_bytes: Cell<usize>,
    refuses: Cell<Option<CloseReason>>,
}

impl ServerContext for TestServer {
    fn new_session(&self) -> i64 {
        SESSION
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only.get()
    }

    fn has_room(&self, requests: usize, bytes: usize) -> bool {
        (!self.is_full.get() || requests <= self.own_requests.get()) && bytes <= self.bytes_max.get()
    }

    fn identify(&self, _watcher: Watcher, _caller: &Caller) {}

    fn nonce(&self) -> Option<Nonce> {
        Some([7; 20])
    }

    fn admit(&self, _resumes: bool, _now: Time) -> Result<(), CloseReason> {
        self.refuses.get().map_or(Ok(()), Err)
    }

    fn has_room_for_large(&self, bytes: usize) -> bool {
        bytes <= self.large_bytes.get()
    }
}

const SESSION: i64 = 0x100_0000_0000_0007;
const TIMEOUT_MS: i32 = 6_000;

impl Driver {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let context = CallContext { now: ms(1), confirmed: ms(0), applied: 0 };
        Self {
            machine: Connection::new(ClientId(1), limits, Caller::default(), context.now),
            input: BytesMut::new(),
            tree: Tree::new(Rules::default()),
            watches: RefCell::default(),
            context,
            events: Vec::new(),
            server: TestServer { bytes_max: Cell::new(usize::MAX), ..TestServer::default() },
        }
    }

    /// A connection with a session.
    fn open() -> Self {
        Self::opened(Self::new())
    }

    fn opened(mut driver: Self) -> Self {
        driver.send(&connect(0, 0));
        assert!(matches!(driver.events.remove(0), Event::Attach { .. }));
        driver.machine.attached(AttachAnswer::Opened { timeout_ms: TIMEOUT_MS });
        driver.frames();
        driver
    }

    fn send(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.serve();
    }

    fn serve(&mut self) {
        loop {
            match self.machine.advance(&mut self.input, &self.server, self.context, &mut self.events) {
                Next::Wait | Next::FourLetterWord | Next::Gssapi => return,
                Next::Yield => {}
                Next::Read => {
                    let watches = || self.watches.borrow_mut();
                    self.machine.read(&mut self.input, &self.tree, watches, self.context, || false);
                }
            }
        }
    }

    /// Takes everything that may be sent now, as frames.
    fn frames(&mut self) -> Vec<Bytes> {
        let mut sent = BytesMut::from(self.machine.unsent(self.context));
        self.machine.sent(sent.len());
        let mut frames = Vec::new();
        while let Some(frame) = Deframer::new(1 << 30).next(&mut sent).expect("whole frames") {
            frames.push(frame);
        }
        assert!(sent.is_empty());
        frames
    }

    fn replies(&mut self) -> Vec<(i32, ErrorCode)> {
        let header = |frame| ReplyHeader::read(&mut Reader::new(frame)).expect("a reply");
        self.frames().into_iter().map(header).map(|header| (header.xid, header.err)).collect()
    }

    fn create(&mut self, path: &str, bytes: usize) {
        let zxid = self.tree.last_zxid() + 1;
        let header = TxnHeader { client_id: 1, cxid: 1, zxid, time: 0, op: OpCode::Create.number() };
        let data = Some(vec![b'x'; bytes].into());
        let txn = CreateTxn { path: path.into(), data, acl: Vec::new(), ephemeral: false, parent_cversion: 0 };
        let txn = TxnEntry { header, txn: Txn::Create(txn), digest: None };
        self.tree.apply(&txn, false, &mut Changes::new());
        self.context.applied = zxid;
    }

    fn reason(&self) -> Option<CloseReason> {
        self.machine.close_reason()
    }
}

fn ms(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

fn frame(content: impl FnOnce(&mut Writer)) -> Bytes {
    let mut writer = Writer::new();
    writer.frame(content);
    writer.into_bytes()
}

fn connect(session_id: i64, last_zxid_seen: i64) -> Bytes {
    let passwd = Some(Bytes::copy_from_slice(&password(session_id)));
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen,
        timeout: TIMEOUT_MS,
        session_id,
        passwd,
        read_only: Some(false),
    };
    frame(|w| request.write(w))
}

fn request(xid: i32, op: OpCode, body: &impl Record) -> Bytes {
    frame(|w| {
        RequestHeader { xid, op: op.number() }.write(w);
        body.write(w);
    })
}

fn get(xid: i32, path: &str) -> Bytes {
    request(xid, OpCode::GetData, &GetDataRequest { path: path.into(), watch: false })
}

fn write(xid: i32) -> Bytes {
    frame(|w| {
        RequestHeader { xid, op: OpCode::SetData.number() }.write(w);
        w.raw(b"opaque");
    })
}

fn ping() -> Bytes {
    frame(|w| RequestHeader { xid: Xid::PING, op: OpCode::Ping.number() }.write(w))
}

fn ok() -> Bytes {
    Bytes::copy_from_slice(&0i32.to_be_bytes())
}

#[test]
fn a_session_is_requested_and_opened() {
    let mut driver = Driver::new();
    let bytes = connect(0, 0);
    for byte in &bytes {
        assert!(driver.events.is_empty());
        driver.send(&[*byte]);
    }
    assert!(matches!(&driver.events[..], [Event::Attach { session, .. }] if session.0 == SESSION));
    driver.machine.attached(AttachAnswer::Opened { timeout_ms: TIMEOUT_MS });
    let frames = driver.frames();
    let response = ConnectResponse::read(&mut Reader::new(frames[0].clone())).expect("a response");
    assert_eq!((frames.len(), response.session_id, response.timeout), (1, SESSION, TIMEOUT_MS));
    assert_eq!(response.passwd.as_deref(), Some(&password(SESSION)[..]));
}

#[test]
fn a_client_of_an_expired_session_is_notified_and_the_connection_closed() {
    let mut driver = Driver::new();
    driver.send(&connect(42, 0));
    driver.machine.attached(AttachAnswer::Expired);
    let response = ConnectResponse::read(&mut Reader::new(driver.frames().remove(0))).expect("a response");
    assert_eq!((response.session_id, response.timeout), (0, 0));
    assert_eq!(driver.reason(), Some(CloseReason::SessionExpired));
}

#[test]
fn a_wrong_password_and_a_client_that_is_ahead_are_refused() {
    let mut driver = Driver::new();
    let mut bytes = BytesMut::from(&connect(42, 0)[..]);
    let end = bytes.len() - 2;
    bytes[end] ^= 1;
    driver.send(&bytes);
    assert_eq!((driver.reason(), driver.events.len()), (Some(CloseReason::WrongPassword), 0));
    assert!(!driver.machine.is_attached(), "the session belongs to another");

    let mut driver = Driver::new();
    driver.send(&connect(0, 1));
    assert_eq!(driver.reason(), Some(CloseReason::ClientAhead));
}

#[test]
fn a_read_waits_for_earlier_writes_and_otherwise_bypasses_the_node() {
    let mut driver = Driver::open();
    driver.create("/a", 3);
    driver.send(&get(1, "/a"));
    assert_eq!((driver.replies(), driver.events.len()), (vec![(1, ErrorCode::Ok)], 0));
    driver.send(&[&write(2)[..], &get(3, "/a")].concat());
    let events: Vec<_> = driver.events.drain(..).collect();
    assert!(matches!(&events[..], [Event::Request { .. }, Event::Read { .. }]), "{events:?}");
    assert_eq!(driver.replies(), [], "nothing before the write is answered");
    driver.machine.reply(2, 1, &ok(), driver.context.now);
    driver.machine.reply(3, 1, &ok(), driver.context.now);
    assert_eq!(driver.replies(), [(2, ErrorCode::Ok), (3, ErrorCode::Ok)]);
}

#[test]
fn a_list_waits_at_the_connection_until_earlier_requests_are_answered() {
    let mut driver = Driver::open();
    driver.create("/a", 3);
    let list = request(2, OpCode::GetChildren, &GetChildrenRequest { path: "/".into(), watch: false });
    driver.send(&[&write(1)[..], &list, &write(3), &get(4, "/a")].concat());
    assert_eq!(driver.events.len(), 1, "a long list would hold up the node, and a later write must not be seen in it");
    assert!(driver.machine.waits_for_replies(&driver.input));
    driver.machine.reply(1, 1, &ok(), driver.context.now);
    driver.serve();
    assert_eq!(driver.replies(), [(1, ErrorCode::Ok), (2, ErrorCode::Ok)]);
    assert!(matches!(&driver.events[1..], [Event::Request { .. }, Event::Read { .. }]), "the others follow");
}

#[test]
fn a_reply_that_is_not_the_next_one_ends_the_connection() {
    let mut driver = Driver::open();
    driver.send(&[write(1), write(2)].concat());
    assert_eq!(driver.machine.reply(2, 1, &ok(), driver.context.now), None);
    assert_eq!(driver.reason(), Some(CloseReason::OutOfOrder));
}

#[test]
fn a_sync_is_answered_with_its_path() {
    let mut driver = Driver::open();
    driver.send(&request(5, OpCode::Sync, &SyncRequest { path: "/x".into() }));
    driver.machine.reply(5, 9, &[], driver.context.now);
    let frames = driver.frames();
    assert_eq!(&frames[0][16..], &[0, 0, 0, 2, b'/', b'x']);
}

#[test]
fn without_a_confirmation_a_client_is_not_answered_after_a_third_of_its_timeout() {
    let mut driver = Driver::open();
    driver.create("/a", 3);
    driver.context.now = ms(2_001);
    driver.send(&get(1, "/a"));
    assert_eq!(driver.replies().len(), 1);
    driver.context.now = ms(2_002);
    driver.send(&[get(2, "/a"), ping()].concat());
    assert_eq!(driver.replies(), []);
    assert!(driver.machine.waits_for_confirmation() && !driver.machine.wants_input(&driver.input));
    driver.context = CallContext { now: ms(2_100), confirmed: ms(2_050), ..driver.context };
    driver.serve();
    assert_eq!(driver.replies().len(), 2);
}

#[test]
fn an_event_for_a_silent_client_is_held_and_does_not_keep_the_session_alive() {
    let mut driver = Driver::open();
    driver.context.now = ms(3_000);
    driver.machine.notify(7, b"event");
    assert!(driver.machine.unsent(driver.context).is_empty(), "the leader may have ended the session");
    assert!(driver.machine.waits_for_confirmation());
    // Confirmations of other clients release nothing, and nothing reports activity of this one.
    driver.context = CallContext { now: ms(3_100), confirmed: ms(3_050), ..driver.context };
    driver.serve();
    assert!(driver.machine.unsent(driver.context).is_empty() && !driver.machine.has_request(&driver.input));
    // Its input must be read, or its activity would never be noticed.
    assert!(driver.machine.wants_input(&driver.input));
    driver.send(&ping());
    driver.context = CallContext { now: ms(3_200), confirmed: ms(3_150), ..driver.context };
    driver.serve();
    assert_eq!(driver.replies(), [(Xid::NOTIFICATION, ErrorCode::Ok), (Xid::PING, ErrorCode::Ok)]);
}

#[test]
fn a_session_that_took_long_to_attach_is_announced_when_the_leader_knows_of_it() {
    let mut driver = Driver::new();
    driver.send(&connect(0, 0));
    // There was no leader for longer than the lease lasts.
    driver.context.now = ms(5_000);
    driver.machine.attached(AttachAnswer::Opened { timeout_ms: TIMEOUT_MS });
    driver.serve();
    assert!(driver.frames().is_empty() && driver.machine.waits_for_confirmation());
    assert!(driver.machine.has_request(&driver.input), "the client waits, so it counts as active");
    driver.context = CallContext { now: ms(5_100), confirmed: ms(5_050), ..driver.context };
    driver.serve();
    assert_eq!(driver.frames().len(), 1);
    assert!(!driver.machine.has_request(&driver.input), "from now on the client has to send something");
}

#[test]
fn a_connection_with_too_much_outstanding_waits_for_replies_even_in_the_middle_of_a_request() {
    let mut driver = Driver::open();
    let large = |xid| {
        frame(|w| {
            RequestHeader { xid, op: OpCode::SetData.number() }.write(w);
            w.raw(&vec![0; PENDING_BYTES_MAX / 5]);
        })
    };
    driver.send(&large(1));
    assert!(!driver.machine.waits_for_replies(&driver.input), "it reads the next request");
    let more = [large(2), large(3), large(4), large(5), large(6).slice(..100)].concat();
    driver.send(&more);
    assert_eq!(driver.events.len(), 5);
    assert!(!driver.machine.wants_input(&driver.input) && driver.machine.waits_for_replies(&driver.input));
    driver.machine.reply(1, 1, &ok(), driver.context.now);
    driver.serve();
    assert!(driver.machine.wants_input(&driver.input) && !driver.machine.waits_for_replies(&driver.input));
}

#[test]
fn a_connection_with_little_outstanding_goes_on_while_others_use_up_the_room() {
    let mut driver = Driver::open();
    driver.server.bytes_max.set(3 * write(1).len());
    driver.send(&[write(1), write(2), write(3), write(4), write(5)].concat());
    let taken = driver.events.len();
    assert!((1..5).contains(&taken) && driver.machine.waits_for_room(), "{taken}");
    assert!(!driver.machine.wants_input(&driver.input));
    (1..=taken as i32).for_each(|xid| drop(driver.machine.reply(xid, 1, &ok(), driver.context.now)));
    driver.serve();
    assert!(driver.events.len() > taken, "its replies make room");
    driver.server.bytes_max.set(usize::MAX);
    driver.serve();
    assert_eq!(driver.events.len(), 5);
    assert!(!driver.machine.waits_for_room());
}

#[test]
fn a_connection_with_few_requests_outstanding_goes_on_while_others_use_up_the_room() {
    let mut driver = Driver::open();
    driver.server.is_full.set(true);
    driver.server.own_requests.set(2);
    driver.send(&[write(1), write(2), write(3)].concat());
    assert_eq!(driver.events.len(), 2);
    assert!(driver.machine.waits_for_room());
    drop(driver.machine.reply(1, 1, &ok(), driver.context.now));
    driver.serve();
    assert_eq!(driver.events.len(), 3);
}

#[test]
fn no_input_is_read_from_a_client_that_reads_no_replies() {
    let mut driver = Driver::open();
    driver.create("/a", 100_000);
    let reads: Vec<u8> = (1..=1_000).flat_map(|xid| get(xid, "/a")).collect();
    driver.send(&reads);
    assert!(driver.machine.output_bytes() < UNREAD_BYTES_MAX + 200_000, "{}", driver.machine.output_bytes());
    assert!(!driver.machine.wants_input(&driver.input));
    let mut answered = 0;
    while !driver.input.is_empty() {
        answered += driver.replies().len();
        driver.serve();
    }
    assert_eq!(answered + driver.replies().len(), 1_000);
}

#[test]
fn a_client_that_reads_nothing_for_its_timeout_is_closed_and_one_that_reads_something_is_not() {
    let mut driver = Driver::open();
    driver.send(&ping());
    driver.machine.stalled(ms(10));
    assert_eq!(driver.machine.deadline(), Some(ms(10) + Span::from_ms(6_000)));
    driver.machine.sent(1);
    assert_eq!(driver.machine.deadline(), None);
    driver.machine.stalled(ms(20));
    driver.machine.stalled(ms(5_000));
    driver.machine.expire(ms(6_019));
    assert_eq!(driver.reason(), None);
    driver.machine.expire(ms(6_020));
    assert_eq!((driver.reason(), driver.machine.output_bytes()), (Some(CloseReason::ClientStalled), 0));
}

#[test]
fn a_slow_first_request_does_not_extend_its_deadline() {
    let mut driver = Driver::new();
    let deadline = driver.machine.deadline().expect("a deadline");
    for byte in &connect(0, 0)[..20] {
        driver.context.now = driver.context.now + Span::from_ms(400);
        driver.send(&[*byte]);
        assert_eq!(driver.machine.deadline(), Some(deadline));
    }
    driver.machine.expire(deadline);
    assert_eq!(driver.reason(), Some(CloseReason::SlowGreeting));
}

#[test]
fn a_reply_over_the_limit_is_replaced_by_an_error() {
    let limits = Limits { reply_bytes_max: 100_000, ..Limits::default() };
    let mut driver = Driver::opened(Driver::with(limits));
    driver.create("/a", 60_000);
    let ops = vec![MultiReadOp::GetData(GetDataRequest { path: "/a".into(), watch: false }); 10_000];
    driver.send(&request(1, OpCode::MultiRead, &MultiReadRequest { ops }));
    driver.send(&get(2, "/a"));
    assert!(driver.machine.output_bytes() < 200_000);
    assert_eq!(driver.replies(), [(1, ErrorCode::MarshallingError), (2, ErrorCode::Ok)]);
}

#[test]
fn identities_are_bounded() {
    let mut driver = Driver::open();
    let auth = |number: i32| {
        let credentials = format!("user{number}:{}", "x".repeat(50));
        let packet = AuthPacket { kind: 0, scheme: "digest".into(), auth: Some(credentials.into_bytes().into()) };
        request(Xid::AUTH, OpCode::Auth, &packet)
    };
    for number in 0..1_000 {
        driver.send(&auth(number));
        driver.frames();
        if driver.reason().is_some() {
            break;
        }
    }
    assert_eq!(driver.reason(), Some(CloseReason::TooManyIdentities));
    let bytes: usize = driver.machine.caller().ids.iter().map(|id| id.id.len()).sum();
    assert!((4_000..8_192).contains(&bytes), "{bytes}");
}

#[test]
fn few_reads_wait_at_the_node_while_their_replies_are_large() {
    let mut driver = Driver::open();
    let mut bytes = BytesMut::from(&write(1)[..]);
    (2..=600).for_each(|xid| bytes.extend_from_slice(&get(xid, "/a")));
    driver.send(&bytes);
    let at_node = driver.events.len() - 1;
    assert!((1..=8).contains(&at_node), "{at_node} reads of unknown size");
    let large = [&ok()[..], &vec![0; 500_000]].concat();
    driver.machine.reply(1, 1, &ok(), driver.context.now);
    driver.machine.reply(2, 1, &large, driver.context.now);
    driver.frames();
    driver.serve();
    assert_eq!(driver.events.len() - 1, at_node, "no more while they are large");
    // Small replies allow more of them.
    let (mut most, mut next) = (0, 3);
    while driver.machine.pending() > 0 {
        most = most.max(driver.machine.pending());
        assert!(driver.machine.reply(next, 1, &ok(), driver.context.now).is_some());
        next += 1;
        driver.frames();
        driver.serve();
    }
    assert!(most > 100, "{most} at once");
}

#[test]
fn pieces_for_tls_never_reach_beyond_one_frame() {
    let mut driver = Driver::open();
    driver.create("/a", 50_000);
    driver.send(&[ping(), get(1, "/a"), ping()].concat());
    driver.machine.notify(3, b"event");
    let mut pieces = Vec::new();
    loop {
        let piece = driver.machine.take_piece(16 << 10, driver.context);
        if piece.is_empty() {
            break;
        }
        assert!(driver.machine.output_bytes() >= piece.len(), "it counts as unsent until it is sent");
        driver.machine.piece_sent();
        pieces.push(piece);
    }
    let lengths: Vec<_> = pieces.iter().map(Bytes::len).collect();
    let reply = 20 + 4 + 50_000 + 68;
    assert_eq!(lengths, [20, 16_384, 16_384, 16_384, reply - 3 * 16_384, 20, 25]);
    assert_eq!(driver.machine.output_bytes(), 0);
}

#[test]
fn a_client_that_watches_much_and_reads_nothing_is_closed() {
    let mut driver = Driver::open();
    let event = vec![0; 10_000];
    for _ in 0..10_000 {
        driver.machine.notify(1, &event);
    }
    assert_eq!((driver.reason(), driver.machine.output_bytes()), (Some(CloseReason::OutputLimit), 0));
}

#[test]
fn a_full_server_takes_no_requests_until_it_has_room() {
    let mut driver = Driver::open();
    driver.server.is_full.set(true);
    driver.send(&write(1));
    assert!(driver.events.is_empty() && driver.machine.waits_for_room());
    driver.server.is_full.set(false);
    driver.serve();
    assert_eq!(driver.events.len(), 1);
}

#[test]
fn a_read_only_session_reads_refuses_writes_and_ends_with_a_quorum() {
    let mut driver = Driver::new();
    driver.server.is_read_only.set(true);
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout: TIMEOUT_MS,
        session_id: 0,
        passwd: None,
        read_only: Some(true),
    };
    driver.send(&frame(|w| request.write(w)));
    driver.send(&[write(1), ping()].concat());
    driver.frames().remove(0);
    assert!(driver.events.is_empty() && !driver.machine.is_attached());
    driver.server.is_read_only.set(false);
    driver.send(&ping());
    assert_eq!(driver.reason(), Some(CloseReason::QuorumRegained));
}

#[test]
fn random_bytes_never_cause_a_panic() {
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for round in 0..2_000 {
        let mut driver = if round % 2 == 0 { Driver::new() } else { Driver::open() };
        let whole = [connect(0, 0), get(1, "/a"), write(2), ping(), get(3, "/b")].concat();
        let mut bytes = whole.clone();
        for _ in 0..1 + random() % 4 {
            let at = random() % bytes.len();
            bytes[at] = random() as u8;
        }
        let cut = random() % bytes.len();
        driver.send(&bytes[..cut]);
        driver.send(&bytes[cut..]);
        let _ = driver.machine.unsent(driver.context);
    }
}

#[test]
fn requests_that_wait_too_long_for_room_are_refused_in_order() {
    let limits = Limits { throttled_after: Some(Span::from_ms(50)), ..Limits::default() };
    let mut driver = Driver::opened(Driver::with(limits));
    driver.send(&write(1));
    driver.server.is_full.set(true);
    driver.send(&[write(2), get(3, "/"), ping()].concat());
    assert_eq!(driver.machine.throttle_deadline(), None, "the reply to the first comes first");
    driver.machine.reply(1, 1, &ok(), ms(2));
    driver.serve();
    assert_eq!(driver.machine.throttle_deadline(), Some(ms(51)));
    assert_eq!(driver.replies(), [(1, ErrorCode::Ok)]);
    driver.context.now = ms(51);
    driver.serve();
    let refused = ErrorCode::ThrottledOp;
    assert_eq!(driver.replies(), [(2, refused), (3, refused), (Xid::PING, ErrorCode::Ok)]);
    assert_eq!((driver.machine.counts().throttled, driver.machine.throttle_deadline()), (2, None));
    assert!(driver.machine.wants_input(&driver.input), "the client is heard again");
}

#[test]
fn the_end_of_a_session_is_not_refused() {
    let limits = Limits { throttled_after: Some(Span::from_ms(50)), ..Limits::default() };
    let mut driver = Driver::opened(Driver::with(limits));
    driver.server.is_full.set(true);
    driver.send(&frame(|w| RequestHeader { xid: 1, op: OpCode::CloseSession.number() }.write(w)));
    driver.context.now = ms(51);
    driver.serve();
    assert_eq!(driver.machine.throttle_deadline(), Some(ms(101)), "no deadline that has passed is left");
    driver.server.is_full.set(false);
    driver.serve();
    assert!(matches!(driver.events.last(), Some(Event::Request { .. })));
}

#[test]
fn a_large_request_needs_room_for_large_ones() {
    let limits = Limits { large_request_bytes: Some(20), ..Limits::default() };
    let mut driver = Driver::opened(Driver::with(limits));
    let large = |xid| request(xid, OpCode::Sync, &SyncRequest { path: "/some/longer/path".into() });
    driver.server.large_bytes.set(100);
    driver.send(&[write(1), large(2)].concat());
    let totals = driver.machine.pending_totals();
    assert_eq!((totals.count, totals.large_bytes), (2, 8 + 4 + 17), "a small request does not count");
    driver.server.large_bytes.set(10);
    driver.send(&write(3));
    assert_eq!(driver.reason(), None);
    driver.send(&large(4));
    assert_eq!(driver.reason(), Some(CloseReason::LargeRequest));
    assert_eq!(driver.machine.abandon_pending().large_bytes, 29);
    assert_eq!(driver.machine.pending_totals(), RequestTotals::default());
}

#[test]
fn a_client_that_is_not_admitted_is_disconnected_and_the_server_s_own_is_not() {
    for (is_exempt, expected) in [(false, Some(CloseReason::ConnectionThrottled)), (true, None)] {
        let mut driver = Driver::new();
        driver.server.refuses.set(Some(CloseReason::ConnectionThrottled));
        if is_exempt {
            driver.machine.exempt();
        }
        driver.send(&connect(0, 0));
        assert_eq!(driver.reason(), expected);
        assert_eq!(driver.events.len(), usize::from(is_exempt));
    }
}
