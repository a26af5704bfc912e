//! Jute: the records of ZooKeeper, on the wire and on disk.
//!
//! In: bytes from a client, a log or a snapshot. Out: typed records; and the way back.
//! Why: every other room speaks in types, and bytes that fit no record are refused at this door, with the record, the
//! field and the place.
//! Holds: no input makes a read panic, and none makes it allocate more than a small multiple of the bytes that are
//! there; what is written reads back the same.
//! Not here: what a record means and whether it is allowed (`tree`), files and their checksums (`storage`), sockets
//! (`server`). Numbers are therefore plain numbers here: a zxid or a session gets its own type where it has a meaning.
//! Source: Apache ZooKeeper's `zookeeper.jute`, release 3.8, and what 3.9 adds for clients.
//!
//! Three layers, each usable alone: [`Deframer`] cuts a stream into frames; [`Reader`] and [`Writer`] know the five
//! primitives; a [`Record`] is a list of fields. On top stand three closed lists: [`Request`], [`Reply`] and [`Txn`].
#![no_std]

extern crate alloc;

mod acl;
mod closed;
mod code;
mod disk;
mod error;
mod frame;
mod header;
mod numbered;
mod op;
mod opcode;
mod reader;
mod record;
mod reply;
mod request;
mod stat;
mod txn;
mod writer;

pub use acl::{Acl, Id, Perms};
pub use code::ErrorCode;
pub use disk::{
    AclEntry, DataNode, FileHeader, LOG_MAGIC, OPEN_ACL_REFERENCE, SNAPSHOT_MAGIC, SessionEntry, SnapshotNode, VERSION,
    ZxidDigest,
};
pub use error::{Cause, Error, Place};
pub use frame::{Deframer, FrameError, MAX_BUFFER_DEFAULT, four_letter_word};
pub use header::{ReplyHeader, RequestHeader, Xid};
pub use op::access::{GetAclRequest, GetAclResponse, SetAclRequest, SetAclResponse};
pub use op::auth::{AuthPacket, ClientInfo, SaslRequest, SaslResponse, WhoAmIResponse};
pub use op::children::{
    GetAllChildrenNumberRequest, GetAllChildrenNumberResponse, GetChildren2Request, GetChildren2Response,
    GetChildrenRequest, GetChildrenResponse, GetEphemeralsRequest, GetEphemeralsResponse,
};
pub use op::content::{
    CheckVersionRequest, ExistsRequest, ExistsResponse, GetDataRequest, GetDataResponse, SetDataRequest,
    SetDataResponse, SyncRequest, SyncResponse,
};
pub use op::create::{Create2Response, CreateMode, CreateRequest, CreateResponse, CreateTtlRequest};
pub use op::delete::{DeleteContainerRequest, DeleteRequest};
pub use op::multi::{MultiOp, MultiReadOp, MultiReadRequest, MultiReadResponse, MultiRequest, MultiResponse};
pub use op::multi::{MultiReadResult, MultiResult};
pub use op::reconfig::ReconfigRequest;
pub use op::session::{ConnectRequest, ConnectResponse};
pub use op::watch::{
    AddWatchMode, AddWatchRequest, CheckWatchesRequest, ErrorResponse, EventType, KeeperState, RemoveWatchesRequest,
    SetWatches, SetWatches2, WatcherEvent, WatcherType,
};
pub use opcode::OpCode;
pub use reader::Reader;
pub use record::{Record, Value};
pub use reply::Reply;
pub use request::Request;
pub use stat::{Stat, StatPersisted};
pub use txn::entry::{TxnDigest, TxnEntry, TxnHeader};
pub use txn::node::{
    CheckVersionTxn, CreateContainerTxn, CreateTtlTxn, CreateTxn, CreateTxnV0, DeleteTxn, SetAclTxn, SetDataTxn,
    SetMaxChildrenTxn,
};
pub use txn::session::{CloseSessionTxn, CreateSessionTxn, ErrorTxn};
pub use txn::{MultiTxn, Txn};
pub use writer::Writer;
