//! An HTTP service that refuses writes of a leader that was replaced.
//!
//! Each request carries the fencing token of its sender. The service remembers the highest token it has seen, beside the
//! data that it protects and as durable, and answers 409 to a lower one. So it does not matter how late a leader learns
//! that it was replaced.

use std::sync::{Arc, Mutex, PoisonError};

use pole_elect::{Fence, Token};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener));
    for (leader, token) in [("old", Token::new(0, 7)), ("new", Token::new(0, 8)), ("old", Token::new(0, 7))] {
        println!("the {leader} leader writes under {token}: {}", put(&address.to_string(), token, "x").await?);
    }
    Ok(())
}

/// The data and the memory that protects it.
#[derive(Default)]
struct Data {
    fence: Fence,
    value: String,
}

pub(crate) async fn serve(listener: TcpListener) {
    let data = Arc::new(Mutex::new(Data::default()));
    while let Ok((stream, _)) = listener.accept().await {
        let _ = answer(stream, &data).await;
    }
}

async fn answer(mut stream: TcpStream, data: &Mutex<Data>) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    let length = stream.read(&mut buffer).await?;
    let request = String::from_utf8_lossy(&buffer[..length]).into_owned();
    let status = write(&request, &mut data.lock().unwrap_or_else(PoisonError::into_inner));
    stream.write_all(format!("HTTP/1.0 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes()).await
}

/// Checks the token and writes, in one step: nothing can come between.
fn write(request: &str, data: &mut Data) -> &'static str {
    let header = request.lines().find_map(|line| line.strip_prefix("Fencing-Token: "));
    let Some(token) = header.and_then(|token| token.trim().parse().ok()) else { return "400 Bad Request" };
    if !data.fence.admit(Token::from_number(token)) {
        return "409 Conflict";
    }
    data.value = request.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    "200 OK"
}

/// A write of a leader. Returns the status.
pub(crate) async fn put(address: &str, token: Token, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let length = body.len();
    let request = format!("PUT /value HTTP/1.0\r\nFencing-Token: {token}\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split_ascii_whitespace().nth(1).unwrap_or_default().to_owned())
}
