//! Answers of servers, as people read them.
//!
//! In: the shapes of the admin port. Out: text with aligned columns, units, and sentences.
//! Holds: what a server did not say is left out or shown as `?`, never invented.

mod election;
mod state;
mod values;

pub(crate) use election::{explain, why};
pub(crate) use state::{oracle, status, transferred};
