//! Voters that look for a leader and cannot reach ours, although one of its followers hears them.
//!
//! The links between servers need not be equal: server 1 may reach all others while {2, 3} and {4, 5} do not reach each
//! other. If 5 leads {1, 4, 5}, the clients of 2 and 3 wait, and server 1 could serve everybody. So a follower that
//! receives the proposal of another voter, and an answer to its heartbeat, tells its leader ([`Message::LeaderSought`]). A
//! leader that gets no answer from that voter hands over to the follower, provided that it reaches all who follow now.
//!
//! Each hand-over adds a follower and loses none, so two servers do not pass the leadership to each other and back. A
//! leader does not resign for a server that does not reach its followers, whatever the score of that server.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use pole_types::{Epoch, ServerId, Span, Time};

use crate::node::Node;
use crate::{Channel, Effect, Machine, Message, Note};

/// The voters that look for a leader, as followers told this leader.
#[derive(Debug, Default)]
pub(crate) struct Unreached {
    voters: BTreeMap<ServerId, Sought>,
}

#[derive(Debug)]
struct Sought {
    /// The first message about this voter.
    since: Time,
    /// When each follower last heard it.
    heard_by: BTreeMap<ServerId, Time>,
}

impl Unreached {
    /// Records that `by` has heard `voter`. Returns true if nobody told so before.
    fn record(&mut self, voter: ServerId, by: ServerId, now: Time) -> bool {
        let is_new = !self.voters.contains_key(&voter);
        let sought = self.voters.entry(voter).or_insert(Sought { since: now, heard_by: BTreeMap::new() });
        sought.heard_by.insert(by, now);
        is_new
    }

    pub(crate) fn forget(&mut self, voter: ServerId) {
        self.voters.remove(&voter);
    }

    /// Forgets the voters that have answered since, and those that no follower has heard for long.
    fn retain(&mut self, now: Time, has_answered: impl Fn(ServerId, Time) -> bool) {
        self.voters.retain(|voter, sought| {
            sought.heard_by.retain(|_, at| now - *at <= HEARD_LATELY);
            !sought.heard_by.is_empty() && !has_answered(*voter, sought.since)
        });
    }

    /// The voters that did not answer within their limit, and the followers that hear them.
    fn overdue(&self, now: Time, limit: impl Fn(ServerId) -> Span) -> Vec<(ServerId, BTreeSet<ServerId>)> {
        let overdue = self.voters.iter().filter(|(voter, sought)| now - sought.since >= limit(**voter));
        overdue.map(|(voter, sought)| (*voter, sought.heard_by.keys().copied().collect())).collect()
    }
}

impl<M: Machine> Node<M> {
    /// Another voter holds an election although we have a leader. Its answer to a heartbeat will show that it hears us,
    /// too. The leader sends one as well: with it the voter learns the leader's epoch no later than those of its followers,
    /// and does not take it for an outdated leader. A stranger is not probed: it can connect under ever new ids.
    pub(crate) fn probe_seeker(&mut self, voter: ServerId, out: &mut Vec<Effect>) {
        if self.serving().is_some() && self.config.voters().contains(voter) {
            self.probed_seekers.insert(voter);
            self.heartbeat(voter, out);
        }
    }

    /// Follower: a voter has answered a heartbeat. Tells the leader if it holds an election.
    pub(crate) fn report_seeker(&mut self, voter: ServerId, out: &mut Vec<Effect>) {
        if self.probed_seekers.remove(&voter)
            && let Some((leader, epoch)) = self.serving()
            && ![self.config.me, voter].contains(&leader)
        {
            let message = Message::LeaderSought { epoch, by: voter };
            out.push(Effect::Send { to: leader, channel: Channel::Quorum, message });
        }
    }

    /// Leader: a follower is linked with a voter that holds an election. If that voter is linked with us, too, its answer
    /// to a heartbeat shows that it can follow us.
    pub(crate) fn leader_sought(&mut self, from: ServerId, epoch: Epoch, by: ServerId, out: &mut Vec<Effect>) {
        let is_expected = self.zab.is_followed_by(from, epoch) && self.config.voters().contains(by);
        if !is_expected || by == self.config.me || self.followers().contains(&by) {
            return;
        }
        let now = self.now;
        if self.leadership.as_mut().is_some_and(|leadership| leadership.unreached.record(by, from, now)) {
            self.heartbeat(by, out);
        }
    }

    /// Leader: hands over to a follower that reaches all other followers and a voter that we do not reach.
    pub(crate) fn hand_over_for_unreached(&mut self, out: &mut Vec<Effect>) {
        let (scoring, followers, now) = (&self.scoring, self.followers(), self.now);
        let Some(leadership) = &mut self.leadership else { return };
        leadership.unreached.retain(now, |voter, since| scoring.has_answered_since(voter, since));
        if !self.config.resign.enabled || leadership.transfer.is_some() {
            return;
        }
        let limit = |voter| match scoring.suspected().contains(&voter) {
            true => RELINKED_WITHIN,
            false => {
                let round_trip = scoring.round_trip_now(voter, now).unwrap_or_default();
                self.config.election_timeout.max(round_trip.saturating_mul(3))
            }
        };
        let overdue = leadership.unreached.overdue(now, limit);
        if overdue.is_empty() {
            return;
        }
        let successors = scoring.successors(now, &followers);
        let found = overdue.iter().find_map(|(voter, heard_by)| {
            let is_better = |id: &&ServerId| heard_by.contains(id) && scoring.reaches(**id, &followers);
            Some((*voter, *successors.iter().find(is_better)?))
        });
        if let Some((voter, to)) = found {
            leadership.unreached.forget(voter);
            out.push(Effect::Note(Note::Unreached { voter, heard_by: to }));
            self.transfer(Some(to), None, out);
        }
    }
}

/// How long a voter whose link is closed may take until it is linked again. After a restart it may be linked with a
/// follower a few attempts earlier than with the leader.
const RELINKED_WITHIN: Span = Span::from_ms(1_000);

/// For how long it counts that a follower has heard a voter. A voter that looks for a leader proposes again every two
/// seconds at least.
const HEARD_LATELY: Span = Span::from_ms(5_000);
