//! Servers within the test process.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pole_client::blocking::Session;
use pole_server::Server;
use pole_server::config::Config;
use serde_json::Value;

/// A server that stops when it is dropped, and removes its data.
pub(crate) struct TestServer {
    pub(crate) server: Option<Server>,
    pub(crate) dir: PathBuf,
    pub(crate) client: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
}

impl TestServer {
    /// A standalone server, with these lines added to its configuration.
    pub(crate) fn standalone(more: &str) -> Self {
        let client = free_port();
        Self::start(1, &format!("clientPort={client}\nclientPortAddress=127.0.0.1\nadmin.serverPort=0\n{more}"))
    }

    /// Three servers, with these lines added to the configuration of each.
    pub(crate) fn three(more: &str) -> Vec<Self> {
        let lines: String = (1..=3)
            .map(|id| format!("server.{id}=127.0.0.1:{}:{};127.0.0.1:{}\n", free_port(), free_port(), free_port()))
            .collect();
        let text = format!("{lines}admin.serverPort=0\n{more}");
        (1..=3).map(|id| Self::start(id, &text)).collect()
    }

    pub(crate) fn start(id: u64, text: &str) -> Self {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("pole-admin-{}-{number}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory for the test");
        fs::write(dir.join("myid"), id.to_string()).expect("a file for the test");
        Self::start_in(dir, text)
    }

    /// A server on a directory that exists.
    fn start_in(dir: PathBuf, text: &str) -> Self {
        let text = format!("dataDir={}\ntickTime=500\ninitLimit=10\nsyncLimit=5\n{text}", dir.display());
        let read = |path: &std::path::Path| fs::read_to_string(path);
        let (config, _) = Config::parse_cfg("test.cfg", &text, &read).unwrap_or_else(|error| panic!("{error}"));
        let server = Server::start(&config).unwrap_or_else(|error| panic!("{error}"));
        let client = server.client_address().expect("a port for clients");
        let (admin, metrics) = (server.admin_address(), server.metrics_address());
        Self { server: Some(server), dir, client, admin, metrics }
    }

    /// Starts a stopped server again on its data.
    pub(crate) fn start_again(&mut self, text: &str) {
        let dir = std::mem::take(&mut self.dir);
        *self = Self::start_in(dir, text);
    }

    /// Stops the server and waits until it has ended.
    pub(crate) fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stopper().stop();
            server.wait();
        }
    }

    /// Opens a session of a client.
    pub(crate) fn session(&self) -> Session {
        Session::connect(self.client, TEST_TIMEOUT).expect("a session")
    }

    /// Sends a four-letter word and returns the answer.
    pub(crate) fn word(&self, word: &str) -> String {
        word_at(self.client, word)
    }

    /// Sends an HTTP request and returns status and body.
    pub(crate) fn http(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        Self::http_at(self.admin.expect("an admin server"), method, path, headers, body)
    }

    pub(crate) fn http_at(at: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(at).expect("the port is open");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("a request is taken");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer, then the end");
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        (status, body.to_owned())
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.http("GET", path, "", "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }

    /// Sends an HTTP request and returns status and JSON, which is null if there is no body.
    pub(crate) fn change(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, body) = self.http(method, path, "", body);
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    pub(crate) fn health(&self) -> (u16, Value) {
        self.change("GET", "/v1/health", "")
    }

    /// Polls until the condition holds; fails after [`TEST_TIMEOUT`].
    pub(crate) fn wait_until(&self, what: &str, is_right: impl Fn(&Self) -> bool) {
        let limit = Instant::now() + TEST_TIMEOUT;
        while !is_right(self) {
            assert!(Instant::now() < limit, "{what}: not within {TEST_TIMEOUT:?}");
            // There is no event to wait for, and polling without a pause would take processor time from the server.
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    pub(crate) fn wait_until_serving(&self) {
        self.wait_until("a leader", |server| server.health().0 == 200);
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop();
        if !self.dir.as_os_str().is_empty() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Sends a four-letter word to a server and returns the answer.
pub(crate) fn word_at(client: SocketAddr, word: &str) -> String {
    let mut stream = TcpStream::connect(client).expect("the client port is open");
    stream.write_all(word.as_bytes()).expect("a word is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, then the end");
    answer
}

/// A free port below the ephemeral range: an ephemeral port could be taken by a connection of another test before the
/// server starts.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let offset = (std::process::id() % 200) * 100 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(12_000 + offset % 20_000).expect("a number below 32,000");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// Pause between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Generous, because the machine may be busy.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);
