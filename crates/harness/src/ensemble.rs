//! An ensemble of real servers, of Apache ZooKeeper or of Pole, as child processes on loopback.
//!
//! A [`Setup`] says how many servers to start, with which lines in their `zoo.cfg`. Servers can be killed, stopped,
//! terminated and restarted on the same ports and files, and their CPU time and memory can be read. Benchmarks, the
//! soak and the compatibility checks treat both products alike; only the command line differs.
//!
//! Invariant: no server outlives this program. Servers end when the [`Ensemble`] is dropped and, where `setpriv` is
//! installed, also when this program is killed. For the latter, the thread that starts a server must live as long as
//! the server should.
//!
//! The files of the servers are kept for diagnosis, unless the run was successful and [`Ensemble::done`] was called.
//!
//! The client protocol is in [`crate::client`]. This module uses only the four-letter words.

mod apache;
mod pole;
mod ports;
mod probe;
mod product;
mod run;
mod server;
mod usage;

pub use ports::free as free_ports;
pub use probe::{Mode, Probe};
pub use product::{Launcher, Product};
pub use run::run;
pub use server::Server;
pub use usage::{Usage, peak_resident, reset_peak};

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::command::target_dir;

/// The number of servers of an ensemble, and their configuration.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The folder under `target/ensembles` for files and logs. Its previous content is removed.
    pub name: String,
    /// The number of servers. A single one is started as a standalone server.
    pub servers: usize,
    /// How many of the servers, counted from the last, are observers.
    pub observers: usize,
    /// Lines for every `zoo.cfg`, after the generated ones. A later line overrides an earlier one.
    pub config: Vec<String>,
}

impl Setup {
    /// Servers with the values of Apache's sample configuration.
    pub fn new(name: &str, servers: usize) -> Self {
        Self { name: name.to_owned(), servers, observers: 0, config: Vec::new() }
    }

    /// Adds a line to every `zoo.cfg`.
    pub fn with(mut self, line: &str) -> Self {
        self.config.push(line.to_owned());
        self
    }
}

/// The servers of one ensemble.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Server>,
    folder: PathBuf,
    /// Set by `done()`: the run was successful, and the data was removed.
    done: bool,
    /// Locked as long as we use the folder. A second run under the same name would delete our files.
    _lock: File,
}

impl Ensemble {
    /// Writes the files and starts all servers. Does not wait for them.
    pub fn start(launcher: &Launcher, setup: &Setup) -> Result<Self, Failure> {
        let mut ensemble = Self::prepare(launcher, setup)?;
        ensemble.servers.iter_mut().try_for_each(Server::start)?;
        Ok(ensemble)
    }

    /// Starts all servers and waits until they serve.
    pub fn ready(launcher: &Launcher, setup: &Setup) -> Result<Self, Failure> {
        let mut ensemble = Self::start(launcher, setup)?;
        ensemble.wait_ready(READY_LIMIT)?;
        Ok(ensemble)
    }

    /// Writes the files without starting any server.
    pub fn prepare(launcher: &Launcher, setup: &Setup) -> Result<Self, Failure> {
        let (folder, lock) = claim(&setup.name)?;
        let free = ports::free(setup.servers * PORTS_PER_SERVER)?;
        let ports: Vec<Ports> = free.chunks_exact(PORTS_PER_SERVER).map(Ports::new).collect();
        let mut servers = Vec::new();
        for (index, server_ports) in ports.iter().enumerate() {
            let id = index + 1;
            let server = Server::new(id, folder.join(id.to_string()), *server_ports, launcher.clone());
            server.write_files(&zoo_cfg(setup, &ports, id, &server.data_dir()))?;
            servers.push(server);
        }
        Ok(Self { servers, folder, done: false, _lock: lock })
    }

    /// Changes the `zoo.cfg` of every server. Running servers see the change at their next start.
    pub fn configure(&self, change: impl Fn(&Server, String) -> String) -> Result<(), Failure> {
        for server in &self.servers {
            let path = server.config_path();
            let text = fs::read_to_string(&path).map_err(|why| Failure::io("read", &path, &why))?;
            fs::write(&path, change(server, text)).map_err(|why| Failure::io("write", &path, &why))?;
        }
        Ok(())
    }

