//! One server as a pure state machine: events and the current time go in, effects come out.
//!
//! The driver passes [`Event`]s in the order in which they happen and carries out [`Effect`]s in the order given. The
//! module `event` states the driver's side of the contract in full. The same code runs under tokio and under the
//! simulator, where time is a number and every fault can be injected.
//!
//! This is a driver in virtual time, for a single server whose disk is durable at once:
//!
//! ```
//! use std::collections::{BTreeMap, VecDeque};
//!
//! use bytes::Bytes;
//! use pole_node::{ClientId, Config, Effect, Event, Machine, MayChange, Node, Outcome, ReadResult, Request};
//! use pole_oracle::Spec;
//! use pole_types::{Cxid, ServerId, SessionId, Time, Voters, Zxid};
//! use pole_zab::{Body, Entry, Recovered};
//!
//! /// A state machine that counts its transactions. The one of the service is `Znodes`.
//! struct Counter(u64);
//!
//! impl Machine for Counter {
//!     fn prepare(&mut self, _: Zxid, request: &Request, _: i64, _: MayChange<'_>) -> Option<Bytes> {
//!         Some(request.body.clone())
//!     }
//!     fn forget_prepared(&mut self) {}
//!     fn apply(&mut self, entry: &Entry, _: bool) -> Result<Outcome, String> {
//!         self.0 += 1;
//!         Ok(Outcome { reply: entry.body.clone(), ..Outcome::default() })
//!     }
//!     fn read(&mut self, _: ClientId, _: SessionId, _: &Bytes) -> ReadResult {
//!         ReadResult::default()
//!     }
//!     fn snapshot(&self) -> Body {
//!         Bytes::copy_from_slice(&self.0.to_be_bytes()).into()
//!     }
//!     fn restore(&mut self, _: Zxid, body: &Bytes) -> Result<(), String> {
//!         self.0 = u64::from_be_bytes(body[..].try_into().map_err(|_| "not a counter")?);
//!         Ok(())
//!     }
//!     fn digest(&self) -> u64 {
//!         self.0
//!     }
//! }
//!
//! let me = ServerId(1);
//! let oracle = Spec::parse("history")?.build()?;
//! let mut now = Time(0);
//! let mut node = Node::new(Config::new(me, Voters::new([me])), oracle, Counter(0), Recovered::blank(), now);
//!
//! let client = ClientId(9);
//! let attach = Event::Attach { client, session: SessionId(7), body: Bytes::new() };
//! let request = Event::Request { client, cxid: Cxid(1), body: Bytes::from_static(b"hello") };
//! // The client comes when the server leads.
//! let mut later = VecDeque::from([attach, request]);
//! let mut events = VecDeque::from([Event::Start]);
//! let mut timers = BTreeMap::new();
//! let mut replies = Vec::new();
//! while replies.is_empty() {
//!     let event = events.pop_front().unwrap_or_else(|| {
//!         if node.zab().serving_epoch().is_some() {
//!             return later.pop_front().expect("both requests are answered at once");
//!         }
//!         let (timer, at) = timers.iter().min_by_key(|(_, at)| **at).map(|(timer, at)| (*timer, *at)).expect("a timer");
//!         timers.remove(&timer);
//!         now = at;
//!         Event::Expired(timer)
//!     });
//!     let mut effects = Vec::new();
//!     node.step(event, now, &mut effects);
//!     for effect in effects {
//!         match effect {
//!             Effect::Write { ticket, .. } => events.push_back(Event::Written { through: ticket }),
//!             Effect::Arm { timer, after } => drop(timers.insert(timer, now + after)),
//!             Effect::Cancel(timer) => drop(timers.remove(&timer)),
//!             Effect::Continue => events.push_back(Event::Continue),
//!             Effect::Reply { body, .. } => replies.push(body),
//!             _ => {} // nothing else happens on a single server without a network
//!         }
//!     }
//! }
//! assert_eq!(replies, ["hello"]);
//! assert_eq!(node.machine().0, 2, "the session, and its write");
//! # Ok::<(), pole_oracle::SpecError>(())
//! ```
//!
//! How a leader is chosen (`election`), what makes a good one (`oracle`), agreement (`zab`), threads and files are
//! elsewhere.
#![no_std]

extern crate alloc;

#[cfg(test)]
mod bad_peers;
mod checkpoints;
mod clients;
mod config;
mod connection;
mod contract;
mod disk_watch;
mod event;
mod handover;
mod inbox;
mod inspect;
mod lag;
mod leadership;
mod leadership_changes;
mod lease;
mod liveness;
mod machine;
mod membership;
mod node;
mod roles;
mod scoring;
mod serving;
mod sessions;
mod syncs;
mod transfers;
mod unreached;
mod znodes;

pub use config::Config;
pub use connection::{
    AnsweredRequest, AttachAnswer, Authentication, BucketSettings, CallContext, CloseReason, Connection, Counts,
    GssapiCall, GssapiResult, KerberosNames, Latency, Limits, Next, Nonce, ReplySizes, RequestTotals, SECURITY_LAYERS,
    SaslError, SaslMechanism, SaslUsers, ServerContext, TokenBucket, UNREAD_BYTES_MAX, password,
};
pub use contract::Contract;
pub use event::{Channel, ClientId, Effect, Event, Message, Note, Request, Timer, TransferRefusal};
pub use inspect::Queues;
pub use leadership_changes::{ChangeStatus, LeadershipChange, Milestone};
pub use lease::Lease;
pub use machine::{Machine, MayChange, Outcome, ReadResult};
pub use node::Node;
pub use znodes::{EndedSession, ORACLE_PATH, TreeStore, Znodes};
