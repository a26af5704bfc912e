//! POLE's leader election: each server scores itself, and the ensemble elects the best score.
//!
//! Messages of peers, expired timers and link changes come in; messages to send, timers to arm and the elected leader
//! come out. The election is a crate of its own because services that replicate in another way can use it too. It does
//! not compute scores (`oracle`), define what a leader does (`zab`), or use sockets, clocks or random numbers.
//!
//! Suggested reading order: `message` (what is sent), `order` (which proposal is better), `ballot` (one round),
//! `electing` (when a round ends), `election` (rounds, leaders, late joiners). `examples/embed.rs` shows how to embed
//! it.
//!
//! Source: Becker, Junqueira, Serafini, "Leader Election for Replicated Services Using Application Scores" (2011).
#![no_std]
#![warn(missing_docs)]

extern crate alloc;

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
