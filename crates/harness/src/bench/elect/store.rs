//! The stores: one server each, on loopback, with the settings that its package has.
//!
//! | store | program | found by |
//! | --- | --- | --- |
//! | etcd | `etcd` | `POLE_ELECT_ETCD` (the first, if there are several), then PATH |
//! | ZooKeeper | Apache ZooKeeper | as for the other benchmarks |
//! | Kubernetes | `kube-apiserver`, with an etcd of its own | `POLE_ELECT_KUBE_APISERVER`, then PATH |

use std::env;
use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::program::ELECTION;
use crate::Failure;
use crate::command::{killed_with_parent, target_dir};
use crate::ensemble::{Ensemble, Product, Setup, free_ports};
use crate::tls::Certificates;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Store {
    Etcd,
    ZooKeeper,
    Kubernetes,
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Etcd => "etcd",
            Self::ZooKeeper => "ZooKeeper",
            Self::Kubernetes => "Kubernetes",
        })
    }
}

impl Store {
    /// Looks for the server's program.
    pub(super) fn prepare(self) -> Result<(), Failure> {
        match self {
            Self::Etcd => etcd().map(drop),
            Self::ZooKeeper => Product::Apache.launcher().map(drop),
            Self::Kubernetes => etcd().and_then(|_| kube_apiserver()).map(drop),
        }
    }

