//! An in-memory network: whole ensembles in virtual time, from one seed.
//!
//! Messages are delayed, lost, duplicated and reordered; servers crash, restart, and notice failures late. A minimal
//! service runs on top of the election: a leader is established when a quorum follows it, a follower whose leader is
//! gone starts an election, and a leader without a quorum abandons.

use std::collections::{BTreeMap, BTreeSet};

use pole_election::*;

use crate::test_server::FixedHost;

/// A xorshift generator, the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound.max(1)
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Loss and duplication in percent, and the range of delays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkConditions {
    pub(crate) loss: u64,
    pub(crate) doubled: u64,
    pub(crate) delay_ms: (u64, u64),
}

pub(crate) const RELIABLE: NetworkConditions = NetworkConditions { loss: 0, doubled: 0, delay_ms: (1, 5) };
pub(crate) const LOSSY: NetworkConditions = NetworkConditions { loss: 25, doubled: 15, delay_ms: (1, 80) };

pub(crate) struct Net {
    pub(crate) servers: BTreeMap<ServerId, Server>,
    pub(crate) rng: Rng,
    pub(crate) conditions: NetworkConditions,
    pub(crate) now: u64,
    /// Servers that can send but not receive.
    pub(crate) receive_blocked: BTreeSet<ServerId>,
    /// The number of election messages sent so far.
    pub(crate) messages: usize,
    /// Whether the service runs on top of the election.
    service: bool,
    epochs: u32,
    queue: BTreeMap<(u64, u64), Event>,
    sequence: u64,
}

pub(crate) struct Server {
    /// None if crashed.
    pub(crate) election: Option<Election>,
    pub(crate) host: FixedHost,
    pub(crate) elected: Vec<Elected>,
    /// `incarnation` counts restarts, `phase` counts elections started and ended here, so that stale events are
    /// ignored.
    incarnation: u64,
    phase: u64,
    timers: BTreeMap<Timer, u64>,
    followers: BTreeSet<ServerId>,
    pub(crate) established: Option<Epoch>,
}

enum Event {
    Deliver { from: ServerId, to: ServerId, message: Box<Message> },
    Expire { id: ServerId, incarnation: u64, timer: Timer, armed: u64 },
    LinkDown { id: ServerId, peer: ServerId },
    LinkUp { id: ServerId, peer: ServerId },
    Call { id: ServerId, incarnation: u64, phase: u64, cause: Cause },
    Deadline { id: ServerId, incarnation: u64, phase: u64 },
    Follow { id: ServerId, leader: ServerId },
    Unfollow { id: ServerId, leader: ServerId },
    Established { id: ServerId, leader: ServerId, epoch: Epoch },
}

impl Net {
    /// An ensemble of servers 1..=n with these scores, all down.
    pub(crate) fn new(scores: &[i64], seed: u64, service: bool) -> Self {
        let ids = (1..=scores.len() as u64).map(ServerId);
        let servers = ids.zip(scores).map(|(id, score)| {
            let mut host = FixedHost::scored(*score);
            host.round_trips = (1..=scores.len() as u64).map(|id| (ServerId(id), Span::from_ms(10))).collect();
            (id, Server::down(host))
        });
        Self {
            servers: servers.collect(),
            rng: Rng::new(seed),
            conditions: RELIABLE,
            now: 0,
            receive_blocked: BTreeSet::new(),
            messages: 0,
            service,
            epochs: 0,
            queue: BTreeMap::new(),
            sequence: 0,
        }
    }

    pub(crate) fn ids(&self) -> Vec<ServerId> {
        self.servers.keys().copied().collect()
    }

    /// The running servers.
    pub(crate) fn live(&self) -> Vec<ServerId> {
        self.ids().into_iter().filter(|id| self.servers[id].election.is_some()).collect()
    }

    pub(crate) fn leader_of(&self, id: ServerId) -> Option<ServerId> {
        self.servers[&id].election.as_ref()?.leader()
    }

    /// The leader on which all live servers agree, if they do.
    pub(crate) fn agreed(&self) -> Option<ServerId> {
        let leaders: BTreeSet<_> = self.live().into_iter().map(|id| self.leader_of(id)).collect();
        leaders.into_iter().reduce(|_, _| None).flatten()
    }

    /// Like `agreed`, with the leader established for all of them in one epoch.
    pub(crate) fn settled(&self) -> Option<ServerId> {
        let leader = self.agreed()?;
        let epochs: BTreeSet<_> = self.live().iter().map(|id| self.servers[id].established).collect();
        (epochs.len() == 1 && epochs.first()?.is_some() && self.live().contains(&leader)).then_some(leader)
    }

