//! The interface through which benchmarks, tests and the story control a world.

use pole_node::Event;
use pole_types::{ServerId, Zxid};

use super::hosts::{CrashKind, Host};
use super::world::World;

impl World {
    /// The virtual time, in nanoseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The first invariant violation, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.report.failure.as_deref()
    }

    /// The last position of the committed history.
    #[must_use]
    pub fn last_committed(&self) -> Zxid {
        self.checker.history.last()
    }

    /// The last position in the log of a running server, durable or not.
    #[must_use]
    pub fn last_logged(&self, server: usize) -> Option<Zxid> {
        Some(self.hosts.get(server)?.node.as_ref()?.zab().log().last())
    }

    /// Kills the process of a server and resets its connections. It stays down until it is started again.
    pub fn kill(&mut self, server: usize) {
        self.crash(server, CrashKind::Killed);
    }

    /// Cuts the power of a server. Its peers are not notified.
    pub fn power_off(&mut self, server: usize) {
        self.crash(server, CrashKind::Silent);
    }

    /// Starts a server that is down.
    pub fn start_again(&mut self, server: usize) {
        if let Err(failure) = self.start(server) {
            self.fail(failure);
        }
    }

    /// Pauses a process.
    pub fn pause(&mut self, server: usize) {
        self.hosts[server].paused = true;
    }

    /// Resumes a paused process.
    pub fn resume(&mut self, server: usize) {
        if let Err(failure) = self.resume_process(server) {
            self.fail(failure);
        }
    }

    /// Sets the padding of all later writes.
    pub fn set_payload(&mut self, bytes: usize) {
        self.setup.payload_bytes = bytes;
    }

    /// Runs until a server is elected, established or not. Returns its id and the time.
    ///
    /// # Errors
    /// If that takes longer than `limit`, or something goes wrong.
    pub fn first_leader(&mut self, limit: u64) -> Result<(u64, u64), String> {
        self.run_while(limit, |world| world.hosts.iter().all(|host| !host.leads()))?;
        let leader = self.hosts.iter().position(Host::leads).ok_or("nobody leads")?;
        Ok((leader as u64 + 1, self.now))
    }

    /// Runs until the present leader has committed a transaction of its own epoch. Returns the time.
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

    fn run_while(&mut self, limit: u64, condition: impl Fn(&Self) -> bool) -> Result<(), String> {
        let until = self.now + limit;
        while condition(self) {
            if let Some(failure) = self.failure() {
                return Err(failure.to_owned());
            }
            if !self.next(until) {
                return Err(format!("not within {} s", limit / super::SECOND));
            }
        }
        Ok(())
    }

    /// Asks a server to hand its leadership over.
    pub fn transfer(&mut self, server: usize, to: Option<u64>) {
        self.deliver_event(server, Event::Transfer { to: to.map(ServerId) });
    }

    /// The number of election messages (proposals and votes) sent so far.
    #[must_use]
    pub fn election_messages(&self) -> u64 {
        ["P", "V"].iter().filter_map(|name| self.report.messages.get(name)).sum()
    }

    /// Whether one leader is established and every server but `server` serves under it.
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
