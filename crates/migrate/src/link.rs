//! Follows the leader of Apache's ensemble over sockets: finds it, runs [`Learner`] and [`Replica`], and reconnects.
//!
//! Only the leader listens on its port for learners, so the server that accepts a connection there is the leader, or is
//! about to be. A leader that does not answer, or is silent for longer than its own `syncLimit`, is given up.
//!
//! Everything runs on the caller's thread. The caller is told of progress several times a second, except while a
//! connection is encrypted, and decides when to stop.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pole_types::{Epoch, ServerId, Zxid};

use crate::learner::{Effect, Learner, Limits, ProtocolError, Start};
use crate::replica::{Replica, ReplicaError};
use crate::servers::{ApacheServer, connect};

/// The ensemble to follow.
#[derive(Clone, Debug)]
pub struct Follow {
    /// All servers of its configuration.
    pub servers: Vec<ApacheServer>,
    /// The id of the observer.
    pub id: ServerId,
    /// `tickTime` times `initLimit`: how long a leader may take to be established, and to send the next part of its state.
    pub init_limit: Duration,
    /// `tickTime` times `syncLimit`: how long it may be silent afterwards.
    pub sync_limit: Duration,
    /// Limits on what it may send.
    pub limits: Limits,
    /// How the ensemble encrypts the links between its servers, if it does.
    pub encryption: Option<Encryption>,
}

/// A connection to a leader.
pub trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// Encrypts a connection to the given host. Reads and writes have to keep the time limits of the socket.
pub type Encrypt = dyn Fn(TcpStream, &str) -> io::Result<Box<dyn Stream>>;

/// How connections to servers are encrypted.
#[derive(Clone)]
pub struct Encryption(pub Arc<Encrypt>);

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Encryption")
    }
}

/// How far the copy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The leader, while there is a connection.
    pub leader: Option<ServerId>,
    /// The last transaction here, durable.
    pub last: Zxid,
    /// The last epoch adopted.
    pub epoch: Epoch,
    /// Whether the copy had everything that the leader had committed when it connected, and follows since.
    pub up_to_date: bool,
    /// The leader's last proposal, as of its last ping.
    pub proposed: Option<Zxid>,
    /// The servers of the ensemble, as the last leader knows them; empty if none has said.
    pub members: BTreeSet<ServerId>,
    /// Received from all leaders.
    pub bytes: u64,
    /// The number of znodes and sessions.
    pub nodes: usize,
    /// The number of sessions.
    pub sessions: usize,
    /// Why the last connection ended.
    pub failure: Option<String>,
}

/// What the caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Go on.
    Continue,
    /// Return.
    Stop,
}

/// Why a copy cannot follow.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The directory failed.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// The ensemble cannot be followed like this, however often it is tried.
    #[error(transparent)]
    Protocol(ProtocolError),
}

/// Why one connection ended.
enum Ended {
    Stopped,
    Broken(String),
    Fatal(FollowError),
}

impl From<ReplicaError> for Ended {
    fn from(error: ReplicaError) -> Self {
        match error {
            // The leader sent it; another one may do better.
            ReplicaError::Transaction { .. } => Self::Broken(error.to_string()),
            ReplicaError::Open(_) | ReplicaError::Write(_) | ReplicaError::Truncation { .. } => {
                Self::Fatal(error.into())
            }
        }
    }
}

