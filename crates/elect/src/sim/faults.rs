//! The faults of the simulation, and the two phases of a run.

use super::world::{What, World};
use crate::election::Event;
use crate::record::{Leader, Record, ResignRequest};
use crate::store::{Plain, Swap, Target};

impl World {
    /// Candidates come and go, and faults happen, for a number of leases.
    pub(super) fn run_faults(&mut self) {
        for client in 0..self.clients.len() {
            let at = self.random.below(self.timing.ttl.0);
            self.at(at, What::Boot(client));
        }
        self.at(self.timing.ttl.0 / 2, What::Fault);
        let until = self.timing.ttl.0 * self.random.between(10, 40);
        self.run_until(until);
    }

    /// All faults end. The election must recover within the time in which even idle candidates look at the leader.
    pub(super) fn run_recovery(&mut self) {
        self.queue.retain(|_, what| !matches!(what, What::Fault | What::Cut(..)));
        (self.loss_permille, self.slow_permille) = (0, 0);
        self.store_up_at = self.now;
        for client in 0..self.clients.len() {
            self.clients[client].cut_until = self.now;
            self.resume(client);
            if self.clients[client].election.is_none() {
                self.boot(client);
            }
        }
        let until = self.now + self.timing.idle_ttl.0 * 2 + self.timing.ttl.0 * 10;
        self.run_until(until);
        // The end may fall into a hand-over, which takes its time.
        let limit = self.now + self.timing.ttl.0 * 5;
        while !self.has_leader() && self.now < limit && self.outcome.violation.is_none() {
            self.run_until(self.now + self.timing.ttl.0 / 10);
        }
        if !self.has_leader() {
            self.violate("nobody leads after all faults ended".to_owned());
        }
    }

    fn has_leader(&self) -> bool {
        self.clients.iter().any(|client| client.is_valid(self.now))
    }

    /// One random fault, and the time of the next.
    pub(super) fn fault(&mut self) {
        self.outcome.faults += 1;
        let ttl = self.timing.ttl.0;
        let client = self.random.below(self.clients.len() as u64) as usize;
        let span = self.random.below(ttl * 2) + 1;
        match self.random.below(12) {
            0 | 1 => {
                self.note(|| format!("fault: c{client:05} crashes"));
                self.crash(client);
                self.at(self.now + span, What::Boot(client));
            }
            2..=4 => self.pause(client, span),
            5 | 6 => self.partition(client, span),
            7 => self.restart_store(span / 4),
            8 => self.end_a_lease(),
            9 => self.operator(),
            10 => {
                let to = self.random.chance(500).then(|| format!("c{:05}", self.random.below(9)));
                let start = self.clients[client].start;
                self.deliver(client, start, Event::Resign { to });
            }
            _ => self.new_score(client),
        }
        let next = self.random.between(ttl / 20, ttl);
        self.at(self.now + next, What::Fault);
    }

    pub(super) fn crash(&mut self, client: usize) {
        self.clients[client].crash();
        for watches in self.watches.values_mut() {
            watches.remove(&client);
        }
    }

    /// Stops a process. The leader is preferred, because nobody notices the others.
    pub(super) fn pause(&mut self, client: usize, span: u64) {
        let leader = (0..self.clients.len()).find(|one| self.clients[*one].is_valid(self.now));
        let client = leader.filter(|_| self.random.chance(500)).unwrap_or(client);
        if self.clients[client].election.is_some() && self.clients[client].paused.is_none() {
            self.note(|| format!("fault: c{client:05} pauses"));
            self.clients[client].paused = Some(Vec::new());
            self.at(self.now + span, What::Resume(client));
            if self.random.chance(300) {
                // Answers wait in the process, and it cannot ask again when it continues.
                let answered = self.random.below(self.timing.ttl.0 / 4);
                self.at(self.now + answered, What::Cut(client, self.timing.ttl.0 * 2));
            }
        }
    }

    pub(super) fn partition(&mut self, client: usize, span: u64) {
        self.note(|| format!("fault: c{client:05} is cut off"));
        self.clients[client].cut_until = self.now + span;
        let targets: Vec<Target> = self
            .watches
            .iter()
            .filter(|(_, watches)| watches.contains_key(&client))
            .map(|(target, _)| *target)
            .collect();
        targets.into_iter().for_each(|target| self.fail_watch(client, target));
    }

    pub(super) fn restart_store(&mut self, span: u64) {
        self.note(|| "fault: the store restarts".to_owned());
        self.store_up_at = self.now + span;
        let broken = self.watches.iter().flat_map(|(target, watches)| watches.keys().map(|client| (*client, *target)));
        let broken: Vec<(usize, Target)> = broken.collect();
        broken.into_iter().for_each(|(client, target)| self.fail_watch(client, target));
    }

    /// An operator removes a candidate's record, or its lease is revoked.
    ///
    /// Never the lease of a leader: ending it would remove the protection against a second leader, in every store.
    pub(super) fn end_a_lease(&mut self) {
        let index = self.random.below(16) as usize;
        let leader = self.store.read(Target::Leader).and_then(|entry| Leader::decode(&entry.value).ok());
        if let Some(lease) = self.store.lease_at(index).filter(|lease| leader.is_none_or(|one| one.lease != *lease)) {
            self.note(|| format!("fault: lease {lease} is withdrawn"));
            self.store.withdraw(lease);
            self.changed(Target::Lease(lease));
        }
    }

    /// An operator asks the leader to resign, or raises the epoch.
    pub(super) fn operator(&mut self) {
        let Some(entry) = self.store.read(Target::Leader) else { return };
        let Ok(mut record) = Leader::decode(&entry.value) else { return };
        if self.random.chance(500) {
            record.request = Some(ResignRequest { to: None });
        } else {
            record.epoch_floor = record.token.epoch() + 1;
        }
        self.note(|| "fault: an operator changes the leader record".to_owned());
        let (record, expected) = (record.encode(), Some(entry.revision));
        self.store.swap(Swap { record: Plain::Leader, expected, value: record, gone: None, alive: None });
        self.changed(Target::Leader);
    }
}
