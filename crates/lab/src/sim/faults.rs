//! What goes wrong, when, with whom, and when it is mended.

use pole_election::ServerId;
use pole_node::Event;
use pole_zab::Phase;

use super::disk::Point;
use super::hosts::Death;
use super::judge::Verdict;
use super::network::LinkId;
use super::world::{Happening, World};
use super::{MS, Mark, SECOND};
use crate::rng::Rng;

/// The kinds of faults that a seed may enable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A process is killed; its connections are reset.
    Kill,
    /// A machine loses power; its peers hear nothing.
    PowerLoss,
    /// A process is killed at a chosen point of its work.
    KillAt,
    /// Several machines lose power at once.
    Blackout,
    /// A process stands still for a while.
    Pause,
    /// A clock jumps ahead.
    ClockJump,
    /// A server takes long for every step.
    Slow,
    /// The ensemble falls into two parts that do not hear each other.
    Split,
    /// Messages of one server to some others vanish.
    OneWay,
    /// Two servers do not hear each other.
    Cut,
    /// A connection breaks.
    Break,
    /// A connection breaks at one end and the other hears nothing: to that one it seems alive until the next connection
    /// takes its place, or for long.
    HalfOpen,
    /// A sync fails.
    DiskFails,
    /// A sync hangs.
    DiskHangs,
    /// Syncs are slow.
    DiskSlow,
    /// Something strikes a server right when it enters a phase of the agreement: most phases are too short to be hit
    /// by chance.
    Ambush,
    /// A follower loses its whole disk while everyone else is well.
    Wipe,
    /// An operator asks for another leader. No fault, but it happens when others do.
    Transfer,
}

impl FaultKind {
    /// All of them.
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

/// What ends a fault.
#[derive(Clone, Debug)]
pub(crate) enum Mending {
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
    /// A server told to die at a point that it never reached is left alone.
    Spare {
        server: usize,
    },
}

/// The source of misfortune.
#[derive(Debug)]
pub(crate) struct Weather {
    pub(crate) rng: Rng,
    /// No new faults.
    pub(crate) over: bool,
    /// What strikes whoever enters which phase next.
    ambush: Option<(Phase, FaultKind)>,
}

impl Weather {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng, over: false, ambush: None }
    }
}

impl World {
    /// The next fault, and when the one after it comes.
    pub(crate) fn fault(&mut self) -> Verdict {
        if self.weather.over {
            return Ok(());
        }
        let kind = *self.weather.rng.pick(&self.setup.faults);
        let server = self.victim();
        self.report.faults += 1;
        self.trace.line(self.now, server + 1, format_args!("FAULT {kind:?}"));
        self.inject(kind, server)?;
        let wait = self.weather.rng.spread(self.setup.fault_every);
        self.queue.push(self.now + wait, Happening::Fault);
        Ok(())
    }

    /// Half of the time the leader, if there is one.
    fn victim(&mut self) -> usize {
        let any = self.weather.rng.below(self.hosts.len() as u64) as usize;
        let leader = self.weather.rng.per_mille(500);
        if leader { self.leader().unwrap_or(any) } else { any }
    }

