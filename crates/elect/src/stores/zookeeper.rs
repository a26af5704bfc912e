//! `zk://[user:password@]host[:2181][,host…]/PATH`, `zks://` (port 2281) with TLS: Apache ZooKeeper 3.5 or later, and
//! Pole.
//!
//! ```text
//! /PATH/leader, /PATH/succession     persistent nodes
//! /PATH/candidates/<lease id>        ephemeral nodes
//! ```
//!
//! Each lease is a session of its own, because the time-to-live of a session is fixed when it begins; another session
//! reads, watches and swaps. So a candidate has two connections. The client library keeps sessions alive by itself.
//! This alone must not extend a lease: if a lease is not renewed in time by its owner, the adapter deletes its node.
//!
//! A renewal is a transaction that checks the own node. Unlike a read it needs a quorum, so a leader that was deposed
//! cannot confirm it. A swap is a transaction: the record with its version, the node of the previous holder created and
//! deleted again (which fails if it exists), the own node checked.
//!
//! A follower tells the leader of ZooKeeper once in half a tick which of its sessions are alive. If it crashes, the last
//! renewal may be lost; `early` is one tick for this.
//!
//! Options: `tick` (milliseconds; the `tickTime` of the servers, default 2000), `cacert`, `cert`, `key`. With a user,
//! `digest` authentication, and only that user may use the nodes. TLS goes through a `tunnel`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use zookeeper_client::{
    Acls, Client, CreateMode, Error as ZkError, MultiWriteError, MultiWriteResult, OneshotWatcher, Stat,
};

use super::OpenError;
use super::adapter::Adapter;
use super::own::OwnLeases;
use super::tls::TlsFiles;
use super::tunnel::Tunnels;
use crate::promises::{GoesBack, Judge, Promises};
use crate::store::{
    BoxFuture, Entry, Error, Granted, LIST_MAX, LeaseId, Leased, Renewed, Revision, Swap, Swapped, Target, Watch,
};
use crate::url::{InvalidUrl, StoreUrl};

/// Connects to ZooKeeper and creates the parents of the records.
pub(super) async fn open(url: &StoreUrl) -> Result<ZooKeeperStore, OpenError> {
    url.check_options(&["tick", "cacert", "cert", "key"])?;
    if url.path.is_empty() {
        return Err(InvalidUrl::Path { scheme: url.scheme.clone(), example: "zk://host:2181/app/leader" }.into());
    }
    let tick_ms =
        match url.option("tick") {
            None => 2000,
            Some(text) => text.parse().ok().filter(|ms| (1..=60_000).contains(ms)).ok_or_else(|| {
                InvalidUrl::Value { key: "tick", expected: "milliseconds, 1 to 60000", got: text.to_owned() }
            })?,
        };
    let login = url.user.as_ref().map(|user| format!("{user}:{}", url.password.as_deref().unwrap_or_default()));
    let (servers, tunnels) = match url.scheme.as_str() {
        "zks" => {
            let config = TlsFiles::of(url, ["", "", ""]).config()?;
            let tunnels = Tunnels::open(url.addresses(2281), config).await?;
            (tunnels.addresses().join(","), Some(tunnels))
        }
        _ => (url.addresses(2181).join(","), None),
    };
    let store = ZooKeeperStore {
        servers,
        path: format!("/{}", url.path),
        login,
        tick: Duration::from_millis(tick_ms),
        client: Mutex::default(),
        leases: OwnLeases::default(),
        _tunnels: tunnels,
    };
    let client = store.client().await?;
    let options = CreateMode::Persistent.with_acls(store.acls());
    client.mkdir(&format!("{}/candidates", store.path), &options).await.map_err(|why| failed(&why))?;
    Ok(store)
}

/// An election in ZooKeeper or Pole.
pub(super) struct ZooKeeperStore {
    /// `host:port,host:port`.
    servers: String,
    path: String,
    login: Option<String>,
    tick: Duration,
    /// The session for everything but leases, made anew when it has expired.
    client: Mutex<Option<Client>>,
    leases: OwnLeases<Arc<Lease>>,
    /// With TLS, what the servers' addresses belong to.
    _tunnels: Option<Tunnels>,
}

