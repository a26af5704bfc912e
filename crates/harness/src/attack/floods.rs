//! Requests that are legal and expensive, or cheap and many, sent by 20 clients without waiting for replies.
//!
//! The leader needs tens of milliseconds for a multi of a megabyte. Other clients must not wait for all that are queued, and no
//! server may be so busy with them that it misses a heartbeat.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use pole_client::request_frame;
use pole_jute::{
    Acl, AddWatchMode, AddWatchRequest, CreateMode, CreateRequest, ErrorCode, GetChildrenRequest, GetDataRequest, Id,
    MultiOp, MultiReadOp, MultiReadRequest, MultiRequest, Perms, Request, SetAclRequest, SetDataRequest, SetWatches,
    SyncRequest, Xid,
};

use super::bulk::{create, create_node, delete, persistent, run_multis};
use super::raw::RawClient;
use super::{Attack, EnsembleAttack, Findings, Target, no_preparation};

pub(super) const LARGE_MULTIS: Attack = Attack::on_ensemble(
    "large-multis",
    "20 clients send multis of 1 MB",
    EnsembleAttack::new(create_open, |target| Ok(flood(target, 1, &[multi(OPEN, 28_000)])?.without_failures())),
);

pub(super) const MEDIUM_MULTIS: Attack = Attack::on_ensemble(
    "medium-multis",
    "20 clients send multis of 60 KB",
    EnsembleAttack::new(create_open, |target| Ok(flood(target, 1, &[multi(OPEN, 1_700)])?.without_failures())),
);

pub(super) const SYNCS: Attack = Attack::on_ensemble(
    "syncs",
    "20 clients send syncs without waiting for replies",
    EnsembleAttack::new(no_preparation, |target| Ok(flood(target, 500, &[sync()])?.without_failures())),
)
.quick();

pub(super) const FAILED_WRITES: Attack = Attack::on_ensemble(
    "failed-writes",
    "20 clients send writes of 200 KB that fail",
    EnsembleAttack::new(no_preparation, |target| Ok(flood(target, 1, &[set_acl()])?.findings())),
)
.quick();

pub(super) const ACL_READS: Attack = Attack::on_ensemble(
    "acl-reads",
    "20 clients send multiReads of 30,000 nodes with an ACL of 30,000 entries",
    EnsembleAttack::new(create_guarded, |target| Ok(flood(target, 1, &[multi_read()])?.without_failures())),
);

pub(super) const ACL_WRITES: Attack = Attack::on_ensemble(
    "acl-writes",
    "20 clients send multis of 20,000 operations on a node with an ACL of 30,000 entries",
    EnsembleAttack::new(create_guarded, |target| Ok(flood(target, 1, &[multi(GUARDED, 20_000)])?.without_failures())),
);

pub(super) const QUOTAS: Attack = Attack::on_ensemble(
    "quotas",
    "20 clients set and remove the quota of a subtree of 400,000 nodes",
    EnsembleAttack::new(create_subtree, |target| Ok(flood(target, 1, &[set_quota()])?.findings())),
);

pub(super) const DEEP_PATHS: Attack = Attack::on_ensemble(
    "deep-paths",
    "20 clients write to a deep node, and another one watches all of its ancestors",
    EnsembleAttack::new(create_deep, watch_and_flood),
);

pub(super) const LIST_READS: Attack = Attack::on_ensemble(
    "list-reads",
    "20 clients read the 400,000 children of a node",
    EnsembleAttack {
        memory_mb_max: 512,
        ..EnsembleAttack::new(create_subtree, |target| Ok(flood(target, 1, &[list()])?.without_failures()))
    },
);

pub(super) const READS_BEHIND_WRITES: Attack = Attack::on_ensemble(
    "reads-behind-writes",
    "20 clients send a write and a read of 400,000 children in turn, without waiting for replies",
    EnsembleAttack {
        memory_mb_max: 512,
        ..EnsembleAttack::new(create_subtree, |target| Ok(flood(target, 1, &[set(), list()])?.without_failures()))
    },
);

pub(super) const LONG_LISTS: Attack = Attack::on_ensemble(
    "long-lists",
    "four-letter words that list 600,000 watches, asked for without a pause by 12 clients",
    EnsembleAttack {
        config: &["4lw.commands.whitelist=*"],
        memory_mb_max: 768,
        ..EnsembleAttack::new(no_preparation, ask_for_lists)
    },
);

