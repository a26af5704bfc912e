//! A minimal HTTP client for one request to a server.
//!
//! It is written by hand because plain text over one connection that the server closes is HTTP/1.0, in which a
//! response cannot be chunked. A client library would bring connection pools, redirects and TLS for requests on an
//! internal network.
//!
//! Neither a silent server nor an endless response blocks it for long.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

/// The address of a server's admin port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    host: String,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Url {
    pub(crate) fn on_loopback(port: u16) -> Self {
        Self { host: "127.0.0.1".to_owned(), port }
    }

    /// Parses `http://host:port`. The scheme, the port (default 8080) and a trailing slash may be omitted.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text}: expected an address such as http://127.0.0.1:8080");
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.rsplit_once(':') {
            // A colon inside brackets belongs to an IPv6 address.
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| wrong())?),
            Some(_) | None => (rest, PORT_DEFAULT),
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if host.is_empty() || !host.chars().all(is_plain) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port })
    }

    /// Sends a request, and waits at most `limit` for each piece of the response.
    pub(crate) fn send(&self, request: &Request<'_>, limit: Duration) -> io::Result<Response> {
        let mut stream = self.connect(limit)?;
        stream.write_all(request.text(self).as_bytes())?;
        let mut bytes = Vec::new();
        stream.take(RESPONSE_BYTES_MAX).read_to_end(&mut bytes)?;
        Response::parse(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))
    }

    fn connect(&self, limit: Duration) -> io::Result<TcpStream> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (host, self.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_LIMIT.min(limit)) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(limit))?;
                    stream.set_write_timeout(Some(limit))?;
                    return Ok(stream);
                }
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

pub(crate) struct Request<'a> {
    pub(crate) method: &'static str,
    pub(crate) path: &'a str,
    /// JSON, or empty.
    pub(crate) body: &'a str,
    /// The token that authorises changes.
    pub(crate) token: Option<&'a str>,
}

impl Request<'_> {
    fn text(&self, url: &Url) -> String {
        let Self { method, path, body, token } = self;
        let mut text = format!("{method} {path} HTTP/1.0\r\nHost: {}:{}\r\n", url.host, url.port);
        if let Some(token) = token {
            text += &format!("Authorization: Bearer {token}\r\n");
        }
        if !body.is_empty() {
            text += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        text + "\r\n" + body
    }
}

impl Response {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut parts = head.lines().next()?.split(' ');
        parts.next().filter(|version| version.starts_with("HTTP/1."))?;
        Some(Self { status: parts.next()?.parse().ok()?, body: body.to_owned() })
    }
}

/// The default of `admin.serverPort`.
const PORT_DEFAULT: u16 = 8080;
/// A reachable host accepts within a few round trips.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Enough for hundreds of elections of a large ensemble.
const RESPONSE_BYTES_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_be_abbreviated() {
        let url = |host: &str, port| Ok(Url { host: host.to_owned(), port });
        assert_eq!(Url::parse("http://10.0.0.1:22111"), url("10.0.0.1", 22_111));
        assert_eq!(Url::parse("zk1.example.org/"), url("zk1.example.org", 8080));
        assert_eq!(Url::parse("http://[::1]:9"), url("[::1]", 9));
        assert_eq!(Url::parse("http://[::1]"), url("[::1]", 8080));
        for wrong in ["", "https://a", "http://a:b", "http://a:70000", "a b", "http://a/x", "a\r\nX: y"] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn responses_that_are_not_http_are_rejected() {
        let parsed = Response::parse(b"HTTP/1.0 503 Service Unavailable\r\nA: b\r\n\r\n{}");
        assert_eq!(parsed, Some(Response { status: 503, body: "{}".to_owned() }));
        for wrong in
            [&b""[..], b"imok", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 x\r\n\r\n", b"SSH-2.0\r\n\r\n", b"\xff\r\n\r\n"]
        {
            assert_eq!(Response::parse(wrong), None);
        }
    }
}
