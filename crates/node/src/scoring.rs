//! The score of this server: its oracle, its measurements, and the scores that other servers gossip.
//!
//! Inputs are heartbeats, their echoes and suspected failures. Outputs are assessments for elections and reports for
//! other servers. The meaning of the numbers is defined in `oracle`, their use in `election`.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;
use pole_election::{Assessment, Host, Input, Proposal, Rank, Standing};
use pole_oracle::{
    Assessed, Decision, Gossip, MeasureConfig, Measurements, Moment, Oracle, Report, ResignConfig, Resignation,
    Situation,
};
use pole_types::{Membership, ServerId, Span, Time, Zxid};

/// The oracle of this server and its inputs.
pub(crate) struct Scoring {
    pub(crate) measurements: Measurements,
    oracle: Box<dyn Oracle>,
    /// The position of the transaction that chose the oracle; zero if it is from the configuration file.
    version: Zxid,
    members: Membership,
    /// Peers whose election link is closed.
    suspected: BTreeSet<ServerId>,
    /// Servers whose election link is open, members or not.
    linked: BTreeSet<ServerId>,
    /// The last established leader. It may be gone by now: an election compares servers as its successors.
    last_leader: Option<ServerId>,
    /// Whether the next election follows a crash or a resignation.
    pub(crate) moment: Moment,
    resignation: Resignation,
    /// The heartbeats on open links whose echo is outstanding, oldest first.
    sent: BTreeMap<ServerId, VecDeque<(u64, Time)>>,
    /// When the last heartbeat was sent that each peer has answered over its present link.
    answered: BTreeMap<ServerId, Time>,
    heartbeats: u64,
}

impl Scoring {
    pub(crate) fn new(
        me: ServerId,
        members: Membership,
        measure: MeasureConfig,
        resign: ResignConfig,
        oracle: Box<dyn Oracle>,
    ) -> Self {
        Self {
            measurements: Measurements::new(me, members.clone(), measure),
            oracle,
            version: Zxid::ZERO,
            suspected: members.linked(me).collect(),
            members,
            linked: BTreeSet::new(),
            last_leader: None,
            moment: Moment::AfterCrash,
            resignation: Resignation::new(resign),
            sent: BTreeMap::new(),
            answered: BTreeMap::new(),
            heartbeats: 0,
        }
    }

    /// The oracle in force.
    pub(crate) fn oracle(&self) -> &dyn Oracle {
        self.oracle.as_ref()
    }

    /// Sets the oracle, chosen by the transaction at `version`.
    pub(crate) fn set_oracle(&mut self, oracle: Box<dyn Oracle>, version: Zxid) {
        self.oracle = oracle;
        self.version = version;
    }

    /// The position of the transaction that chose the oracle.
    pub(crate) fn version(&self) -> Zxid {
        self.version
    }

    /// Peers that are suspected to be dead: their election link is closed.
    pub(crate) fn suspected(&self) -> &BTreeSet<ServerId> {
        &self.suspected
    }

    /// Peers whose election link is open.
    pub(crate) fn reachable(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.members.linked(self.measurements.me()).filter(|peer| !self.suspected.contains(peer))
    }

    /// The last established leader, which may be gone by now.
    pub(crate) fn last_leader(&self) -> Option<ServerId> {
        self.last_leader
    }

    /// Sets the members after a change of them.
    pub(crate) fn set_members(&mut self, members: Membership) {
        let me = self.measurements.me();
        let new: Vec<_> = members.linked(me).filter(|id| !self.members.linked(me).any(|old| old == *id)).collect();
        // Peers that became members while their link is up were never counted as suspected.
        self.suspected.extend(new.into_iter().filter(|id| !self.linked.contains(id)));
        self.suspected.retain(|id| members.are_linked(me, *id));
        self.measurements.set_members(members.clone());
        self.members = members;
    }

    pub(crate) fn link_up(&mut self, peer: ServerId) {
        self.linked.insert(peer);
        self.suspected.remove(&peer);
    }

