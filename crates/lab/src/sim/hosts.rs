//! Hosts: a server's process with its clock, timers, disk and inbox; how it starts, steps and dies.
//!
//! Why an inbox: a process that is paused or busy gets events late but in order, and an event that has become void
//! meanwhile (a cancelled timer, a message of a link that was reset) must not reach it any more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pole_election::{ServerId, Zxid};
use pole_node::{Contract, Effect, Event, Message, Node, Timer};
use pole_oracle::Time;
use pole_zab::{Cxid, DiskOp, Entry, Phase, SessionId, Ticket};

use super::background::Background;
use super::clock::Clock;
use super::disk::{Disk, Point};
use super::judge::{Verdict, Words};
use super::network::LinkId;
use super::opinion::Opinion;
use super::stage::{OnDisk, Sight, id};
use super::state::State;
use super::trace;
use super::world::{Happening, World};
use super::zoo::ServerEnd;
use super::{MS, Mark, SECOND, Setup};
use crate::play::{Passage, What};
use crate::rng::Rng;

/// One server.
pub(crate) struct Host {
    /// Counts its starts.
    pub(crate) boot: u32,
    pub(crate) node: Option<Node<State>>,
    pub(crate) clock: Clock,
    pub(crate) disk: Disk,
    /// Running timers: which arming, and when by the own clock.
    pub(crate) timers: BTreeMap<Timer, (u64, u64)>,
    armings: u64,
    pub(crate) inbox: VecDeque<Item>,
    pub(crate) paused: bool,
    busy_until: u64,
    pub(crate) step_cost: u64,
    /// Connections of clients here, and whose they are.
    pub(crate) clients: BTreeMap<u64, usize>,
    /// Connections of clients of the service.
    pub(crate) connections: BTreeMap<u64, ServerEnd>,
    /// Those of them that have something to do when the present step is done.
    pub(crate) dirty: BTreeSet<u64>,
    /// Whether the simulator keeps its side of the contract with the node.
    pub(crate) contract: Contract,
    /// Whose clients were heard since the node was last told.
    pub(crate) touched: BTreeSet<SessionId>,
    /// The leader knows of all who were heard before this moment.
    pub(crate) confirmed: Time,
    /// What works beside the process: see `background`.
    pub(crate) background: Background,
    /// Draws how much of what waits is taken at once.
    batches: Rng,
    /// Dies at this point, the next time it gets there.
    pub(crate) dies_at: Option<Point>,
    /// ... after it has passed there so often.
    pub(crate) passes_before: u32,
    /// When something last went wrong here, or with the links of this server.
    pub(crate) faulted: u64,
    /// An oracle of its own, for scripts.
    pub(crate) opinion: Option<Opinion>,
}

/// Something that waits for a process.
#[derive(Debug)]
pub(crate) enum Item {
    Event(Event),
    /// A state is there: the process takes it in place of its own.
    Restored {
        ticket: Ticket,
        zxid: Zxid,
    },
    Timer {
        timer: Timer,
        arming: u64,
    },
    Message {
        link: LinkId,
        end: usize,
        generation: u32,
        message: Message,
    },
    Opened {
        link: LinkId,
        end: usize,
        generation: u32,
    },
    Closed {
        link: LinkId,
        end: usize,
        generation: u32,
    },
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// The process only: its connections are reset.
    Killed,
    /// The machine: its peers hear nothing.
    Silent,
}

impl Host {
    pub(crate) fn new(setup: &Setup, server: usize, rng: &Rng) -> Self {
        let mut own = rng.fork("host", server as u64);
        let drift = own.between(0, 2 * setup.drift_ppm) as i64 - setup.drift_ppm as i64;
        Self {
            boot: 0,
            node: None,
            clock: Clock::new(drift, own.below(1_000_000 * MS)),
            disk: Disk::new(setup.disk, rng.fork("disk", server as u64)),
            timers: BTreeMap::new(),
            armings: 0,
            inbox: VecDeque::new(),
            paused: false,
            busy_until: 0,
            step_cost: setup.step_cost,
            clients: BTreeMap::new(),
            connections: BTreeMap::new(),
            dirty: BTreeSet::new(),
            contract: Contract::default(),
            touched: BTreeSet::new(),
            confirmed: Time(0),
            background: Background::new(rng.fork("background", server as u64)),
            batches: rng.fork("batches", server as u64),
            dies_at: None,
            passes_before: 0,
            faulted: 0,
            opinion: None,
        }
    }
}

