//! Leader election by score over a store that is already there.
#![warn(missing_docs)]

pub mod admin;
mod candidate;
mod challenge;
pub mod clock;
#[cfg(feature = "contract")]
pub mod contract;
mod driver;
pub mod election;
mod guard;
mod observer;
pub mod promises;
pub mod rank;
pub mod record;
pub mod score;
#[cfg(feature = "sim")]
pub mod sim;
pub mod store;
pub mod stores;
mod timing;
mod token;
pub mod url;

pub use candidate::{Builder, CampaignError, Candidate, Change, Changes, InvalidScore};
pub use driver::Counters;
pub use election::{InvalidSettings, Strategy, YieldReason};
pub use guard::{Check, Guard};
pub use observer::{Observed, Observer};
pub use timing::{InvalidTiming, Timing};
pub use token::{Fence, Token};
