//! Fault injection: which fault happens when, on which server, and when it ends.

use pole_node::Event;
use pole_types::{Membership, ServerId, Voters};
use pole_zab::Phase;

use super::checker::CheckResult;
use super::disk::CrashPoint;
use super::hosts::CrashKind;
use super::network::LinkId;
use super::world::{SimEvent, World};
use super::{MS, Mark, SECOND};
use crate::Rng;
use crate::scripting::id;

/// The kinds of faults that a setup may enable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A process is killed; its connections are reset.
    Kill,
    /// A machine loses power; its peers are not notified.
    PowerLoss,
    /// A process is killed at a chosen point of its work.
    KillAt,
    /// Several machines lose power at once.
    Blackout,
    /// A process is paused for a while.
    Pause,
    /// A clock jumps ahead.
    ClockJump,
    /// Every step of a server takes long.
    Slow,
    /// The ensemble is partitioned into two parts.
    Split,
    /// Messages between one server and some others are blocked in one direction.
    OneWay,
    /// Two servers cannot reach each other.
    Cut,
    /// Two parts of the ensemble cannot reach each other, and one server reaches both.
    Bridge,
    /// A connection breaks.
    Break,
    /// A connection breaks at one end only. The other end takes it for open until the next connection replaces it or
    /// the transport timeout passes.
    HalfOpen,
    /// A sync fails.
    DiskFails,
    /// A sync hangs.
    DiskHangs,
    /// Syncs are slow.
    DiskSlow,
    /// A fault hits a server right when it enters a phase of the agreement: most phases are too short to be hit by
    /// chance.
    Ambush,
    /// A follower loses its whole disk while all other servers are healthy.
    Wipe,
    /// An operator asks for another leader. Not a fault, but it must be safe during faults.
    Transfer,
    /// An operator changes the members of the ensemble, likewise. Only in runs whose setup allows it.
    ChangeMembers,
}

impl FaultKind {
    /// All kinds that need no particular setup.
    pub const ALL: &[Self] = &[
        Self::Kill,
        Self::PowerLoss,
        Self::KillAt,
        Self::Blackout,
        Self::Pause,
        Self::ClockJump,
        Self::Slow,
        Self::Split,
        Self::OneWay,
        Self::Cut,
        Self::Bridge,
        Self::Break,
        Self::HalfOpen,
        Self::DiskFails,
        Self::DiskHangs,
        Self::DiskSlow,
        Self::Ambush,
        Self::Wipe,
        Self::Transfer,
    ];
}

/// The end of a fault.
#[derive(Clone, Debug)]
pub(crate) enum FaultEnd {
    Resume {
        server: usize,
        boot: u32,
    },
    Speed {
        server: usize,
    },
    Unblock(Vec<(usize, usize)>),
    Fsync {
        server: usize,
    },
    /// Cancels a crash at a point that the server never reached.
    Spare {
        server: usize,
    },
}

/// Draws the random faults of a run.
#[derive(Debug)]
pub(crate) struct FaultGenerator {
    pub(crate) rng: Rng,
    /// No new faults are injected.
    pub(crate) over: bool,
    /// The fault that hits the next server to enter this phase.
    ambush: Option<(Phase, FaultKind)>,
}

impl FaultGenerator {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng, over: false, ambush: None }
    }
}

impl World {
    /// Injects the next fault and schedules the one after it.
    pub(crate) fn fault(&mut self) -> CheckResult {
        if self.faults.over {
            return Ok(());
        }
        let kind = *self.faults.rng.pick(&self.setup.faults);
        let server = self.victim();
        self.report.faults += 1;
        self.trace.line(self.now, server + 1, format_args!("FAULT {kind:?}"));
        self.inject(kind, server)?;
        let wait = self.faults.rng.spread(self.setup.fault_every);
        self.queue.push(self.now + wait, SimEvent::Fault);
        Ok(())
    }

    /// Half of the time the leader, if there is one; otherwise any server.
    fn victim(&mut self) -> usize {
        let any = self.faults.rng.below(self.hosts.len() as u64) as usize;
        let leader = self.faults.rng.per_mille(500);
        if leader { self.leader().unwrap_or(any) } else { any }
    }

