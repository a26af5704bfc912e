//! One server: a folder with its files, and a process or none.

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
    /// From its start until we have seen its end.
    process: Option<Child>,
    /// Between SIGSTOP and SIGCONT.
    frozen: bool,
    /// The end of its standard error that nobody reads, if that is a pipe.
    unread: Option<PipeReader>,
}

impl Server {
    pub(super) fn new(id: usize, folder: PathBuf, ports: Ports, launcher: Launcher) -> Self {
        Self { id, folder, ports, launcher, process: None, frozen: false, unread: None }
    }

    /// Its `zoo.cfg` and `myid`.
    pub(super) fn write_files(&self, zoo_cfg: &str) -> Result<(), Failure> {
        let data = self.data_dir();
        fs::create_dir_all(&data).map_err(|why| Failure::io("create", &data, &why))?;
        let config = self.config_path();
        fs::write(&config, zoo_cfg).map_err(|why| Failure::io("write", &config, &why))?;
        self.write_id()
    }

    /// Starts it on what is in its folder. Its log goes on in the same file.
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

    /// `kill -9`. Does not wait for the end; [`Self::start`] and [`Self::reap`] do.
    pub fn kill(&mut self) -> Result<(), Failure> {
        self.frozen = false;
        self.signal(Signal::KILL)
    }

    /// SIGSTOP: the process stands still with all its sockets open.
    pub fn freeze(&mut self) -> Result<(), Failure> {
        self.frozen = true;
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    pub fn thaw(&mut self) -> Result<(), Failure> {
        self.frozen = false;
        self.signal(Signal::CONT)
    }

    /// SIGTERM, and waits for the end; an error if it does not come within `limit`.
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

    /// How it ended by itself, if it does within `limit`; it runs on otherwise.
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

    /// Waits for the end of a process that was killed. One that nobody killed is killed now.
    pub fn reap(&mut self) -> Result<(), Failure> {
        let Some(mut child) = self.process.take() else { return Ok(()) };
        self.frozen = false;
        child.kill().and_then(|()| child.wait()).map(drop).map_err(|why| self.failed("end", &why))
    }

    /// Forgets all data, as if the disk were new. Not while it runs.
    pub fn wipe(&mut self) -> Result<(), Failure> {
        assert!(self.process.is_none(), "server {} runs: its files are in use", self.id);
        let data = self.data_dir();
        // The folder itself stays: something may be mounted there.
        for entry in fs::read_dir(&data).map_err(|why| Failure::io("read", &data, &why))?.flatten() {
            let path = entry.path();
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(|why| Failure::io("remove", &path, &why))?;
        }
        self.write_id()
    }

    /// Ends it and removes its data. Its log and its configuration stay.
    pub(super) fn discard(&mut self) -> Result<(), Failure> {
        self.reap()?;
        super::remove(&self.data_dir())
    }

    /// An error, with the end of its log, if a process that was started has ended by itself.
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

    /// Whether it was started and not reaped since.
    pub fn is_started(&self) -> bool {
        self.process.is_some()
    }

    /// Whether it was started and is not frozen.
    pub fn is_awake(&self) -> bool {
        self.is_started() && !self.frozen
    }

    /// Its number in the ensemble, from 1.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports.client).into()
    }

    /// Its ports.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// To ask it how it is. The answer may take a second if it is frozen.
    pub fn probe(&self) -> Probe {
        Probe { address: self.address() }
    }

    /// Its folder, with configuration, log and data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its process, if it has one.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// What its process uses.
    pub fn usage(&self) -> Option<Usage> {
        self.pid().and_then(Usage::of)
    }

    /// Its `zoo.cfg`.
    pub fn config_path(&self) -> PathBuf {
        self.folder.join("zoo.cfg")
    }

    /// Its `dataDir`.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// What it says on standard output and error.
    pub fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Its `myid`, into a data directory that has none.
    pub fn write_id(&self) -> Result<(), Failure> {
        let path: &Path = &self.data_dir().join("myid");
        fs::write(path, format!("{}\n", self.id)).map_err(|why| Failure::io("write", path, &why))
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let pid = self.process.as_ref().map(Pid::from_child);
        let pid = pid.ok_or_else(|| Failure::Check(format!("server {} does not run: no {signal:?}", self.id)))?;
        // Our child, not reaped yet: the number cannot have passed to another process.
        kill_process(pid, signal).map_err(|why| self.failed("signal", &why.into()))
    }

    fn failed(&self, doing: &str, why: &std::io::Error) -> Failure {
        Failure::Check(format!("cannot {doing} server {}: {why}", self.id))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // There is nobody left to tell, and nothing left to try.
        let _ = self.reap();
    }
}

/// A pipe that takes nothing more.
fn full_pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, mut writer) = io::pipe()?;
    let flags = fcntl_getfl(&writer)?;
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK)?;
    let filled = loop {
        if let Err(why) = writer.write(&[b'\n'; 4096]) {
            break why;
        }
    };
    // The server gets a pipe like any other.
    fcntl_setfl(&writer, flags)?;
    if filled.kind() == io::ErrorKind::WouldBlock { Ok((reader, writer)) } else { Err(filled) }
}

/// So many lines of a log say why a server ended.
const LOG_TAIL: usize = 15;