    /// Starts a new server with no data, and waits until it serves.
    pub(super) fn start(self) -> Result<Running, Failure> {
        let folder = target_dir().join("bench/elect").join(format!("server-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|why| Failure::io("create", &folder, &why))?;
        let mut running = Running { folder, kind: Kind::Starting, address: String::new(), processes: Vec::new() };
        match self {
            Self::Etcd => running.start_etcd()?,
            Self::ZooKeeper => {
                let ensemble = Ensemble::ready(&Product::Apache.launcher()?, &Setup::new("bench-elect", 1))?;
                running.address = ensemble.connect_string();
                running.kind = Kind::ZooKeeper(ensemble);
            }
            Self::Kubernetes => running.start_kubernetes()?,
        }
        Ok(running)
    }
}

/// A store that serves. Ended with the value.
pub(super) struct Running {
    folder: PathBuf,
    kind: Kind,
    /// As the libraries of the store write it.
    address: String,
    processes: Vec<Child>,
}

enum Kind {
    Starting,
    Etcd { port: u16 },
    ZooKeeper(Ensemble),
    Kubernetes { port: u16, certificates: Certificates },
}

impl Running {
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The file with the certificate of the server's authority.
    pub(super) fn authority(&self) -> &Path {
        match &self.kind {
            Kind::Kubernetes { certificates, .. } => certificates.authority(),
            Kind::Starting | Kind::Etcd { .. } | Kind::ZooKeeper(_) => Path::new(""),
        }
    }

    /// The file with the token of the candidates, at Kubernetes.
    pub(super) fn token_file(&self) -> PathBuf {
        self.folder.join("token")
    }

    /// The URL of the election, for `pole-elect`.
    pub(super) fn url(&self) -> String {
        match &self.kind {
            Kind::Starting => String::new(),
            Kind::Etcd { port } => format!("etcd://127.0.0.1:{port}/{ELECTION}"),
            Kind::ZooKeeper(_) => format!("zk://{}/{ELECTION}", self.address),
            Kind::Kubernetes { certificates, .. } => {
                let (authority, token) = (certificates.authority().display(), self.token_file());
                let token = token.display();
                format!("k8s://default/{ELECTION}?server={}&cacert={authority}&token_file={token}", self.address)
            }
        }
    }

    /// The log of the candidates.
    pub(super) fn log(&self) -> Result<File, Failure> {
        open_log(&self.folder.join("candidates.log"))
    }

    /// All requests that the store has received so far, as it counts them itself: for etcd the messages of its gRPC
    /// interface, keep-alives included; for ZooKeeper the packets, pings included; for Kubernetes the requests on
    /// Leases, each watch when it has ended.
    pub(super) fn requests(&mut self) -> Result<f64, Failure> {
        match &self.kind {
            Kind::Starting => Ok(0.0),
            Kind::Etcd { port } => Ok(sum_of(&get(*port, "/metrics", None)?, "grpc_server_msg_received_total", "")),
            Kind::ZooKeeper(ensemble) => {
                let received = ensemble.servers()[0].probe().received();
                received.ok_or_else(|| Failure::Check("ZooKeeper does not say what it has received".to_owned()))
            }
            Kind::Kubernetes { port, certificates } => {
                let metrics = get(*port, "/metrics", Some(&certificates.client))?;
                Ok(sum_of(&metrics, "apiserver_request_total", "resource=\"leases\""))
            }
        }
    }

    /// Ends the server and removes its files.
    pub(super) fn done(mut self) -> Result<(), Failure> {
        self.end();
        if let Kind::ZooKeeper(ensemble) = std::mem::replace(&mut self.kind, Kind::Starting) {
            ensemble.done()?;
        }
        fs::remove_dir_all(&self.folder).map_err(|why| Failure::io("remove", &self.folder, &why))
    }

    fn start_etcd(&mut self) -> Result<(), Failure> {
        let ports = free_ports(2)?;
        let client = format!("http://127.0.0.1:{}", ports[0]);
        let peer = format!("http://127.0.0.1:{}", ports[1]);
        let options = [
            ("data-dir", self.folder.join("etcd").display().to_string()),
            ("listen-client-urls", client.clone()),
            ("advertise-client-urls", client.clone()),
            ("listen-peer-urls", peer.clone()),
            ("initial-advertise-peer-urls", peer.clone()),
            ("initial-cluster", format!("default={peer}")),
        ];
        self.spawn(&etcd()?, &options)?;
        wait_for(|| get(ports[0], "/health", None).is_ok_and(|answer| answer.contains("\"true\"")), "etcd")?;
        self.address = client;
        self.kind = Kind::Etcd { port: ports[0] };
        Ok(())
    }

    fn start_kubernetes(&mut self) -> Result<(), Failure> {
        self.start_etcd()?;
        let etcd = self.address.clone();
        let port = free_ports(1)?[0];
        let certificates = Certificates::make(&self.folder)?;
        let key = certificates.key_store().display().to_string();
        // An administrator, whose token the candidates read from a file.
        let users = self.write("users.csv", &format!("{TOKEN},bench,bench,\"system:masters\"\n"))?;
        self.write("token", TOKEN)?;
        let options = [
            ("etcd-servers", etcd),
            ("bind-address", "127.0.0.1".into()),
            ("advertise-address", "127.0.0.1".into()),
            ("secure-port", port.to_string()),
            ("tls-cert-file", key.clone()),
            ("tls-private-key-file", key.clone()),
            ("service-account-issuer", "https://127.0.0.1".into()),
            ("service-account-key-file", key.clone()),
            ("service-account-signing-key-file", key),
            ("service-cluster-ip-range", "10.0.0.0/24".into()),
            ("endpoint-reconciler-type", "none".into()),
            ("authorization-mode", "RBAC".into()),
            ("token-auth-file", users.display().to_string()),
        ];
        self.spawn(&kube_apiserver()?, &options)?;
        let ready = || get(port, "/api/v1/namespaces/default", Some(&certificates.client)).is_ok();
        wait_for(ready, "kube-apiserver")?;
        self.address = format!("https://127.0.0.1:{port}");
        self.kind = Kind::Kubernetes { port, certificates };
        Ok(())
    }

    fn write(&self, name: &str, content: &str) -> Result<PathBuf, Failure> {
        let path = self.folder.join(name);
        fs::write(&path, content).map_err(|why| Failure::io("write", &path, &why))?;
        Ok(path)
    }

    fn spawn(&mut self, program: &Path, options: &[(&str, String)]) -> Result<(), Failure> {
        let log = open_log(&self.folder.join("server.log"))?;
        let second = log.try_clone().map_err(|why| Failure::io("open again", &self.folder, &why))?;
        let mut command = killed_with_parent(&program.to_string_lossy());
        command.args(options.iter().map(|(name, value)| format!("--{name}={value}")));
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(log).stderr(second);
        let child = command.spawn();
        self.processes.push(child.map_err(|why| Failure::Check(format!("cannot start {command:?}: {why}")))?);
        Ok(())
    }

    /// The last started first: the API server needs its etcd.
    fn end(&mut self) {
        while let Some(mut child) = self.processes.pop() {
            // An error means that it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn etcd() -> Result<PathBuf, Failure> {
    found("POLE_ELECT_ETCD", "etcd")
}

fn kube_apiserver() -> Result<PathBuf, Failure> {
    found("POLE_ELECT_KUBE_APISERVER", "kube-apiserver")
}

/// The first program that the variable names, else the first one in PATH.
fn found(variable: &str, name: &str) -> Result<PathBuf, Failure> {
    let named = env::var_os(variable).and_then(|list| env::split_paths(&list).next());
    let in_path = || {
        let path = env::var_os("PATH")?;
        env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
    };
    let found = named.or_else(in_path).filter(|file| file.is_file());
    found.ok_or_else(|| Failure::Check(format!("no {name} in PATH, and {variable} names none")))
}

fn open_log(path: &Path) -> Result<File, Failure> {
    File::options().create(true).append(true).open(path).map_err(|why| Failure::io("open", path, &why))
}

fn wait_for(ready: impl Fn() -> bool, name: &str) -> Result<(), Failure> {
    let deadline = Instant::now() + START_LIMIT;
    while !ready() {
        if Instant::now() > deadline {
            return Err(Failure::Check(format!("{name} does not serve after {START_LIMIT:?}")));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The body of an answer with status 200.
fn get(port: u16, path: &str, tls: Option<&Arc<ClientConfig>>) -> Result<String, Failure> {
    let failed = |why: &dyn fmt::Display| Failure::Check(format!("GET {path}: {why}"));
    let mut tcp = TcpStream::connect(("127.0.0.1", port)).map_err(|why| failed(&why))?;
    tcp.set_read_timeout(Some(ANSWER_LIMIT)).map_err(|why| failed(&why))?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    let answer = match tls {
        None => exchange(&mut tcp, &request),
        Some(config) => {
            let name = ServerName::try_from("127.0.0.1").map_err(|why| failed(&why))?;
            let client = ClientConnection::new(config.clone(), name).map_err(|why| failed(&why))?;
            exchange(&mut StreamOwned::new(client, tcp), &request)
        }
    };
    let answer = answer.map_err(|why| failed(&why))?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| failed(&"no answer"))?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status == "200" { Ok(body.to_owned()) } else { Err(failed(&format!("status {status}"))) }
}

fn exchange(stream: &mut (impl Read + Write), request: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    match stream.take(ANSWER_MAX).read_to_end(&mut answer) {
        // A server may close without the farewell of TLS; the answer is checked by its content.
        Err(why) if why.kind() != std::io::ErrorKind::UnexpectedEof => Err(why),
        Ok(_) | Err(_) => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}

/// The sum of a metric over all labels that contain a text.
fn sum_of(metrics: &str, name: &str, label: &str) -> f64 {
    let values = metrics.lines().filter_map(|line| {
        let (labels, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
        let counts = labels.starts_with('{') && labels.contains(label);
        counts.then(|| value.parse::<f64>().ok()).flatten()
    });
    values.sum()
}

/// Only the API server asks for it.
const TOKEN: &str = "bench-token";

/// An API server on a busy machine takes tens of seconds.
const START_LIMIT: Duration = Duration::from_secs(180);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The metrics of an API server have a few megabytes.
const ANSWER_MAX: u64 = 64 << 20;

#[test]
fn a_metric_is_summed_over_its_labels() {
    let text = "# TYPE a counter\na{x=\"1\"} 2\na{x=\"2\"} 3\na_more{x=\"1\"} 100\nb 7\n";
    assert_eq!(sum_of(text, "a", "").to_bits(), 5.0_f64.to_bits());
    assert_eq!(sum_of(text, "a", "x=\"2\"").to_bits(), 3.0_f64.to_bits());
}
