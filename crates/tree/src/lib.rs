//! The state machine of the service: znodes, sessions, watches, ACLs, quotas and multi.
//!
//! The leader turns requests into transactions, and every server applies them. Replies, watch events and snapshots
//! come out.
//!
//! A write takes these steps: [`WriteRequest`] carries it to the leader, [`Prepared`] validates it against the
//! [`Tree`] and all transactions in flight, [`Tree::apply`] changes the tree and collects [`Changes`], and
//! [`Watches`] turns those into events. A [`read()`] takes none of these steps. Each operation has one file in `op`,
//! which covers all of its steps.
//!
//! ```
//! use pole_jute::{Acl, CreateMode, CreateRequest, ErrorCode, Id, Perms, Record, Request, TxnEntry, Writer};
//! use pole_tree::{Caller, Changes, Position, Prepared, RequestOrigin, Rules, Tree, WriteRequest};
//!
//! let mut tree = Tree::new(Rules::default());
//! let mut prepared = Prepared::new();
//! let session = 0x100;
//!
//! // The leader turns each request into one transaction, before the earlier ones are applied.
//! let open = Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } };
//! let create = Request::Create(CreateRequest {
//!     path: "/colour".into(),
//!     data: Some("blue".into()),
//!     acl: vec![open],
//!     flags: CreateMode::Persistent.number(),
//! });
//! let mut body = Writer::new();
//! create.write(&mut body);
//! let create = WriteRequest::encode(create.op(), &Caller::default(), &body.into_bytes());
//! let requests = [(1, WriteRequest::attach(4_000, false)), (2, create.clone()), (3, create)];
//! let txns = requests.map(|(zxid, request)| {
//!     let at = Position { zxid, wall_ms: 1_700_000_000_000 };
//!     let origin = RequestOrigin { session, cxid: zxid as i32, floor: if zxid == 1 { 0 } else { 1 } };
//!     prepared.prepare(&tree, at, origin, &request, &|_| false).expect("the session has not moved")
//! });
//!
//! // Every server applies them, in order. The second `create` is a transaction too: it records the error.
//! let codes = txns.map(|txn| {
//!     let entry = TxnEntry::decode(txn).expect("a transaction");
//!     let applied = tree.apply(&entry, true, &mut Changes::new());
//!     prepared.applied(entry.header.zxid);
//!     applied.reply.map(|(code, _)| code)
//! });
//! assert_eq!(codes[1..], [Some(ErrorCode::Ok), Some(ErrorCode::NodeExists)]);
//! assert_eq!(tree.data("/colour"), Some(Some(&b"blue"[..])));
//! ```
//!
//! Invariants: a transaction is validated once, and applying it cannot fail; equal histories have equal digests.
//!
//! The crate is pure, because the same transactions must give the same tree on every server, in the simulator and
//! after a restart. It has no clocks, files, sockets, locks or random numbers. Of the ensemble it knows only the
//! list of its members, which a transaction can change. Sessions, zxids and cxids are plain numbers.
//!
//! The behaviour is that of Apache ZooKeeper 3.8, and of 3.9 where its clients can observe a difference.

#![no_std]

extern crate alloc;

mod access;
mod acls;
mod apply;
mod auth;
mod changes;
mod children;
mod difference;
mod grants;
mod index;
mod members;
mod node;
mod nodes;
mod op;
mod overlay;
mod owner;
mod path;
mod prepared;
mod quota;
mod read;
mod rules;
mod slab;
mod snapshot;
mod tree;
mod validation;
mod watches;
mod write_request;

pub use access::masked as masked_acl;
pub use auth::{AuthFailed, AuthSettings, DigestAlgorithm, authenticate, digest_id, identities, user_name};
pub use changes::{Change, Changes};
pub use difference::{Counts, Difference, Step};
pub use members::{Address, MemberLine, MemberRole, Members, MembersReader, Server, parse_host};
pub use op::is_write;
pub use op::reconfig::{members_of, parse_membership};
pub use prepared::{MayChange, Position, Prepared, Refusals, RequestOrigin};
pub use read::read;
pub use rules::Rules;
pub use snapshot::{Frozen, RestoreError, Restorer};
pub use tree::{Applied, SessionChange, Tree};
pub use watches::{Watcher, Watches, WatchesSummary};
pub use write_request::{Caller, Operation, WriteRequest};
