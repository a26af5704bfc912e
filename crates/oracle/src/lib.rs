//! What a good leader is: measurements, the scores made of them, and when a leader should resign.
//!
//! In: round trips, request rates, transfers, positions in the history, a probe's number; and `now`. Out: a score for
//! this server, the inputs that it was made of, and the decision to stay or to resign, with its reason.
//! Why a crate of its own: the election ([`pole_election`]) compares integers and does not ask where they came from;
//! whoever wants another notion of a good leader implements [`Oracle`] and changes nothing else.
//! Holds: a score depends on the [`View`] and the epoch alone; a server that has not measured a quorum is unknown,
//! never best; integers inside, a float only at a probe's door and on its way to a human.
//! Not here: how scores travel and who wins (`election`), clocks, sockets, the hand-over itself (`node`, `zab`).
//! Source: Becker, Junqueira, Serafini, "Leader Election for Replicated Services Using Application Scores" (2011).
//!
//! ```text
//! measure/   round trips, rates, bandwidths, disk   -> Measurements, Report (what travels)
//! view       Measurements + who is suspected        -> View (what an oracle sees)
//! oracles/   View + epoch                           -> Assessed (score and inputs)
//! resign     own score, those of others, now        -> Decision (stay or resign, and why)
//! spec       "latency/1ms"                          -> Box<dyn Oracle>
//! ```
#![no_std]

extern crate alloc;

mod class;
mod measure;
mod oracle;
mod oracles;
mod resign;
mod spec;
mod time;
mod view;

pub use class::Class;
pub use measure::{
    Bandwidths, DiskTimes, Gossip, InvalidProbe, MeasureConfig, Measurements, Report, RequestRate, RoundTrips,
};
pub use oracle::{Advantage, Assessed, Better, InvalidScore, Oracle, Scale, fingerprint, shown};
pub use oracles::{
    Combined, Consensus, Custom, History, InvalidPart, Latency, Part, Preference, Recovery, Request, Rotating,
    WorstCase, consensus_time, hop_time,
};
pub use resign::{Decision, ResignConfig, Resignation, Situation, StayReason};
pub use spec::{Spec, SpecError};
pub use time::Time;
pub use view::{Moment, View};