/// What became of the requests of a flood.
struct Flood {
    done: usize,
    failed: usize,
}

impl Flood {
    fn findings(&self) -> Findings {
        let note = format!("{} done, {} failed in {} s", self.done, self.failed, LASTS.as_secs());
        Findings::note(note).require(self.done + self.failed > 0, || "nothing was answered".to_owned())
    }

    fn without_failures(&self) -> Findings {
        self.findings().require(self.failed == 0, || "some were refused".to_owned())
    }
}

/// Sends these requests from all clients in a loop, repeated `at_once` times in each write.
fn flood(target: &Target, at_once: usize, requests: &[Request]) -> io::Result<Flood> {
    let (done, failed, ends) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let clients = (0..CLIENTS).map(|number| target.session(number % target.ports.len()));
    let mut clients = clients.collect::<io::Result<Vec<RawClient>>>()?;
    thread::scope(|scope| {
        let mut sockets = Vec::new();
        for mut client in clients.drain(..) {
            client.set_timeout(REPLY_LIMIT)?;
            // The replies repeat the numbers of these requests, which nobody matches.
            let requests: Vec<_> = requests.iter().map(|request| client.encode_next(request)).collect();
            let requests = requests.concat().repeat(at_once);
            let (mut writer, socket) = (client.stream().try_clone()?, client.stream().try_clone()?);
            let (done, failed, ends) = (&done, &failed, &ends);
            scope.spawn(move || {
                while let Ok(code) = client.answer() {
                    let count = if code == ErrorCode::Ok { done } else { failed };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
            scope.spawn(move || while !ends.load(Ordering::Relaxed) && writer.write_all(&requests).is_ok() {});
            sockets.push(socket);
        }
        thread::sleep(LASTS);
        ends.store(true, Ordering::Relaxed);
        sockets.iter().for_each(|socket| drop(socket.shutdown(Shutdown::Both)));
        Ok::<_, io::Error>(())
    })?;
    Ok(Flood { done: done.into_inner(), failed: failed.into_inner() })
}

fn sync() -> Request {
    Request::Sync(SyncRequest { path: "/".to_owned() })
}

/// Fails, because there is no such node.
fn set_acl() -> Request {
    Request::SetAcl(SetAclRequest { path: "/none".to_owned(), acl: long_acl(8_000), version: -1 })
}

fn multi_read() -> Request {
    let read = MultiReadOp::GetData(GetDataRequest { path: GUARDED.to_owned(), watch: false });
    Request::MultiRead(MultiReadRequest { ops: vec![read; 30_000] })
}

/// Sets a node again and again. An operation has 30 bytes and the path.
fn multi(path: &str, ops: usize) -> Request {
    let set = SetDataRequest { path: path.to_owned(), data: Some(Bytes::from_static(b"x")), version: -1 };
    Request::Multi(MultiRequest { ops: vec![MultiOp::SetData(set); ops] })
}

/// Networks of many sizes that do not contain the clients, which have one entry of their own.
fn long_acl(entries: usize) -> Vec<Acl> {
    let entry = |id: String| Acl { perms: Perms::ALL, id: Id { scheme: "ip".to_owned(), id } };
    let others = (0..entries).map(|n| entry(format!("10.{}.{}.0/{}", n / 256, n % 256, 24 + n % 9)));
    others.chain([entry("127.0.0.1".to_owned())]).collect()
}

fn create_open(target: &Target) -> io::Result<()> {
    create_node(&mut target.session(target.leader)?, OPEN, &Bytes::new())
}

fn create_guarded(target: &Target) -> io::Result<()> {
    let node =
        CreateRequest { acl: long_acl(30_000), ..create(GUARDED.to_owned(), &Bytes::new(), CreateMode::Persistent) };
    target.session(target.leader)?.expect_ok(&Request::Create(node))
}

fn create_subtree(target: &Target) -> io::Result<()> {
    let client = &mut target.session(target.leader)?;
    create_node(client, SUBTREE, &Bytes::new())?;
    create_node(client, &format!("/zookeeper/quota{SUBTREE}"), &Bytes::new())?;
    run_multis(client, (0..400_000).map(|number| persistent(format!("{SUBTREE}/{number}"))))
}

fn list() -> Request {
    Request::GetChildren(GetChildrenRequest { path: SUBTREE.to_owned(), watch: false })
}

fn set() -> Request {
    Request::SetData(SetDataRequest { path: SUBTREE.to_owned(), data: Some(Bytes::new()), version: -1 })
}

fn set_quota() -> Request {
    let limits = format!("/zookeeper/quota{SUBTREE}/zookeeper_limits");
    let none = Bytes::from_static(b"count=-1,bytes=-1");
    let set = MultiOp::Create(create(limits.clone(), &none, CreateMode::Persistent));
    let ops = [set, delete(limits)].into_iter().cycle().take(200).collect();
    Request::Multi(MultiRequest { ops })
}

fn create_deep(target: &Target) -> io::Result<()> {
    let client = &mut target.session(target.leader)?;
    let ends = deep_path().match_indices('/').map(|(at, _)| at).skip(1).chain([deep_path().len()]).collect::<Vec<_>>();
    run_multis(client, ends.into_iter().map(|end| persistent(deep_path()[..end].to_owned())))
}

/// As deep as servers permit.
fn deep_path() -> String {
    "/deep".repeat(256)
}

fn watch_and_flood(target: &Target) -> io::Result<Findings> {
    let mut watcher = target.session(target.follower())?;
    let request = AddWatchRequest { path: "/deep".to_owned(), mode: AddWatchMode::PersistentRecursive };
    watcher.expect_ok(&Request::AddWatch(request))?;
    let socket = watcher.stream().try_clone()?;
    let set = SetDataRequest { path: deep_path(), data: Some(Bytes::new()), version: -1 };
    thread::scope(|scope| {
        let events = scope.spawn(move || {
            let mut events = 0_usize;
            while watcher.frame().is_ok() {
                events += 1;
            }
            events
        });
        let mut findings = flood(target, 16, &[Request::SetData(set)])?.without_failures();
        let _ = socket.shutdown(Shutdown::Both);
        let events = events.join().map_err(|_| io::Error::other("the watching thread panicked"))?;
        findings.note += &format!(", {events} events");
        Ok(findings.require(events > 0, || "no watch fired".to_owned()))
    })
}

fn ask_for_lists(target: &Target) -> io::Result<Findings> {
    let mut watchers = Vec::new();
    for server in 0..target.ports.len() {
        let mut watcher = target.session(server)?;
        for part in 0..WATCHES / WATCHES_PER_REQUEST {
            let numbers = part * WATCHES_PER_REQUEST..(part + 1) * WATCHES_PER_REQUEST;
            let paths = numbers.map(|number| format!("/none/watched by client {server}/{number}")).collect();
            let request = SetWatches {
                relative_zxid: 0,
                data_watches: Vec::new(),
                exist_watches: paths,
                child_watches: Vec::new(),
            };
            watcher.send(&request_frame(Xid::SET_WATCHES, &Request::SetWatches(request)))?;
            watcher.frame()?;
        }
        watchers.push(watcher);
    }
    let (asked, bytes, ends) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for number in 0..ASKING {
            let (asked, bytes, ends, address) = (&asked, &bytes, &ends, target.address(number % target.ports.len()));
            scope.spawn(move || {
                for word in ["wchp", "wchc", "dump", "cons", "stat"].into_iter().cycle() {
                    if ends.load(Ordering::Relaxed) {
                        return;
                    }
                    let answer = TcpStream::connect(address).and_then(|mut stream| {
                        stream.set_read_timeout(Some(REPLY_LIMIT))?;
                        stream.write_all(word.as_bytes())?;
                        let mut answer = Vec::new();
                        stream.read_to_end(&mut answer)
                    });
                    bytes.fetch_add(answer.unwrap_or(0), Ordering::Relaxed);
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(LASTS);
        ends.store(true, Ordering::Relaxed);
    });
    let (asked, megabytes) = (asked.into_inner(), bytes.into_inner() >> 20);
    let note = format!("{asked} lists, {megabytes} MiB");
    Ok(Findings::note(note).require(megabytes > 16, || "the lists were not sent".to_owned()))
}

const OPEN: &str = "/open";
const GUARDED: &str = "/guarded";
const SUBTREE: &str = "/subtree";

const CLIENTS: usize = 20;
const ASKING: usize = 12;
const LASTS: Duration = Duration::from_secs(6);

/// For each server, in requests below the limit of servers.
const WATCHES: usize = 200_000;
const WATCHES_PER_REQUEST: usize = 10_000;

/// Longer than the attack.
const REPLY_LIMIT: Duration = Duration::from_secs(30);
