//! A client of an experiment: writes of 1 kB at even intervals, whether or not the earlier ones are answered.
//!
//! In: the servers, nearest first, and a rate. Out: when each answered write was asked, and how long it took.
//! How: one thread sends on time, another hears the answers, so that a slow server slows nobody down (open loop).
//! Holds: when its server dies it goes to the nearest that lives; writes without an answer, or with an error for one, are
//! no samples. As in the simulator it stands beside its server: no link lies between the two.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use pole_jute::{
    Acl, ConnectRequest, CreateMode, CreateRequest, Deframer, ErrorCode, Id, Perms, Reader, Record as _, ReplyHeader,
    Request, RequestHeader, SetDataRequest, Writer,
};
use pole_lab::sim::Sample;

/// Who writes, and how often.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// The server beside which it stands.
    pub(crate) home: u64,
    /// Client ports, the nearest first.
    pub(crate) ports: Vec<u16>,
    pub(crate) interval: Duration,
    /// The first write, so that clients do not all write in the same moment.
    pub(crate) first: Duration,
    /// What times are counted from.
    pub(crate) zero: Instant,
}

/// What a client is woken by before its time.
pub(crate) enum Wake {
    /// It is enough.
    Stop,
    /// This connection has ended, the first having the number 0.
    Closed(usize),
}

impl Client {
    /// Writes until it is told to stop, or nobody could tell it any more; its samples.
    pub(crate) fn run(&self, wake: &Sender<Wake>, wakes: &Receiver<Wake>) -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut due = Instant::now() + self.first;
        for number in 0.. {
            let opened = self.ports.iter().find_map(|port| Connection::open(*port, self.home).ok());
            let is_enough = match opened {
                Some(opened) => {
                    // What was due in between is not made up for.
                    while due < Instant::now() {
                        due += self.interval;
                    }
                    let hearing = Hearing::start(opened, self.home, self.zero, number, wake);
                    let is_enough = self.write(&hearing, number, &mut due, wakes);
                    samples.extend(hearing.end());
                    is_enough
                }
                None => is_stop(wakes.recv_timeout(RETRY)),
            };
            if is_enough {
                break;
            }
        }
        samples
    }

    /// Writes on one connection; false if it breaks, true if it is enough.
    fn write(&self, hearing: &Hearing, number: usize, due: &mut Instant, wakes: &Receiver<Wake>) -> bool {
        let request = write(self.home);
        let mut xid = FIRST_XID;
        loop {
            match wakes.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Wake::Closed(closed)) if closed == number => return false,
                // An earlier one: that is known.
                Ok(Wake::Closed(_)) => {}
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => {
                    hearing.asked().push_back((xid, Instant::now()));
                    if (&*hearing.stream).write_all(&frame(xid, &request)).is_err() {
                        return false;
                    }
                    *due += self.interval;
                    xid += 1;
                }
            }
        }
    }
}

fn is_stop(woken: Result<Wake, RecvTimeoutError>) -> bool {
    matches!(woken, Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected))
}

/// A connection whose answers are heard on a thread of their own.
struct Hearing {
    stream: Arc<TcpStream>,
    asked: Arc<Mutex<Asked>>,
    thread: JoinHandle<Vec<Sample>>,
}

/// Writes under way, in the order in which they were asked.
type Asked = VecDeque<(i32, Instant)>;

impl Hearing {
    fn start(opened: Connection, home: u64, zero: Instant, number: usize, wake: &Sender<Wake>) -> Self {
        let Connection { stream, mut frames } = opened;
        let (stream, asked) = (Arc::new(stream), Arc::new(Mutex::new(Asked::new())));
        let (heard_from, waiting, wake) = (Arc::clone(&stream), Arc::clone(&asked), wake.clone());
        let thread = thread::spawn(move || {
            let mut samples = Vec::new();
            while let Ok(frame) = frames.next(&heard_from) {
                samples.extend(answered(frame, &mut lock(&waiting), home, zero));
            }
            // Whoever is not there any more need not know.
            let _ = wake.send(Wake::Closed(number));
            samples
        });
        Self { stream, asked, thread }
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        lock(&self.asked)
    }

    fn end(self) -> Vec<Sample> {
        // An error means that it has ended already.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.thread.join().unwrap_or_default()
    }
}

fn lock(asked: &Mutex<Asked>) -> MutexGuard<'_, Asked> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sample of an answer. Answers come in the order of the questions.
fn answered(frame: Bytes, asked: &mut Asked, home: u64, zero: Instant) -> Option<Sample> {
    let now = Instant::now();
    let header = ReplyHeader::read(&mut Reader::new(frame)).ok()?;
    let (_, at) = asked.pop_front_if(|(xid, _)| *xid == header.xid)?;
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let sample = Sample { asked: nanos(at.duration_since(zero)), home, took: nanos(now.duration_since(at)) };
    (header.err == ErrorCode::Ok).then_some(sample)
}

/// A connection with a session and a node to write to.
struct Connection {
    stream: TcpStream,
    frames: Frames,
}

impl Connection {
    fn open(port: u16, home: u64) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, OPEN_LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(OPEN_LIMIT))?;
        let mut frames = Frames { arrived: BytesMut::new(), deframer: Deframer::default() };
        let mut out = Writer::new();
        out.frame(|writer| session().write(writer));
        (&stream).write_all(&out.take())?;
        frames.next(&stream)?;
        // That the node exists already is as good.
        (&stream).write_all(&frame(1, &create(home)))?;
        frames.next(&stream)?;
        stream.set_read_timeout(None)?;
        Ok(Self { stream, frames })
    }
}

struct Frames {
    arrived: BytesMut,
    deframer: Deframer,
}

impl Frames {
    fn next(&mut self, mut stream: &TcpStream) -> io::Result<Bytes> {
        loop {
            if let Some(frame) = self.deframer.next(&mut self.arrived).map_err(io::Error::other)? {
                return Ok(frame);
            }
            let mut buffer = [0; 4096];
            match stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.arrived.extend_from_slice(&buffer[..read]),
            }
        }
    }
}

fn frame(xid: i32, request: &Request) -> Bytes {
    let mut out = Writer::new();
    out.frame(|writer| {
        RequestHeader { xid, op: request.op().number() }.write(writer);
        request.write(writer);
    });
    out.take()
}

/// A new session.
fn session() -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout: SESSION_MS,
        session_id: 0,
        passwd: Some(Bytes::from_static(&[0; 16])),
        read_only: Some(false),
    }
}

fn create(home: u64) -> Request {
    let everyone = Acl { perms: Perms::ALL, id: Id { scheme: "world".to_owned(), id: "anyone".to_owned() } };
    let flags = CreateMode::Persistent.number();
    Request::Create(CreateRequest { path: path(home), data: None, acl: vec![everyone], flags })
}

fn write(home: u64) -> Request {
    let data = Some(Bytes::from_static(&[b'.'; WRITE_BYTES]));
    Request::SetData(SetDataRequest { path: path(home), data, version: -1 })
}

fn path(home: u64) -> String {
    format!("/experiment-{home}")
}

/// As in the paper.
const WRITE_BYTES: usize = 1_000;
/// The first write on a connection: what came before it has a smaller number.
const FIRST_XID: i32 = 10;
const SESSION_MS: i32 = 10_000;
/// For a session and a node, also while a leader is elected.
const OPEN_LIMIT: Duration = Duration::from_secs(2);
/// Before all servers are tried again.
const RETRY: Duration = Duration::from_millis(20);