/// An own lease. When it is dropped, its session ends without a word and runs out.
struct Lease {
    client: Client,
    granted: Duration,
    /// Tells the task of a renewal.
    ends: watch::Sender<Instant>,
    /// Deletes the node when the lease was not renewed.
    task: JoinHandle<()>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ZooKeeperStore {
    fn node(&self, target: Target) -> String {
        match target {
            Target::Leader | Target::Succession => format!("{}/{target}", self.path),
            Target::Lease(lease) => format!("{}/candidates/{lease}", self.path),
        }
    }

    fn acls(&self) -> Acls<'static> {
        if self.login.is_some() { Acls::creator_all() } else { Acls::anyone_all() }
    }

    /// A new session. It is detached: a client that goes away does not close it, as in a crash.
    async fn connect(&self, timeout: Duration) -> Result<Client, Error> {
        let mut connector = Client::connector().with_session_timeout(timeout).with_detached().with_fail_eagerly();
        if let Some(login) = &self.login {
            connector = connector.with_auth("digest", login.as_bytes());
        }
        match tokio::time::timeout(CONNECT_LIMIT, connector.connect(&self.servers)).await {
            Ok(connected) => connected.map_err(|why| failed(&why)),
            Err(_) => Err(Error::unavailable(format!("{}: no session within {CONNECT_LIMIT:?}", self.servers))),
        }
    }

    async fn client(&self) -> Result<Client, Error> {
        let mut client = self.client.lock().await;
        if let Some(client) = client.as_ref().filter(|client| !client.state().is_terminated()) {
            return Ok(client.clone());
        }
        let made = self.connect(SESSION_TIMEOUT).await?;
        *client = Some(made.clone());
        Ok(made)
    }

    /// Reads after a `sync`, so that a follower has every change that was acknowledged before.
    async fn get(&self, target: Target) -> Result<Option<Entry>, Error> {
        let client = self.client().await?;
        let node = self.node(target);
        let synced = client.sync(&self.path);
        let read = client.get_data(&node);
        synced.await.map_err(|why| failed(&why))?;
        match read.await {
            Ok((value, stat)) => Ok(Some(entry(value, &stat))),
            Err(ZkError::NoNode) => Ok(None),
            Err(why) => Err(failed(&why)),
        }
    }
}

/// Deletes the node of a lease when it was not renewed for its granted time.
async fn end_in_time(client: Client, node: String, mut renewed: watch::Receiver<Instant>) {
    loop {
        let ends = *renewed.borrow_and_update();
        tokio::select! {
            changed = renewed.changed() => if changed.is_err() { return },
            () = sleep_until(ends) => break,
        }
    }
    // Without an answer the session itself runs out: nothing keeps it alive when this task has ended.
    let _ = client.delete(&node, None).await;
}

impl Adapter for ZooKeeperStore {
    type Watch = ZooKeeperWatch;

    fn promises(&self) -> Promises {
        Promises {
            store: "zk",
            linearizable_reads: true,
            judge: Judge::StoreMonotonic,
            transactions: true,
            can_go_back: GoesBack::Restore,
            ttl_min: self.tick * 2,
            ttl_max: self.tick * 20,
            early: self.tick,
            late_factor: 2,
            late: self.tick,
            note: "a lease ends up to a tick late, and all sessions begin anew when the leader of ZooKeeper changes",
        }
    }

    async fn read(&self, target: Target) -> Result<Option<Entry>, Error> {
        self.get(target).await
    }

