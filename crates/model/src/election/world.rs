//! Three production elections, the messages between them in no order, and their timers.
//!
//! Holds: a message that is sent again while the same one is under way is one message; that a copy arrives twice is a
//! step of its own, and bounded.

use std::array;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use pole_election::{
    EndReason, Cause, Config, Elected, Election, Epoch, Message, Output, Round, ServerId, Step, Timer, Voters,
};

use super::host::Scored;
use crate::digest::digest;
use crate::violation::Violation;

/// How many servers there are.
pub(crate) const SERVERS: usize = 3;

/// Whoever elects a leader is one of a quorum that held it.
pub(crate) const HELD: &str = "whoever elects a leader is one of a quorum that held it in that round";
/// Only voters are elected.
pub(crate) const VOTER: &str = "only a voter is elected";

/// One server, shared between the worlds in which it is the same.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    server: Arc<Server>,
    digest: u64,
}

impl Cell {
    fn new(server: Server) -> Self {
        let digest = digest(&server);
        Self { server: Arc::new(server), digest }
    }
}

impl Deref for Cell {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

/// None: it is down, or not yet called.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Server {
    pub(crate) election: Option<Election>,
    pub(crate) timers: BTreeSet<Timer>,
}

/// The messages under way from one server to another, each with its digest.
pub(crate) type Wire = Vec<(u64, Arc<Message>)>;

/// What the bounds have allowed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Spent {
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
    pub(crate) doubles: u8,
    pub(crate) retries: u8,
    pub(crate) calls: u8,
    /// A timer ran out.
    pub(crate) waited: bool,
}

/// The ensemble.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) servers: [Cell; SERVERS],
    pub(crate) hosts: [Scored; SERVERS],
    /// By sender, then receiver. In the order of sending, or, if that does not matter, of the digests.
    pub(crate) wires: [[Wire; SERVERS]; SERVERS],
    /// Whether messages between two servers stay in order.
    ordered: bool,
    pub(crate) spent: Spent,
    /// The epoch that each server was told its leader is established in.
    reigns: [Option<u8>; SERVERS],
    last_epoch: u8,
    /// Which server ever held which candidate in which round.
    held: BTreeSet<(usize, Round, ServerId)>,
    /// Which server ever took which leader.
    took: BTreeSet<(usize, ServerId)>,
    pub(crate) violation: Option<Violation>,
}

pub(crate) fn id(at: usize) -> ServerId {
    ServerId(at as u64 + 1)
}

pub(crate) fn index(id: ServerId) -> usize {
    usize::try_from(id.0).expect("a small id") - 1
}

impl World {
    pub(crate) fn new(hosts: [Scored; SERVERS], ordered: bool) -> Self {
        Self {
            servers: array::from_fn(|_| Cell::new(Server::default())),
            hosts,
            wires: Default::default(),
            ordered,
            spent: Spent::default(),
            reigns: [None; SERVERS],
            last_epoch: 0,
            held: BTreeSet::new(),
            took: BTreeSet::new(),
            violation: None,
        }
    }

    pub(crate) fn leader(&self, at: usize) -> Option<usize> {
        self.servers[at].election.as_ref()?.leader().map(index)
    }

    /// Whether a quorum, the leader among them, has this leader.
    pub(crate) fn is_followed(&self, leader: usize) -> bool {
        let followers = (0..SERVERS).filter(|at| self.leader(*at) == Some(leader)).count();
        self.leader(leader) == Some(leader) && followers > SERVERS / 2
    }

    /// What decides how a continuation goes on.
    pub(crate) fn gist(&self, timely: bool) -> u64 {
        let servers = self.servers.each_ref().map(|cell| cell.digest);
        digest(&(servers, self.wires.each_ref(), self.reigns, timely))
    }

