//! Formatting of server answers for people: aligned columns, units and sentences.
//!
//! What a server did not report is left out or shown as `?`.

mod election;
mod state;
mod what_if;

pub(crate) use election::{explain, why};
pub(crate) use state::{oracle, status, transferred};
pub(crate) use what_if::{what_if, what_if_alone};
