//! Leader election by score, over a store that is already there.
//!
//! Thousands of processes do not run consensus among themselves; they elect a leader through etcd, ZooKeeper,
//! PostgreSQL, Consul, Kubernetes, NATS or Redis. Most libraries elect the process that comes first. This one elects the
//! best score, moves leadership when another candidate stays better, hands out fencing tokens, and says why.
//!
//! ```
//! use std::time::Duration;
//! use pole_elect::{Candidate, stores};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = stores::open(&"mem://example".parse()?).await?;
//! let candidate = Candidate::builder(store, "replica-1").ttl(Duration::from_millis(500)).join()?;
//! candidate.set_score(12.5).await?;
//!
//! let mut guard = candidate.campaign().await?;
//! while guard.is_leader() {
//!     // Work as the leader. Send the token with every request to a resource that can check it.
//!     println!("leading with token {}", guard.token());
//! #   candidate.resign(None).await;
//!     tokio::select! {
//!         reason = guard.ended() => println!("stop: {reason}"),
//!         () = tokio::time::sleep(Duration::from_secs(1)) => {}
//!     }
//! }
//! drop(guard); // The work has stopped: now, and not before, the next leader may begin.
//! candidate.leave().await;
//! # Ok(())
//! # }
//! ```
//!
//! # What is guaranteed
//!
//! - At most one [`Guard`] is valid at one time, as long as the store keeps its [promises] and clocks differ by no more
//!   than [`Timing::drift_permille`]. A guard is judged by the clock at every [`Guard::is_leader`], so it is false also
//!   in a process that was stopped for longer than its lease.
//! - [Tokens](Token) strictly increase over the life of the election.
//! - A hand-over is written only after the guard of the old leader was dropped.
//!
//! # What is not
//!
//! - A process can be stopped between `is_leader()` and what it does next. Only a resource that refuses lower tokens is
//!   safe from that; see [`Fence`].
//! - A store that loses acknowledged writes (a restored backup, an asynchronous failover) can give leadership away
//!   while a guard is valid, for at most one lease. Tokens still increase for everybody who remembers the last one.
//! - Scores, ranks and the succession list decide who leads, never whether two do.
//!
//! # Parts
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
