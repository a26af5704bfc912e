//! Hosts: a server's process with its clock, timers, disk and inbox; how it starts, steps and crashes.
//!
//! A process that is paused or busy receives events late but in order, hence the inbox. An event that has become void
//! while it waits there (a cancelled timer, a message of a link that was reset) must not reach the process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pole_node::{Contract, Effect, Event, Message, Node, Timer};
use pole_types::{Cxid, Membership, ServerId, SessionId, Time, Zxid};
use pole_zab::{DiskOp, Entry, Phase, Ticket};

use super::background::Background;
use super::checker::{CheckResult, SessionActivity};
use super::clock::Clock;
use super::disk::{CrashPoint, Disk};
use super::network::LinkId;
use super::scripted_oracle::ScriptedOracle;
use super::scripting::{DurableState, Observation, id};
use super::state::State;
use super::trace;
use super::world::{SimEvent, World};
use super::zk::ServerEnd;
use super::{MS, Mark, SECOND, Setup};
use crate::Rng;
use crate::recording::{Delivery, StepKind};

pub(crate) struct Host {
    /// The number of starts. Events of an earlier start are dropped.
    pub(crate) boot: u32,
    pub(crate) node: Option<Node<State>>,
    pub(crate) clock: Clock,
    pub(crate) disk: Disk,
    /// Armed timers: the number of the arming, and when it expires by the server's own clock.
    pub(crate) timers: BTreeMap<Timer, (u64, u64)>,
    armings: u64,
    pub(crate) inbox: VecDeque<InboxItem>,
    pub(crate) paused: bool,
    busy_until: u64,
    pub(crate) step_cost: u64,
    /// Connections of workload clients, with the index of the client.
    pub(crate) clients: BTreeMap<u64, usize>,
    /// Connections of ZooKeeper clients.
    pub(crate) connections: BTreeMap<u64, ServerEnd>,
    /// Those `connections` that must be served after the current step.
    pub(crate) dirty: BTreeSet<u64>,
    /// Checks that the simulator obeys the contract of a driver.
    pub(crate) contract: Contract,
    /// Sessions whose clients were heard from since the last `Event::Touched`.
    pub(crate) touched: BTreeSet<SessionId>,
    /// The leader knows of all clients that were heard from before this time.
    pub(crate) confirmed: Time,
    pub(crate) background: Background,
    /// Draws the sizes of event batches.
    batches: Rng,
    /// The process crashes when it next reaches this point ...
    pub(crate) crash_point: Option<CrashPoint>,
    /// ... after it has passed it this many times.
    pub(crate) passes_left: u32,
    /// The time of the last fault of this server or of its links; 0 if there was none.
    pub(crate) last_fault: u64,
    /// The members that counted for this server, each with the time from which on they did.
    pub(crate) members: Vec<(u64, Membership)>,
    /// Replaces the oracle of the setup, for scripts.
    pub(crate) scripted_oracle: Option<ScriptedOracle>,
}

/// An inbox entry of a process.
#[derive(Debug)]
pub(crate) enum InboxItem {
    Event(Event),
    /// A state has been restored and replaces that of the process.
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

/// How a process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrashKind {
    /// Only the process ends; its connections are reset.
    Killed,
    /// The machine loses power; its peers are not notified.
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
            crash_point: None,
            passes_left: 0,
            last_fault: 0,
            members: vec![(0, setup.members.clone())],
            scripted_oracle: None,
        }
    }
}

impl Host {
    /// Whether the server was elected leader, established or not.
    pub(crate) fn leads(&self) -> bool {
        let phase = self.node.as_ref().map(|node| node.zab().phase());
        matches!(
            phase,
            Some(Phase::Gathering | Phase::Promising | Phase::Pulling | Phase::Synchronising | Phase::Established)
        )
    }
}

impl World {
    pub(crate) fn start(&mut self, server: usize) -> CheckResult {
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
        let oracle = host.scripted_oracle.as_ref().map_or_else(|| self.setup.build_oracle(), ScriptedOracle::build);
        let state = if self.setup.tree { State::tree(self.setup.description()) } else { State::small() };
        let mut node = Node::new(config, oracle, state, recovered, own_now);
        if let Some(scripted_oracle) = &host.scripted_oracle {
            node.set_oracle(scripted_oracle.build(), scripted_oracle.version);
        }
        self.checker.started(server, &node, &host.disk.durable)?;
        host.node = Some(node);
        self.record(|| Some(StepKind::Started(server)));
        self.deliver(server, InboxItem::Event(Event::Start))
    }

