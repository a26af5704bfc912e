//! Every kind of failure has its exit code, and a message that tells the operator what to do.

mod common;

use std::net::TcpListener;

use common::{Running, Scratch, free_base_port, run};

/// The configuration of a standalone server.
fn alone(scratch: &Scratch) -> String {
    format!("dataDir={}\nclientPort=0\nadmin.enableServer=false\npreAllocSize=64\n", scratch.0.join("data").display())
}

#[test]
fn bad_arguments_are_2() {
    for wrong in [
        &["serve"][..],
        &["server"],
        &["up", "--base-port", "x"],
        &["up", "--oracle", "delphi"],
        &["up", "--topology", "/nowhere.toml"],
        &["status", "--admin", "ftp://x"],
        &["transfer", "--timeout", "5"],
        &["score", "set", "NaN"],
        &["explain", "--color", "mauve"],
        &["lab", "paper", "--only", "9z"],
        &["lab", "paper", "--real", "--full"],
        &["lab", "paper", "--case", "d1 p=1 latency"],
    ] {
        let (code, _, said) = run(wrong);
        assert_eq!(code, 2, "{wrong:?}: {said}");
        assert!(!said.is_empty(), "{wrong:?}");
    }
}

#[test]
fn a_missing_configuration_is_2() {
    let (code, _, said) = run(&["server", "--config", "/nowhere/zoo.cfg"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("/nowhere/zoo.cfg"), "{said}");
}

#[test]
fn a_configuration_with_an_unknown_key_is_2_and_names_the_line() {
    let scratch = Scratch::new("unknown-key");
    let config = scratch.file("zoo.cfg", "tickTime=2000\npole.oracel=latency\n");
    let (code, _, said) = run(&["server", "--config", &config]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("zoo.cfg:2: pole.oracel"), "{said}");
}

#[test]
fn no_server_at_the_address_is_3() {
    // Bound and closed again, so nothing listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    for command in [&["status"][..], &["explain"], &["oracle", "get"], &["oracle", "set", "latency"], &["transfer"]] {
        let (code, _, said) = run(&[command, &["--admin", &url]].concat());
        assert_eq!(code, 3, "{command:?}: {said}");
        assert!(said.contains(&url) && said.contains("--admin"), "{said}");
    }
}

#[test]
fn a_damaged_data_directory_is_5_and_is_left_as_it_is() {
    let scratch = Scratch::new("damaged");
    let config = scratch.file("zoo.cfg", &alone(&scratch));
    let damaged = scratch.file("data/version-2/currentEpoch", "banana");
    let (code, _, said) = run(&["server", "--config", &config]);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("currentEpoch"), "{said}");
    assert_eq!(std::fs::read_to_string(damaged).unwrap(), "banana");
}

#[test]
fn a_log_whose_snapshots_are_gone_is_5_unless_it_is_trusted() {
    let scratch = Scratch::new("no-snapshot");
    let config = scratch.file("zoo.cfg", &alone(&scratch));
    // As if the snapshots were on another disk that is not mounted.
    scratch.file("data/version-2/log.500000001", "");
    let (code, _, said) = run(&["server", "--config", &config]);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("no snapshot") && said.contains("snapshot.trust.empty"), "{said}");
    let trusting = scratch.file("trusting.cfg", &format!("{}snapshot.trust.empty=true\n", alone(&scratch)));
    let server = Running::reading_stderr(&["server", "--config", &trusting]);
    server.until(" serving ");
}

#[test]
fn a_data_directory_in_use_is_6() {
    let scratch = Scratch::new("in-use");
    let config = scratch.file("zoo.cfg", &alone(&scratch));
    let first = Running::reading_stderr(&["server", "--config", &config]);
    first.until(" serving ");
    let (code, _, said) = run(&["server", "--config", &config]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("in use by another server"), "{said}");
}

#[test]
fn a_client_port_in_use_is_6() {
    let scratch = Scratch::new("port");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let text = alone(&scratch).replace("clientPort=0", &format!("clientPort={port}\nclientPortAddress=127.0.0.1"));
    let (code, _, said) = run(&["server", "--config", &scratch.file("zoo.cfg", &text)]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains(&port.to_string()) && said.contains("clientPort"), "{said}");
}

#[test]
fn a_port_that_the_ensemble_needs_is_6_and_is_named() {
    let base = free_base_port();
    let taken = TcpListener::bind(("127.0.0.1", base + 203)).unwrap();
    let (code, _, said) = run(&["up", "--base-port", &base.to_string()]);
    drop(taken);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains(&format!("port {} (elections of server 3)", base + 203)), "{said}");
}

#[test]
fn a_server_that_is_told_to_stop_ends_with_0() {
    for signal in ["-TERM", "-INT"] {
        let scratch = Scratch::new(signal);
        let config = scratch.file("zoo.cfg", &alone(&scratch));
        let mut server = Running::reading_stderr(&["server", "--config", &config]);
        server.until(" serving ");
        server.signal(signal);
        assert_eq!(server.end().code(), Some(0), "{signal}");
    }
}
