//! The `pole lab` commands: experiments in the simulator, and their reports.

mod compare;
mod paper;
mod progress;
mod watch;

pub(crate) use compare::run as compare;
pub(crate) use paper::run as paper;
pub(crate) use progress::Bar;
pub(crate) use watch::run as watch;