    pub(crate) fn link_down(&mut self, peer: ServerId) {
        self.linked.remove(&peer);
        self.suspected.insert(peer);
        self.sent.remove(&peer);
        self.answered.remove(&peer);
        self.measurements.forget(peer);
    }

    /// Sets the established leader. The next election is assumed to follow its crash.
    pub(crate) fn set_leader(&mut self, leader: ServerId) {
        self.last_leader = Some(leader);
        self.moment = Moment::AfterCrash;
    }

    /// This server is established as leader.
    pub(crate) fn became_leader(&mut self, now: Time) {
        self.resignation.became_leader(now);
    }

    /// Records that a hand-over has begun, here or elsewhere.
    pub(crate) fn record_resignation(&mut self, now: Time) {
        self.resignation.record_resignation(now);
    }

    /// Records a heartbeat to `peer` and returns its number.
    pub(crate) fn heartbeat(&mut self, peer: ServerId, now: Time) -> u64 {
        self.heartbeats += 1;
        if !self.suspected.contains(&peer) {
            let sent = self.sent.entry(peer).or_default();
            if sent.len() == UNANSWERED_MAX {
                sent.pop_front();
            }
            sent.push_back((self.heartbeats, now));
        }
        self.heartbeats
    }

    /// Records the answer to a heartbeat. Returns true if another heartbeat should follow at once: the round trip has
    /// changed, time limits depend on it, and the next regular heartbeat may be a second away.
    pub(crate) fn echoed(&mut self, peer: ServerId, seq: u64, now: Time) -> bool {
        let Some(sent) = self.sent.get_mut(&peer) else { return false };
        let Some(index) = sent.iter().position(|(sent, _)| *sent == seq) else { return false };
        let (_, at) = sent[index];
        // Messages on this channel may be lost: an older one that is not answered by now never will be.
        sent.drain(..=index);
        self.answered.insert(peer, at);
        let is_last = sent.is_empty();
        self.measurements.record_round_trip(peer, now - at, now);
        is_last && self.measurements.is_unsettled(peer)
    }

    /// The round trip to assume for a time limit: the slowest recent one.
    pub(crate) fn round_trip_now(&self, peer: ServerId, now: Time) -> Option<Span> {
        self.measurements.slowest_recent(peer, now)
    }

    /// Whether the peer has answered a heartbeat, sent at `since` or later, over its present link.
    pub(crate) fn has_answered_since(&self, peer: ServerId, since: Time) -> bool {
        self.answered.get(&peer).is_some_and(|sent| *sent >= since)
    }

    /// How long the oldest unanswered heartbeat to `peer` has been under way.
    pub(crate) fn unanswered_for(&self, peer: ServerId, now: Time) -> Option<Span> {
        self.sent.get(&peer).and_then(VecDeque::front).map(|(_, at)| now - *at)
    }

    /// The report for the other servers.
    pub(crate) fn report(&mut self, now: Time, standing: Standing, epoch: u64) -> Report {
        let after_crash = self.gossip(now, standing, Moment::AfterCrash, epoch);
        let before_resignation = self.gossip(now, standing, Moment::BeforeResignation, epoch);
        self.measurements.report(now, standing, after_crash, before_resignation)
    }

    fn gossip(&mut self, now: Time, standing: Standing, moment: Moment, epoch: u64) -> Gossip {
        let rank = self.assess(now, standing, moment, epoch).map_or(Rank::Unknown, |a| Rank::Known(a.score));
        Gossip { rank, version: self.version, fingerprint: self.oracle.fingerprint() }
    }

    /// The score of this server; `None` if it is unknown, or if this server may not lead.
    fn assess(&mut self, now: Time, standing: Standing, moment: Moment, epoch: u64) -> Option<Assessed> {
        if !self.members.voters().may_lead(self.measurements.me()) {
            return None;
        }
        let view = self.measurements.view(now, self.last_leader, &self.suspected, moment, standing);
        self.measurements.assess(self.oracle.as_ref(), &view, epoch)
    }

