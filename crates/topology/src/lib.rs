//! Network topologies: sites, links and loads from a file, and the delay and bandwidth of a link as pure functions.
//!
//! The text of a topology file and a random number for each message come in; one-way delays, transfer times and loads
//! come out. The simulator and the delay emulation on real sockets share this crate, so that "deployment 1" means the
//! same in both.
//!
//! Invariant: the same file and the same random numbers give the same delays on every machine. All arithmetic uses
//! integers; floats exist only while the file is parsed.
//!
//! Not included are servers (an id is a number with a site), clocks, the source of the random numbers, and the queues
//! of a link: the code that delays messages keeps them in order.
//!
//! The presets come from the paper's evaluation; the model of a link follows TCP and netem.

#![warn(missing_docs)]

mod error;
mod file;
mod link;
mod presets;
mod topology;

pub use error::{Error, Reason};
pub use link::Link;
pub use presets::{PRESETS, favoured};
pub use topology::{Load, Server, Topology};
