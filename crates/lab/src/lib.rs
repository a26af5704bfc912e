//! The lab: a deterministic simulator that drives whole ensembles of `node`s through faults and checks what they do.
//!
//! A seed gives the same run on every machine, byte for byte. Bugs of consensus protocols hide in the order of events;
//! here the order is determined by a number that can be written down, or by a script:
//!
//! ```
//! let script = "\
//! ensemble servers=3 oracle=preference scores=\"3,2,1\"
//! elect
//! crash 1
//! write 2 colour blue
//! ---
//! ";
//! let played = pole_lab::script::play(script)?;
//! assert!(played.contains("1 leads, epoch 1, quorum (1 2 3), by score"), "{played}");
//! assert!(played.contains("2 leads, epoch 2"), "{played}");
//! assert!(played.contains("colour=blue ok"), "{played}");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! `cargo xtask sim --seeds 100` runs random ones, `pole lab watch SCRIPT` shows one step by step.
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
