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

mod ballot;
mod electing;
mod election;
mod ids;
mod incumbent;
mod interface;
mod links;
mod message;
mod order;
mod record;
mod score;
mod timing;
mod trail;

pub use election::{DEMOTION_ROUNDS, Election};
pub use ids::{Epoch, Round, ServerId, Span, Standing, Voters, Zxid};
pub use interface::{Assessment, Cause, Config, Elected, Host, Output, Timer};
pub use message::{
    Error, INPUT_NAME_MAX, INPUTS_MAX, Input, Message, Proposal, Propose, ROUND_MAX, Vote, check_choice,
};
pub use order::{Component, FALLBACK_FROM, Order, is_fallback};
pub use record::{DecidedBy, Margin, Ranked, Record};
pub use score::{Rank, Score};
pub use trail::{Because, STEPS_MAX, Step};
