//! Apache's own programs read our files. They need Java and Debian's `zookeeper`, so they are run by `cargo xtask
//! compat --part storage`, or by `cargo test -p pole-storage --test it -- --ignored tools::` with the jars of
//! `/usr/share/java` or those that `ZOOKEEPER_CLASSPATH` names.

use bytes::Bytes;
use pole_client::blocking::Session;
use pole_jute::{
    Acl, CreateSessionTxn, CreateTxn, DataNode, Id, OPEN_ACL_REFERENCE, OpCode, Perms, Record, SnapshotNode,
    StatPersisted, Txn, TxnEntry, TxnHeader, Writer,
};
use pole_storage::{Config, export_snapshot, open};
use pole_types::{Cxid, Epoch, SessionId, Zxid};
use pole_zab::{DiskOp, Entry, Epochs, Origin, Snapshot};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::scratch::{Scratch, perform, zxid};

const SESSION: i64 = 0x0100_0000_0000_0001;

#[test]
#[ignore = "needs java and Debian's zookeeper"]
fn apache_s_toolkit_reads_our_log() {
    let scratch = our_directory();
    for (name, count) in [("log.100000001", 31), ("log.100000020", 10), ("log.200000001", 5)] {
        let output = java("org.apache.zookeeper.server.persistence.TxnLogToolkit", &["-d", &path(&scratch.file(name))]);
        let lines = output.lines().filter(|line| line.contains("session 0x")).count();
        assert_eq!(lines, count, "{name}: {output}");
        assert!(!output.contains("CRC"), "{output}");
    }
}

#[test]
#[ignore = "needs java and Debian's zookeeper"]
fn apache_s_formatter_reads_our_snapshot() {
    let scratch = our_directory();
    let file = path(&scratch.file("snapshot.10000001f"));
    let output = java("org.apache.zookeeper.server.SnapshotFormatter", &[&file]);
    for part in ["/zookeeper/quota", "ZNode Details (count=35)", "/n30", "Last zxid: 0x10000001f"] {
        assert!(output.contains(part), "{part} is not in: {output}");
    }
}

/// A backup has the form of Apache 3.9, which older releases read as well.
#[test]
#[ignore = "needs java and Debian's zookeeper"]
fn apache_reads_our_backup_and_starts_with_it() {
    let scratch = Scratch::new();
    let at = zxid(3, 31);
    let state = state(&zxids(1, 2..=31));
    let mut file = Vec::new();
    export_snapshot(at, |sink| sink(&state), &mut |piece| file.extend_from_slice(piece));
    std::fs::create_dir_all(scratch.files()).unwrap();
    std::fs::write(scratch.file("snapshot.30000001f"), file).unwrap();
    let output = java("org.apache.zookeeper.server.SnapshotFormatter", &[&path(&scratch.file("snapshot.30000001f"))]);
    assert!(output.contains("/n30") && output.contains("Last zxid: 0x30000001f"), "{output}");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::start(&configuration(&scratch, port), port);
    let srvr = server.ask(b"srvr");
    assert!(srvr.contains("Zxid: 0x30000001f"), "{srvr}");
}

/// Apache starts on our directory, finds every node and accepts a write; then Pole opens the result.
#[test]
#[ignore = "needs java and Debian's zookeeper"]
fn apache_starts_on_our_directory_and_we_on_its() {
    let scratch = our_directory();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::start(&configuration(&scratch, port), port);
    let srvr = server.ask(b"srvr");
    assert!(srvr.contains("Zxid: 0x200000005"), "{srvr}");
    // Three of Apache's own, 45 of ours, and the root, which Apache counts twice.
    assert!(srvr.contains("Node count: 50"), "{srvr}");
    server.connect();
    drop(server);

    let (_, recovered, _) = scratch.open();
    assert!(recovered.standing().last_zxid > zxid(2, 5), "{:?}", recovered.standing());
    assert!(recovered.snapshot_zxid() >= zxid(2, 5));
}

/// Three log files, two snapshots and epochs, as our server would write them.
fn our_directory() -> Scratch {
    let scratch = Scratch::new();
    let config = Config { blank: Some(state(&[])), ..scratch.config() };
    let (mut disk, _, _) = open(config).unwrap();
    let (first, second, third) = (zxids(1, 1..=31), zxids(1, 32..=41), zxids(2, 1..=5));
    let at = *first.last().unwrap();
    let body = state(&first[1..]).into();
    perform(
        &mut disk,
        vec![
            DiskOp::AcceptedEpoch(Epoch(1)),
            DiskOp::CurrentEpoch(Epoch(1)),
            DiskOp::Append(first.iter().map(|zxid| txn(*zxid)).collect()),
            DiskOp::Checkpoint(Snapshot { zxid: at, epochs: Epochs::starting_at(at), body }),
            DiskOp::Append(second.iter().map(|zxid| txn(*zxid)).collect()),
            DiskOp::Truncate { to: *second.last().unwrap() },
            DiskOp::TakeOver(Epoch(2)),
            DiskOp::Append(third.iter().map(|zxid| txn(*zxid)).collect()),
        ],
    );
    disk.finish_checkpoints();
    scratch
}