    /// Injects a fault on a server.
    pub(crate) fn inject(&mut self, kind: FaultKind, server: usize) -> CheckResult {
        let lasts = self.faults.rng.spread(1_500 * MS) + 50 * MS;
        match kind {
            FaultKind::Kill => self.crash_and_restart(server, CrashKind::Killed),
            FaultKind::PowerLoss => self.crash_and_restart(server, CrashKind::Silent),
            FaultKind::KillAt => {
                // The same point for all affected servers: half of an ensemble crashing at the same step is a hard
                // case.
                let point = *self.faults.rng.pick(&CrashPoint::ALL);
                for other in 0..self.hosts.len() {
                    if other == server || self.faults.rng.per_mille(250) {
                        self.trace.line(self.now, other + 1, format_args!("will die at {point:?}"));
                        self.hosts[other].crash_point = Some(point);
                        self.queue.push(self.now + lasts, SimEvent::FaultEnds(FaultEnd::Spare { server: other }));
                    }
                }
            }
            FaultKind::Blackout => {
                let crash = *self.faults.rng.pick(&[CrashKind::Killed, CrashKind::Silent]);
                if self.faults.rng.per_mille(300) {
                    self.crash_all(crash);
                    return Ok(());
                }
                for other in 0..self.hosts.len() {
                    if other == server || self.faults.rng.per_mille(600) {
                        self.crash_and_restart(other, crash);
                    }
                }
            }
            FaultKind::Pause => {
                self.hosts[server].paused = true;
                self.mark_fault(server);
                let boot = self.hosts[server].boot;
                self.queue.push(self.now + lasts, SimEvent::FaultEnds(FaultEnd::Resume { server, boot }));
            }
            FaultKind::ClockJump => {
                let by = self.faults.rng.between(10, 8_000) * MS;
                self.jump_clock(server, by);
                self.mark_fault(server);
            }
            FaultKind::Slow => {
                self.hosts[server].step_cost = self.faults.rng.between(1, 20) * MS / 4;
                self.mark_fault(server);
                self.queue.push(self.now + lasts, SimEvent::FaultEnds(FaultEnd::Speed { server }));
            }
            FaultKind::Split => {
                let directions = self.split(server);
                self.block_directions(directions, lasts);
            }
            FaultKind::OneWay => {
                let directions = self.one_way(server);
                self.block_directions(directions, lasts);
            }
            FaultKind::Cut => {
                let directions = self.cut(server);
                self.block_directions(directions, lasts);
            }
            FaultKind::Bridge => {
                let directions = self.bridge(server);
                self.block_directions(directions, lasts);
            }
            FaultKind::Break => self.break_one(server)?,
            FaultKind::HalfOpen => self.half_open_one(server)?,
            FaultKind::DiskFails => {
                self.hosts[server].disk.fail();
                self.mark_fault(server);
            }
            FaultKind::DiskHangs => {
                let until = if self.faults.rng.per_mille(800) { self.now + lasts } else { u64::MAX };
                self.hosts[server].disk.hang(until);
                self.mark_fault(server);
                if until == u64::MAX {
                    // An operator restarts it in the end.
                    self.queue.push(self.now + 4 * SECOND, SimEvent::FaultEnds(FaultEnd::Fsync { server }));
                }
            }
            FaultKind::DiskSlow => {
                let fsync = self.faults.rng.between(5, 120) * MS;
                self.hosts[server].disk.set_fsync(fsync);
                self.mark_fault(server);
                self.queue.push(self.now + lasts, SimEvent::FaultEnds(FaultEnd::Speed { server }));
            }
            FaultKind::Ambush => {
                let kind = *self.faults.rng.pick(&AMBUSH_FAULTS);
                let phase = *self.faults.rng.pick(&AMBUSH_PHASES);
                self.trace.line(self.now, 0, format_args!("{kind:?} will hit the next server that is {phase:?}"));
                self.faults.ambush = Some((phase, kind));
                // Without a leader change no server enters any phase.
                if self.faults.rng.per_mille(700) {
                    let nudge = *self.faults.rng.pick(&[FaultKind::Kill, FaultKind::Transfer, FaultKind::Break]);
                    let server = self.leader().unwrap_or(server);
                    return self.inject(nudge, server);
                }
            }
            FaultKind::ChangeMembers => self.change_members(),
            FaultKind::Wipe => self.wipe(server),
            FaultKind::Transfer => {
                let to = self.faults.rng.between(0, self.hosts.len() as u64);
                self.deliver_event(server, Event::Transfer { to: (to > 0).then_some(ServerId(to)) });
            }
        }
        Ok(())
    }

