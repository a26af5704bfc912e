//! The sessions of one process of a [`Crowd`](super::Crowd).
//!
//! A session is a task with a few hundred bytes: it needs no buffers while nothing arrives, because all read into the
//! same one. After a broken connection it waits at random up to a second and goes on to another server, as Apache's
//! own client does.

use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use pole_client::{Due, Error, Frames, KeepAlive, connect_request, decode_session};
use pole_jute::{ConnectRequest, ErrorCode, Request, Xid};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::{sleep, sleep_until, timeout};

use super::{Counts, watched};
use crate::client::{drive, exists};
use crate::rng::Rng;
use crate::{Failure, arguments};

/// Opens sessions and keeps them, as told on standard input. Started by other tools.
#[derive(Debug, Parser)]
struct Options {
    /// The number of sessions.
    #[arg(long)]
    sessions: usize,
    /// The number of this process, from which it chooses its addresses.
    #[arg(long)]
    group: u8,
    /// The session timeout that is asked for.
    #[arg(long)]
    session_timeout_ms: u64,
    /// The servers.
    #[arg(required = true)]
    servers: Vec<SocketAddr>,
}

/// Runs a process of sessions until its input ends.
pub fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let options: Options = arguments("crowd", args)?;
    raise_files_max();
    drive(serve_commands(options))?;
    Ok(ExitCode::SUCCESS)
}

/// Allows this process, and the servers that it starts, as many open files as it may.
pub fn raise_files_max() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    // Without permission the old limit stays, and connections beyond it fail.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

async fn serve_commands(options: Options) -> Result<(), Failure> {
    let board = Rc::new(Board::default());
    let (watches, _) = watch::channel(0);
    let total = options.sessions as u64;
    let mut events_before = 0;
    let mut commands = commands();
    while let Some(line) = commands.recv().await {
        let mut words = line.split(' ');
        let (command, number) =
            (words.next().unwrap_or_default(), words.next().and_then(|word| word.parse::<u64>().ok()));
        let answer = match (command, number) {
            ("open", None) => {
                open_all(&options, &board, &watches);
                board.until(|counts| counts.connected == total).await;
                DONE.to_owned()
            }
            ("connected", None) => {
                board.until(|counts| counts.connected + counts.expired == total).await;
                DONE.to_owned()
            }
            ("watch", Some(nodes)) => {
                events_before = board.counts.get().events;
                watches.send_replace(nodes as u32);
                board.until(|_| board.watching.get() == total || board.counts.get().broken > 0).await;
                let broken = board.counts.get().broken;
                if broken == 0 {
                    DONE.to_owned()
                } else {
                    format!("{broken} connections broke, and their watches with them")
                }
            }
            ("events", Some(events)) => {
                board.until(|counts| counts.events >= events_before + events).await;
                DONE.to_owned()
            }
            ("counts", None) => board.counts.get().line(),
            _ => format!("unknown command `{line}`"),
        };
        let mut output = std::io::stdout().lock();
        if writeln!(output, "{answer}").and_then(|()| output.flush()).is_err() {
            break;
        }
    }
    Ok(())
}

/// The lines of standard input, read by a thread of their own.
fn commands() -> mpsc::UnboundedReceiver<String> {
    let (sender, commands) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    commands
}

/// What the sessions of this process share.
#[derive(Default)]
struct Board {
    counts: Cell<Counts>,
    /// Sessions that have set all watches they were told to.
    watching: Cell<u64>,
    changed: Notify,
    /// The buffer that every session reads into.
    buffer: RefCell<Vec<u8>>,
}

impl Board {
    fn change(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
        self.changed.notify_waiters();
    }

    async fn until(&self, is_reached: impl Fn(Counts) -> bool) {
        loop {
            // Registered before the check, so that no change is missed in between.
            let changed = self.changed.notified();
            if is_reached(self.counts.get()) {
                return;
            }
            changed.await;
        }
    }
}

