//! Ids, epochs, zxids, time and voters: the types that all crates of Pole share.
//!
#![doc = include_str!("../README.md")]
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod ids;
mod time;
mod voters;
mod zxid;

pub use ids::{Cxid, ServerId, SessionId};
pub use time::{Span, Time};
pub use voters::Voters;
pub use zxid::{Epoch, Zxid};
