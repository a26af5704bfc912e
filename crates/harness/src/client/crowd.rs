//! Many sessions that do nothing but ping, reconnect and count the events of their watches.
//!
//! They run in child processes of this program, because a process may have fewer open files than there are sessions,
//! and because the thread that measures must not be the one that pings. A command is a line to all children, and each
//! answers it with a line. A child ends with the end of its input, and so with this process.

mod member;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

pub use member::{raise_files_max, run};

use crate::Failure;

/// Sessions in child processes. They end with the value.
#[derive(Debug)]
pub struct Crowd {
    groups: Vec<Group>,
}

/// What happened to the sessions since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions that are connected now.
    pub connected: u64,
    /// Connections that broke.
    pub broken: u64,
    /// Sessions that a server refused to resume.
    pub expired: u64,
    /// Pings sent.
    pub pings: u64,
    /// Events received.
    pub events: u64,
}

/// One child process.
#[derive(Debug)]
struct Group {
    sessions: usize,
    process: Child,
    commands: ChildStdin,
    answers: Receiver<String>,
}

impl Crowd {
    /// Starts the processes. No session is opened yet.
    pub fn start(servers: &[SocketAddr], sessions: usize, session_timeout: Duration) -> Result<Self, Failure> {
        let count = sessions.div_ceil(SESSIONS_PER_PROCESS).max(1);
        let shares = (0..count).map(|n| sessions / count + usize::from(n < sessions % count));
        let groups = shares.enumerate().map(|(n, share)| Group::start(n, servers, share, session_timeout));
        Ok(Self { groups: groups.collect::<Result<_, _>>()? })
    }

    /// Opens all sessions, at most `member::OPENING_MAX` at a time in each process, and returns how long that took.
    pub fn open(&mut self, limit: Duration) -> Result<Duration, Failure> {
        let start = Instant::now();
        self.tell_all("open")?;
        self.all_done(limit)?;
        Ok(start.elapsed())
    }

    /// Waits until every session that has not expired is connected.
    pub fn wait_connected(&mut self, limit: Duration) -> Result<(), Failure> {
        self.tell_all("connected")?;
        self.all_done(limit)
    }

    /// Sets a watch on each of these many nodes (see [`watched`]) in every session.
    pub fn watch(&mut self, nodes: u32, limit: Duration) -> Result<(), Failure> {
        self.tell_all(&format!("watch {nodes}"))?;
        self.all_done(limit)
    }

    /// Calls `cause`, and returns the time from then until every session has received this many more events.
    pub fn events(
        &mut self,
        per_session: u32,
        limit: Duration,
        cause: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Duration, Failure> {
        for group in &mut self.groups {
            group.tell(&format!("events {}", group.sessions as u64 * u64::from(per_session)))?;
        }
        let start = Instant::now();
        cause()?;
        self.all_done(limit)?;
        Ok(start.elapsed())
    }

    /// The counts of all sessions.
    pub fn counts(&mut self) -> Result<Counts, Failure> {
        self.tell_all("counts")?;
        let mut total = Counts::default();
        for group in &mut self.groups {
            let line = group.answer(COUNTS_LIMIT)?;
            let counts = Counts::parse(&line).ok_or_else(|| Failure::Check(format!("sessions answered `{line}`")))?;
            total.connected += counts.connected;
            total.broken += counts.broken;
            total.expired += counts.expired;
            total.pings += counts.pings;
            total.events += counts.events;
        }
        Ok(total)
    }

    fn tell_all(&mut self, command: &str) -> Result<(), Failure> {
        self.groups.iter_mut().try_for_each(|group| group.tell(command))
    }

    fn all_done(&mut self, limit: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + limit;
        for group in &mut self.groups {
            match group.answer(deadline.saturating_duration_since(Instant::now()))?.as_str() {
                member::DONE => (),
                other => return Err(Failure::Check(format!("sessions: {other}"))),
            }
        }
        Ok(())
    }
}

impl Counts {
    /// The line in which a child writes them.
    fn line(self) -> String {
        let Self { connected, broken, expired, pings, events } = self;
        format!("{connected} {broken} {expired} {pings} {events}")
    }

    fn parse(line: &str) -> Option<Self> {
        let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [connected, broken, expired, pings, events] = numbers.try_into().ok()?;
        Some(Self { connected, broken, expired, pings, events })
    }
}

impl Group {
    fn start(number: usize, servers: &[SocketAddr], sessions: usize, timeout: Duration) -> Result<Self, Failure> {
        let failed = |why| Failure::Check(format!("cannot start a process for sessions: {why}"));
        let program = std::env::current_exe().map_err(failed)?;
        let mut command = std::process::Command::new(program);
        command.args(["crowd", "--sessions", &sessions.to_string(), "--group", &number.to_string()]);
        command.args(["--session-timeout-ms", &timeout.as_millis().to_string()]);
        command.args(servers.iter().map(ToString::to_string));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let (Some(commands), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Failure::Check("a process for sessions has no pipes".into()));
        };
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { sessions, process, commands, answers })
    }

    fn tell(&mut self, command: &str) -> Result<(), Failure> {
        let sent = writeln!(self.commands, "{command}").and_then(|()| self.commands.flush());
        sent.map_err(|why| Failure::Check(format!("a process for sessions has ended: {why}")))
    }

    fn answer(&mut self, limit: Duration) -> Result<String, Failure> {
        let late = |why| Failure::Check(format!("no answer from a process for sessions within {limit:?}: {why}"));
        self.answers.recv_timeout(limit).map_err(late)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The path of a node that is watched.
pub fn watched(number: u32) -> String {
    format!("/watched-{number:04}")
}

/// Below the usual hard limit of open files, and few enough that one thread can serve their pings.
const SESSIONS_PER_PROCESS: usize = 15_000;

/// A process that does not say its counts for this long hangs.
const COUNTS_LIMIT: Duration = Duration::from_secs(60);

#[test]
fn counts_are_read_from_their_line() {
    let counts = Counts { connected: 5, broken: 4, expired: 3, pings: 2, events: 1 };
    assert_eq!(Counts::parse(&counts.line()), Some(counts));
    assert_eq!(Counts::parse("1 2 3"), None);
}