impl From<ProtocolError> for Ended {
    fn from(error: ProtocolError) -> Self {
        // However often it is tried, these stay.
        if matches!(error, ProtocolError::IdTaken { .. } | ProtocolError::Version { .. }) {
            Self::Fatal(FollowError::Protocol(error))
        } else {
            Self::Broken(error.to_string())
        }
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

impl Follow {
    /// Follows until `watch` says stop. It is called several times a second, and after every batch.
    ///
    /// # Errors
    /// If the directory fails, or the ensemble cannot be followed at all.
    pub fn run(&self, replica: &mut Replica, watch: &mut dyn FnMut(&Progress) -> Control) -> Result<(), FollowError> {
        let mut progress = Progress {
            leader: None,
            last: replica.last(),
            epoch: replica.epochs().1,
            up_to_date: false,
            proposed: None,
            members: BTreeSet::new(),
            bytes: 0,
            nodes: replica.tree().node_count(),
            sessions: replica.tree().session_count(),
            failure: None,
        };
        let mut pause = PAUSE_MIN;
        loop {
            for server in &self.servers {
                if watch(&progress) == Control::Stop {
                    return Ok(());
                }
                let Ok(socket) = connect(&server.host, server.quorum_port, CONNECT_LIMIT.min(self.sync_limit)) else {
                    continue;
                };
                let ended = match self.open(socket, &server.host) {
                    Ok(stream) => {
                        progress.leader = Some(server.id);
                        Connection { follow: self, stream, progress: &mut progress, replica, watch }.run()
                    }
                    Err(error) => error.into(),
                };
                (progress.leader, progress.proposed) = (None, None);
                if progress.up_to_date {
                    pause = PAUSE_MIN;
                }
                progress.up_to_date = false;
                match ended {
                    Ended::Stopped => return Ok(()),
                    Ended::Fatal(error) => return Err(error),
                    Ended::Broken(why) => progress.failure = Some(format!("{server}: {why}")),
                }
            }
            let until = Instant::now() + pause;
            while Instant::now() < until {
                if watch(&progress) == Control::Stop {
                    return Ok(());
                }
                std::thread::sleep(TURN.min(until.saturating_duration_since(Instant::now())));
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Prepares a connection.
    fn open(&self, socket: TcpStream, host: &str) -> io::Result<Box<dyn Stream>> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TURN))?;
        socket.set_write_timeout(Some(self.sync_limit))?;
        match &self.encryption {
            Some(Encryption(encrypt)) => encrypt(socket, host),
            None => Ok(Box::new(socket)),
        }
    }
}

/// One connection.
struct Connection<'a> {
    follow: &'a Follow,
    stream: Box<dyn Stream>,
    progress: &'a mut Progress,
    replica: &'a mut Replica,
    watch: &'a mut dyn FnMut(&Progress) -> Control,
}

impl Connection<'_> {
    fn run(mut self) -> Ended {
        match self.follow() {
            Ok(()) => Ended::Stopped,
            Err(ended) => ended,
        }
    }

    /// Returns when the caller wants to stop.
    fn follow(&mut self) -> Result<(), Ended> {
        let (accepted, current) = self.replica.epochs();
        let start = Start { id: self.follow.id, accepted, current, last: self.replica.last() };
        let (mut learner, first) = Learner::new(start, self.follow.limits);
        self.stream.write_all(&first)?;
        let mut heard = Instant::now();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(Ended::Broken("the leader closed the connection".to_owned())),
                Ok(count) => {
                    heard = Instant::now();
                    self.progress.bytes += count as u64;
                    let effects = learner.receive(&buffer[..count])?;
                    self.perform(effects)?;
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            if (self.watch)(self.progress) == Control::Stop {
                return Ok(());
            }
            let limit = if self.progress.up_to_date { self.follow.sync_limit } else { self.follow.init_limit };
            if heard.elapsed() > limit {
                return Err(Ended::Broken(format!("the leader was silent for {limit:?}")));
            }
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) -> Result<(), Ended> {
        for effect in effects {
            match effect {
                Effect::Send(bytes) => {
                    self.replica.flush()?;
                    self.stream.write_all(&bytes)?;
                }
                Effect::UpToDate => (self.progress.up_to_date, self.progress.failure) = (true, None),
                Effect::Proposed(zxid) => self.progress.proposed = Some(zxid),
                Effect::Changed => return Err(Ended::Broken("the servers of the ensemble have changed".to_owned())),
                Effect::Adopt { epoch, members } => {
                    self.progress.members.clone_from(&members);
                    self.replica.perform(Effect::Adopt { epoch, members })?;
                }
                effect @ (Effect::Accept(_)
                | Effect::Truncate(_)
                | Effect::Restore(..)
                | Effect::Reapply(_)
                | Effect::Commit(_)) => self.replica.perform(effect)?,
            }
        }
        self.replica.flush()?;
        self.progress.last = self.replica.last();
        self.progress.epoch = self.replica.epochs().1;
        self.progress.nodes = self.replica.tree().node_count();
        self.progress.sessions = self.replica.tree().session_count();
        Ok(())
    }
}

/// How long a read waits, and therefore how often the caller is told of progress.
const TURN: Duration = Duration::from_millis(20);

/// Servers of an ensemble are near each other; a host that is off would otherwise cost minutes.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);

/// Pauses between two rounds over all servers. The first one is short, because a new leader is elected within a second.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Large enough to make the cost of system calls negligible.
const BUFFER_BYTES: usize = 256 << 10;