    /// The servers that could take over from this leader: those that reach all `followers`, then the others, each by the
    /// ranks that they gossip, best first.
    pub(crate) fn successors(&self, now: Time, followers: &BTreeSet<ServerId>) -> Vec<ServerId> {
        let mut ranked: Vec<_> = self.candidates(now).into_iter().collect();
        let key = |id: &ServerId, rank: &Rank| (!self.reaches(*id, followers), rank.clone(), Reverse(*id));
        ranked.sort_by_cached_key(|(id, rank)| key(id, rank));
        ranked.into_iter().map(|(id, _)| id).collect()
    }

    fn candidates(&self, now: Time) -> BTreeMap<ServerId, Rank> {
        self.measurements.candidates(now, self.version, self.oracle.fingerprint(), &self.suspected)
    }

    /// Whether `peer` has reported a round trip to each of the others.
    pub(crate) fn reaches(&self, peer: ServerId, others: &BTreeSet<ServerId>) -> bool {
        let Some((report, _)) = self.measurements.last_report(peer) else { return false };
        others.iter().all(|other| *other == peer || report.round_trips.contains_key(other))
    }

    /// The followers whose clients gain from direct acknowledgements while this server leads.
    pub(crate) fn listeners(&self, now: Time, standing: Standing) -> BTreeSet<ServerId> {
        let view = self.measurements.view(now, self.last_leader, &self.suspected, Moment::BeforeResignation, standing);
        view.serving().iter().copied().filter(|id| pole_oracle::direct_saving(&view, *id) > Span::ZERO).collect()
    }

    /// Decides whether this leader should resign, and in favour of which server.
    pub(crate) fn consider_resignation(
        &mut self,
        now: Time,
        followers: &BTreeSet<ServerId>,
        standing: Standing,
        epoch: u64,
        pause: Span,
    ) -> Decision {
        let own = self.gossip(now, standing, Moment::BeforeResignation, epoch).rank;
        let mut candidates = self.candidates(now);
        // No score is worth leaving a follower without a leader.
        candidates.retain(|id, _| self.reaches(*id, followers));
        let view = self.measurements.view(now, self.last_leader, &self.suspected, Moment::BeforeResignation, standing);
        let rate_milli = view.rates_milli().values().sum();
        let oracle = self.oracle.as_ref();
        self.resignation.consider(now, &Situation { oracle, own: &own, candidates: &candidates, pause, rate_milli })
    }

    /// The proposal for `target` in a hand-over.
    pub(crate) fn proposal_of(&self, target: ServerId, now: Time) -> Proposal {
        let rank = self.measurements.gossip(target, Moment::BeforeResignation, now).map(|gossip| gossip.rank.clone());
        let standing = self.measurements.last_report(target).map(|(report, _)| report.standing).unwrap_or_default();
        Proposal {
            id: target,
            rank: rank.unwrap_or(Rank::Unknown),
            version: self.version,
            fingerprint: self.oracle.fingerprint(),
            standing,
            inputs: Vec::new(),
        }
    }

    /// The slowest round trip between two voters considered alive, from our measurements and the reports of others.
    /// Elections on different servers may end that far apart.
    pub(crate) fn slowest_round_trip(&self, now: Time) -> Option<Span> {
        let voters = self.members.voters();
        let live = |peer: &ServerId| !self.suspected.contains(peer);
        let theirs = |peer| {
            let round_trips = self.measurements.last_report(peer).map(|(report, _)| &report.round_trips);
            let between_voters = |id: &ServerId| voters.contains(*id) && live(id);
            round_trips
                .into_iter()
                .flatten()
                .filter(|(id, _)| between_voters(id))
                .map(|(_, round_trip)| *round_trip)
                .max()
        };
        let peers = voters.peers(self.measurements.me()).filter(live);
        peers.filter_map(|peer| self.round_trip_now(peer, now).max(theirs(peer))).max()
    }

