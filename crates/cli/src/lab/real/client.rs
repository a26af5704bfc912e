//! A client of an experiment: writes 1 kB at even intervals, whether or not the earlier writes are answered (open
//! loop).
//!
//! One thread sends on schedule and another reads the replies, so that a slow server does not delay the next write.
//! The result is one sample for each answered write: when it was sent, and how long it took. When its server dies,
//! the client connects to the nearest one that is alive. Writes without a reply, or with an error, give no sample. As
//! in the simulator there is no emulated link between a client and its own server.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pole_client::blocking::Connection;
use pole_client::{Completed, Error, Frames, Received, SessionState, create, set_data};
use pole_jute::CreateMode;
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
            let opened = self.ports.iter().find_map(|port| Opened::open(*port, self.server).ok());
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
        loop {
            match wakes.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Wake::Closed(closed)) if closed == number => return false,
                // An earlier connection.
                Ok(Wake::Closed(_)) => {}
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => {
                    let bytes = reader.exchange().write(self.server, Instant::now());
                    if (&*reader.stream).write_all(&bytes).is_err() {
                        return false;
                    }
                    *due += self.interval;
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
    exchange: Arc<Mutex<Exchange>>,
    thread: JoinHandle<Vec<Sample>>,
}

/// The session and the bytes of its connection. Each write is tagged with the time when it was sent.
struct Exchange {
    state: SessionState<Instant>,
    frames: Frames,
}

impl Exchange {
    /// The next write, as bytes to send.
    fn write(&mut self, server: u64, now: Instant) -> Bytes {
        self.state.send(&mut self.frames, set_data(&path(server), &[b'.'; WRITE_BYTES]), now);
        self.frames.take_output()
    }

    /// Takes bytes that arrived, and returns the writes that they complete.
    fn receive(&mut self, bytes: &[u8]) -> Result<Vec<Completed<Instant>>, Error> {
        self.frames.input().extend_from_slice(bytes);
        let mut completed = Vec::new();
        while let Some(frame) = self.frames.next_frame()? {
            if let Received::Reply(done) = self.state.receive(frame)? {
                completed.push(done);
            }
        }
        Ok(completed)
    }
}

impl ReplyReader {
    fn start(opened: Opened, server: u64, start: Instant, number: usize, wake: &Sender<Wake>) -> Self {
        let (stream, exchange) = (Arc::new(opened.stream), Arc::new(Mutex::new(opened.exchange)));
        let (source, shared, wake) = (Arc::clone(&stream), Arc::clone(&exchange), wake.clone());
        let thread = thread::spawn(move || {
            let mut samples = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = (&*source).read(&mut buffer) {
                let now = Instant::now();
                let Ok(completed) = lock(&shared).receive(&buffer[..read]) else { break };
                let answered = completed.into_iter().filter(|done| done.result.is_ok());
                samples.extend(answered.map(|done| sample(done.tag, now, server, start)));
            }
            // An error means that the client has stopped.
            let _ = wake.send(Wake::Closed(number));
            samples
        });
        Self { stream, exchange, thread }
    }

    fn exchange(&self) -> MutexGuard<'_, Exchange> {
        lock(&self.exchange)
    }

    fn end(self) -> Vec<Sample> {
        // An error means that the connection is closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.thread.join().unwrap_or_default()
    }
}

fn lock(exchange: &Mutex<Exchange>) -> MutexGuard<'_, Exchange> {
    exchange.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sample(sent: Instant, now: Instant, server: u64, start: Instant) -> Sample {
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Sample { asked: nanos(sent.duration_since(start)), home: server, took: nanos(now.duration_since(sent)) }
}

/// A connection with a session and an existing node to write to.
struct Opened {
    stream: TcpStream,
    exchange: Exchange,
}

impl Opened {
    fn open(port: u16, server: u64) -> Result<Self, Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, OPEN_LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(OPEN_LIMIT))?;
        let mut state = SessionState::new(SESSION_TIMEOUT);
        let mut connection = Connection::new(stream);
        let response = connection.open(&state.connect_request())?;
        state.accepted(response, connection.frames());
        state.send(connection.frames(), create(&path(server), b"", CreateMode::Persistent), Instant::now());
        connection.flush()?;
        // The node may exist already.
        state.receive(connection.frame()?)?;
        let (stream, frames) = connection.into_parts();
        stream.set_read_timeout(None)?;
        Ok(Self { stream, exchange: Exchange { state, frames } })
    }
}

fn path(server: u64) -> String {
    format!("/experiment-{server}")
}

/// As in the paper.
const WRITE_BYTES: usize = 1_000;
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// For opening a session and creating a node, also while a leader is elected.
const OPEN_LIMIT: Duration = Duration::from_secs(2);
/// The delay before all servers are tried again.
const RETRY: Duration = Duration::from_millis(20);
