//! Starts and stops a server: opens its disk and ports, and runs its threads.
//!
//! There is one thread for the node and the links to other servers, one for the disk, and one per core for clients.
//! Occasional work, such as a snapshot or a delayed link, gets a thread of its own.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pole_node::{Machine as _, Node, TreeStore as _, Znodes};
use pole_storage::{Disk, State};
use pole_tree::{Restorer, Rules, Tree};
use pole_types::{ServerId, Span, Zxid};
use pole_zab::{Entry, Recovered};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use tracing::{info, warn};

use crate::admin;
use crate::audit::{AuditLog, FileSettings, Record};
use crate::client::{Listener, SessionIds};
use crate::clock::{Clock, wall_ms};
use crate::config::{Address, Config, Members};
use crate::driver::{Driver, Exit};
use crate::kerberos::{Acceptor, KerberosError};
use crate::log::{
    self,
    target::{DISK, PEER, SERVER},
};
use crate::mailbox::Command;
use crate::metrics::Summary;
use crate::peer::{
    self, Delays, Inbox, Listen, PeerAddress, PeerConfig, PeerError, PeerLimits, PeerSecret, SecretError,
};
use crate::shared::{Shared, SharedTree};
use crate::threads::Threads;
use crate::{Settings, descriptors, emulation, tls};

