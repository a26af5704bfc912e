//! One server under test: its election, a host with fixed answers, and helpers to feed events.

use std::collections::{BTreeMap, BTreeSet};

use pole_election::*;

/// A host with fixed answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct FixedHost {
    /// The score, or None for too few measurements.
    pub(crate) score: Option<i64>,
    pub(crate) version: Zxid,
    pub(crate) fingerprint: u64,
    pub(crate) standing: Standing,
    pub(crate) round_trips: BTreeMap<ServerId, Span>,
    /// Peers that rank below any choice according to gossip.
    pub(crate) below: BTreeSet<ServerId>,
    pub(crate) inputs: Vec<Input>,
    /// Whether scores of another oracle are invalid.
    pub(crate) strict: bool,
    /// The epochs for which `assess` was called.
    pub(crate) assessed_epochs: Vec<u64>,
}

impl FixedHost {
    pub(crate) fn scored(score: i64) -> Self {
        Self { score: Some(score), fingerprint: 1, ..Self::default() }
    }
}

impl Host for FixedHost {
    fn assess(&mut self, epoch: u64) -> Option<Assessment> {
        self.assessed_epochs.push(epoch);
        let rank = Rank::Known(Score::from(self.score?));
        let Self { version, fingerprint, ref inputs, .. } = *self;
        Some(Assessment { rank, version, fingerprint, inputs: inputs.clone() })
    }

    fn standing(&self) -> Standing {
        self.standing
    }

    fn round_trip(&self, peer: ServerId) -> Option<Span> {
        self.round_trips.get(&peer).copied()
    }

    fn ranks_below(&self, peer: ServerId, _: &Proposal) -> bool {
        self.below.contains(&peer)
    }

    fn validate(&self, proposal: &Proposal) -> Result<(), String> {
        match &proposal.rank {
            Rank::Known(score) if score.components()[0] < 0 => Err("negative".into()),
            Rank::Known(_) if self.strict && proposal.fingerprint != self.fingerprint => Err("another oracle's".into()),
            Rank::Known(_) | Rank::Unknown => Ok(()),
        }
    }
}

/// A server under test, with the output of its last step.
#[derive(Clone, Debug)]
pub(crate) struct TestServer {
    pub(crate) election: Election,
    pub(crate) host: FixedHost,
    pub(crate) out: Vec<Output>,
}

impl TestServer {
    /// Creates server `me` of `n` with this score (smaller is better).
    pub(crate) fn new(me: u64, n: u64, score: i64) -> Self {
        let config = Config::new(ServerId(me), Voters::new((1..=n).map(ServerId)));
        Self { election: Election::new(config), host: FixedHost::scored(score), out: Vec::new() }
    }

    /// Like `new`, and starts an election.
    pub(crate) fn started(me: u64, n: u64, score: i64) -> Self {
        let mut server = Self::new(me, n, score);
        server.start(Cause::Start);
        server
    }

    pub(crate) fn start(&mut self, cause: Cause) {
        self.out.clear();
        self.election.start(cause, &mut self.host, &mut self.out);
    }

    pub(crate) fn receive(&mut self, from: u64, message: Message) {
        self.try_receive(from, message).expect("a good message");
    }

    pub(crate) fn try_receive(&mut self, from: u64, message: Message) -> Result<(), Error> {
        self.out.clear();
        self.election.receive(ServerId(from), message, &mut self.host, &mut self.out)
    }

    /// Receives the proposal of `from` for itself, with the choice that it holds, in the current round.
    pub(crate) fn receive_proposal(&mut self, from: u64, own: i64, choice: (u64, i64)) {
        self.receive(from, propose(self.election.round(), (from, own), choice, &[]));
    }

    pub(crate) fn expire(&mut self, timer: Timer) {
        self.out.clear();
        self.election.expired(timer, &mut self.host, &mut self.out);
    }

    pub(crate) fn link_down(&mut self, peer: u64) {
        self.out.clear();
        self.election.link_down(ServerId(peer), &mut self.host, &mut self.out);
    }

    pub(crate) fn demote(&mut self, id: u64) {
        self.out.clear();
        self.election.demote(ServerId(id), &mut self.host, &mut self.out);
    }

    pub(crate) fn leader(&self) -> Option<u64> {
        self.election.leader().map(|id| id.0)
    }

    pub(crate) fn choice(&self) -> u64 {
        self.election.choice().expect("a choice").id.0
    }

    pub(crate) fn elected(&self) -> &Elected {
        let found = self.out.iter().find_map(|output| match output {
            Output::Elected(elected) => Some(elected),
            Output::Send { .. } | Output::Arm { .. } | Output::Cancel(_) | Output::Invalid { .. } => None,
        });
        found.expect("an election that has ended")
    }

    /// The messages of the last step, by receiver.
    pub(crate) fn sent(&self) -> Vec<(u64, &Message)> {
        let sent = self.out.iter().filter_map(|output| match output {
            Output::Send { to, message } => Some((to.0, message)),
            Output::Arm { .. } | Output::Cancel(_) | Output::Elected(_) | Output::Invalid { .. } => None,
        });
        sent.collect()
    }

    pub(crate) fn receivers(&self) -> Vec<u64> {
        self.sent().iter().map(|(to, _)| *to).collect()
    }

    /// The span that the timer was armed with in the last step.
    pub(crate) fn armed(&self, timer: Timer) -> Option<Span> {
        self.out.iter().find_map(|output| match output {
            Output::Arm { timer: armed, after } if *armed == timer => Some(*after),
            Output::Arm { .. }
            | Output::Send { .. }
            | Output::Cancel(_)
            | Output::Elected(_)
            | Output::Invalid { .. } => None,
        })
    }

    pub(crate) fn sent_vote(&self) -> Option<&Vote> {
        self.sent().into_iter().find_map(|(_, message)| match message {
            Message::Vote(vote) => Some(vote),
            Message::Propose(_) | Message::Ask => None,
        })
    }
}

pub(crate) fn proposal(id: u64, score: i64) -> Proposal {
    Proposal {
        id: ServerId(id),
        rank: Rank::Known(Score::from(score)),
        version: Zxid::ZERO,
        fingerprint: 1,
        standing: Standing::default(),
        inputs: Vec::new(),
    }
}

pub(crate) fn propose(round: Round, own: (u64, i64), choice: (u64, i64), demoted: &[u64]) -> Message {
    Message::Propose(Propose {
        round,
        own: proposal(own.0, own.1),
        choice: proposal(choice.0, choice.1),
        demoted: demoted.iter().map(|id| ServerId(*id)).collect(),
    })
}

pub(crate) fn vote(round: Round, choice: (u64, i64), established: Option<u32>) -> Message {
    Message::Vote(Vote { round, choice: proposal(choice.0, choice.1), established: established.map(Epoch) })
}

pub(crate) fn round(epoch: u64, failed: u32) -> Round {
    Round { epoch, failed }
}