    /// Delivers an item to a process: at once, or through its inbox if it is paused or busy.
    pub(crate) fn deliver(&mut self, server: usize, item: InboxItem) -> CheckResult {
        let host = &mut self.hosts[server];
        if host.node.is_none() {
            return Ok(());
        }
        if host.paused || host.busy_until > self.now || !host.inbox.is_empty() {
            host.inbox.push_back(item);
            if host.inbox.len() == 1 && !host.paused {
                let boot = host.boot;
                self.queue.push(host.busy_until, SimEvent::Wakes { server, boot });
            }
            return Ok(());
        }
        self.take(server, item)
    }

    /// Works off the inbox of a process that was busy or paused.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only plain events are batched")]
    pub(crate) fn wake(&mut self, server: usize, boot: u32) -> CheckResult {
        while self.is_free(server, boot) {
            let Some(item) = self.hosts[server].inbox.pop_front() else { return Ok(()) };
            match item {
                InboxItem::Event(event) if self.setup.tree => {
                    let events = self.hosts[server].batch(event);
                    self.step_batch(server, events)?;
                }
                item => self.take(server, item)?,
            }
        }
        let host = &self.hosts[server];
        if host.boot == boot && host.node.is_some() && !host.paused && !host.inbox.is_empty() {
            self.queue.push(host.busy_until, SimEvent::Wakes { server, boot });
        }
        Ok(())
    }

    fn is_free(&self, server: usize, boot: u32) -> bool {
        let host = &self.hosts[server];
        host.boot == boot && host.node.is_some() && !host.paused && host.busy_until <= self.now
    }

