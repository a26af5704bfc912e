//! The processes of one ensemble, tracked by their logs.
//!
//! Every process ends with this value. Every wait has a limit, and a signal ends it.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::admin::Admin;
use crate::args::Ms;
use crate::failure::{Failure, Kind};
use crate::up::{Child, Event, LogLine, Plan};

pub(super) struct Servers<'a> {
    plan: &'a Plan,
    children: BTreeMap<u64, Child>,
    events: Receiver<Event>,
    /// The leader and the epoch under which each server serves.
    serving: BTreeMap<u64, (u64, u64)>,
    /// The round in which each server last became leader.
    rounds: BTreeMap<u64, u64>,
    /// The last output of each server that was not a log line, which explains why it exits.
    last_output: BTreeMap<u64, String>,
}

impl<'a> Servers<'a> {
    /// Starts the servers and waits until they serve.
    pub(super) fn start(plan: &'a Plan, sender: &Sender<Event>, events: Receiver<Event>) -> Result<Self, Failure> {
        let (children, serving, rounds) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut servers = Self { plan, children, events, serving, rounds, last_output: BTreeMap::new() };
        for id in plan.ids() {
            servers.children.insert(id, Child::start(plan, id, sender)?);
        }
        servers.wait_until("all servers serve", |servers| servers.leader_of_all().is_some())?;
        Ok(servers)
    }

    /// Makes server `last` lead, by hand-overs. With `in_turns` (the rotating oracle), its round must be 0 mod N, so
    /// that server 1 is next.
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

    /// Handles events until a point in time.
    pub(super) fn run_until(&mut self, until: Instant) -> Result<(), Failure> {
        while self.step(until)? {}
        Ok(())
    }

    /// Kills a process, as `kill -9` does.
    pub(super) fn kill(&mut self, id: u64) {
        if let Some(child) = self.children.remove(&id) {
            child.kill();
        }
        self.serving.remove(&id);
    }

    /// The leader that a quorum follows.
    pub(super) fn leader(&self) -> Option<u64> {
        let newest = self.serving.values().map(|(_, epoch)| *epoch).max()?;
        let followers = self.serving.values().filter(|(_, epoch)| *epoch == newest);
        let leader = followers.clone().map(|(leader, _)| *leader).next()?;
        let quorum = self.plan.ids().count() / 2 + 1;
        (followers.count() >= quorum && self.serving.contains_key(&leader)).then_some(leader)
    }

    /// The duration of an fsync in milliseconds as each live server assumes it; it is part of the scores.
    pub(super) fn disk_ms(&self, server: u64) -> Result<Vec<f64>, Failure> {
        let scores = Admin::on_loopback(self.plan.ports(server).admin).scores()?.typed()?;
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

    fn wait_until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) -> Result<(), Failure> {
        let deadline = Instant::now() + LIMIT;
        while !condition(self) {
            if !self.step(deadline)? {
                let (seconds, serving, all) = (LIMIT.as_secs(), self.serving.len(), self.children.len());
                let text =
                    format!("not yet so after {seconds} s: {what} ({serving} of {all} do); is the machine busy?");
                return Err(Failure::new(Kind::NoQuorum, text));
            }
        }
        Ok(())
    }

    /// Handles the next event; false at the deadline.
    fn step(&mut self, deadline: Instant) -> Result<bool, Failure> {
        match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Logged { id, line }) => self.handle_line(id, line),
            Ok(Event::Exited { id }) => self.handle_exit(id)?,
            // Nobody acts on the servers of an experiment.
            Ok(Event::Act { .. } | Event::Tour { .. } | Event::TourOver) => {}
            Ok(Event::Signal) | Err(RecvTimeoutError::Disconnected) => return Err(interrupted()),
            Err(RecvTimeoutError::Timeout) => return Ok(false),
        }
        Ok(true)
    }

    fn handle_line(&mut self, id: u64, line: LogLine) {
        match line {
            // Remaining output of a killed process.
            _ if !self.children.contains_key(&id) => {}
            LogLine::Electing => drop(self.serving.remove(&id)),
            LogLine::Leading { round } => drop(self.rounds.insert(id, round)),
            LogLine::Serving { leader, epoch } => drop(self.serving.insert(id, (leader, epoch))),
            LogLine::Plain { text } => drop(self.last_output.insert(id, text)),
            LogLine::Elected { .. } | LogLine::Resigning { .. } | LogLine::Links { .. } | LogLine::Other => {}
        }
    }

    /// Handles an exit. The run fails, unless the process was killed on purpose.
    fn handle_exit(&mut self, id: u64) -> Result<(), Failure> {
        let Some(child) = self.children.remove(&id) else { return Ok(()) };
        let status = child.wait();
        let kind = status.code().and_then(Kind::of_exit_code).unwrap_or(Kind::Failed);
        let why = self.last_output.get(&id).map_or("it does not say why", String::as_str);
        Err(Failure::new(kind, format!("{} has ended ({status}): {why}", self.plan.name(id))))
    }
}

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        std::mem::take(&mut self.children).into_values().for_each(Child::kill);
    }
}

pub(super) fn interrupted() -> Failure {
    Failure::failed("interrupted; the servers are stopped and nothing is written")
}

/// Servers are ready within a second or two, and hand over within one.
const LIMIT: Duration = Duration::from_secs(30);
const HAND_OVER: Ms = Ms(5_000);
