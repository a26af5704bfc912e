//! A single server without replication: requests are prepared at once, and applied when the test says so.

use std::cell::RefCell;
use std::collections::VecDeque;

use bytes::Bytes;
use pole_jute::{
    Acl, CreateMode, CreateRequest, CreateTtlRequest, DeleteRequest, ErrorCode, EventType, Id, MultiOp, MultiRequest,
    MultiResponse, MultiResult, OpCode, Perms, Reader, Record, Reply, Request, SetAclRequest, SetDataRequest, Txn,
    TxnEntry, WatcherEvent, Writer,
};
use pole_tree::{
    Applied, Caller, Changes, Position, Prepared, RequestOrigin, Rules, Tree, Watcher, Watches, WriteRequest,
};

pub(crate) struct Server {
    pub(crate) tree: Tree,
    pub(crate) prepared: Prepared,
    pub(crate) watches: RefCell<Watches>,
    pub(crate) in_flight: VecDeque<Bytes>,
    /// The zxid of the next transaction.
    pub(crate) zxid: i64,
    pub(crate) wall_ms: i64,
    pub(crate) caller: Caller,
    /// Events that watches fired since the last [`Self::events`].
    pub(crate) fired: Vec<(Watcher, WatcherEvent)>,
    pub(crate) last: Applied,
    /// Whether a change of the members finds a quorum.
    pub(crate) has_new_quorum: bool,
}

/// The session of most tests.
pub(crate) const ALICE: i64 = 0x100_0000_0001;
pub(crate) const BOB: i64 = 0x100_0000_0002;

/// The connection of most tests.
pub(crate) const HERE: Watcher = Watcher(7);

impl Server {
    /// A server with Alice's session.
    pub(crate) fn new() -> Self {
        Self::with(Rules { extended_types: true, enforce_quota: true, ..Rules::default() })
    }

    pub(crate) fn with(rules: Rules) -> Self {
        let mut server = Self::over(Tree::new(rules));
        server.attach(ALICE, 4000);
        server
    }

    /// A server with an existing tree.
    pub(crate) fn over(tree: Tree) -> Self {
        Self {
            zxid: tree.last_zxid() + 1,
            tree,
            prepared: Prepared::new(),
            watches: RefCell::default(),
            in_flight: VecDeque::new(),
            wall_ms: 1_000_000,
            caller: Caller { ids: vec![id("ip", "127.0.0.1")] },
            fired: Vec::new(),
            last: Applied::default(),
            has_new_quorum: true,
        }
    }

    pub(crate) fn attach(&mut self, session: i64, timeout_ms: i32) {
        let txn =
            self.propose(RequestOrigin { session, cxid: -2000, floor: 0 }, &WriteRequest::attach(timeout_ms, false));
        assert!(matches!(txn, Some(Txn::CreateSession(_))));
        self.settle();
    }

    /// Prepares a request without applying it.
    pub(crate) fn propose(&mut self, origin: RequestOrigin, request: &Bytes) -> Option<Txn> {
        let at = Position { zxid: self.zxid, wall_ms: self.wall_ms };
        let bytes = self.prepared.prepare(&self.tree, at, origin, request, &|_| self.has_new_quorum)?;
        self.zxid += 1;
        self.in_flight.push_back(bytes.clone());
        let entry = TxnEntry::decode(bytes).unwrap();
        assert_eq!((entry.header.zxid, entry.header.time), (at.zxid, at.wall_ms));
        assert_eq!((entry.header.client_id, entry.header.cxid), (origin.session, origin.cxid));
        assert_eq!(entry.header.op, entry.txn.op().number());
        Some(entry.txn)
    }

    /// Prepares a client's request without applying it.
    pub(crate) fn send(&mut self, session: i64, request: &Request) -> Txn {
        let origin = RequestOrigin { session, cxid: 1, floor: i64::MAX };
        let encoded = encode_write(&self.caller, request);
        self.propose(origin, &encoded).expect("a request of a connection that the session has not left")
    }

    /// Applies the oldest transaction in flight.
    pub(crate) fn step(&mut self) {
        let bytes = self.in_flight.pop_front().expect("something in flight");
        let entry = TxnEntry::decode(bytes).unwrap();
        let mut changes = Changes::new();
        self.last = self.tree.apply(&entry, true, &mut changes);
        self.prepared.applied(entry.header.zxid);
        self.watches.get_mut().fire(&changes, |event, watchers| {
            self.fired.extend(watchers.into_iter().map(|watcher| (watcher, event.clone())));
        });
    }

    /// Applies all transactions in flight.
    pub(crate) fn settle(&mut self) {
        while !self.in_flight.is_empty() {
            self.step();
        }
    }

    /// The reply of the last transaction.
    pub(crate) fn answer(&self, op: OpCode) -> Result<Reply, ErrorCode> {
        let (code, body) = self.last.reply.clone().expect("a reply was wanted");
        if code != ErrorCode::Ok {
            assert!(body.is_empty(), "a failure has no body");
            return Err(code);
        }
        Ok(reply(op, body))
    }

