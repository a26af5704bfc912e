//! Three production elections, the messages in flight between them, and their timers.
//!
//! A message that is sent again while an equal one is in flight counts as one message. The duplicate delivery of a
//! message is a step of its own, and bounded.

use std::array;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use pole_election::{Cause, Config, Elected, Election, EndReason, Message, Output, Round, Step, Timer};
use pole_types::{Epoch, ServerId, Voters};

use super::host::FixedScore;
use crate::digest::digest;
use crate::violation::Violation;

/// The number of servers.
pub(crate) const SERVERS: usize = 3;

/// A safety property of every election.
pub(crate) const HELD: &str = "a server elects only a leader that a quorum, itself included, held in that round";
/// A safety property of every election.
pub(crate) const VOTER: &str = "only a voter is elected";

/// One server with its digest, shared between the worlds in which it is the same.
#[derive(Clone, Debug)]
pub(crate) struct HashedServer {
    server: Arc<Server>,
    digest: u64,
}

impl HashedServer {
    fn new(server: Server) -> Self {
        let digest = digest(&server);
        Self { server: Arc::new(server), digest }
    }
}

impl Deref for HashedServer {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// `election` is None while the server is down or not started yet.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Server {
    pub(crate) election: Option<Election>,
    pub(crate) timers: BTreeSet<Timer>,
}

/// The messages in flight from one server to another, each with its digest.
pub(crate) type Wire = Vec<(u64, Arc<Message>)>;

/// How much of the bounds is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Usage {
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    pub(crate) doubles: u8,
    pub(crate) retries: u8,
    pub(crate) calls: u8,
    /// A timer has expired.
    pub(crate) timer_expired: bool,
}

/// The ensemble.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) servers: [HashedServer; SERVERS],
    pub(crate) hosts: [FixedScore; SERVERS],
    /// By sender, then receiver. In the order of sending or, if unordered, of the digests.
    pub(crate) wires: [[Wire; SERVERS]; SERVERS],
    /// Whether messages between two servers stay in order.
    ordered: bool,
    pub(crate) usage: Usage,
    /// The epoch in which each server was notified that its leader is established.
    established_epochs: [Option<u8>; SERVERS],
    last_epoch: u8,
    /// All (server, round, candidate) for which the server ever held the candidate in that round.
    held: BTreeSet<(usize, Round, ServerId)>,
    /// All (server, leader) for which the server ever elected or adopted the leader.
    adopted: BTreeSet<(usize, ServerId)>,
    pub(crate) violation: Option<Violation>,
}

pub(crate) fn id(at: usize) -> ServerId {
    ServerId(at as u64 + 1)
}

pub(crate) fn index(id: ServerId) -> usize {
    usize::try_from(id.0).expect("a small id") - 1
}

impl World {
    pub(crate) fn new(hosts: [FixedScore; SERVERS], ordered: bool) -> Self {
        Self {
            servers: array::from_fn(|_| HashedServer::new(Server::default())),
            hosts,
            wires: Default::default(),
            ordered,
            usage: Usage::default(),
            established_epochs: [None; SERVERS],
            last_epoch: 0,
            held: BTreeSet::new(),
            adopted: BTreeSet::new(),
            violation: None,
        }
    }

    pub(crate) fn leader(&self, at: usize) -> Option<usize> {
        self.servers[at].election.as_ref()?.leader().map(index)
    }

    /// Whether a quorum, including the leader itself, follows this leader.
    pub(crate) fn is_followed(&self, leader: usize) -> bool {
        let followers = (0..SERVERS).filter(|at| self.leader(*at) == Some(leader)).count();
        self.leader(leader) == Some(leader) && followers > SERVERS / 2
    }

    /// A digest of everything that determines the rest of a continuation.
    pub(crate) fn liveness_digest(&self, timely: bool) -> u64 {
        let servers = self.servers.each_ref().map(|hashed| hashed.digest);
        digest(&(servers, self.wires.each_ref(), self.established_epochs, timely))
    }

