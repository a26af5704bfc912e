//! What operators write.
//!
//! Law: what a configuration writes of itself reads back equal; a topology gives a link for every two servers.

use std::io;
use std::path::Path;

use pole_server::config::{Config, ConfigError, Warning};
use pole_topology::Topology;

/// The syntax of `zoo.cfg`.
pub(crate) fn zoo_cfg(input: &[u8]) {
    if let Ok(text) = str::from_utf8(input) {
        configuration(Config::parse_cfg("fuzz.cfg", text, &beside));
    }
}

/// The syntax of `pole.toml`.
pub(crate) fn pole_toml(input: &[u8]) {
    if let Ok(text) = str::from_utf8(input) {
        configuration(Config::parse_toml("fuzz.toml", text, &beside));
    }
}

/// A topology file.
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

fn configuration(parsed: Result<(Config, Vec<Warning>), ConfigError>) {
    match parsed {
        Ok((config, warnings)) => {
            warnings.iter().for_each(|warning| drop(warning.to_string()));
            let text = config.to_cfg();
            match Config::parse_cfg("again.cfg", &text, &beside) {
                Ok((again, _)) => assert_eq!(again, config, "{text}"),
                Err(refused) => panic!("it refuses what it wrote: {refused}\n{text}"),
            }
        }
        Err(refused) => drop(refused.to_string()),
    }
}

/// The files that a configuration can name: a number for `myid`, a small topology, else nothing.
fn beside(path: &Path) -> io::Result<String> {
    match path.file_name().and_then(|name| name.to_str()) {
        Some("myid") => Ok("1\n".into()),
        Some(name) if name.ends_with(".toml") => Ok(TOPOLOGY.into()),
        Some(name) if name.ends_with(".dynamic") => Ok("server.1=localhost:2888:3888;2181\n".into()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

const TOPOLOGY: &str = "name=\"two\"\n[[server]]\nid=1\nsite=\"A\"\n[[server]]\nid=2\nsite=\"B\"\n\
    [[link]]\na=\"A\"\nb=\"B\"\nrtt_ms=9.88\n";
