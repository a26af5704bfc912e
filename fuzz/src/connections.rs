//! Target `connection`: a client connection driven by bytes, replies, events, confirmations and time.
//!
//! Properties: the output consists of whole frames; the connection sends no event to the node before it asks for a
//! session or after it has decided to close; it asks for a session once; its buffers are bounded; by SASL it proves to be
//! nobody but the one user.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use pole_jute::{CreateTxn, Deframer, OpCode, Txn, TxnEntry, TxnHeader};
use pole_node::{
    AttachAnswer, Authentication, CallContext, ClientId, Connection, Event, GssapiResult, Limits, Next, Nonce,
    SaslMechanism, SaslUsers, ServerContext,
};
use pole_tree::{Caller, Changes, Rules, Tree, Watcher, Watches};
use pole_types::Time;

/// The input is a sequence of steps ([`crate::machine::steps`]). The selector of a step says what happens.
pub(crate) fn connections(input: &[u8]) {
    let mut driver = Driver::new();
    for (selector, body) in crate::machine::steps(input) {
        driver.step(selector, &body);
        driver.check_limits();
    }
}

struct Driver {
    machine: Connection,
    input: BytesMut,
    sent: BytesMut,
    has_session: bool,
    tree: Tree,
    watches: RefCell<Watches>,
    at: CallContext,
    /// The xids of requests that the node has not answered, in order.
    unanswered: VecDeque<i32>,
}

struct FixedContext;

impl ServerContext for FixedContext {
    fn new_session(&self) -> i64 {
        7
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn has_room(&self, _requests: usize, _bytes: usize) -> bool {
        true
    }

    fn identify(&self, _watcher: Watcher, _caller: &Caller) {}

    fn nonce(&self) -> Option<Nonce> {
        Some([7; 20])
    }
}

impl Driver {
    fn new() -> Self {
        let sasl = Some(SaslMechanism::DigestMd5(SaslUsers::new([("bob", "secret")])));
        let authentication = Authentication { sasl, ..Authentication::default() };
        let limits = Limits {
            frame_bytes_max: FRAME_BYTES_MAX,
            reply_bytes_max: REPLY_BYTES_MAX,
            authentication: Arc::new(authentication),
            ..Limits::default()
        };
        let mut tree = Tree::new(Rules::DEFAULT);
        let header = TxnHeader { client_id: 1, cxid: 1, zxid: 1, time: 0, op: OpCode::Create.number() };
        let data = Some(Bytes::from_static(b"data"));
        let txn = CreateTxn { path: "/a".into(), data, acl: Vec::new(), ephemeral: false, parent_cversion: 0 };
        tree.apply(&TxnEntry { header, txn: Txn::Create(txn), digest: None }, false, &mut Changes::new());
        Self {
            machine: Connection::new(ClientId(1), limits, Caller::default(), Time(0)),
            input: BytesMut::new(),
            sent: BytesMut::new(),
            has_session: false,
            tree,
            watches: RefCell::default(),
            at: CallContext { now: Time(0), confirmed: Time(0), applied: 1 },
            unanswered: VecDeque::new(),
        }
    }

    fn step(&mut self, selector: u8, body: &Bytes) {
        match selector % 8 {
            0..3 if self.machine.wants_input(&self.input) => self.input.extend_from_slice(body),
            3 => {
                if let Some(xid) = self.unanswered.pop_front() {
                    self.machine.reply(xid, 1, body, self.at.now);
                }
            }
            4 => self.machine.notify(1, body),
            5 => self.machine.attached(AttachAnswer::Opened { timeout_ms: 4_000 }),
            6 => self.at.now = Time(self.at.now.0 + u64::from(selector) * 10_000_000),
            _ => self.at.confirmed = self.at.now,
        }
        self.machine.expire(self.at.now);
        self.advance();
        self.take_output(selector);
    }

    fn advance(&mut self) {
        loop {
            let mut events = Vec::new();
            let was_closing = self.machine.close_reason().is_some();
            let next = self.machine.advance(&mut self.input, &FixedContext, self.at, &mut events);
            assert!(!was_closing || events.is_empty(), "an event after its end");
            for event in events {
                match event {
                    Event::Attach { .. } => assert!(!std::mem::replace(&mut self.has_session, true), "two sessions"),
                    Event::Request { cxid, .. } | Event::Read { cxid, .. } | Event::Sync { cxid, .. } => {
                        assert!(self.has_session, "a request before a session");
                        self.unanswered.push_back(cxid.0);
                    }
                    other => panic!("{other:?} is not an event of a connection"),
                }
            }
            match next {
                Next::Wait => return,
                Next::Yield => {}
                Next::Gssapi => self.machine.gssapi_called(GssapiResult::Failed, &FixedContext),
                Next::FourLetterWord => return self.machine.answer_four_letter_word("imok"),
                Next::Read => {
                    let watches = || self.watches.borrow_mut();
                    self.machine.read(&mut self.input, &self.tree, watches, self.at, || true);
                }
            }
        }
    }

    /// The client reads some of the output, or nothing.
    fn take_output(&mut self, selector: u8) {
        if self.machine.close_reason() == Some(pole_node::CloseReason::FourLetterWordAnswered) {
            return;
        }
        if selector >= 128 {
            let piece = self.machine.take_piece(usize::from(selector), self.at);
            self.machine.piece_sent();
            self.sent.extend_from_slice(&piece);
        } else if selector >= 64 {
            let unsent = self.machine.unsent(self.at);
            let count = unsent.len().min(usize::from(selector));
            self.sent.extend_from_slice(&unsent[..count]);
            self.machine.sent(count);
        } else {
            self.machine.stalled(self.at.now);
        }
        while Deframer::new(1 << 24).next(&mut self.sent).expect("whole frames").is_some() {}
    }

    fn check_limits(&self) {
        assert!(self.machine.pending() >= self.unanswered.len() || self.machine.close_reason().is_some());
        assert!(self.machine.output_bytes() < (9 << 20) + 2 * REPLY_BYTES_MAX, "{}", self.machine.output_bytes());
        assert!(self.machine.caller().ids.iter().all(|id| id.scheme != "sasl" || id.id == "bob"));
        assert!(self.input.len() <= 2 * FRAME_BYTES_MAX + (1 << 20), "{}", self.input.len());
    }
}

const FRAME_BYTES_MAX: usize = 1 << 16;
const REPLY_BYTES_MAX: usize = 1 << 16;