    /// Starts a server. Its links to the running servers are open.
    pub(crate) fn start(&mut self, at: usize, demoted: Option<usize>) -> Result<(), Violation> {
        let election = Election::new(Config::new(id(at), Voters::new((0..SERVERS).map(id))));
        self.servers[at] = HashedServer::new(Server { election: Some(election), timers: BTreeSet::new() });
        let running: Vec<_> =
            (0..SERVERS).filter(|peer| *peer != at && self.servers[*peer].election.is_some()).collect();
        for peer in &running {
            self.act(at, |election, _, _| election.link_up(id(*peer)))?;
        }
        self.act(at, |election, host, out| {
            if let Some(unable) = demoted {
                election.demote(id(unable), host, out);
            }
            election.start(Cause::Start, host, out);
        })?;
        for peer in running {
            self.act(peer, |election, _, out| {
                election.link_up(id(at));
                election.propose_to(id(at), out);
            })?;
        }
        Ok(())
    }

    /// Crashes a server: messages in flight to it are lost, and its links close.
    pub(crate) fn crash(&mut self, at: usize) -> Result<(), Violation> {
        self.servers[at] = HashedServer::new(Server::default());
        self.established_epochs[at] = None;
        self.wires.iter_mut().for_each(|wires| wires[at].clear());
        for peer in (0..SERVERS).filter(|peer| *peer != at) {
            self.act(peer, |election, host, out| election.link_down(id(at), host, out))?;
        }
        Ok(())
    }

    /// Starts an election on a server that has a leader.
    pub(crate) fn call(&mut self, at: usize, cause: Cause) -> Result<(), Violation> {
        self.act(at, |election, host, out| election.start(cause, host, out))
    }

    /// The messages that can arrive next, as sender, receiver and index.
    pub(crate) fn arriving(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let pairs = (0..SERVERS).flat_map(|from| (0..SERVERS).map(move |to| (from, to)));
        pairs.flat_map(|(from, to)| {
            let count = self.wires[from][to].len();
            (0..if self.ordered { count.min(1) } else { count }).map(move |nth| (from, to, nth))
        })
    }

    /// Delivers a message. With `again`, it also stays in flight.
    pub(crate) fn deliver(&mut self, from: usize, to: usize, nth: usize, again: bool) -> Result<(), Violation> {
        let message = Message::clone(&self.wires[from][to][nth].1);
        if !again {
            self.wires[from][to].remove(nth);
        }
        self.act(to, |election, host, out| election.receive(id(from), message, host, out).expect("a good message"))
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        if self.servers[to].election.is_none() {
            return;
        }
        let digest = digest(&message);
        let wire = &mut self.wires[from][to];
        let place =
            if self.ordered { Err(wire.len()) } else { wire.binary_search_by_key(&digest, |(other, _)| *other) };
        let repeats = wire.last().is_some_and(|(last, _)| self.ordered && *last == digest);
        if let (Err(place), false) = (place, repeats) {
            wire.insert(place, (digest, Arc::new(message)));
        }
    }

    pub(crate) fn expire(&mut self, at: usize, timer: Timer) -> Result<(), Violation> {
        let mut server = Server::clone(&self.servers[at]);
        server.timers.remove(&timer);
        self.servers[at] = HashedServer::new(server);
        self.act(at, |election, host, out| election.expired(timer, host, out))
    }

    /// Whether this server can be notified that its leader is established: first a leader with a quorum, then its
    /// followers.
    pub(crate) fn may_establish(&self, at: usize) -> bool {
        let Some(leader) = self.leader(at) else { return false };
        let leader_notified = self.established_epochs[leader].is_some();
        if at == leader {
            !leader_notified && self.is_followed(at)
        } else {
            leader_notified && self.established_epochs[at] != self.established_epochs[leader]
        }
    }

