//! One HTTP request to the admin port of a server.
//!
//! It uses `hyper`, which is in the build anyway under the admin server itself. One connection serves one request: there
//! is nothing to pool, and the admin port has no TLS.
//!
//! Neither a silent server nor an endless response blocks it for long.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::MapErr;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::StatusCode;
use hyper::body::{Frame, SizeHint};
use hyper::client::conn::http1::handshake;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

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

    /// Sends a request, and waits at most `limit` for the whole response.
    pub(crate) fn send(&self, request: &Request<'_>, limit: Duration) -> io::Result<Response> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let late = |_| io::Error::new(ErrorKind::TimedOut, format!("no answer within {} s", limit.as_secs_f64()));
        runtime.block_on(async { timeout(limit, self.exchange(request)).await.map_err(late)? })
    }

    async fn exchange(&self, request: &Request<'_>) -> io::Result<Response> {
        let request = request.build(self)?;
        let (mut sender, connection) = handshake(TokioIo::new(self.connect().await?)).await.map_err(failed)?;
        let answer = async move {
            let response = sender.send_request(request).await.map_err(failed)?;
            let status = response.status().as_u16();
            let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect().await;
            let body = body.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?.to_bytes();
            let body = String::from_utf8(body.into()).map_err(|_| not_http())?;
            Ok(Response { status, body })
        };
        // The connection ends with the answer, whose sender is dropped then. Its errors are those of the answer.
        let (answer, _) = tokio::join!(answer, connection);
        answer
    }

    /// Sends a request and passes the body of the response on in pieces, as long as they come within `limit` each.
    /// Returns the headers, or the whole response if its status is not 200.
    pub(crate) fn download(
        &self,
        request: &Request<'_>,
        limit: Duration,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<Result<HeaderMap, Response>> {
        self.stream(request.build(self)?, limit, sink)
    }

    /// Sends a file as the body of a request. The response has to begin within `limit`, and to continue.
    pub(crate) fn upload(&self, request: &Request<'_>, file: File, limit: Duration) -> io::Result<Response> {
        let left = file.metadata()?.len();
        let mut request = request.build(self)?.map(|_| FileBody { file, left });
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        let mut body = Vec::new();
        let headers = self.stream(request, limit, &mut |piece| {
            body.extend_from_slice(piece);
            match body.len() > RESPONSE_BYTES_MAX {
                true => Err(not_http()),
                false => Ok(()),
            }
        })?;
        Ok(match headers {
            Ok(_) => Response { status: 200, body: String::from_utf8(body).map_err(|_| not_http())? },
            Err(response) => response,
        })
    }

    fn stream<B>(
        &self,
        request: hyper::Request<B>,
        limit: Duration,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<Result<HeaderMap, Response>>
    where
        B: hyper::body::Body<Data = Bytes, Error = io::Error> + Unpin + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let late = |_| io::Error::new(ErrorKind::TimedOut, format!("no answer within {} s", limit.as_secs_f64()));
        runtime.block_on(async {
            let (mut sender, connection) = handshake(TokioIo::new(self.connect().await?)).await.map_err(failed)?;
            let answer = async move {
                // A body is sent as fast as the server takes it, so the limit is for the answer only.
                let response = sender.send_request(request).await.map_err(failed)?;
                let (head, mut body) = response.into_parts();
                if head.status != StatusCode::OK {
                    let body = Limited::new(body, RESPONSE_BYTES_MAX).collect();
                    let body = timeout(limit, body).await.map_err(late)?.map_err(io::Error::other)?.to_bytes();
                    let body = String::from_utf8(body.into()).map_err(|_| not_http())?;
                    return Ok(Err(Response { status: head.status.as_u16(), body }));
                }
                while let Some(frame) = timeout(limit, body.frame()).await.map_err(late)? {
                    sink(&frame.map_err(failed)?.into_data().unwrap_or_default())?;
                }
                Ok(Ok(head.headers))
            };
            let (answer, _) = tokio::join!(answer, connection);
            answer
        })
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let mut failed = io::Error::new(ErrorKind::NotFound, "the host has no address");
        for address in tokio::net::lookup_host((host, self.port)).await? {
            match timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failed = error,
                Err(_) => failed = io::Error::new(ErrorKind::TimedOut, "connection timed out"),
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
    /// The identity to show without a token: a scheme of ZooKeeper, and what proves it.
    pub(crate) identity: Option<&'a str>,
}

/// A body that is in memory, whose error is that of any body.
type WholeBody = MapErr<Full<Bytes>, fn(Infallible) -> io::Error>;

fn no_error(never: Infallible) -> io::Error {
    match never {}
}

/// The rest of a file as the body of a request.
struct FileBody {
    file: File,
    left: u64,
}

impl hyper::body::Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    /// Reads the file in place: there is nothing else to do meanwhile.
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut piece = vec![0; self.left.min(PIECE_BYTES) as usize];
        if piece.is_empty() {
            return Poll::Ready(None);
        }
        let read = self.file.read_exact(&mut piece);
        self.left -= piece.len() as u64;
        Poll::Ready(Some(read.map(|()| Frame::data(piece.into()))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

impl Request<'_> {
    fn build(&self, url: &Url) -> io::Result<hyper::Request<WholeBody>> {
        let mut builder = hyper::Request::builder().method(self.method).uri(self.path);
        builder = builder.header(HOST, format!("{}:{}", url.host, url.port));
        match (self.token, self.identity) {
            (Some(token), _) => builder = builder.header(AUTHORIZATION, format!("Bearer {token}")),
            (None, Some(identity)) => builder = builder.header(AUTHORIZATION, identity),
            (None, None) => {}
        }
        if !self.body.is_empty() {
            builder = builder.header(CONTENT_TYPE, "application/json");
        }
        let body: WholeBody = Full::new(Bytes::copy_from_slice(self.body.as_bytes())).map_err(no_error);
        builder.body(body).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))
    }
}

/// The error of the operating system behind an error of `hyper`, or what it means that there is none.
fn failed(error: hyper::Error) -> io::Error {
    if error.is_parse() || error.is_incomplete_message() {
        return not_http();
    }
    let cause = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
    cause.map_or_else(|| io::Error::other(error.to_string()), |cause| io::Error::new(cause.kind(), cause.to_string()))
}

fn not_http() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the answer is not HTTP")
}