impl Host {
    /// Whether it was chosen to lead, established or not.
    pub(crate) fn leads(&self) -> bool {
        let phase = self.node.as_ref().map(|node| node.zab().phase());
        matches!(
            phase,
            Some(Phase::Gathering | Phase::Promising | Phase::Pulling | Phase::Synchronising | Phase::Established)
        )
    }
}

impl World {
    pub(crate) fn start(&mut self, server: usize) -> Verdict {
        let host = &mut self.hosts[server];
        if host.node.is_some() {
            return Ok(());
        }
        host.boot += 1;
        (host.paused, host.busy_until, host.confirmed) = (false, 0, Time(0));
        host.contract = Contract::default();
        host.inbox.clear();
        let recovered = host.disk.recover(&mut self.report.marks);
        let standing = recovered.standing();
        self.trace.line(
            self.now,
            server + 1,
            format_args!(
                "starts: accepted={} current={} snapshot={} last={}",
                standing.accepted_epoch,
                standing.current_epoch,
                recovered.snapshot_zxid(),
                standing.last_zxid
            ),
        );
        let config = self.setup.config(server, host.boot);
        let own_now = Time(host.clock.read(self.now));
        let oracle = host.opinion.as_ref().map_or_else(|| self.setup.build_oracle(), Opinion::build);
        let state = if self.setup.tree { State::tree() } else { State::small() };
        let mut node = Node::new(config, oracle, state, recovered, own_now);
        if let Some(opinion) = &host.opinion {
            node.set_oracle(opinion.build(), opinion.version);
        }
        self.judge.started(server, &node, &host.disk.durable)?;
        host.node = Some(node);
        self.record(|| Some(What::Started(server)));
        self.hand(server, Item::Event(Event::Start))
    }

    /// Gives something to a process: at once, or when it gets to it.
    pub(crate) fn hand(&mut self, server: usize, item: Item) -> Verdict {
        let host = &mut self.hosts[server];
        if host.node.is_none() {
            return Ok(());
        }
        if host.paused || host.busy_until > self.now || !host.inbox.is_empty() {
            host.inbox.push_back(item);
            if host.inbox.len() == 1 && !host.paused {
                let boot = host.boot;
                self.queue.push(host.busy_until, Happening::Wakes { server, boot });
            }
            return Ok(());
        }
        self.take(server, item)
    }

    /// A process that was busy or paused goes on.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others do not come here")]
    pub(crate) fn wakes(&mut self, server: usize, boot: u32) -> Verdict {
        while self.is_free(server, boot) {
            let Some(item) = self.hosts[server].inbox.pop_front() else { return Ok(()) };
            match item {
                Item::Event(event) if self.setup.tree => {
                    let events = self.hosts[server].batch(event);
                    self.steps(server, events)?;
                }
                item => self.take(server, item)?,
            }
        }
        let host = &self.hosts[server];
        if host.boot == boot && host.node.is_some() && !host.paused && !host.inbox.is_empty() {
            self.queue.push(host.busy_until, Happening::Wakes { server, boot });
        }
        Ok(())
    }

    fn is_free(&self, server: usize, boot: u32) -> bool {
        let host = &self.hosts[server];
        host.boot == boot && host.node.is_some() && !host.paused && host.busy_until <= self.now
    }