    /// A server has entered a phase: triggers the ambush that is set for it, if any.
    pub(crate) fn entered(&mut self, server: usize, phase: Phase) {
        if let Some((_, kind)) = self.faults.ambush.take_if(|(ambush_phase, _)| *ambush_phase == phase) {
            let reach = *self.faults.rng.pick(&[1, MS / 5, 2 * MS, 20 * MS]);
            let wait = self.faults.rng.below(reach);
            self.queue.push(self.now + wait, SimEvent::Strike { server, kind });
        }
    }

    pub(crate) fn strike(&mut self, server: usize, kind: FaultKind) -> CheckResult {
        if self.faults.over {
            return Ok(());
        }
        self.report.faults += 1;
        self.report.marks.hit(Mark::Ambushed);
        self.trace.line(self.now, server + 1, format_args!("FAULT {kind:?} (ambush)"));
        self.inject(kind, server)
    }

    /// Crashes a server and schedules its restart.
    fn crash_and_restart(&mut self, server: usize, crash: CrashKind) {
        self.crash(server, crash);
        let wait = self.faults.rng.spread(1_500 * MS) + 5 * MS;
        self.queue.push(self.now + wait, SimEvent::Start(server));
    }

    /// Crashes all servers. Those with the shortest logs restart first, just enough of them to elect.
    fn crash_all(&mut self, crash: CrashKind) {
        (0..self.hosts.len()).for_each(|server| self.crash(server, crash));
        let mut order: Vec<_> = (0..self.hosts.len()).collect();
        order.sort_by_key(|server| (self.hosts[*server].disk.durable.last(), *server));
        for (place, server) in order.into_iter().enumerate() {
            let late = place > self.hosts.len() / 2;
            let wait = if late { self.faults.rng.between(300, 3_000) } else { self.faults.rng.between(5, 50) };
            self.queue.push(self.now + wait * MS, SimEvent::Start(server));
        }
    }

    /// Erases a disk. Zab tolerates that only while no election is open: a promise that is forgotten while a candidate
    /// counts on it is broken. So all servers must serve in one epoch, and the victim must not lead. Without a quorum of
    /// the other voters the history is lost for good, and no server may lead.
    fn wipe(&mut self, server: usize) {
        if self.all_serve() && self.leader() != Some(server) && self.is_spare(server) {
            self.crash_and_restart(server, CrashKind::Killed);
            self.hosts[server].disk.wipe();
            self.checker.wiped(server);
            self.report.marks.hit(Mark::Wiped);
            if self.faults.rng.per_mille(500) {
                self.crash_all(CrashKind::Killed);
            }
        }
    }

    /// Whether the voters other than this server are a quorum, by the members that any server knows.
    fn is_spare(&self, server: usize) -> bool {
        let known = self.hosts.iter().filter_map(|host| host.node.as_ref()).map(|node| node.zab().members());
        let others = |voters: &Voters| voters.is_quorum(voters.iter().filter(|voter| *voter != id(server)));
        known.map(Membership::voters).all(others)
    }

    /// The directions to block for a random partition around `server`.
    fn split(&mut self, server: usize) -> Vec<(usize, usize)> {
        let servers = self.hosts.len();
        let side: Vec<_> = (0..servers).map(|s| s == server || self.faults.rng.per_mille(400)).collect();
        pairs(servers).filter(|(a, b)| side[*a] != side[*b]).collect()
    }

    /// Some of the directions from a server, or to it.
    fn one_way(&mut self, server: usize) -> Vec<(usize, usize)> {
        let out = self.faults.rng.per_mille(500);
        let others = (0..self.hosts.len()).filter(|s| *s != server);
        let hit: Vec<_> = others.filter(|_| self.faults.rng.per_mille(700)).collect();
        hit.into_iter().map(|other| if out { (server, other) } else { (other, server) }).collect()
    }

    /// Both directions between `server` and one other server.
    fn cut(&mut self, server: usize) -> Vec<(usize, usize)> {
        let servers = self.hosts.len();
        let other = (server + 1 + self.faults.rng.below(servers as u64 - 1) as usize) % servers;
        vec![(server, other), (other, server)]
    }

    /// Both directions between two random parts of all servers but this one.
    fn bridge(&mut self, server: usize) -> Vec<(usize, usize)> {
        let servers = self.hosts.len();
        let side: Vec<_> = (0..servers).map(|_| self.faults.rng.per_mille(500)).collect();
        pairs(servers).filter(|(a, b)| *a != server && *b != server && side[*a] != side[*b]).collect()
    }

