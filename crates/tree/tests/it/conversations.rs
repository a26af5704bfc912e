//! Replays recorded conversations of real clients with Apache against Pole.
//!
//! The same requests at the same times lead to the same transactions, byte for byte, and to the same replies and
//! events. The recordings are those of the tests of `pole-jute`.

use std::cell::RefCell;
use std::collections::VecDeque;

use bytes::Bytes;
use pole_jute::{
    ConnectResponse, EventType, Reader, Record, Reply, ReplyHeader, Request, RequestHeader, TxnEntry, WatcherEvent, Xid,
};
use pole_tree::{AuthSettings, Caller, RequestOrigin, Rules, Tree, WriteRequest, authenticate, is_write};

use crate::server::{HERE, Server, encode_write, id};

const JAVA: &str = include_str!("../../../jute/tests/it/apache/java-session.txt");
const KAZOO: &str = include_str!("../../../jute/tests/it/apache/kazoo-session.txt");
const LOG: &str = include_str!("../../../jute/tests/it/apache/log.txt");

#[test]
fn the_java_client_and_kazoo_get_what_apache_gave_them() {
    let log = lines(LOG).map(|line| TxnEntry { digest: None, ..TxnEntry::decode(unhex(line)).unwrap() });
    let rules = Rules { extended_types: true, ..Rules::default() };
    let mut replay = Replay { server: Server::over(Tree::new(rules)), log: log.collect(), session: 0 };
    replay.run(JAVA);
    replay.run(KAZOO);
    assert_eq!(replay.log, [], "transactions that were not requested");
}

struct Replay {
    server: Server,
    /// What Apache logged and Pole has not prepared yet.
    log: VecDeque<TxnEntry>,
    session: i64,
}

impl Replay {
    fn run(&mut self, recording: &str) {
        let mut frames = lines(recording).map(|line| line.split_once(' ').unwrap());
        frames.next().expect("a client speaks first");
        let response = ConnectResponse::decode(unhex(frames.next().expect("a server answers").1)).unwrap();
        self.session = response.session_id;
        self.server.caller = Caller { ids: vec![id("ip", "127.0.0.1")] };
        self.propose(0, &WriteRequest::attach(response.timeout, false));

        let mut answers = VecDeque::new();
        let mut events = VecDeque::new();
        for (from, frame) in frames {
            let mut reader = Reader::new(unhex(frame));
            if from == ">" {
                let header = RequestHeader::read(&mut reader).unwrap();
                let request = Request::decode(header.operation().unwrap(), &mut reader).unwrap();
                answers.push_back((header.xid, request.clone(), self.answer(header.xid, &request)));
                events.extend(self.server.fired.drain(..).map(|(_, event)| event));
                continue;
            }
            let header = ReplyHeader::read(&mut reader).unwrap();
            if header.xid == Xid::NOTIFICATION {
                assert_eq!(Some(WatcherEvent::read(&mut reader).unwrap()), events.pop_front());
                continue;
            }
            let at = answers.iter().position(|(xid, ..)| *xid == header.xid).expect("a reply to a request");
            let (_, request, answer) = answers.remove(at).unwrap();
            match answer {
                None => (),
                Some(Err(code)) => assert_eq!(code, header.err, "{request:?}"),
                Some(Ok(reply)) => {
                    let theirs = Reply::decode(request.op(), &mut reader).unwrap();
                    assert_eq!(sorted(reply), sorted(theirs), "{request:?}");
                }
            }
        }
        assert_eq!(events.iter().filter(|event| event.kind != EventType::None).count(), 0, "{events:?}");
    }

    /// Pole's reply; none to a request that the tree does not handle.
    fn answer(&mut self, xid: i32, request: &Request) -> Option<Result<Reply, pole_jute::ErrorCode>> {
        if let Request::Auth(packet) = request {
            let ids =
                authenticate(&packet.scheme, packet.auth.as_deref().unwrap_or_default(), &AuthSettings::default())
                    .unwrap();
            self.server.caller.ids.extend(ids);
            return None;
        }
        if matches!(request, Request::Ping | Request::Sync(_)) {
            return None;
        }
        if is_write(request.op()) {
            let encoded = encode_write(&self.server.caller, request);
            self.propose(xid, &encoded);
            return Some(self.server.answer(request.op()));
        }
        Some(self.read(request))
    }

    /// Prepares at the time at which Apache did, compares with what Apache logged, and applies.
    fn propose(&mut self, cxid: i32, request: &Bytes) {
        let logged = self.log.pop_front().expect("Apache logged it");
        self.server.wall_ms = logged.header.time;
        self.server.propose(RequestOrigin { session: self.session, cxid, floor: 0 }, request).unwrap();
        let ours = TxnEntry::decode(self.server.in_flight.back().unwrap().clone()).unwrap();
        assert_eq!(ours, logged);
        assert_eq!(ours.encode(), logged.encode());
        self.server.settle();
    }

    fn read(&mut self, request: &Request) -> Result<Reply, pole_jute::ErrorCode> {
        let mut writer = pole_jute::Writer::new();
        let mut events = Vec::new();
        let watches = RefCell::new(self.server.watches.take());
        let (tree, caller) = (&self.server.tree, &self.server.caller);
        let guard = || watches.borrow_mut();
        let code = pole_tree::read(tree, guard, HERE, self.session, caller, request, &mut writer, &mut events);
        self.server.watches = watches;
        assert_eq!(events, []);
        if code == pole_jute::ErrorCode::Ok {
            Ok(crate::server::reply(request.op(), writer.into_bytes()))
        } else {
            Err(code)
        }
    }
}

/// The order of names is not guaranteed.
fn sorted(mut reply: Reply) -> Reply {
    if let Reply::GetChildren(reply) = &mut reply {
        reply.children.sort();
    }
    if let Reply::GetChildren2(reply) = &mut reply {
        reply.children.sort();
    }
    reply
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

fn unhex(text: &str) -> Bytes {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
