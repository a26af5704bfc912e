//! A deterministic simulator: the algorithm of many candidates against a model store with faults, in virtual time.
//!
//! A run is determined by its seed. It has two phases. In the first, messages are slow or lost, candidates crash, pause,
//! are partitioned from the store and have clocks that drift within the bound, and the store restarts. In the second,
//! all faults end, and the election must recover.
//!
//! Checked at every change of a guard:
//!
//! - no two guards are valid at one time, by the clocks of their own processes, also of paused ones;
//! - tokens strictly increase;
//! - a resignation is sent only after the application has stopped.
//!
//! Checked at the end: there is one leader, and it is alive.
//!
//! ```text
//! random   numbers from a seed
//! store    the model store: plain records, leases, watches
//! client   one candidate with its clock, its guard and its application
//! world    the queue of events, the network, the checks
//! faults   what goes wrong, and the recovery
//! large    thousands of candidates without faults: operations and wake-ups counted
//! ```

mod client;
mod faults;
mod large;
mod random;
mod store;
mod world;

pub use large::{Cost, Large, large};
pub use world::{Outcome, run};