    /// A process looks at something: it may be void by now.
    fn take(&mut self, server: usize, item: Item) -> Verdict {
        match item {
            Item::Event(event) => self.step(server, event),
            Item::Restored { ticket, zxid } => self.take_restored(server, ticket, zxid),
            Item::Timer { timer, arming } => {
                if self.hosts[server].timers.get(&timer).is_some_and(|(armed, _)| *armed == arming) {
                    self.hosts[server].timers.remove(&timer);
                    if self.setup.tree && timer == Timer::Liveness {
                        let sessions = std::mem::take(&mut self.hosts[server].touched).into_iter().collect();
                        return self.steps(server, vec![Event::Touched { sessions }, Event::Expired(timer)]);
                    }
                    self.step(server, Event::Expired(timer))?;
                }
                Ok(())
            }
            Item::Message { link, end, generation, message } => {
                let wire = &self.network.links[link];
                if wire.view[end] != Some(generation) {
                    self.record_message(wire.ends[1 - end], id(server), &message, Passage::Lost);
                    return Ok(());
                }
                let (from, channel) = (ServerId(wire.ends[1 - end] as u64 + 1), wire.channel);
                self.step(server, Event::Received { from, channel, message })
            }
            Item::Opened { link, end, generation } => self.take_opened(server, link, end, generation),
            Item::Closed { link, end, generation } => {
                let wire = &mut self.network.links[link];
                if wire.view[end] != Some(generation) {
                    return Ok(());
                }
                wire.view[end] = None;
                let (peer, channel) = (ServerId(wire.ends[1 - end] as u64 + 1), wire.channel);
                self.step(server, Event::LinkDown { peer, channel })
            }
        }
    }

    fn take_opened(&mut self, server: usize, link: LinkId, end: usize, generation: u32) -> Verdict {
        let wire = &mut self.network.links[link];
        if wire.generation != generation {
            return Ok(());
        }
        let older = wire.view[end].replace(generation);
        let (peer, channel) = (ServerId(wire.ends[1 - end] as u64 + 1), wire.channel);
        if older.is_some() {
            wire.view[end] = None;
            self.step(server, Event::LinkDown { peer, channel })?;
            if self.hosts[server].node.is_none() {
                return Ok(());
            }
            self.network.links[link].view[end] = Some(generation);
        }
        self.step(server, Event::LinkUp { peer, channel })
    }

    /// One step of one server, and all that it asks for.
    pub(crate) fn step(&mut self, server: usize, event: Event) -> Verdict {
        if self.setup.tree {
            return self.steps(server, vec![event]);
        }
        self.record_event(server, &event);
        let host = &mut self.hosts[server];
        let Some(node) = &mut host.node else { return Ok(()) };
        if self.trace.is_on() && !matches!(event, Event::Expired(timer) if trace::is_quiet(timer)) {
            self.trace.line(self.now, server + 1, format_args!("{}", trace::event(&event)));
        }
        self.report.steps += 1;
        let mut effects = Vec::new();
        let before = node.zab().phase();
        node.step(event, Time(host.clock.read(self.now)), &mut effects);
        self.stepped(server, before, effects)
    }

    /// Several things at once, as the real driver has them, and all that they ask for.
    fn steps(&mut self, server: usize, events: Vec<Event>) -> Verdict {
        for event in events.iter().filter(|event| !matches!(event, Event::Expired(_) | Event::Touched { .. })) {
            self.trace.line(self.now, server + 1, format_args!("{}", trace::event(event)));
        }
        events.iter().for_each(|event| self.record_event(server, event));
        let host = &mut self.hosts[server];
        let Some(node) = &mut host.node else { return Ok(()) };
        let own = host.clock.read(self.now);
        for event in &events {
            leader_hears(&mut self.judge.words, server, node, event, own);
            host.contract.event(event).map_err(|wrong| format!("the simulator breaks the contract: {wrong}"))?;
        }
        self.report.steps += 1;
        let mut effects = Vec::new();
        let before = node.zab().phase();
        // A calendar of this world: milliseconds since it began.
        node.set_wall_ms((self.now / MS) as i64);
        node.step_all(events, Time(own), &mut effects);
        effects.iter().for_each(|effect| host.contract.given(effect));
        self.stepped(server, before, effects)?;
        if self.is_dead(server) {
            return Ok(());
        }
        self.publish(server)
    }

