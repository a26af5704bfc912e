//! The commands of the lab: experiments in the simulator, and their reports.

mod paper;
mod progress;

pub(crate) use paper::run as paper;
