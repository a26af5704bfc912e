//! Experiments on the simulator: the evaluation of the POLE paper, and the classical election algorithms beside POLE.
//!
//! The simulator is in `pole-sim`, and the protocol itself in `election`, `zab` and `node`: the lab runs that code, not a
//! copy of it.
//!
//! ```
//! use pole_lab::classical::{Case, Kind};
//!
//! // The bully algorithm after the death of the leader of four, which one process notices.
//! let outcome = Kind::Bully.run(&Case::leader_dead(4).suspected_by([0]));
//! assert_eq!(outcome.leader, Some(2), "the highest of those that live");
//! ```

pub mod classical;
pub mod paper;
pub mod player;
pub mod report;
pub mod story;
