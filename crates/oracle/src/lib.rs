//! Leader quality: measurements, the scores computed from them, and the decision when a leader should resign.
//!
#![doc = include_str!("../README.md")]
//!
//! ## The code
//!
//! ```text
//! measure/   round trips, rates, bandwidths, disk   -> Measurements, Report (what is sent)
//! view       Measurements + suspected servers       -> View (input of an oracle)
//! direct     View + follower                        -> what direct acknowledgements save
//! oracles/   View + epoch                           -> Assessed (score and inputs)
//! resign     own score, other scores, now           -> Decision (stay or resign, and why)
//! spec       "latency/1ms"                          -> Box<dyn Oracle>
//! what_if    views of all candidates                -> which change would make another the best
//! ```
//!
//! Invariants: a score depends only on the [`View`] and the epoch. Calculations use integers; floats appear only in
//! probe values and in human-readable output, so that all machines agree.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod class;
mod direct;
mod measure;
mod oracle;
mod oracles;
mod resign;
mod spec;
mod view;
mod what_if;

pub use class::Class;
pub use direct::{DIRECT_ACKS_MARGIN, direct_saving};
pub use measure::{
    Bandwidths, DiskTimes, Gossip, InvalidProbe, MeasureConfig, Measurements, Report, RequestRate, RoundTrips,
};
pub use oracle::{Advantage, Assessed, Better, InvalidScore, Oracle, Scale, display_inputs, fingerprint};
pub use oracles::{
    Combined, Consensus, Custom, History, InvalidPart, Latency, Part, Preference, Recovery, Request, Rotating,
    WorstCase, consensus_time, hop, hop_time,
};
pub use resign::{Decision, ResignConfig, Resignation, Situation, StayReason};
pub use spec::{Spec, SpecError};
pub use view::{Moment, View};
pub use what_if::{Change, WhatIf, best, what_if};
