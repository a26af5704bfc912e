//! Accepts connections to the admin server, with a limit on their number and on how long they may be idle.
//!
//! An admin port may be open to a whole network. Idle connections must not use up memory or the file descriptors that
//! clients need.
//!
//! With `admin.portUnification` a connection may begin with a TLS handshake, which is recognised by its first byte. It is
//! made when the connection is first read, so that a slow one delays no other connection.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};
use tracing::warn;

use crate::log::target::ADMIN;
use crate::tls::Live;

/// A listener with a limited number of connections.
pub(crate) struct AdminListener {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    /// `None`: plain HTTP only.
    tls: Option<Live<Arc<ServerConfig>>>,
}

impl AdminListener {
    pub(crate) fn new(listener: TcpListener, tls: Option<Live<Arc<ServerConfig>>>) -> Self {
        Self { listener, permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)), tls }
    }
}

impl Listener for AdminListener {
    type Io = AdminConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (AdminConnection, SocketAddr) {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned().await.expect("the semaphore is never closed");
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    let transport = match &self.tls {
                        None => Transport::Plain(stream),
                        Some(tls) => Transport::Unknown(stream, TlsAcceptor::from(tls.get())),
                    };
                    return (AdminConnection::new(transport, permit), address);
                }
                Err(error) => {
                    warn!(target: ADMIN, %error, "accept_failed");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The address of the other end of a connection, and whether the connection is encrypted.
#[derive(Clone, Debug)]
pub(crate) struct RemoteAddress(pub(crate) SocketAddr, pub(crate) Encryption);

impl Connected<IncomingStream<'_, AdminListener>> for RemoteAddress {
    fn connect_info(stream: IncomingStream<'_, AdminListener>) -> Self {
        Self(*stream.remote_addr(), stream.io().encryption.clone())
    }
}

/// Whether a connection is encrypted, which is known when its first request has been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encryption(Arc<AtomicBool>);

impl Encryption {
    pub(crate) fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection, which holds its permit until it is dropped.
pub(crate) struct AdminConnection {
    transport: Transport,
    encryption: Encryption,
    /// Restarted whenever something is read or written.
    idle_timer: Pin<Box<Sleep>>,
    /// Runs while the other end does not take what is written.
    stall_timer: Option<Pin<Box<Sleep>>>,
    _permit: OwnedSemaphorePermit,
}

enum Transport {
    Plain(TcpStream),
    /// Nothing has arrived yet that would tell TLS from plain HTTP.
    Unknown(TcpStream, TlsAcceptor),
    Handshake(Box<Accept<TcpStream>>),
    Tls(Box<TlsStream<TcpStream>>),
    /// The handshake failed.
    Failed,
}

impl Transport {
    /// Completes the handshake, if there is one.
    fn poll_established(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self {
                Self::Plain(_) | Self::Tls(_) => return Poll::Ready(Ok(())),
                Self::Failed => return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
                Self::Unknown(stream, _) => {
                    let mut first = [0];
                    ready!(stream.poll_peek(context, &mut ReadBuf::new(&mut first)))?;
                    if let Self::Unknown(stream, acceptor) = std::mem::replace(self, Self::Failed) {
                        *self = match first[0] == HANDSHAKE_RECORD {
                            true => Self::Handshake(Box::new(acceptor.accept(stream))),
                            false => Self::Plain(stream),
                        };
                    }
                }
                Self::Handshake(handshake) => {
                    let done = ready!(Pin::new(handshake).poll(context));
                    *self = Self::Failed;
                    *self = Self::Tls(Box::new(done?));
                }
            }
        }
    }

    /// The stream, once it is established.
    fn stream(&mut self) -> io::Result<Pin<&mut dyn Stream>> {
        match self {
            Self::Plain(stream) => Ok(Pin::new(stream)),
            Self::Tls(stream) => Ok(Pin::new(&mut **stream)),
            Self::Unknown(..) | Self::Handshake(_) | Self::Failed => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

impl AdminConnection {
    fn new(transport: Transport, permit: OwnedSemaphorePermit) -> Self {
        let idle_timer = Box::pin(sleep(IDLE_MAX));
        Self { transport, encryption: Encryption::default(), idle_timer, stall_timer: None, _permit: permit }
    }

    fn poll_read_now(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.transport.poll_established(context))?;
        self.encryption.0.store(matches!(self.transport, Transport::Tls(_)), Ordering::Relaxed);
        self.transport.stream()?.poll_read(context, buffer)
    }
}

impl AsyncRead for AdminConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.poll_read_now(context, buffer);
        match &read {
            Poll::Ready(_) => self.idle_timer.as_mut().reset(Instant::now() + IDLE_MAX),
            Poll::Pending => {
                if self.idle_timer.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
        }
        read
    }
}

impl AsyncWrite for AdminConnection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = self.transport.stream()?.poll_write(context, bytes);
        if written.is_ready() {
            self.idle_timer.as_mut().reset(Instant::now() + IDLE_MAX);
            self.stall_timer = None;
        } else {
            let timer = self.stall_timer.get_or_insert_with(|| Box::pin(sleep(STALL_MAX)));
            if timer.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.transport.stream() {
            Ok(stream) => stream.poll_shutdown(context),
            // Nothing was established that could be ended.
            Err(_) => Poll::Ready(Ok(())),
        }
    }
}

/// The first byte of a TLS connection. No method of HTTP begins with it.
const HANDSHAKE_RECORD: u8 = 0x16;

/// Enough for operators, load balancers and Prometheus; further connections wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// Longer than the longest request, a transfer that waits for a minute.
const IDLE_MAX: Duration = Duration::from_secs(90);

/// A reader that takes nothing for this long, while the buffers on the way are full, is gone or does not keep up.
const STALL_MAX: Duration = Duration::from_secs(10);

/// Pause after a failed accept, long enough for some connections to end when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
