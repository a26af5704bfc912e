//! One server's process: this same program, run as `pole server`.
//!
//! The child has two pipes. Nothing is ever written to its standard input; when that pipe ends, because the parent
//! closes it or is gone, the server stops as after a signal. A signal would not do, because a parent that is killed
//! sends none. The other pipe carries the log, which is copied to a file.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::Failure;

use super::Event;
use super::log_line::LogLine;
use super::plan::Plan;

/// A process that was not waited for yet.
pub(crate) struct Child(std::process::Child);

impl Child {
    /// Starts the process of a server. Its log lines and its exit are sent to `sender`.
    pub(crate) fn start(plan: &Plan, id: u64, sender: &Sender<Event>) -> Result<Self, Failure> {
        let failed = |what: &str, error| Failure::failed(format!("{}: cannot {what}: {error}", plan.name(id)));
        let log = File::options().create(true).append(true).open(plan.log(id));
        let log = log.map_err(|error| failed(&format!("write {}", plan.log(id).display()), error))?;
        let program = std::env::current_exe().map_err(|error| failed("find this program", error))?;
        let mut command = Command::new(program);
        command.args(["server", "--until-stdin-ends", "--config"]).arg(plan.config(id));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C goes to a whole process group. The parent stops the servers itself, in order.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| failed("start its process", error))?;
        let (stderr, sender) = (child.stderr.take(), sender.clone());
        std::thread::spawn(move || read(stderr, log, id, &sender));
        Ok(Self(child))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Asks the process to stop. Returns at once.
    pub(crate) fn ask_to_end(&mut self) {
        drop(self.0.stdin.take());
    }

    /// Waits for a process that has closed its log, so it has exited or is about to.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.0.wait().unwrap_or_default()
    }

    /// Kills the process. Returns at once; its exit is an event.
    pub(crate) fn kill_now(&mut self) {
        // An error means that it has exited already.
        let _ = self.0.kill();
    }

    /// Stops or continues the process.
    pub(crate) fn set_paused(&mut self, is_paused: bool) -> io::Result<()> {
        let pid = Pid::from_child(&self.0);
        Ok(kill_process(pid, if is_paused { Signal::STOP } else { Signal::CONT })?)
    }

    /// Kills the process and waits for its end.
    pub(crate) fn kill(mut self) {
        // An error means that it has exited already.
        let _ = self.0.kill();
        self.wait();
    }
}

/// Reads the log until it ends, which means that the process ends.
fn read(stderr: Option<ChildStderr>, mut log: File, id: u64, sender: &Sender<Event>) {
    let mut reader = BufReader::new(stderr.expect("it was piped"));
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        // A full disk must not stop the ensemble.
        let _ = log.write_all(&line);
        let text = String::from_utf8_lossy(&line);
        if sender.send(Event::Logged { id, line: LogLine::parse(text.trim_end()) }).is_err() {
            return;
        }
        line.clear();
    }
    let _ = sender.send(Event::Exited { id });
}
