//! Asks a server of Apache ZooKeeper what it does, with the four-letter word `srvr`, which every installation allows.

use std::io::{self, Read, Write};
use std::time::Duration;

use pole_types::Zxid;

use crate::ApacheServer;
use crate::servers::connect;

/// What a server does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing listens on its ports: the process is gone.
    Down,
    /// It runs and does not serve: it looks for a leader, starts or stops.
    NotServing,
    /// It serves.
    Serving {
        /// Its part in the ensemble.
        mode: Mode,
        /// The last transaction that it applied.
        zxid: Zxid,
        /// The release.
        version: String,
    },
    /// Nothing is known: the host does not answer, or answers something else.
    Unknown(String),
}

/// The part of a server in its ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It leads.
    Leader,
    /// It follows and votes.
    Follower,
    /// It follows.
    Observer,
    /// It has no ensemble.
    Standalone,
    /// It serves reads without a leader.
    ReadOnly,
}

const MODES: [(&str, Mode); 5] = [
    ("leader", Mode::Leader),
    ("follower", Mode::Follower),
    ("observer", Mode::Observer),
    ("standalone", Mode::Standalone),
    ("read-only", Mode::ReadOnly),
];

/// Asks one server, for at most about twice the limit.
#[must_use]
pub fn ask(server: &ApacheServer, limit: Duration) -> Answer {
    match query(server, limit) {
        Ok(text) => parse(&text),
        // A server opens its client port late and closes it early; the port for elections shows whether it runs.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            match connect(&server.host, server.election_port, limit) {
                Ok(_) => Answer::NotServing,
                Err(error) if is_broken(error.kind()) => Answer::NotServing,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Answer::Down,
                Err(error) => Answer::Unknown(error.to_string()),
            }
        }
        // It accepted the connection and ended it: the process is there, and on its way down or up.
        Err(error) if is_broken(error.kind()) => Answer::NotServing,
        Err(error) => Answer::Unknown(error.to_string()),
    }
}

fn is_broken(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe)
}

fn query(server: &ApacheServer, limit: Duration) -> io::Result<String> {
    let (host, port) = &server.client;
    let mut stream = connect(host, *port, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let mut text = Vec::new();
    let answered = stream.write_all(b"srvr").and_then(|()| stream.take(ANSWER_BYTES_MAX).read_to_end(&mut text));
    // A server that is being stopped resets the connection, perhaps after its answer.
    if text.is_empty() {
        answered?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn parse(text: &str) -> Answer {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let zxid = field("Zxid:").and_then(|zxid| u64::from_str_radix(zxid.strip_prefix("0x")?, 16).ok()).map(Zxid);
    let mode = field("Mode:").and_then(|mode| MODES.iter().find(|(name, _)| *name == mode)).map(|(_, mode)| *mode);
    let version = field("Zookeeper version:").and_then(|version| version.split(['-', ',']).next());
    match (mode, zxid) {
        (Some(mode), Some(zxid)) => Answer::Serving { mode, zxid, version: version.unwrap_or_default().to_owned() },
        _ if text.contains("not currently serving") || text.is_empty() => Answer::NotServing,
        _ => {
            let shown: String = text.lines().next().unwrap_or_default().chars().take(SHOWN_CHARS_MAX).collect();
            Answer::Unknown(format!("it answers {shown:?}"))
        }
    }
}

/// The answer has about ten lines.
const ANSWER_BYTES_MAX: u64 = 16 << 10;

const SHOWN_CHARS_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_mode_position_and_release() {
        let text = "Zookeeper version: 3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c, built on 2024-02-12 22:16 UTC\n\
                    Latency min/avg/max: 0/0.0/0\nReceived: 6\nSent: 5\nConnections: 1\nOutstanding: 0\n\
                    Zxid: 0x10000001a\nMode: leader\nNode count: 5\n";
        let expected = Answer::Serving { mode: Mode::Leader, zxid: Zxid(0x1_0000_001a), version: "3.8.4".to_owned() };
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn a_server_without_a_leader_does_not_serve() {
        assert_eq!(parse("This ZooKeeper instance is not currently serving requests\n"), Answer::NotServing);
        assert_eq!(parse(""), Answer::NotServing);
    }

    #[test]
    fn anything_else_is_unknown() {
        let refused = "srvr is not executed because it is not in the whitelist.\n";
        assert!(matches!(parse(refused), Answer::Unknown(text) if text.contains("whitelist")));
        assert!(matches!(parse("Zxid: 12\nMode: leader\n"), Answer::Unknown(_)));
        assert!(matches!(parse("Zxid: 0x1\nMode: king\n"), Answer::Unknown(_)));
    }
}
