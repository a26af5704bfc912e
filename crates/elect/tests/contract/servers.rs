//! Real servers for the contract tests: started on loopback with a free port and a temporary folder, ended with the test.
//!
//! A program is looked up in an environment variable, then in PATH. If it is not found, the test prints that the store
//! is skipped, and why, and passes.
//!
//! | store | variable | program in PATH |
//! | --- | --- | --- |
//! | etcd | `POLE_ELECT_ETCD` (several, separated by colons) | `etcd` |
//! | PostgreSQL | `POLE_ELECT_POSTGRES` | `postgres`, with `initdb` beside it |
//! | Apache ZooKeeper | `POLE_ELECT_ZOOKEEPER_JARS`, a folder; else `/usr/share/java`, as in Debian | `java` |
//! | Pole | `POLE_BIN` | `pole` |
//! | Redis | `POLE_ELECT_REDIS` | `redis-server` |
//! | NATS | `POLE_ELECT_NATS` | `nats-server` |
//! | Consul | `POLE_ELECT_CONSUL` | `consul` |
//! | Kubernetes | `POLE_ELECT_KUBE_APISERVER` | `kube-apiserver` (and an etcd) |

use std::env;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::proxy::Proxy;
use pole_elect::contract::{self, Extent, Factory, Proxied};
use pole_elect::store::{BoxFuture, Error, Store};
use pole_elect::stores;

/// Runs the contract against a server, prints the report and fails if a case failed.
pub(crate) async fn check(factory: &dyn Factory) {
    wait_until_ready(factory).await;
    let report = match env::var("POLE_ELECT_CASE") {
        Ok(name) => contract::run_one(factory, &name).await,
        Err(_) => contract::run(factory, extent()).await,
    };
    assert!(!report.cases.is_empty(), "POLE_ELECT_CASE names no case");
    println!("{report}");
    if extent() == Extent::Full {
        for (name, _, took) in &report.cases {
            println!("{:>8.1} s  {name}", took.as_secs_f64());
        }
    }
    assert!(report.passed(), "{report}");
}

/// All cases if `POLE_ELECT_CONTRACT` is `full`. Without it a run takes less than half the time.
pub(crate) fn extent() -> Extent {
    match env::var("POLE_ELECT_CONTRACT").as_deref() {
        Ok("full") => Extent::Full,
        Ok("essential") | Err(_) => Extent::Essential,
        Ok(other) => panic!("POLE_ELECT_CONTRACT is full or essential, got {other:?}"),
    }
}

/// Opens the store of a URL with the name of the election where `ELECTION` stands.
pub(crate) async fn open(url: &str, election: &str) -> Result<Arc<dyn Store>, Error> {
    let url = url.replace("ELECTION", election).parse().expect("the URL of a test");
    stores::open(&url).await.map_err(|error| Error::Refused(error.to_string()))
}

/// Says that a store is skipped.
pub(crate) fn skip(store: &str, why: &str) {
    println!("{store}: skipped, {why}");
    println!("{store}: 0 passed, 0 failed, all skipped");
}

/// A store on a server of ours, for the contract.
pub(crate) struct OnServer {
    pub(crate) name: String,
    /// The URL with `ELECTION` where the name of the election stands.
    pub(crate) url: String,
    pub(crate) ttl: Duration,
    pub(crate) server: Mutex<Server>,
    pub(crate) can_restart: bool,
}

impl OnServer {
    pub(crate) fn new(name: impl Into<String>, url: String, ttl: Duration, server: Server) -> Self {
        Self { name: name.into(), url, ttl, server: Mutex::new(server), can_restart: true }
    }
}

impl Factory for OnServer {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn connect<'a>(&'a self, election: &'a str) -> BoxFuture<'a, Result<Arc<dyn Store>, Error>> {
        Box::pin(open(&self.url, election))
    }

    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn connect_through_proxy<'a>(&'a self, election: &'a str) -> Option<BoxFuture<'a, Result<Proxied, Error>>> {
        Some(Box::pin(async move {
            let port = self.server.lock().unwrap_or_else(PoisonError::into_inner).port();
            let proxy = Proxy::start(port).await;
            let url = self.url.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{}", proxy.port()));
            let store = open(&url, election).await?;
            Ok(Proxied { store, link: Box::new(proxy) })
        }))
    }

    fn restart(&self) -> Option<BoxFuture<'_, Result<(), Error>>> {
        if !self.can_restart {
            return None;
        }
        Some(Box::pin(async move {
            self.server.lock().unwrap_or_else(PoisonError::into_inner).restart();
            wait_until_ready(self).await;
            Ok(())
        }))
    }
}

