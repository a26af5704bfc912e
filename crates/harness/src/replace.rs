//! `cargo xtask replace`: replaces all servers of an ensemble, one by one, under load, as an operator would.
//!
//! For each of the first servers: a new one is started with an empty directory and added with `pole members add`, which
//! waits until it has everything; then the old one is removed with `pole members remove` and stopped. Clients write all the
//! time. Those of a server that is to be removed move to the new one before.
//!
//! Checked: no client gets an error from a server that runs and is a member, the longest time without any acknowledged write
//! is within the limit, and at the end every acknowledged write is there.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::Parser;
use pole_client::blocking::Session;
use pole_client::{create, get_data, set_data};
use pole_jute::{CreateMode, Reply};

use crate::command::{output_of, program};
use crate::ensemble::{Ensemble, Launcher, Product, Server, Setup};
use crate::{Failure, arguments};

/// Replaces all servers of an ensemble under load, by `pole members`.
#[derive(Debug, Parser)]
struct Options {
    /// The number of servers of the ensemble.
    #[arg(long, default_value_t = 5)]
    servers: usize,
    /// The number of clients.
    #[arg(long, default_value_t = 10)]
    clients: usize,
    /// The pause of each client between two writes, in milliseconds.
    #[arg(long, default_value_t = 5)]
    pause_ms: u64,
    /// The longest time without an acknowledged write, in milliseconds.
    #[arg(long, default_value_t = 100)]
    limit_ms: u64,
}

/// Runs `cargo xtask replace`.
pub fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options: Options = arguments("replace", args)?;
    let count = options.servers;
    let launcher = Product::Pole.launcher()?;
    let setup = ["reconfigEnabled=true", "admin.enableServer=true", "pole.resign=off"];
    let setup = setup.iter().fold(Setup::new("replace", 2 * count), |setup, line| setup.with(line));
    let mut ensemble = Ensemble::prepare(&launcher, &setup)?;
    let lines: Vec<String> = ensemble.servers().iter().map(line).collect();
    ensemble.configure(|server, text| configuration(server, &text, &lines, count))?;
    for index in 0..count {
        ensemble.server(index).start()?;
    }
    ensemble.wait_ready(crate::ensemble::READY_LIMIT)?;

    let load = Arc::new(Load::default());
    let pause = Duration::from_millis(options.pause_ms);
    let start = |number: usize, server: &Server| Writer::start(&load, number, server.address(), pause);
    let mut writers = Vec::new();
    for number in 0..options.clients {
        writers.push((number % count, start(number, &ensemble.servers()[number % count])?));
    }
    println!("{count} servers, {} clients; {:>7} {:>8} {:>12}", options.clients, "added s", "left s", "longest ms");
    for old in 0..count {
        let new = old + count;
        let began = Instant::now();
        ensemble.server(new).start()?;
        let admin = admin(&ensemble.servers()[(old + 1) % count + if old + 1 == count { count } else { 0 }]);
        members(&launcher, &["add", &lines[new], "--admin", &admin])?;
        let added = began.elapsed();
        // Clients of the old server move, as those of a real one would before it is stopped.
        for (server, writer) in writers.iter_mut().filter(|(server, _)| *server == old) {
            let (number, next) = (writer.number, &ensemble.servers()[new]);
            std::mem::replace(writer, start(number, next)?).stop()?;
            *server = new;
        }
        members(&launcher, &["remove", &(old + 1).to_string(), "--admin", &admin])?;
        ensemble.server(old).terminate(STOP_LIMIT)?;
        let longest = load.longest_pause();
        let (added, all) = (added.as_secs_f64(), began.elapsed().as_secs_f64());
        println!("server {} for {:<14} {added:>7.2} {all:>8.2} {longest:>12.1}", new + 1, old + 1);
    }
    let errors = load.errors.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    for (_, writer) in writers {
        writer.stop()?;
    }
    let missing = load.missing(ensemble.servers()[count].address(), options.clients)?;
    let (written, longest) = (load.written.load(Ordering::Relaxed), load.longest_pause());
    println!("{written} writes, longest time without one {longest:.1} ms, {} errors, {missing} lost", errors.len());
    errors.iter().take(5).for_each(|error| println!("  {error}"));
    let passed = errors.is_empty() && missing == 0 && longest <= options.limit_ms as f64;
    if passed {
        ensemble.done()?;
    }
    Ok(ExitCode::from(u8::from(!passed)))
}

/// The line of a server in the list of members.
fn line(server: &Server) -> String {
    let ports = server.ports();
    format!("server.{}=127.0.0.1:{}:{};127.0.0.1:{}", server.id(), ports.quorum, ports.election, ports.client)
}

