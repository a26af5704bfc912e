//! `pole migrate` without a running ensemble: what it says about files of Apache, and what it refuses. The move itself is
//! tested with real servers by `cargo xtask compat --part move`.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{Scratch, free_port, run};

/// A directory that a server of Apache wrote, and its configuration with these lines besides.
fn of_apache(scratch: &Scratch, more: &str) -> String {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../storage/tests/fixtures/apache-ensemble/version-2");
    let data = scratch.0.join("apache/version-2");
    fs::create_dir_all(&data).unwrap();
    for file in fs::read_dir(fixture).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), data.join(file.file_name())).unwrap();
    }
    scratch.file("apache/myid", "1\n");
    configuration(scratch, "apache", more)
}

fn configuration(scratch: &Scratch, name: &str, more: &str) -> String {
    let (data, port) = (scratch.0.join(name), free_port());
    let servers = "server.1=127.0.0.1:1:11\nserver.2=127.0.0.1:2:12\nserver.3=127.0.0.1:3:13\n";
    let text = format!("dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\n{servers}{more}", data.display());
    scratch.file(&format!("{name}.cfg"), &text)
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(dir).unwrap().map(Result::unwrap);
    files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
}

#[test]
fn a_directory_of_apache_is_described_and_left_as_it_is() {
    let scratch = Scratch::new("migrate-check");
    let config = of_apache(&scratch, "noSuchKey=1\n");
    let data = scratch.0.join("apache/version-2");
    let before = contents(&data);
    let (code, said, complaint) = run(&["migrate", "check", "--config", &config]);
    assert_eq!(code, 0, "{said}{complaint}");
    for part in [
        "noSuchKey=1: unknown key",
        "snapshot.200000017 ",
        "A server would start at 0x2",
        "1 key that Pole ignores",
        "A Pole server would start here.",
    ] {
        assert!(said.contains(part), "{part} is not in:\n{said}");
    }
    assert_eq!(contents(&data), before);
    let (code, said, _) = run(&["migrate", "check", "--json", "--config", &config]);
    let checked: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &checked["ready"], &checked["server"]), (0, &true.into(), &1.into()), "{said}");
    assert!(checked["data"]["content"]["nodes"].as_u64().unwrap() > 4, "{said}");
    assert!(checked["data"]["content"]["schemes"]["world"].as_u64().unwrap() > 0, "{said}");
}

#[test]
fn what_would_keep_a_server_from_starting_is_1() {
    let scratch = Scratch::new("migrate-check-bad");
    let config = of_apache(&scratch, "tickTime=soon\n");
    let (code, said, complaint) = run(&["migrate", "check", "--config", &config]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("tickTime=soon") && complaint.contains("nothing was changed"), "{said}{complaint}");

    let config = of_apache(&scratch, "");
    let data = scratch.0.join("apache/version-2");
    fs::rename(data.join("snapshot.200000017"), data.join("snapshot.200000017.gz")).unwrap();
    let (code, said, _) = run(&["migrate", "check", "--config", &config]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("compressed snapshots are not read"), "{said}");

    fs::remove_dir_all(&data).unwrap();
    let (code, said, _) = run(&["migrate", "check", "--config", &config]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("nothing to move"), "{said}");
}

#[test]
fn a_copy_that_cannot_be_made_is_2_before_anything_is_written() {
    let scratch = Scratch::new("migrate-refused");
    let apache = of_apache(&scratch, "");
    let pole = configuration(&scratch, "pole", "");
    let follow = |more: &[&str]| run(&[&["migrate", "follow", "--apache", &apache], more].concat());
    let (code, _, said) = follow(&["--config", &apache]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("the same directory"), "{said}");
    let (code, _, said) = follow(&["--config", &pole, "--id", "2"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("has a server with this id"), "{said}");
    let alone = scratch.file("alone.cfg", "dataDir=/nowhere\nclientPort=1\n");
    let (code, _, said) = run(&["migrate", "follow", "--apache", &alone, "--config", &pole]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("moved in place"), "{said}");
    let secure = of_apache(
        &scratch,
        "sslQuorum=true\nssl.quorum.keyStore.location=/k.pem\nssl.quorum.trustStore.location=/t.pem\n",
    );
    let (code, _, said) = run(&["migrate", "follow", "--apache", &secure, "--config", &pole]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("/t.pem"), "{said}");
    assert!(!scratch.0.join("pole").exists());
}

#[test]
fn a_history_of_another_origin_is_not_overwritten() {
    let scratch = Scratch::new("migrate-occupied");
    let apache = of_apache(&scratch, "");
    let pole = configuration(&scratch, "pole", "");
    fs::create_dir_all(scratch.0.join("pole/version-2")).unwrap();
    let (code, _, said) = run(&["migrate", "follow", "--apache", &apache, "--config", &pole]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("no copy of `pole migrate`"), "{said}");
}

#[test]
fn a_take_over_from_servers_that_are_stopped_already_is_refused_and_permits_nothing() {
    let scratch = Scratch::new("migrate-stopped");
    let apache = of_apache(&scratch, "");
    let (pole, other) = (configuration(&scratch, "pole", ""), scratch.0.join("other"));
    let other = other.to_str().unwrap();
    let (code, _, said) = run(&["migrate", "take-over", "--apache", &apache, "--config", &pole, "--copy-to", other]);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("no server of Apache runs"), "{said}");
    // Neither directory serves: two blank servers would be a quorum.
    fs::write(scratch.0.join("pole/myid"), "1").unwrap();
    let (code, _, said) = run(&["server", "--config", &pole]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("pole migrate take-over"), "{said}");
    assert!(Path::new(other).join("following").exists());
    let (code, said, _) = run(&["check", scratch.0.join("pole").to_str().unwrap()]);
    assert_eq!(code, 2, "{said}");
}
