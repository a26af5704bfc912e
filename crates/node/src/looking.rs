//! What an operator may look at: measurements, scores under any oracle, queues.
//!
//! In: nothing but questions. Out: values. Only [`Node::record_probe`] changes something, because a probe's number is a
//! measurement that comes by the same door.
//! Why apart: the protocol never asks any of this.
//! Holds: looking changes no score; the memory of the hysteresis is left alone.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pole_election::{Rank, ServerId, Span, Zxid};
use pole_oracle::{Assessed, Gossip, InvalidProbe, Measurements, Moment, Oracle, Report, Time, View};

use crate::node::Node;
use crate::{Config, Machine};

/// What waits inside a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Writes of our clients without an answer.
    pub held: usize,
    /// As leader: requests not yet proposed.
    pub unproposed: usize,
    /// As leader: proposals not yet committed.
    pub uncommitted: u64,
    /// Entries of the log in memory.
    pub log_entries: usize,
    /// Their bytes.
    pub log_bytes: usize,
}

impl<M: Machine> Node<M> {
    /// What it was told at its start.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What this server measured and heard.
    pub fn measurements(&self) -> &Measurements {
        &self.scoring.measurements
    }

    /// The position of the transaction that chose the oracle; zero: the configuration file.
    pub fn oracle_version(&self) -> Zxid {
        self.scoring.version()
    }

    /// Whether the election link to a peer is open; this server itself is alive.
    pub fn is_alive(&self, id: ServerId) -> bool {
        id == self.config.me || !self.scoring.suspected().contains(&id)
    }

    /// An external probe says how good a leader this server would be, higher is better, for the next `ttl`.
    ///
    /// # Errors
    /// Not a finite number, or too large.
    pub fn record_probe(&mut self, value: f64, ttl: Span, now: Time) -> Result<(), InvalidProbe> {
        self.scoring.measurements.record_probe(value, ttl, now)
    }

    /// What this server would report now.
    pub fn own_report(&self, now: Time) -> Report {
        let unknown = || Gossip::unknown(self.scoring.version(), self.oracle().fingerprint());
        self.scoring.measurements.report(now, self.zab.standing(), unknown(), unknown())
    }

    /// What each server that is alive would score itself by: our own view, and those of the others as far as their
    /// reports tell; nothing for one that never reported. After a crash of the leader, the leader is not among them.
    pub fn views(&self, moment: Moment, now: Time) -> BTreeMap<ServerId, Option<View>> {
        let (leader, suspected) = (self.scoring.leader(), self.scoring.suspected());
        let measurements = &self.scoring.measurements;
        let own = self.own_report(now);
        let view = |id: ServerId| {
            if id == self.config.me {
                return Some(measurements.view(now, leader, suspected, moment, self.zab.standing()));
            }
            let (theirs, standing) = measurements.of_peer(id, own.clone(), now)?;
            Some(theirs.view(now, leader, suspected, moment, standing))
        };
        let is_asked = |id: &ServerId| self.is_alive(*id) && !(moment == Moment::AfterCrash && leader == Some(*id));
        self.config.voters.iter().filter(is_asked).map(|id| (id, view(id))).collect()
    }

    /// How the server of a view would do under any oracle; nothing if it has not measured enough. Under the oracle in
    /// force a peer's own word counts, if it is fresh.
    pub fn score(&self, oracle: &dyn Oracle, view: &View, now: Time) -> Option<Assessed> {
        let computed = oracle.assess(view, self.election.round().epoch + 1);
        match self.own_word(view.me(), oracle, view.moment(), now) {
            Some(Rank::Known(score)) => {
                Some(Assessed { score: score.clone(), inputs: computed.map_or_else(Vec::new, |known| known.inputs) })
            }
            Some(Rank::Unknown) => None,
            None => computed,
        }
    }

    /// What a peer says of itself, if it is asked about the oracle in force.
    fn own_word(&self, id: ServerId, oracle: &dyn Oracle, moment: Moment, now: Time) -> Option<&Rank> {
        let gossip = self.scoring.measurements.gossip(id, moment, now)?;
        let asked = (self.scoring.version(), oracle.fingerprint());
        (oracle.fingerprint() == self.oracle().fingerprint() && (gossip.version, gossip.fingerprint) == asked)
            .then_some(&gossip.rank)
    }

    /// Whether a hand-over is being prepared, and whether writes already wait for it.
    pub fn hand_over(&self) -> Option<bool> {
        self.transfer.map(|_| self.is_frozen())
    }

    /// What waits.
    pub fn queues(&self) -> Queues {
        let (last, committed) = (self.zab.log().last(), self.zab.committed());
        let leads = self.zab.leader() == Some(self.config.me);
        let uncommitted = match last.epoch() == committed.epoch() {
            true => u64::from(last.counter().saturating_sub(committed.counter())),
            false => u64::from(last.counter()),
        };
        Queues {
            held: self.requests.len(),
            unproposed: self.inbox.len(),
            uncommitted: if leads { uncommitted } else { 0 },
            log_entries: self.zab.log().len(),
            log_bytes: self.zab.log().bytes(),
        }
    }

    /// Syncs of clients that wait for the leader's word.
    pub fn pending_syncs(&self) -> usize {
        self.asked.len()
    }
}