    async fn swap(&self, swap: Swap) -> Result<Swapped, Error> {
        let client = self.client().await?;
        let node = self.node(swap.record.into());
        let persistent = CreateMode::Persistent.with_acls(self.acls());
        let mut writer = client.new_multi_writer();
        match swap.expected {
            None => writer.add_create(&node, &swap.value, &persistent),
            Some(revision) => {
                // The transaction compares the version only. A node that was deleted and created again has another
                // creation.
                let stat = client.check_stat(&node).await.map_err(|why| failed(&why))?;
                if stat.is_none_or(|stat| stat.czxid != czxid(revision)) {
                    return Ok(Swapped::Conflict);
                }
                writer.add_set_data(&node, &swap.value, Some(version(revision)))
            }
        }
        .map_err(|why| failed(&why))?;
        let mut meanings = vec![Swapped::Conflict];
        if let Some(lease) = swap.gone {
            let node = self.node(Target::Lease(lease));
            writer.add_create(&node, &[], &persistent).map_err(|why| failed(&why))?;
            writer.add_delete(&node, None).map_err(|why| failed(&why))?;
            meanings.extend([Swapped::StillHeld, Swapped::StillHeld]);
        }
        if let Some(lease) = swap.alive {
            writer.add_check_version(&self.node(Target::Lease(lease)), -1).map_err(|why| failed(&why))?;
            meanings.push(Swapped::LeaseGone);
        }
        match writer.commit().await {
            Ok(results) => match (results.into_iter().next(), swap.expected) {
                (Some(MultiWriteResult::SetData { stat }), Some(expected)) => {
                    Ok(Swapped::Done(revision(czxid(expected), stat.version)))
                }
                // Servers may leave out the stat of a creation in a transaction.
                _ => {
                    let stat = client.check_stat(&node).await.map_err(|why| failed(&why))?;
                    let stat = stat.ok_or_else(|| Error::unavailable("ZooKeeper: the new record was deleted"))?;
                    Ok(Swapped::Done(revision(stat.czxid, 0)))
                }
            },
            Err(MultiWriteError::OperationFailed {
                index,
                source: ZkError::NodeExists | ZkError::NoNode | ZkError::BadVersion,
            }) => meanings.get(index).copied().ok_or_else(|| Error::damaged("ZooKeeper: no such operation")),
            Err(why) => Err(failed(&why.into())),
        }
    }

    async fn publish(&self, lease: LeaseId, record: Bytes, ttl: Duration) -> Result<Granted, Error> {
        let client = self.connect(ttl).await?;
        let granted = client.session_timeout();
        let node = self.node(Target::Lease(lease));
        let ephemeral = CreateMode::Ephemeral.with_acls(self.acls());
        client.create(&node, &record, &ephemeral).await.map_err(|why| failed(&why))?;
        let (ends, renewed) = watch::channel(Instant::now() + granted);
        let task = tokio::spawn(end_in_time(client.clone(), node, renewed));
        self.leases.insert(lease, granted, Arc::new(Lease { client, granted, ends, task }));
        Ok(Granted { ttl: granted })
    }

    async fn renew(&self, lease: LeaseId, record: Option<Bytes>) -> Result<Renewed, Error> {
        let Some(own) = self.leases.get(lease) else { return Ok(Renewed::Gone) };
        let node = self.node(Target::Lease(lease));
        let renewed = match record {
            Some(record) => own.client.set_data(&node, &record, None).await.map(|_| ()),
            None => {
                let mut writer = own.client.new_multi_writer();
                writer.add_check_version(&node, -1).map_err(|why| failed(&why))?;
                writer.commit().await.map(|_| ()).map_err(ZkError::from)
            }
        };
        match renewed {
            Ok(()) => {
                own.ends.send_replace(Instant::now() + own.granted);
                self.leases.renewed(lease, own);
                Ok(Renewed::Extended)
            }
            Err(ZkError::NoNode | ZkError::SessionExpired | ZkError::ClientClosed) => {
                self.leases.remove(lease);
                Ok(Renewed::Gone)
            }
            Err(why) => Err(failed(&why)),
        }
    }

