//! Runs a script: executes its commands in a world and prints what was observed.

use std::collections::VecDeque;
use std::error::Error;

use goldenscript::{Block, Context, Runner};
use pole_node::Event;
use pole_topology::{PRESETS, Topology};
use pole_types::{Cxid, Epoch, Membership, ServerId, Span, Voter, Voters, Zxid};

use super::command::{Command, LinkState, List, Ms, Switch};
use super::names::Names;
use super::transcript::{Transcript, on_disk};
use super::{sim_clients, state};
use crate::kv::{Change, MEMBERS, encode_members};
use crate::recording::{Recorder, StepKind};
use crate::scripting::id;
use crate::{ClientOp, DiskMode, DurableState, Hold, MS, SECOND, ScriptedOracle, Setup, World};

/// The state of a script.
#[derive(Default)]
pub(crate) struct ScriptRunner {
    world: Option<World>,
    names: Names,
    transcript: Transcript,
    /// The recorder, if the script is recorded and no world has it yet.
    recorder: Option<Box<Recorder>>,
    /// The commands of this block that have not been run yet.
    commands: VecDeque<String>,
}

type CommandResult = Result<(), String>;

impl Runner for ScriptRunner {
    type Command = Command;

    fn start_block(&mut self, block: &Block) -> Result<String, Box<dyn Error>> {
        self.commands = block.commands.iter().map(ToString::to_string).collect();
        Ok(String::new())
    }

    fn run(&mut self, command: &Command, _context: &Context) -> Result<String, Box<dyn Error>> {
        let turn = self.commands.pop_front().unwrap_or_default();
        self.record(command, StepKind::Turn(turn));
        self.carry_out(command)?;
        if let Some(world) = &mut self.world {
            self.transcript.record(world.take_observations(), &self.names);
            if let Some(failure) = &world.report.failure {
                return Err(format!("{}at {} us: {failure}", self.transcript.take(), world.now / 1_000).into());
            }
        }
        let printed = self.transcript.take();
        if !printed.is_empty() {
            self.record(command, StepKind::Output(printed.trim_end().to_owned()));
        }
        Ok(printed)
    }
}

impl ScriptRunner {
    /// A runner that records every step.
    pub(crate) fn recording(upkeep: bool) -> Self {
        Self { recorder: Some(Box::new(Recorder::new(upkeep))), ..Self::default() }
    }

    /// The recording, and whether an invariant was violated.
    pub(crate) fn into_recording(mut self) -> (crate::recording::Recording, bool) {
        let is_broken = self.world.as_ref().is_some_and(|world| world.report.failure.is_some());
        let recorder = self.world.as_mut().and_then(|world| world.recorder.take()).or(self.recorder);
        (recorder.map(|recorder| recorder.into_recording()).unwrap_or_default(), is_broken)
    }

    fn record(&mut self, command: &Command, step: StepKind) {
        match (&mut self.world, &mut self.recorder) {
            // The views of the last ensemble are not part of the next one.
            (Some(world), _) if matches!((command, &step), (Command::Ensemble { .. }, StepKind::Turn(_))) => {
                let now = world.now;
                world.recorder.iter_mut().for_each(|recorder| recorder.push(now, step.clone(), Vec::new()));
            }
            (Some(world), _) => world.record(|| Some(step)),
            (None, Some(recorder)) => recorder.push(0, step, Vec::new()),
            (None, None) => {}
        }
    }

