//! Targets `zoo-cfg`, `pole-toml` and `topology`: configuration files.
//!
//! Properties: a configuration that is written as text and parsed again is equal; a topology has a link
//! between every two servers.

use std::io;
use std::path::Path;

use pole_server::config::{Config, ConfigError, Warning};
use pole_topology::Topology;

/// The input is a configuration in the syntax of `zoo.cfg`.
pub(crate) fn zoo_cfg(input: &[u8]) {
    if let Ok(text) = str::from_utf8(input) {
        assert_config_round_trip(Config::parse_cfg("fuzz.cfg", text, &read_file));
    }
}

/// The input is a configuration in the syntax of `pole.toml`.
pub(crate) fn pole_toml(input: &[u8]) {
    if let Ok(text) = str::from_utf8(input) {
        assert_config_round_trip(Config::parse_toml("fuzz.toml", text, &read_file));
    }
}

/// The input is a topology file.
pub(crate) fn topology(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let topology = match Topology::parse(text) {
        Ok(topology) => topology,
        Err(refused) => return drop(refused.to_string()),
    };
    let servers: Vec<u64> = topology.servers().map(|server| server.id).collect();
    for a in &servers {
        assert!(topology.site(*a).is_some(), "server {a} has no site");
        assert!(servers.iter().all(|b| topology.link(*a, *b).is_some()), "server {a} lacks a link");
    }
}

fn assert_config_round_trip(parsed: Result<(Config, Vec<Warning>), ConfigError>) {
    match parsed {
        Ok((config, warnings)) => {
            warnings.iter().for_each(|warning| drop(warning.to_string()));
            let cfg = config.to_cfg();
            assert_reads_as(&config, &cfg, Config::parse_cfg("again.cfg", &cfg, &read_file));
            let toml = config.to_toml();
            assert_reads_as(&config, &toml, Config::parse_toml("again.toml", &toml, &read_file));
        }
        Err(refused) => drop(refused.to_string()),
    }
}

fn assert_reads_as(config: &Config, text: &str, parsed: Result<(Config, Vec<Warning>), ConfigError>) {
    match parsed {
        Ok((again, _)) => assert_eq!(again, *config, "{text}"),
        Err(refused) => panic!("its own text is refused: {refused}\n{text}"),
    }
}

/// Reads the files that a configuration refers to: `myid`, a small topology, a dynamic
/// configuration, users of SASL. No other file exists.
fn read_file(path: &Path) -> io::Result<String> {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("myid") => Ok("1\n".into()),
        Some(name) if name.ends_with(".toml") => Ok(TOPOLOGY.into()),
        Some(name) if name.ends_with(".dynamic") => Ok("server.1=localhost:2888:3888;2181\n".into()),
        Some(name) if name.ends_with(".users") => Ok("bob:secret\nsuper:secret\n".into()),
        Some(name) if name.ends_with(".jaas") => Ok(JAAS.into()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

const JAAS: &str = "Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_eve=\"x\"; };\n";

const TOPOLOGY: &str = "name=\"two\"\n[[server]]\nid=1\nsite=\"A\"\n[[server]]\nid=2\nsite=\"B\"\n\
    [[link]]\na=\"A\"\nb=\"B\"\nrtt_ms=9.88\n";
