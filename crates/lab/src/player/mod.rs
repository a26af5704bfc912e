//! Recordings of the simulator and of the classical algorithms, as diagrams and pages.

mod diagram;
mod page;

pub use diagram::Player;
