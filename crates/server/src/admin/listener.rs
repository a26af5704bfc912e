//! Accepts connections to the admin server, with a limit on their number and on how long they may be idle.
//!
//! An admin port may be open to a whole network. Idle connections must not use up memory or the file descriptors that
//! clients need.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};
use tracing::warn;

use crate::log::target::ADMIN;

/// A listener with a limited number of connections.
pub(crate) struct AdminListener {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

impl AdminListener {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self { listener, permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }
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
                    return (
                        AdminConnection { stream, idle_timer: Box::pin(sleep(IDLE_MAX)), _permit: permit },
                        address,
                    );
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

/// The address of the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteAddress(pub(crate) SocketAddr);

impl Connected<IncomingStream<'_, AdminListener>> for RemoteAddress {
    fn connect_info(stream: IncomingStream<'_, AdminListener>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// A connection, which holds its permit until it is dropped.
pub(crate) struct AdminConnection {
    stream: TcpStream,
    /// Restarted whenever something is read or written.
    idle_timer: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for AdminConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
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
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            self.idle_timer.as_mut().reset(Instant::now() + IDLE_MAX);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Enough for operators, load balancers and Prometheus; further connections wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// Longer than the longest request, a transfer that waits for a minute.
const IDLE_MAX: Duration = Duration::from_secs(90);

/// Pause after a failed accept, long enough for some connections to end when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