    /// Starts a server. Its links to those that run are open.
    pub(crate) fn start(&mut self, at: usize, demoted: Option<usize>) -> Result<(), Violation> {
        let election = Election::new(Config::new(id(at), Voters::new((0..SERVERS).map(id))));
        self.servers[at] = Cell::new(Server { election: Some(election), timers: BTreeSet::new() });
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

    /// A server fails: what was on its way to it is lost, and its links close.
    pub(crate) fn crash(&mut self, at: usize) -> Result<(), Violation> {
        self.servers[at] = Cell::new(Server::default());
        self.reigns[at] = None;
        self.wires.iter_mut().for_each(|wires| wires[at].clear());
        for peer in (0..SERVERS).filter(|peer| *peer != at) {
            self.act(peer, |election, host, out| election.link_down(id(at), host, out))?;
        }
        Ok(())
    }

    /// Calls an election on a server that has a leader.
    pub(crate) fn call(&mut self, at: usize, cause: Cause) -> Result<(), Violation> {
        self.act(at, |election, host, out| election.start(cause, host, out))
    }

    /// The messages that can arrive next: sender, receiver, place.
    pub(crate) fn arriving(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        let pairs = (0..SERVERS).flat_map(|from| (0..SERVERS).map(move |to| (from, to)));
        pairs.flat_map(|(from, to)| {
            let count = self.wires[from][to].len();
            (0..if self.ordered { count.min(1) } else { count }).map(move |nth| (from, to, nth))
        })
    }

    /// A message arrives, and is gone from its link, or not.
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
        self.servers[at] = Cell::new(server);
        self.act(at, |election, host, out| election.expired(timer, host, out))
    }

    /// Whether this server can be told that its leader is established: a leader first, with a quorum; then the others.
    pub(crate) fn may_establish(&self, at: usize) -> bool {
        let Some(leader) = self.leader(at) else { return false };
        let told = self.reigns[leader].is_some();
        if at == leader { !told && self.is_followed(at) } else { told && self.reigns[at] != self.reigns[leader] }
    }

    /// The leader of this server is established.
    pub(crate) fn establish(&mut self, at: usize) -> Result<(), Violation> {
        let Some(leader) = self.leader(at) else { return Ok(()) };
        if at == leader {
            self.last_epoch += 1;
            self.reigns[at] = Some(self.last_epoch);
        }
        self.reigns[at] = self.reigns[leader];
        let epoch = Epoch(u32::from(self.reigns[at].expect("a leader is told before its followers")));
        self.act(at, |election, _, _| election.established(epoch))
    }

    /// Lets one server act, and carries out what it puts out.
    fn act(
        &mut self,
        at: usize,
        call: impl FnOnce(&mut Election, &mut Scored, &mut Vec<Output>),
    ) -> Result<(), Violation> {
        let mut server = Server::clone(&self.servers[at]);
        let Some(election) = &mut server.election else { return Ok(()) };
        let mut outputs = Vec::new();
        call(election, &mut self.hosts[at], &mut outputs);
        if let Some(choice) = election.choice() {
            self.held.insert((at, election.round(), choice.id));
        }
        if election.leader().is_none() {
            self.reigns[at] = None;
        }
        for output in &outputs {
            match output {
                Output::Arm { timer, .. } => drop(server.timers.insert(*timer)),
                Output::Cancel(timer) => drop(server.timers.remove(timer)),
                Output::Send { .. } | Output::Elected(_) | Output::Invalid { .. } => {}
            }
        }
        self.servers[at] = Cell::new(server);
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
        self.took.insert((at, leader));
        self.reigns[at] = None;
        let incumbent = matches!(elected.record.steps.last(), Some(Step::Decided(EndReason::Incumbent)));
        let holders = (0..SERVERS).filter(|peer| match incumbent {
            // Joining late: a quorum of others took it, itself among them.
            true => *peer != at && self.took.contains(&(*peer, leader)),
            false => self.held.contains(&(*peer, round, leader)),
        });
        let holders: Vec<_> = holders.collect();
        let among = if incumbent { index(leader) } else { at };
        if holders.len() <= SERVERS / 2 || !holders.contains(&among) {
            let what = format!("server {} elects {leader} in round {round}, held by {holders:?} only", id(at));
            return Err(Violation::new(HELD, what));
        }
        Ok(())
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.servers.iter().for_each(|cell| cell.digest.hash(state));
        for wire in self.wires.iter().flatten() {
            wire.len().hash(state);
            wire.iter().for_each(|(digest, _)| digest.hash(state));
        }
        self.spent.hash(state);
        (self.reigns, self.last_epoch).hash(state);
        self.held.hash(state);
        self.took.hash(state);
        self.violation.hash(state);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        digest(self) == digest(other)
    }
}