fn open_all(options: &Options, board: &Rc<Board>, watches: &watch::Sender<u32>) {
    board.buffer.borrow_mut().resize(READ_BYTES_MAX, 0);
    let opening = Rc::new(Semaphore::new(OPENING_MAX));
    for number in 0..options.sessions {
        let member = Member {
            servers: options.servers.clone(),
            current: number % options.servers.len(),
            // Each address of loopback has its own ports.
            source: Ipv4Addr::new(127, 1, options.group, 1 + (number % SOURCES) as u8),
            request: connect_request(Duration::from_millis(options.session_timeout_ms)),
            frames: Frames::default(),
            rng: Rng::new((usize::from(options.group) * options.sessions + number) as u64),
            board: Rc::clone(board),
            watches: watches.subscribe(),
            to_watch: 0,
            unanswered: 0,
        };
        tokio::task::spawn_local(member.run(Rc::clone(&opening)));
    }
}

/// One session.
struct Member {
    servers: Vec<SocketAddr>,
    current: usize,
    source: Ipv4Addr,
    /// Opens the session, and then resumes it.
    request: ConnectRequest,
    frames: Frames,
    rng: Rng,
    board: Rc<Board>,
    watches: watch::Receiver<u32>,
    /// Nodes on which a watch is still to be set.
    to_watch: u32,
    /// Requests that set a watch and have no reply.
    unanswered: u32,
}

impl Member {
    async fn run(mut self, opening: Rc<Semaphore>) {
        let mut turn = opening.acquire().await.ok();
        loop {
            match self.connect().await {
                Ok(stream) => {
                    turn = None;
                    self.board.change(|counts| counts.connected += 1);
                    // How it ended does not matter: a session has no other way to end than to be refused.
                    let _ = self.serve(&stream).await;
                    self.board.change(|counts| {
                        counts.connected -= 1;
                        counts.broken += 1;
                    });
                }
                Err(Error::Expired) => {
                    self.board.change(|counts| counts.expired += 1);
                    return;
                }
                // Tried again like after any other end.
                Err(_) => (),
            }
            if turn.is_none() || self.servers.len() > 1 {
                let others = self.servers.len().saturating_sub(1).max(1);
                self.current = (self.current + 1 + self.rng.below(others)) % self.servers.len();
            }
            sleep(self.rng.between(Duration::ZERO, RECONNECT_PAUSE_MAX)).await;
        }
    }

    async fn connect(&mut self) -> Result<TcpStream, Error> {
        self.frames = Frames::default();
        // An Apache client waits for an answer as long: its timeout, divided by the number of servers.
        let limit = Duration::from_millis(u64::try_from(self.request.timeout).unwrap_or_default())
            / u32::try_from(self.servers.len()).unwrap_or(1);
        timeout(limit, async {
            let socket = TcpSocket::new_v4()?;
            socket.bind((self.source, 0).into())?;
            let stream = socket.connect(self.servers[self.current]).await?;
            stream.set_nodelay(true)?;
            self.frames.connect(&self.request);
            self.flush(&stream).await?;
            let response = loop {
                match self.frames.next_frame()? {
                    Some(frame) => break decode_session(frame)?,
                    None => {
                        stream.readable().await?;
                        self.read(&stream)?;
                    }
                }
            };
            self.request.session_id = response.session_id;
            self.request.passwd = response.passwd;
            self.request.timeout = response.timeout;
            Ok(stream)
        })
        .await
        .map_err(|_| Error::Silent(limit))?
    }

