//! Plays a script: carries its commands out in a world, and says what was seen.

use std::collections::VecDeque;
use std::error::Error;

use goldenscript::{Block, Context, Runner};
use pole_election::{Epoch, Zxid};
use pole_node::Event;
use pole_topology::{PRESETS, Topology};
use pole_zab::Cxid;

use super::command::{Command, List, Ms, Switch, Way};
use super::teller::{Teller, on_disk};
use super::words::Words;
use super::{guests, state};
use crate::kv::Change;
use crate::play::{Recorder, What};
use crate::sim::{Asked, Hold, MS, Mood, OnDisk, Opinion, SECOND, Setup, World};

/// The state of a script.
#[derive(Default)]
pub(crate) struct Play {
    world: Option<World>,
    words: Words,
    teller: Teller,
    /// The record, if somebody watches and no world has it yet.
    recorder: Option<Box<Recorder>>,
    /// The commands of this block that have not had their turn.
    commands: VecDeque<String>,
}

type Done = Result<(), String>;

impl Runner for Play {
    type Command = Command;

    fn start_block(&mut self, block: &Block) -> Result<String, Box<dyn Error>> {
        self.commands = block.commands.iter().map(ToString::to_string).collect();
        Ok(String::new())
    }

    fn run(&mut self, command: &Command, _context: &Context) -> Result<String, Box<dyn Error>> {
        let turn = self.commands.pop_front().unwrap_or_default();
        self.records(command, What::Turn(turn));
        self.carry_out(command)?;
        if let Some(world) = &mut self.world {
            self.teller.tell(world.take_sights(), &self.words);
            if let Some(failure) = &world.report.failure {
                return Err(format!("{}at {} us: {failure}", self.teller.take(), world.now / 1_000).into());
            }
        }
        let told = self.teller.take();
        if !told.is_empty() {
            self.records(command, What::Told(told.trim_end().to_owned()));
        }
        Ok(told)
    }
}

impl Play {
    /// One that keeps a record of what happens.
    pub(crate) fn recording(upkeep: bool) -> Self {
        Self { recorder: Some(Box::new(Recorder::new(upkeep))), ..Self::default() }
    }

    /// The record, and whether the ensemble broke a rule in it.
    pub(crate) fn into_record(mut self) -> (crate::play::Play, bool) {
        let is_broken = self.world.as_ref().is_some_and(|world| world.report.failure.is_some());
        let recorder = self.world.as_mut().and_then(|world| world.recorder.take()).or(self.recorder);
        (recorder.map(|recorder| recorder.into_play()).unwrap_or_default(), is_broken)
    }

    fn records(&mut self, command: &Command, what: What) {
        match (&mut self.world, &mut self.recorder) {
            // What the last ensemble believed is of no interest to the next.
            (Some(world), _) if matches!((command, &what), (Command::Ensemble { .. }, What::Turn(_))) => {
                let now = world.now;
                world.recorder.iter_mut().for_each(|recorder| recorder.notes(now, what.clone(), Vec::new()));
            }
            (Some(world), _) => world.record(|| Some(what)),
            (None, Some(recorder)) => recorder.notes(0, what, Vec::new()),
            (None, None) => {}
        }
    }