/// The default of `admin.serverPort`.
const PORT_DEFAULT: u16 = 8080;
/// A reachable host accepts within a few round trips.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Large enough to make the cost of system calls negligible.
const PIECE_BYTES: u64 = 256 << 10;
/// Enough for hundreds of elections of a large ensemble.
const RESPONSE_BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

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

    /// A port that reads one request, answers with these bytes and closes. The thread returns the request.
    fn answering(bytes: &'static [u8]) -> (Url, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = Vec::new();
            // Only the requests with a body are of another method.
            let is_whole = |request: &[u8]| match request.starts_with(b"GET") {
                true => request.ends_with(b"\r\n\r\n"),
                false => request.ends_with(b"}"),
            };
            while !is_whole(&request) {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a request");
                request.push(byte[0]);
            }
            stream.write_all(bytes).expect("the client reads");
            String::from_utf8(request).expect("text")
        });
        (Url::on_loopback(port), thread)
    }

    const GET: Request<'_> = Request { method: "GET", path: "/v1/health", body: "", token: None, identity: None };
    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn a_request_has_a_token_and_a_body_and_the_answer_its_status() {
        let (url, server) = answering(b"HTTP/1.1 503 Service Unavailable\r\nA: b\r\nContent-Length: 2\r\n\r\n{}");
        let request =
            Request { method: "PUT", path: "/v1/score", body: "{\"value\":1}", token: Some("secret"), identity: None };
        let answer = url.send(&request, LIMIT).expect("an answer");
        assert_eq!(answer, Response { status: 503, body: "{}".to_owned() });
        let sent = server.join().expect("a request").to_lowercase();
        assert!(sent.starts_with("put /v1/score http/1.1\r\n"), "{sent}");
        for line in ["authorization: bearer secret", "content-type: application/json", "content-length: 11"] {
            assert!(sent.contains(&format!("\r\n{line}\r\n")), "{line}: {sent}");
        }
        assert!(sent.ends_with("\r\n\r\n{\"value\":1}"), "{sent}");
    }

    #[test]
    fn responses_that_are_not_http_are_rejected() {
        let wrong: [&[u8]; 6] = [
            b"",
            b"imok",
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 x\r\n\r\n",
            b"SSH-2.0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\xff",
        ];
        for bytes in wrong {
            let (url, server) = answering(bytes);
            let error = url.send(&GET, LIMIT).expect_err("no HTTP");
            assert_eq!(error.to_string(), "the answer is not HTTP", "{bytes:?}");
            server.join().expect("a request");
        }
    }

    #[test]
    fn neither_silence_nor_a_flood_blocks_it() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = Url::on_loopback(silent.local_addr().expect("its address").port());
        let error = url.send(&GET, Duration::from_millis(50)).expect_err("silence");
        assert_eq!(error.to_string(), "no answer within 0.05 s");
        let (url, server) = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n");
        assert!(url.send(&GET, LIMIT).is_err());
        server.join().expect("a request");
    }
}
