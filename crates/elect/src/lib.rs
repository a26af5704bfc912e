//! Leader election by score over a store that is already there.
#![warn(missing_docs)]

#[cfg(feature = "contract")]
pub mod contract;
pub mod promises;
pub mod store;
pub mod stores;
pub mod url;
