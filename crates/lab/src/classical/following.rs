//! What comes right after an election by FLE or POLE: followers go to their leader, and it needs a majority of them.
//!
//! In: who was chosen; hails of followers. Out: hails, and whether to elect again.
//! Why: these two elect without a vote that binds. That only one leader *works* follows from what the service does next:
//! a process follows one leader, and a leader without a majority of followers gives up. (In `zab` this is discovery.)
//! Not here: epochs and histories (`zab`).

use std::collections::BTreeSet;

use super::{Acts, Timer, Word, majority};

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
}

impl Word for Hail {
    fn name(&self) -> &'static str {
        match self {
            Self::Follow => "Follow",
            Self::Welcome => "Welcome",
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
    pub(super) fn new(me: usize, n: usize, timeout: u64) -> Self {
        Self { me, n, timeout, followers: BTreeSet::new(), leader: None, established: false }
    }

    /// The election has ended.
    pub(super) fn chosen(&mut self, leader: usize, out: &mut Acts<Hail>) {
        self.leader = Some(leader);
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

    /// A new election has begun.
    pub(super) fn electing(&mut self, out: &mut Acts<Hail>) {
        (self.leader, self.established) = (None, false);
        self.followers.clear();
        out.cancel(GATHER);
    }

    pub(super) fn hailed(&mut self, from: usize, hail: &Hail, out: &mut Acts<Hail>) {
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
        }
    }

    fn gathers(&mut self, out: &mut Acts<Hail>) {
        if self.leader == Some(self.me) && self.followers.len() + 1 >= majority(self.n) {
            self.established = true;
            out.cancel(GATHER);
            // To those who are new; the others hear it again, which does no harm.
            out.send_all(self.followers.iter().copied(), Hail::Welcome);
        }
    }
}

/// If it runs out, the election has failed: no majority came, or no welcome.
pub(super) const GATHER: Timer = Timer("no majority follows", 0);