    fn carry_out(&mut self, command: &Command) -> CommandResult {
        match command {
            Command::Ensemble { .. } => self.ensemble(command),
            Command::Elect { within } => self.elect(*within),
            Command::Start { ids, wait } => self.start(ids, *wait),
            Command::Crash { ids, at, passes } => ids.iter().try_for_each(|id| match at {
                Some(place) => self.on(*id, |world, server| world.crash_at(server, Some((place.0, *passes)))),
                None => self.crash(*id),
            }),
            Command::Unplug { id } => self.on(*id, World::cut_power),
            Command::Pause { id } => self.on(*id, |world, server| world.hosts[server].paused = true),
            Command::Resume { id } => self.on(*id, World::resume_process)?,
            Command::Resign { to, wait } => self.resign(*to, *wait),
            Command::Link { a, b, how, delay } => self.link(*a, *b, *how, *delay),
            Command::Hold { from, to, kind, passes } => {
                let (from, to, name, passes) = (self.server(*from)?, self.server(*to)?, kind.clone(), *passes);
                self.world()?.network.hold(Hold { from, to, name, passes });
                Ok(())
            }
            Command::Release { from, to } => {
                let (from, to) = (self.server(*from)?, self.server(*to)?);
                self.world()?.release(from, to);
                Ok(())
            }
            Command::Disk { id, how, sync } => self.disk(*id, how.map(|how| how.0), *sync),
            Command::Wipe { id } => self.wipe(*id),
            Command::Jump { id, by } => self.on(*id, |world, server| world.jump_clock(server, by.0)),
            Command::Oracle { id, name, score, version } => self.oracle(*id, name.as_ref(), score.as_ref(), *version),
            Command::Attach { session, id, wait } => self.attach(session, *id, *wait),
            Command::Members { id, voters, observers, session, wait } => {
                let (voters, observers) = (numbers(Some(voters))?, numbers(observers.as_ref())?);
                let what = format!("members {voters:?} {observers:?}");
                let request = ClientOp::Write(Change::Put(MEMBERS, encode_members(voters, observers)));
                self.send_request(*id, session.as_ref(), *wait, request, what)
            }
            Command::Write { id, key, value, session, wait } => {
                let (number, data) = (self.names.key(key), self.names.value(value));
                let request = ClientOp::Write(Change::Put(number, data));
                self.send_request(*id, session.as_ref(), *wait, request, format!("{key}={value}"))
            }
            Command::Create { id, key, value, session, wait } => {
                let (number, data) = (self.names.key(key), self.names.value(value));
                let request = ClientOp::Write(Change::Insert(number, data));
                self.send_request(*id, session.as_ref(), *wait, request, format!("create {key}={value}"))
            }
            Command::Delete { id, key, session, wait } => {
                let request = ClientOp::Write(Change::Delete(self.names.key(key)));
                self.send_request(*id, session.as_ref(), *wait, request, format!("delete {key}"))
            }
            Command::Read { id, key, session, wait } => {
                let request = ClientOp::Read(self.names.key(key));
                self.send_request(*id, session.as_ref(), *wait, request, format!("read {key}"))
            }
            Command::Sync { id, session, wait } => {
                self.send_request(*id, session.as_ref(), *wait, ClientOp::Sync, "sync".to_owned())
            }
            Command::Connect { name, id, timeout, wait } => self.connect_sim_client(name, *id, *timeout, *wait),
            Command::Ask { name, what, wait } => self.sim_client_sends(name, what, *wait),
            Command::Leave { name } => self.sim_client_disconnects(name),
            Command::Tree { id } => {
                let server = self.server(*id)?;
                self.flush_observations()?;
                let Some(world) = &self.world else { return Ok(()) };
                let lines = sim_clients::tree(world, server, &self.names)?;
                lines.into_iter().for_each(|line| self.transcript.push_line(line));
                Ok(())
            }
            Command::Step { count } => {
                let world = self.world()?;
                (0..*count).all(|_| world.report.failure.is_none() && world.next(u64::MAX));
                Ok(())
            }
            Command::Run { ms } => {
                let world = self.world()?;
                world.run_until(world.now + ms.0);
                Ok(())
            }
            Command::State { ids } => self.state(ids),
            Command::Log { id } => {
                let server = self.server(*id)?;
                self.flush_observations()?;
                let Some(world) = &self.world else { return Ok(()) };
                let text = state::log(world, server, &self.names);
                text.lines().for_each(|line| self.transcript.push_line(line.to_owned()));
                Ok(())
            }
            Command::Why { id } => self.why(*id),
            Command::Heal => self.heal(),
            Command::Check { ids } => {
                let servers = ids.iter().map(|id| self.server(*id)).collect::<Result<Vec<_>, _>>()?;
                self.world()?.run_until_condition(SETTLED_WITHIN, |world| state::check(world, &servers).is_ok());
                let text = state::check(self.flush_observations()?, &servers)?;
                self.transcript.push_line(text.trim_end().to_owned());
                Ok(())
            }
        }
    }

