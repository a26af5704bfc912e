//! One HTTP request, for scores: GET over plain TCP, one answer, then the connection closes.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An `http://` address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// `host:port`.
    host: String,
    path: String,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let wrong = || format!("--score-url: expected http://host[:port]/path, got {url:?}");
        let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() || url.contains(|c: char| c.is_ascii_control() || c == ' ') {
            return Err(wrong());
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host = if has_port { host.to_owned() } else { format!("{host}:80") };
        Ok(Self { host, path: format!("/{path}") })
    }
}

/// The body of the answer, if its status is 200.
pub(crate) async fn get(address: &Address) -> Result<String, String> {
    let Address { host, path } = address;
    let mut stream = TcpStream::connect(host).await.map_err(|error| format!("{host}: {error}"))?;
    // HTTP/1.0, so that the end of the answer is the end of the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: text/plain\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|error| format!("{host}: {error}"))?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer).await.map_err(|error| format!("{host}: {error}"))?;
    body(&String::from_utf8_lossy(&answer)).map_err(|why| format!("{host}: {why}"))
}

fn body(answer: &str) -> Result<String, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("not an HTTP answer")?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("expected status 200, got {status:?}"));
    }
    Ok(body.to_owned())
}

/// A score has a few bytes; the rest is headers.
const ANSWER_MAX: u64 = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_answers_are_checked() {
        let address = Address::parse("http://h/a?b").unwrap();
        assert_eq!((address.host.as_str(), address.path.as_str()), ("h:80", "/a?b"));
        assert_eq!(Address::parse("http://h:81").unwrap().host, "h:81");
        assert!(Address::parse("https://h").is_err() && Address::parse("http:///a").is_err());
        assert_eq!(body("HTTP/1.1 200 OK\r\nA: b\r\n\r\n3\n"), Ok("3\n".to_owned()));
        assert!(body("HTTP/1.1 503 No\r\n\r\n3").unwrap_err().contains("503"));
    }
}
