//! Serves a connection without TLS, and moves it between the client threads and the node's thread.
//!
//! `placement` decides when a connection moves. The socket belongs to one event loop at a time. During a move, output for
//! the client waits in the handle. The number of connections on the node's thread is limited by its slots.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pole_tree::Caller;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

use super::connection::{Connection, Outcome};
use super::handle::Handle;
use super::listener::{ConnectionPermit, TlsWriter, ip_id};
use super::placement::Thread;
use crate::log;
use crate::mailbox::Command;
use crate::shared::Shared;
use crate::threads::Loops;

/// A task that any thread can run.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Counts the connections on the node's thread.
#[derive(Debug, Default)]
pub(crate) struct Slots(AtomicUsize);

/// A connection without TLS: the handle writes to the socket.
type Plain<R> = Connection<R, TlsWriter>;

/// What moves along with a connection.
struct Migration {
    shared: Arc<Shared>,
    threads: Loops,
    handle: Arc<Handle>,
    _permit: ConnectionPermit,
    /// Held while the connection is served on the node's thread.
    slot: Option<Slot>,
}

/// The right to be served on the node's thread.
struct Slot(Arc<Shared>);

/// Serves a new connection, on the calling thread at first.
pub(super) async fn serve_new(
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
    connection.moved_to(Thread::Clients);
    serve(connection, Migration { shared, threads, handle, _permit: permit, slot: None }).await;
}

async fn serve(connection: Plain<OwnedReadHalf>, migration: Migration) {
    let address = migration.handle.address;
    match connection.run().await {
        Outcome::Ended(end) => log::connection_ended(&migration.shared, address, &end),
        Outcome::Moves(connection) => {
            let shared = Arc::clone(&migration.shared);
            if let Err(error) = leave(connection, migration) {
                log::connection_ended(&shared, address, &error.into());
            }
        }
    }
}

/// Detaches the connection from this thread and passes it to the next one.
fn leave(connection: Plain<OwnedReadHalf>, mut migration: Migration) -> io::Result<()> {
    let mut thread = connection.placement.next_thread();
    migration.slot = (thread == Thread::Node).then(|| Slot::take(&migration.shared)).flatten();
    if migration.slot.is_none() {
        thread = Thread::Clients;
    }
    let (reader, connection) = connection.exchange_reader(());
    let stream = off_this_loop(&migration.handle, reader).inspect_err(|_| connection.deregister())?;
    let (shared, threads) = (Arc::clone(&migration.shared), migration.threads.clone());
    let task: Task = Box::pin(arrive(connection, migration, stream, thread));
    match thread {
        Thread::Node => shared.mailbox.post(Command::Serve(task)),
        Thread::Clients | Thread::Fixed => threads.spawn(task),
    }
    Ok(())
}

/// Detaches the socket from the event loop of this thread.
fn off_this_loop(handle: &Handle, reader: OwnedReadHalf) -> io::Result<std::net::TcpStream> {
    let writer = handle.take_socket().ok_or_else(|| io::Error::other("the socket is in use"))?;
    reader.reunite(writer).map_err(io::Error::other)?.into_std()
}

/// Continues to serve the connection on this thread.
async fn arrive(mut connection: Plain<()>, migration: Migration, stream: std::net::TcpStream, thread: Thread) {
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => {
            connection.deregister();
            return log::connection_ended(&migration.shared, migration.handle.address, &error.into());
        }
    };
    let (reader, writer) = stream.into_split();
    migration.handle.put_socket(writer);
    connection.moved_to(thread);
    let ((), connection) = connection.exchange_reader(reader);
    serve(connection, migration).await;
}

impl Slots {
    /// The number of connections on the node's thread, including those that are moving there.
    pub(crate) fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Slot {
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let one_more = |taken| (taken < SLOTS).then_some(taken + 1);
        shared.slots.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Self(Arc::clone(shared)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.slots.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// With more writers at once, they wait for each other anyway.
const SLOTS: usize = 8;
