//! A plain connection on its way through the threads: served where it is, until it ends or goes to another.
//!
//! In: a socket. Out: nothing; the connection ends in the end.
//! Why it moves at all: see `habit`.
//! Holds: the socket belongs to one loop at a time; what is said meanwhile waits in the handle; no more connections live on
//! the node's thread than it has seats.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pole_tree::Caller;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

use super::connection::{Connection, Outcome};
use super::habit::Place;
use super::handle::Handle;
use super::listener::{ConnectionPermit, TlsWriter, ip_id};
use crate::log;
use crate::mailbox::Command;
use crate::shared::Shared;
use crate::threads::Loops;

/// A task that any thread can run.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The connections on the node's thread.
#[derive(Debug, Default)]
pub(crate) struct Seats(AtomicUsize);

/// The handle has the socket, so there is never a writer with TLS.
type Plain<R> = Connection<R, TlsWriter>;

/// What goes along with the connection.
struct Visit {
    shared: Arc<Shared>,
    threads: Loops,
    handle: Arc<Handle>,
    _permit: ConnectionPermit,
    /// Held while it is served on the node's thread.
    seat: Option<Seat>,
}

/// A place on the node's thread.
struct Seat(Arc<Shared>);

/// Serves a client that has just connected, on the thread that calls.
pub(super) async fn begin(
    shared: Arc<Shared>,
    threads: Loops,
    stream: TcpStream,
    address: SocketAddr,
    permit: ConnectionPermit,
) {
    let (reader, writer) = stream.into_split();
    let caller = Caller { ids: vec![ip_id(address)] };
    let handle = Arc::new(Handle::new(&shared, address, caller, Some(writer)));
    shared.greetings.add(&handle);
    let mut connection = Plain::new(Arc::clone(&shared), Arc::clone(&handle), reader, None);
    connection.settle(Place::Clients);
    serve(connection, Visit { shared, threads, handle, _permit: permit, seat: None }).await;
}

async fn serve(connection: Plain<OwnedReadHalf>, visit: Visit) {
    let address = visit.handle.address;
    match connection.run().await {
        Outcome::Ended(end) => log::connection_ended(&visit.shared, address, &end),
        Outcome::Moves(connection) => {
            let shared = Arc::clone(&visit.shared);
            if let Err(error) = leave(connection, visit) {
                log::connection_ended(&shared, address, &error.into());
            }
        }
    }
}

/// Takes the connection off this thread, and gives it to the one where it belongs now.
fn leave(connection: Plain<OwnedReadHalf>, mut visit: Visit) -> io::Result<()> {
    let mut place = connection.habit.next_place();
    visit.seat = (place == Place::Node).then(|| Seat::take(&visit.shared)).flatten();
    if visit.seat.is_none() {
        place = Place::Clients;
    }
    let (reader, connection) = connection.exchange_reader(());
    let stream = off_this_loop(&visit.handle, reader).inspect_err(|_| connection.deregister())?;
    let (shared, threads) = (Arc::clone(&visit.shared), visit.threads.clone());
    let task: Task = Box::pin(arrive(connection, visit, stream, place));
    match place {
        Place::Node => shared.mailbox.post(Command::Serve(task)),
        Place::Clients | Place::Fixed => threads.spawn(task),
    }
    Ok(())
}

/// The whole socket again, free to be taken up by the loop of another thread.
fn off_this_loop(handle: &Handle, reader: OwnedReadHalf) -> io::Result<std::net::TcpStream> {
    let writer = handle.take_socket().ok_or_else(|| io::Error::other("the socket is in use"))?;
    reader.reunite(writer).map_err(io::Error::other)?.into_std()
}

/// Takes the connection up on this thread.
async fn arrive(mut connection: Plain<()>, visit: Visit, stream: std::net::TcpStream, place: Place) {
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => {
            connection.deregister();
            return log::connection_ended(&visit.shared, visit.handle.address, &error.into());
        }
    };
    let (reader, writer) = stream.into_split();
    visit.handle.put_socket(writer);
    connection.settle(place);
    let ((), connection) = connection.exchange_reader(reader);
    serve(connection, visit).await;
}

impl Seats {
    /// How many connections live on the node's thread, or are on their way to it.
    pub(crate) fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Seat {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let one_more = |taken| (taken < SEATS).then_some(taken + 1);
        shared.seats.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Self(Arc::clone(shared)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.seats.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Enough for those who write alone; where more write at once they wait for each other anyway.
const SEATS: usize = 8;
