//! Loads: many sessions, each with a fixed number of requests outstanding, for a fixed time.
//!
//! In: where the sessions go, one request for each. Out: how many replies came in the window, and their latencies.
//! Why one frame is sent again and again: making it anew would be the generator's share of the machine.
//! Holds: every reply is the one expected and says yes, or the load fails; it also fails without a single reply, so that what
//! a [`Tally`] says was measured.
//! Not here: going on after a connection broke. What would be measured then is the break. Whoever wants a figure measures again.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use pole_jute::{ConnectRequest, ErrorCode, Request};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::connection::template;
use super::{Connection, Error};

/// What one session does all the time.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its server.
    pub address: SocketAddr,
    /// What it asks.
    pub request: Request,
    /// How many requests it has under way.
    pub outstanding: usize,
}

/// When replies count.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Replies before this are warm-up.
    pub from: Instant,
    /// Nothing is sent after this.
    pub until: Instant,
}

/// What came back within the window: at least one reply.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Replies.
    pub replies: u64,
    /// From sending a request to its reply, in microseconds.
    pub latencies: Histogram<u64>,
}

impl Tally {
    fn new() -> Self {
        let latencies = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are in order");
        Self { replies: 0, latencies }
    }

    fn add(&mut self, other: &Self) {
        self.replies += other.replies;
        self.latencies.add(&other.latencies).expect("all have the same bounds");
    }

    /// A latency that so many percent of the requests did not exceed.
    pub fn latency(&self, percent: f64) -> Duration {
        Duration::from_micros(self.latencies.value_at_percentile(percent))
    }
}

/// Opens one session per lane. All connect at once.
pub async fn connect(addresses: &[SocketAddr]) -> Result<Vec<Connection>, Error> {
    let mut opening = JoinSet::new();
    for address in addresses.iter().copied() {
        opening.spawn_local(async move { Connection::open(address, &new_session(), CONNECT_LIMIT).await });
    }
    let mut connections = Vec::new();
    while let Some(opened) = opening.join_next().await {
        connections.push(opened.expect("no task of ours panics")?.0);
    }
    Ok(connections)
}

/// Lanes with a session each, ready to go.
pub struct Load {
    lanes: Vec<(Runner, usize)>,
}

impl Load {
    /// Opens the session of every lane, all at once.
    ///
    /// Apart from [`Self::run`], so that no window begins before its sessions: a server that took longer to open one than
    /// the window lasts was sent nothing, and nothing looked like a latency of zero.
    pub async fn open(lanes: &[Lane]) -> Result<Self, Error> {
        let mut opening = JoinSet::new();
        for lane in lanes.iter().cloned() {
            opening.spawn_local(async move {
                let (connection, _) = Connection::open(lane.address, &new_session(), CONNECT_LIMIT).await?;
                Ok::<_, Error>((Runner::new(connection, template(&lane.request)), lane.outstanding))
            });
        }
        let mut lanes = Vec::new();
        while let Some(opened) = opening.join_next().await {
            lanes.push(opened.expect("no task of ours panics")?);
        }
        Ok(Self { lanes })
    }