    fn carry_out(&mut self, command: &Command) -> Done {
        match command {
            Command::Ensemble { .. } => self.ensemble(command),
            Command::Elect { within } => self.elect(*within),
            Command::Start { ids, wait } => self.start(ids, *wait),
            Command::Crash { ids, at, passes } => ids.iter().try_for_each(|id| match at {
                Some(place) => self.on(*id, |world, server| world.crashes(server, Some((place.0, *passes)))),
                None => self.crash(*id),
            }),
            Command::Unplug { id } => self.on(*id, World::loses_power),
            Command::Pause { id } => self.on(*id, |world, server| world.hosts[server].paused = true),
            Command::Resume { id } => self.on(*id, World::resumes)?,
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
            Command::Jump { id, by } => self.on(*id, |world, server| world.clock_jumps(server, by.0)),
            Command::Oracle { id, name, score, version } => self.oracle(*id, name.as_ref(), score.as_ref(), *version),
            Command::Attach { session, id, wait } => self.attach(session, *id, *wait),
            Command::Write { id, key, value, session, wait } => {
                let (number, data) = (self.words.key(key), self.words.value(value));
                let what = Asked::Write(Change::Put(number, data));
                self.ask(*id, session.as_ref(), *wait, what, format!("{key}={value}"))
            }
            Command::Create { id, key, value, session, wait } => {
                let (number, data) = (self.words.key(key), self.words.value(value));
                let what = Asked::Write(Change::Insert(number, data));
                self.ask(*id, session.as_ref(), *wait, what, format!("create {key}={value}"))
            }
            Command::Delete { id, key, session, wait } => {
                let what = Asked::Write(Change::Delete(self.words.key(key)));
                self.ask(*id, session.as_ref(), *wait, what, format!("delete {key}"))
            }
            Command::Read { id, key, session, wait } => {
                let what = Asked::Read(self.words.key(key));
                self.ask(*id, session.as_ref(), *wait, what, format!("read {key}"))
            }
            Command::Sync { id, session, wait } => {
                self.ask(*id, session.as_ref(), *wait, Asked::Sync, "sync".to_owned())
            }
            Command::Guest { name, id, timeout, wait } => self.guest(name, *id, *timeout, *wait),
            Command::Ask { name, what, wait } => self.guest_asks(name, what, *wait),
            Command::Leave { name } => self.guest_leaves(name),
            Command::Tree { id } => {
                let server = self.server(*id)?;
                self.seen()?;
                let Some(world) = &self.world else { return Ok(()) };
                let lines = guests::tree(world, server, &self.words)?;
                lines.into_iter().for_each(|line| self.teller.say(line));
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
                self.seen()?;
                let Some(world) = &self.world else { return Ok(()) };
                let text = state::log(world, server, &self.words);
                text.lines().for_each(|line| self.teller.say(line.to_owned()));
                Ok(())
            }
            Command::Why { id } => self.why(*id),
            Command::Heal => self.heal(),
            Command::Check { ids } => {
                let servers = ids.iter().map(|id| self.server(*id)).collect::<Result<Vec<_>, _>>()?;
                self.world()?.runs_until(SETTLED_WITHIN, |world| state::check(world, &servers).is_ok());
                let text = state::check(self.seen()?, &servers)?;
                self.teller.say(text.trim_end().to_owned());
                Ok(())
            }
        }
    }