/// A running server.
pub struct Server {
    shared: Arc<Shared>,
    node: JoinHandle<Exit>,
    clients: Threads,
    client_address: Option<SocketAddr>,
    admin: admin::Addresses,
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory could not be opened.
    #[error(transparent)]
    Disk(#[from] pole_storage::OpenError),
    /// A port for clients could not be opened.
    #[error("{port} {address}: {error}")]
    Port {
        /// The configuration key of the port.
        port: &'static str,
        /// The address that it should listen on.
        address: SocketAddr,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A port for other servers could not be opened.
    #[error(transparent)]
    Peers(#[from] PeerError),
    /// Keys or certificates could not be read.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// The shared secret of the ensemble could not be read.
    #[error("pole.peer.secret: {0}")]
    Secret(#[from] SecretError),
    /// The server cannot use Kerberos.
    #[error("pole.sasl.jaasFile: {0}")]
    Kerberos(#[from] KerberosError),
    /// A host name could not be resolved.
    #[error("{key} {host}: {error}; name a host or an address of this machine")]
    Host {
        /// The configuration key of the host.
        key: &'static str,
        /// The host as configured.
        host: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The audit log could not be opened.
    #[error("{}: cannot be opened: {error}; pole.audit.file names another file", path.display())]
    Audit {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A thread or runtime could not be created.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

impl Server {
    /// Opens the disk and the ports, and starts all threads. Events are logged as by [`log::init`].
    pub fn start(config: &Config) -> Result<Self, StartError> {
        log::init(config);
        let wall = wall_ms();
        descriptors::raise_limit();
        let clients = Threads::start()?;
        let shared = Arc::new(Shared::new(Settings::new(config), Clock::start(), wall));
        let storage = storage(config, &shared);
        let mut rebuild = Rebuild::new(config, &shared);
        let (mut disk, recovered, repairs) = pole_storage::open_into(storage, &mut rebuild)?;
        rebuild.finish(&shared);
        observe_flushes(&mut disk, &shared);
        for repair in &repairs {
            warn!(target: DISK, what = %repair, "torn_tail");
        }
        reserve_sessions(&shared, &disk, &recovered, wall)?;
        open_audit(config, &shared)?;
        if let Some(kerberos) = &config.service.kerberos {
            let _ = shared.kerberos.set(Acceptor::open(kerberos)?);
        }
        let client_address = listen(config, &shared, &clients)?;
        let node = start_node(config, Arc::clone(&shared), disk, recovered, wall)?;
        let admin = admin::open(config, &shared, clients.first());
        clients.first().spawn(emulation::watch(emulation::watched_file(config), Arc::clone(&shared)));
        Ok(Self { shared, node, clients, client_address, admin })
    }

    /// The address for clients without TLS, if there is one.
    #[must_use]
    pub fn client_address(&self) -> Option<SocketAddr> {
        self.client_address
    }

    /// The address of the admin server; `None` if it is disabled or its port was taken.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.admin
    }

    /// The address of the separate metrics port, if there is one.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.admin.metrics
    }

    /// Returns a handle that stops the server from another thread. A leader hands over first.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.shared))
    }

    /// Waits until the server has ended.
    pub fn wait(self) -> Exit {
        let exit = self.node.join().unwrap_or_else(|_| Exit::Halted("the node's thread panicked: see above".into()));
        drop(self.clients);
        if let Some(audit) = self.shared.audit.get() {
            audit.add(Record::ServerStop);
            audit.close();
        }
        exit
    }
}

/// Stops a server.
#[derive(Clone)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// Asks the server to stop, and returns at once.
    pub fn stop(&self) {
        info!(target: SERVER, "stopping");
        self.0.mailbox.post(Command::Stop);
    }
}

/// Opens the audit log, if there is one.
fn open_audit(config: &Config, shared: &Shared) -> Result<(), StartError> {
    if config.admin.audit {
        let settings = FileSettings {
            path: config.admin.audit_file.clone(),
            bytes_max: config.admin.audit_file_bytes_max,
            files_max: config.admin.audit_files_max,
        };
        let failed = |error| StartError::Audit { path: config.admin.audit_file.clone(), error };
        let log = AuditLog::open(settings).map_err(failed)?;
        log.add(Record::ServerStart);
        let _ = shared.audit.set(log);
    }
    Ok(())
}

fn listen(config: &Config, shared: &Arc<Shared>, clients: &Threads) -> Result<Option<SocketAddr>, StartError> {
    let _entered = clients.first().enter();
    let mut plain = None;
    let backlog = config.clients.backlog.map_or(BACKLOG_DEFAULT, |backlog| i32::try_from(backlog).unwrap_or(i32::MAX));
    if let Some(address) = &config.clients.plain {
        let address = resolve("clientPort", address)?;
        let failed = |error| StartError::Port { port: "clientPort", address, error };
        let listener = Listener::bind(shared, address, backlog, None).map_err(failed)?;
        plain = Some(listener.address().map_err(failed)?);
        clients.first().spawn(listener.run(clients.loops()));
    }
    if let Some(address) = &config.clients.secure {
        let address = resolve("secureClientPort", address)?;
        let failed = |error| StartError::Port { port: "secureClientPort", address, error };
        let acceptor = tls::Live::new(tls::acceptor(&config.tls.clients)?);
        tls::watch(&config.tls.clients, config.tls.reload_for_clients, &acceptor, tls::acceptor);
        let listener = Listener::bind(shared, address, backlog, Some(acceptor)).map_err(failed)?;
        clients.first().spawn(listener.run(clients.loops()));
    }
    Ok(plain)
}

/// Reserves session ids for this run above all ids that earlier runs may have used, even if the clock was set back.
fn reserve_sessions(shared: &Shared, disk: &Disk, recovered: &Recovered, wall: i64) -> Result<(), StartError> {
    let tree = shared.tree.read();
    let logged = recovered.entries.iter().map(|entry| entry.origin.session.0);
    let known = tree.sessions().map(|(session, _)| session).chain(logged);
    let first = shared.session_ids.first_above(SessionIds::from_clock(wall), known);
    shared.session_ids.start_at(disk.reserve_sessions(first, SessionIds::RESERVED)?);
    Ok(())
}

/// Rebuilds the shared tree from disk at start-up.
pub(crate) struct Rebuild {
    machine: Znodes<SharedTree>,
    rules: Rules,
    /// Set while a snapshot is being read.
    restorer: Option<Restorer>,
    /// When it began, and when the last snapshot was complete.
    began: Instant,
    restored: Option<Instant>,
    transactions: u64,
}

impl Rebuild {
    pub(crate) fn new(config: &Config, shared: &Shared) -> Self {
        let rules = shared.settings.rules;
        let machine = Znodes::new(SharedTree::new(shared), rules, config.membership().into());
        Self { machine, rules, restorer: None, began: Instant::now(), restored: None, transactions: 0 }
    }

    /// Ends it, which lets others read the tree, and records how long the snapshot and the log took to load.
    fn finish(self, shared: &Shared) {
        let (now, summaries) = (shared.clock.now(), &shared.status.summaries);
        let in_all = self.began.elapsed();
        let snapshot = self.restored.map_or(Duration::ZERO, |restored| restored - self.began);
        let times = [
            (Summary::DbInitTime, in_all),
            (Summary::StartupSnapLoadTime, snapshot),
            (Summary::StartupTxnsLoadTime, in_all - snapshot),
        ];
        for (summary, time) in times {
            summaries.record_time(summary, span(time), 1, now);
        }
        summaries.record(Summary::StartupTxnsLoaded, self.transactions, 1, now);
    }
}

impl State for Rebuild {
    fn clear(&mut self) {
        *self.machine.store_mut().tree_mut() = Tree::new(self.rules);
        (self.restorer, self.restored, self.transactions) = (None, None, 0);
    }

    fn restore(&mut self, piece: Bytes) -> Result<(), String> {
        let restorer = self.restorer.get_or_insert_with(|| Restorer::new(self.rules));
        restorer.feed(piece).map_err(|error| error.to_string())
    }

    fn restored(&mut self, zxid: Zxid) -> Result<(), String> {
        let restorer = self.restorer.take().unwrap_or_else(|| Restorer::new(self.rules));
        let tree = restorer.finish().map_err(|error| error.to_string())?;
        self.machine.replace(zxid, tree);
        self.restored = Some(Instant::now());
        Ok(())
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), String> {
        self.transactions += 1;
        self.machine.apply(entry, false).map(drop)
    }
}

/// Measures the writes to the log, on the thread that makes them.
fn observe_flushes(disk: &mut Disk, shared: &Arc<Shared>) {
    let (shared, is_synced) = (Arc::clone(shared), shared.settings.config.storage.force_sync);
    disk.on_flush(move |flush| {
        let (now, summaries) = (shared.clock.now(), &shared.status.summaries);
        summaries.record(Summary::SyncProcessorBatchSize, flush.transactions, 1, now);
        summaries.record_time(Summary::SyncProcessorQueueFlushTime, span(flush.took), 1, now);
        if is_synced {
            summaries.record_time(Summary::FsyncTime, span(flush.took), 1, now);
        }
    });
}

fn span(duration: Duration) -> Span {
    Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// The configuration of the disk. A server without history writes `blank`, its initial state, as a first snapshot.
pub(crate) fn storage(config: &Config, shared: &Shared) -> pole_storage::Config {
    let mut blank = Vec::new();
    shared.tree.read().freeze().write(&mut |piece| blank.extend_from_slice(piece));
    let hours = |count: u64| Duration::from_secs(count.saturating_mul(3_600));
    pole_storage::Config {
        data_log_dir: config.storage.log_dir.clone(),
        preallocate_bytes: config.storage.prealloc_bytes,
        log_bytes_max: config.storage.log_size_limit_bytes,
        sync: config.storage.force_sync,
        snap_retain_count: usize::try_from(config.storage.snap_retain_count).unwrap_or(usize::MAX),
        purge_interval: config.storage.purge_interval_hours.map(hours),
        retain_bytes: config.node().retain_bytes,
        alone: config.voters().iter().eq([config.me()]),
        trust_empty: config.storage.trust_empty_snapshot,
        blank: Some(blank.into()),
        ..pole_storage::Config::in_dir(&config.storage.data_dir)
    }
}

/// The configuration of the links to other servers; `None` on a standalone server.
fn peer_config(config: &Config, shared: &Shared) -> Result<Option<PeerConfig>, StartError> {
    let Some(ensemble) = &config.ensemble else { return Ok(None) };
    let me = ensemble.me;
    let own = &ensemble.members.servers[&me];
    let here = |port| {
        let host = if ensemble.listen_on_all { "0.0.0.0" } else { &own.host };
        resolve("server.N", &Address::new(host, port))
    };
    let tls = match config.tls.between_servers {
        false => None,
        true => {
            let tls = tls::Live::new(tls::PeerTls::open(&config.tls.peers)?);
            tls::watch(&config.tls.peers, config.tls.reload_between_servers, &tls, tls::PeerTls::open);
            Some(tls)
        }
    };
    let secret = config.pole.peer_secret.as_deref().map(PeerSecret::read).transpose()?;
    if tls.is_none() && secret.is_none() {
        let ports = format!("{} and {}", own.quorum_port, own.election_port);
        let what = format_args!(
            "the ports for other servers ({ports}) are open to anybody who reaches them: set sslQuorum=true or \
             pole.peer.secret, or keep strangers off with a firewall"
        );
        warn!(target: PEER, %what, "peer");
    }
    let delays = config.pole.emulation.as_ref();
    Ok(Some(PeerConfig {
        me,
        members: config.members(),
        peers: addresses(&ensemble.members),
        changing: ensemble.reconfig,
        listen: Listen { quorum: here(own.quorum_port)?, election: here(own.election_port)? },
        tls,
        secret,
        counters: Arc::clone(&shared.status.peers),
        delays: delays.map(|emulation| Delays::of(&emulation.topology, me, me.0)),
        observer_delay: Duration::from_millis(config.pole.observer_delay_ms),
        limits: PeerLimits::for_settings(
            usize::try_from(config.clients.request_bytes_max).unwrap_or(usize::MAX),
            config.node().retain_bytes,
        ),
    }))
}

/// The addresses at which servers reach the members.
pub(crate) fn addresses(members: &Members) -> BTreeMap<ServerId, PeerAddress> {
    members.servers.iter().map(|(id, server)| (*id, server.into())).collect()
}

pub(crate) fn resolve(key: &'static str, address: &Address) -> Result<SocketAddr, StartError> {
    let failed = |error| StartError::Host { key, host: address.host.clone(), error };
    let mut found = (address.host.as_str(), address.port).to_socket_addrs().map_err(failed)?;
    found.next().ok_or_else(|| failed(io::Error::other("it has no address")))
}

/// Starts the node's thread, and returns once the ports for other servers are open.
fn start_node(
    config: &Config,
    shared: Arc<Shared>,
    disk: Disk,
    recovered: Recovered,
    wall: i64,
) -> Result<JoinHandle<Exit>, StartError> {
    let peers = peer_config(config, &shared)?;
    let mut node = config.node();
    // Truncation is harmless: an incarnation only has to differ from that of the previous start.
    node.incarnation = wall as u32;
    let oracle = config.oracle().build().expect("the oracle was built when the configuration was read");
    let (rules, membership) = (shared.settings.rules, Bytes::from(config.membership()));
    let (opened, is_open) = mpsc::channel();
    let thread = std::thread::Builder::new().name("node".into()).spawn(move || {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = opened.send(Err(error.into()));
                return Exit::Stopped;
            }
        };
        let driver = async move {
            let inbox = Inbox::default();
            let peers = match peers {
                None => None,
                Some(config) => match peer::open(config, inbox.clone()).await {
                    Ok(peers) => Some(peers),
                    Err(error) => {
                        let _ = opened.send(Err(error.into()));
                        return Exit::Stopped;
                    }
                },
            };
            let to = Arc::clone(&shared);
            let (transactions, bytes) = disk.replayed();
            let disk = disk.start(move |event| to.mailbox.post(disk_command(event, &to)));
            let is_audited = shared.audit.get().is_some();
            let machine = Znodes::new(SharedTree::new(&shared), rules, membership)
                .with_reply_bytes_max(shared.settings.limits.reply_bytes_max);
            let machine = if is_audited { machine.with_ended_sessions() } else { machine };
            let mut node = Node::resume(node, oracle, machine, recovered, shared.clock.now());
            node.count_since_snapshot(transactions, bytes);
            let _ = opened.send(Ok(()));
            Driver::new(node, shared, peers, inbox, disk).run().await
        };
        // The driver is a task like those of the links, so that waking it does not need a poll of the sockets first.
        let ended = LocalSet::new().block_on(&runtime, async { spawn_local(driver).await });
        ended.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))
    })?;
    is_open.recv().unwrap_or_else(|_| Err(StartError::System(io::Error::other("the node's thread ended"))))?;
    Ok(thread)
}

/// Converts an event of the disk thread into a command for the node's thread.
fn disk_command(event: pole_storage::Event, shared: &Shared) -> Command {
    match event {
        pole_storage::Event::Written { through } => Command::Event(pole_node::Event::Written { through }),
        pole_storage::Event::Failed { reason } => Command::Event(pole_node::Event::DiskFailed { reason }),
        pole_storage::Event::Checkpointed { zxid, purged, took } => {
            shared.status.summaries.record_time(Summary::SnapshotTime, span(took), 1, shared.clock.now());
            Command::LogInfo(format!("snapshot at {zxid} written, {purged} old files removed"))
        }
        pole_storage::Event::CheckpointFailed { zxid, reason } => {
            Command::LogWarning(format!("snapshot at {zxid} not begun: {reason}"))
        }
    }
}

/// Pending connections on the listening socket. Apache uses the system's default, which is often lower.
const BACKLOG_DEFAULT: i32 = 1024;
