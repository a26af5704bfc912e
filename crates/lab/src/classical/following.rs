//! What comes right after an election by FLE or POLE: followers connect to their leader, which needs a majority of
//! them.
//!
//! These two elect without binding votes. That only one leader is *effective* follows from what the service does
//! next: a process follows one leader, and a leader without a majority of followers gives up. In `zab` this is
//! discovery; epochs and histories are only there.

use std::collections::BTreeSet;
use std::mem;

use super::{Actions, AlgorithmMessage, ProcessConfig, Timer, majority, others};

/// The relation of a process to its leader.
#[derive(Clone, Debug)]
pub(super) struct Following {
    me: usize,
    n: usize,
    timeout: u64,
    /// Our followers. Some may arrive before we know that we lead.
    followers: BTreeSet<usize>,
    leader: Option<usize>,
    /// Whether, as far as we know, a majority follows the leader.
    established: bool,
}

#[derive(Clone, Debug)]
pub(super) enum FollowMessage {
    /// The sender follows the receiver.
    Follow,
    /// The leader has a majority.
    Welcome,
    /// The sender starts an election and no longer follows or leads the receiver.
    Leave,
}

impl AlgorithmMessage for FollowMessage {
    fn name(&self) -> &'static str {
        match self {
            Self::Follow => "Follow",
            Self::Welcome => "Welcome",
            Self::Leave => "Leave",
        }
    }

    fn label(&self) -> String {
        self.name().to_owned()
    }

    fn is_upkeep(&self) -> bool {
        true
    }
}

impl Following {
    pub(super) fn new(config: &ProcessConfig) -> Self {
        let (me, n) = (config.me, config.n);
        let followers = if config.leader == Some(me) { others(me, n).collect() } else { BTreeSet::new() };
        let established = config.leader.is_some();
        Self { me, n, timeout: config.timeout, followers, leader: config.leader, established }
    }

    /// The election has ended with this leader.
    pub(super) fn elected(&mut self, leader: usize, out: &mut Actions<FollowMessage>) {
        (self.leader, self.established) = (Some(leader), false);
        out.arm(GATHER, 3 * self.timeout);
        if leader == self.me {
            self.check_majority(out);
        } else {
            out.send(leader, FollowMessage::Follow);
        }
    }

    pub(super) fn is_established(&self) -> bool {
        self.established
    }

    /// A new election has started: notifies our leader or followers, as a closing connection would.
    pub(super) fn election_started(&mut self, out: &mut Actions<FollowMessage>) {
        let followers = mem::take(&mut self.followers);
        match self.leader.take() {
            Some(leader) if leader == self.me => out.send_all(followers, FollowMessage::Leave),
            Some(leader) => out.send(leader, FollowMessage::Leave),
            None => {}
        }
        self.established = false;
        out.cancel(GATHER);
    }

    /// Handles a message. Returns false if the leader is lost and an election is needed.
    pub(super) fn receive(&mut self, from: usize, message: &FollowMessage, out: &mut Actions<FollowMessage>) -> bool {
        match message {
            FollowMessage::Follow => {
                self.followers.insert(from);
                self.check_majority(out);
            }
            FollowMessage::Welcome => {
                if self.leader == Some(from) {
                    self.established = true;
                    out.cancel(GATHER);
                }
            }
            FollowMessage::Leave => {
                self.followers.remove(&from);
                let is_lost = self.leader == Some(self.me) && self.established && !self.has_majority();
                return self.leader != Some(from) && !is_lost;
            }
        }
        true
    }

    fn check_majority(&mut self, out: &mut Actions<FollowMessage>) {
        if self.leader == Some(self.me) && self.has_majority() {
            self.established = true;
            out.cancel(GATHER);
            // Meant for new followers; a duplicate to the others is harmless.
            out.send_all(self.followers.iter().copied(), FollowMessage::Welcome);
        }
    }

    fn has_majority(&self) -> bool {
        self.followers.len() + 1 >= majority(self.n)
    }
}

/// When it expires, the election has failed: no majority arrived, or no welcome.
pub(super) const GATHER: Timer = Timer("no majority follows", 0);
