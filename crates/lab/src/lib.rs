//! The lab: a deterministic simulator that drives whole ensembles of `node`s through faults, and checks what they do.
//!
//! In: a seed. Out: the same run on every machine, byte for byte, and either nothing to say or what went wrong.
//! Why: the bugs of this field hide in the order of events; here the order is a number that can be written down.
//! Not here: real time, sockets and files (`server`); the protocol (`election`, `zab`, `node`), of which this is no copy.

pub mod classical;
pub mod kv;
pub mod paper;
pub mod play;
pub mod report;
pub mod rng;
pub mod script;
pub mod sim;
pub mod story;
