//! One server: a folder with its files, and its process while it runs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};

use super::{Launcher, Ports, Probe, Usage};
use crate::Failure;

/// One server of an ensemble.
#[derive(Debug)]
pub struct Server {
    id: usize,
    folder: PathBuf,
    ports: Ports,
    launcher: Launcher,
    /// Present from the start of the process until it has been reaped.
    process: Option<Child>,
    /// True between SIGSTOP and SIGCONT.
    frozen: bool,
    /// The read end of standard error, if that is a pipe. It is never read.
    unread: Option<PipeReader>,
}

impl Server {
    pub(super) fn new(id: usize, folder: PathBuf, ports: Ports, launcher: Launcher) -> Self {
        Self { id, folder, ports, launcher, process: None, frozen: false, unread: None }
    }

    /// Writes `zoo.cfg` and `myid`.
    pub(super) fn write_files(&self, zoo_cfg: &str) -> Result<(), Failure> {
        let data = self.data_dir();
        fs::create_dir_all(&data).map_err(|why| Failure::io("create", &data, &why))?;
        let config = self.config_path();
        fs::write(&config, zoo_cfg).map_err(|why| Failure::io("write", &config, &why))?;
        self.write_id()
    }

    /// Starts the server on the files in its folder. The log is appended to the same file.
    pub fn start(&mut self) -> Result<(), Failure> {
        self.reap()?;
        let log = self.log_path();
        let open = || OpenOptions::new().create(true).append(true).open(&log);
        let (out, err): (File, File) =
            open().and_then(|out| Ok((out, open()?))).map_err(|why| Failure::io("open", &log, &why))?;
        let mut command = self.launcher.command(&self.config_path());
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(out).stderr(err);
        if self.launcher.log_unread {
            let (reader, writer) = full_pipe().map_err(|why| self.failed("make a pipe for", &why))?;
            self.unread = Some(reader);
            command.stderr(writer);
        }
        let child = command.spawn();
        self.process = Some(child.map_err(|why| Failure::Check(format!("cannot start {command:?}: {why}")))?);
        Ok(())
    }

    /// Starts another product from now on, on the same files.
    pub fn set_launcher(&mut self, launcher: Launcher) {
        self.launcher = launcher;
    }

    /// Sends SIGKILL. Does not wait for the process to end; [`Self::start`] and [`Self::reap`] do.
    pub fn kill(&mut self) -> Result<(), Failure> {
        self.frozen = false;
        self.signal(Signal::KILL)
    }

    /// Like [`Self::kill`], for several servers at the same time.
    pub fn ask_to_kill(&self) -> Result<(), Failure> {
        self.signal(Signal::KILL)
    }

    /// Sends SIGSTOP: the process stops, with all its sockets open.
    pub fn freeze(&mut self) -> Result<(), Failure> {
        self.frozen = true;
        self.signal(Signal::STOP)
    }

    /// Sends SIGCONT.
    pub fn thaw(&mut self) -> Result<(), Failure> {
        self.frozen = false;
        self.signal(Signal::CONT)
    }

    /// Sends SIGTERM. Does not wait for the process to end; [`Self::wait_end`] does.
    pub fn ask_to_end(&self) -> Result<(), Failure> {
        self.signal(Signal::TERM)
    }