    /// Prepares and applies a write of Alice.
    pub(crate) fn write(&mut self, request: &Request) -> Result<Reply, ErrorCode> {
        self.write_by(ALICE, request)
    }

    pub(crate) fn write_by(&mut self, session: i64, request: &Request) -> Result<Reply, ErrorCode> {
        self.send(session, request);
        self.settle();
        self.answer(request.op())
    }

    pub(crate) fn multi(&mut self, ops: Vec<MultiOp>) -> Vec<MultiResult> {
        match self.write(&Request::Multi(MultiRequest { ops })) {
            Ok(Reply::Multi(MultiResponse { results })) => results,
            other => panic!("{other:?}"),
        }
    }

    /// Creates a node, which must succeed, and returns its path.
    pub(crate) fn create(&mut self, path: &str, mode: CreateMode) -> String {
        match self.write(&Request::Create(new_node(path, b"", mode))) {
            Ok(Reply::Create(created)) => created.path,
            other => panic!("{path}: {other:?}"),
        }
    }

    pub(crate) fn set(&mut self, path: &str, data: &[u8]) -> Result<Reply, ErrorCode> {
        self.write(&set_data(path, data, -1))
    }

    pub(crate) fn delete(&mut self, path: &str) -> Result<Reply, ErrorCode> {
        self.write(&delete(path, -1))
    }

    /// A read of Alice on the connection [`HERE`].
    pub(crate) fn read(&mut self, request: &Request) -> Result<Reply, ErrorCode> {
        self.read_at(HERE, request)
    }

    pub(crate) fn read_at(&mut self, watcher: Watcher, request: &Request) -> Result<Reply, ErrorCode> {
        let mut writer = Writer::new();
        let mut events = Vec::new();
        let watches = || self.watches.borrow_mut();
        let code =
            pole_tree::read(&self.tree, watches, watcher, ALICE, &self.caller, request, &mut writer, &mut events);
        self.fired.extend(events.into_iter().map(|event| (watcher, event)));
        let body = writer.into_bytes();
        if code != ErrorCode::Ok {
            assert!(body.is_empty(), "a failure has no body");
            return Err(code);
        }
        Ok(reply(request.op(), body))
    }

    /// Takes the events that fired since the last call, as (connection, kind, path).
    pub(crate) fn events(&mut self) -> Vec<(u64, EventType, String)> {
        self.fired.drain(..).map(|(Watcher(watcher), event)| (watcher, event.kind, event.path)).collect()
    }

    pub(crate) fn snapshot(&self) -> Bytes {
        body(&self.tree)
    }
}

pub(crate) fn body(tree: &Tree) -> Bytes {
    let mut bytes = Vec::new();
    tree.freeze().write(&mut |piece| bytes.extend_from_slice(piece));
    bytes.into()
}

pub(crate) fn encode_write(caller: &Caller, request: &Request) -> Bytes {
    let mut writer = Writer::new();
    request.write(&mut writer);
    WriteRequest::encode(request.op(), caller, &writer.into_bytes())
}

pub(crate) fn reply(op: OpCode, body: Bytes) -> Reply {
    let mut reader = Reader::new(body);
    let reply = Reply::decode(op, &mut reader).unwrap();
    reader.finish("reply").unwrap();
    reply
}

pub(crate) fn id(scheme: &str, id: &str) -> Id {
    Id { scheme: scheme.into(), id: id.into() }
}

pub(crate) fn acl(perms: Perms, scheme: &str, who: &str) -> Acl {
    Acl { perms, id: id(scheme, who) }
}

pub(crate) fn open() -> Vec<Acl> {
    vec![acl(Perms::ALL, "world", "anyone")]
}

pub(crate) fn new_node(path: &str, data: &[u8], mode: CreateMode) -> CreateRequest {
    let data = Some(Bytes::copy_from_slice(data));
    CreateRequest { path: path.into(), data, acl: open(), flags: mode.number() }
}

pub(crate) fn new_ttl(path: &str, mode: CreateMode, ttl: i64) -> Request {
    Request::CreateTtl(CreateTtlRequest { path: path.into(), data: None, acl: open(), flags: mode.number(), ttl })
}

pub(crate) fn set_data(path: &str, data: &[u8], version: i32) -> Request {
    Request::SetData(SetDataRequest { path: path.into(), data: Some(Bytes::copy_from_slice(data)), version })
}

pub(crate) fn set_acl(path: &str, acl: Vec<Acl>, version: i32) -> Request {
    Request::SetAcl(SetAclRequest { path: path.into(), acl, version })
}

pub(crate) fn delete(path: &str, version: i32) -> Request {
    Request::Delete(DeleteRequest { path: path.into(), version })
}
