//! Explores every order of delivery in small ensembles.
//!
//! Runs are timely: a timer expires only when no message is in flight. Messages arrive in any order; a few may be lost
//! or duplicated. Equal messages between the same two servers count as one.

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use pole_election::*;

use crate::test_server::FixedHost;

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    /// By id, from 1. None if the server is down.
    servers: Vec<Option<Election>>,
    timers: Vec<BTreeSet<Timer>>,
    /// Sorted by hash, so that equal worlds compare equal.
    under_way: Vec<(u64, ServerId, ServerId, Message)>,
    losses: u32,
    doubles: u32,
}

impl World {
    fn step(
        &mut self,
        id: ServerId,
        hosts: &mut [FixedHost],
        act: impl FnOnce(&mut Election, &mut FixedHost, &mut Vec<Output>),
    ) {
        let at = id.0 as usize - 1;
        let Some(election) = &mut self.servers[at] else { return };
        let mut out = Vec::new();
        act(election, &mut hosts[at], &mut out);
        for output in out {
            match output {
                Output::Send { to, message } => self.send(id, to, message),
                Output::Arm { timer, .. } => {
                    self.timers[at].insert(timer);
                }
                Output::Cancel(timer) => {
                    self.timers[at].remove(&timer);
                }
                Output::Elected(_) | Output::Invalid { .. } => {}
            }
        }
    }

    fn send(&mut self, from: ServerId, to: ServerId, message: Message) {
        if self.servers[to.0 as usize - 1].is_none() {
            return;
        }
        let entry = (hash(&(from, to, &message)), from, to, message);
        if let Err(at) = self.under_way.binary_search_by_key(&entry.0, |entry| entry.0) {
            self.under_way.insert(at, entry);
        }
    }

    /// All successor states.
    fn successors(&self, hosts: &mut [FixedHost]) -> Vec<Self> {
        let mut next = Vec::new();
        for at in 0..self.under_way.len() {
            let mut arrived = self.clone();
            let (_, from, to, message) = arrived.under_way.remove(at);
            if self.losses > 0 {
                next.push(Self { losses: self.losses - 1, ..arrived.clone() });
            }
            let deliver = |election: &mut Election, host: &mut FixedHost, out: &mut Vec<Output>| {
                election.receive(from, message, host, out).expect("servers send good messages");
            };
            if self.doubles > 0 {
                let mut doubled = Self { doubles: self.doubles - 1, ..self.clone() };
                doubled.step(to, hosts, deliver.clone());
                next.push(doubled);
            }
            arrived.step(to, hosts, deliver);
            next.push(arrived);
        }
        if self.under_way.is_empty() {
            self.expire_one(hosts, &mut next);
        }
        next
    }

    /// No messages are in flight: the shorter timer expires first, on any server.
    fn expire_one(&self, hosts: &mut [FixedHost], next: &mut Vec<Self>) {
        for timer in [Timer::Wait, Timer::Retry] {
            for at in (0..self.servers.len()).filter(|at| self.timers[*at].contains(&timer)) {
                let mut expired = self.clone();
                expired.timers[at].remove(&timer);
                expired.step(ServerId(at as u64 + 1), hosts, |election, host, out| election.expired(timer, host, out));
                next.push(expired);
            }
            if !next.is_empty() {
                return;
            }
        }
    }

    fn leaders(&self) -> BTreeSet<Option<u64>> {
        self.servers.iter().flatten().map(|election| election.leader().map(|id| id.0)).collect()
    }

    fn is_over(&self) -> bool {
        self.under_way.is_empty() && self.timers.iter().all(BTreeSet::is_empty)
    }
}

/// Servers 1.. with these scores; those without a score are down. All others start an election.
fn world(scores: &[Option<i64>], losses: u32, doubles: u32) -> (World, Vec<FixedHost>) {
    let ids = || (1..=scores.len() as u64).map(ServerId);
    let mut hosts: Vec<FixedHost> = scores.iter().map(|score| FixedHost::scored(score.unwrap_or(0))).collect();
    let election = |id| Election::new(Config::new(id, Voters::new(ids())));
    let mut world = World {
        servers: ids().zip(scores).map(|(id, score)| score.map(|_| election(id))).collect(),
        timers: vec![BTreeSet::new(); scores.len()],
        under_way: Vec::new(),
        losses,
        doubles,
    };
    ids().for_each(|id| {
        world.step(id, &mut hosts, |election, host, out| election.start(Cause::Start, host, out));
    });
    (world, hosts)
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Visits every reachable world. Returns their number, and the final states of all runs.
fn explore(start: World, hosts: &mut [FixedHost]) -> (usize, Vec<World>) {
    let (mut seen, mut open, mut ends) = (HashSet::from([hash(&start)]), vec![start], Vec::new());
    while let Some(world) = open.pop() {
        let next = world.successors(hosts);
        if next.is_empty() {
            ends.push(world);
            continue;
        }
        for world in next {
            if seen.insert(hash(&world)) {
                open.push(world);
            }
        }
        hosts.iter_mut().for_each(|host| host.assessed_epochs.clear());
    }
    (seen.len(), ends)
}

fn assert_every_run_elects(best: u64, scores: &[Option<i64>], losses: u32, doubles: u32) {
    let (start, mut hosts) = world(scores, losses, doubles);
    let (worlds, ends) = explore(start, &mut hosts);
    println!("{scores:?}, {losses} lost, {doubles} doubled: {worlds} worlds, {} ends", ends.len());
    assert!(!ends.is_empty());
    for end in ends {
        assert!(end.is_over());
        assert_eq!(end.leaders(), BTreeSet::from([Some(best)]));
    }
}

#[test]
fn in_every_order_of_delivery_all_elect_the_best() {
    assert_every_run_elects(2, &[Some(3), Some(1), Some(2)], 0, 0);
}

#[test]
fn in_every_order_the_survivors_of_a_crash_elect_the_best_of_them() {
    assert_every_run_elects(1, &[Some(1), Some(2), None], 0, 1);
    assert_every_run_elects(2, &[Some(2), Some(1), None], 1, 1);
    assert_every_run_elects(2, &[Some(5), Some(5), None], 2, 2);
}

#[test]
fn a_lost_message_keeps_no_run_from_electing_the_best_in_any_order() {
    assert_every_run_elects(2, &[Some(3), Some(1), Some(2)], 1, 0);
}

#[test]
fn a_message_that_arrives_twice_changes_no_result_in_any_order() {
    assert_every_run_elects(2, &[Some(3), Some(1), Some(2)], 0, 1);
}
