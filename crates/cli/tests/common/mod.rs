//! Runs the `pole` command as a process and reads its output line by line.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod browser;
pub(crate) mod deploy;
pub(crate) mod terminal;

use std::io::{BufRead as _, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// The command with these arguments.
pub(crate) fn pole(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pole"));
    command.args(args).stdin(Stdio::null()).env_remove("POLE_ADMIN_TOKEN");
    command
}

/// Runs a command to its end and returns its exit code, standard output and standard error.
pub(crate) fn run(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = pole(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// A running command, with the lines of one of its outputs.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// Starts it and reads its standard output.
    pub(crate) fn reading_stdout(args: &[&str]) -> Self {
        let mut child = pole(args).stdout(Stdio::piped()).spawn().unwrap();
        let lines = lines(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Starts it and reads its standard error.
    pub(crate) fn reading_stderr(args: &[&str]) -> Self {
        Self::reading_stderr_of(pole(args))
    }

    /// Like [`Self::reading_stderr`], for a prepared command.
    pub(crate) fn reading_stderr_of(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines(child.stderr.take().unwrap());
        Self { child, lines }
    }

    /// Reads up to a line that contains `expected`, and returns all lines read.
    pub(crate) fn until(&self, expected: &str) -> Vec<String> {
        let mut read = Vec::new();
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(line) => read.push(line),
                Err(error) => panic!("no line with {expected:?} ({error}) in:\n{}", read.join("\n")),
            }
            if read.last().is_some_and(|line| line.contains(expected)) {
                return read;
            }
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        send(signal, self.child.id());
    }

    /// Waits until it has closed its output, then for its exit.
    pub(crate) fn end(&mut self) -> ExitStatus {
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return self.child.wait().unwrap(),
                Err(RecvTimeoutError::Timeout) => panic!("it does not end"),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // Gracefully, so that it removes its files.
        self.signal("-INT");
        while self.lines.recv_timeout(LIMIT).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

fn lines(output: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// A base port all of whose ports are free, below the ephemeral ports of the system.
pub(crate) fn free_base_port() -> u16 {
    let is_free = |base: u16| {
        let ports = [0, 100, 200, 300].into_iter().flat_map(|offset| (1..=5).map(move |id| base + offset + id));
        let ports = ports.into_iter().chain([base]);
        ports.into_iter().all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
    };
    let first = std::process::id() % 40;
    let bases = (0..40).map(|n| 14_000 + 400 * ((first + n) % 40) as u16);
    bases.into_iter().find(|base| is_free(*base)).expect("some ports are free")
}

/// A free port below the ephemeral ports of the system, so that no connection takes it before the server does.
pub(crate) fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU16, Ordering};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 100) as u16 * 20;
    let ports = (0..200).map(|_| 11_000 + first + NEXT.fetch_add(1, Ordering::Relaxed) % 200);
    ports.into_iter().find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).expect("a free port")
}

/// A directory that is removed on drop.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("pole-cli-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    /// Writes a file, and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A time limit that is generous even on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
