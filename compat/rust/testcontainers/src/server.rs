//! One server process: its configuration, its ports, and its start and stop.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// The settings of a container that a test asks for.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Pairs of a path in the container and the local path.
    pub(crate) volumes: Vec<(String, PathBuf)>,
    /// Java flags, `-Dname=value`.
    pub(crate) properties: Vec<String>,
    /// Whether the ports of the configuration are used unchanged.
    pub(crate) keeps_ports: bool,
}

/// A server and its files.
pub(crate) struct Server {
    folder: PathBuf,
    /// Java flags. Empty for Pole, which has these settings in its configuration.
    flags: Vec<String>,
    client_port: u16,
    plain_port: u16,
    process: Option<Child>,
}

impl Server {
    /// Writes the files of a server.
    pub(crate) fn prepare(wanted: &Wanted) -> Self {
        let folder = logs().join(format!("{:016x}", random()));
        let data = folder.join("data");
        fs::create_dir_all(&data).expect("the folder of a server can be made");
        let here = |there: &str| wanted.volumes.iter().find(|(path, _)| path == there).map(|(_, here)| here);
        let given = here("/conf/zoo.cfg").map(|path| fs::read_to_string(path).expect("the configuration is there"));
        let given = given.unwrap_or_else(|| DEFAULT.to_owned());
        let data = here("/data").map_or_else(|| data.clone(), Clone::clone);

        let mut ports = Ports { client: None, plain: None };
        let mut config = String::new();
        for line in given.lines().filter(|line| !line.is_empty()) {
            let line = match line.split_once('=') {
                Some(("dataDir", _)) => format!("dataDir={}", data.display()),
                Some((key @ ("clientPort" | "secureClientPort"), _)) => format!("{key}={}", ports.take(key)),
                Some((key, there)) => match here(there) {
                    Some(here) => format!("{key}={}", here.display()),
                    None => line.to_owned(),
                },
                None => line.to_owned(),
            };
            config += &format!("{line}\n");
        }
        if wanted.keeps_ports {
            ports.plain = own_client_port(&config, &data);
        }
        let plain_port = ports.plain.unwrap_or_else(|| {
            // The mode is queried without TLS.
            let port = ports.take("clientPort");
            config += &format!("clientPort={port}\n");
            port
        });
        config += "admin.enableServer=false\n";
        let is_apache = env::var("COMPAT_PRODUCT").is_ok_and(|product| product == "Apache");
        let flags = wanted.properties.iter().map(|flag| match flag.split_once('=') {
            Some((name, there)) => here(there).map_or_else(|| flag.clone(), |here| format!("{name}={}", here.display())),
            None => flag.clone(),
        });
        let flags: Vec<String> = flags.collect();
        if !is_apache {
            config.extend(flags.iter().filter_map(|flag| as_key(flag)));
        }
        fs::write(folder.join("zoo.cfg"), config).expect("the configuration can be written");
        Self {
            folder,
            flags: if is_apache { flags } else { Vec::new() },
            client_port: ports.client.unwrap_or(plain_port),
            plain_port,
            process: None,
        }
    }

    pub(crate) fn client_port(&self) -> u16 {
        self.client_port
    }

    pub(crate) fn plain_port(&self) -> u16 {
        self.plain_port
    }

    pub(crate) fn start(&mut self) {
        let words = env::var("COMPAT_SERVER").expect("COMPAT_SERVER says how to start a server");
        let mut words: Vec<String> = words.lines().map(str::to_owned).collect();
        // Java expects its flags before the class name, which is the last word.
        words.splice(words.len() - 1..words.len() - 1, self.flags.iter().cloned());
        let log = self.folder.join("log");
        let log = OpenOptions::new().create(true).append(true).open(log).expect("the log can be written");
        let second: File = log.try_clone().expect("a file can be opened twice");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(self.folder.join("zoo.cfg"));
        command.stdin(Stdio::null()).stdout(log).stderr(second);
        self.process = Some(spawn(command));
    }

    /// Waits until the server reports its mode.
    pub(crate) fn wait_ready(&mut self) {
        let deadline = Instant::now() + LIMIT;
        while mode(self.plain_port).is_none() {
            let ended = self.process.as_mut().and_then(|process| process.try_wait().ok().flatten());
            assert!(ended.is_none(), "the server ended: {ended:?}; see {}", self.folder.display());
            assert!(Instant::now() < deadline, "it does not serve after {LIMIT:?}; see {}", self.folder.display());
            thread::sleep(PAUSE);
        }
    }