    /// Starts a server with its first election, and opens its links.
    pub(crate) fn boot(&mut self, id: ServerId) {
        let voters = Voters::new(self.ids());
        self.bring_up(id, Election::new(Config::new(id, voters)));
        self.call(id, Cause::Start);
    }

    /// Starts a server without an election; the given state decides whom it follows.
    pub(crate) fn bring_up(&mut self, id: ServerId, election: Election) {
        self.server(id).election = Some(election);
        for peer in self.live().into_iter().filter(|peer| *peer != id) {
            self.schedule_delayed(Event::LinkUp { id, peer });
            self.schedule_delayed(Event::LinkUp { id: peer, peer: id });
        }
    }

    pub(crate) fn crash(&mut self, id: ServerId) {
        let host = self.servers[&id].host.clone();
        let incarnation = self.servers[&id].incarnation + 1;
        self.servers.insert(id, Server { incarnation, ..Server::down(host) });
        for peer in self.live() {
            self.schedule_delayed(Event::LinkDown { id: peer, peer: id });
            self.notice_leader_lost(peer, id);
        }
    }

    /// Starts an election at a server now.
    pub(crate) fn call(&mut self, id: ServerId, cause: Cause) {
        let left = self.leader_of(id);
        let server = self.server(id);
        server.phase += 1;
        server.followers.clear();
        server.established = None;
        self.run_election(id, |election, host, out| election.start(cause, host, out));
        if self.service && left == Some(id) {
            self.live().into_iter().filter(|peer| *peer != id).for_each(|peer| self.notice_leader_lost(peer, id));
        } else if let Some(leader) = left {
            self.schedule_delayed(Event::Unfollow { id, leader });
        }
    }

    /// Makes the peer notice after a delay that its leader `gone` is gone.
    fn notice_leader_lost(&mut self, peer: ServerId, gone: ServerId) {
        if self.service && self.leader_of(peer) == Some(gone) {
            let (incarnation, phase) = (self.servers[&peer].incarnation, self.servers[&peer].phase);
            self.schedule_delayed(Event::Call { id: peer, incarnation, phase, cause: Cause::LeaderLost });
        } else if self.service {
            self.schedule_delayed(Event::Unfollow { id: gone, leader: peer });
        }
    }