/// Waits until a client can be opened: a server listens before it has elected a leader or recovered its data.
pub(crate) async fn wait_until_ready(factory: &dyn Factory) {
    let deadline = Instant::now() + START_LIMIT;
    while let Err(why) = factory.connect("ready").await {
        assert!(Instant::now() < deadline, "{}: {why}", factory.name());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A server process with its folder. Both end with the value.
pub(crate) struct Server {
    folder: Folder,
    command: Vec<String>,
    variables: Vec<(String, String)>,
    ports: Vec<u16>,
    user: Option<&'static str>,
    child: Option<Child>,
    /// Ended after this one.
    pub(crate) beside: Option<Box<Server>>,
}

impl Server {
    /// Starts a server, given the folder and the ports of a first attempt. Between the choice of a port and its use
    /// another program may take it, so there are several attempts.
    pub(crate) fn launch(name: &str, ports: usize, command: impl Fn(&Path, &[u16]) -> Vec<String>) -> Self {
        Self::launch_as(name, ports, None, command)
    }

    pub(crate) fn launch_as(
        name: &str,
        ports: usize,
        user: Option<&'static str>,
        command: impl Fn(&Path, &[u16]) -> Vec<String>,
    ) -> Self {
        for _ in 0..ATTEMPTS {
            let folder = Folder::new(name);
            if let Some(user) = user {
                let done = Command::new("chown").arg(user).arg(&folder.0).status().expect("chown");
                assert!(done.success(), "cannot give the folder to {user}");
            }
            let ports = free_ports(ports);
            let command = command(&folder.0, &ports);
            let mut server = Self { folder, command, variables: Vec::new(), ports, user, child: None, beside: None };
            if server.try_start() {
                return server;
            }
        }
        panic!("{name} did not start");
    }

    pub(crate) fn port(&self) -> u16 {
        self.ports[0]
    }

    pub(crate) fn ports(&self) -> &[u16] {
        &self.ports
    }

    /// Ends the process as a crash does and starts it again. The processes of PostgreSQL take a moment to notice the
    /// end of their parent, so there are several attempts.
    fn restart(&mut self) {
        self.stop();
        let deadline = Instant::now() + START_LIMIT;
        while !self.try_start() {
            assert!(Instant::now() < deadline, "{:?} did not start again", self.command);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Starts the process and waits until it accepts connections on its first port.
    fn try_start(&mut self) -> bool {
        let log = self.folder.0.join("log");
        let output = File::options().create(true).append(true).open(&log).expect("the log of a server");
        let mut command = self.wrapped();
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("a file")).stderr(output);
        command.current_dir(&self.folder.0).envs(self.variables.iter().cloned());
        let mut child = command.spawn().expect("a server that was found");
        let deadline = Instant::now() + START_LIMIT;
        while Instant::now() < deadline {
            if TcpStream::connect(("127.0.0.1", self.ports[0])).is_ok() {
                self.child = Some(child);
                return true;
            }
            if child.try_wait().expect("the state of a child").is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = child.kill();
        let _ = child.wait();
        println!("{:?} did not start: {}", self.command, fs::read_to_string(&log).unwrap_or_default());
        false
    }

    /// Through `setpriv`, if it is there: the server then ends even if the test is killed.
    fn wrapped(&self) -> Command {
        let Some(setpriv) = find_in_path("setpriv") else {
            let mut command = Command::new(&self.command[0]);
            command.args(&self.command[1..]);
            return command;
        };
        let mut command = Command::new(setpriv);
        command.args(["--pdeathsig", "KILL"]);
        if let Some(user) = self.user {
            command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        }
        command.arg("--").args(&self.command);
        command
    }

    /// Ends the process as a crash does.
    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A temporary folder, removed with the value.
pub(crate) struct Folder(pub PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("pole-elect-{name}-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The programs that a variable names, else the one in PATH.
pub(crate) fn programs(variable: &str, name: &str) -> Result<Vec<PathBuf>, String> {
    let named: Vec<PathBuf> = env::var_os(variable).map(|list| env::split_paths(&list).collect()).unwrap_or_default();
    if let Some(missing) = named.iter().find(|file| !file.is_file()) {
        return Err(format!("{variable}: no program {}", missing.display()));
    }
    if !named.is_empty() {
        return Ok(named);
    }
    let found = find_in_path(name).ok_or_else(|| format!("no {name} in PATH and {variable} is not set"))?;
    Ok(vec![found])
}

/// The first of [`programs`].
pub(crate) fn program(variable: &str, name: &str) -> Result<PathBuf, String> {
    programs(variable, name).map(|mut found| found.remove(0))
}

pub(crate) fn find_in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The output of `program argument`, for the version.
pub(crate) fn version(program: &Path, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().next().unwrap_or("unknown version").to_owned()
}

pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}

fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind(("127.0.0.1", 0)).expect("a free port")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("its address").port()).collect()
}

const ATTEMPTS: usize = 3;

/// A Java virtual machine on a busy machine takes seconds, an API server of Kubernetes tens of them.
const START_LIMIT: Duration = Duration::from_secs(120);
