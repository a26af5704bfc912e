//! The door of the admin server: how many may be inside, and for how long they may say nothing.
//!
//! In: a port. Out: connections, each with a seat that it gives back at its end.
//! Why: an admin port may be open to a whole network, and whoever opens connections and says nothing must cost the
//! server neither memory nor file descriptors that its clients need.

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

use crate::log;

/// A port with seats.
pub(crate) struct Door {
    listener: TcpListener,
    seats: Arc<Semaphore>,
}

impl Door {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self { listener, seats: Arc::new(Semaphore::new(SEATS)) }
    }
}

impl Listener for Door {
    type Io = Visit;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Visit, SocketAddr) {
        loop {
            let seat = Arc::clone(&self.seats).acquire_owned().await.expect("the seats are never taken away");
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    return (Visit { stream, silence: Box::pin(sleep(SILENCE_MAX)), _seat: seat }, address);
                }
                Err(error) => {
                    log::warn("accept_failed", &[("error", &error.to_string())]);
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(pub(crate) SocketAddr);

impl Connected<IncomingStream<'_, Door>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        Self(*stream.remote_addr())
    }
}

/// A connection on its seat.
pub(crate) struct Visit {
    stream: TcpStream,
    /// Runs while nothing is heard.
    silence: Pin<Box<Sleep>>,
    _seat: OwnedSemaphorePermit,
}

impl AsyncRead for Visit {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match &read {
            Poll::Ready(_) => self.silence.as_mut().reset(Instant::now() + SILENCE_MAX),
            Poll::Pending => {
                if self.silence.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
        }
        read
    }
}

impl AsyncWrite for Visit {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Operators, load balancers and Prometheus; more wait their turn.
const SEATS: usize = 64;

/// Longer than the longest request takes, a transfer that waits a minute.
const SILENCE_MAX: Duration = Duration::from_secs(90);

/// Long enough for some connections to end when the system has no more to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
