//! The stage: what a script sees of a world, and what it does to it.
//!
//! In: the orders of a script. Out: sights, in the order in which they happened.
//! Why apart from faults: those are drawn and mended by dice; here a script says what happens, and when it ends.

use pole_election::{Epoch, ServerId, Zxid};
use pole_node::{Message, Note};

use super::disk::{Image, Point, Survival};
use super::hosts::{Death, Host};
use super::network::Settings;
use super::setup::LineKind;
use super::workload::{Client, Told};
use super::world::{Happening, World};
use super::zoo::Guest;
use super::{MS, SECOND, Setup};
use crate::rng::Rng;

/// Something worth a line in the output of a script.
#[derive(Clone, Debug)]
pub(crate) enum Sight {
    /// A server tells its operator something.
    Noted { server: usize, note: Note },
    /// A server that was told to die at a point has got there.
    Reached { server: usize, point: Point, disk: OnDisk },
    /// A server is established as leader; these have taken its epoch over.
    Leads { server: usize, epoch: Epoch, quorum: Vec<ServerId> },
    /// A server reads what it sends another from its disk.
    ReadsLog { server: usize, after: Zxid },
    /// A server has its state from a snapshot that it was sent.
    Restored { server: usize, zxid: Zxid },
    /// A server stops by itself.
    Halted { server: usize, reason: String },
    /// A message that says how a synchronisation goes.
    Sent { from: usize, to: ServerId, message: pole_zab::Message },
    /// A client of the service hears or does something.
    Guest { guest: usize, does: String },
    /// A client hears something.
    Told { client: usize, told: Told },
}

/// What a crash leaves of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnDisk {
    pub(crate) last: Zxid,
    pub(crate) accepted: Epoch,
    pub(crate) current: Epoch,
}

impl OnDisk {
    pub(crate) fn of(image: &Image) -> Self {
        Self { last: image.last(), accepted: image.accepted_epoch, current: image.current_epoch }
    }
}

/// What becomes of a server's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It works, and a crash loses what was not synced.
    Ok,
    /// The next sync fails.
    Fail,
    /// Nothing ends any more.
    Hang,
    /// The next crash leaves this much of what was under way.
    Leaves(Survival),
    /// A sync takes so long.
    Takes(u64),
}

impl Sight {
    /// The sight of a message, if it is one to tell of.
    pub(crate) fn of_message(from: usize, to: ServerId, message: &Message) -> Option<Self> {
        use pole_zab::Message as M;
        let Message::Zab(message) = message else { return None };
        let is_told = match message {
            M::Truncate { .. } | M::Entries { .. } | M::Pull { .. } | M::RefuseEpoch { .. } | M::Decline => true,
            M::Snapshot(part) => part.offset == 0,
            M::AckEpoch(promise) => !promise.fresh,
            M::Hello(_)
            | M::NewEpoch { .. }
            | M::Received
            | M::PullEnd { .. }
            | M::NewLeader { .. }
            | M::AckLeader { .. }
            | M::UpToDate { .. }
            | M::Propose { .. }
            | M::Ack { .. }
            | M::Commit { .. }
            | M::Handover { .. }
            | M::TakenOver { .. }
            | M::Ping { .. }
            | M::Pong { .. } => false,
        };
        is_told.then(|| Self::Sent { from, to, message: message.clone() })
    }
}

impl Setup {
    /// The quiet LAN of scripts: nothing in it is left to chance.
    pub(crate) fn staged(servers: usize) -> Self {
        let mut setup = Self::lan(0, servers);
        if let LineKind::Even(line) = &mut setup.line {
            line.jitter_ppm = 0;
        }
        // A connection that stalls stays: what ends it is a server's own patience, or the script.
        setup.network = Settings { transport_timeout: 3_600 * SECOND, ..setup.network };
        setup
    }
}

impl World {
    /// A world for a script. Nothing happens in it before it is told to.
    pub(crate) fn staged(setup: Setup) -> Self {
        let mut world = Self::still(setup, None);
        world.sights = Some(Vec::new());
        for host in &mut world.hosts {
            host.disk.survival = Survival::Nothing;
        }
        for link in 0..world.network.links.len() {
            world.dial_later(link, 0);
        }
        world
    }

    pub(crate) fn is_staged(&self) -> bool {
        self.sights.is_some()
    }

    /// Keeps a sight for a script, if one looks.
    pub(crate) fn see(&mut self, sight: impl FnOnce(&Self) -> Option<Sight>) {
        if self.sights.is_some() {
            let seen = sight(self);
            self.sights.iter_mut().for_each(|sights| sights.extend(seen.clone()));
        }
    }

    /// The sight of a note.
    pub(crate) fn sight_of_note(&self, server: usize, note: &Note) -> Sight {
        if let Note::Serving { leader, epoch } = note
            && *leader == id(server)
        {
            let took = |host: &Host| host.node.is_some() && host.disk.durable.current_epoch == *epoch;
            let quorum = (0..self.hosts.len()).filter(|s| took(&self.hosts[*s])).map(id).collect();
            return Sight::Leads { server, epoch: *epoch, quorum };
        }
        Sight::Noted { server, note: note.clone() }
    }

