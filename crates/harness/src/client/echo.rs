//! A server that opens sessions and answers every request at once, with success and without a result.
//!
//! It does nothing else, so a load on it shows what the generator, the kernel and the machine add to a latency.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use pole_jute::{ConnectResponse, Record as _, Writer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// A running echo server on a thread of its own. Dropping it ends the thread.
#[derive(Debug)]
pub struct Echo {
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl Echo {
    /// Starts the server on a free port of loopback.
    pub fn start() -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        thread::Builder::new().name("echo".into()).spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                let accept = async {
                    while let Ok((stream, _)) = listener.accept().await {
                        tokio::task::spawn_local(serve(stream, usize::MAX));
                    }
                };
                tokio::select! { () = accept => {}, _ = stopped => {} }
            });
        })?;
        Ok(Self { address, _stop: stop })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Opens a session, answers this many requests, and closes the connection.
pub(super) async fn serve(mut stream: TcpStream, requests: usize) {
    // The client may close the connection at any time.
    let _ = stream.set_nodelay(true);
    let session = ConnectResponse {
        protocol_version: 0,
        timeout: super::load::SESSION_TIMEOUT.as_millis() as i32,
        session_id: 1,
        passwd: None,
        read_only: None,
    };
    if frame(&mut stream).await.is_err() || answer(&mut stream, |writer| session.write(writer)).await.is_err() {
        return;
    }
    for _ in 0..requests {
        let Ok(request) = frame(&mut stream).await else { return };
        let xid = request.get(..4).unwrap_or(&[0; 4]);
        // Of a reply only the header: xid, zxid and the code of success.
        let header = [xid, &[0; 12]].concat();
        if answer(&mut stream, |writer| writer.raw(&header)).await.is_err() {
            return;
        }
    }
}

async fn frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await? as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

async fn answer(stream: &mut TcpStream, body: impl FnOnce(&mut Writer)) -> io::Result<()> {
    let mut writer = Writer::new();
    writer.frame(body);
    stream.write_all(&writer.into_bytes()).await
}

/// Larger than any request of a load.
const FRAME_BYTES_MAX: usize = 1 << 20;
