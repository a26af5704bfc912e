//! What a server says about itself to a command of four letters.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The client port of a server, to ask short questions.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    pub(super) address: SocketAddr,
}

/// The role of a server that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It leads.
    Leader,
    /// It follows.
    Follower,
    /// It follows without a vote.
    Observer,
    /// It is the only one.
    Standalone,
    /// It answers reads without a quorum.
    ReadOnly,
}

impl Probe {
    /// The role, if the server serves.
    pub fn mode(self) -> Option<Mode> {
        self.ask("srvr").as_deref().and_then(mode_of)
    }

    /// The last transaction that the server has applied.
    pub fn zxid(self) -> Option<u64> {
        let zxid = self.field("Zxid: 0x")?;
        u64::from_str_radix(&zxid, 16).ok()
    }

    /// Its epoch.
    pub fn epoch(self) -> Option<u64> {
        self.zxid().map(|zxid| zxid >> 32)
    }

    /// How many connections the server has, with the one that asks.
    pub fn connections(self) -> Option<usize> {
        self.field("Connections: ")?.parse().ok()
    }

    fn field(self, name: &str) -> Option<String> {
        let answer = self.ask("srvr")?;
        answer.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    }

    /// The whole answer to a command; none if there is no server, or it says nothing for a second.
    pub fn ask(self, word: &str) -> Option<String> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
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

/// A server that is well answers in a millisecond; one that is frozen never does.
const PATIENCE: Duration = Duration::from_secs(1);

/// More than any answer but a list of many thousand connections.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

#[test]
fn the_mode_stands_on_a_line_of_its_own() {
    let answer = "Zookeeper version: 3.8.0\nLatency min/avg/max: 0/0.0/0\nMode: follower\nNode count: 5\n";
    assert_eq!(mode_of(answer), Some(Mode::Follower));
    assert_eq!(mode_of("This ZooKeeper instance is not currently serving requests\n"), None);
    assert_eq!(mode_of("Mode: pondering\n"), None);
}
