//! A client of an experiment: writes 1 kB at even intervals, whether or not the earlier writes are answered (open
//! loop).
//!
//! One thread sends on schedule and another reads the replies, so that a slow server does not delay the next write.
//! The result is one sample for each answered write: when it was sent, and how long it took. When its server dies,
//! the client connects to the nearest one that is alive. Writes without a reply, or with an error, give no sample. As
//! in the simulator there is no emulated link between a client and its own server.

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
use pole_sim::Sample;

/// A client with its schedule.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// The server at the client's site.
    pub(crate) server: u64,
    /// Client ports, nearest server first.
    pub(crate) ports: Vec<u16>,
    pub(crate) interval: Duration,
    /// The delay before the first write, so that clients do not all write at the same time.
    pub(crate) first: Duration,
    /// The origin of all times.
    pub(crate) start: Instant,
}

/// Wakes a client before its next write is due.
pub(crate) enum Wake {
    Stop,
    /// The connection with this number has ended, counted from 0.
    Closed(usize),
}

impl Client {
    /// Writes until [`Wake::Stop`] or until the channel is closed, and returns the samples.
    pub(crate) fn run(&self, wake: &Sender<Wake>, wakes: &Receiver<Wake>) -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut due = Instant::now() + self.first;
        for number in 0.. {
            let opened = self.ports.iter().find_map(|port| Connection::open(*port, self.server).ok());
            let is_stopped = match opened {
                Some(opened) => {
                    // Writes that were due in between are skipped.
                    while due < Instant::now() {
                        due += self.interval;
                    }
                    let reader = ReplyReader::start(opened, self.server, self.start, number, wake);
                    let is_stopped = self.write(&reader, number, &mut due, wakes);
                    samples.extend(reader.end());
                    is_stopped
                }
                None => is_stop(wakes.recv_timeout(RETRY)),
            };
            if is_stopped {
                break;
            }
        }
        samples
    }

    /// Writes on one connection; false if it breaks, true when the client is to stop.
    fn write(&self, reader: &ReplyReader, number: usize, due: &mut Instant, wakes: &Receiver<Wake>) -> bool {
        let request = write(self.server);
        let mut xid = FIRST_XID;
        loop {
            match wakes.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Wake::Closed(closed)) if closed == number => return false,
                // An earlier connection.
                Ok(Wake::Closed(_)) => {}
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => {
                    reader.pending().push_back((xid, Instant::now()));
                    if (&*reader.stream).write_all(&frame(xid, &request)).is_err() {
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

/// A connection whose replies are read by a thread of its own.
struct ReplyReader {
    stream: Arc<TcpStream>,
    pending: Arc<Mutex<Pending>>,
    thread: JoinHandle<Vec<Sample>>,
}

/// Writes under way, in the order in which they were sent.
type Pending = VecDeque<(i32, Instant)>;

impl ReplyReader {
    fn start(opened: Connection, server: u64, start: Instant, number: usize, wake: &Sender<Wake>) -> Self {
        let Connection { stream, mut frames } = opened;
        let (stream, pending) = (Arc::new(stream), Arc::new(Mutex::new(Pending::new())));
        let (source, sent, wake) = (Arc::clone(&stream), Arc::clone(&pending), wake.clone());
        let thread = thread::spawn(move || {
            let mut samples = Vec::new();
            while let Ok(frame) = frames.next(&source) {
                samples.extend(sample_of(frame, &mut lock(&sent), server, start));
            }
            // An error means that the client has stopped.
            let _ = wake.send(Wake::Closed(number));
            samples
        });
        Self { stream, pending, thread }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        lock(&self.pending)
    }

    fn end(self) -> Vec<Sample> {
        // An error means that the connection is closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.thread.join().unwrap_or_default()
    }
}

fn lock(pending: &Mutex<Pending>) -> MutexGuard<'_, Pending> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sample of a reply. Replies come in the order of the requests.
fn sample_of(frame: Bytes, pending: &mut Pending, server: u64, start: Instant) -> Option<Sample> {
    let now = Instant::now();
    let header = ReplyHeader::read(&mut Reader::new(frame)).ok()?;
    let (_, at) = pending.pop_front_if(|(xid, _)| *xid == header.xid)?;
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let sample = Sample { asked: nanos(at.duration_since(start)), home: server, took: nanos(now.duration_since(at)) };
    (header.err == ErrorCode::Ok).then_some(sample)
}

/// A connection with a session and an existing node to write to.
struct Connection {
    stream: TcpStream,
    frames: Frames,
}

impl Connection {
    fn open(port: u16, server: u64) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, OPEN_LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(OPEN_LIMIT))?;
        let mut frames = Frames { arrived: BytesMut::new(), deframer: Deframer::default() };
        let mut out = Writer::new();
        out.frame(|writer| session().write(writer));
        (&stream).write_all(&out.take())?;
        frames.next(&stream)?;
        // The node may exist already.
        (&stream).write_all(&frame(1, &create(server)))?;
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

fn create(server: u64) -> Request {
    let everyone = Acl { perms: Perms::ALL, id: Id { scheme: "world".to_owned(), id: "anyone".to_owned() } };
    let flags = CreateMode::Persistent.number();
    Request::Create(CreateRequest { path: path(server), data: None, acl: vec![everyone], flags })
}

fn write(server: u64) -> Request {
    let data = Some(Bytes::from_static(&[b'.'; WRITE_BYTES]));
    Request::SetData(SetDataRequest { path: path(server), data, version: -1 })
}

fn path(server: u64) -> String {
    format!("/experiment-{server}")
}

/// As in the paper.
const WRITE_BYTES: usize = 1_000;
/// The xid of the first write on a connection, above those of the setup requests.
const FIRST_XID: i32 = 10;
const SESSION_MS: i32 = 10_000;
/// For opening a session and creating a node, also while a leader is elected.
const OPEN_LIMIT: Duration = Duration::from_secs(2);
/// The delay before all servers are tried again.
const RETRY: Duration = Duration::from_millis(20);