/// The first servers know each other. A new one knows them and itself.
fn configuration(server: &Server, text: &str, lines: &[String], count: usize) -> String {
    let others = text.lines().filter(|line| !line.starts_with("server.") && !line.starts_with("clientPort"));
    let others: String = others.map(|line| format!("{line}\n")).collect();
    let mut known: Vec<&String> = lines.iter().take(count).collect();
    if server.id() > count {
        known.push(&lines[server.id() - 1]);
    }
    let known: String = known.into_iter().map(|line| format!("{line}\n")).collect();
    format!("{others}{known}admin.serverPort={}\n", server.ports().secure)
}

fn admin(server: &Server) -> String {
    format!("127.0.0.1:{}", server.ports().secure)
}

fn members(launcher: &Launcher, args: &[&str]) -> Result<(), Failure> {
    let mut pole = program(&launcher.program().to_string_lossy());
    output_of(pole.arg("members").args(args)).map(drop)
}

/// What all clients did.
#[derive(Default)]
struct Load {
    written: AtomicU64,
    errors: Mutex<Vec<String>>,
    /// When the last write was acknowledged, and the longest time before one.
    pauses: Mutex<(Option<Instant>, Duration)>,
    /// The last acknowledged value of each client.
    values: Mutex<Vec<u64>>,
}

impl Load {
    fn acknowledged(&self, client: usize, value: u64) {
        self.written.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let mut pauses = self.pauses.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let pause = pauses.0.map_or(Duration::ZERO, |before| now.saturating_duration_since(before));
        *pauses = (Some(now), pauses.1.max(pause));
        drop(pauses);
        let mut values = self.values.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let length = values.len().max(client + 1);
        values.resize(length, 0);
        values[client] = value;
    }

    fn longest_pause(&self) -> f64 {
        self.pauses.lock().unwrap_or_else(std::sync::PoisonError::into_inner).1.as_secs_f64() * 1000.0
    }

    fn value(&self, client: usize) -> u64 {
        let values = self.values.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        values.get(client).copied().unwrap_or_default()
    }

    /// The number of clients whose last acknowledged write is not there.
    fn missing(&self, server: SocketAddr, clients: usize) -> Result<usize, Failure> {
        let mut session = Session::connect(server, SESSION).map_err(failed)?;
        let mut missing = 0;
        for client in 0..clients {
            let reply = session.ask(get_data(&path(client), false)).map_err(failed)?;
            let Reply::GetData(read) = reply else {
                return Err(Failure::Check(format!("a reply to {:?} instead of a read", reply.op())));
            };
            let read = read.data.unwrap_or_default();
            let is_there = String::from_utf8_lossy(&read).parse().is_ok_and(|value: u64| value >= self.value(client));
            missing += usize::from(!is_there);
        }
        Ok(missing)
    }
}

/// A client that writes to its own node.
struct Writer {
    number: usize,
    ending: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(load: &Arc<Load>, number: usize, server: SocketAddr, pause: Duration) -> Result<Self, Failure> {
        let mut session = Session::connect(server, SESSION).map_err(failed)?;
        let (load, ending) = (Arc::clone(load), Arc::new(AtomicBool::new(false)));
        let first = load.value(number);
        if first == 0 {
            session.ask(create(&path(number), b"0", CreateMode::Persistent)).map_err(failed)?;
        }
        let told = Arc::clone(&ending);
        let thread = thread::spawn(move || {
            let mut value = first;
            while !told.load(Ordering::Acquire) {
                value += 1;
                match session.ask(set_data(&path(number), value.to_string().as_bytes())) {
                    Ok(_) => load.acknowledged(number, value),
                    Err(error) => {
                        let text = format!("client {number} at {server}: {error}");
                        load.errors.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(text);
                        return;
                    }
                }
                // The load is paced on purpose: a saturated machine would say nothing about pauses.
                thread::sleep(pause);
            }
        });
        Ok(Self { number, ending, thread })
    }

    fn stop(self) -> Result<(), Failure> {
        self.ending.store(true, Ordering::Release);
        self.thread.join().map_err(|_| Failure::Check("a client panicked".to_owned()))
    }
}

fn path(client: usize) -> String {
    format!("/client-{client}")
}

fn failed(error: pole_client::Error) -> Failure {
    Failure::Check(error.to_string())
}

const SESSION: Duration = Duration::from_secs(10);

/// A server without clients ends at once.
const STOP_LIMIT: Duration = Duration::from_secs(10);
