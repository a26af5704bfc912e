//! A standalone server with some history on its disk, for attacks on its files.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pole_client::blocking::Session;
use pole_jute::{CreateMode, Reply};

use super::target::SESSION_TIMEOUT;
use crate::Failure;
use crate::client;
use crate::ensemble::{Ensemble, Launcher, Server, Setup};

/// A standalone server that has written some keys, has several logs and snapshots, and was shut down in order.
pub(super) struct ServerWithHistory {
    pub(super) ensemble: Ensemble,
    /// A copy of its files, from which each start begins.
    original: PathBuf,
}

/// The result of a start on changed files.
pub(super) enum StartResult {
    /// The server exited by itself: the exit code, and the last lines of its log.
    Refused(Option<i32>, String),
    /// The server serves: the number of keys that are missing or wrong.
    Serves(usize),
}

impl ServerWithHistory {
    /// Starts the server several times and writes the keys. Extra lines for the configuration may contain `{folder}`.
    pub(super) fn make(launcher: &Launcher, name: &str, config: &[&str]) -> Result<Self, Failure> {
        let setup = CONFIG.iter().fold(Setup::new(&format!("attack-{name}"), 1), |setup, line| setup.with(line));
        let mut ensemble = Ensemble::prepare(launcher, &setup)?;
        let folder = ensemble.servers()[0].folder().to_owned();
        let lines: String =
            config.iter().map(|line| line.replace("{folder}", &folder.display().to_string()) + "\n").collect();
        ensemble.configure(|_, text| text + &lines)?;
        // Each start begins a new epoch.
        for start in 0..STARTS {
            ensemble.start_all()?;
            let keys = start * KEYS / STARTS..(start + 1) * KEYS / STARTS;
            write_keys(&ensemble.servers()[0], keys)
                .map_err(|why| Failure::Check(format!("cannot write keys: {why}")))?;
            ensemble.server(0).terminate(STOP_LIMIT)?;
        }
        let original = folder.join("original");
        copy(&folder.join("data"), &original.join("data"))?;
        if folder.join("logs").is_dir() {
            copy(&folder.join("logs"), &original.join("logs"))?;
        }
        Ok(Self { ensemble, original })
    }

    /// Restores the original files, applies `change` to the folder, and starts the server.
    pub(super) fn start_after(
        &mut self,
        change: impl FnOnce(&Path) -> Result<(), Failure>,
    ) -> Result<StartResult, Failure> {
        let server = self.ensemble.server(0);
        server.reap()?;
        let folder = server.folder().to_owned();
        for name in ["data", "logs"] {
            let _ = fs::remove_dir_all(folder.join(name));
            if self.original.join(name).is_dir() {
                copy(&self.original.join(name), &folder.join(name))?;
            }
        }
        change(&folder)?;
        let log = server.log_path();
        let before = fs::read(&log).map_or(0, |text| text.len());
        server.start()?;
        let started = std::time::Instant::now();
        loop {
            if let Some(status) = server.wait_end(Duration::from_millis(20))? {
                let text = fs::read(&log).map_err(|why| Failure::io("read", &log, &why))?;
                let message = String::from_utf8_lossy(&text[before..]).trim_end().to_owned();
                let last =
                    message.lines().rev().take(3).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join(" / ");
                return Ok(StartResult::Refused(status.code(), last));
            }
            if server.probe().mode().is_some() {
                return Ok(StartResult::Serves(missing_keys(server)));
            }
            if started.elapsed() > START_LIMIT {
                return Err(Failure::Check(format!("the server neither serves nor ends for {START_LIMIT:?}")));
            }
        }
    }
}

/// All files in a folder and below whose names have this prefix, sorted by the zxid in the name.
pub(super) fn files(folder: &Path, prefix: &str) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|why| Failure::io("read", &folder, &why))?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if entry.file_name().to_string_lossy().starts_with(prefix) {
                found.push(path);
            }
        }
    }
    found.sort_by_key(|path| zxid_of(path));
    Ok(found)
}

/// The zxid in the name of a log or a snapshot; 0 if there is none.
pub(super) fn zxid_of(path: &Path) -> u64 {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.rsplit('.').next().and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or(0)
}

fn write_keys(server: &Server, keys: std::ops::Range<usize>) -> Result<(), client::Error> {
    let mut session = Session::connect(server.address(), SESSION_TIMEOUT)?;
    for key in keys {
        session.ask(client::create(&path(key), value(key).as_bytes(), CreateMode::Persistent))?;
    }
    Ok(())
}

/// The number of keys that are missing or have another value. All of them if the server does not answer.
fn missing_keys(server: &Server) -> usize {
    let count = || -> Result<usize, client::Error> {
        let mut session = Session::connect(server.address(), SESSION_TIMEOUT)?;
        let mut missing = 0;
        for key in 0..KEYS {
            let is_there = match session.ask(client::get_data(&path(key), false)) {
                Ok(Reply::GetData(reply)) => reply.data.is_some_and(|data| data == value(key).as_bytes()),
                Ok(_) | Err(client::Error::Refused(_)) => false,
                Err(why) => return Err(why),
            };
            missing += usize::from(!is_there);
        }
        Ok(missing)
    };
    count().unwrap_or(KEYS)
}

fn path(key: usize) -> String {
    format!("/key-{key}")
}

fn value(key: usize) -> String {
    format!("value of {key}")
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to).map_err(|why| Failure::io("create", to, &why))?;
    for entry in fs::read_dir(from).map_err(|why| Failure::io("read", from, &why))?.flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).map_err(|why| Failure::io("copy to", &target, &why))?;
        }
    }
    Ok(())
}

/// The exit code of a server whose files are damaged.
pub(super) const DAMAGED: i32 = 5;

pub(super) const KEYS: usize = 420;
const STARTS: usize = 3;

/// Produces several snapshots and logs for this number of keys. Small files are quick to copy.
const CONFIG: &[&str] = &["snapCount=100", "preAllocSize=64"];

const STOP_LIMIT: Duration = Duration::from_secs(20);
const START_LIMIT: Duration = Duration::from_secs(20);
