//! What comes right after an election by FLE or POLE: followers go to their leader, and it needs a majority of them.
//!
//! In: who was chosen; hails of followers. Out: hails, and whether to elect again.
//! Why: these two elect without a vote that binds. That only one leader *works* follows from what the service does next:
//! a process follows one leader, and a leader without a majority of followers gives up. (In `zab` this is discovery.)
//! Not here: epochs and histories (`zab`).

use std::collections::BTreeSet;
use std::mem;

use super::{Acts, Setting, Timer, Word, majority, others};

/// Where a process stands with its leader.
#[derive(Clone, Debug)]
pub(super) struct Following {
    me: usize,
    n: usize,
    timeout: u64,
    /// Who follows us; some may come before we know that we lead.
    followers: BTreeSet<usize>,
    leader: Option<usize>,
    /// A majority follows the leader, as far as we know.
    established: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Hail {
    /// You are my leader.
    Follow,
    /// And I have a majority.
    Welcome,
    /// I elect: you are not my leader any more, or I am not yours.
    Leave,
}

impl Word for Hail {
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
    pub(super) fn new(setting: &Setting) -> Self {
        let (me, n) = (setting.me, setting.n);
        let followers = if setting.leader == Some(me) { others(me, n).collect() } else { BTreeSet::new() };
        let established = setting.leader.is_some();
        Self { me, n, timeout: setting.timeout, followers, leader: setting.leader, established }
    }

    /// The election has ended.
    pub(super) fn chosen(&mut self, leader: usize, out: &mut Acts<Hail>) {
        (self.leader, self.established) = (Some(leader), false);
        out.arm(GATHER, 3 * self.timeout);
        if leader == self.me {
            self.gathers(out);
        } else {
            out.send(leader, Hail::Follow);
        }
    }

    pub(super) fn is_established(&self) -> bool {
        self.established
    }

    /// A new election has begun: those who worked with us are told, as by a connection that closes.
    pub(super) fn electing(&mut self, out: &mut Acts<Hail>) {
        let followers = mem::take(&mut self.followers);
        match self.leader.take() {
            Some(leader) if leader == self.me => out.send_all(followers, Hail::Leave),
            Some(leader) => out.send(leader, Hail::Leave),
            None => {}
        }
        self.established = false;
        out.cancel(GATHER);
    }

    /// Says whether there is a leader still.
    pub(super) fn hailed(&mut self, from: usize, hail: &Hail, out: &mut Acts<Hail>) -> bool {
        match hail {
            Hail::Follow => {
                self.followers.insert(from);
                self.gathers(out);
            }
            Hail::Welcome => {
                if self.leader == Some(from) {
                    self.established = true;
                    out.cancel(GATHER);
                }
            }
            Hail::Leave => {
                self.followers.remove(&from);
                let is_lost = self.leader == Some(self.me) && self.established && !self.has_majority();
                return self.leader != Some(from) && !is_lost;
            }
        }
        true
    }

    fn gathers(&mut self, out: &mut Acts<Hail>) {
        if self.leader == Some(self.me) && self.has_majority() {
            self.established = true;
            out.cancel(GATHER);
            // To those who are new; the others hear it again, which does no harm.
            out.send_all(self.followers.iter().copied(), Hail::Welcome);
        }
    }

    fn has_majority(&self) -> bool {
        self.followers.len() + 1 >= majority(self.n)
    }
}

/// If it runs out, the election has failed: no majority came, or no welcome.
pub(super) const GATHER: Timer = Timer("no majority follows", 0);