    /// The world, with everything told that was seen in it so far.
    fn seen(&mut self) -> Result<&World, String> {
        let world = self.world.as_mut().ok_or("begin with `ensemble`")?;
        self.teller.tell(world.take_sights(), &self.words);
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

    fn ensemble(&mut self, command: &Command) -> Done {
        let Command::Ensemble { servers, oracle, scores, topology, down, .. } = command else { return Ok(()) };
        let topology = topology.as_deref().map(topology_of).transpose()?;
        let listed = scores.as_ref().map(|scores| scores.0.len());
        let servers = servers.or(listed).or(topology.as_ref().map(|t| t.servers().count())).unwrap_or(3);
        let mut world = World::staged(setup(servers, command));
        for (server, opinion) in opinions(servers, oracle.as_ref(), scores.as_ref())?.into_iter().enumerate() {
            world.hosts[server].opinion = Some(opinion);
        }
        for (a, b) in (0..servers).flat_map(|a| (a + 1..servers).map(move |b| (a, b))) {
            if let Some(line) = topology.as_ref().and_then(|t| t.link(a as u64 + 1, b as u64 + 1)) {
                world.network.set_line(a, b, |old| *old = pole_topology::Link { jitter_ppm: 0, ..line });
            }
        }
        let absent =
            |server: usize| down.as_ref().is_some_and(|down| down.0.iter().any(|id| *id == (server + 1).to_string()));
        (0..servers).filter(|server| !absent(*server)).for_each(|server| world.starts(server));
        let old = self.world.as_mut().and_then(|world| world.recorder.take());
        world.recorder = old.or(self.recorder.take());
        *self = Self { world: Some(world), commands: std::mem::take(&mut self.commands), ..Self::default() };
        Ok(())
    }

    fn elect(&mut self, within: Option<Ms>) -> Done {
        let within = within.map_or(10 * SECOND, |ms| ms.0);
        let world = self.world()?;
        let found = world.runs_until(within, |world| world.leader().is_some());
        world.runs_until(SETTLED_WITHIN.min(within), World::is_settled);
        if !found {
            self.seen()?;
            self.teller.say(format!("nobody leads after {} ms", within / MS));
        }
        Ok(())
    }

    fn start(&mut self, ids: &[u64], wait: Option<Switch>) -> Done {
        let servers = ids.iter().map(|id| self.server(*id)).collect::<Result<Vec<_>, _>>()?;
        let world = self.world()?;
        servers.iter().for_each(|server| world.starts(*server));
        if is_on(wait) {
            let serves = |world: &World| servers.iter().all(|server| world.epoch_of(*server).is_some());
            world.runs_until(3 * SECOND, serves);
        }
        Ok(())
    }

    fn crash(&mut self, id: u64) -> Done {
        let disk = self.on(id, |world, server| {
            world.crashes(server, None);
            OnDisk::of(&world.hosts[server].disk.durable)
        })?;
        self.seen()?;
        self.teller.say(format!("{id} crashes, {}", on_disk(&disk)));
        Ok(())
    }

    fn resign(&mut self, to: Option<u64>, wait: Option<Switch>) -> Done {
        let world = self.world()?;
        let leader = world.leader().ok_or("nobody leads")?;
        let epoch = world.epoch_of(leader);
        world.tell(leader, Event::Transfer { to: to.map(pole_election::ServerId) });
        if is_on(wait) {
            let changed = |world: &World| world.leader().is_some_and(|leader| world.epoch_of(leader) != epoch);
            world.runs_until(3 * SECOND, |world| changed(world) && world.is_settled());
        }
        Ok(())
    }

    fn link(&mut self, a: u64, b: u64, how: Option<Way>, delay: Option<Ms>) -> Done {
        let (a, b) = (self.server(a)?, self.server(b)?);
        let world = self.world()?;
        if let Some(delay) = delay {
            world.network.set_line(a, b, |line| line.rtt_ns = 2 * delay.0);
        }
        match how {
            Some(Way::Up) => {
                world.set_way(a, b, true);
                world.set_way(b, a, true);
            }
            Some(Way::Down) => {
                world.set_way(a, b, false);
                world.set_way(b, a, false);
            }
            Some(Way::Single) => {
                world.set_way(a, b, true);
                world.set_way(b, a, false);
            }
            Some(Way::Reset) => world.break_links(a, b)?,
            Some(Way::HalfOpen) => world.break_links_at(a, b)?,
            None if delay.is_none() => return Err("say what becomes of the link".to_owned()),
            None => {}
        }
        Ok(())
    }

    fn disk(&mut self, id: u64, how: Option<Mood>, sync: Option<Ms>) -> Done {
        let mood = how.or(sync.map(|ms| Mood::Takes(ms.0))).ok_or("say what becomes of the disk")?;
        self.on(id, |world, server| world.set_disk(server, mood))
    }

    fn wipe(&mut self, id: u64) -> Done {
        let runs = self.on(id, |world, server| {
            world.hosts[server].disk.wipe();
            world.judge.wiped(server);
            world.hosts[server].node.is_some()
        })?;
        if runs { Err(format!("{id} runs: crash it first")) } else { Ok(()) }
    }

    fn oracle(&mut self, id: u64, name: Option<&String>, score: Option<&String>, version: Option<u64>) -> Done {
        let server = self.server(id)?;
        let host = &mut self.world()?.hosts[server];
        let opinion = host.opinion.get_or_insert_with(|| Opinion::of("history", None));
        if let Some(name) = name {
            *opinion = Opinion { version: opinion.version, ..Opinion::of(name, None) };
        }
        if let Some(score) = score {
            opinion.says = Some(score.clone());
        }
        if let Some(version) = version {
            opinion.version = Zxid::new(Epoch(version as u32), 1);
        }
        opinion.check()?;
        if let Some(node) = &mut host.node {
            node.set_oracle(opinion.build(), opinion.version);
        }
        Ok(())
    }

    fn attach(&mut self, session: &str, id: u64, wait: Option<Switch>) -> Done {
        let server = self.server(id)?;
        let client = self.client(session)?;
        self.teller.expect(client, Cxid(0), format!("session {session} at {id}"));
        self.connect(client, server, is_on(wait))?;
        Ok(())
    }

    /// A client leaves where it was and connects.
    fn connect(&mut self, client: usize, server: usize, wait: bool) -> Done {
        let world = self.world()?;
        world.clients[client].forgets();
        world.goes_to(client, server);
        if wait {
            world.runs_until(SECOND, |world| world.clients[client].is_idle());
        }
        Ok(())
    }

    fn client(&mut self, session: &str) -> Result<usize, String> {
        let (client, new) = self.words.client(session);
        if new {
            self.world()?.new_client();
        }
        Ok(client)
    }

    fn ask(&mut self, id: u64, session: Option<&String>, wait: Option<Switch>, asked: Asked, what: String) -> Done {
        let server = self.server(id)?;
        let client = self.client(session.unwrap_or(&id.to_string()))?;
        if !self.world()?.clients[client].is_at(server) {
            self.seen()?;
            self.teller.forget(client);
            self.connect(client, server, true)?;
        }
        if !self.world()?.clients[client].is_at(server) {
            self.seen()?;
            self.teller.say(format!("{what}: no session at {id}"));
            return Ok(());
        }
        let cxid = self.world()?.asks(client, asked);
        self.teller.expect(client, cxid, what.clone());
        if is_on(wait) {
            let answered = self.world()?.runs_until(2 * SECOND, |world| world.clients[client].is_idle());
            self.seen()?;
            if !answered {
                self.teller.say(format!("{what}: no answer yet"));
            }
        }
        Ok(())
    }

    /// A client of the service leaves where it was and connects.
    fn guest(&mut self, name: &str, id: u64, timeout: Option<u64>, wait: Option<Switch>) -> Done {
        let server = self.server(id)?;
        let (guest, new) = self.words.guest(name);
        let world = self.world()?;
        if new {
            world.new_guest(timeout.unwrap_or(4_000));
        }
        world.guest_goes_to(guest, server);
        if is_on(wait) {
            world.runs_until(2 * SECOND, |world| world.guests[guest].is_idle());
        }
        Ok(())
    }

    /// A client of the service that has its session at a server.
    fn open_guest(&mut self, name: &str) -> Result<(usize, &mut World), String> {
        let (guest, new) = self.words.guest(name);
        let world = self.world()?;
        if new || !world.guests[guest].is_open() {
            return Err(format!("{name} has no session: begin with `guest {name} ID`"));
        }
        Ok((guest, world))
    }

    fn guest_leaves(&mut self, name: &str) -> Done {
        let (guest, world) = self.open_guest(name)?;
        world.guest_closes(guest);
        Ok(())
    }

    fn guest_asks(&mut self, name: &str, what: &[String], wait: Option<Switch>) -> Done {
        let request = guests::request(what)?;
        let (guest, world) = self.open_guest(name)?;
        world.guest_asks(guest, request);
        if is_on(wait) && !world.runs_until(2 * SECOND, |world| world.guests[guest].is_idle()) {
            self.seen()?;
            self.teller.say(format!("{name} has no answer yet"));
        }
        Ok(())
    }

    fn state(&mut self, ids: &[u64]) -> Done {
        let all = 0..self.world()?.hosts.len();
        let named = ids.iter().map(|id| self.server(*id)).collect::<Result<Vec<_>, _>>()?;
        let servers = if named.is_empty() { all.collect() } else { named };
        self.seen()?;
        for server in servers {
            let line = state::describe(self.world()?, server);
            self.teller.say(line);
        }
        Ok(())
    }

    fn why(&mut self, id: u64) -> Done {
        let server = self.server(id)?;
        self.seen()?;
        let record = self.teller.records.get(&server).ok_or_else(|| format!("{id} saw no election end"))?;
        let text = record.to_string();
        let lines: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("steps:")).collect();
        lines.into_iter().for_each(|line| self.teller.say(line.to_owned()));
        Ok(())
    }

