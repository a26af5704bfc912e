//! Network topologies: sites, links and loads from a file, and the delay and bandwidth of a link as pure functions.
//!
#![doc = include_str!("../README.md")]
//!
//! ## The code
//!
//! `file` parses, `topology` is the result, `link` has the model of a link, which follows TCP and netem.
//!
//! Invariant: the same file and the same random numbers give the same delays on every machine. All arithmetic uses
//! integers; floats exist only while the file is parsed.

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
