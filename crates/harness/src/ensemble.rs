//! Real servers as child processes: an ensemble of Apache ZooKeeper or of Pole on loopback.
//!
//! In: which product, how many servers, lines for their `zoo.cfg`. Out: processes that can be killed, frozen, ended and
//! started again on the same ports and files, and what they use of the machine.
//! Why: benchmarks, the soak and the compatibility checks must treat both products alike; only the command line differs.
//! Holds: nothing outlives this program. Servers end when the [`Ensemble`] is dropped; where `setpriv` is installed also
//! when this program is killed. For that the thread that starts a server must live as long as the server should.
//! What they wrote stays for whoever asks why, unless all went well and [`Ensemble::done`] was called.
//! Not here: speaking the client protocol (`client`). Only the commands of four letters are used.

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

/// What to start.
#[derive(Clone, Debug)]
pub struct Setup {
    /// A folder of this name under `target/ensembles` holds files and logs. What an earlier run left there goes.
    pub name: String,
    /// How many servers. One is a standalone server, without an ensemble.
    pub servers: usize,
    /// Lines for every `zoo.cfg`, after ours; a later line wins.
    pub config: Vec<String>,
}

impl Setup {
    /// Servers with the values of Apache's sample configuration.
    pub fn new(name: &str, servers: usize) -> Self {
        Self { name: name.to_owned(), servers, config: Vec::new() }
    }

    /// With a line more in every `zoo.cfg`.
    pub fn with(mut self, line: &str) -> Self {
        self.config.push(line.to_owned());
        self
    }
}

/// Servers that belong together.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<Server>,
    folder: PathBuf,
    /// Whether all went well, and nobody needs the data.
    done: bool,
    /// Held as long as we use the folder: a second run under the same name would delete our files.
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

    /// Writes the files and starts nothing.
    pub fn prepare(launcher: &Launcher, setup: &Setup) -> Result<Self, Failure> {
        let (folder, lock) = claim(&setup.name)?;
        let ports = ports::free(setup.servers * PORTS_PER_SERVER)?;
        let places: Vec<Ports> = ports.chunks_exact(PORTS_PER_SERVER).map(Ports::new).collect();
        let mut servers = Vec::new();
        for (index, place) in places.iter().enumerate() {
            let id = index + 1;
            let server = Server::new(id, folder.join(id.to_string()), *place, launcher.clone());
            server.write_files(&zoo_cfg(setup, &places, id, &server.data_dir()))?;
            servers.push(server);
        }
        Ok(Self { servers, folder, done: false, _lock: lock })
    }

    /// Changes the `zoo.cfg` of every server. Servers that run notice at their next start.
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

    /// All went well: ends the servers and removes their data, which is gigabytes after a load. Logs and configuration stay.
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

    /// An error, with the end of its log, if a server that was started has ended by itself.
    pub fn check_running(&mut self) -> Result<(), Failure> {
        self.servers.iter_mut().try_for_each(Server::check_running)
    }

    /// The index of the server that says it leads, or stands alone.
    pub fn leader(&self) -> Option<usize> {
        let leads = |server: &Server| matches!(server.probe().mode(), Some(Mode::Leader | Mode::Standalone));
        self.servers.iter().position(|server| server.is_awake() && leads(server))
    }

    /// All servers, in the order of their ids; the id is the index plus one.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// One of them, to do something to it.
    pub fn server(&mut self, index: usize) -> &mut Server {
        &mut self.servers[index]
    }

    /// Where clients connect, in the order of the servers.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Server::address).collect()
    }

    /// As a client takes it: `host:port,host:port`.
    pub fn connect_string(&self) -> String {
        self.addresses().iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// CPU time of all servers that run, and their memory.
    pub fn usage(&self) -> Usage {
        self.servers.iter().filter_map(Server::usage).sum()
    }

    /// Where the files and logs are.
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
    /// For clients.
    pub client: u16,
    /// For clients with TLS, where the configuration has a line that uses it.
    pub secure: u16,
    /// Between servers: the agreement.
    pub quorum: u16,
    /// Between servers: the election.
    pub election: u16,
}

impl Ports {
    fn new(ports: &[u16]) -> Self {
        Self { client: ports[0], quorum: ports[1], election: ports[2], secure: ports[3] }
    }
}

/// Removes what runs left behind whose names begin like this and do not come back. Those that still run hold their locks.
fn sweep(prefix: &str) -> Result<(), Failure> {
    let all = target_dir().join("ensembles");
    for entry in fs::read_dir(&all).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_left = entry.file_name().to_string_lossy().starts_with(prefix)
            && path.extension().is_some_and(|extension| extension == "lock")
            && File::open(&path).is_ok_and(|lock| lock.try_lock().is_ok());
        if is_left {
            remove(&path.with_extension(""))?;
            fs::remove_file(&path).map_err(|why| Failure::io("remove", &path, &why))?;
        }
    }
    Ok(())
}

/// Removes a folder, if there is one.
fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(Failure::io("remove", folder, &why)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// An empty folder that is ours until the lock is dropped.
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

/// The configuration of one server: the values of Apache's sample, all commands of four letters allowed, no admin server,
/// and as many clients from one address as come, because here all come from one.
fn zoo_cfg(setup: &Setup, places: &[Ports], id: usize, data: &Path) -> String {
    let client = places[id - 1].client;
    let mut text = format!(
        "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={}\nclientPort={client}\nclientPortAddress=127.0.0.1\n\
         maxClientCnxns=0\n4lw.commands.whitelist=*\nadmin.enableServer=false\n",
        data.display()
    );
    if places.len() > 1 {
        for (id, place) in (1..).zip(places) {
            text += &format!("server.{id}=127.0.0.1:{}:{}\n", place.quorum, place.election);
        }
    }
    for line in &setup.config {
        text += &format!("{line}\n");
    }
    text
}

const PORTS_PER_SERVER: usize = 4;

/// A JVM on a busy machine takes seconds to start; an ensemble that needs more than this is not coming.
pub const READY_LIMIT: Duration = Duration::from_secs(60);

/// Between two looks at servers that are starting: short against what a start takes, long against what a look costs.
const PROBE_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn places(count: u16) -> Vec<Ports> {
        (0..count).map(|n| Ports::new(&[2181 + n, 2888 + n, 3888 + n, 2281 + n])).collect()
    }

    #[test]
    fn a_configuration_lists_the_ensemble_and_ends_with_the_callers_lines() {
        let text = zoo_cfg(&Setup::new("x", 2).with("tickTime=100"), &places(2), 2, Path::new("data"));
        assert!(text.contains("clientPort=2182\n"), "{text}");
        assert!(text.contains("server.1=127.0.0.1:2888:3888\nserver.2=127.0.0.1:2889:3889\n"), "{text}");
        assert!(text.ends_with("tickTime=100\n"), "{text}");
    }

    #[test]
    fn one_server_alone_has_no_ensemble() {
        assert!(!zoo_cfg(&Setup::new("x", 1), &places(1), 1, Path::new("data")).contains("server."));
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
    fn what_nobody_holds_is_swept_and_what_runs_is_not() {
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
