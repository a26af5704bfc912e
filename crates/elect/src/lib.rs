//! Leader election by score, over a store that is already there.
//!
#![doc = include_str!("../README.md")]
//!
//! ## What is guaranteed
//!
//! - At most one [`Guard`] is valid at one time, as long as the store keeps its [promises] and clocks differ by no more
//!   than [`Timing::drift_permille`]. A guard is judged by the clock at every [`Guard::is_leader`], so it is false also
//!   in a process that was stopped for longer than its lease.
//! - [Tokens](Token) strictly increase over the life of the election.
//! - A hand-over is written only after the guard of the old leader was dropped.
//!
//! ## What is not
//!
//! - A process can be stopped between `is_leader()` and what it does next. Only a resource that refuses lower tokens is
//!   safe from that; see [`Fence`].
//! - A store that loses acknowledged writes (a restored backup, an asynchronous failover) can give leadership away
//!   while a guard is valid, for at most one lease. Tokens still increase for everybody who remembers the last one.
//! - Scores, ranks and the succession list decide who leads, never whether two do.
//!
//! ## The code
//!
//! ```text
//! candidate   what an application uses           guard      the proof of leadership
//! driver      the task behind a candidate        clock      time that counts suspension
//! election    the algorithm, without I/O         challenge  when a leader hands over
//! rank        the order of candidates            token      fencing
//! record      what stands in the store           timing     spans and limits
//! store       the trait for stores               stores     its adapters, each behind a feature
//! observer    who leads, for everybody else      admin      what an operator asks
//! contract    tests for every store              sim        the algorithm under faults
//! ```
#![warn(missing_docs)]

pub mod admin;
mod candidate;
mod challenge;
pub mod clock;
#[cfg(feature = "contract")]
pub mod contract;
mod driver;
pub mod election;
mod guard;
mod observer;
pub mod promises;
pub mod rank;
pub mod record;
pub mod score;
#[cfg(feature = "sim")]
pub mod sim;
pub mod store;
pub mod stores;
mod timing;
mod token;
pub mod url;

pub use candidate::{Builder, CampaignError, Candidate, Change, Changes, InvalidScore};
pub use driver::Counters;
pub use election::{InvalidSettings, Strategy, YieldReason};
pub use guard::{Check, Guard};
pub use observer::{Observed, Observer};
pub use timing::{InvalidTiming, Timing};
pub use token::{Fence, Token};
