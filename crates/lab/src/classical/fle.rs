//! Fast leader election of ZooKeeper: all tell all whom they vote for, until a majority names the same.
//!
//! In: notifications, suspicions. Out: notifications, and after a final wait the leader.
//! The order of votes is (epoch, zxid, id); the attribute stands for epoch and zxid.
//! Why it ends: votes climb one order. Why safe: see `following`.
//! Count, N processes, M = N - 1 of them alive and in the know at once, each notification to N - 1 others. Best: the best
//! vote arrives first everywhere: M first votes, M - 1 second ones: (2M - 1)(N - 1). Worst: they arrive from the worst to
//! the best, and process i changes its vote M - 1 - i times: M(M + 1)/2 votes in all, times N - 1: N(N - 1)^2/2.
//! Delays: first vote, second vote, final wait = 3.
//! Source: Medeiros 2012, and the behaviour of Apache ZooKeeper 3.8.

use std::collections::BTreeMap;

use super::following::{Following, GATHER, Hail};
use super::{Acts, Algorithm, Event, Setting, Timer, Word, majority, others};

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Fle {
    me: usize,
    n: usize,
    timeout: u64,
    own: Vote,
    suspected: Vec<bool>,
    round: u64,
    vote: Vote,
    stage: Stage,
    following: Following,
}

/// A higher attribute is better, then a higher id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Vote {
    attribute: u64,
    id: usize,
}

#[derive(Clone, Debug)]
enum Stage {
    Looking {
        /// The votes of this round.
        votes: BTreeMap<usize, Vote>,
        /// The leaders of those who do not look, and the rounds in which they were elected.
        settled: BTreeMap<usize, (usize, u64)>,
        /// A majority has our vote: the final wait runs.
        waiting: bool,
    },
    Settled,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    Notification { round: u64, vote: Vote, looking: bool },
    Hail(Hail),
}

impl Word for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Notification { .. } => "Notification",
            Self::Hail(hail) => hail.name(),
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Notification { round, vote, looking: true } => format!("Vote {} r{round}", vote.id),
            Self::Notification { round, vote, looking: false } => format!("Leader {} r{round}", vote.id),
            Self::Hail(hail) => hail.label(),
        }
    }

    fn is_upkeep(&self) -> bool {
        matches!(self, Self::Hail(_))
    }
}

impl Algorithm for Fle {
    type Message = Message;

    fn new(setting: &Setting) -> Self {
        let own = Vote { attribute: setting.attribute, id: setting.me };
        let looking = Stage::Looking { votes: BTreeMap::new(), settled: BTreeMap::new(), waiting: false };
        Self {
            me: setting.me,
            n: setting.n,
            timeout: setting.timeout,
            own,
            suspected: vec![false; setting.n],
            round: u64::from(setting.leader.is_some()),
            vote: setting.leader.map_or(own, |id| Vote { attribute: setting.attribute, id }),
            stage: if setting.leader.is_some() { Stage::Settled } else { looking },
            following: Following::new(setting),
        }
    }

    fn reborn(&self, setting: &Setting) -> Self {
        Self::new(setting)
    }

    fn step(&mut self, event: Event<Message>, out: &mut Acts<Message>) {
        match event {
            Event::Start => {}
            Event::Elect => self.looks(out),
            Event::Suspects(other) => {
                self.suspected[other] = true;
                let leads = self.leads().is_some();
                let trusted = self.suspected.iter().filter(|is| !**is).count();
                let is_lost = self.believes() == Some(other) || (leads && trusted < majority(self.n));
                if is_lost {
                    self.looks(out);
                }
            }
            Event::Trusts(other) => {
                self.suspected[other] = false;
                if matches!(self.stage, Stage::Looking { .. }) {
                    out.send(other, self.notification());
                }
            }
            Event::Received { from, message: Message::Hail(hail) } => {
                if !self.follows(out, |following, out| following.hailed(from, &hail, out)) {
                    self.looks(out);
                }
            }
            Event::Received { from, message: Message::Notification { round, vote, looking } } => match &self.stage {
                Stage::Settled if looking => out.send(from, self.notification()),
                Stage::Settled => {}
                Stage::Looking { .. } if looking => self.hears(from, round, vote, out),
                Stage::Looking { .. } => self.hears_of_leader(from, round, vote, out),
            },
            Event::Expired(timer) if timer == FINAL => self.settles(self.vote.id, out),
            Event::Expired(timer) if timer == GATHER => self.looks(out),
            Event::Expired(_) => {
                if matches!(self.stage, Stage::Looking { .. }) {
                    self.tells_all(out);
                    out.arm(RETRY, 2 * self.timeout);
                }
            }
        }
    }

