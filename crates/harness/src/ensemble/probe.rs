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

    /// The role of the server and the last transaction that it has applied, from one reply.
    pub fn mode_and_zxid(self) -> Option<(Mode, u64)> {
        let answer = self.ask("srvr")?;
        Some((mode_of(&answer)?, zxid_of(&answer)?))
    }

    /// The last transaction that the server has applied.
    pub fn zxid(self) -> Option<u64> {
        self.ask("srvr").as_deref().and_then(zxid_of)
    }

    /// The epoch of the last applied transaction.
    pub fn epoch(self) -> Option<u64> {
        self.zxid().map(|zxid| zxid >> 32)
    }

    /// The number of connections of the server, including that of the probe itself.
    pub fn connections(self) -> Option<usize> {
        self.field("Connections: ")?.parse().ok()
    }

    /// The number of packets that the server has received from clients.
    pub fn received(self) -> Option<f64> {
        self.field("Received: ")?.parse().ok()
    }

    /// A number of the server's `mntr` page.
    pub fn number(self, name: &str) -> Option<f64> {
        let page = self.ask("mntr")?;
        page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('\t')?.trim().parse().ok())
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

fn zxid_of(srvr: &str) -> Option<u64> {
    let zxid = srvr.lines().find_map(|line| line.strip_prefix("Zxid: 0x"))?;
    u64::from_str_radix(zxid.trim(), 16).ok()
}

/// A running server answers in a millisecond, a stopped one never does.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Larger than any reply except a list of many thousand connections.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

#[test]
fn mode_and_zxid_are_read_from_their_lines() {
    let answer = "Zookeeper version: 3.8.0\nLatency min/avg/max: 0/0.0/0\nZxid: 0x30000002a\nMode: follower\n";
    assert_eq!((mode_of(answer), zxid_of(answer)), (Some(Mode::Follower), Some(0x3_0000_002a)));
    assert_eq!(mode_of("This ZooKeeper instance is not currently serving requests\n"), None);
    assert_eq!(mode_of("Mode: pondering\n"), None);
}
