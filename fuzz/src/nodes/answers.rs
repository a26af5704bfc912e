//! The answers of a peer that keeps to the protocol, as leader or as follower.
//!
//! They bring the node into states in which deviations from the protocol are interesting.

use pole_election::{Message as Election, Propose, Vote};
use pole_node::Message;
use pole_types::{Epoch, ServerId, Zxid};
use pole_zab::{Entry, Hello, Message as Zab};

use super::choices::Choices;

impl Choices<'_> {
    /// The answers to a message of the node, in order.
    pub(super) fn answers(&mut self, message: &Message) -> Vec<Message> {
        match message {
            Message::Election(Election::Propose(propose)) => vec![self.elect(propose)],
            Message::Heartbeat { seq, .. } => {
                let ours = Message::Heartbeat { seq: *seq, members: Zxid::ZERO, report: Box::new(self.report()) };
                vec![Message::Echo { seq: *seq }, ours]
            }
            Message::Zab(message) => self.agree(message).into_iter().map(Message::Zab).collect(),
            Message::Forward { epoch, requests } => {
                let first = match self.view.standing.last_zxid {
                    last if last.epoch() < *epoch => Zxid::new(*epoch, 1),
                    last => Zxid::new(*epoch, last.counter().saturating_add(1)),
                };
                let at = |nth| Zxid::new(*epoch, first.counter().saturating_add(nth));
                let entries = (0..).zip(requests).map(|(nth, request)| {
                    let (zxid, origin) = (at(nth), request.origin);
                    Entry { zxid, origin, body: self.txn(zxid, origin) }
                });
                let entries = entries.collect();
                let (prev, committed) = (self.view.standing.last_zxid, self.view.committed);
                vec![Message::Zab(Zab::Propose { epoch: *epoch, prev, entries, committed, listeners: vec![] })]
            }
            Message::Touch { epoch, id, .. } => vec![Message::TouchDone { epoch: *epoch, id: *id }],
            Message::SyncAsk { epoch, through } => {
                vec![Message::SyncDone { epoch: *epoch, through: *through, zxid: self.view.committed }]
            }
            Message::Election(Election::Vote(_))
            | Message::Election(Election::Ask)
            | Message::Members { .. }
            | Message::Echo { .. }
            | Message::TouchDone { .. }
            | Message::SyncDone { .. }
            | Message::Remaining { .. }
            | Message::Behind { .. }
            | Message::TransferAsk { .. }
            | Message::LeaderSought { .. }
            | Message::TransferRefused { .. } => Vec::new(),
        }
    }

    /// A proposal or a vote, for the node's choice, for ourselves or for another server.
    fn elect(&mut self, propose: &Propose) -> Message {
        let own = self.proposal(self.from);
        let round = propose.round;
        match self.byte() % 4 {
            0 => {
                let choice = propose.choice.clone();
                Message::Election(Election::Propose(Propose { round, own, choice, demoted: propose.demoted.clone() }))
            }
            1 => {
                let (choice, demoted) = (own.clone(), propose.demoted.clone());
                Message::Election(Election::Propose(Propose { round, own, choice, demoted }))
            }
            2 => Message::Election(Election::Vote(Vote { round, choice: own, established: None })),
            _ => {
                let leader = ServerId(u64::from(self.byte() % 3) + 1);
                let choice = self.proposal(leader);
                let established = Some(self.view.standing.accepted_epoch);
                Message::Election(Election::Vote(Vote { round, choice, established }))
            }
        }
    }

    fn agree(&mut self, message: &Zab) -> Vec<Zab> {
        let server = self.from;
        match message {
            Zab::Hello(hello) => vec![Zab::NewEpoch { epoch: Epoch(hello.accepted_epoch.0.saturating_add(1)) }],
            Zab::NewEpoch { epoch } => vec![Zab::AckEpoch(self.promise(*epoch))],
            Zab::AckEpoch(promise) => {
                let (epoch, prev) = (promise.epoch, promise.last_zxid);
                let before = Epoch(epoch.0.saturating_sub(1));
                let entries = self.entries(prev, before);
                let last = entries.last().map_or(prev, |entry| entry.zxid);
                vec![Zab::Entries { prev, entries }, Zab::NewLeader { epoch, last }]
            }
            Zab::NewLeader { epoch, last } => vec![Zab::AckLeader { epoch: *epoch, last: *last }],
            Zab::AckLeader { epoch, last } | Zab::TakenOver { epoch, last } => {
                vec![Zab::UpToDate { epoch: *epoch, committed: *last }]
            }
            Zab::Propose { epoch, prev, entries, .. } => {
                let zxid = entries.last().map_or(*prev, |entry| entry.zxid);
                vec![Zab::Ack { epoch: *epoch, zxid, server }]
            }
            Zab::Ack { epoch, zxid, .. } => vec![Zab::Commit { epoch: *epoch, zxid: *zxid }],
            Zab::Pull { .. } => {
                let prev = self.view.standing.last_zxid;
                let entries = self.entries(prev, prev.epoch());
                let last = entries.last().map_or(prev, |entry| entry.zxid);
                let snapshot = Zab::Snapshot(self.snapshot());
                match self.byte() % 2 {
                    0 => vec![Zab::Entries { prev, entries }, Zab::PullEnd { last }],
                    _ => vec![snapshot],
                }
            }
            Zab::Entries { .. } | Zab::Snapshot(_) => vec![Zab::Received],
            Zab::Ping { seq } => vec![Zab::Pong { seq: *seq, accepted: self.view.standing.accepted_epoch }],
            Zab::Handover { next, last, round, .. } => {
                let hello = Hello { round: *round, accepted_epoch: *next, taking_over: Some(*next) };
                vec![Zab::Hello(hello), Zab::TakenOver { epoch: *next, last: *last }]
            }
            Zab::Decline
            | Zab::RefuseEpoch { .. }
            | Zab::Truncate { .. }
            | Zab::Received
            | Zab::PullEnd { .. }
            | Zab::UpToDate { .. }
            | Zab::Commit { .. }
            | Zab::Pong { .. } => Vec::new(),
        }
    }
}
