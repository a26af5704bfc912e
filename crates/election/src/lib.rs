//! Leader election by application scores: each server scores itself, and the ensemble elects the best score.
//!
#![doc = include_str!("../README.md")]
//!
//! ## The code
//!
//! Suggested reading order: `message` (what is sent), `order` (which proposal is better), `ballot` (one round),
//! `electing` (when a round ends), `election` (rounds, leaders, late joiners). The interface for embedding is [`Host`]
//! and [`Output`].
//!
//! Invariants:
//! - The order of proposals is total, depends only on the messages, and is the same on every server.
//! - A server is elected only if a quorum, including the server that elects, holds that choice.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

mod asking;
mod ballot;
mod electing;
mod election;
mod incumbent;
mod interface;
mod links;
mod message;
mod order;
mod record;
mod round;
mod score;
mod timing;
mod trace;

pub use election::{DEMOTION_ROUNDS, Election};
pub use interface::{Assessment, Cause, Config, Elected, Host, Output, Timer};
pub use message::{
    Error, INPUT_NAME_MAX, INPUTS_MAX, Input, Message, Proposal, Propose, ROUND_MAX, Vote, check_choice,
};
pub use order::{Component, FALLBACK_FROM, Order, is_fallback};
pub use pole_types::{Epoch, ServerId, Span, Voters, Zxid};
pub use record::{DecidedBy, Margin, Ranked, Record};
pub use round::{Round, Standing};
pub use score::{Rank, Score};
pub use trace::{EndReason, STEPS_MAX, Step};