/// A configuration of Apache's server for our directory.
fn configuration(scratch: &Scratch, port: u16) -> PathBuf {
    let config = scratch.path().join("zoo.cfg");
    let text = format!(
        "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
        scratch.path().display()
    );
    std::fs::write(&config, text).unwrap();
    config
}

fn zxids(epoch: u32, counters: std::ops::RangeInclusive<u32>) -> Vec<Zxid> {
    counters.map(|counter| zxid(epoch, counter)).collect()
}

/// The first transaction opens a session, every other one creates a node.
fn txn(at: Zxid) -> Entry {
    let (op, txn) = if at == zxid(1, 1) {
        (OpCode::CreateSession, Txn::CreateSession(CreateSessionTxn { timeout: 30_000 }))
    } else {
        let acl = vec![Acl { perms: Perms::ALL, id: Id { scheme: "world".into(), id: "anyone".into() } }];
        let data = Some(Bytes::from_static(b"data"));
        (OpCode::Create, Txn::Create(CreateTxn { path: node(at), data, acl, ephemeral: false, parent_cversion: -1 }))
    };
    let cxid = at.counter() as i32;
    let header = TxnHeader { client_id: SESSION, cxid, zxid: at.0 as i64, time: 1_700_000_000_000, op: op.number() };
    let body = TxnEntry { header, txn, digest: None }.encode();
    Entry { zxid: at, origin: Origin { session: SessionId(SESSION), cxid: Cxid(cxid) }, body }
}

fn node(at: Zxid) -> String {
    let before = if at.epoch() == Epoch(1) { 0 } else { 41 };
    format!("/n{}", before + at.counter() - 1)
}

/// The encoded state after these creates.
fn state(created: &[Zxid]) -> Bytes {
    let mut writer = Writer::new();
    writer.int(0);
    writer.int(0);
    let mut put = |path: &str, zxid: i64| {
        let stat = StatPersisted { czxid: zxid, mzxid: zxid, pzxid: zxid, ..StatPersisted::default() };
        let node = DataNode { data: Some(Bytes::new()), acl: OPEN_ACL_REFERENCE, stat };
        SnapshotNode::Node(path.into(), node).write(&mut writer);
    };
    ["", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"].into_iter().for_each(|path| put(path, 0));
    created.iter().for_each(|zxid| put(&node(*zxid), zxid.0 as i64));
    SnapshotNode::End.write(&mut writer);
    writer.into_bytes()
}

fn java(class: &str, arguments: &[&str]) -> String {
    let output = Command::new("java").args(["-cp", &class_path(), class]).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{class}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn class_path() -> String {
    std::env::var("ZOOKEEPER_CLASSPATH").unwrap_or_else(|_| "/usr/share/java/*".into())
}

fn path(path: &Path) -> String {
    path.to_str().unwrap().into()
}

/// An Apache server, stopped on drop.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start(config: &Path, port: u16) -> Self {
        let mut command = Command::new("java");
        command.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-Dzookeeper.jmx.log4j.disable=true"]);
        command.args(["-cp", &class_path(), "org.apache.zookeeper.server.ZooKeeperServerMain", &path(config)]);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { process, port };
        server.wait();
        server
    }

    /// Waits until the server accepts connections; panics if it has ended.
    fn wait(&mut self) {
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Some(status) = self.process.try_wait().unwrap() {
                panic!("the server ended: {status}");
            }
            std::thread::yield_now();
        }
    }

    fn ask(&self, word: &[u8; 4]) -> String {
        loop {
            let mut stream = self.stream();
            stream.write_all(word).unwrap();
            let answer: Vec<_> = BufReader::new(stream).lines().map_while(Result::ok).collect();
            // While it reads its files, it answers with a single line.
            if answer.len() > 1 {
                return answer.join("\n");
            }
        }
    }

    /// A server that has just started to listen may drop a connection, so reads have a timeout.
    fn stream(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        stream
    }

    /// Opens a session, which is a transaction.
    fn connect(&self) {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], self.port));
        Session::connect(address, std::time::Duration::from_secs(10)).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
