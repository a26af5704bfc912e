//! Leader quality: measurements, the scores computed from them, and the decision when a leader should resign.
//!
//! Round trips, request rates, transfers, positions in the history, the value of an external probe, and `now` come in.
//! A score of this server with its inputs, and the decision to stay or to resign with its reason, come out. The
//! election ([`pole_election`]) only compares integers, so a service with another notion of a good leader implements
//! [`Oracle`] and changes nothing else.
//!
//! Invariants: a score depends only on the [`View`] and the epoch. A server that has not measured a quorum is unknown,
//! never best. Calculations use integers; floats appear only in probe values and in human-readable output.
//!
//! How scores are sent and who wins is in `election`, the hand-over in `node` and `zab`. This crate uses no clocks or
//! sockets.
//!
//! Source: Becker, Junqueira, Serafini, "Leader Election for Replicated Services Using Application Scores" (2011).
//!
//! ```text
//! measure/   round trips, rates, bandwidths, disk   -> Measurements, Report (what is sent)
//! view       Measurements + suspected servers       -> View (input of an oracle)
//! oracles/   View + epoch                           -> Assessed (score and inputs)
//! resign     own score, other scores, now           -> Decision (stay or resign, and why)
//! spec       "latency/1ms"                          -> Box<dyn Oracle>
//! ```
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod class;
mod measure;
mod oracle;
mod oracles;
mod resign;
mod spec;
mod view;

pub use class::Class;
pub use measure::{
    Bandwidths, DiskTimes, Gossip, InvalidProbe, MeasureConfig, Measurements, Report, RequestRate, RoundTrips,
};
pub use oracle::{Advantage, Assessed, Better, InvalidScore, Oracle, Scale, display_inputs, fingerprint};
pub use oracles::{
    Combined, Consensus, Custom, History, InvalidPart, Latency, Part, Preference, Recovery, Request, Rotating,
    WorstCase, consensus_time, hop_time,
};
pub use resign::{Decision, ResignConfig, Resignation, Situation, StayReason};
pub use spec::{Spec, SpecError};
pub use view::{Moment, View};
