//! The simulator: an ensemble of nodes, its network, its disks, its clients and its misfortunes, on one virtual clock.
//!
//! In: a [`Setup`]. Out: a [`Report`]. A run is a safety phase under faults, in which nothing wrong may happen, then a
//! phase without faults, in which everything must heal within a bound.
//! Holds: no thread, no clock and no unordered map inside, so the same setup gives the same run, byte for byte.
//!
//! ```text
//! world      the clock, the queue, who gets what            hosts     processes: start, step, crash, timers
//! effects    what a step asks for                           wires     what arrives on links
//! network    links        disk  disks        clock  clocks  workload  clients, paced: an experiment's
//! state      the small state machine, or the service's tree zoo/      clients of the service
//! faults     what goes wrong, and when it is mended         healing   the liveness phase
//! controls   the hands of a script or a benchmark           past      servers that start with a history
//! judge/     what must never happen                         marks     which rare branches were met
//! stage      what scripts see and do                        opinion   oracles that say what a script wants
//! ```

mod background;
mod clock;
mod controls;
mod disk;
mod effects;
mod faults;
mod healing;
mod hosts;
mod judge;
mod marks;
mod network;
mod opinion;
mod paced;
mod past;
mod queue;
mod report;
mod setup;
mod stage;
mod state;
mod trace;
mod wires;
mod workload;
mod world;
mod zoo;

pub use disk::Point;
pub(crate) use disk::Survival;
pub use faults::FaultKind;
pub(crate) use judge::{Asked, Heard};
pub use marks::{Mark, Marks};
pub(crate) use network::Hold;
pub(crate) use opinion::Opinion;
pub use paced::Sample;
pub(crate) use queue::Queue;
pub use report::Report;
pub use setup::Setup;
pub(crate) use stage::{Mood, OnDisk, Sight, id};
pub use trace::Sink;
pub(crate) use trace::disk_op;
pub(crate) use workload::Told;
pub use world::World;

/// A millisecond in nanoseconds: times inside the simulator are plain counts of those.
pub const MS: u64 = 1_000_000;
/// A second in nanoseconds.
pub const SECOND: u64 = 1_000 * MS;

/// Runs a setup to its end.
pub fn run(setup: Setup, sink: Option<Sink>) -> Report {
    let mut world = World::new(setup, sink);
    world.run_safety_phase();
    world.run_healing_phase();
    world.into_report()
}