    /// Sends SIGTERM and waits for the end. Kills the server after [`GRACE`].
    pub(crate) fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let asked = Command::new("kill").arg(process.id().to_string()).status();
        assert!(asked.is_ok_and(|status| status.success()), "the server can be asked to end");
        let deadline = Instant::now() + GRACE;
        while process.try_wait().expect("the server can be waited for").is_none() {
            if Instant::now() > deadline {
                end(process);
                return;
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Starts a program from a thread that lives as long as this process. The command may make the kernel kill the server
/// when the thread that started it ends, so that no server is left behind, and the threads of tests end early.
fn spawn(command: Command) -> Child {
    type Order = (Command, Sender<Child>);
    static ORDERS: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in receiver {
                let child = command.spawn().expect("the server can be started");
                answer.send(child).expect("who ordered it waits");
            }
        });
        Mutex::new(sender)
    });
    let (answer, started) = mpsc::channel();
    orders.lock().expect("nobody panics with the lock").send((command, answer)).expect("the thread lives");
    started.recv().expect("the server can be started")
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            end(process);
        }
        // The data is large, and the log is enough for diagnosis. The data may also be elsewhere, in a volume.
        let _ = fs::remove_dir_all(self.folder.join("data"));
    }
}

fn end(mut process: Child) {
    // The process may have ended by itself.
    let _ = process.kill();
    let _ = process.wait();
}

/// Waits until a server reports this mode.
pub(crate) fn wait_for_mode(port: u16, wanted: &str) -> Result<(), String> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let mode = mode(port);
        if mode.as_deref() == Some(wanted) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("not {wanted} after {LIMIT:?} but {mode:?}"));
        }
        thread::sleep(PAUSE);
    }
}

/// The mode of a server. `None` if it does not serve.
fn mode(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"srvr").ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    said.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
}

/// The ports that replace those of the configuration.
struct Ports {
    /// The port to which the test connects.
    client: Option<u16>,
    /// The port without TLS.
    plain: Option<u16>,
}

impl Ports {
    fn take(&mut self, key: &str) -> u16 {
        let port = free_port();
        self.client = self.client.or(Some(port));
        if key == "clientPort" {
            self.plain = Some(port);
        }
        port
    }
}

/// The client port at the end of the server's own line, `server.N=…;host:port`.
fn own_client_port(config: &str, data: &Path) -> Option<u16> {
    let id = fs::read_to_string(data.join("myid")).ok()?;
    let start = format!("server.{}=", id.trim());
    config.lines().find(|line| line.starts_with(&start))?.rsplit(':').next()?.parse().ok()
}

/// Turns `-Dzookeeper.name=value` into a line of `zoo.cfg`.
fn as_key(flag: &str) -> Option<String> {
    let property = flag.strip_prefix("-D")?;
    if let Some(jaas) = property.strip_prefix("java.security.auth.login.config=") {
        return Some(format!("pole.sasl.jaasFile={jaas}\n"));
    }
    let property = property.strip_prefix("zookeeper.").unwrap_or(property);
    (!property.starts_with("java.")).then(|| format!("{property}\n"))
}

/// A free port below the range of outgoing connections. It is chosen at random, because tests run concurrently, some
/// in their own processes.
fn free_port() -> u16 {
    let span = u64::from(LAST_PORT - FIRST_PORT);
    let tries = std::iter::repeat_with(|| FIRST_PORT + (random() % span) as u16);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    tries.take(1000).find(is_free).expect("a port of loopback is free")
}

/// A random number, from the random seeds of the standard library's hash maps.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

fn logs() -> PathBuf {
    PathBuf::from(env::var_os("COMPAT_LOGS").expect("COMPAT_LOGS is a folder for what servers say"))
}

/// The default configuration of the ZooKeeper image.
const DEFAULT: &str = "tickTime=2000\ninitLimit=5\nsyncLimit=2\ndataDir=/data\nclientPort=2181\n";
const FIRST_PORT: u16 = 10_000;
const LAST_PORT: u16 = 20_000;
/// A JVM on a busy machine takes some seconds to start.
const LIMIT: Duration = Duration::from_secs(120);
/// The same as for containers.
const GRACE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);