    fn heal(&mut self) -> Done {
        let world = self.world()?;
        world.all_faults_end()?;
        if world.runs_until(HEALED_WITHIN, World::is_level) || world.report.failure.is_some() {
            return Ok(());
        }
        let states: Vec<_> = (0..world.hosts.len()).map(|server| state::describe(world, server)).collect();
        Err(format!("{}does not heal:\n{}", self.teller.take(), states.join("\n")))
    }
}

/// One of the presets, or a file.
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

/// The setup that an `ensemble` asks for.
fn setup(servers: usize, command: &Command) -> Setup {
    let mut setup = Setup::staged(servers);
    let Command::Ensemble { retain, snapshot, piece, window, counter, outstanding, resign, tree, .. } = command else {
        return setup;
    };
    setup.tree = tree.is_some_and(|tree| tree.0);
    let tuning = &mut setup.tuning;
    tuning.retain_bytes = retain.unwrap_or(tuning.retain_bytes);
    tuning.snapshot_every = snapshot.unwrap_or(tuning.snapshot_every);
    tuning.piece_bytes = piece.unwrap_or(tuning.piece_bytes);
    tuning.pieces_in_flight = window.unwrap_or(tuning.pieces_in_flight);
    tuning.counter_max = counter.unwrap_or(tuning.counter_max);
    tuning.outstanding_max = outstanding.unwrap_or(tuning.outstanding_max);
    tuning.resign = resign.is_some_and(|resign| resign.0);
    setup
}