    async fn withdraw(&self, lease: LeaseId) -> Result<(), Error> {
        let client = self.client().await?;
        match client.delete(&self.node(Target::Lease(lease)), None).await {
            Ok(()) | Err(ZkError::NoNode) => {
                self.leases.remove(lease);
                Ok(())
            }
            Err(why) => Err(failed(&why)),
        }
    }

    async fn list(&self) -> Result<Vec<Leased>, Error> {
        let client = self.client().await?;
        let parent = format!("{}/candidates", self.path);
        client.sync(&parent).await.map_err(|why| failed(&why))?;
        let names = client.list_children(&parent).await.map_err(|why| failed(&why))?;
        let mut listed = Vec::with_capacity(names.len());
        for page in names[..names.len().min(LIST_MAX)].chunks(PAGE) {
            // Requests are sent when they are made, so this waits for a page and not for each of them.
            let reads: Vec<_> = page.iter().map(|name| (name, client.get_data(&format!("{parent}/{name}")))).collect();
            for (name, read) in reads {
                match read.await {
                    Ok((value, _)) => listed.push(Leased { lease: name.parse()?, value: value.into() }),
                    Err(ZkError::NoNode) => {}
                    Err(why) => return Err(failed(&why)),
                }
            }
        }
        Ok(listed)
    }

    async fn watch(self: &Arc<Self>, target: Target) -> Result<ZooKeeperWatch, Error> {
        let client = self.client().await?;
        client.sync(&self.path).await.map_err(|why| failed(&why))?;
        let node = self.node(target);
        Ok(ZooKeeperWatch { client, node, last: None, watcher: None })
    }
}

/// One-shot watches, set with each read. The client library sets them again when it has connected again.
pub(super) struct ZooKeeperWatch {
    client: Client,
    node: String,
    last: Option<Option<Entry>>,
    watcher: Option<OneshotWatcher>,
}

impl ZooKeeperWatch {
    async fn read(&self) -> Result<(Option<Entry>, OneshotWatcher), ZkError> {
        loop {
            match self.client.get_and_watch_data(&self.node).await {
                Ok((value, stat, watcher)) => return Ok((Some(entry(value, &stat)), watcher)),
                Err(ZkError::NoNode) => {}
                Err(why) => return Err(why),
            }
            // It may have been created in between.
            if let (None, watcher) = self.client.check_and_watch_stat(&self.node).await? {
                return Ok((None, watcher));
            }
        }
    }
}

impl Watch for ZooKeeperWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Entry>, Error>> {
        Box::pin(async move {
            loop {
                if let Some(watcher) = self.watcher.take() {
                    watcher.changed().await;
                }
                let (entry, watcher) = self.read().await.map_err(|why| failed(&why))?;
                self.watcher = Some(watcher);
                if self.last.as_ref() != Some(&entry) {
                    self.last = Some(entry.clone());
                    return Ok(entry);
                }
            }
        })
    }
}

fn entry(value: Vec<u8>, stat: &Stat) -> Entry {
    Entry { value: value.into(), revision: revision(stat.czxid, stat.version) }
}

/// The creation of a node and its version.
fn revision(czxid: i64, version: i32) -> Revision {
    Revision((u128::from(czxid.cast_unsigned()) << 32) | u128::from(version.cast_unsigned()))
}

fn czxid(revision: Revision) -> i64 {
    ((revision.0 >> 32) as u64).cast_signed()
}

fn version(revision: Revision) -> i32 {
    (revision.0 as u32).cast_signed()
}

fn failed(error: &ZkError) -> Error {
    let text = format!("ZooKeeper: {error}");
    if matches!(error, ZkError::NoAuth | ZkError::AuthFailed | ZkError::InvalidAcl | ZkError::QuotaExceeded) {
        return Error::refused(text);
    }
    Error::unavailable(text)
}

/// Of the session that reads and watches.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The reads of a list that are under way at one time.
const PAGE: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_keeps_creation_and_version() {
        let both = revision(0x7_0000_0007, 42);
        assert_eq!((czxid(both), version(both)), (0x7_0000_0007, 42));
    }
}