    /// Moves all observations into the transcript and returns the world.
    fn flush_observations(&mut self) -> Result<&World, String> {
        let world = self.world.as_mut().ok_or("begin with `ensemble`")?;
        self.transcript.record(world.take_observations(), &self.names);
        Ok(world)
    }

    fn world(&mut self) -> Result<&mut World, String> {
        self.world.as_mut().ok_or_else(|| "begin with `ensemble`".to_owned())
    }

    fn server(&mut self, id: u64) -> Result<usize, String> {
        let servers = self.world()?.hosts.len();
        let index = usize::try_from(id).ok().and_then(|id| id.checked_sub(1)).filter(|server| *server < servers);
        index.ok_or_else(|| format!("there is no server {id}"))
    }

    fn on<T>(&mut self, id: u64, act: impl FnOnce(&mut World, usize) -> T) -> Result<T, String> {
        let server = self.server(id)?;
        Ok(act(self.world()?, server))
    }

    fn ensemble(&mut self, command: &Command) -> CommandResult {
        let Command::Ensemble { servers, oracle, scores, topology, down, .. } = command else { return Ok(()) };
        let topology = topology.as_deref().map(topology_of).transpose()?;
        let listed = scores.as_ref().map(|scores| scores.0.len());
        let servers = servers.or(listed).or(topology.as_ref().map(|t| t.servers().count())).unwrap_or(3);
        let mut world = World::scripted(setup(servers, command)?);
        for (server, scripted_oracle) in
            scripted_oracles(servers, oracle.as_ref(), scores.as_ref())?.into_iter().enumerate()
        {
            world.hosts[server].scripted_oracle = Some(scripted_oracle);
        }
        for (a, b) in (0..servers).flat_map(|a| (a + 1..servers).map(move |b| (a, b))) {
            if let Some(line) = topology.as_ref().and_then(|t| t.link(a as u64 + 1, b as u64 + 1)) {
                world.network.set_line(a, b, |old| *old = pole_topology::Link { jitter_ppm: 0, ..line });
            }
        }
        let absent =
            |server: usize| down.as_ref().is_some_and(|down| down.0.iter().any(|id| *id == (server + 1).to_string()));
        (0..servers).filter(|server| !absent(*server)).for_each(|server| world.schedule_start(server));
        let old = self.world.as_mut().and_then(|world| world.recorder.take());
        world.recorder = old.or(self.recorder.take());
        *self = Self { world: Some(world), commands: std::mem::take(&mut self.commands), ..Self::default() };
        Ok(())
    }

    fn elect(&mut self, within: Option<Ms>) -> CommandResult {
        let within = within.map_or(10 * SECOND, |ms| ms.0);
        let world = self.world()?;
        let found = world.run_until_condition(within, |world| world.leader().is_some());
        world.run_until_condition(SETTLED_WITHIN.min(within), World::is_settled);
        if !found {
            self.flush_observations()?;
            self.transcript.push_line(format!("nobody leads after {} ms", within / MS));
        }
        Ok(())
    }

    fn start(&mut self, ids: &[u64], wait: Option<Switch>) -> CommandResult {
        let servers = ids.iter().map(|id| self.server(*id)).collect::<Result<Vec<_>, _>>()?;
        let world = self.world()?;
        servers.iter().for_each(|server| world.schedule_start(*server));
        if is_on(wait) {
            let serves = |world: &World| servers.iter().all(|server| world.epoch_of(*server).is_some());
            world.run_until_condition(3 * SECOND, serves);
        }
        Ok(())
    }

    fn crash(&mut self, id: u64) -> CommandResult {
        let disk = self.on(id, |world, server| {
            world.crash_at(server, None);
            DurableState::of(&world.hosts[server].disk.durable)
        })?;
        self.flush_observations()?;
        self.transcript.push_line(format!("{id} crashes, {}", on_disk(&disk)));
        Ok(())
    }

    fn resign(&mut self, to: Option<u64>, wait: Option<Switch>) -> CommandResult {
        let world = self.world()?;
        let leader = world.leader().ok_or("nobody leads")?;
        let epoch = world.epoch_of(leader);
        world.deliver_event(leader, Event::Transfer { to: to.map(pole_types::ServerId) });
        if is_on(wait) {
            let changed = |world: &World| world.leader().is_some_and(|leader| world.epoch_of(leader) != epoch);
            world.run_until_condition(3 * SECOND, |world| changed(world) && world.is_settled());
        }
        Ok(())
    }