    fn block_directions(&mut self, directions: Vec<(usize, usize)>, lasts: u64) {
        for (from, to) in &directions {
            self.network.block(*from, *to);
            self.mark_fault(*from);
            self.mark_fault(*to);
        }
        self.trace.line(self.now, 0, format_args!("blocked for {} ms: {directions:?} (counting from 0)", lasts / MS));
        self.queue.push(self.now + lasts, SimEvent::FaultEnds(FaultEnd::Unblock(directions)));
    }

    fn break_one(&mut self, server: usize) -> CheckResult {
        match self.some_connection(server) {
            Some(link) => {
                let generation = self.network.links[link].generation;
                self.breaks(link, generation)
            }
            None => Ok(()),
        }
    }

    fn half_open_one(&mut self, server: usize) -> CheckResult {
        match self.some_connection(server) {
            Some(link) => {
                self.report.marks.hit(Mark::HalfOpen);
                let end = usize::from(self.faults.rng.per_mille(500));
                self.breaks_at(link, end)
            }
            None => Ok(()),
        }
    }

    /// A random open connection of a server. Marks both ends as faulty, since the caller is about to break it.
    fn some_connection(&mut self, server: usize) -> Option<LinkId> {
        let links = self.network.links.len() as u64;
        let any = self.faults.rng.below(links) as usize;
        let link = (any..any + links as usize)
            .map(|l| l % links as usize)
            .find(|l| self.network.links[*l].ends.contains(&server) && self.network.links[*l].up);
        let [a, b] = self.network.links[link?].ends;
        self.mark_fault(a);
        self.mark_fault(b);
        link
    }

    pub(crate) fn mark_fault(&mut self, server: usize) {
        self.hosts[server].last_fault = self.now;
    }

    /// Ends a fault. Now and then another one begins at the same moment, before the servers have recovered.
    pub(crate) fn end_fault(&mut self, fault: FaultEnd) -> CheckResult {
        if !self.faults.over && self.faults.rng.per_mille(FOLLOWED_PER_MILLE) {
            let (server, kind) = (self.victim(), *self.faults.rng.pick(&AMBUSH_FAULTS));
            self.queue.push(self.now, SimEvent::Strike { server, kind });
        }
        self.trace.line(self.now, 0, format_args!("mended: {fault:?}"));
        match fault {
            FaultEnd::Resume { server, boot } => {
                if self.hosts[server].boot == boot {
                    self.resume_process(server)?;
                }
            }
            FaultEnd::Speed { server } => {
                self.hosts[server].step_cost = self.setup.step_cost;
                self.hosts[server].disk.set_fsync(self.setup.disk.fsync);
                self.mark_fault(server);
            }
            FaultEnd::Unblock(directions) => {
                for (from, to) in directions {
                    self.mark_fault(from);
                    self.mark_fault(to);
                    for (link, end, at, message) in self.network.unblock(from, to, self.now) {
                        let generation = self.network.links[link].generation;
                        self.queue.push(at, SimEvent::Arrives { link, end, generation, message });
                    }
                }
            }
            FaultEnd::Fsync { server } => {
                if self.hosts[server].disk.hangs_until() == u64::MAX {
                    self.crash_and_restart(server, CrashKind::Killed);
                }
            }
            FaultEnd::Spare { server } => {
                self.hosts[server].crash_point = None;
                if self.is_down(server) {
                    self.queue.push(self.now, SimEvent::Start(server));
                }
            }
        }
        Ok(())
    }
}

/// How often the end of a fault is the beginning of another.
const FOLLOWED_PER_MILLE: u64 = 200;

/// The faults that an ambush may use, and those that begin when another ends.
const AMBUSH_FAULTS: [FaultKind; 10] = [
    FaultKind::Kill,
    FaultKind::PowerLoss,
    FaultKind::Blackout,
    FaultKind::Pause,
    FaultKind::Pause,
    FaultKind::Split,
    FaultKind::OneWay,
    FaultKind::Cut,
    FaultKind::Bridge,
    FaultKind::DiskHangs,
];

/// The phases in which an ambush may hit.
const AMBUSH_PHASES: [Phase; 9] = [
    Phase::Promised,
    Phase::Joining,
    Phase::TakingOver,
    Phase::Serving,
    Phase::Gathering,
    Phase::Promising,
    Phase::Pulling,
    Phase::Synchronising,
    Phase::Established,
];

fn pairs(servers: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..servers).flat_map(move |a| (0..servers).map(move |b| (a, b))).filter(|(a, b)| a != b)
}