    /// Lets something go wrong with a server.
    pub(crate) fn inject(&mut self, kind: FaultKind, server: usize) -> Verdict {
        let lasts = self.weather.rng.spread(1_500 * MS) + 50 * MS;
        match kind {
            FaultKind::Kill => self.falls(server, Death::Killed),
            FaultKind::PowerLoss => self.falls(server, Death::Silent),
            FaultKind::KillAt => {
                // One point for all that it hits: half of an ensemble that dies at the same step is a hard case.
                let point = *self.weather.rng.pick(&Point::ALL);
                for other in 0..self.hosts.len() {
                    if other == server || self.weather.rng.per_mille(250) {
                        self.trace.line(self.now, other + 1, format_args!("will die at {point:?}"));
                        self.hosts[other].dies_at = Some(point);
                        self.queue.push(self.now + lasts, Happening::Mended(Mending::Spare { server: other }));
                    }
                }
            }
            FaultKind::Blackout => {
                let death = *self.weather.rng.pick(&[Death::Killed, Death::Silent]);
                if self.weather.rng.per_mille(300) {
                    self.all_fall(death);
                    return Ok(());
                }
                for other in 0..self.hosts.len() {
                    if other == server || self.weather.rng.per_mille(600) {
                        self.falls(other, death);
                    }
                }
            }
            FaultKind::Pause => {
                self.hosts[server].paused = true;
                self.touched(server);
                let boot = self.hosts[server].boot;
                self.queue.push(self.now + lasts, Happening::Mended(Mending::Resume { server, boot }));
            }
            FaultKind::ClockJump => {
                let by = self.weather.rng.between(10, 8_000) * MS;
                self.clock_jumps(server, by);
                self.touched(server);
            }
            FaultKind::Slow => {
                self.hosts[server].step_cost = self.weather.rng.between(1, 20) * MS / 4;
                self.touched(server);
                self.queue.push(self.now + lasts, Happening::Mended(Mending::Speed { server }));
            }
            FaultKind::Split => {
                let ways = self.split(server);
                self.separate(ways, lasts);
            }
            FaultKind::OneWay => {
                let ways = self.one_way(server);
                self.separate(ways, lasts);
            }
            FaultKind::Cut => {
                let ways = self.cut(server);
                self.separate(ways, lasts);
            }
            FaultKind::Break => self.break_one(server)?,
            FaultKind::HalfOpen => self.half_open_one(server)?,
            FaultKind::DiskFails => {
                self.hosts[server].disk.fail();
                self.touched(server);
            }
            FaultKind::DiskHangs => {
                let until = if self.weather.rng.per_mille(800) { self.now + lasts } else { u64::MAX };
                self.hosts[server].disk.hang(until);
                self.touched(server);
                if until == u64::MAX {
                    // Somebody looks at it in the end.
                    self.queue.push(self.now + 4 * SECOND, Happening::Mended(Mending::Fsync { server }));
                }
            }
            FaultKind::DiskSlow => {
                let fsync = self.weather.rng.between(5, 120) * MS;
                self.hosts[server].disk.set_fsync(fsync);
                self.touched(server);
                self.queue.push(self.now + lasts, Happening::Mended(Mending::Speed { server }));
            }
            FaultKind::Ambush => {
                let kind = *self.weather.rng.pick(&STRIKES);
                let phase = *self.weather.rng.pick(&PHASES);
                self.trace.line(self.now, 0, format_args!("{kind:?} will strike whoever is {phase:?} next"));
                self.weather.ambush = Some((phase, kind));
                // Something has to move, or nobody enters any phase.
                if self.weather.rng.per_mille(700) {
                    let nudge = *self.weather.rng.pick(&[FaultKind::Kill, FaultKind::Transfer, FaultKind::Break]);
                    let server = self.leader().unwrap_or(server);
                    return self.inject(nudge, server);
                }
            }
            FaultKind::Wipe => self.wipe(server),
            FaultKind::Transfer => {
                let to = self.weather.rng.between(0, self.hosts.len() as u64);
                self.tell(server, Event::Transfer { to: (to > 0).then_some(ServerId(to)) });
            }
        }
        Ok(())
    }

    /// A server entered a phase: something may wait for it there.
    pub(crate) fn entered(&mut self, server: usize, phase: Phase) {
        if let Some((_, kind)) = self.weather.ambush.take_if(|(waits_in, _)| *waits_in == phase) {
            let reach = *self.weather.rng.pick(&[1, MS / 5, 2 * MS, 20 * MS]);
            let wait = self.weather.rng.below(reach);
            self.queue.push(self.now + wait, Happening::Strike { server, kind });
        }
    }

    pub(crate) fn strike(&mut self, server: usize, kind: FaultKind) -> Verdict {
        if self.weather.over {
            return Ok(());
        }
        self.report.faults += 1;
        self.report.marks.hit(Mark::Ambushed);
        self.trace.line(self.now, server + 1, format_args!("FAULT {kind:?} (ambush)"));
        self.inject(kind, server)
    }

    /// A server dies and is started again later.
    fn falls(&mut self, server: usize, death: Death) {
        self.dies(server, death);
        let wait = self.weather.rng.spread(1_500 * MS) + 5 * MS;
        self.queue.push(self.now + wait, Happening::Start(server));
    }

    /// All die, and those with the shortest logs come back first, just enough of them to elect.
    fn all_fall(&mut self, death: Death) {
        (0..self.hosts.len()).for_each(|server| self.dies(server, death));
        let mut order: Vec<_> = (0..self.hosts.len()).collect();
        order.sort_by_key(|server| (self.hosts[*server].disk.durable.last(), *server));
        for (place, server) in order.into_iter().enumerate() {
            let late = place > self.hosts.len() / 2;
            let wait = if late { self.weather.rng.between(300, 3_000) } else { self.weather.rng.between(5, 50) };
            self.queue.push(self.now + wait * MS, Happening::Start(server));
        }
    }

    /// A disk is lost. Zab outlives that only if nothing else is open at the time: a promise that is forgotten while a
    /// candidate counts on it is a broken one. So everyone must serve, in one epoch, and the victim must not lead.
    fn wipe(&mut self, server: usize) {
        if self.all_serve() && self.leader() != Some(server) {
            self.falls(server, Death::Killed);
            self.hosts[server].disk.wipe();
            self.judge.wiped(server);
            self.report.marks.hit(Mark::Wiped);
            if self.weather.rng.per_mille(500) {
                self.all_fall(Death::Killed);
            }
        }
    }