    async fn serve(&mut self, stream: &TcpStream) -> Result<(), Error> {
        let silence_max = Duration::from_millis(u64::try_from(self.request.timeout).unwrap_or_default());
        let mut timers = KeepAlive::new(silence_max, Instant::now());
        loop {
            let wake = match timers.due(Instant::now()) {
                Due::Silent => return Err(Error::Silent(silence_max)),
                Due::Ping => {
                    self.frames.send(Xid::PING, &Request::Ping);
                    self.board.change(|counts| counts.pings += 1);
                    continue;
                }
                Due::At(time) => time,
            };
            self.set_watches();
            self.flush(stream).await?;
            tokio::select! {
                ready = stream.readable() => {
                    ready?;
                    self.read(stream)?;
                    timers.received(Instant::now());
                    self.take_frames()?;
                }
                changed = self.watches.changed() => match changed {
                    Ok(()) => self.to_watch = *self.watches.borrow_and_update(),
                    // The process ends.
                    Err(_) => return Ok(()),
                },
                () = sleep_until(wake.into()) => (),
            }
        }
    }

    /// Sends the next requests that set watches, if the last ones are answered.
    fn set_watches(&mut self) {
        if self.unanswered > 0 {
            return;
        }
        for _ in 0..self.to_watch.min(WATCHES_PER_BATCH) {
            self.to_watch -= 1;
            let Request::Exists(mut request) = exists(&watched(self.to_watch)) else { return };
            request.watch = true;
            self.unanswered += 1;
            self.frames.send(1, &Request::Exists(request));
        }
    }

    fn take_frames(&mut self) -> Result<(), Error> {
        let mut events = 0;
        while let Some(frame) = self.frames.next_frame()? {
            match header(&frame) {
                Some((Xid::NOTIFICATION, _, _)) => events += 1,
                Some((Xid::PING, zxid, _)) => self.request.last_zxid_seen = self.request.last_zxid_seen.max(zxid),
                Some((_, _, code)) if code != ErrorCode::Ok.number() => {
                    return Err(Error::Refused(ErrorCode::from_number(code).unwrap_or(ErrorCode::SystemError)));
                }
                Some((_, zxid, _)) => {
                    self.request.last_zxid_seen = self.request.last_zxid_seen.max(zxid);
                    self.unanswered = self.unanswered.saturating_sub(1);
                    if self.unanswered == 0 && self.to_watch == 0 {
                        self.board.watching.set(self.board.watching.get() + 1);
                        self.board.change(|_| ());
                    }
                }
                None => return Err(Error::Closed),
            }
        }
        if events > 0 {
            self.board.change(|counts| counts.events += events);
        }
        Ok(())
    }

    fn read(&mut self, stream: &TcpStream) -> Result<(), Error> {
        let mut buffer = self.board.buffer.borrow_mut();
        match stream.try_read(&mut buffer) {
            Ok(0) => Err(Error::Closed),
            Ok(read) => {
                self.frames.input().extend_from_slice(&buffer[..read]);
                Ok(())
            }
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    async fn flush(&mut self, stream: &TcpStream) -> Result<(), Error> {
        let mut bytes = self.frames.take_output();
        while !bytes.is_empty() {
            stream.writable().await?;
            match stream.try_write(&bytes) {
                Ok(written) => drop(bytes.split_to(written)),
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => (),
                Err(why) => return Err(why.into()),
            }
        }
        Ok(())
    }
}

/// Xid, zxid and error code of a reply.
fn header(frame: &Bytes) -> Option<(i32, i64, i32)> {
    let xid = i32::from_be_bytes(*frame.first_chunk()?);
    let zxid = i64::from_be_bytes(*frame.get(4..)?.first_chunk()?);
    let code = i32::from_be_bytes(*frame.get(12..)?.first_chunk()?);
    Some((xid, zxid, code))
}

/// The answer to a command that is carried out.
pub(super) const DONE: &str = "done";

/// Sessions of a process that are being opened at the same time: more would overflow the queues of the listeners, and
/// the pauses of TCP before it tries again would be measured.
pub(super) const OPENING_MAX: usize = 250;

/// The longest pause before a session connects again, as in Apache's client.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Addresses of loopback from which one process connects.
const SOURCES: usize = 4;

/// Requests in flight of one session while it sets watches. All sessions together stay below what servers queue.
const WATCHES_PER_BATCH: u32 = 20;

const READ_BYTES_MAX: usize = 64 << 10;
