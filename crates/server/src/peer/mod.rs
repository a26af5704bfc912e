//! Links between servers: two for each pair, one for elections and measurements, one for leader and follower.
//!
//! In: messages and resets of the node. Out: [`Arrival`]s: links up and down, messages, notes for the operator.
//! Why on the node's thread: a message that arrives goes to `Node::step` without a switch of threads, and one flush
//! after a batch of steps writes each link once.
//! Holds: the contract of `node::Event`: FIFO; nothing is lost on a link while it is open; after `Down` or a reset nothing
//! of the old connection arrives; `Up` of a new one comes after `Down` of the old. Everything from outside is bounded,
//! in number, in bytes and in time, and strangers disturb nobody.
//! Not here: what a message means, when a peer counts as dead, where certificates come from.
//!
//! ```text
//! dial ──┐                     ┌─ reading task ── frames ─> Inbox ──> node
//!        ├─ handshake ─> Link ─┤
//! listen ┘                     └─ outgoing (delay line, codec) <── send, flush <── node
//! ```

mod alarm;
pub mod codec;
mod config;
mod delay;
mod dial;
pub mod frames;
mod greetings;
pub mod handshake;
mod hub;
mod inbox;
mod link;
mod listen;
mod outgoing;
mod peers;
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