    /// How long a chosen leader may take to gather its quorum: three round trips to the slowest member of the nearest
    /// quorum, and four times the 99th percentile of fsync on the slowest disk. The latter is capped at `fsync_max`, so
    /// that a disk that once hung for long does not delay the whole ensemble. `None` while too few round trips are
    /// known.
    pub(crate) fn time_to_gather(&self, now: Time, fsync_max: Span) -> Option<Span> {
        let me = self.measurements.me();
        let slowest = self.quorum_round_trip(now)?;
        let reported = self.members.voters().peers(me).filter_map(|peer| self.measurements.last_report(peer));
        let fsync = reported.map(|(report, _)| report.fsync_p99).max().unwrap_or_default();
        let fsync = fsync.max(self.measurements.fsync_p99()).min(fsync_max);
        Some(slowest.saturating_mul(3).saturating_add(fsync.saturating_mul(4)))
    }

    /// The round trip to the slowest member of the nearest quorum; `None` while too few are known.
    pub(crate) fn quorum_round_trip(&self, now: Time) -> Option<Span> {
        let me = self.measurements.me();
        let voters = self.members.voters();
        let round_trips = voters.peers(me).filter_map(|peer| Some((peer, self.round_trip_now(peer, now)?)));
        voters.quorum_value(round_trips.chain([(me, Span::ZERO)]))
    }
}

/// The maximum number of unanswered heartbeats to one peer. With the shortest period (10 ms) they cover more than half
/// a second; on a slower path only the later ones are measured.
const UNANSWERED_MAX: usize = 64;

/// The [`Host`] of the election at one point in time.
pub(crate) struct ElectionHost<'a> {
    pub(crate) scoring: &'a mut Scoring,
    pub(crate) now: Time,
    pub(crate) standing: Standing,
    /// When this election began.
    pub(crate) since: Time,
}

impl Host for ElectionHost<'_> {
    fn assess(&mut self, epoch: u64) -> Option<Assessment> {
        let moment = self.scoring.moment;
        let assessed = self.scoring.assess(self.now, self.standing, moment, epoch)?;
        Some(Assessment {
            rank: Rank::Known(assessed.score),
            version: self.scoring.version,
            fingerprint: self.scoring.oracle.fingerprint(),
            inputs: assessed.inputs.into_iter().map(|(name, value)| Input { name, value }).collect(),
        })
    }

    fn standing(&self) -> Standing {
        self.standing
    }

    fn round_trip(&self, peer: ServerId) -> Option<Span> {
        let measured = self.scoring.measurements.round_trip(peer, self.now)?;
        self.scoring.round_trip_now(peer, self.now).max(Some(measured))
    }

    fn ranks_below(&self, peer: ServerId, choice: &Proposal) -> bool {
        let oracle = self.scoring.oracle.as_ref();
        let Some(gossip) = self.scoring.measurements.gossip(peer, self.scoring.moment, self.now) else { return false };
        let same = (gossip.version, gossip.fingerprint) == (choice.version, choice.fingerprint);
        match (&gossip.rank, &choice.rank) {
            (Rank::Known(theirs), Rank::Known(best)) => {
                same && oracle.gossip_decides() && oracle.clearly_worse(theirs, best)
            }
            (Rank::Unknown, _) | (_, Rank::Unknown) => false,
        }
    }

    fn is_recent(&self, peer: ServerId) -> bool {
        // The channel keeps the order of messages, and a new connection begins anew (`link_down`).
        self.scoring.has_answered_since(peer, self.since)
    }

    fn validate(&self, proposal: &Proposal) -> Result<(), String> {
        match &proposal.rank {
            // The score of another oracle cannot be validated here. The order never compares the two by value.
            Rank::Known(score) if proposal.fingerprint == self.scoring.oracle.fingerprint() => {
                self.scoring.oracle.validate(score).map_err(|error| error.to_string())
            }
            Rank::Known(_) | Rank::Unknown => Ok(()),
        }
    }
}
