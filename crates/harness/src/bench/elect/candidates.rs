//! The candidates of one election, each a process, and the ways in which they lose their leader.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::program::Program;
use super::store::Running;
use crate::Failure;

/// How a leader is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    /// SIGKILL: nobody tells the store.
    Killed,
    /// SIGSTOP: its connections stay open.
    Stopped,
    /// SIGTERM: it gives up leadership and ends.
    Resigned,
}

impl Loss {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Killed => "kill -9",
            Self::Stopped => "SIGSTOP",
            Self::Resigned => "resignation",
        }
    }

    fn signal(self) -> Signal {
        match self {
            Self::Killed => Signal::KILL,
            Self::Stopped => Signal::STOP,
            Self::Resigned => Signal::TERM,
        }
    }
}

/// The processes, by number. Ended with the value.
pub(super) struct Candidates {
    program: Program,
    processes: Vec<Option<Child>>,
    /// The number of a candidate that has just begun to lead.
    leading: Receiver<(usize, Instant)>,
    report: Sender<(usize, Instant)>,
    leader: usize,
}

impl Candidates {
    /// Starts candidates and waits until one of them leads.
    pub(super) fn start(program: Program, store: &Running, count: usize) -> Result<Self, Failure> {
        let (report, leading) = mpsc::channel();
        let mut candidates = Self { program, processes: Vec::new(), leading, report, leader: 0 };
        for _ in 0..count {
            candidates.add(store)?;
        }
        candidates.leader = candidates.next_leader()?.0;
        Ok(candidates)
    }

    /// Starts one more candidate.
    pub(super) fn add(&mut self, store: &Running) -> Result<(), Failure> {
        let number = self.processes.len();
        let mut command = self.program.command(store, &format!("candidate-{number}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(store.log()?);
        let child = command.spawn();
        let mut child = child.map_err(|why| Failure::Check(format!("cannot start {command:?}: {why}")))?;
        let stdout = child.stdout.take().expect("it was asked for");
        self.processes.push(Some(child));
        let report = self.report.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line == "leading" {
                    // Nobody listens at the end of the measurement.
                    let _ = report.send((number, Instant::now()));
                }
            }
        });
        Ok(())
    }

    /// Loses the leader. Returns the time until another candidate leads.
    pub(super) fn lose_leader(&mut self, loss: Loss) -> Result<Duration, Failure> {
        if let Ok((number, _)) = self.leading.try_recv() {
            return Err(Failure::Check(format!("{}: {number} leads, and nothing had happened", self.program)));
        }
        let old = self.leader;
        let child = self.processes[old].as_ref().expect("the leader runs");
        let signalled = Instant::now();
        kill_process(Pid::from_child(child), loss.signal())
            .map_err(|why| Failure::Check(format!("cannot signal {}: {why}", self.program)))?;
        let (leader, at) = self.next_leader()?;
        if leader == old {
            return Err(Failure::Check(format!("{}: the leader that was lost leads again", self.program)));
        }
        self.leader = leader;
        self.end(old);
        Ok(at.duration_since(signalled))
    }

    fn next_leader(&mut self) -> Result<(usize, Instant), Failure> {
        let late = |_| Failure::Check(format!("{}: nobody leads after {LEADER_LIMIT:?}", self.program));
        self.leading.recv_timeout(LEADER_LIMIT).map_err(late)
    }

    fn end(&mut self, number: usize) {
        if let Some(mut child) = self.processes[number].take() {
            // An error means that it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Candidates {
    fn drop(&mut self) {
        for number in 0..self.processes.len() {
            self.end(number);
        }
    }
}

/// Twelve leases.
const LEADER_LIMIT: Duration = Duration::from_secs(60);
