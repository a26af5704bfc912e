//! A network in memory: whole ensembles in virtual time, from one seed.
//!
//! Messages take their time, get lost, doubled and reordered; servers crash, restart, and notice late. Beside the
//! election runs the least service that can be one: a leader is established when a quorum has come to follow it, a
//! follower whose leader is gone calls an election, a leader without a quorum abandons.

use std::collections::{BTreeMap, BTreeSet};

use pole_election::*;

use crate::desk::Table;

/// xorshift: enough dice for a test, the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
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

/// What the network does to messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) loss: u64,
    pub(crate) doubled: u64,
    pub(crate) delay_ms: (u64, u64),
}

pub(crate) const FAIR: Weather = Weather { loss: 0, doubled: 0, delay_ms: (1, 5) };
pub(crate) const FOUL: Weather = Weather { loss: 25, doubled: 15, delay_ms: (1, 80) };

pub(crate) struct Net {
    pub(crate) servers: BTreeMap<ServerId, Server>,
    pub(crate) dice: Dice,
    pub(crate) weather: Weather,
    pub(crate) now: u64,
    /// Servers that can send but not receive.
    pub(crate) deaf: BTreeSet<ServerId>,
    /// Messages of the election sent so far.
    pub(crate) messages: usize,
    /// Whether the service runs beside the election.
    service: bool,
    epochs: u32,
    queue: BTreeMap<(u64, u64), Event>,
    sequence: u64,
}

pub(crate) struct Server {
    /// None: crashed.
    pub(crate) election: Option<Election>,
    pub(crate) host: Table,
    pub(crate) elected: Vec<Elected>,
    /// Counts lives and reigns, so that events of an earlier one are known.
    life: u64,
    reign: u64,
    timers: BTreeMap<Timer, u64>,
    followers: BTreeSet<ServerId>,
    pub(crate) established: Option<Epoch>,
}

enum Event {
    Deliver { from: ServerId, to: ServerId, message: Box<Message> },
    Expire { id: ServerId, life: u64, timer: Timer, armed: u64 },
    LinkDown { id: ServerId, peer: ServerId },
    LinkUp { id: ServerId, peer: ServerId },
    Call { id: ServerId, life: u64, reign: u64, cause: Cause },
    Deadline { id: ServerId, life: u64, reign: u64 },
    Follow { id: ServerId, leader: ServerId },
    Unfollow { id: ServerId, leader: ServerId },
    Established { id: ServerId, leader: ServerId, epoch: Epoch },
}

