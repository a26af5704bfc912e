//! Load generation: many sessions, each with a fixed number of outstanding requests, for a fixed time.
//!
//! Each session sends the same encoded request again and again, because encoding each one would add to the CPU cost
//! of the generator, which shares the machine with the servers.
//!
//! Every reply must be the expected one and successful, or the load fails. It also fails without a single reply, so a
//! [`Tally`] always holds measured values. There is no reconnection: the figure would then describe the failure. The
//! caller repeats the measurement instead.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use pole_client::{connect_request, template};
use pole_jute::{ErrorCode, Request};
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};

use super::{Connection, Error};

/// The load of one session: one request, sent repeatedly to one server.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The server.
    pub address: SocketAddr,
    /// The request that is sent repeatedly.
    pub request: Request,
    /// The number of requests in flight.
    pub outstanding: usize,
}

/// The measurement window of a load.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Start of the measurement. Replies before it are warm-up and not counted.
    pub from: Instant,
    /// End of the measurement. Nothing is sent after it.
    pub until: Instant,
}

/// The replies within the window. There is at least one.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The number of replies.
    pub replies: u64,
    /// Times from sending a request to its reply, in microseconds.
    pub latencies: Histogram<u64>,
}

impl Tally {
    pub(super) fn new() -> Self {
        let latencies = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are in order");
        Self { replies: 0, latencies }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.replies += other.replies;
        self.latencies.add(&other.latencies).expect("all have the same bounds");
    }

    /// The latency at this percentile.
    pub fn latency(&self, percent: f64) -> Duration {
        Duration::from_micros(self.latencies.value_at_percentile(percent))
    }
}

/// Opens one session per address, all at the same time.
pub async fn connect(addresses: &[SocketAddr]) -> Result<Vec<Connection>, Error> {
    let mut opening = JoinSet::new();
    for address in addresses.iter().copied() {
        opening.spawn_local(async move {
            Connection::open(address, &connect_request(SESSION_TIMEOUT), CONNECT_LIMIT).await
        });
    }
    let mut connections = Vec::new();
    while let Some(opened) = opening.join_next().await {
        connections.push(opened.expect("no task of ours panics")?.0);
    }
    Ok(connections)
}

/// Lanes whose sessions are open.
pub struct Load {
    lanes: Vec<(Runner, usize)>,
}

impl Load {
    /// Opens the session of every lane, all at the same time.
    ///
    /// This is separate from [`Self::run`] so that no window begins before its sessions are open. Otherwise a server
    /// that takes longer to open a session than the window lasts would be sent no request, which would look like a
    /// latency of 0.
    pub async fn open(lanes: &[Lane]) -> Result<Self, Error> {
        let mut opening = JoinSet::new();
        for lane in lanes.iter().cloned() {
            opening.spawn_local(async move { Ok::<_, Error>((Runner::open(&lane).await?, lane.outstanding)) });
        }
        let mut lanes = Vec::new();
        while let Some(opened) = opening.join_next().await {
            lanes.push(opened.expect("no task of ours panics")?);
        }
        Ok(Self { lanes })
    }

    /// Keeps all lanes at their number of outstanding requests until the window ends, and closes their sessions.
    pub async fn run(self, window: Window) -> Result<Tally, Error> {
        // Lanes with one outstanding request measure latency, which pacing would distort.
        let is_paced = self.lanes.iter().any(|(_, outstanding)| *outstanding > 1);
        let pacer = is_paced.then(|| tokio::task::spawn_local(pace()));
        // One timer for all lanes: one for each reply would cost the generator too much CPU time.
        let ended = timeout_at((window.until + ANSWER_LIMIT).into(), self.replies(window)).await;
        if let Some(pacer) = pacer {
            pacer.abort();
        }
        match ended.map_err(|_| Error::Silent(ANSWER_LIMIT))?? {
            tally if tally.replies == 0 => Err(Error::Silent(window.until - window.from)),
            tally => Ok(tally),
        }
    }

    async fn replies(self, window: Window) -> Result<Tally, Error> {
        let mut running = JoinSet::new();
        for (runner, outstanding) in self.lanes {
            running.spawn_local(runner.run(outstanding, window));
        }
        let mut total = Tally::new();
        while let Some(done) = running.join_next().await {
            total.add(&done.expect("no task of ours panics")?);
        }
        Ok(total)
    }
}

/// Makes the thread sleep between two turns of the event loop, so that replies arrive in batches.
///
/// Woken for each reply, the generator spends two to three microseconds per request, most of it in the kernel: too
/// much of the machine at the rates that we want to measure.
async fn pace() {
    loop {
        // Blocks every task of this thread, on purpose. The yield returns after the sockets have been polled.
        std::thread::sleep(TURN);
        tokio::task::yield_now().await;
    }
}

/// Sends each request once, on one session with at most `outstanding` in flight. Returns the number of replies.
///
/// Fails at the first error reply whose code is not `allowed`, and if the server is silent for too long.
pub async fn send_all(
    address: SocketAddr,
    requests: impl Iterator<Item = Request>,
    outstanding: usize,
    allowed: Option<ErrorCode>,
) -> Result<u64, Error> {
    let (mut connection, _) = Connection::open(address, &connect_request(SESSION_TIMEOUT), CONNECT_LIMIT).await?;
    let mut requests = requests.peekable();
    let (mut sent, mut done) = (0, 0);
    while requests.peek().is_some() || done < sent {
        let room = outstanding.saturating_sub((sent - done) as usize);
        for request in requests.by_ref().take(room) {
            sent += 1;
            connection.send(sent as i32, &request);
        }
        connection.flush().await?;
        timeout(ANSWER_LIMIT, connection.fill()).await.map_err(|_| Error::Silent(ANSWER_LIMIT))??;
        while let Some(header) = connection.skip_reply()? {
            if header.err != ErrorCode::Ok && Some(header.err) != allowed {
                return Err(Error::Refused(header.err));
            }
            done += 1;
        }
    }
    close(&mut connection, sent as i32 + 1).await?;
    Ok(done)
}

