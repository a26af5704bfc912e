//! The client on a blocking stream.
//!
//! [`Connection`] is a stream with its [`Frames`], for callers that number requests and read replies themselves, or
//! send bytes of their own. [`Session`] asks one request after the other. It neither pings nor reconnects, so its
//! timeout has to be longer than the pauses of its caller.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use pole_jute::{ConnectRequest, ConnectResponse, Reply, Request, WatcherEvent};

use crate::{Completed, Error, Frames, Received, SessionState, decode_session};

/// A stream and the bytes on their way through it.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    frames: Frames,
}

impl<S: Read + Write> Connection<S> {
    /// A connection on which nothing has been sent.
    pub fn new(stream: S) -> Self {
        Self { stream, frames: Frames::default() }
    }

    /// The stream, for its options and for bytes of the caller's own.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// The bytes that are not sent yet, and those that are not used yet.
    pub fn frames(&mut self) -> &mut Frames {
        &mut self.frames
    }

    /// The stream and the bytes, for a caller that reads on one thread and writes on another.
    pub fn into_parts(self) -> (S, Frames) {
        (self.stream, self.frames)
    }

    /// Opens or resumes a session. Fails with [`Error::Expired`] if the server refuses it.
    pub fn open(&mut self, request: &ConnectRequest) -> Result<ConnectResponse, Error> {
        self.frames.connect(request);
        self.flush()?;
        decode_session(self.frame()?)
    }

    /// Sends what is not sent yet.
    pub fn flush(&mut self) -> Result<(), Error> {
        let bytes = self.frames.take_output();
        if !bytes.is_empty() {
            self.stream.write_all(&bytes)?;
            self.stream.flush()?;
        }
        Ok(())
    }

    /// Waits for the next frame.
    pub fn frame(&mut self) -> Result<Bytes, Error> {
        loop {
            match self.frames.next_frame()? {
                Some(frame) => return Ok(frame),
                None => self.fill()?,
            }
        }
    }

    /// Waits for more bytes from the server.
    pub fn fill(&mut self) -> Result<(), Error> {
        // Not a buffer of the connection: an attack opens ten thousand of them.
        let mut piece = [0; READ_BYTES_MAX];
        match self.stream.read(&mut piece)? {
            0 => Err(Error::Closed),
            read => {
                self.frames.input().extend_from_slice(&piece[..read]);
                Ok(())
            }
        }
    }
}

/// A session on one connection.
#[derive(Debug)]
pub struct Session<S = TcpStream> {
    connection: Connection<S>,
    state: SessionState<()>,
    events: Vec<WatcherEvent>,
}

impl Session {
    /// Connects to a server and opens a session with this timeout, which is also the limit of each read and write.
    pub fn connect(address: SocketAddr, timeout: Duration) -> Result<Self, Error> {
        let stream = TcpStream::connect_timeout(&address, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Self::over(stream, timeout)
    }
}

impl<S: Read + Write> Session<S> {
    /// Opens a session over this stream.
    pub fn over(stream: S, timeout: Duration) -> Result<Self, Error> {
        let mut connection = Connection::new(stream);
        let mut state = SessionState::new(timeout);
        let response = connection.open(&state.connect_request())?;
        state.accepted(response, connection.frames());
        Ok(Self { connection, state, events: Vec::new() })
    }

    /// The id that the server gave to the session.
    pub fn id(&self) -> i64 {
        self.state.id()
    }

    /// The connection of the session.
    pub fn stream(&mut self) -> &mut S {
        self.connection.stream()
    }

    /// Sends a request and waits for its reply. An error reply is [`Error::Refused`].
    pub fn ask(&mut self, request: Request) -> Result<Reply, Error> {
        let mut replies = self.ask_all([request])?;
        replies.pop().ok_or(Error::Closed)
    }

    /// Sends requests without waiting in between. Returns their replies, in order, or the first error.
    pub fn ask_all(&mut self, requests: impl IntoIterator<Item = Request>) -> Result<Vec<Reply>, Error> {
        for request in requests {
            self.state.send(self.connection.frames(), request, ());
        }
        self.connection.flush()?;
        let mut replies = Vec::new();
        while self.state.in_flight() > 0 {
            let frame = self.connection.frame()?;
            match self.state.receive(frame)? {
                Received::Reply(Completed { result, removed_watches, .. }) => {
                    self.events.extend(removed_watches);
                    replies.push(result);
                }
                Received::Event(event) => self.events.push(event),
                Received::Nothing => {}
            }
        }
        replies.into_iter().map(|result| result.map_err(Error::Refused)).collect()
    }

    /// Takes the events that arrived before the replies so far.
    pub fn take_events(&mut self) -> Vec<WatcherEvent> {
        std::mem::take(&mut self.events)
    }
}

/// The most that one read takes.
const READ_BYTES_MAX: usize = 16 << 10;
