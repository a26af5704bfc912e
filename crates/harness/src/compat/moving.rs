//! The move from Apache ZooKeeper to Pole and back, with clients that hold sessions, ephemeral nodes and watches and go
//! on writing.
//!
//! 1. Side by side: `pole migrate follow` copies a running ensemble of Apache whose leader is killed meanwhile;
//!    `pole migrate take-over` ends it, and Pole serves from the copy.
//! 2. Back: Apache on Pole's directories. Every node is compared, with its stat.
//! 3. In place: `pole migrate check`, then Pole on Apache's directories.
//! 4. Side by side, with TLS between the servers.
//!
//! No session may end, no acknowledged write may be lost, and nothing else may change. The longest time without a write
//! is printed for each step. Third-party clients hold locks, ephemeral nodes and watches all the time (`holders`).

mod clients;
mod holders;
mod tree;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::options::Options;
use super::{Tally, servers, work_dir};
use crate::Failure;
use crate::client::set_data;
use crate::command::killed_with_parent;
use crate::ensemble::{Ensemble, Launcher, Product, READY_LIMIT, Server, Setup};
use crate::tls::Certificates;
use clients::{Clients, HELD, ROOT, SIGNAL, WRITERS, writer_path};
use holders::Holders;
use tree::{Dump, STATIC, compare, dump, fill};

/// Finds or installs Apache and the clients.
pub(super) fn prepare() -> Result<(), Failure> {
    Product::Apache.launcher()?;
    holders::prepare()
}

pub(super) fn run(options: &Options, size: usize, launchers: &[Launcher]) -> Result<Tally, Failure> {
    let of = |product| launchers.iter().find(|launcher| launcher.product == product).cloned();
    let (Some(apache), Some(pole)) = (of(Product::Apache), of(Product::Pole)) else {
        return Err(Failure::Check("a move needs both: do not select one with --on".to_owned()));
    };
    let mut source = servers::with_addresses(&apache, &Setup::new("compat-move-apache", size))?;
    let mut target = Ensemble::prepare(&pole, &Setup::new("compat-move-pole", size))?;
    fill(source.addresses()[0], options.nodes)?;
    // Clients know all addresses, and use those that answer.
    let addresses: Vec<SocketAddr> = source.addresses().into_iter().chain(target.addresses()).collect();
    let mut holders = Holders::start(&addresses)?;
    holders.wait_ready()?;
    let clients = Clients::start(addresses, options.sessions);
    clients.wait("all sessions", |seen| seen.holding == options.sessions && seen.writes > 100)?;
    let (mut tally, mut check) =
        (Tally::default(), Check { clients: &clients, sessions: options.sessions, signals: 0 });

    let before = side_by_side(pole.program(), &mut source, &mut target, &clients)?;
    check.whole("side by side", &target, &before, &mut tally)?;
    holders.replaced()?;
    holders.wait_ready()?;
    source.done()?;

    back(&apache, &mut target, &clients)?;
    check.whole(BACK, &target, &before, &mut tally)?;
    holders.replaced()?;
    holders.wait_ready()?;

    in_place(&pole, &mut target, &clients)?;
    check.whole("in place", &target, &before, &mut tally)?;
    holders.replaced()?;
    tally.add(&holders.end()?);
    clients.end()?;
    target.done()?;
    tally.add(&with_tls(&apache, &pole, size)?);
    Ok(tally)
}

/// Side by side once more, with TLS between the servers of both, and few nodes and sessions.
fn with_tls(apache: &Launcher, pole: &Launcher, size: usize) -> Result<Tally, Failure> {
    let folder = work_dir().join("move-tls");
    fs::create_dir_all(&folder).map_err(|why| Failure::io("create", &folder, &why))?;
    let certificates = Certificates::make(&folder)?;
    let setup = |name: &str| {
        certificates.lines_between_servers().lines().fold(Setup::new(name, size), |setup, line| setup.with(line))
    };
    let mut source = servers::with_addresses(apache, &setup("compat-move-tls-apache"))?;
    let mut target = Ensemble::prepare(pole, &setup("compat-move-tls-pole"))?;
    fill(source.addresses()[0], SOME_NODES)?;
    let addresses: Vec<SocketAddr> = source.addresses().into_iter().chain(target.addresses()).collect();
    let clients = Clients::start(addresses, SOME_SESSIONS);
    clients.wait("all sessions", |seen| seen.holding == SOME_SESSIONS && seen.writes > 100)?;
    let (mut tally, mut check) = (Tally::default(), Check { clients: &clients, sessions: SOME_SESSIONS, signals: 0 });
    let before = side_by_side(pole.program(), &mut source, &mut target, &clients)?;
    check.whole("with TLS between servers", &target, &before, &mut tally)?;
    clients.end()?;
    source.done()?;
    target.done()?;
    Ok(tally)
}

