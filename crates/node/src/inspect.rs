//! Read access for operators: measurements, scores under any oracle, queues.
//!
//! The protocol uses none of this. Reading changes no score and leaves the state of the hysteresis alone. Only
//! [`Node::record_probe`] changes something, because the value of an external probe is a measurement.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pole_election::Rank;
use pole_oracle::{Assessed, Gossip, InvalidProbe, Measurements, Moment, Oracle, Report, View};
use pole_types::{Epoch, ServerId, SessionId, Span, Time, Zxid};

use crate::leadership::Leadership;
use crate::node::Node;
use crate::{Config, Machine};

/// The lengths of a server's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Writes of our clients without a reply.
    pub held: usize,
    /// As leader: requests not yet proposed.
    pub unproposed: usize,
    /// As leader: proposals not yet committed.
    pub uncommitted: u64,
    /// Entries of the log in memory.
    pub log_entries: usize,
    /// Their size in bytes.
    pub log_bytes: usize,
}

impl<M: Machine> Node<M> {
    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn measurements(&self) -> &Measurements {
        &self.scoring.measurements
    }

    /// The position of the transaction that chose the oracle; zero if it is from the configuration file.
    pub fn oracle_version(&self) -> Zxid {
        self.scoring.version()
    }

    /// Whether the election link to a peer is open. Always true for this server itself.
    pub fn is_alive(&self, id: ServerId) -> bool {
        id == self.config.me || !self.scoring.suspected().contains(&id)
    }

    /// Records the value of an external probe: how good a leader this server would be, higher is better, valid for
    /// `ttl`.
    ///
    /// # Errors
    /// If the value is not a finite number, or too large.
    pub fn record_probe(&mut self, value: f64, ttl: Span, now: Time) -> Result<(), InvalidProbe> {
        self.scoring.measurements.record_probe(value, ttl, now)
    }

    /// The report that this server would send now.
    pub fn own_report(&self, now: Time) -> Report {
        let unknown = || Gossip::unknown(self.scoring.version(), self.oracle().fingerprint());
        self.scoring.measurements.report(now, self.zab.standing(), unknown(), unknown())
    }

    /// The data by which each live server would score itself: our own view, and those of the others as far as their
    /// reports allow; `None` for a server that never reported. For the situation after a crash of the leader, the
    /// leader is not included.
    pub fn views(&self, moment: Moment, now: Time) -> BTreeMap<ServerId, Option<View>> {
        let (leader, suspected) = (self.scoring.last_leader(), self.scoring.suspected());
        let measurements = &self.scoring.measurements;
        let own = self.own_report(now);
        let view = |id: ServerId| {
            if id == self.config.me {
                return Some(measurements.view(now, leader, suspected, moment, self.zab.standing()));
            }
            let (theirs, standing) = measurements.of_peer(id, own.clone(), now)?;
            Some(theirs.view(now, leader, suspected, moment, standing))
        };
        let is_candidate = |id: &ServerId| self.is_alive(*id) && !(moment == Moment::AfterCrash && leader == Some(*id));
        self.config.voters().iter().filter(is_candidate).map(|id| (id, view(id))).collect()
    }

    /// By how much earlier the clients of each follower are answered under the present leader because acknowledgements
    /// are sent to it directly. Followers for which that does not pay are not listed. On a follower, as far as the
    /// leader's reports allow.
    pub fn direct_savings(&self, now: Time) -> BTreeMap<ServerId, Span> {
        let Some((leader, _)) = self.serving() else { return BTreeMap::new() };
        let views = self.views(Moment::BeforeResignation, now);
        let Some(Some(view)) = views.get(&leader) else { return BTreeMap::new() };
        let saving = |id: &ServerId| (*id, pole_oracle::direct_saving(view, *id));
        view.serving().iter().map(saving).filter(|(_, saving)| *saving > Span::ZERO).collect()
    }

    /// How often direct acknowledgements showed a commit here before the leader announced it.
    pub fn committed_directly(&self) -> u64 {
        self.committed_directly
    }

    /// The epoch for which scores are computed.
    pub fn next_epoch(&self) -> u64 {
        self.election.round().epoch + 1
    }

    /// The score of a view under any oracle; `None` if too little was measured. For the oracle in force, the rank that
    /// the peer itself gossiped takes precedence if it is fresh.
    pub fn score(&self, oracle: &dyn Oracle, view: &View, now: Time) -> Option<Assessed> {
        let computed = oracle.assess(view, self.next_epoch());
        match self.gossiped_rank(view.me(), oracle, view.moment(), now) {
            Some(Rank::Known(score)) => {
                Some(Assessed { score: score.clone(), inputs: computed.map_or_else(Vec::new, |known| known.inputs) })
            }
            Some(Rank::Unknown) => None,
            None => computed,
        }
    }

    /// The rank that a peer gossiped, if `oracle` is the oracle in force.
    fn gossiped_rank(&self, id: ServerId, oracle: &dyn Oracle, moment: Moment, now: Time) -> Option<&Rank> {
        let gossip = self.scoring.measurements.gossip(id, moment, now)?;
        let in_force = (self.scoring.version(), oracle.fingerprint());
        (oracle.fingerprint() == self.oracle().fingerprint() && (gossip.version, gossip.fingerprint) == in_force)
            .then_some(&gossip.rank)
    }

    /// The leader under which clients are served now, and its epoch. Everything that depends on the present leader asks
    /// here or the agreement, which this reads.
    pub fn serving(&self) -> Option<(ServerId, Epoch)> {
        self.zab.leader().zip(self.zab.serving_epoch())
    }

    /// Whether a hand-over is being prepared, and if so whether writes already wait for it.
    pub fn hand_over(&self) -> Option<bool> {
        let leadership = self.leadership.as_ref()?;
        leadership.transfer.map(|transfer| transfer.frozen)
    }

    pub fn queues(&self) -> Queues {
        let (last, committed) = (self.zab.log().last(), self.zab.committed());
        let leads = self.zab.leader() == Some(self.config.me);
        let uncommitted = match last.epoch() == committed.epoch() {
            true => u64::from(last.counter().saturating_sub(committed.counter())),
            false => u64::from(last.counter()),
        };
        Queues {
            held: self.requests.len(),
            unproposed: self.leadership.as_ref().map_or(0, Leadership::unproposed),
            uncommitted: if leads { uncommitted } else { 0 },
            log_entries: self.zab.log().len(),
            log_bytes: self.zab.log().bytes(),
        }
    }

    /// On the leader: when each session expires unless its client is heard, as far as a hand-over would name them.
    pub fn session_expiries(&self, now: Time) -> Option<Vec<(SessionId, Span)>> {
        self.leadership.as_ref().map(|leadership| leadership.expiry.remaining(now))
    }

    /// How often this server reported that it applies more slowly than the leader proposes.
    pub fn lag_reports(&self) -> u64 {
        self.lag_reports
    }

    /// The number of clients' syncs that wait for the leader's answer.
    pub fn pending_syncs(&self) -> usize {
        self.pending_syncs.len()
    }
}