    /// Starts all servers that [`Self::prepare`] prepared and waits until they serve. Returns the index of the leader.
    pub fn start_all(&mut self) -> Result<usize, Failure> {
        self.servers.iter_mut().try_for_each(Server::start)?;
        self.wait_ready(READY_LIMIT)
    }

    /// Ends a successful run: kills the servers and removes their data, which is gigabytes after a load. Logs and
    /// configuration are kept.
    pub fn done(mut self) -> Result<(), Failure> {
        self.servers.iter_mut().try_for_each(Server::discard)?;
        self.done = true;
        Ok(())
    }

    /// Waits until every server that was started serves and one of them leads. Returns the index of the leader.
    pub fn wait_ready(&mut self, limit: Duration) -> Result<usize, Failure> {
        let deadline = Instant::now() + limit;
        loop {
            self.check_running()?;
            let started = self.servers.iter().filter(|server| server.is_started());
            let modes: Vec<Option<Mode>> = started.map(|server| server.probe().mode()).collect();
            if modes.iter().all(Option::is_some)
                && let Some(leader) = self.leader()
            {
                return Ok(leader);
            }
            if Instant::now() >= deadline {
                let folder = self.folder.display();
                let what =
                    format!("no ensemble after {limit:?}: the servers say {modes:?}; their logs are in {folder}");
                return Err(Failure::Check(what));
            }
            std::thread::sleep(PROBE_PAUSE);
        }
    }

    /// Fails, with the end of the log, if a server that was started has exited by itself.
    pub fn check_running(&mut self) -> Result<(), Failure> {
        self.servers.iter_mut().try_for_each(Server::check_running)
    }

    /// The index of the server that reports to be the leader, or standalone.
    pub fn leader(&self) -> Option<usize> {
        let leads = |server: &Server| matches!(server.probe().mode(), Some(Mode::Leader | Mode::Standalone));
        self.servers.iter().position(|server| server.is_active() && leads(server))
    }

    /// All servers, in the order of their ids; the id is the index plus one.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The server with this index.
    pub fn server(&mut self, index: usize) -> &mut Server {
        &mut self.servers[index]
    }

    /// The client addresses, in the order of the servers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Server::address).collect()
    }

    /// The connect string for clients: `host:port,host:port`.
    pub fn connect_string(&self) -> String {
        self.addresses().iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// The CPU time and memory of all running servers, added up.
    pub fn usage(&self) -> Usage {
        self.servers.iter().filter_map(Server::usage).sum()
    }

    /// The folder with files and logs.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        if !self.done {
            println!("data and logs of the servers stay in {}", self.folder.display());
        }
    }
}

/// The ports of one server, all on loopback.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// The client port.
    pub client: u16,
    /// The client port with TLS. Only used if the configuration has a line for it.
    pub secure: u16,
    /// The port for Zab between servers.
    pub quorum: u16,
    /// The port for elections between servers.
    pub election: u16,
}

impl Ports {
    fn new(ports: &[u16]) -> Self {
        Self { client: ports[0], quorum: ports[1], election: ports[2], secure: ports[3] }
    }
}

/// Removes the folders of earlier runs whose names have this prefix. Runs that are still active hold their locks and
/// are skipped.
fn sweep(prefix: &str) -> Result<(), Failure> {
    let all = target_dir().join("ensembles");
    for entry in fs::read_dir(&all).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_stale = entry.file_name().to_string_lossy().starts_with(prefix)
            && path.extension().is_some_and(|extension| extension == "lock")
            && File::open(&path).is_ok_and(|lock| lock.try_lock().is_ok());
        if is_stale {
            remove(&path.with_extension(""))?;
            fs::remove_file(&path).map_err(|why| Failure::io("remove", &path, &why))?;
        }
    }
    Ok(())
}

