//! A small HTTP/1.1 client for the stores with HTTP interfaces: etcd, Consul, Kubernetes.
//!
//! It keeps a few idle connections, moves to the next server when one does not answer, and reads an answer whole
//! ([`Client::call`]) or line by line ([`Client::stream`]). It never sends a request twice: a connection that turns out
//! to be closed fails the call with [`Error::Unavailable`], unless nothing was sent.

#![cfg_attr(not(feature = "all-stores"), allow(dead_code, reason = "each store uses a part of it"))]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;

use super::tls;
use crate::store::Error;

/// A client of one group of equal servers.
pub(super) struct Client {
    /// `host:port` of each server.
    servers: Vec<String>,
    /// The index of the server that is used for new connections, modulo their number.
    current: AtomicUsize,
    tls: Option<Arc<ClientConfig>>,
    /// Sent with every request.
    headers: Vec<(HeaderName, HeaderValue)>,
    idle: Mutex<Vec<Connection>>,
}

/// A whole answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    /// The body as JSON.
    pub(super) fn json(&self) -> Result<serde_json::Value, Error> {
        serde_json::from_slice(&self.body).map_err(|why| Error::damaged(format!("an answer is not JSON: {why}")))
    }

    /// The start of the body, for error messages.
    pub(super) fn text(&self) -> String {
        let start = &self.body[..self.body.len().min(ERROR_TEXT_MAX)];
        String::from_utf8_lossy(start).trim().to_owned()
    }

    /// An error for an answer that is not expected: the operator's if the status says so, else temporary.
    pub(super) fn error(&self, what: &str) -> Error {
        let text = format!("{what}: HTTP status {}: {}", self.status, self.text());
        if matches!(self.status, 400 | 401 | 403 | 422) { Error::refused(text) } else { Error::unavailable(text) }
    }
}

struct Connection {
    host: String,
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    pub(super) fn new(servers: Vec<String>, tls: Option<Arc<ClientConfig>>) -> Self {
        Self { servers, current: AtomicUsize::new(0), tls, headers: Vec::new(), idle: Mutex::default() }
    }

    /// Adds a header to all requests.
    pub(super) fn header(mut self, name: &'static str, value: &str, secret: bool) -> Result<Self, Error> {
        let mut value = HeaderValue::from_str(value).map_err(|_| Error::refused(format!("invalid value of {name}")))?;
        value.set_sensitive(secret);
        self.headers.push((HeaderName::from_static(name), value));
        Ok(self)
    }

    /// Sends a request and reads the whole answer.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<Answer, Error> {
        let mut turn = Turn { client: self, answered: false };
        let (connection, response) = self.send(call).await?;
        let (parts, body) = response.into_parts();
        let body = read_all(body).await?;
        turn.answered = parts.status.as_u16() < 500;
        self.keep(connection);
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    /// Sends a request whose answer comes line by line. An answer with another status than 200 is an error.
    pub(super) async fn stream(&self, call: Call<'_>) -> Result<Result<Lines, Answer>, Error> {
        let mut turn = Turn { client: self, answered: false };
        let (connection, response) = self.send(call).await?;
        let (parts, body) = response.into_parts();
        turn.answered = true;
        if parts.status == 200 {
            return Ok(Ok(Lines { body, buffer: BytesMut::new(), _connection: connection }));
        }
        let body = read_all(body).await?;
        Ok(Err(Answer { status: parts.status.as_u16(), headers: parts.headers, body }))
    }

