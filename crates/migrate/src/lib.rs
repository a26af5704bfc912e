//! Moves an ensemble of Apache ZooKeeper to Pole while it runs.
//!
//! A copy of the data joins Apache's ensemble as an observer, receives everything and follows; at the end, `take_over`
//! decides when nothing can be missing. The result is a data directory on which a Pole server starts.
//!
//! ```text
//! packet        bytes                         <-> packets of the learner protocol
//! learner       bytes from the leader          -> effects: what to write, apply, answer (no I/O)
//! replica       effects                        -> data directory and tree
//! link          sockets                        -> finds the leader, runs learner and replica, reconnects
//! four_letter   `srvr`                         -> mode and position of each server of Apache
//! take_over     answers and our position       -> the next step of the operator, or done (no I/O)
//! copy          the directory                  -> those of the other Pole servers
//! ```
//!
//! ```
//! use pole_migrate::{Effect, Kind, Learner, Limits, Packet, Start};
//! use pole_types::{Epoch, ServerId, Zxid};
//!
//! // An observer without a history introduces itself, and the leader answers with its epoch, 3.
//! let start = Start { id: ServerId(99), accepted: Epoch(0), current: Epoch(0), last: Zxid::ZERO };
//! let (mut learner, _first) = Learner::new(start, Limits::default());
//! let version = bytes::Bytes::from_static(&[0, 1, 0, 0]);
//! let answer = Packet::new(Kind::LeaderInfo, 0x3_0000_0000, Some(version)).encode();
//!
//! // The promise has to be durable before it is sent.
//! let effects = learner.receive(&answer)?;
//! assert!(matches!(effects[..], [Effect::Accept(Epoch(3)), Effect::Send(_)]));
//! # Ok::<(), pole_migrate::ProtocolError>(())
//! ```
//!
//! Invariants:
//! - An observer's id is never that of a server of the ensemble: the leader counts acknowledgements by id.
//! - Only committed transactions are written, in their order and without a gap.
//! - A directory is marked as incomplete from before its first file until `take_over` is done, and no server starts on
//!   a marked one.
//!
//! The crate does not know the configuration file, the command line, TLS, or how a Pole server works.

mod copy;
mod four_letter;
mod learner;
mod link;
mod packet;
mod replica;
mod servers;
mod take_over;

pub use copy::{CopyError, copy_history};
pub use four_letter::{Answer, Mode, ask};
pub use learner::{Effect, Learner, Limits, ProtocolError, Start};
pub use link::{Control, Encrypt, Encryption, Follow, FollowError, Progress, Stream};
pub use packet::{Kind, Packet, PacketError};
pub use replica::{Replica, ReplicaError};
pub use servers::{ApacheServer, OBSERVER_ID};
pub use take_over::{Position, Step, TakeOver};
