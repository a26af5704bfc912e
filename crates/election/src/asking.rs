//! State of an observer without a leader: it asks the voters whom they follow, and takes no part in their election.
//!
//! Votes of voters come in; questions go out, again and again until enough votes have arrived. The voters also announce
//! an established leader to observers on their own, so that an observer need not wait for its next retry.

use alloc::vec::Vec;

use crate::electing::Campaign;
use crate::trace::Step;
use crate::{Config, Message, Output, Round, Timer, timing};

/// State of an observer that looks for the leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Asking {
    pub(crate) campaign: Campaign,
    /// Retries, counted up to [`timing::DOUBLINGS_MAX`].
    attempts: u32,
}

impl Asking {
    /// Begins to ask.
    pub(crate) fn new(campaign: Campaign, config: &Config, round: Round, out: &mut Vec<Output>) -> Self {
        let asking = Self { campaign, attempts: 0 };
        asking.send_to_all(config, round, out);
        asking
    }

    pub(crate) fn retry(&mut self, config: &Config, round: Round, out: &mut Vec<Output>) {
        self.attempts = (self.attempts + 1).min(timing::DOUBLINGS_MAX);
        self.campaign.trace.push(Step::Retried);
        self.send_to_all(config, round, out);
    }

    /// Whether questions were sent again because too few voters have answered.
    pub(crate) fn lacks_quorum(&self) -> bool {
        self.attempts > 0
    }

    fn send_to_all(&self, config: &Config, round: Round, out: &mut Vec<Output>) {
        out.extend(config.voters.iter().map(|to| Output::Send { to, message: Message::Ask }));
        out.push(Output::Arm { timer: Timer::Retry, after: timing::retry(config, round, self.attempts) });
    }
}
