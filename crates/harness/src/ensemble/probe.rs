//! The state that a server reports in reply to four-letter words.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Sends four-letter words to the client port of a server.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub(super) address: SocketAddr,
}

/// The role of a server that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Leads the ensemble.
    Leader,
    /// Follows a leader and votes.
    Follower,
    /// Follows a leader without a vote.
    Observer,
    /// Runs alone, without an ensemble.
    Standalone,
    /// Serves reads without a quorum.
    ReadOnly,
}

impl Probe {
    /// The role of the server. `None` if it does not serve.
    pub fn mode(self) -> Option<Mode> {
        self.ask("srvr").as_deref().and_then(mode_of)
    }

    /// The last transaction that the server has applied.
    pub fn zxid(self) -> Option<u64> {
        let zxid = self.field("Zxid: 0x")?;
        u64::from_str_radix(&zxid, 16).ok()
    }

    /// The epoch of the last applied transaction.
    pub fn epoch(self) -> Option<u64> {
        self.zxid().map(|zxid| zxid >> 32)
    }

    /// The number of connections of the server, including that of the probe itself.
    pub fn connections(self) -> Option<usize> {
        self.field("Connections: ")?.parse().ok()
    }

    fn field(self, name: &str) -> Option<String> {
        let answer = self.ask("srvr")?;
        answer.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    }

    /// The complete reply to a four-letter word. `None` if the server cannot be reached or does not reply within a
    /// second.
    pub fn ask(self, word: &str) -> Option<String> {
        let mut stream = TcpStream::connect_timeout(&self.address, TIMEOUT).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).ok()?;
        stream.write_all(word.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).ok()?;
        String::from_utf8(answer).ok().filter(|text| !text.is_empty())
    }
}

fn mode_of(srvr: &str) -> Option<Mode> {
    let mode = srvr.lines().find_map(|line| line.strip_prefix("Mode: "))?;
    Some(match mode.trim() {
        "leader" => Mode::Leader,
        "follower" => Mode::Follower,
        "observer" => Mode::Observer,
        "standalone" => Mode::Standalone,
        "read-only" => Mode::ReadOnly,
        _ => return None,
    })
}

/// A running server answers in a millisecond, a stopped one never does.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Larger than any reply except a list of many thousand connections.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

#[test]
fn the_mode_is_read_from_its_line() {
    let answer = "Zookeeper version: 3.8.0\nLatency min/avg/max: 0/0.0/0\nMode: follower\nNode count: 5\n";
    assert_eq!(mode_of(answer), Some(Mode::Follower));
    assert_eq!(mode_of("This ZooKeeper instance is not currently serving requests\n"), None);
    assert_eq!(mode_of("Mode: pondering\n"), None);
}
