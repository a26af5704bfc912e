//! The types that all crates of Pole share: ids, epochs, transaction ids, time, voters.
//!
//! They are newtypes, so that an epoch is never mixed up with a round of the election, or a session with a request. They
//! have a total order and print as scripts write them. There is no protocol here: what a quorum decides is in
//! `election` and `zab`.
//!
//! ```
//! use pole_types::{Epoch, ServerId, Span, Time, Voters, Zxid};
//!
//! let last = Zxid::new(Epoch(3), 7);
//! assert_eq!(last.to_string(), "3.7");
//! assert!(last < Zxid::new(last.epoch().next(), 1), "a later epoch is later, whatever the counter");
//!
//! let voters = Voters::new([ServerId(1), ServerId(2), ServerId(3)]);
//! assert!(voters.is_quorum([ServerId(1), ServerId(3)]));
//!
//! assert_eq!(Time(5) + Span::from_us(1), Time(1_005));
//! ```
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
