//! One server's process: this same program, as `pole server`.
//!
//! It holds two pipes. Its standard input is ours alone to write to, and we never do: when it ends, because we close it
//! or because we are gone, the server stops as at a signal. Its log comes through the other, and into a file.
//! Why not a signal: a parent that is killed sends none.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;

use crate::failure::Failure;

use super::Happening;
use super::line::Line;
use super::plan::Plan;

/// A process that runs, or has not been waited for.
pub(crate) struct Child(std::process::Child);

impl Child {
    /// Starts the process of a server; what it says and when it ends goes to `tell`.
    pub(crate) fn start(plan: &Plan, id: u64, tell: &Sender<Happening>) -> Result<Self, Failure> {
        let failed = |what: &str, error| Failure::failed(format!("{}: cannot {what}: {error}", plan.name(id)));
        let log = File::options().create(true).append(true).open(plan.log(id));
        let log = log.map_err(|error| failed(&format!("write {}", plan.log(id).display()), error))?;
        let program = std::env::current_exe().map_err(|error| failed("find this program", error))?;
        let mut command = Command::new(program);
        command.args(["server", "--until-stdin-ends", "--config"]).arg(plan.config(id));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C goes to a whole group. The servers are to hear of it from us, one after the other.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| failed("start its process", error))?;
        let (stderr, tell) = (child.stderr.take(), tell.clone());
        std::thread::spawn(move || read(stderr, log, id, &tell));
        Ok(Self(child))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// It ends soon.
    pub(crate) fn ask_to_end(&mut self) {
        drop(self.0.stdin.take());
    }

    /// It has closed its log: it has ended, or is about to.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.0.wait().unwrap_or_default()
    }

    /// It ends now.
    pub(crate) fn kill(mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        self.wait();
    }
}

/// Reads a log to its end, which is the end of the process.
fn read(stderr: Option<ChildStderr>, mut log: File, id: u64, tell: &Sender<Happening>) {
    let mut reader = BufReader::new(stderr.expect("it was piped"));
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        // A full disk must not stop the ensemble.
        let _ = log.write_all(&line);
        let text = String::from_utf8_lossy(&line);
        if tell.send(Happening::Said { id, line: Line::parse(text.trim_end()) }).is_err() {
            return;
        }
        line.clear();
    }
    let _ = tell.send(Happening::Ended { id });
}