    /// What a step changed is looked at, and what it asks for is carried out.
    fn stepped(&mut self, server: usize, before: Phase, effects: Vec<Effect>) -> Verdict {
        self.record_met();
        let host = &mut self.hosts[server];
        let Some(node) = &host.node else { return Ok(()) };
        let after = node.zab().phase();
        if before != after && after == Phase::Established {
            self.judge.words.begins(server, host.clock.read(self.now));
        }
        if before == Phase::Established
            && after == Phase::TakingOver
            && let Some(to) = node.zab().leader()
        {
            self.judge.words.hands_over(server, to.0 as usize - 1, host.clock.read(self.now));
        }
        if before == Phase::Established && after == Phase::Promising {
            let overflows = node.zab().log().last().counter() >= self.setup.tuning.counter_max;
            self.report.marks.hit(if overflows { Mark::CounterEnd } else { Mark::Reopened });
        }
        host.busy_until = self.now + host.step_cost;
        if before != after {
            self.entered(server, after);
        }
        let node = self.hosts[server].node.as_ref().expect("it has just stepped");
        self.judge.stepped(server, node, self.hosts.iter().map(|host| &host.disk.durable))?;
        self.nobody_believes()?;
        self.carry_out(server, effects)?;
        match &self.hosts[server].node {
            Some(node) => self.judge.wrote(server, node),
            None => Ok(()),
        }
    }

    /// The process ends. What it had not made durable is lost, wholly or in part.
    pub(crate) fn dies(&mut self, server: usize, death: Death) {
        if self.hosts[server].node.take().is_none() {
            return;
        }
        self.trace.line(self.now, server + 1, format_args!("dies ({death:?})"));
        let host = &mut self.hosts[server];
        host.disk.crash(&mut self.report.marks);
        host.timers.clear();
        host.background.clear();
        host.inbox.clear();
        host.dies_at = None;
        host.faulted = self.now;
        self.drop_links(server, death);
        self.drop_clients(server, death);
        self.drop_guests(server, death);
        self.note_majority();
        self.record(|| Some(What::Crashed(server)));
    }

    /// Stands at a point at which it may be told to die. True if it did.
    pub(crate) fn passes(&mut self, server: usize, point: Option<Point>) -> bool {
        let host = &self.hosts[server];
        if point.is_none() || host.dies_at != point || host.node.is_none() {
            return false;
        }
        if host.passes_before > 0 {
            self.hosts[server].passes_before -= 1;
            return false;
        }
        self.trace.line(self.now, server + 1, format_args!("is at {point:?}"));
        self.dies(server, Death::Killed);
        self.see(|world| {
            let disk = OnDisk::of(&world.hosts[server].disk.durable);
            point.map(|point| Sight::Reached { server, point, disk })
        });
        true
    }

    pub(crate) fn arm(&mut self, server: usize, timer: Timer, after: u64) {
        let host = &mut self.hosts[server];
        host.armings += 1;
        let (boot, arming) = (host.boot, host.armings);
        let own = host.clock.read(self.now).saturating_add(after);
        host.timers.insert(timer, (arming, own));
        let at = host.clock.when(own, self.now);
        self.queue.push(at, Happening::Expires { server, boot, timer, arming });
    }

    pub(crate) fn expires(&mut self, server: usize, boot: u32, timer: Timer, arming: u64) -> Verdict {
        let host = &self.hosts[server];
        if host.boot != boot || host.timers.get(&timer).is_none_or(|(armed, _)| *armed != arming) {
            return Ok(());
        }
        self.hand(server, Item::Timer { timer, arming })
    }

    /// The clock jumps ahead: whatever was due by then is due now.
    pub(crate) fn clock_jumps(&mut self, server: usize, by: u64) {
        let host = &mut self.hosts[server];
        host.clock.jump(self.now, by);
        self.jumped = self.now;
        let boot = host.boot;
        for (timer, (arming, own)) in &host.timers {
            let at = host.clock.when(*own, self.now);
            self.queue.push(at, Happening::Expires { server, boot, timer: *timer, arming: *arming });
        }
    }