    async fn send(&self, call: Call<'_>) -> Result<(Connection, Response<Incoming>), Error> {
        let mut connection = self.connection().await?;
        let mut request = Request::builder().method(call.method).uri(call.path).header(HOST, &connection.host);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some((name, value)) = call.header {
            request = request.header(name, value);
        }
        if !call.body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(call.body)).map_err(Error::refused)?;
        let response = connection.sender.send_request(request).await;
        let response = response.map_err(|why| Error::unavailable(format!("{}: {}", connection.host, reason(&why))))?;
        Ok((connection, response))
    }

    /// An idle connection that is still open, else a new one.
    async fn connection(&self) -> Result<Connection, Error> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut connection) = idle else { break };
            if !connection.sender.is_closed() && connection.sender.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        let mut last = None;
        for _ in &self.servers {
            let server = &self.servers[self.current.load(Ordering::Relaxed) % self.servers.len()];
            match self.open(server).await {
                Ok(connection) => return Ok(connection),
                Err(why) => {
                    last = Some(why);
                    self.current.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Err(last.unwrap_or_else(|| Error::refused("no server given")))
    }

    async fn open(&self, server: &str) -> Result<Connection, Error> {
        let stream = tls::connect(server, self.tls.as_ref()).await?;
        let failed = |why: hyper::Error| Error::unavailable(format!("{server}: {}", reason(&why)));
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(failed)?;
        // Ends when the sender is dropped and no answer is under way.
        tokio::spawn(connection);
        Ok(Connection { host: server.to_owned(), sender })
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX && !connection.sender.is_closed() {
            idle.push(connection);
        }
    }
}

/// One request.
pub(super) struct Call<'a> {
    pub(super) method: Method,
    /// Path and query, encoded.
    pub(super) path: &'a str,
    /// One more header.
    pub(super) header: Option<(HeaderName, HeaderValue)>,
    /// JSON or bytes; no body if empty.
    pub(super) body: Bytes,
}

impl<'a> Call<'a> {
    pub(super) fn new(method: Method, path: &'a str) -> Self {
        Self { method, path, header: None, body: Bytes::new() }
    }

    pub(super) fn json(mut self, body: &serde_json::Value) -> Self {
        self.body = Bytes::from(body.to_string());
        self
    }
}

/// Moves the client to the next server if a call fails or is dropped before its answer.
struct Turn<'a> {
    client: &'a Client,
    answered: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.client.current.fetch_add(1, Ordering::Relaxed);
            self.client.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }
}

/// The lines of an answer without an end.
pub(super) struct Lines {
    body: Incoming,
    buffer: BytesMut,
    /// Closes when the lines are dropped.
    _connection: Connection,
}

impl Lines {
    /// The next line that is not empty, or None if the server has ended the answer.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1).freeze();
                let line = line.slice(..end);
                if line.is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(why)) => return Err(Error::unavailable(reason(&why))),
                Some(Ok(frame)) => {
                    self.buffer.extend_from_slice(frame.data_ref().map_or(&[], |data| data.as_ref()));
                    if self.buffer.len() > LINE_MAX {
                        return Err(Error::TooLarge(format!("a line of an answer has more than {LINE_MAX} bytes")));
                    }
                }
            }
        }
    }
}

async fn read_all(mut body: Incoming) -> Result<Bytes, Error> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|why| Error::unavailable(reason(&why)))?;
        whole.extend_from_slice(frame.data_ref().map_or(&[], |data| data.as_ref()));
        if whole.len() > ANSWER_MAX {
            return Err(Error::TooLarge(format!("an answer has more than {ANSWER_MAX} bytes")));
        }
    }
    Ok(whole.freeze())
}

/// hyper's own text leaves the cause out.
fn reason(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Percent-encodes everything but letters, digits and `-._~`; slashes are kept.
pub(super) fn encode_path(path: &str) -> String {
    encode(path, b"-._~/")
}

/// The same for a value in a query, with slashes encoded.
pub(super) fn encode_query(value: &str) -> String {
    encode(value, b"-._~")
}

fn encode(text: &str, kept: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// A candidate rarely has more than two calls under way at one time.
const IDLE_MAX: usize = 2;

/// A list of 20,000 candidates with a few hundred bytes each, encoded twice, has room.
const ANSWER_MAX: usize = 64 * 1024 * 1024;

/// A record of 16 KiB, encoded twice, in an event with its names.
const LINE_MAX: usize = 1024 * 1024;

const ERROR_TEXT_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        assert_eq!(encode_path("app/a b"), "app/a%20b");
        assert_eq!(encode_query("app/ä"), "app%2F%C3%A4");
    }
}
