//! The simulator: an ensemble of nodes with its network, disks, clients and faults, on one virtual clock.
//!
//! [`run`] takes a [`Setup`] and returns a [`Report`]. A run has two phases: a safety phase under faults, in which no
//! invariant may break, and a liveness phase without faults, in which the ensemble must recover within a bound.
//!
//! There is no thread, no wall clock and no unordered map inside, so the same setup gives the same run, byte for byte.
//!
//! ```
//! use pole_sim::{SECOND, Setup};
//!
//! // Three servers on a LAN, four clients, and no faults, for two virtual seconds.
//! let mut setup = Setup::lan(7, 3);
//! (setup.length, setup.clients) = (2 * SECOND, 4);
//! let report = pole_sim::run(setup.clone(), None);
//! assert_eq!(report.failure, None);
//! assert!(report.writes > 0);
//! assert_eq!(report.writes, pole_sim::run(setup, None).writes, "the same seed gives the same run");
//! ```
//!
//! ```text
//! world        the clock, the event queue, dispatch      hosts        processes: start, step, crash, timers
//! effects      executes what a step returns              background   transfers, log reads and restores
//! network      links between servers                     link_events  what happens on links
//! disk         disks                                     clock        clocks that drift and jump
//! workload     clients of the key-value machine          paced        clients of the paper's experiments
//! state        the machine: key-value or the tree        zk/          ZooKeeper clients of the tree
//! faults       what fails and when it ends               liveness     the liveness phase
//! controls     the API for benchmarks and tests          scripting    the API for scripts
//! preload      servers that start with a history         scripted_oracle   oracles with given scores
//! checker/     the invariants                            marks        which rare branches a run has hit
//! script/      scripts: commands and expected output     recording/   runs that can be stepped through
//! kv/          the key-value machine
//! ```

mod background;
mod checker;
mod clock;
mod controls;
mod disk;
mod effects;
mod faults;
mod hosts;
pub mod kv;
mod link_events;
mod liveness;
mod marks;
mod member_changes;
mod network;
mod paced;
mod preload;
mod queue;
pub mod recording;
mod report;
mod rng;
pub mod script;
mod scripted_oracle;
mod scripting;
mod setup;
mod state;
mod trace;
mod workload;
mod world;
mod zk;

pub(crate) use checker::{ClientOp, Response};
pub use disk::CrashPoint;
pub(crate) use disk::Survival;
pub use faults::FaultKind;
pub use marks::{Mark, Marks};
pub(crate) use network::Hold;
pub use paced::Sample;
pub use queue::Queue;
pub use report::Report;
pub use rng::Rng;
pub(crate) use scripted_oracle::ScriptedOracle;
pub(crate) use scripting::{DiskMode, DurableState, Observation, id};
pub use setup::Setup;
pub use trace::Sink;
pub(crate) use trace::disk_op;
pub(crate) use workload::ServerMessage;
pub use world::World;

/// A millisecond. Times in the simulator are plain counts of nanoseconds.
pub const MS: u64 = 1_000_000;
/// A second, in nanoseconds.
pub const SECOND: u64 = 1_000 * MS;

/// Runs both phases of a setup.
pub fn run(setup: Setup, sink: Option<Sink>) -> Report {
    let mut world = World::new(setup, sink);
    world.run_safety_phase();
    world.run_liveness_phase();
    world.into_report()
}