    fn link(&mut self, a: u64, b: u64, how: Option<LinkState>, delay: Option<Ms>) -> CommandResult {
        let (a, b) = (self.server(a)?, self.server(b)?);
        let world = self.world()?;
        if let Some(delay) = delay {
            world.network.set_line(a, b, |line| line.rtt_ns = 2 * delay.0);
        }
        match how {
            Some(LinkState::Up) => {
                world.set_direction(a, b, true);
                world.set_direction(b, a, true);
            }
            Some(LinkState::Down) => {
                world.set_direction(a, b, false);
                world.set_direction(b, a, false);
            }
            Some(LinkState::OneWay) => {
                world.set_direction(a, b, true);
                world.set_direction(b, a, false);
            }
            Some(LinkState::Reset) => world.break_links(a, b)?,
            Some(LinkState::HalfOpen) => world.break_links_at(a, b)?,
            None if delay.is_none() => return Err("say what becomes of the link".to_owned()),
            None => {}
        }
        Ok(())
    }

    fn disk(&mut self, id: u64, how: Option<DiskMode>, sync: Option<Ms>) -> CommandResult {
        let mode = how.or(sync.map(|ms| DiskMode::SyncTakes(ms.0))).ok_or("say what becomes of the disk")?;
        self.on(id, |world, server| world.set_disk(server, mode))
    }

    fn wipe(&mut self, id: u64) -> CommandResult {
        let runs = self.on(id, |world, server| {
            world.hosts[server].disk.wipe();
            world.checker.wiped(server);
            world.hosts[server].node.is_some()
        })?;
        if runs { Err(format!("{id} runs: crash it first")) } else { Ok(()) }
    }

    fn oracle(
        &mut self,
        id: u64,
        name: Option<&String>,
        score: Option<&String>,
        version: Option<u64>,
    ) -> CommandResult {
        let server = self.server(id)?;
        let host = &mut self.world()?.hosts[server];
        let scripted_oracle = host.scripted_oracle.get_or_insert_with(|| ScriptedOracle::of("history", None));
        if let Some(name) = name {
            *scripted_oracle = ScriptedOracle { version: scripted_oracle.version, ..ScriptedOracle::of(name, None) };
        }
        if let Some(score) = score {
            scripted_oracle.score = Some(score.clone());
        }
        if let Some(version) = version {
            scripted_oracle.version = Zxid::new(Epoch(version as u32), 1);
        }
        scripted_oracle.check()?;
        if let Some(node) = &mut host.node {
            node.set_oracle(scripted_oracle.build(), scripted_oracle.version);
        }
        Ok(())
    }

    fn attach(&mut self, session: &str, id: u64, wait: Option<Switch>) -> CommandResult {
        let server = self.server(id)?;
        let client = self.client(session)?;
        self.transcript.expect(client, Cxid(0), format!("session {session} at {id}"));
        self.connect(client, server, is_on(wait))?;
        Ok(())
    }

    /// Reconnects a client to a server.
    fn connect(&mut self, client: usize, server: usize, wait: bool) -> CommandResult {
        let world = self.world()?;
        world.clients[client].disconnect();
        world.connect_to(client, server);
        if wait {
            world.run_until_condition(SECOND, |world| world.clients[client].is_idle());
        }
        Ok(())
    }

    fn client(&mut self, session: &str) -> Result<usize, String> {
        let (client, new) = self.names.client(session);
        if new {
            self.world()?.new_client();
        }
        Ok(client)
    }

    fn send_request(
        &mut self,
        id: u64,
        session: Option<&String>,
        wait: Option<Switch>,
        request: ClientOp,
        what: String,
    ) -> CommandResult {
        let server = self.server(id)?;
        let client = self.client(session.unwrap_or(&id.to_string()))?;
        if !self.world()?.clients[client].is_at(server) {
            self.flush_observations()?;
            self.transcript.forget(client);
            self.connect(client, server, true)?;
        }
        if !self.world()?.clients[client].is_at(server) {
            self.flush_observations()?;
            self.transcript.push_line(format!("{what}: no session at {id}"));
            return Ok(());
        }
        let cxid = self.world()?.send_request(client, request);
        self.transcript.expect(client, cxid, what.clone());
        if is_on(wait) {
            let answered = self.world()?.run_until_condition(2 * SECOND, |world| world.clients[client].is_idle());
            self.flush_observations()?;
            if !answered {
                self.transcript.push_line(format!("{what}: no answer yet"));
            }
        }
        Ok(())
    }

