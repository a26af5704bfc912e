//! Sites, links and loads as a file; the delay and the bandwidth of a link as pure functions.
//!
//! In: the text of a topology file, and a random number for each message. Out: one-way delays, transfer times, loads.
//! Why: the simulator and the delay emulation of real sockets must mean the same by "deployment 1".
//! Holds: the same file and the same random numbers give the same delays on every machine (integers only; a float
//! exists while the file is parsed and nowhere else).
//! Not here: servers (an id is a number with a site), clocks, the source of the random numbers, queues and order on
//! a link (whoever delays messages keeps them in order).
//! Source: sections 4 and 5 of the paper for the presets; TCP and netem for the model of a link.

mod error;
mod file;
mod link;
mod presets;
mod topology;

pub use error::{Error, Reason};
pub use link::Link;
pub use presets::{PRESETS, favoured};
pub use topology::{Load, Server, Topology};