/// Follows, takes over, and starts Pole. Returns the nodes that must be the same afterwards.
fn side_by_side(
    program: &Path,
    source: &mut Ensemble,
    target: &mut Ensemble,
    clients: &Clients,
) -> Result<Dump, Failure> {
    let configs = [source.servers()[0].config_path(), target.servers()[0].config_path()];
    let follow = Running::start(program, "follow", &configs, &[])?;
    follow.wait_for("follows server")?;
    // The copy goes on with the next leader.
    let leader = source.wait_ready(READY_LIMIT)?;
    source.server(leader).reap()?;
    let next = source.wait_ready(READY_LIMIT)?;
    follow.wait_for(&format!("follows server {}", next + 1))?;
    source.server(leader).start()?;
    source.wait_ready(READY_LIMIT)?;
    follow.terminate()?;
    wrong_order(program, source, &configs)?;

    let before = unchanging(source.addresses()[0])?;
    for server in source.servers() {
        let (path, pid) = (server.folder().join("pid"), server.pid().unwrap_or_default());
        fs::write(&path, pid.to_string()).map_err(|why| Failure::io("write", &path, &why))?;
    }
    let stop = format!("kill -9 $(cat {}/{{id}}/pid)", source.folder().display());
    let copies: Vec<String> = target.servers()[1..].iter().map(|s| s.data_dir().display().to_string()).collect();
    let mut arguments = vec!["--stop-command", &stop];
    copies.iter().for_each(|dir| arguments.extend(["--copy-to", dir]));
    clients.reset();
    let epoch = source.servers()[0].probe().epoch();
    let take_over = Running::start(program, "take-over", &configs, &arguments)?;
    take_over.wait()?;
    target.start_all()?;
    // Before its first write, a leader of Pole shows the last transaction of Apache.
    let writes = clients.seen().writes;
    clients.wait("a write", |seen| seen.writes > writes)?;
    let first = target.servers().iter().filter_map(|server| server.probe().epoch()).max();
    match first > epoch {
        true => Ok(before),
        false => Err(Failure::Check(format!("Pole writes in epoch {first:?}, and Apache did in {epoch:?}"))),
    }
}

/// An operator stops all servers at once, before the copy was compared: the take-over says so, goes on when they are
/// back, and has permitted nothing when it is given up.
fn wrong_order(program: &Path, source: &mut Ensemble, configs: &[PathBuf; 2]) -> Result<(), Failure> {
    let mut take_over = Running::start(program, "take-over", configs, &[])?;
    take_over.wait_for("Stop server")?;
    source.servers().iter().try_for_each(Server::ask_to_kill)?;
    take_over.wait_for("Apache has no leader any more")?;
    let stops = take_over.output().matches("Stop server").count();
    source.start_all()?;
    take_over.wait_until("it asks again", |output| output.matches("Stop server").count() > stops)?;
    let status = take_over.end()?;
    match status.code() {
        Some(1) => println!("move side by side: all servers stopped too early, and nothing was permitted"),
        _ => return Err(Failure::Check(format!("a take-over that was given up ended with {status}"))),
    }
    let marked = configs[1].with_file_name("data").join("following").exists();
    if marked { Ok(()) } else { Err(Failure::Check("a copy that is not complete may be started".to_owned())) }
}

/// Stops Pole, and starts Apache on its directories. Compares everything.
fn back(apache: &Launcher, target: &mut Ensemble, clients: &Clients) -> Result<(), Failure> {
    clients.pause(true);
    let before = settled(target)?;
    switch(apache, target)?;
    compare(&before, &dump(target.addresses()[0], ROOT)?)?;
    println!("move {BACK}: {} nodes are the same, with their stats", before.len());
    clients.pause(false);
    Ok(())
}

/// All nodes, once no write is under way any more.
fn settled(target: &Ensemble) -> Result<Dump, Failure> {
    let address = target.addresses()[0];
    let mut last = dump(address, ROOT)?;
    loop {
        let next = dump(address, ROOT)?;
        if last == next {
            return Ok(next);
        }
        last = next;
    }
}

/// Stops Apache, and starts Pole on its directories, as the check permits.
fn in_place(pole: &Launcher, target: &mut Ensemble, clients: &Clients) -> Result<(), Failure> {
    let config = target.servers()[0].config_path();
    let log = work_dir().join("move-check.log");
    let mut check = killed_with_parent(&pole.program().display().to_string());
    check.args(["migrate", "check", "--config"]).arg(&config);
    let checked = crate::command::logged(&mut check, &log, Some(READY_LIMIT))?;
    if !checked.passed() {
        return Err(Failure::Check(format!("pole migrate check refuses: {}", checked.output)));
    }
    clients.reset();
    switch(pole, target)
}

/// Stops all servers, and starts those of the other product on the same files.
fn switch(launcher: &Launcher, target: &mut Ensemble) -> Result<(), Failure> {
    target.servers().iter().try_for_each(Server::ask_to_end)?;
    for index in 0..target.servers().len() {
        let server = target.server(index);
        if server.wait_end(READY_LIMIT)?.is_none() {
            return Err(Failure::Check(format!("server {} does not end", server.id())));
        }
        server.set_launcher(launcher.clone());
    }
    target.start_all().map(drop)
}

