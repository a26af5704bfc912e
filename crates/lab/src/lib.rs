//! The lab: a deterministic simulator that drives whole ensembles of `node`s through faults and checks what they do.
//!
//! A seed gives the same run on every machine, byte for byte. Bugs of consensus protocols hide in the order of events;
//! here the order is determined by a number that can be written down.
//!
//! Real time, sockets and files are in `server`. The protocol itself is in `election`, `zab` and `node`; the lab runs
//! that code, not a copy of it.

pub mod classical;
pub mod kv;
pub mod paper;
pub mod recording;
pub mod report;
pub mod rng;
pub mod script;
pub mod sim;
pub mod story;