    fn leads(&self) -> Option<u64> {
        (self.believes() == Some(self.me)).then_some(self.round)
    }

    fn believes(&self) -> Option<usize> {
        matches!(self.stage, Stage::Settled).then_some(self.vote.id)
    }

    /// A process takes part in what its own leader does, and in nothing else.
    fn accepts(&self, leader: usize, _: u64) -> bool {
        self.believes() == Some(leader)
    }
}

impl Fle {
    fn looks(&mut self, out: &mut Acts<Message>) {
        self.follows(out, Following::electing);
        out.cancel(FINAL);
        self.round += 1;
        self.vote = self.own;
        self.stage = Stage::Looking { votes: BTreeMap::new(), settled: BTreeMap::new(), waiting: false };
        self.tells_all(out);
        out.arm(RETRY, 2 * self.timeout);
    }

    fn hears(&mut self, from: usize, round: u64, vote: Vote, out: &mut Acts<Message>) {
        if round < self.round {
            return out.send(from, self.notification());
        }
        let Stage::Looking { votes, .. } = &mut self.stage else { return };
        let better = if round > self.round {
            votes.clear();
            self.round = round;
            Some(vote.max(self.own))
        } else {
            Some(vote).filter(|vote| *vote > self.vote)
        };
        votes.insert(from, vote);
        if let Some(better) = better {
            self.prefers(better, out);
        }
        self.counts(out);
    }

    /// From a process that has a leader.
    fn hears_of_leader(&mut self, from: usize, round: u64, vote: Vote, out: &mut Acts<Message>) {
        let Stage::Looking { votes, settled, .. } = &mut self.stage else { return };
        settled.insert(from, (vote.id, round));
        let named = settled.values().filter(|(leader, _)| *leader == vote.id).count();
        // Its own word among them, or a dead leader would be followed again.
        let confirmed = settled.get(&vote.id).is_some_and(|(leader, _)| *leader == vote.id);
        if named >= majority(self.n) && confirmed && !self.suspected[vote.id] {
            self.round = round;
            self.vote = vote;
            return self.settles(vote.id, out);
        }
        if round == self.round && !self.suspected[vote.id] {
            votes.insert(from, vote);
            if vote > self.vote {
                self.prefers(vote, out);
            }
            self.counts(out);
        }
    }

    fn prefers(&mut self, vote: Vote, out: &mut Acts<Message>) {
        self.vote = vote;
        if let Stage::Looking { waiting, .. } = &mut self.stage {
            *waiting = false;
            out.cancel(FINAL);
        }
        self.tells_all(out);
    }

    /// A majority has our vote: wait whether a better one comes.
    fn counts(&mut self, out: &mut Acts<Message>) {
        let Stage::Looking { votes, waiting, .. } = &mut self.stage else { return };
        let same = votes.values().filter(|vote| **vote == self.vote).count() + 1;
        if same >= majority(self.n) && !*waiting {
            *waiting = true;
            out.arm(FINAL, self.timeout);
        }
    }

    fn settles(&mut self, leader: usize, out: &mut Acts<Message>) {
        self.stage = Stage::Settled;
        out.cancel(FINAL);
        out.cancel(RETRY);
        self.follows(out, |following, out| following.chosen(leader, out));
    }

    fn tells_all(&self, out: &mut Acts<Message>) {
        out.send_all(others(self.me, self.n), self.notification());
    }

    fn notification(&self) -> Message {
        let looking = matches!(self.stage, Stage::Looking { .. });
        Message::Notification { round: self.round, vote: self.vote, looking }
    }

    fn follows<T>(&mut self, out: &mut Acts<Message>, act: impl FnOnce(&mut Following, &mut Acts<Hail>) -> T) -> T {
        let mut acts = Acts::new();
        let answer = act(&mut self.following, &mut acts);
        out.extend(acts, Message::Hail);
        answer
    }
}

const FINAL: Timer = Timer("no better vote", 0);
const RETRY: Timer = Timer("tell again", 0);
