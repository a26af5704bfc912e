//! The liveness phase: all faults end, all servers are started, and the ensemble must recover within a bound.

use pole_election::Proposal;
use pole_zab::Phase;

use super::hosts::CrashKind;
use super::scripting::id;
use super::world::World;
use super::{MS, SECOND};

impl World {
    /// Ends all faults, then waits for a leader under which all servers serve, for new writes, and for all pending
    /// requests and equal states. Exceeding a time limit is a failure.
    pub fn run_liveness_phase(&mut self) {
        if self.report.failure.is_some() {
            return;
        }
        if let Err(failure) = self.end_faults() {
            return self.fail(failure);
        }
        let begun = self.now;
        if !self.poll_until(RECOVERED_WITHIN, Self::all_serve) {
            return self.fail_liveness(RECOVERED_WITHIN, "serve");
        }
        self.report.recovered_after = self.now - begun;
        let writes = self.writes();
        let is_empty = self.clients.is_empty() && self.sim_clients.is_empty();
        let writes_go_on = |world: &Self| is_empty || world.writes() > writes + 20;
        if !self.poll_until(WRITES_WITHIN, writes_go_on) {
            return self.fail_liveness(WRITES_WITHIN, "take writes");
        }
        self.draining = true;
        if !self.poll_until(DRAINED_WITHIN, |world| world.all_serve() && world.all_done()) {
            return self.fail_liveness(DRAINED_WITHIN, "answer and apply all");
        }
        self.check_timely_election();
    }

    /// Checks an election in which every message is timely: the leader is killed and the others notice at once. The
    /// winner must have the best score of all participants.
    fn check_timely_election(&mut self) {
        let Some(leader) = self.leader().filter(|_| self.report.failure.is_none()) else { return };
        let voters = self.setup.members.voters();
        if !voters.is_quorum(voters.iter().filter(|voter| *voter != id(leader))) {
            return; // its vote weighs so much that the others cannot go on without it
        }
        self.elected.clear();
        self.kill(leader);
        if !self.poll_until(RECOVERED_WITHIN, |world| world.all_but_serve(leader)) {
            return self.fail_liveness(RECOVERED_WITHIN, "serve after one more election");
        }
        let Some(new) = self.leader().and_then(|new| self.elected.get(&new)) else { return };
        let decided = (new.round, new.winner);
        let records = self.elected.values().filter(|r| (r.round, r.winner) == decided && r.failed_rounds == 0);
        let proposals: Vec<_> = records.flat_map(|r| &r.proposals).filter(|p| p.able).map(|p| &p.proposal).collect();
        let Some(winner) = proposals.iter().find(|p| p.id == decided.1) else { return };
        let comparable = |p: &&&Proposal| (p.version, p.fingerprint) == (winner.version, winner.fingerprint);
        let better = proposals.iter().filter(comparable).find(|p| p.rank < winner.rank);
        if let Some(better) = better {
            let (winner, better) =
                (format!("{} {:?}", winner.id, winner.rank), format!("{} {:?}", better.id, better.rank));
            self.fail(format!("in a timely election {winner} won over {better}"));
        }
    }

    /// Ends all faults and starts all servers.
    pub(crate) fn end_faults(&mut self) -> Result<(), String> {
        self.trace.line(self.now, 0, format_args!("all faults end"));
        self.faults.over = true;
        self.network.settings.lost_per_mille = 0;
        self.network.settings.doubled_per_mille = 0;
        self.network.settings.broken_per_100k = 0;
        self.network.settings.fins_lost_per_mille = 0;
        let servers = self.hosts.len();
        for (from, to) in (0..servers).flat_map(|a| (0..servers).map(move |b| (a, b))) {
            while self.network.is_blocked(from, to) {
                for (link, end, at, message) in self.network.unblock(from, to, self.now) {
                    let generation = self.network.links[link].generation;
                    self.queue.push(at, super::world::SimEvent::Arrives { link, end, generation, message });
                }
            }
        }
        for server in 0..servers {
            if self.hosts[server].disk.hangs_until() == u64::MAX {
                self.crash(server, CrashKind::Killed);
            }
            let host = &mut self.hosts[server];
            host.crash_point = None;
            host.disk.repair();
            host.disk.set_fsync(self.setup.disk.fsync);
            host.step_cost = self.setup.step_cost;
            self.resume_process(server)?;
            self.start(server)?;
        }
        Ok(())
    }

    fn poll_until(&mut self, within: u64, condition: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + within;
        while self.now < end && self.report.failure.is_none() {
            self.run_until(self.now + 10 * MS);
            if condition(self) {
                return true;
            }
        }
        // A failure of another kind has been reported already.
        self.report.failure.is_some()
    }

    fn fail_liveness(&mut self, within: u64, what: &str) {
        if self.report.failure.is_some() {
            return;
        }
        let states: Vec<_> = self.hosts.iter().enumerate().map(|(s, _)| self.describe(s)).collect();
        self.fail(format!("{} s after the end of all faults not all {what}: {}", within / SECOND, states.join("; ")));
    }

    /// Whether one leader is established and all servers serve under it.
    #[must_use]
    pub fn all_serve(&self) -> bool {
        let Some(leader) = self.leader() else { return false };
        let epoch = self.hosts[leader].node.as_ref().and_then(|n| n.zab().serving_epoch());
        self.hosts.iter().all(|host| {
            host.node.as_ref().is_some_and(|n| {
                n.zab().serving_epoch() == epoch && n.zab().leader().is_some_and(|l| l.0 == leader as u64 + 1)
            })
        })
    }

    /// Whether every client has its answers and every server has logged and applied the whole history.
    fn all_done(&self) -> bool {
        let last = self.checker.history.last();
        self.clients.iter().all(|client| client.is_idle())
            && self.sim_clients.iter().all(|client| client.is_idle())
            && self
                .hosts
                .iter()
                .all(|host| host.node.as_ref().is_some_and(|n| n.applied() == last && n.zab().log().last() == last))
    }

    /// A summary of a server's state, for failure messages.
    #[must_use]
    pub fn describe(&self, server: usize) -> String {
        let Some(node) = &self.hosts[server].node else { return format!("{} is down", server + 1) };
        let (zab, standing) = (node.zab(), node.zab().standing());
        let role = match (zab.phase() == Phase::Established, zab.leader()) {
            (true, _) => "leads".to_owned(),
            (false, Some(leader)) => format!("{:?} under {leader}", zab.phase()),
            (false, None) => format!("{:?}", zab.phase()),
        };
        format!(
            "{} {role}, epoch {}/{}, last {}, committed {}, applied {}",
            server + 1,
            standing.current_epoch,
            standing.accepted_epoch,
            standing.last_zxid,
            zab.committed(),
            node.applied()
        )
    }
}

/// Longer than any timeout of a server: `initLimit`, then a few election rounds.
const RECOVERED_WITHIN: u64 = 25 * SECOND;
/// Longer than a client waits for a server that lost power.
const WRITES_WITHIN: u64 = 20 * SECOND;
/// Longer than a client waits for an answer.
const DRAINED_WITHIN: u64 = 20 * SECOND;