    /// What was seen since the last call.
    pub(crate) fn take_sights(&mut self) -> Vec<Sight> {
        self.sights.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Runs until something is so, at most so long. Whether it is.
    pub(crate) fn runs_until(&mut self, within: u64, so: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + within;
        while !so(self) {
            if self.report.failure.is_some() {
                return false;
            }
            if !self.next(end) {
                self.now = end;
                return so(self);
            }
        }
        true
    }

    /// A server starts as soon as time goes on.
    pub(crate) fn starts(&mut self, server: usize) {
        self.queue.push(self.now, Happening::Start(server));
        self.dial_soon(server);
    }

    /// The links of a server are tried without waiting for their turn.
    fn dial_soon(&mut self, server: usize) {
        for link in 0..self.network.links.len() {
            if self.network.links[link].ends.contains(&server) {
                self.queue.push(self.now + 1, Happening::Dial(link));
            }
        }
    }

    /// A server dies now, or when it gets to a point.
    pub(crate) fn crashes(&mut self, server: usize, at: Option<(Point, u32)>) {
        match at {
            Some((point, passes)) => {
                (self.hosts[server].dies_at, self.hosts[server].passes_before) = (Some(point), passes);
            }
            None => self.dies(server, Death::Killed),
        }
    }

    /// A machine loses its power: its peers hear nothing of it.
    pub(crate) fn loses_power(&mut self, server: usize) {
        self.dies(server, Death::Silent);
    }

    /// A server's disk works, fails or hangs from now on.
    pub(crate) fn set_disk(&mut self, server: usize, mood: Mood) {
        let fsync = self.setup.disk.fsync;
        let host = &mut self.hosts[server];
        match mood {
            Mood::Ok => {
                let hung = host.disk.hangs_until() > self.now;
                host.disk.mend();
                host.disk.set_fsync(fsync);
                host.disk.survival = Survival::Nothing;
                let boot = host.boot;
                if hung {
                    self.queue.push(self.now, Happening::Disk { server, boot });
                }
            }
            Mood::Fail => host.disk.fail(),
            Mood::Hang => host.disk.hang(u64::MAX),
            Mood::Leaves(survival) => host.disk.survival = survival,
            Mood::Takes(fsync) => host.disk.set_fsync(fsync),
        }
    }

    /// Messages from one server to another get through, or none does.
    pub(crate) fn set_way(&mut self, from: usize, to: usize, open: bool) {
        match (open, self.network.is_blocked(from, to)) {
            (true, true) => {
                let sent = self.network.unblock(from, to, self.now);
                self.arrive(sent);
                self.dial_soon(from);
            }
            (false, false) => self.network.block(from, to),
            (true, false) | (false, true) => {}
        }
    }

    /// Both connections between two servers break, and are opened again if they can be.
    pub(crate) fn break_links(&mut self, a: usize, b: usize) -> Result<(), String> {
        for link in 0..self.network.links.len() {
            let wire = &self.network.links[link];
            if wire.ends == [a.min(b), a.max(b)] {
                let generation = wire.generation;
                self.breaks(link, generation)?;
            }
        }
        Ok(())
    }

    /// Both connections between two servers break for the first of them, and the second hears nothing.
    pub(crate) fn break_links_at(&mut self, a: usize, b: usize) -> Result<(), String> {
        for link in 0..self.network.links.len() {
            let wire = &self.network.links[link];
            if let (true, Some(end)) = (wire.ends.contains(&b) && wire.up, wire.ends.iter().position(|end| *end == a)) {
                self.breaks_at(link, end)?;
            }
        }
        Ok(())
    }

    /// What was kept back from one server to another arrives.
    pub(crate) fn release(&mut self, from: usize, to: usize) {
        let sent = self.network.release(from, to, self.now);
        self.arrive(sent);
    }

    fn arrive(&mut self, sent: Vec<(usize, usize, u64, Message)>) {
        for (link, end, at, message) in sent {
            let generation = self.network.links[link].generation;
            self.queue.push(at, Happening::Arrives { link, end, generation, message });
        }
    }

    /// All faults end, and everything is started.
    pub(crate) fn all_faults_end(&mut self) -> Result<(), String> {
        let servers = self.hosts.len();
        for (from, to) in (0..servers).flat_map(|a| (0..servers).map(move |b| (a, b))) {
            self.release(from, to);
        }
        self.heal()?;
        (0..servers).for_each(|server| self.dial_soon(server));
        Ok(())
    }

    /// One more client, that asks only what it is told to.
    pub(crate) fn new_client(&mut self) -> usize {
        let index = self.clients.len();
        let mut client = Client::new(&self.setup, index, &Rng::new(0));
        client.delay = MS / 20;
        self.clients.push(client);
        index
    }

    /// One more client of the service.
    pub(crate) fn new_guest(&mut self, timeout_ms: u64) -> usize {
        let guest = self.guests.len();
        self.guests.push(Guest::scripted(&self.setup, guest, timeout_ms));
        self.queue.push(self.now, Happening::GuestThinks { guest, thought: 0 });
        guest
    }

    /// Whether every server that runs serves under the one leader.
    pub(crate) fn is_settled(&self) -> bool {
        let Some(leader) = self.leader() else { return false };
        let epoch = self.epoch_of(leader);
        self.hosts.iter().all(|host| {
            let Some(node) = &host.node else { return true };
            host.paused || (node.zab().serving_epoch() == epoch && node.zab().leader() == Some(id(leader)))
        })
    }

    /// Whether moreover all of them have logged and applied everything.
    pub(crate) fn is_level(&self) -> bool {
        let last = self.judge.history.last();
        let level = |at: Zxid| at == last;
        let mut nodes = self.hosts.iter().filter_map(|host| host.node.as_ref());
        self.is_settled() && nodes.all(|node| level(node.applied()) && level(node.zab().log().last()))
    }
}

/// The id of a server.
pub(crate) fn id(server: usize) -> ServerId {
    ServerId(server as u64 + 1)
}
