//! One process of a command line, Apache's or ours, used one command at a time.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::super::java;
use crate::Failure;

pub(super) struct Client {
    process: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    /// Received, and not yet taken by [`Self::events`].
    events: Vec<String>,
    /// Whether the error is still to come that the command line prints behind the answer to a marker if it has no session.
    complains: bool,
}

impl Client {
    /// Starts Apache's command line and waits for its session.
    pub(super) fn apache(server: SocketAddr) -> Result<Self, Failure> {
        let mut command = java::client()?;
        command.args(["org.apache.zookeeper.ZooKeeperMain", "-server", &server.to_string()]);
        let mut client = Self::start(command)?;
        client.wait_connected()?;
        Ok(client)
    }

    /// Starts a program that takes commands from its standard input, and waits until it answers.
    pub(super) fn start(mut command: Command) -> Result<Self, Failure> {
        let (reader, out) = std::io::pipe().map_err(failed("make a pipe"))?;
        let err = out.try_clone().map_err(failed("make a pipe"))?;
        let process = command.stdin(Stdio::piped()).stdout(out).stderr(err).spawn();
        // Our own copies of the pipe's end must be closed, or the reader would never see the end.
        drop(command);
        let mut process = process.map_err(failed("start the command line"))?;
        let stdin = process.stdin.take().expect("it was asked for");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                // An error means that the session has been read to its end.
                let _ = sender.send(line);
            }
        });
        let mut client = Self { process, stdin, lines, events: Vec::new(), complains: false };
        client.run_command("")?;
        Ok(client)
    }

    /// Types a line and returns the answer, without events and empty lines.
    pub(super) fn run_command(&mut self, line: &str) -> Result<Vec<String>, Failure> {
        // Two markers: what lies between their answers tells whether there is a session, and so what follows the second.
        writeln!(self.stdin, "{line}\n{MARK_COMMAND}\n{MARK_COMMAND}").map_err(failed("type into the command line"))?;
        let answer = self.lines_until_mark(line)?;
        for between in self.lines_until_mark(line)? {
            if between == MARK_COMPLAINT {
                self.complains = true;
            } else {
                self.events.push(format!("stray: {between}"));
            }
        }
        Ok(answer)
    }

    /// The lines before the next answer to a marker.
    fn lines_until_mark(&mut self, command: &str) -> Result<Vec<String>, Failure> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        let mut lines = Vec::new();
        while let Some(line) = self.next_line(deadline)? {
            if line == MARK_ANSWER {
                return Ok(lines);
            }
            lines.push(line);
        }
        Err(Failure::Check(format!(
            "the command line did not answer `{command}` within {ANSWER_LIMIT:?}; it said {lines:?}"
        )))
    }

    /// The events since the last call.
    pub(super) fn events(&mut self) -> Result<Vec<String>, Failure> {
        // A line that answers no command is reported as an event, so that it is visible.
        if let Some(stray) = self.next_line(Instant::now() + EVENT_PAUSE)? {
            self.events.push(format!("stray: {stray}"));
        }
        Ok(std::mem::take(&mut self.events))
    }

    /// Closes the session, and the process in any case.
    pub(super) fn quit(mut self) -> Result<(), Failure> {
        // The process may have ended already.
        let _ = writeln!(self.stdin, "quit");
        let deadline = Instant::now() + ANSWER_LIMIT;
        while self.next_line(deadline)?.is_some() {}
        Ok(())
    }

    /// The next line that is neither empty nor part of an event; events are kept. None at the deadline or at the end.
    fn next_line(&mut self, deadline: Instant) -> Result<Option<String>, Failure> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.starts_with("WatchedEvent ") => self.events.push(line),
                Ok(line) if line.is_empty() || line == "WATCHER::" => (),
                Ok(line) if line == MARK_COMPLAINT && std::mem::take(&mut self.complains) => (),
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }

    fn wait_connected(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        loop {
            let events = self.events()?;
            if events.iter().any(|event| event.contains("SyncConnected")) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let what = format!("the command line has no session after {ANSWER_LIMIT:?}; events: {events:?}");
                return Err(Failure::Check(what));
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn failed(doing: &'static str) -> impl Fn(std::io::Error) -> Failure {
    move |why| Failure::Check(format!("cannot {doing}: {why}"))
}

/// A command that the command line answers by itself, connected or not. Its answer shows that the one before has
/// ended.
const MARK_COMMAND: &str = "printwatches";
const MARK_ANSWER: &str = "printwatches is on";
const MARK_COMPLAINT: &str = "Not connected";

/// A command that takes longer hangs.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How long one check for events waits.
const EVENT_PAUSE: Duration = Duration::from_millis(10);
