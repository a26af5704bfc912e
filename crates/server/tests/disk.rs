//! Tests of real servers and their disks: a failing snapshot, a growing log, and session ids over a restart.

#[path = "admin/test_server.rs"]
#[expect(dead_code, reason = "the tests of the admin server use the rest")]
mod test_server;

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use pole_client::blocking::Session;
use pole_jute::CreateMode;
use pole_server::Exit;
use test_server::TestServer;

fn create(client: &mut Session, path: &str, bytes: usize) {
    client.ask(pole_client::create(path, &vec![b'x'; bytes], CreateMode::Persistent)).expect("it is created");
}

fn exists(client: &mut Session, path: &str) {
    client.ask(pole_client::exists(path)).expect("it exists");
}

#[test]
fn a_server_whose_disk_refuses_a_snapshot_ends_and_the_others_go_on() {
    let mut servers = TestServer::three("snapCount=10\npreAllocSize=64\n");
    servers[0].wait_until_serving();
    let mut client = servers[0].session();
    create(&mut client, "/before", 10);

    // Directories block the paths where the third server would write its next snapshots.
    let files = servers[2].dir.join("version-2");
    for (epoch, counter) in (1..=8_u64).flat_map(|epoch| (1..=100_u64).map(move |counter| (epoch, counter))) {
        fs::create_dir_all(files.join(format!("snapshot.{:x}.tmp", epoch << 32 | counter))).unwrap();
    }
    let server = servers[2].server.take().unwrap();
    let (send, ended) = mpsc::channel();
    std::thread::spawn(move || send.send(server.wait()));
    (0..40).for_each(|number| create(&mut client, &format!("/during-{number}"), 10));
    let exit = ended.recv_timeout(LIMIT).expect("the server ends");
    assert!(
        matches!(&exit, Exit::Halted(reason) if reason.contains("snapshot.") && reason.contains("cannot")),
        "{exit:?}"
    );

    create(&mut client, "/after", 10);
    exists(&mut client, "/before");
    (0..40).for_each(|number| exists(&mut client, &format!("/during-{number}")));
    exists(&mut client, "/after");
}

/// The highest zxid of the snapshots in a data directory.
fn newest_snapshot(dir: &Path) -> Option<u64> {
    let names = fs::read_dir(dir.join("version-2")).unwrap().map(|file| file.unwrap().file_name());
    let zxid = |name: &str| u64::from_str_radix(name.strip_prefix("snapshot.")?, 16).ok();
    names.filter_map(|name| zxid(name.to_str()?)).max()
}

#[test]
fn a_snapshot_is_written_when_the_log_exceeds_its_size_limit() {
    let server = TestServer::standalone("snapSizeLimitInKb=100\n");
    server.wait_until_serving();
    let mut client = server.session();
    (0..4).for_each(|number| create(&mut client, &format!("/small-{number}"), 10_000));
    assert_eq!(newest_snapshot(&server.dir), Some(0));
    (0..7).for_each(|number| create(&mut client, &format!("/large-{number}"), 10_000));
    server.wait_until("a snapshot", |server| newest_snapshot(&server.dir) > Some(0));

    let server = TestServer::standalone("snapSizeLimitInKb=0\n");
    server.wait_until_serving();
    let mut client = server.session();
    (0..30).for_each(|number| create(&mut client, &format!("/large-{number}"), 10_000));
    assert_eq!(newest_snapshot(&server.dir), Some(0));
}

#[test]
fn the_log_goes_on_in_another_file_when_it_exceeds_its_size_limit() {
    let files = |keys| {
        let server = TestServer::standalone(keys);
        server.wait_until_serving();
        let mut client = server.session();
        (0..30).for_each(|number| create(&mut client, &format!("/large-{number}"), 10_000));
        let names = fs::read_dir(server.dir.join("version-2")).unwrap().map(|file| file.unwrap().file_name());
        names.filter(|name| name.to_str().is_some_and(|name| name.starts_with("log."))).count()
    };
    assert_eq!((files(""), files("txnLogSizeLimitInKb=100\n")), (1, 3));
}

#[test]
fn session_ids_are_reserved_before_they_are_given() {
    let server = TestServer::standalone("");
    server.wait_until_serving();
    let session = server.session().id();
    // The record is documented in docs/storage.md.
    let lock = fs::read(server.dir.join("version-2/lock")).unwrap();
    let reserved = i64::from_be_bytes(lock[4100..4108].try_into().unwrap());
    let number = session & ((1 << 56) - 1);
    assert!(number < reserved && reserved <= number + (1 << 36), "{number} {reserved}");
}

const LIMIT: Duration = Duration::from_secs(60);