    /// Notifies a server that its leader is established.
    pub(crate) fn establish(&mut self, at: usize) -> Result<(), Violation> {
        let Some(leader) = self.leader(at) else { return Ok(()) };
        if at == leader {
            self.last_epoch += 1;
            self.established_epochs[at] = Some(self.last_epoch);
        }
        self.established_epochs[at] = self.established_epochs[leader];
        let epoch = Epoch(u32::from(self.established_epochs[at].expect("a leader is notified before its followers")));
        self.act(at, |election, _, _| election.established(epoch))
    }

    /// Lets one server act, and carries out its outputs.
    fn act(
        &mut self,
        at: usize,
        call: impl FnOnce(&mut Election, &mut FixedScore, &mut Vec<Output>),
    ) -> Result<(), Violation> {
        let mut server = Server::clone(&self.servers[at]);
        let Some(election) = &mut server.election else { return Ok(()) };
        let mut outputs = Vec::new();
        call(election, &mut self.hosts[at], &mut outputs);
        if let Some(choice) = election.choice() {
            self.held.insert((at, election.round(), choice.id));
        }
        if election.leader().is_none() {
            self.established_epochs[at] = None;
        }
        for output in &outputs {
            match output {
                Output::Arm { timer, .. } => drop(server.timers.insert(*timer)),
                Output::Cancel(timer) => drop(server.timers.remove(timer)),
                Output::Send { .. } | Output::Elected(_) | Output::Invalid { .. } => {}
            }
        }
        self.servers[at] = HashedServer::new(server);
        outputs.into_iter().try_for_each(|output| self.carry_out(at, output))
    }

    fn carry_out(&mut self, at: usize, output: Output) -> Result<(), Violation> {
        match output {
            Output::Send { to, message } => self.send(at, index(to), message),
            Output::Elected(elected) => self.elected(at, &elected)?,
            Output::Arm { .. } | Output::Cancel(_) | Output::Invalid { .. } => {}
        }
        Ok(())
    }

    fn elected(&mut self, at: usize, elected: &Elected) -> Result<(), Violation> {
        let (leader, round) = (elected.leader, elected.round);
        if leader.0 == 0 || leader.0 > SERVERS as u64 {
            return Err(Violation::new(VOTER, format!("server {} elects {leader}", id(at))));
        }
        self.adopted.insert((at, leader));
        self.established_epochs[at] = None;
        let Some(Step::Decided(reason)) = elected.record.steps.last() else {
            return Err(Violation::new(HELD, format!("server {} does not say why it elects {leader}", id(at))));
        };
        let incumbent = matches!(reason, EndReason::Incumbent | EndReason::Joined | EndReason::OnlyLeader);
        let holders = (0..SERVERS).filter(|peer| match reason {
            // Joining late: a quorum of other servers, the leader among them, has elected it.
            EndReason::Incumbent => *peer != at && self.adopted.contains(&(*peer, leader)),
            // Joining in the same round: with this server a quorum, the leader among them, has elected it.
            EndReason::Joined | EndReason::OnlyLeader => self.adopted.contains(&(*peer, leader)),
            EndReason::AllResponded | EndReason::Gone | EndReason::Gossip | EndReason::Waited => {
                self.held.contains(&(*peer, round, leader))
            }
        });
        let holders: Vec<_> = holders.collect();
        let among = if incumbent { index(leader) } else { at };
        // A leader that is established has had a quorum; its followers need not be known here.
        let needs_quorum = *reason != EndReason::OnlyLeader;
        if needs_quorum && holders.len() <= SERVERS / 2 || !holders.contains(&among) {
            let detail = format!("server {} elects {leader} in round {round}, held by {holders:?} only", id(at));
            return Err(Violation::new(HELD, detail));
        }
        Ok(())
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.servers.iter().for_each(|hashed| hashed.digest.hash(state));
        for wire in self.wires.iter().flatten() {
            wire.len().hash(state);
            wire.iter().for_each(|(digest, _)| digest.hash(state));
        }
        self.usage.hash(state);
        (self.established_epochs, self.last_epoch).hash(state);
        self.held.hash(state);
        self.adopted.hash(state);
        self.violation.hash(state);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        digest(self) == digest(other)
    }
}
