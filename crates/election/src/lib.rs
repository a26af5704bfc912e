//! POLE's election: each server scores itself, the ensemble elects the best score.
//!
//! In: messages of peers, expired timers, the state of links. Out: messages, timers to arm, the leader elected.
//! Why a crate of its own: the election is useful to services that replicate in another way than ours.
//! Not here: how a score is made (`oracle`), what a leader does (`zab`), sockets, clocks, random numbers.
//! Source: Becker, Junqueira, Serafini, "Leader Election for Replicated Services Using Application Scores" (2011).
//!
//! To read it: `message` (what travels), `order` (what is better), `ballot` (one round), `electing` (when it ends),
//! `election` (rounds, leaders, late joiners). To embed it: `examples/embed.rs`.
#![no_std]

extern crate alloc;

mod ids;
mod message;
mod order;
mod score;

pub use ids::{Epoch, Round, ServerId, Span, Standing, Voters, Zxid};
pub use message::{Error, INPUT_NAME_MAX, INPUTS_MAX, Input, Message, Proposal, Propose, ROUND_MAX, Vote};
pub use order::{Component, FALLBACK_FROM, Order, is_fallback};
pub use score::{Rank, Score};