    /// Runs until `done`, or until the time limit.
    pub(crate) fn run_until(&mut self, limit_ms: u64, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + limit_ms * 1_000_000;
        while !done(self) {
            let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) else {
                self.now = end;
                return done(self);
            };
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.step(event);
        }
        true
    }

    pub(crate) fn run(&mut self, ms: u64) {
        self.run_until(ms, |_| false);
    }

    /// Starts an election after `after_ms`, if the server has not started or ended another one by then.
    pub(crate) fn call_later(&mut self, id: ServerId, cause: Cause, after_ms: u64) {
        let (incarnation, phase) = (self.servers[&id].incarnation, self.servers[&id].phase);
        self.schedule(after_ms * 1_000_000, Event::Call { id, incarnation, phase, cause });
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Deliver { to, .. } | Event::Follow { leader: to, .. } if self.receive_blocked.contains(&to) => {}
            Event::Deliver { from, to, message } => self.run_election(to, |election, host, out| {
                election.receive(from, *message, host, out).expect("servers send good messages");
            }),
            Event::Expire { id, incarnation, timer, armed } => {
                let server = self.server(id);
                if server.incarnation == incarnation && server.timers.get(&timer) == Some(&armed) {
                    self.run_election(id, |election, host, out| election.expired(timer, host, out));
                }
            }
            Event::LinkDown { id, peer } if self.servers[&peer].election.is_none() => {
                self.run_election(id, |election, host, out| election.link_down(peer, host, out));
            }
            Event::LinkUp { id, peer } if self.servers[&peer].election.is_some() => {
                self.run_election(id, |election, _, out| {
                    election.link_up(peer);
                    election.propose_to(peer, out);
                });
            }
            Event::LinkDown { .. } | Event::LinkUp { .. } => {}
            Event::Call { id, incarnation, phase, cause } => {
                if self.is_current(id, incarnation, phase) {
                    self.call(id, cause);
                }
            }
            Event::Deadline { id, incarnation, phase } => self.deadline(id, incarnation, phase),
            Event::Follow { id, leader } => self.follow(id, leader),
            Event::Unfollow { id, leader } => self.unfollow(id, leader),
            Event::Established { id, leader, epoch } => self.establish(id, leader, epoch),
        }
    }

    fn is_current(&self, id: ServerId, incarnation: u64, phase: u64) -> bool {
        let server = &self.servers[&id];
        server.election.is_some() && server.incarnation == incarnation && server.phase == phase
    }

    /// The leader was not established in time: demotes it and starts another election.
    fn deadline(&mut self, id: ServerId, incarnation: u64, phase: u64) {
        if self.is_current(id, incarnation, phase) && self.servers[&id].established.is_none() {
            if let Some(leader) = self.leader_of(id) {
                self.run_election(id, |election, host, out| election.demote(leader, host, out));
            }
            self.call(id, Cause::Retry);
        }
    }

    fn follow(&mut self, id: ServerId, leader: ServerId) {
        let quorum = self.servers.len() / 2 + 1;
        if self.leader_of(id) != Some(leader) {
            return;
        }
        if self.leader_of(leader) != Some(leader) {
            // The leader may still be waiting for others. Try again later.
            return self.schedule(10_000_000, Event::Follow { id, leader });
        }
        let server = self.server(leader);
        server.followers.extend([id, leader]);
        if server.followers.len() >= quorum && server.established.is_none() {
            self.epochs += 1;
            let epoch = Epoch(self.epochs);
            self.server(leader).established = Some(epoch);
        }
        if let Some(epoch) = self.servers[&leader].established {
            for id in self.servers[&leader].followers.clone() {
                self.schedule_delayed(Event::Established { id, leader, epoch });
            }
        }
    }

    fn unfollow(&mut self, id: ServerId, leader: ServerId) {
        let quorum = self.servers.len() / 2 + 1;
        // It may have returned in the meantime.
        if self.servers[&id].election.is_some() && self.leader_of(id) == Some(leader) {
            return;
        }
        let server = self.server(leader);
        if server.followers.remove(&id) && server.established.is_some() && server.followers.len() < quorum {
            self.call(leader, Cause::QuorumLost);
        }
    }

    fn establish(&mut self, id: ServerId, leader: ServerId, epoch: Epoch) {
        if self.leader_of(id) == Some(leader) && self.servers[&leader].established == Some(epoch) {
            self.server(id).established = Some(epoch);
            self.run_election(id, |election, _, _| election.established(epoch));
        }
    }

    fn run_election(&mut self, id: ServerId, act: impl FnOnce(&mut Election, &mut FixedHost, &mut Vec<Output>)) {
        let server = self.server(id);
        let Some(election) = &mut server.election else { return };
        let mut out = Vec::new();
        act(election, &mut server.host, &mut out);
        out.into_iter().for_each(|output| self.carry_out(id, output));
    }

    fn carry_out(&mut self, id: ServerId, output: Output) {
        match output {
            Output::Send { to, message } => self.send(id, to, message),
            Output::Arm { timer, after } => {
                self.sequence += 1;
                let armed = self.sequence;
                self.server(id).timers.insert(timer, armed);
                let incarnation = self.servers[&id].incarnation;
                self.schedule(after.0, Event::Expire { id, incarnation, timer, armed });
            }
            Output::Cancel(timer) => {
                self.server(id).timers.remove(&timer);
            }
            Output::Elected(elected) => self.elected(id, elected),
            Output::Invalid { .. } => {}
        }
    }

    fn send(&mut self, from: ServerId, to: ServerId, message: Message) {
        self.messages += 1;
        let message = Box::new(message);
        let NetworkConditions { loss, doubled, .. } = self.conditions;
        if self.rng.percent(doubled) {
            self.schedule_delayed(Event::Deliver { from, to, message: message.clone() });
        }
        if !self.rng.percent(loss) {
            self.schedule_delayed(Event::Deliver { from, to, message });
        }
    }

    fn elected(&mut self, id: ServerId, elected: Elected) {
        let leader = elected.leader;
        let server = self.server(id);
        server.phase += 1;
        server.elected.push(elected);
        let (incarnation, phase) = (server.incarnation, server.phase);
        if self.service {
            self.schedule_delayed(Event::Follow { id, leader });
            self.schedule(500_000_000, Event::Deadline { id, incarnation, phase });
        }
    }

    fn schedule_delayed(&mut self, event: Event) {
        let (low, high) = self.conditions.delay_ms;
        let after = low * 1_000_000 + self.rng.below((high - low) * 1_000_000 + 1);
        self.schedule(after, event);
    }

    fn schedule(&mut self, after: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((self.now + after, self.sequence), event);
    }

    fn server(&mut self, id: ServerId) -> &mut Server {
        self.servers.get_mut(&id).expect("a server of the ensemble")
    }
}

impl Server {
    fn down(host: FixedHost) -> Self {
        Self {
            election: None,
            host,
            elected: Vec::new(),
            incarnation: 0,
            phase: 0,
            timers: BTreeMap::new(),
            followers: BTreeSet::new(),
            established: None,
        }
    }
}