    pub(crate) fn resumes(&mut self, server: usize) -> Verdict {
        let host = &mut self.hosts[server];
        if !std::mem::take(&mut host.paused) {
            return Ok(());
        }
        host.faulted = self.now;
        self.trace.line(self.now, server + 1, format_args!("goes on"));
        let boot = self.hosts[server].boot;
        self.wakes(server, boot)?;
        self.serve_all(server)
    }

    /// Gives a client's event to a process, which takes it with what comes shortly after it.
    pub(crate) fn hand_batched(&mut self, server: usize, event: Event) {
        let host = &mut self.hosts[server];
        if host.node.is_none() {
            return;
        }
        host.inbox.push_back(Item::Event(event));
        if host.inbox.len() == 1 && !host.paused {
            let wait = host.batches.below(GATHERED_FOR);
            let (boot, at) = (host.boot, host.busy_until.max(self.now + wait));
            self.queue.push(at, Happening::Wakes { server, boot });
        }
    }

    /// A leader ends a session: only after its whole timeout without a word, and not while its client is connected to a
    /// server that hears both of them.
    pub(crate) fn ends_only_the_silent(&self, server: usize, op: &DiskOp) -> Verdict {
        let (Some(service), DiskOp::Append(entries)) = (&self.judge.service, op) else { return Ok(()) };
        let host = &self.hosts[server];
        let Some(zab) = host.node.as_ref().map(|node| node.zab()) else { return Ok(()) };
        let is_own = |entry: &&Entry| {
            entry.origin.cxid == Cxid::OWN
                && zab.phase() == Phase::Established
                && Some(entry.zxid.epoch()) == zab.serving_epoch()
        };
        for entry in entries.iter().filter(is_own) {
            let session = entry.origin.session;
            let Some(timeout) = service.timeout_ms(session).map(|ms| ms * MS) else { continue };
            self.judge.words.ends(server, session, timeout, host.clock.read(self.now))?;
            let is_well = |host: &Host| host.faulted == 0 || host.faulted + timeout + 5 * SECOND < self.now;
            let hears = |other: &Host| {
                let node = other.node.as_ref().filter(|_| is_well(other));
                node.is_some_and(|node| node.zab().serving_epoch() == zab.serving_epoch())
                    && other.connections.values().any(|end| end.hears(session, timeout, self.now))
            };
            if let Some(at) = self.hosts.iter().position(|other| is_well(host) && hears(other)) {
                let (leader, at) = (server + 1, at + 1);
                return Err(format!("server {leader} ends session {session}, whose client server {at} hears"));
            }
        }
        Ok(())
    }

    pub(crate) fn client_event(&mut self, server: usize, boot: u32, event: Event) -> Verdict {
        if self.hosts[server].boot != boot || self.hosts[server].node.is_none() {
            return Ok(());
        }
        self.hand(server, Item::Event(event))
    }

    /// A step of the disk has taken its time.
    pub(crate) fn disk_step_ends(&mut self, server: usize, boot: u32) -> Verdict {
        use super::disk::Progress;
        let host = &mut self.hosts[server];
        if host.boot != boot || host.node.is_none() {
            return Ok(());
        }
        if host.disk.hangs_until() > self.now {
            let until = host.disk.hangs_until();
            if until < u64::MAX {
                self.queue.push(until, Happening::Disk { server, boot });
            }
            return Ok(());
        }
        let (_, after) = host.disk.points();
        let progress = host.disk.advance();
        if self.passes(server, after) {
            return Ok(());
        }
        match progress {
            Progress::Step(wait) => self.disk_begins(server, Some(wait)),
            Progress::Written(through) => {
                let next = self.hosts[server].disk.begin();
                self.disk_begins(server, next);
                self.hand(server, Item::Event(Event::Written { through }))?;
            }
            Progress::Failed => {
                self.report.marks.hit(Mark::DiskFailed);
                self.hand(server, Item::Event(Event::DiskFailed { reason: "input/output error".to_owned() }))?;
            }
        }
        Ok(())
    }