    /// Reconnects a ZooKeeper client to a server; creates it on first use.
    fn connect_sim_client(&mut self, name: &str, id: u64, timeout: Option<u64>, wait: Option<Switch>) -> CommandResult {
        let server = self.server(id)?;
        let (client, new) = self.names.sim_client(name);
        let world = self.world()?;
        if new {
            world.new_sim_client(timeout.unwrap_or(4_000));
        }
        world.sim_client_connect_to(client, server);
        if is_on(wait) {
            world.run_until_condition(2 * SECOND, |world| world.sim_clients[client].is_idle());
        }
        Ok(())
    }

    /// A ZooKeeper client whose session is attached at a server.
    fn open_sim_client(&mut self, name: &str) -> Result<(usize, &mut World), String> {
        let (client, new) = self.names.sim_client(name);
        let world = self.world()?;
        if new || !world.sim_clients[client].is_open() {
            return Err(format!("{name} has no session: begin with `connect {name} ID`"));
        }
        Ok((client, world))
    }

    fn sim_client_disconnects(&mut self, name: &str) -> CommandResult {
        let (client, world) = self.open_sim_client(name)?;
        world.sim_client_closes(client);
        Ok(())
    }

    fn sim_client_sends(&mut self, name: &str, what: &[String], wait: Option<Switch>) -> CommandResult {
        let request = sim_clients::request(what)?;
        let (client, world) = self.open_sim_client(name)?;
        world.sim_client_sends(client, request);
        if is_on(wait) && !world.run_until_condition(2 * SECOND, |world| world.sim_clients[client].is_idle()) {
            self.flush_observations()?;
            self.transcript.push_line(format!("{name} has no answer yet"));
        }
        Ok(())
    }

    fn state(&mut self, ids: &[u64]) -> CommandResult {
        let all = 0..self.world()?.hosts.len();
        let named = ids.iter().map(|id| self.server(*id)).collect::<Result<Vec<_>, _>>()?;
        let servers = if named.is_empty() { all.collect() } else { named };
        self.flush_observations()?;
        for server in servers {
            let line = state::describe(self.world()?, server);
            self.transcript.push_line(line);
        }
        Ok(())
    }

    fn why(&mut self, id: u64) -> CommandResult {
        let server = self.server(id)?;
        self.flush_observations()?;
        let record = self.transcript.records.get(&server).ok_or_else(|| format!("{id} saw no election end"))?;
        let text = record.to_string();
        let lines: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("steps:")).collect();
        lines.into_iter().for_each(|line| self.transcript.push_line(line.to_owned()));
        Ok(())
    }

    fn heal(&mut self) -> CommandResult {
        let world = self.world()?;
        world.end_scripted_faults()?;
        if world.run_until_condition(RECOVERED_WITHIN, World::is_level) || world.report.failure.is_some() {
            return Ok(());
        }
        let states: Vec<_> = (0..world.hosts.len()).map(|server| state::describe(world, server)).collect();
        Err(format!("{}does not heal:\n{}", self.transcript.take(), states.join("\n")))
    }
}

/// Loads a preset, or a file.
fn topology_of(name: &str) -> Result<Topology, String> {
    if let Some(preset) = Topology::preset(name) {
        return Ok(preset);
    }
    let presets = || PRESETS.map(|(preset, _)| preset).join(", ");
    let text = std::fs::read_to_string(name)
        .map_err(|error| format!("topology {name}: {error}; name a TOML file, or one of {}", presets()))?;
    let topology = Topology::parse(&text).map_err(|error| error.in_file(name).to_string())?;
    let count = topology.servers().count() as u64;
    let strange = topology.servers().find(|server| !(1..=count).contains(&server.id));
    match strange {
        Some(server) => {
            Err(format!("server {} of topology {name}: servers of a script go from 1 to {count}", server.id))
        }
        None => Ok(topology),
    }
}