/// Removes a folder if it exists.
fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(Failure::io("remove", folder, &why)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Creates an empty folder that is reserved for us until the lock is dropped.
fn claim(name: &str) -> Result<(PathBuf, File), Failure> {
    let all = target_dir().join("ensembles");
    fs::create_dir_all(&all).map_err(|why| Failure::io("create", &all, &why))?;
    let lock_path = all.join(format!("{name}.lock"));
    let lock = File::create(&lock_path).map_err(|why| Failure::io("create", &lock_path, &why))?;
    let busy = |why| Failure::Check(format!("another run uses the ensemble `{name}` ({}): {why}", lock_path.display()));
    lock.try_lock().map_err(busy)?;
    let folder = all.join(name);
    remove(&folder)?;
    fs::create_dir_all(&folder).map_err(|why| Failure::io("create", &folder, &why))?;
    Ok((folder, lock))
}

/// The configuration of one server: the values of Apache's sample, all four-letter words allowed, no admin server,
/// and no limit on the connections from one address, because all clients connect from loopback.
fn zoo_cfg(setup: &Setup, ports: &[Ports], id: usize, data: &Path) -> String {
    let client = ports[id - 1].client;
    let mut text = format!(
        "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={}\nclientPort={client}\nclientPortAddress=127.0.0.1\n\
         maxClientCnxns=0\n4lw.commands.whitelist=*\nadmin.enableServer=false\n",
        data.display()
    );
    if ports.len() > 1 {
        let is_observer = |id: usize| id + setup.observers > ports.len();
        for (id, server_ports) in (1..).zip(ports) {
            let role = if is_observer(id) { ":observer" } else { "" };
            text += &format!("server.{id}=127.0.0.1:{}:{}{role}\n", server_ports.quorum, server_ports.election);
        }
        if is_observer(id) {
            text += "peerType=observer\n";
        }
    }
    for line in &setup.config {
        text += &format!("{line}\n");
    }
    text
}

const PORTS_PER_SERVER: usize = 4;

/// A JVM on a busy machine takes seconds to start. An ensemble that is not ready after this time has failed.
pub const READY_LIMIT: Duration = Duration::from_secs(60);

/// The poll interval for starting servers: short compared with a start, long compared with the cost of a probe.
const PROBE_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(count: u16) -> Vec<Ports> {
        (0..count).map(|n| Ports::new(&[2181 + n, 2888 + n, 3888 + n, 2281 + n])).collect()
    }

    #[test]
    fn a_configuration_lists_the_ensemble_and_ends_with_the_callers_lines() {
        let text = zoo_cfg(&Setup::new("x", 2).with("tickTime=100"), &ports(2), 2, Path::new("data"));
        assert!(text.contains("clientPort=2182\n"), "{text}");
        assert!(text.contains("server.1=127.0.0.1:2888:3888\nserver.2=127.0.0.1:2889:3889\n"), "{text}");
        assert!(text.ends_with("tickTime=100\n"), "{text}");
    }

    #[test]
    fn one_server_alone_has_no_ensemble() {
        assert!(!zoo_cfg(&Setup::new("x", 1), &ports(1), 1, Path::new("data")).contains("server."));
    }

    #[test]
    fn a_name_in_use_is_refused() {
        let name = format!("test-{}", std::process::id());
        let first = claim(&name).unwrap();
        let Err(Failure::Check(what)) = claim(&name) else { panic!("two runs share a folder") };
        assert!(what.contains(&name), "{what}");
        fs::remove_dir_all(first.0).unwrap();
        fs::remove_file(target_dir().join("ensembles").join(format!("{name}.lock"))).unwrap();
    }

    #[test]
    fn stale_folders_are_swept_and_locked_ones_are_not() {
        let prefix = format!("sweep-{}", std::process::id());
        let (held, lock) = claim(&format!("{prefix}-held")).unwrap();
        let left = claim(&format!("{prefix}-left")).unwrap().0;
        sweep(&prefix).unwrap();
        assert!(held.is_dir() && !left.exists());
        drop(lock);
        sweep(&prefix).unwrap();
        assert!(!held.exists());
    }
}
