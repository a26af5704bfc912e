//! An in-memory connection with two ends, whose bytes become readable when the caller releases them.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One direction of a connection.
#[derive(Clone, Default)]
pub(crate) struct Wire(Rc<RefCell<Sent>>);

#[derive(Default)]
struct Sent {
    bytes: Vec<u8>,
    /// The number of bytes that may be read.
    released: usize,
    read: usize,
    closed: bool,
}

impl Wire {
    pub(crate) fn send(&self, bytes: &[u8]) {
        self.0.borrow_mut().bytes.extend_from_slice(bytes);
    }

    /// Ends the stream.
    pub(crate) fn close(&self) {
        self.0.borrow_mut().closed = true;
    }

    /// Makes up to `count` more bytes readable. Returns their number.
    pub(crate) fn release(&self, count: usize) -> usize {
        let mut sent = self.0.borrow_mut();
        let before = sent.released;
        sent.released = sent.bytes.len().min(before.saturating_add(count));
        sent.released - before
    }

    /// All bytes that were sent.
    pub(crate) fn sent(&self) -> Vec<u8> {
        self.0.borrow().bytes.clone()
    }

    /// The bytes that were sent and not read.
    pub(crate) fn unread(&self) -> Vec<u8> {
        let sent = self.0.borrow();
        sent.bytes[sent.read..].to_vec()
    }
}

/// One end of a connection.
pub(crate) struct End {
    pub(crate) incoming: Wire,
    pub(crate) outgoing: Wire,
}

/// Creates a connection and returns both ends.
pub(crate) fn connection() -> (End, End) {
    let (there, back) = (Wire::default(), Wire::default());
    let near = End { incoming: back.clone(), outgoing: there.clone() };
    (near, End { incoming: there, outgoing: back })
}

impl AsyncRead for End {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut sent = self.incoming.0.borrow_mut();
        let count = (sent.released - sent.read).min(into.remaining());
        if count == 0 && !(sent.closed && sent.read == sent.bytes.len()) {
            return Poll::Pending;
        }
        into.put_slice(&sent.bytes[sent.read..sent.read + count]);
        sent.read += count;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.outgoing.send(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Polls a future once. The waker does nothing: the caller polls again.
pub(crate) fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
