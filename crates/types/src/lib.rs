//! Ids, epochs, zxids, time and voters: the types that all crates of Pole share.
//!
#![doc = include_str!("../README.md")]
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod ids;
mod membership;
mod time;
mod voters;
mod zxid;

pub use ids::{Cxid, ServerId, SessionId};
pub use membership::Membership;
pub use time::{Span, Time};
pub use voters::{Voter, Voters};
pub use zxid::{Epoch, Zxid};
