//! The hands of whoever drives a world from outside: a script, a benchmark, a test.

use pole_election::{ServerId, Zxid};
use pole_node::Event;

use super::hosts::{Death, Host};
use super::world::World;

impl World {
    /// The virtual time, in nanoseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// What went wrong, if anything did.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.report.failure.as_deref()
    }

    /// The end of the committed history.
    #[must_use]
    pub fn last_committed(&self) -> Zxid {
        self.judge.history.last()
    }

    /// The end of the log of a server that runs.
    #[must_use]
    pub fn last_logged(&self, server: usize) -> Option<Zxid> {
        Some(self.hosts.get(server)?.node.as_ref()?.zab().log().last())
    }

    /// Kills the process of a server: its connections are reset. It stays down until it is started.
    pub fn kill(&mut self, server: usize) {
        self.dies(server, Death::Killed);
    }

    /// Takes the power from a server: nobody hears of it.
    pub fn power_off(&mut self, server: usize) {
        self.dies(server, Death::Silent);
    }

    /// Starts a server that is down.
    pub fn start_again(&mut self, server: usize) {
        if let Err(failure) = self.start(server) {
            self.fails(failure);
        }
    }

    /// Stops a process where it stands.
    pub fn pause(&mut self, server: usize) {
        self.hosts[server].paused = true;
    }

    /// Lets a process go on.
    pub fn resume(&mut self, server: usize) {
        if let Err(failure) = self.resumes(server) {
            self.fails(failure);
        }
    }

    /// How much larger than their content writes are from now on.
    pub fn set_payload(&mut self, bytes: usize) {
        self.setup.payload_bytes = bytes;
    }

    /// Runs until somebody decides that it leads: who, and when.
    ///
    /// # Errors
    /// If that takes longer than `limit`, or something goes wrong.
    pub fn first_leader(&mut self, limit: u64) -> Result<(u64, u64), String> {
        self.run_while(limit, |world| world.hosts.iter().all(|host| !host.leads()))?;
        let leader = self.hosts.iter().position(Host::leads).ok_or("nobody leads")?;
        Ok((leader as u64 + 1, self.now))
    }

    /// Runs until a write is committed in a later epoch than any before: when.
    ///
    /// # Errors
    /// If that takes longer than `limit`, or something goes wrong.
    pub fn first_commit(&mut self, limit: u64) -> Result<u64, String> {
        self.run_while(limit, |world| {
            let epoch = world.leader().and_then(|leader| world.epoch_of(leader));
            epoch.is_none_or(|epoch| world.last_committed().epoch() < epoch)
        })?;
        Ok(self.now)
    }

    fn run_while(&mut self, limit: u64, goes_on: impl Fn(&Self) -> bool) -> Result<(), String> {
        let until = self.now + limit;
        while goes_on(self) {
            if let Some(failure) = self.failure() {
                return Err(failure.to_owned());
            }
            if !self.next(until) {
                return Err(format!("not within {} s", limit / super::SECOND));
            }
        }
        Ok(())
    }

    /// Asks a server to hand over.
    pub fn transfer(&mut self, server: usize, to: Option<u64>) {
        self.tell(server, Event::Transfer { to: to.map(ServerId) });
    }

    /// Messages of elections that were sent so far: proposals and votes.
    #[must_use]
    pub fn election_messages(&self) -> u64 {
        ["P", "V"].iter().filter_map(|name| self.report.messages.get(name)).sum()
    }

    /// Whether one leader is established and everyone but `server` serves under it.
    #[must_use]
    pub fn all_but_serve(&self, server: usize) -> bool {
        let Some(leader) = self.leader() else { return false };
        let epoch = self.hosts[leader].node.as_ref().and_then(|n| n.zab().serving_epoch());
        self.hosts.iter().enumerate().filter(|(s, _)| *s != server).all(|(_, host)| {
            host.node.as_ref().is_some_and(|n| {
                n.zab().serving_epoch() == epoch && n.zab().leader().is_some_and(|l| l.0 == leader as u64 + 1)
            })
        })
    }
}