    /// Sends SIGTERM and waits for the process to end. Fails if it still runs after `limit`.
    pub fn terminate(&mut self, limit: Duration) -> Result<ExitStatus, Failure> {
        self.signal(Signal::TERM)?;
        let deadline = Instant::now() + limit;
        loop {
            let child = self.process.as_mut().expect("it has just been signalled");
            if let Some(status) = child.try_wait().map_err(|why| self.failed("wait for", &why))? {
                self.process = None;
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Err(Failure::Check(format!("server {} runs on {limit:?} after SIGTERM", self.id)));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits up to `limit` for the process to end by itself. Returns `None` if it still runs.
    pub fn wait_end(&mut self, limit: Duration) -> Result<Option<ExitStatus>, Failure> {
        let deadline = Instant::now() + limit;
        loop {
            let Some(child) = self.process.as_mut() else { return Ok(None) };
            if let Some(status) = child.try_wait().map_err(|why| self.failed("wait for", &why))? {
                self.process = None;
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the process, unless that has been done already, and waits until it has ended.
    pub fn reap(&mut self) -> Result<(), Failure> {
        let Some(mut child) = self.process.take() else { return Ok(()) };
        self.frozen = false;
        child.kill().and_then(|()| child.wait()).map(drop).map_err(|why| self.failed("end", &why))
    }

    /// Removes all data, as if the disk were new. Must not be called while the server runs.
    pub fn wipe(&mut self) -> Result<(), Failure> {
        assert!(self.process.is_none(), "server {} runs: its files are in use", self.id);
        let data = self.data_dir();
        // The folder itself is kept: a file system may be mounted there.
        for entry in fs::read_dir(&data).map_err(|why| Failure::io("read", &data, &why))?.flatten() {
            let path = entry.path();
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(|why| Failure::io("remove", &path, &why))?;
        }
        self.write_id()
    }

    /// Kills the server and removes its data. Log and configuration are kept.
    pub(super) fn discard(&mut self) -> Result<(), Failure> {
        self.reap()?;
        super::remove(&self.data_dir())
    }

    /// Fails, with the end of the log, if the process has exited by itself.
    pub fn check_running(&mut self) -> Result<(), Failure> {
        let Some(child) = self.process.as_mut() else { return Ok(()) };
        match child.try_wait().map_err(|why| self.failed("look at", &why))? {
            None => Ok(()),
            Some(status) => {
                let log = self.log_path();
                let text = fs::read_to_string(&log).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let tail = lines[lines.len().saturating_sub(LOG_TAIL)..].join("\n  ");
                let (product, id) = (self.launcher.product, self.id);
                let what = format!("server {id} of {product} ended: {status}\n  {tail}\n  ({})", log.display());
                Err(Failure::Check(what))
            }
        }
    }

    /// Whether the server was started and not reaped since.
    pub fn is_started(&self) -> bool {
        self.process.is_some()
    }

    /// Whether the server was started and is not frozen.
    pub fn is_active(&self) -> bool {
        self.is_started() && !self.frozen
    }

    /// The server id (`myid`), from 1.
    pub fn id(&self) -> usize {
        self.id
    }

    /// The client address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.client).into()
    }

    /// The ports of the server.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// Returns a probe for the state of the server. Its calls take a second if the server is frozen.
    pub fn probe(&self) -> Probe {
        Probe { address: self.address() }
    }

    /// The folder with configuration, log and data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The process id, if the server was started.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// The CPU time and memory of the process.
    pub fn usage(&self) -> Option<Usage> {
        self.pid().and_then(Usage::of)
    }

    /// The path of `zoo.cfg`.
    pub fn config_path(&self) -> PathBuf {
        self.folder.join("zoo.cfg")
    }

    /// The `dataDir`.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The file with standard output and standard error.
    pub fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Writes `myid` into the data directory.
    pub fn write_id(&self) -> Result<(), Failure> {
        let path: &Path = &self.data_dir().join("myid");
        fs::write(path, format!("{}\n", self.id)).map_err(|why| Failure::io("write", path, &why))
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let pid = self.process.as_ref().map(Pid::from_child);
        let pid = pid.ok_or_else(|| Failure::Check(format!("server {} does not run: no {signal:?}", self.id)))?;
        // The child has not been reaped yet, so its process id cannot have been reused.
        kill_process(pid, signal).map_err(|why| self.failed("signal", &why.into()))
    }

    fn failed(&self, doing: &str, why: &std::io::Error) -> Failure {
        Failure::Check(format!("cannot {doing} server {}: {why}", self.id))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error cannot be reported here.
        let _ = self.reap();
    }
}

/// A pipe whose buffer is full, so that every write to it blocks.
fn full_pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, mut writer) = io::pipe()?;
    let flags = fcntl_getfl(&writer)?;
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK)?;
    let filled = loop {
        if let Err(why) = writer.write(&[b'\n'; 4096]) {
            break why;
        }
    };
    // The server gets a blocking pipe, like any other.
    fcntl_setfl(&writer, flags)?;
    if filled.kind() == io::ErrorKind::WouldBlock { Ok((reader, writer)) } else { Err(filled) }
}

/// The number of log lines that are shown for a server that has exited.
const LOG_TAIL: usize = 15;