    /// Processes an item, unless it has become void.
    fn take(&mut self, server: usize, item: InboxItem) -> CheckResult {
        match item {
            InboxItem::Event(event) => self.step(server, event),
            InboxItem::Restored { ticket, zxid } => self.install_restored(server, ticket, zxid),
            InboxItem::Timer { timer, arming } => {
                if self.hosts[server].timers.get(&timer).is_some_and(|(armed, _)| *armed == arming) {
                    self.hosts[server].timers.remove(&timer);
                    if self.setup.tree && timer == Timer::Liveness {
                        let sessions = std::mem::take(&mut self.hosts[server].touched).into_iter().collect();
                        return self.step_batch(server, vec![Event::Touched { sessions }, Event::Expired(timer)]);
                    }
                    self.step(server, Event::Expired(timer))?;
                }
                Ok(())
            }
            InboxItem::Message { link, end, generation, message } => {
                let wire = &self.network.links[link];
                if wire.view[end] != Some(generation) {
                    self.record_message(wire.ends[1 - end], id(server), &message, Delivery::Lost);
                    return Ok(());
                }
                let (from, channel) = (ServerId(wire.ends[1 - end] as u64 + 1), wire.channel);
                self.step(server, Event::Received { from, channel, message })
            }
            InboxItem::Opened { link, end, generation } => self.take_opened(server, link, end, generation),
            InboxItem::Closed { link, end, generation } => {
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

    fn take_opened(&mut self, server: usize, link: LinkId, end: usize, generation: u32) -> CheckResult {
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

    /// Steps a node with one event and executes its effects.
    pub(crate) fn step(&mut self, server: usize, event: Event) -> CheckResult {
        if self.setup.tree {
            return self.step_batch(server, vec![event]);
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
        self.after_step(server, before, effects)
    }

    /// Steps a node with a batch of events, as the real driver does, and executes its effects.
    fn step_batch(&mut self, server: usize, events: Vec<Event>) -> CheckResult {
        for event in events.iter().filter(|event| !matches!(event, Event::Expired(_) | Event::Touched { .. })) {
            self.trace.line(self.now, server + 1, format_args!("{}", trace::event(event)));
        }
        events.iter().for_each(|event| self.record_event(server, event));
        let host = &mut self.hosts[server];
        let Some(node) = &mut host.node else { return Ok(()) };
        let own = host.clock.read(self.now);
        for event in &events {
            record_session_activity(&mut self.checker.session_activity, server, node, event, own);
            host.contract.event(event).map_err(|wrong| format!("the simulator breaks the contract: {wrong}"))?;
        }
        self.report.steps += 1;
        let mut effects = Vec::new();
        let before = node.zab().phase();
        // The wall clock of the simulation: milliseconds since its start.
        node.set_wall_ms((self.now / MS) as i64);
        node.begin_turn();
        node.step_all(events, Time(own), &mut effects);
        effects.iter().for_each(|effect| host.contract.given(effect));
        self.after_step(server, before, effects)?;
        if self.is_down(server) {
            return Ok(());
        }
        self.publish(server)
    }

    /// Checks what a step changed, then executes its effects.
    fn after_step(&mut self, server: usize, before: Phase, effects: Vec<Effect>) -> CheckResult {
        self.record_processed();
        let host = &mut self.hosts[server];
        let Some(node) = &host.node else { return Ok(()) };
        let after = node.zab().phase();
        if before != after && after == Phase::Established {
            self.checker.session_activity.leader_established(server, host.clock.read(self.now));
        }
        if before == Phase::Established
            && after == Phase::TakingOver
            && let Some(to) = node.zab().leader()
        {
            let (to, now) = (to.0 as usize - 1, host.clock.read(self.now));
            self.checker.session_activity.handed_over(server, to, now, host.last_fault);
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
        self.checker.stepped(server, node, self.hosts.iter().map(|host| &host.disk.durable))?;
        self.check_expired_sessions()?;
        self.execute(server, effects)?;
        match &self.hosts[server].node {
            Some(node) => self.checker.wrote(server, node),
            None => Ok(()),
        }
    }

    /// Ends the process. State that is not durable is lost, wholly or in part.
    pub(crate) fn crash(&mut self, server: usize, crash: CrashKind) {
        if self.hosts[server].node.take().is_none() {
            return;
        }
        self.trace.line(self.now, server + 1, format_args!("dies ({crash:?})"));
        let host = &mut self.hosts[server];
        host.disk.crash(&mut self.report.marks);
        host.timers.clear();
        host.background.clear();
        host.inbox.clear();
        host.crash_point = None;
        host.last_fault = self.now;
        self.drop_links(server, crash);
        self.drop_clients(server, crash);
        self.drop_sim_clients(server, crash);
        self.note_majority();
        self.record(|| Some(StepKind::Crashed(server)));
    }

    /// A server reaches a crash point. Returns true if it crashes there.
    pub(crate) fn reaches_crash_point(&mut self, server: usize, point: Option<CrashPoint>) -> bool {
        let host = &self.hosts[server];
        if point.is_none() || host.crash_point != point || host.node.is_none() {
            return false;
        }
        if host.passes_left > 0 {
            self.hosts[server].passes_left -= 1;
            return false;
        }
        self.trace.line(self.now, server + 1, format_args!("is at {point:?}"));
        self.crash(server, CrashKind::Killed);
        self.observe(|world| {
            let disk = DurableState::of(&world.hosts[server].disk.durable);
            point.map(|point| Observation::Reached { server, point, disk })
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
        self.queue.push(at, SimEvent::TimerExpires { server, boot, timer, arming });
    }

    pub(crate) fn timer_expires(&mut self, server: usize, boot: u32, timer: Timer, arming: u64) -> CheckResult {
        let host = &self.hosts[server];
        if host.boot != boot || host.timers.get(&timer).is_none_or(|(armed, _)| *armed != arming) {
            return Ok(());
        }
        self.deliver(server, InboxItem::Timer { timer, arming })
    }

    /// Moves a server's clock ahead; timers that are due by then expire now.
    pub(crate) fn jump_clock(&mut self, server: usize, by: u64) {
        let host = &mut self.hosts[server];
        host.clock.jump(self.now, by);
        self.jumped = self.now;
        let boot = host.boot;
        for (timer, (arming, own)) in &host.timers {
            let at = host.clock.when(*own, self.now);
            self.queue.push(at, SimEvent::TimerExpires { server, boot, timer: *timer, arming: *arming });
        }
    }

    pub(crate) fn resume_process(&mut self, server: usize) -> CheckResult {
        let host = &mut self.hosts[server];
        if !std::mem::take(&mut host.paused) {
            return Ok(());
        }
        host.last_fault = self.now;
        self.trace.line(self.now, server + 1, format_args!("goes on"));
        let boot = self.hosts[server].boot;
        self.wake(server, boot)?;
        self.serve_all(server)
    }

    /// Queues a client's event, so that the process handles it together with those that follow shortly after.
    pub(crate) fn deliver_batched(&mut self, server: usize, event: Event) {
        let host = &mut self.hosts[server];
        if host.node.is_none() {
            return;
        }
        host.inbox.push_back(InboxItem::Event(event));
        if host.inbox.len() == 1 && !host.paused {
            let wait = host.batches.below(BATCH_WINDOW);
            let (boot, at) = (host.boot, host.busy_until.max(self.now + wait));
            self.queue.push(at, SimEvent::Wakes { server, boot });
        }
    }

    /// Checks the sessions that a leader ends: each must have been silent for its whole timeout, and its client must
    /// not be active on a healthy server that follows this leader.
    pub(crate) fn check_session_expiry(&self, server: usize, op: &DiskOp) -> CheckResult {
        let (Some(service), DiskOp::Append(entries)) = (&self.checker.service, op) else { return Ok(()) };
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
            self.checker.session_activity.check_expiry(server, session, timeout, host.clock.read(self.now))?;
            let is_over = |fault: u64| fault == 0 || fault + timeout + 5 * SECOND < self.now;
            let is_healthy = |host: &Host| is_over(host.last_fault);
            let leads_well = is_healthy(host) && is_over(self.checker.session_activity.earlier_fault(server));
            let serves_client = |other: &Host| {
                let node = other.node.as_ref().filter(|_| is_healthy(other));
                node.is_some_and(|node| node.zab().serving_epoch() == zab.serving_epoch())
                    && other.connections.values().any(|end| end.is_active(session, timeout, self.now))
            };
            if let Some(at) = self.hosts.iter().position(|other| leads_well && serves_client(other)) {
                let (leader, at) = (server + 1, at + 1);
                return Err(format!("server {leader} ends session {session}, whose client server {at} hears"));
            }
        }
        Ok(())
    }

    pub(crate) fn client_event(&mut self, server: usize, boot: u32, event: Event) -> CheckResult {
        if self.hosts[server].boot != boot || self.hosts[server].node.is_none() {
            return Ok(());
        }
        self.deliver(server, InboxItem::Event(event))
    }

    /// A step of the disk ends.
    pub(crate) fn disk_step_ends(&mut self, server: usize, boot: u32) -> CheckResult {
        use super::disk::Progress;
        let host = &mut self.hosts[server];
        if host.boot != boot || host.node.is_none() {
            return Ok(());
        }
        if host.disk.hangs_until() > self.now {
            let until = host.disk.hangs_until();
            if until < u64::MAX {
                self.queue.push(until, SimEvent::DiskStepEnds { server, boot });
            }
            return Ok(());
        }
        let (_, after) = host.disk.points();
        let progress = host.disk.advance();
        if self.reaches_crash_point(server, after) {
            return Ok(());
        }
        match progress {
            Progress::Step(wait) => self.schedule_disk_step(server, Some(wait)),
            Progress::Written(through) => {
                let next = self.hosts[server].disk.begin();
                self.schedule_disk_step(server, next);
                self.deliver(server, InboxItem::Event(Event::Written { through }))?;
            }
            Progress::Failed => {
                self.report.marks.hit(Mark::DiskFailed);
                self.deliver(server, InboxItem::Event(Event::DiskFailed { reason: "input/output error".to_owned() }))?;
            }
        }
        Ok(())
    }

    /// Schedules the end of a disk step, unless the server crashes right before the step.
    pub(crate) fn schedule_disk_step(&mut self, server: usize, wait: Option<u64>) {
        let Some(wait) = wait else { return };
        let (before, _) = self.hosts[server].disk.points();
        if !self.reaches_crash_point(server, before) {
            let boot = self.hosts[server].boot;
            self.queue.push(self.now + wait, SimEvent::DiskStepEnds { server, boot });
        }
    }

    pub(crate) fn cancel(&mut self, server: usize, timer: Timer) {
        self.hosts[server].timers.remove(&timer);
    }

    pub(crate) fn is_down(&self, server: usize) -> bool {
        self.hosts[server].node.is_none()
    }

    /// Delivers an event from outside the ensemble, as an operator would.
    pub fn deliver_event(&mut self, server: usize, event: Event) {
        if let Err(failure) = self.deliver(server, InboxItem::Event(event)) {
            self.fail(failure);
        }
    }
}

impl Host {
    /// Takes a batch of events from the inbox, as the real driver does.
    fn batch(&mut self, first: Event) -> Vec<Event> {
        let most = self.batches.between(1, BATCH_MAX);
        let mut events = vec![first];
        while (events.len() as u64) < most && matches!(self.inbox.front(), Some(InboxItem::Event(_))) {
            let Some(InboxItem::Event(event)) = self.inbox.pop_front() else { break };
            events.push(event);
        }
        events
    }
}

/// Records for the checker which sessions an event keeps alive at a leader.
fn record_session_activity(activity: &mut SessionActivity, server: usize, node: &Node<State>, event: &Event, now: u64) {
    let zab = node.zab();
    if zab.phase() != Phase::Established {
        return;
    }
    let mut record = |session: SessionId| activity.record(server, session, now);
    match event {
        Event::Touched { sessions } => sessions.iter().copied().for_each(record),
        Event::Attach { session, .. } => record(*session),
        Event::Received { from, message: Message::Touch { epoch, sessions, .. }, .. }
            if zab.is_followed_by(*from, *epoch) =>
        {
            sessions.iter().copied().for_each(record);
        }
        Event::Received { from, message: Message::Forward { epoch, requests }, .. }
            if zab.is_followed_by(*from, *epoch) =>
        {
            requests.iter().for_each(|request| record(request.origin.session));
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

/// How long the driver gathers events into a batch: about the length of one turn of its loop.
const BATCH_WINDOW: u64 = MS / 5;

/// More than all clients have outstanding.
const BATCH_MAX: u64 = 16;

/// Whether an effect sends an acknowledgement.
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
        | Effect::TransferRefused(_)
        | Effect::Members { .. }
        | Effect::Note(_)
        | Effect::Halt { .. } => false,
    }
}
