//! The processes of one ensemble, as their logs tell of them.
//!
//! In: a plan. Out: who leads, in which epoch and round; or why it cannot go on.
//! Holds: every process ends with this value. Nothing is waited for without a limit, and a signal ends every wait.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::admin::Admin;
use crate::args::Ms;
use crate::failure::{Failure, Kind};
use crate::up::{Child, Happening, Line, Plan};

/// Processes that run.
pub(super) struct Servers<'a> {
    plan: &'a Plan,
    children: BTreeMap<u64, Child>,
    happenings: Receiver<Happening>,
    /// Under whom each serves, and in which epoch.
    serving: BTreeMap<u64, (u64, u64)>,
    /// The round that last made each lead.
    rounds: BTreeMap<u64, u64>,
    /// What each last said outside its log, which is why it ends.
    last_words: BTreeMap<u64, String>,
}

impl<'a> Servers<'a> {
    /// Starts them; they serve when this returns.
    pub(super) fn start(
        plan: &'a Plan,
        tell: &Sender<Happening>,
        happenings: Receiver<Happening>,
    ) -> Result<Self, Failure> {
        let (children, serving, rounds) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut servers = Self { plan, children, happenings, serving, rounds, last_words: BTreeMap::new() };
        for id in plan.ids() {
            servers.children.insert(id, Child::start(plan, id, tell)?);
        }
        servers.wait_until("all servers serve", |servers| servers.leader_of_all().is_some())?;
        Ok(servers)
    }

    /// Makes a server lead, by hand-overs. In turns, it must lead in a round that is 0 mod N, so that the first is next.
    pub(super) fn make_lead(&mut self, last: u64, in_turns: bool) -> Result<(), Failure> {
        for _ in 0..2 * last {
            let (leader, epoch) = self.leader_of_all().ok_or_else(|| Failure::failed("nobody leads at the start"))?;
            let round = self.rounds.get(&leader).copied().unwrap_or_default();
            if leader == last && (!in_turns || round.is_multiple_of(last)) {
                return Ok(());
            }
            let turn = if in_turns { (round + 1) % last } else { 0 };
            let to = if turn == 0 { last } else { turn };
            let to = if to == leader { to % last + 1 } else { to };
            Admin::on_loopback(self.plan.ports(leader).admin).transfer(Some(to), HAND_OVER)?;
            self.wait_until(&format!("all servers serve under {to}"), |servers| {
                servers.leader_of_all().is_some_and(|(_, newer)| newer > epoch)
            })?;
        }
        Err(Failure::failed(format!("server {last} could not be made to lead")))
    }

    /// Lets the time pass.
    pub(super) fn pass(&mut self, until: Instant) -> Result<(), Failure> {
        while self.step(until)? {}
        Ok(())
    }

    /// Ends a process at once, as `kill -9` does.
    pub(super) fn kill(&mut self, id: u64) {
        if let Some(child) = self.children.remove(&id) {
            child.kill();
        }
        self.serving.remove(&id);
    }

    /// Who leads with a quorum behind it.
    pub(super) fn leader(&self) -> Option<u64> {
        let newest = self.serving.values().map(|(_, epoch)| *epoch).max()?;
        let followers = self.serving.values().filter(|(_, epoch)| *epoch == newest);
        let leader = followers.clone().map(|(leader, _)| *leader).next()?;
        let quorum = self.plan.ids().count() / 2 + 1;
        (followers.count() >= quorum && self.serving.contains_key(&leader)).then_some(leader)
    }

    /// What each process that lives takes its disk to need for an fsync, in milliseconds: what its scores contain.
    pub(super) fn disk_ms(&self, asked: u64) -> Result<Vec<f64>, Failure> {
        let scores = Admin::on_loopback(self.plan.ports(asked).admin).scores()?.typed()?;
        let consensus = scores.oracles.iter().find(|(name, _)| name.starts_with("consensus"));
        let servers = consensus.into_iter().flat_map(|(_, scores)| &scores.servers);
        let live = servers.filter(|(id, _)| self.children.contains_key(id));
        Ok(live.filter_map(|(_, score)| score.inputs.get("disk_ms").copied()).collect())
    }

    /// The leader and the epoch under which every process serves.
    fn leader_of_all(&self) -> Option<(u64, u64)> {
        let (leader, epoch) = *self.serving.values().next()?;
        let all = self.serving.len() == self.children.len();
        (all && self.serving.values().all(|under| *under == (leader, epoch))).then_some((leader, epoch))
    }

    fn wait_until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<(), Failure> {
        let deadline = Instant::now() + LIMIT;
        while !is_so(self) {
            if !self.step(deadline)? {
                let (seconds, serving, all) = (LIMIT.as_secs(), self.serving.len(), self.children.len());
                let text =
                    format!("not yet so after {seconds} s: {what} ({serving} of {all} do); is the machine busy?");
                return Err(Failure::new(Kind::NoQuorum, text));
            }
        }
        Ok(())
    }

    /// Takes in what happens next; false at the deadline.
    fn step(&mut self, deadline: Instant) -> Result<bool, Failure> {
        match self.happenings.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Happening::Said { id, line }) => self.said(id, line),
            Ok(Happening::Ended { id }) => self.ended(id)?,
            Ok(Happening::Signal) | Err(RecvTimeoutError::Disconnected) => return Err(interrupted()),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
        }
        Ok(true)
    }

    fn said(&mut self, id: u64, line: Line) {
        match line {
            // The last words of one that was killed.
            _ if !self.children.contains_key(&id) => {}
            Line::Electing => drop(self.serving.remove(&id)),
            Line::Leading { round } => drop(self.rounds.insert(id, round)),
            Line::Serving { leader, epoch } => drop(self.serving.insert(id, (leader, epoch))),
            Line::Plain { text } => drop(self.last_words.insert(id, text)),
            Line::Elected { .. } | Line::Resigning { .. } | Line::Links { .. } | Line::Other => {}
        }
    }

    /// A process has ended: one that we killed, or else the run is over.
    fn ended(&mut self, id: u64) -> Result<(), Failure> {
        let Some(child) = self.children.remove(&id) else { return Ok(()) };
        let status = child.wait();
        let kind = status.code().and_then(Kind::of_exit_code).unwrap_or(Kind::Failed);
        let why = self.last_words.get(&id).map_or("it does not say why", String::as_str);
        Err(Failure::new(kind, format!("{} has ended ({status}): {why}", self.plan.name(id))))
    }
}

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        std::mem::take(&mut self.children).into_values().for_each(Child::kill);
    }
}

/// Somebody wants us to stop.
pub(super) fn interrupted() -> Failure {
    Failure::failed("interrupted; the servers are stopped and nothing is written")
}

/// Servers are ready within a second or two, and hand over within one.
const LIMIT: Duration = Duration::from_secs(30);
const HAND_OVER: Ms = Ms(5_000);