impl Net {
    /// An ensemble of servers 1..=n with these scores, all down.
    pub(crate) fn new(scores: &[i64], seed: u64, service: bool) -> Self {
        let ids = (1..=scores.len() as u64).map(ServerId);
        let servers = ids.zip(scores).map(|(id, score)| {
            let mut host = Table::scored(*score);
            host.round_trips = (1..=scores.len() as u64).map(|id| (ServerId(id), Span::from_ms(10))).collect();
            (id, Server::down(host))
        });
        Self {
            servers: servers.collect(),
            dice: Dice::new(seed),
            weather: FAIR,
            now: 0,
            deaf: BTreeSet::new(),
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

    /// Servers that run.
    pub(crate) fn live(&self) -> Vec<ServerId> {
        self.ids().into_iter().filter(|id| self.servers[id].election.is_some()).collect()
    }

    pub(crate) fn leader_of(&self, id: ServerId) -> Option<ServerId> {
        self.servers[&id].election.as_ref()?.leader()
    }

    /// The one leader that all live servers have, if they agree.
    pub(crate) fn agreed(&self) -> Option<ServerId> {
        let leaders: BTreeSet<_> = self.live().into_iter().map(|id| self.leader_of(id)).collect();
        leaders.into_iter().reduce(|_, _| None).flatten()
    }

    /// As `agreed`, and it is established for all of them, in one epoch.
    pub(crate) fn settled(&self) -> Option<ServerId> {
        let leader = self.agreed()?;
        let epochs: BTreeSet<_> = self.live().iter().map(|id| self.servers[id].established).collect();
        (epochs.len() == 1 && epochs.first()?.is_some() && self.live().contains(&leader)).then_some(leader)
    }

    /// Brings a server up, calls its first election, and opens its links.
    pub(crate) fn boot(&mut self, id: ServerId) {
        let voters = Voters::new(self.ids());
        self.wake(id, Election::new(Config::new(id, voters)));
        self.call(id, Cause::Start);
    }

    /// Brings a server up without an election: it follows whom it is told to.
    pub(crate) fn wake(&mut self, id: ServerId, election: Election) {
        self.server(id).election = Some(election);
        for peer in self.live().into_iter().filter(|peer| *peer != id) {
            self.soon(Event::LinkUp { id, peer });
            self.soon(Event::LinkUp { id: peer, peer: id });
        }
    }

    pub(crate) fn crash(&mut self, id: ServerId) {
        let host = self.servers[&id].host.clone();
        let life = self.servers[&id].life + 1;
        self.servers.insert(id, Server { life, ..Server::down(host) });
        for peer in self.live() {
            self.soon(Event::LinkDown { id: peer, peer: id });
            self.forsake(peer, id);
        }
    }

    /// Calls an election at a server now.
    pub(crate) fn call(&mut self, id: ServerId, cause: Cause) {
        let left = self.leader_of(id);
        let server = self.server(id);
        server.reign += 1;
        server.followers.clear();
        server.established = None;
        self.run_election(id, |election, host, out| election.start(cause, host, out));
        if self.service && left == Some(id) {
            self.live().into_iter().filter(|peer| *peer != id).for_each(|peer| self.forsake(peer, id));
        } else if let Some(leader) = left {
            self.soon(Event::Unfollow { id, leader });
        }
    }

    /// The peer will notice, some time soon, that its leader `gone` is gone.
    fn forsake(&mut self, peer: ServerId, gone: ServerId) {
        if self.service && self.leader_of(peer) == Some(gone) {
            let (life, reign) = (self.servers[&peer].life, self.servers[&peer].reign);
            self.soon(Event::Call { id: peer, life, reign, cause: Cause::LeaderLost });
        } else if self.service {
            self.soon(Event::Unfollow { id: gone, leader: peer });
        }
    }

    /// Runs until `done`, or for so long.
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

    /// A call for an election in so many ms, if the server still has the leader that it has now.
    pub(crate) fn call_later(&mut self, id: ServerId, cause: Cause, after_ms: u64) {
        let (life, reign) = (self.servers[&id].life, self.servers[&id].reign);
        self.schedule(after_ms * 1_000_000, Event::Call { id, life, reign, cause });
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Deliver { to, .. } | Event::Follow { leader: to, .. } if self.deaf.contains(&to) => {}
            Event::Deliver { from, to, message } => self.run_election(to, |election, host, out| {
                election.receive(from, *message, host, out).expect("servers send good messages");
            }),
            Event::Expire { id, life, timer, armed } => {
                let server = self.server(id);
                if server.life == life && server.timers.get(&timer) == Some(&armed) {
                    self.run_election(id, |election, host, out| election.expired(timer, host, out));
                }
            }
            Event::LinkDown { id, peer } if self.servers[&peer].election.is_none() => {
                self.run_election(id, |election, host, out| election.link_down(peer, host, out));
            }
            Event::LinkUp { id, peer } if self.servers[&peer].election.is_some() => {
                self.run_election(id, |election, _, out| {
                    election.link_up(peer);
                    election.greet(peer, out);
                });
            }
            Event::LinkDown { .. } | Event::LinkUp { .. } => {}
            Event::Call { id, life, reign, cause } => {
                if self.is_current(id, life, reign) {
                    self.call(id, cause);
                }
            }
            Event::Deadline { id, life, reign } => self.deadline(id, life, reign),
            Event::Follow { id, leader } => self.follow(id, leader),
            Event::Unfollow { id, leader } => self.unfollow(id, leader),
            Event::Established { id, leader, epoch } => self.establish(id, leader, epoch),
        }
    }

    fn is_current(&self, id: ServerId, life: u64, reign: u64) -> bool {
        let server = &self.servers[&id];
        server.election.is_some() && server.life == life && server.reign == reign
    }

    /// Nobody was established in time: this leader cannot lead, elect another.
    fn deadline(&mut self, id: ServerId, life: u64, reign: u64) {
        if self.is_current(id, life, reign) && self.servers[&id].established.is_none() {
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
            // Not yet, perhaps: it may still be waiting for others. Dial again.
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
                self.soon(Event::Established { id, leader, epoch });
            }
        }
    }

    fn unfollow(&mut self, id: ServerId, leader: ServerId) {
        let quorum = self.servers.len() / 2 + 1;
        // It may have come back meanwhile.
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

    fn run_election(&mut self, id: ServerId, act: impl FnOnce(&mut Election, &mut Table, &mut Vec<Output>)) {
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
                let life = self.servers[&id].life;
                self.schedule(after.0, Event::Expire { id, life, timer, armed });
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
        let Weather { loss, doubled, .. } = self.weather;
        if self.dice.percent(doubled) {
            self.soon(Event::Deliver { from, to, message: message.clone() });
        }
        if !self.dice.percent(loss) {
            self.soon(Event::Deliver { from, to, message });
        }
    }

    fn elected(&mut self, id: ServerId, elected: Elected) {
        let leader = elected.leader;
        let server = self.server(id);
        server.reign += 1;
        server.elected.push(elected);
        let (life, reign) = (server.life, server.reign);
        if self.service {
            self.soon(Event::Follow { id, leader });
            self.schedule(500_000_000, Event::Deadline { id, life, reign });
        }
    }

    fn soon(&mut self, event: Event) {
        let (low, high) = self.weather.delay_ms;
        let after = low * 1_000_000 + self.dice.below((high - low) * 1_000_000 + 1);
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
    fn down(host: Table) -> Self {
        Self {
            election: None,
            host,
            elected: Vec::new(),
            life: 0,
            reign: 0,
            timers: BTreeMap::new(),
            followers: BTreeSet::new(),
            established: None,
        }
    }
}