    /// A step of the disk begins, unless the server dies right before it.
    pub(crate) fn disk_begins(&mut self, server: usize, wait: Option<u64>) {
        let Some(wait) = wait else { return };
        let (before, _) = self.hosts[server].disk.points();
        if !self.passes(server, before) {
            let boot = self.hosts[server].boot;
            self.queue.push(self.now + wait, Happening::Disk { server, boot });
        }
    }

    pub(crate) fn cancel(&mut self, server: usize, timer: Timer) {
        self.hosts[server].timers.remove(&timer);
    }

    /// Effects that the process did not live to see carried out.
    pub(crate) fn is_dead(&self, server: usize) -> bool {
        self.hosts[server].node.is_none()
    }

    /// Gives an event to a server from outside, as an operator would.
    pub fn tell(&mut self, server: usize, event: Event) {
        if let Err(failure) = self.hand(server, Item::Event(event)) {
            self.fails(failure);
        }
    }
}

impl Host {
    /// What a process takes together with this, as the real driver does.
    fn batch(&mut self, first: Event) -> Vec<Event> {
        let most = self.batches.between(1, BATCH_MAX);
        let mut events = vec![first];
        while (events.len() as u64) < most && matches!(self.inbox.front(), Some(Item::Event(_))) {
            let Some(Item::Event(event)) = self.inbox.pop_front() else { break };
            events.push(event);
        }
        events
    }
}

/// Words of sessions that reach a leader with an event, for the judge.
fn leader_hears(words: &mut Words, server: usize, node: &Node<State>, event: &Event, now: u64) {
    let zab = node.zab();
    if zab.phase() != Phase::Established {
        return;
    }
    let mut hears = |session: SessionId| words.hears(server, session, now);
    match event {
        Event::Touched { sessions } => sessions.iter().copied().for_each(hears),
        Event::Attach { session, .. } => hears(*session),
        Event::Received { from, message: Message::Touch { epoch, sessions, .. }, .. }
            if zab.is_followed_by(*from, *epoch) =>
        {
            sessions.iter().copied().for_each(hears);
        }
        Event::Received { from, message: Message::Forward { epoch, requests }, .. }
            if zab.is_followed_by(*from, *epoch) =>
        {
            requests.iter().for_each(|request| hears(request.origin.session));
        }
        Event::Received { .. }
        | Event::Start
        | Event::LinkUp { .. }
        | Event::LinkDown { .. }
        | Event::Written { .. }
        | Event::DiskFailed { .. }
        | Event::PieceReady { .. }
        | Event::LogRead { .. }
        | Event::Restored { .. }
        | Event::Continue
        | Event::Expired(_)
        | Event::Request { .. }
        | Event::Read { .. }
        | Event::Sync { .. }
        | Event::Detach { .. }
        | Event::Transfer { .. } => {}
    }
}

/// For how long a driver that was woken still gathers: about what a turn of it takes.
const GATHERED_FOR: u64 = MS / 5;

/// More than clients have under way.
const BATCH_MAX: u64 = 16;

/// Whether an effect acknowledges something.
pub(crate) fn acknowledges(effect: &Effect) -> bool {
    use pole_zab::Message as M;
    match effect {
        Effect::Send { message: Message::Zab(message), .. } => {
            matches!(message, M::Ack { .. } | M::AckEpoch(_) | M::AckLeader { .. } | M::TakenOver { .. })
        }
        Effect::Send { .. }
        | Effect::Write { .. }
        | Effect::OpenTransfer { .. }
        | Effect::NextPiece { .. }
        | Effect::ReadLog { .. }
        | Effect::CloseTransfer { .. }
        | Effect::Restore { .. }
        | Effect::Continue
        | Effect::Reset { .. }
        | Effect::Arm { .. }
        | Effect::Cancel(_)
        | Effect::Attached { .. }
        | Effect::Reply { .. }
        | Effect::Notify { .. }
        | Effect::Confirmed { .. }
        | Effect::Close { .. }
        | Effect::Note(_)
        | Effect::Halt { .. } => false,
    }
}
