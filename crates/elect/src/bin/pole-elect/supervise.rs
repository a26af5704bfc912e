//! The process between `pole-elect` and the command, which ends the command in time.
//!
//! ```text
//! pole-elect ── pipe ──> pole-elect __supervise ── starts ──> pole-elect __exec ── becomes ──> the command
//! ```
//!
//! The supervisor knows the deadline of the lease and enforces it by itself, so the command ends in time also if
//! `pole-elect` is stopped or hangs. It reads lines from its standard input:
//!
//! ```text
//! until SOFT HARD     the lease was renewed: SIGTERM at SOFT, SIGKILL at HARD (nanoseconds since boot)
//! stop HARD           leadership ends: SIGTERM now, SIGKILL at HARD
//! (end of input)      pole-elect is gone: SIGKILL now
//! ```
//!
//! Its exit code is that of the command. If it has ended the command by itself, because the lease was not renewed, it ends
//! by a signal instead ([`OVERDUE`]): then the term is over, and not the work.
//!
//! Signals go to the process group of the command, so its children end with it. `__exec` asks the kernel to kill the
//! command if the supervisor dies, and then becomes the command.
//!
//! What is left: if the whole machine, or both processes, are stopped, the command is stopped by nobody. The fencing
//! token protects the resource then.

use std::ffi::OsString;
use std::io::BufRead as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use pole_elect::clock::{BootClock, Clock as _};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getppid, kill_process, kill_process_group, set_parent_process_death_signal,
    waitid,
};

/// The hidden first argument of the supervisor: `__supervise SOFT HARD CMD…`.
pub(crate) const SUPERVISE: &str = "__supervise";

/// The hidden first argument of the process that becomes the command: `__exec PARENT CMD…`.
pub(crate) const EXEC: &str = "__exec";

/// The signal by which the supervisor ends after it has ended the command at the deadline.
pub(crate) const OVERDUE: Signal = Signal::ALARM;

/// Runs the command until it ends or has to end. The exit code is that of the command.
pub(crate) fn supervise(args: Vec<OsString>) -> ExitCode {
    let number = |index: usize| args.get(index)?.to_str()?.parse::<u64>().ok();
    let (Some(soft), Some(hard)) = (number(0), number(1)) else { return ExitCode::from(2) };
    match start(&args[2..]) {
        Ok(child) => Supervisor { child, soft, hard, terminated: false, overdue: false }.run(),
        Err(error) => {
            eprintln!("pole-elect: cannot start the command: {error}");
            ExitCode::from(126)
        }
    }
}

/// Becomes the command, which the kernel kills if the parent dies.
pub(crate) fn exec(args: Vec<OsString>) -> ExitCode {
    let parent = args.first().and_then(|text| text.to_str()?.parse::<i32>().ok());
    let Some((program, rest)) = args.get(1..).and_then(<[OsString]>::split_first) else { return ExitCode::from(2) };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        eprintln!("pole-elect: cannot tie the command to its supervisor: {error}");
        return ExitCode::from(126);
    }
    // The parent may have died before the kernel was asked.
    if getppid().map(Pid::as_raw_nonzero).map(i32::from) != parent {
        return ExitCode::from(126);
    }
    let error = Command::new(program).args(rest).exec();
    eprintln!("pole-elect: {}: {error}", program.display());
    ExitCode::from(127)
}

/// This program as a command, also if its file was replaced meanwhile, as by an upgrade. Its path alone would then lead
/// nowhere, or to a release that speaks another protocol.
pub(crate) fn this_program() -> std::io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_owned()) } else { std::env::current_exe() }
}

fn start(command: &[OsString]) -> std::io::Result<Child> {
    Command::new(this_program()?)
        .arg0("pole-elect")
        .arg(EXEC)
        .arg(std::process::id().to_string())
        .args(command)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
}

struct Supervisor {
    child: Child,
    /// When to ask the command to end, in nanoseconds since boot.
    soft: u64,
    /// When to kill it.
    hard: u64,
    /// Whether it was asked to end.
    terminated: bool,
    /// Whether that was for the deadline, and not by an order.
    overdue: bool,
}

enum Input {
    Line(Option<Order>),
    Exited,
}

/// A line from `pole-elect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Until { soft: u64, hard: u64 },
    Stop { hard: u64 },
}

impl Order {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let verb = words.next()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        match verb {
            "until" => Some(Self::Until { soft: number()?, hard: number()? }),
            "stop" => Some(Self::Stop { hard: number()? }),
            _ => None,
        }
    }
}

impl Supervisor {
    fn run(mut self) -> ExitCode {
        // At most one line in flight; `pole-elect` writes a few lines for each lease.
        let (sender, inputs) = mpsc::sync_channel(1);
        let lines = sender.clone();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let order = line.ok().and_then(|line| Order::parse(&line));
                if lines.send(Input::Line(order)).is_err() || order.is_none() {
                    return;
                }
            }
            let _ = lines.send(Input::Line(None));
        });
        let group = self.group();
        std::thread::spawn(move || {
            // Not reaped yet, so that the number of its group cannot be given to another process.
            let _ = waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let _ = sender.send(Input::Exited);
        });
        loop {
            match inputs.recv_timeout(self.wait()) {
                Ok(Input::Exited) => return self.finish(),
                Ok(Input::Line(Some(Order::Until { soft, hard }))) => (self.soft, self.hard) = (soft, hard),
                Ok(Input::Line(Some(Order::Stop { hard }))) => {
                    self.hard = self.hard.min(hard);
                    self.terminate();
                }
                Ok(Input::Line(None)) | Err(RecvTimeoutError::Disconnected) => self.kill(),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = BootClock.now().0;
            if now >= self.soft.min(self.hard) {
                self.overdue |= !self.terminated;
                self.terminate();
            }
            if now >= self.hard {
                self.kill();
            }
        }
    }

    /// The time until something is due, but never long: the clock of this wait stands still while the machine sleeps.
    fn wait(&self) -> Duration {
        let due = if self.terminated { self.hard } else { self.soft.min(self.hard) };
        Duration::from_nanos(due.saturating_sub(BootClock.now().0)).clamp(WAIT_MIN, WAIT_MAX)
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn terminate(&mut self) {
        if !std::mem::replace(&mut self.terminated, true) {
            let _ = kill_process_group(self.group(), Signal::TERM);
        }
    }

    fn kill(&self) {
        let _ = kill_process_group(self.group(), Signal::KILL);
    }

    /// Ends what the command has left behind in its group, and reports its exit code.
    fn finish(mut self) -> ExitCode {
        self.kill();
        let code = self.child.wait().map_or(ExitCode::FAILURE, exit_code);
        if self.overdue {
            // It ends this process. If it cannot, the exit code has to do.
            let _ = kill_process(rustix::process::getpid(), OVERDUE);
        }
        code
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

const WAIT_MIN: Duration = Duration::from_millis(1);
const WAIT_MAX: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_and_anything_else_means_the_end() {
        assert_eq!(Order::parse("until 5 7"), Some(Order::Until { soft: 5, hard: 7 }));
        assert_eq!(Order::parse("stop 9"), Some(Order::Stop { hard: 9 }));
        for wrong in ["", "until 5", "stop x", "go 1"] {
            assert_eq!(Order::parse(wrong), None);
        }
    }
}
