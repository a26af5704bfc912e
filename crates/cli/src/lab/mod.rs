//! The commands of the lab: experiments in the simulator, and their reports.

mod compare;

pub(crate) use compare::run as compare;
