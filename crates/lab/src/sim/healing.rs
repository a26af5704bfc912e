//! The liveness phase: all faults end, everything is started, and within a bound everything must work again.

use pole_election::Proposal;
use pole_zab::Phase;

use super::hosts::Death;
use super::world::World;
use super::{MS, SECOND};

impl World {
    /// Ends all faults and waits: for a leader that all servers serve under, for every request under way, and for
    /// equal states. What is not so in time is a failure.
    pub fn run_healing_phase(&mut self) {
        if self.report.failure.is_some() {
            return;
        }
        if let Err(failure) = self.heal() {
            return self.fails(failure);
        }
        let begun = self.now;
        if !self.runs_until_so(HEALED_WITHIN, Self::all_serve) {
            return self.fails_to(HEALED_WITHIN, "serve");
        }
        self.report.healed_after = self.now - begun;
        let writes = self.writes();
        let is_empty = self.clients.is_empty() && self.guests.is_empty();
        let writes_go_on = |world: &Self| is_empty || world.writes() > writes + 20;
        if !self.runs_until_so(WRITES_WITHIN, writes_go_on) {
            return self.fails_to(WRITES_WITHIN, "take writes");
        }
        self.draining = true;
        if !self.runs_until_so(DRAINED_WITHIN, |world| world.all_serve() && world.all_is_done()) {
            return self.fails_to(DRAINED_WITHIN, "answer and apply all");
        }
        self.elect_once_more();
    }

    /// An election in which everything is timely: the leader is killed, the others hear of it at once. Whoever wins must
    /// have the best score of all that took part.
    fn elect_once_more(&mut self) {
        let Some(leader) = self.leader().filter(|_| self.report.failure.is_none()) else { return };
        self.elected.clear();
        self.kill(leader);
        if !self.runs_until_so(HEALED_WITHIN, |world| world.all_but_serve(leader)) {
            return self.fails_to(HEALED_WITHIN, "serve after one more election");
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
            self.fails(format!("in a timely election {winner} won over {better}"));
        }
    }

    /// The end of all faults.
    pub(crate) fn heal(&mut self) -> Result<(), String> {
        self.trace.line(self.now, 0, format_args!("all faults end"));
        self.weather.over = true;
        self.network.settings.lost_per_mille = 0;
        self.network.settings.doubled_per_mille = 0;
        self.network.settings.broken_per_100k = 0;
        self.network.settings.fins_lost_per_mille = 0;
        let servers = self.hosts.len();
        for (from, to) in (0..servers).flat_map(|a| (0..servers).map(move |b| (a, b))) {
            while self.network.is_blocked(from, to) {
                for (link, end, at, message) in self.network.unblock(from, to, self.now) {
                    let generation = self.network.links[link].generation;
                    self.queue.push(at, super::world::Happening::Arrives { link, end, generation, message });
                }
            }
        }
        for server in 0..servers {
            if self.hosts[server].disk.hangs_until() == u64::MAX {
                self.dies(server, Death::Killed);
            }
            let host = &mut self.hosts[server];
            host.dies_at = None;
            host.disk.mend();
            host.disk.set_fsync(self.setup.disk.fsync);
            host.step_cost = self.setup.step_cost;
            self.resumes(server)?;
            self.start(server)?;
        }
        Ok(())
    }

    fn runs_until_so(&mut self, within: u64, so: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + within;
        while self.now < end && self.report.failure.is_none() {
            self.run_until(self.now + 10 * MS);
            if so(self) {
                return true;
            }
        }
        // A failure of another kind has been told already.
        self.report.failure.is_some()
    }

    fn fails_to(&mut self, within: u64, what: &str) {
        if self.report.failure.is_some() {
            return;
        }
        let states: Vec<_> = self.hosts.iter().enumerate().map(|(s, _)| self.describe(s)).collect();
        self.fails(format!("{} s after the end of all faults not all {what}: {}", within / SECOND, states.join("; ")));
    }

    /// Whether one leader is established and everyone serves under it.
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

    /// Whether every client has its answers and every server the whole history.
    fn all_is_done(&self) -> bool {
        let last = self.judge.history.last();
        self.clients.iter().all(|client| client.is_idle())
            && self.guests.iter().all(|guest| guest.is_idle())
            && self
                .hosts
                .iter()
                .all(|host| host.node.as_ref().is_some_and(|n| n.applied() == last && n.zab().log().last() == last))
    }

    /// A server in few words.
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

/// Longer than any patience of a server: `initLimit`, and a few rounds of elections after it.
const HEALED_WITHIN: u64 = 25 * SECOND;
/// Longer than the patience of a client whose server lost its power and said nothing.
const WRITES_WITHIN: u64 = 20 * SECOND;
/// Longer than the patience of a client.
const DRAINED_WITHIN: u64 = 20 * SECOND;