/// What the oracle of each server is and says. The scores of a preference are its weights.
fn opinions(servers: usize, oracle: Option<&String>, scores: Option<&List>) -> Result<Vec<Opinion>, String> {
    let fallback = if scores.is_some() { "request" } else { "history" };
    let mut name = oracle.map_or(fallback, String::as_str).to_owned();
    if let Some(scores) = scores
        && scores.0.len() != servers
    {
        return Err(format!("{} scores for {servers} servers", scores.0.len()));
    }
    let mut says: Vec<_> = (0..servers).map(|server| scores.map(|scores| scores.0[server].clone())).collect();
    if name == "preference" && scores.is_some() {
        let weights: Vec<_> =
            says.iter().flatten().enumerate().map(|(at, weight)| format!("{}:{weight}", at + 1)).collect();
        name = format!("preference={}", weights.join(","));
        says = vec![None; servers];
    }
    let opinions: Vec<_> = says.into_iter().map(|says| Opinion::of(&name, says)).collect();
    opinions.iter().try_for_each(Opinion::check)?;
    Ok(opinions)
}

/// After a leader is established, others may take so long to notice: longer than any liveness timeout on a LAN.
const SETTLED_WITHIN: u64 = 1_500 * MS;
/// As in the liveness phase of seeds.
const HEALED_WITHIN: u64 = 25 * SECOND;
