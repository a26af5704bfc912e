//! Links between servers: two per pair, one for elections and measurements, one for leader and follower.
//!
//! The node's messages and resets go in. [`Arrival`]s come out: links up and down, messages, and notes for the
//! operator. Links live on the node's thread, so that a message reaches `Node::step` without a thread switch, and one
//! flush after a batch of steps writes to each link once.
//!
//! Links keep the contract of `node::Event`: messages are delivered in order; nothing is lost while a link is open;
//! after `Down` or a reset nothing of the old connection arrives; `Up` of a new connection comes after `Down` of the
//! old one. All input is bounded in number, in bytes and in time, and connections from unknown hosts do not affect
//! links.
//!
//! The meaning of messages, failure detection and the source of certificates are elsewhere.
//!
//! ```text
//! dial ──┐                     ┌─ reading task ── frames ─> Inbox ──> node
//!        ├─ handshake ─> Link ─┤
//! listen ┘                     └─ outgoing (delay line, codec) <── send, flush <── node
//! ```

mod alarm;
mod batching;
pub mod codec;
mod config;
mod delay;
mod dial;
pub mod frames;
pub mod handshake;
mod hub;
mod inbox;
mod link;
mod listen;
mod outgoing;
mod peers;
mod rate_limit;
mod secret;
mod stream;

pub use alarm::{Alarm, Sleep};
pub use config::{Listen, PeerAddress, PeerConfig, PeerCounters, PeerError, PeerLimits};
pub use delay::{DelayLine, Delays};
pub use inbox::{Arrival, Inbox};
pub use peers::{Peers, open};
pub use secret::{PeerSecret, SecretError};

#[cfg(test)]
mod tests;