fn is_on(wait: Option<Switch>) -> bool {
    wait.is_none_or(|wait| wait.0)
}

/// The setup for an `ensemble` command.
fn setup(servers: usize, command: &Command) -> Result<Setup, String> {
    let mut setup = Setup::scripted(servers);
    let Command::Ensemble {
        retain, snapshot, piece, window, counter, outstanding, resign, tree, changing, direct, ..
    } = command
    else {
        return Ok(setup);
    };
    setup.changes_members = changing.is_some_and(|changing| changing.0);
    setup.direct_acks = direct.is_some_and(|direct| direct.0).then_some(Span::ZERO);
    setup.members = members(servers, command)?;
    setup.tree = tree.is_some_and(|tree| tree.0);
    let tuning = &mut setup.tuning;
    tuning.retain_bytes = retain.unwrap_or(tuning.retain_bytes);
    tuning.snapshot_every = snapshot.unwrap_or(tuning.snapshot_every);
    tuning.piece_bytes = piece.unwrap_or(tuning.piece_bytes);
    tuning.pieces_in_flight = window.unwrap_or(tuning.pieces_in_flight);
    tuning.counter_max = counter.unwrap_or(tuning.counter_max);
    tuning.outstanding_max = outstanding.unwrap_or(tuning.outstanding_max);
    tuning.resign = resign.is_some_and(|resign| resign.0);
    Ok(setup)
}

/// The voters and observers of an `ensemble` command. Weights and groups are listed for all servers.
fn members(servers: usize, command: &Command) -> Result<Membership, String> {
    let Command::Ensemble { observers, spare, weights, groups, .. } = command else { return Err("no ensemble".into()) };
    let (observers, weights, groups) =
        (numbers(observers.as_ref())?, numbers(weights.as_ref())?, numbers(groups.as_ref())?);
    let spare = numbers(spare.as_ref())?;
    let votes = |server: &usize| !observers.contains(&(*server as u64 + 1)) && !spare.contains(&(*server as u64 + 1));
    let voters = (0..servers).filter(votes).map(|server| {
        let weight = weights.get(server).map_or(1, |weight| *weight as u32);
        (id(server), Voter { weight, group: groups.get(server).copied().unwrap_or(0) })
    });
    Ok(Membership::new(Voters::weighted(voters), observers.into_iter().map(ServerId)))
}

fn numbers(list: Option<&List>) -> Result<Vec<u64>, String> {
    let words = list.map_or(&[][..], |list| &list.0);
    words.iter().map(|word| word.parse().map_err(|_| format!("`{word}` is not a number"))).collect()
}

/// The oracle of each server. For a preference the scores are its weights.
fn scripted_oracles(
    servers: usize,
    oracle: Option<&String>,
    scores: Option<&List>,
) -> Result<Vec<ScriptedOracle>, String> {
    let fallback = if scores.is_some() { "request" } else { "history" };
    let mut name = oracle.map_or(fallback, String::as_str).to_owned();
    if let Some(scores) = scores
        && scores.0.len() != servers
    {
        return Err(format!("{} scores for {servers} servers", scores.0.len()));
    }
    let mut scores_by_server: Vec<_> =
        (0..servers).map(|server| scores.map(|scores| scores.0[server].clone())).collect();
    if name == "preference" && scores.is_some() {
        let weights: Vec<_> =
            scores_by_server.iter().flatten().enumerate().map(|(at, weight)| format!("{}:{weight}", at + 1)).collect();
        name = format!("preference={}", weights.join(","));
        scores_by_server = vec![None; servers];
    }
    let scripted_oracles: Vec<_> = scores_by_server.into_iter().map(|score| ScriptedOracle::of(&name, score)).collect();
    scripted_oracles.iter().try_for_each(ScriptedOracle::check)?;
    Ok(scripted_oracles)
}

/// How long the others may take to follow an established leader: longer than any liveness timeout on a LAN.
const SETTLED_WITHIN: u64 = 1_500 * MS;
/// The same limit as in the liveness phase of seeds.
const RECOVERED_WITHIN: u64 = 25 * SECOND;