/// Opens a session, sends one request, and drops the connection. Fails on an error reply.
pub async fn once(address: SocketAddr, request: &Request) -> Result<(), Error> {
    let (mut connection, _) = Connection::open(address, &connect_request(SESSION_TIMEOUT), CONNECT_LIMIT).await?;
    connection.send(1, request);
    connection.flush().await?;
    loop {
        match connection.skip_reply()?.map(|header| header.err) {
            Some(ErrorCode::Ok) => return Ok(()),
            Some(code) => return Err(Error::Refused(code)),
            None => connection.fill().await?,
        }
    }
}

/// Closes the session and waits until that is done, so that it does not disturb the next measurement.
///
/// Apache replies and closes the connection at the same time, and sometimes the reply is lost. A missing reply is
/// therefore no error.
pub async fn close(connection: &mut Connection, xid: i32) -> Result<(), Error> {
    connection.send(xid, &Request::CloseSession);
    connection.flush().await?;
    let _ = connection.frame().await;
    Ok(())
}

/// A running lane.
pub(super) struct Runner {
    pub(super) connection: Connection,
    frame: Bytes,
    next_xid: i32,
    /// Times from which the requests without a reply are measured, oldest first. Their xids are consecutive.
    sent: VecDeque<Instant>,
    tally: Tally,
}

impl Runner {
    pub(super) async fn open(lane: &Lane) -> Result<Self, Error> {
        let (connection, _) = Connection::open(lane.address, &connect_request(SESSION_TIMEOUT), CONNECT_LIMIT).await?;
        let frame = template(&lane.request);
        Ok(Self { connection, frame, next_xid: 1, sent: VecDeque::new(), tally: Tally::new() })
    }

    async fn run(mut self, outstanding: usize, window: Window) -> Result<Tally, Error> {
        let mut now = Instant::now();
        loop {
            while now < window.until && self.sent.len() < outstanding {
                self.send(now);
            }
            if self.sent.is_empty() {
                return self.close().await;
            }
            self.connection.flush().await?;
            self.connection.fill().await?;
            now = Instant::now();
            self.take_replies(|_| now >= window.from && now < window.until)?;
        }
    }

    /// Appends the request to the output buffer. Its latency counts from `since`.
    pub(super) fn send(&mut self, since: Instant) {
        self.connection.frames().send_template(self.next_xid, &self.frame);
        self.next_xid += 1;
        self.sent.push_back(since);
    }

    /// Whether every request is answered.
    pub(super) fn is_idle(&self) -> bool {
        self.sent.is_empty()
    }

    /// Checks the replies that have arrived, and records those whose request, measured from the given time, counts.
    pub(super) fn take_replies(&mut self, counts: impl Fn(Instant) -> bool) -> Result<(), Error> {
        let now = Instant::now();
        while let Some(header) = self.connection.skip_reply()? {
            let expected = self.next_xid - self.sent.len() as i32;
            if header.xid != expected {
                return Err(Error::Order { expected, got: header.xid });
            }
            if header.err != ErrorCode::Ok {
                return Err(Error::Refused(header.err));
            }
            let since = self.sent.pop_front().ok_or(Error::Order { expected, got: header.xid })?;
            if counts(since) {
                self.tally.replies += 1;
                self.tally.latencies.saturating_record((now - since).as_micros() as u64);
            }
        }
        Ok(())
    }

    /// Closes the session and returns what was recorded.
    pub(super) async fn close(mut self) -> Result<Tally, Error> {
        close(&mut self.connection, self.next_xid).await?;
        Ok(self.tally)
    }
}

/// Longer than any pause between two requests of a load, so that no pings are needed.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

/// A server that takes longer than this to open a session fails the benchmark.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// A request without a reply for this long, in a load after the end of its window, counts as lost.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// The pause between two turns of the event loop. It is short compared with the latencies under load, which are
/// milliseconds. A shorter pause would cost the servers CPU time, a longer one would limit the throughput of the
/// fastest.
const TURN: Duration = Duration::from_micros(700);

/// Longer latencies are recorded as this value.
const LATENCY_US_MAX: u64 = 60_000_000;

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::task::LocalSet;

    use super::*;
    use crate::client::{echo, set_data};

    /// Measures a server that answers this many requests and then closes the connection.
    async fn measure(requests: usize, length: Duration) -> Result<Tally, Error> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let lane = Lane { address: listener.local_addr().unwrap(), request: set_data("/a", b""), outstanding: 1 };
        let load = async {
            tokio::task::spawn_local(async move { echo::serve(listener.accept().await.unwrap().0, requests).await });
            let load = Load::open(&[lane]).await?;
            let from = Instant::now();
            load.run(Window { from, until: from + length }).await
        };
        LocalSet::new().run_until(load).await
    }

    #[tokio::test]
    async fn replies_within_the_window_are_counted() {
        assert!(measure(usize::MAX, Duration::from_millis(50)).await.unwrap().replies > 0);
    }

    #[tokio::test]
    async fn a_window_without_a_reply_is_an_error() {
        let measured = measure(usize::MAX, Duration::ZERO).await;
        assert!(matches!(measured, Err(Error::Silent(Duration::ZERO))), "{measured:?}");
    }

    #[tokio::test]
    async fn a_connection_that_breaks_is_an_error() {
        let measured = measure(1, Duration::from_secs(60)).await;
        assert!(matches!(measured, Err(Error::Closed | Error::Io(_))), "{measured:?}");
    }
}
