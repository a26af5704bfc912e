//! Jute: the records of ZooKeeper, on the wire and on disk.
//!
#![doc = include_str!("../README.md")]
//!
//! ## The code
//!
//! Request and reply of an operation are defined next to each other in `op`, transactions in `txn`, files in `disk`.
//! [`Deframer`], [`Reader`] and [`Writer`], and [`Record`] are the three layers; [`Request`], [`Reply`] and [`Txn`] are
//! closed enums over all operations.
//!
//! Invariants: no input makes a read panic or allocate more than a small multiple of the input size, and what is
//! written reads back the same.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod acl;
mod code;
mod disk;
mod error;
mod frame;
mod header;
mod numbered;
mod op;
mod op_enum;
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