    /// Keeps all lanes full until the window ends, and closes their sessions.
    pub async fn run(self, window: Window) -> Result<Tally, Error> {
        // One lane alone is there for its latency.
        let pacer = (self.lanes.len() > 1).then(|| tokio::task::spawn_local(pace()));
        // One timer for all: one for each reply would be the generator's share of the machine.
        let ended = timeout_at((window.until + ANSWER_LIMIT).into(), self.replies(window)).await;
        if let Some(pacer) = pacer {
            pacer.abort();
        }
        match ended.map_err(|_| Error::Silent(ANSWER_LIMIT))?? {
            tally if tally.replies == 0 => Err(Error::NoReply(window.until - window.from)),
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

/// Lets the thread rest between two turns of the loop, so that replies come in batches. Woken for each of them, the
/// generator takes two to three microseconds for a request, most of it in the kernel: too much of the machine at the
/// rates that we want to see.
async fn pace() {
    loop {
        // Meant to hold up every task of this thread. Yielding comes back after the sockets have been asked.
        std::thread::sleep(TURN);
        tokio::task::yield_now().await;
    }
}

/// Sends all requests once, with so many under way, on one session; an answer in `also` counts as done.
pub async fn pour(
    address: SocketAddr,
    requests: impl Iterator<Item = Request>,
    outstanding: usize,
    also: Option<ErrorCode>,
) -> Result<u64, Error> {
    let (mut connection, _) = Connection::open(address, &new_session(), CONNECT_LIMIT).await?;
    let mut requests = requests.peekable();
    let (mut sent, mut done) = (0, 0);
    while requests.peek().is_some() || done < sent {
        let room = outstanding.saturating_sub((sent - done) as usize);
        for request in requests.by_ref().take(room) {
            sent += 1;
            connection.send(sent as i32, &request);
        }
        connection.flush().await?;
        connection.fill().await?;
        while let Some(header) = connection.skip()? {
            if header.err != ErrorCode::Ok && Some(header.err) != also {
                return Err(Error::Refused(header.err));
            }
            done += 1;
        }
    }
    close(&mut connection, sent as i32 + 1).await?;
    Ok(done)
}

/// Opens a session, asks one thing, and leaves.
pub async fn once(address: SocketAddr, request: &Request) -> Result<(), Error> {
    let (mut connection, _) = Connection::open(address, &new_session(), CONNECT_LIMIT).await?;
    connection.send(1, request);
    connection.flush().await?;
    loop {
        match connection.skip()?.map(|header| header.err) {
            Some(ErrorCode::Ok) => return Ok(()),
            Some(code) => return Err(Error::Refused(code)),
            None => connection.fill().await?,
        }
    }
}

/// Ends the session and waits for the end, so that nothing of it is left when the next measurement begins.
///
/// Apache answers and hangs up at the same time, and now and then the answer loses the race.
pub async fn close(connection: &mut Connection, xid: i32) -> Result<(), Error> {
    connection.send(xid, &Request::CloseSession);
    connection.flush().await?;
    let _ = connection.frame().await;
    Ok(())
}

/// One lane at work.
struct Runner {
    connection: Connection,
    frame: Bytes,
    next_xid: i32,
    /// When the requests without a reply were sent, oldest first. Their numbers follow each other.
    sent: VecDeque<Instant>,
    tally: Tally,
}

impl Runner {
    fn new(connection: Connection, frame: Bytes) -> Self {
        Self { connection, frame, next_xid: 1, sent: VecDeque::new(), tally: Tally::new() }
    }

    async fn run(mut self, outstanding: usize, window: Window) -> Result<Tally, Error> {
        let mut now = Instant::now();
        loop {
            while now < window.until && self.sent.len() < outstanding {
                self.connection.send_again(self.next_xid, &self.frame);
                self.next_xid += 1;
                self.sent.push_back(now);
            }
            if self.sent.is_empty() {
                close(&mut self.connection, self.next_xid).await?;
                return Ok(self.tally);
            }
            self.connection.flush().await?;
            self.connection.fill().await?;
            now = Instant::now();
            while let Some(header) = self.connection.skip()? {
                self.account(header, now, window)?;
            }
        }
    }

    fn account(&mut self, header: pole_jute::ReplyHeader, now: Instant, window: Window) -> Result<(), Error> {
        let expected = self.next_xid - self.sent.len() as i32;
        if header.xid != expected {
            return Err(Error::Order { expected, got: header.xid });
        }
        if header.err != ErrorCode::Ok {
            return Err(Error::Refused(header.err));
        }
        let sent = self.sent.pop_front().ok_or(Error::Order { expected, got: header.xid })?;
        if now >= window.from && now < window.until {
            self.tally.replies += 1;
            self.tally.latencies.saturating_record((now - sent).as_micros() as u64);
        }
        Ok(())
    }
}

/// What a client says that has no session yet.
pub(super) fn new_session() -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout: SESSION_TIMEOUT_MS,
        session_id: 0,
        passwd: Some(Bytes::from_static(&[0; 16])),
        read_only: Some(false),
    }
}

/// Longer than any pause between two requests of a load, so that it needs no pings.
const SESSION_TIMEOUT_MS: i32 = 40_000;

/// A server that takes longer to open a session than this has failed the benchmark.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// A server that leaves a request without a reply for so long after the window has lost it.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Short against the latencies under load, which are milliseconds. Shorter still the generator would take more than its
/// share of the machine from the servers, longer it would be what bounds the fastest of them.
const TURN: Duration = Duration::from_micros(700);

/// Longer latencies count as this.
const LATENCY_US_MAX: u64 = 60_000_000;

#[cfg(test)]
mod tests {
    use pole_jute::{ConnectResponse, Record as _, Writer};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::LocalSet;

    use super::*;
    use crate::client::set_data;

    /// What a load says of a server that opens a session and then does `then`.
    async fn said_of<T: Future<Output = ()> + 'static>(
        then: fn(TcpStream) -> T,
        length: Duration,
    ) -> Result<Tally, Error> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let lane = Lane { address: listener.local_addr().unwrap(), request: set_data("/a", b""), outstanding: 1 };
        let serve = async move {
            let mut stream = listener.accept().await.unwrap().0;
            frame(&mut stream).await;
            let session = ConnectResponse {
                protocol_version: 0,
                timeout: SESSION_TIMEOUT_MS,
                session_id: 1,
                passwd: None,
                read_only: None,
            };
            answer(&mut stream, |writer| session.write(writer)).await;
            then(stream).await;
        };
        let measure = async {
            tokio::task::spawn_local(serve);
            let load = Load::open(&[lane]).await?;
            let from = Instant::now();
            load.run(Window { from, until: from + length }).await
        };
        LocalSet::new().run_until(measure).await
    }

    async fn frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
        let mut body = vec![0; stream.read_u32().await.ok()? as usize];
        stream.read_exact(&mut body).await.ok().map(|_| body)
    }

    async fn answer(stream: &mut TcpStream, body: impl FnOnce(&mut Writer)) {
        let mut writer = Writer::new();
        writer.frame(body);
        // A client that has what it wanted leaves.
        let _ = stream.write_all(&writer.into_bytes()).await;
    }

    async fn answers_all(mut stream: TcpStream) {
        while let Some(request) = frame(&mut stream).await {
            let header = [&request[..4], &[0; 12]].concat();
            answer(&mut stream, |writer| writer.raw(&header)).await;
        }
    }

    async fn hangs_up_after_a_request(mut stream: TcpStream) {
        frame(&mut stream).await;
    }

    #[tokio::test]
    async fn replies_within_the_window_are_counted() {
        assert!(said_of(answers_all, Duration::from_millis(50)).await.unwrap().replies > 0);
    }

    #[tokio::test]
    async fn a_window_without_a_reply_is_no_figure() {
        let said = said_of(answers_all, Duration::ZERO).await;
        assert!(matches!(said, Err(Error::NoReply(Duration::ZERO))), "{said:?}");
    }

    #[tokio::test]
    async fn a_connection_that_breaks_is_no_figure() {
        let said = said_of(hangs_up_after_a_request, Duration::from_secs(60)).await;
        assert!(matches!(said, Err(Error::Closed | Error::Io(_))), "{said:?}");
    }
}
