//! Leader election by score over a store that is already there.
#![warn(missing_docs)]

mod challenge;
#[cfg(feature = "contract")]
pub mod contract;
pub mod election;
pub mod promises;
pub mod rank;
pub mod record;
pub mod score;
pub mod store;
pub mod stores;
mod timing;
mod token;
pub mod url;

pub use timing::{InvalidTiming, Timing};
pub use token::{Fence, Token};