/// The nodes that no writer changes.
fn unchanging(address: SocketAddr) -> Result<Dump, Failure> {
    let mut all = dump(address, STATIC)?;
    all.extend(dump(address, HELD)?);
    Ok(all)
}

/// Checks what the clients were promised.
struct Check<'a> {
    clients: &'a Clients,
    sessions: usize,
    signals: usize,
}

impl Check<'_> {
    fn whole(&mut self, name: &str, target: &Ensemble, before: &Dump, tally: &mut Tally) -> Result<(), Failure> {
        let sessions = self.sessions;
        let writes = self.clients.seen().writes;
        let seen = self
            .clients
            .wait("all clients", |seen| seen.connected == sessions && seen.writes > writes + WRITES_AFTER)?;
        // On the way back the writers pause, so that every node can be compared.
        let gap = match name == BACK {
            true => String::new(),
            false => format!("{:.3} s without a write, ", seen.longest_gap.as_secs_f64()),
        };
        println!("move {name}: {gap}{sessions} sessions kept");
        for address in target.addresses() {
            compare(before, &unchanging(address)?)?;
            self.check_writes(address)?;
        }
        // Every watch that was set before is still there.
        let mut session = tree::connect(target.addresses()[0])?;
        session.ask(set_data(SIGNAL, name.as_bytes())).map_err(|why| Failure::Check(why.to_string()))?;
        self.signals += sessions;
        self.clients.wait("all watches", |seen| seen.signals == self.signals)?;
        println!("move {name}: {} nodes are the same with their stats, on each server", before.len());
        tally.add(&Tally::of(true));
        Ok(())
    }

    /// Every write that was acknowledged is there, or a later one.
    fn check_writes(&self, address: SocketAddr) -> Result<(), Failure> {
        let acknowledged = self.clients.seen().acknowledged;
        for (number, least) in acknowledged.iter().enumerate().take(WRITERS) {
            let path = writer_path(number);
            let nodes = dump(address, &path)?;
            let value = nodes.get(&path).and_then(|(data, _)| data.as_deref());
            let value: Option<u64> = value.and_then(|data| String::from_utf8_lossy(data).parse().ok());
            if value.is_none_or(|value| value < *least) {
                let what = format!("{path} is {value:?} at {address}, and {least} was acknowledged");
                return Err(Failure::Check(what));
            }
        }
        Ok(())
    }
}

/// A `pole migrate` that runs, with its output in a file.
struct Running {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Running {
    fn start(program: &Path, name: &'static str, configs: &[PathBuf; 2], more: &[&str]) -> Result<Self, Failure> {
        let log = work_dir().join(format!("move-{name}.log"));
        let folder = work_dir();
        fs::create_dir_all(&folder).map_err(|why| Failure::io("create", &folder, &why))?;
        let file = File::create(&log).map_err(|why| Failure::io("create", &log, &why))?;
        let second = file.try_clone().map_err(|why| Failure::io("open again", &log, &why))?;
        let mut command: Command = killed_with_parent(&program.display().to_string());
        command.args(["migrate", name, "--apache"]).arg(&configs[0]).arg("--config").arg(&configs[1]).args(more);
        let child = command.stdin(Stdio::null()).stdout(file).stderr(second).spawn();
        let child = child.map_err(|why| Failure::Check(format!("cannot start {command:?}: {why}")))?;
        Ok(Self { name, child, log })
    }

    fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn wait_for(&self, text: &str) -> Result<(), Failure> {
        self.wait_until(text, |output| output.contains(text))
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let deadline = Instant::now() + READY_LIMIT;
        while !holds(&self.output()) {
            if Instant::now() > deadline {
                let what = format!("pole migrate {}: no end of waiting for {what:?}: {}", self.name, self.output());
                return Err(Failure::Check(what));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Ends it as Ctrl-C does.
    fn end(&mut self) -> Result<ExitStatus, Failure> {
        let name = self.name;
        let failed = |why: &dyn std::fmt::Display| Failure::Check(format!("cannot end pole migrate {name}: {why}"));
        kill_process(Pid::from_child(&self.child), Signal::TERM).map_err(|why| failed(&why))?;
        self.child.wait().map_err(|why| failed(&why))
    }

    /// Ends it as Ctrl-C does, with success.
    fn terminate(mut self) -> Result<(), Failure> {
        let status = self.end()?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::Check(format!("pole migrate {} ended with {status}: {}", self.name, self.output())))
    }

    /// Waits for its successful end.
    fn wait(mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    let what = format!("pole migrate {} ended with {status}: {}", self.name, self.output());
                    return Err(Failure::Check(what));
                }
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
                Ok(None) | Err(_) => {
                    return Err(Failure::Check(format!("pole migrate {} does not end: {}", self.name, self.output())));
                }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, unless something failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const BACK: &str = "back to Apache";

/// What is moved with TLS between servers: the transport is tested, not the amount.
const SOME_NODES: usize = 100;
const SOME_SESSIONS: usize = 3;

/// Enough to see that all writers go on.
const WRITES_AFTER: u64 = 50;