    /// The ensemble falls into the side of `server` and the other.
    fn split(&mut self, server: usize) -> Vec<(usize, usize)> {
        let servers = self.hosts.len();
        let side: Vec<_> = (0..servers).map(|s| s == server || self.weather.rng.per_mille(400)).collect();
        pairs(servers).filter(|(a, b)| side[*a] != side[*b]).collect()
    }

    /// Some of the ways from a server, or to it.
    fn one_way(&mut self, server: usize) -> Vec<(usize, usize)> {
        let out = self.weather.rng.per_mille(500);
        let others = (0..self.hosts.len()).filter(|s| *s != server);
        let hit: Vec<_> = others.filter(|_| self.weather.rng.per_mille(700)).collect();
        hit.into_iter().map(|other| if out { (server, other) } else { (other, server) }).collect()
    }

    /// Both ways to one other server.
    fn cut(&mut self, server: usize) -> Vec<(usize, usize)> {
        let servers = self.hosts.len();
        let other = (server + 1 + self.weather.rng.below(servers as u64 - 1) as usize) % servers;
        vec![(server, other), (other, server)]
    }

    fn separate(&mut self, ways: Vec<(usize, usize)>, lasts: u64) {
        for (from, to) in &ways {
            self.network.block(*from, *to);
            self.touched(*from);
            self.touched(*to);
        }
        self.trace.line(self.now, 0, format_args!("blocked for {} ms: {ways:?} (counting from 0)", lasts / MS));
        self.queue.push(self.now + lasts, Happening::Mended(Mending::Unblock(ways)));
    }

    fn break_one(&mut self, server: usize) -> Verdict {
        match self.some_connection(server) {
            Some(link) => {
                let generation = self.network.links[link].generation;
                self.breaks(link, generation)
            }
            None => Ok(()),
        }
    }

    fn half_open_one(&mut self, server: usize) -> Verdict {
        match self.some_connection(server) {
            Some(link) => {
                self.report.marks.hit(Mark::HalfOpen);
                let end = usize::from(self.weather.rng.per_mille(500));
                self.breaks_at(link, end)
            }
            None => Ok(()),
        }
    }

    /// An open connection of a server, about which something is about to happen.
    fn some_connection(&mut self, server: usize) -> Option<LinkId> {
        let links = self.network.links.len() as u64;
        let any = self.weather.rng.below(links) as usize;
        let link = (any..any + links as usize)
            .map(|l| l % links as usize)
            .find(|l| self.network.links[*l].ends.contains(&server) && self.network.links[*l].up);
        let [a, b] = self.network.links[link?].ends;
        self.touched(a);
        self.touched(b);
        link
    }

    pub(crate) fn touched(&mut self, server: usize) {
        self.hosts[server].faulted = self.now;
    }

    /// A fault is over.
    pub(crate) fn mended(&mut self, mending: Mending) -> Verdict {
        self.trace.line(self.now, 0, format_args!("mended: {mending:?}"));
        match mending {
            Mending::Resume { server, boot } => {
                if self.hosts[server].boot == boot {
                    self.resumes(server)?;
                }
            }
            Mending::Speed { server } => {
                self.hosts[server].step_cost = self.setup.step_cost;
                self.hosts[server].disk.set_fsync(self.setup.disk.fsync);
                self.touched(server);
            }
            Mending::Unblock(ways) => {
                for (from, to) in ways {
                    self.touched(from);
                    self.touched(to);
                    for (link, end, at, message) in self.network.unblock(from, to, self.now) {
                        let generation = self.network.links[link].generation;
                        self.queue.push(at, Happening::Arrives { link, end, generation, message });
                    }
                }
            }
            Mending::Fsync { server } => {
                if self.hosts[server].disk.hangs_until() == u64::MAX {
                    self.falls(server, Death::Killed);
                }
            }
            Mending::Spare { server } => {
                self.hosts[server].dies_at = None;
                if self.is_dead(server) {
                    self.queue.push(self.now, Happening::Start(server));
                }
            }
        }
        Ok(())
    }
}

/// What can lie in ambush.
const STRIKES: [FaultKind; 9] = [
    FaultKind::Kill,
    FaultKind::PowerLoss,
    FaultKind::Blackout,
    FaultKind::Pause,
    FaultKind::Pause,
    FaultKind::Split,
    FaultKind::OneWay,
    FaultKind::Cut,
    FaultKind::DiskHangs,
];

/// Where it can lie.
const PHASES: [Phase; 9] = [
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
