//! A client's connection: from its first bytes to its last.
//!
//! In: bytes. Out: requests to the node, answers to reads, pings and proofs of identity that need no node.
//! Why reads stay here: with no earlier request of the session under way, the tree itself answers, on the thread of the
//! connection, through the same function by which the node would.
//! Holds: answers leave in the order of the questions; nothing is read beyond what may be under way; every
//! connection that was announced to the node is also taken back from it.
//! Not here: sockets and TLS (`listener`), sessions (`node`), the words of four letters (`words`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::RwLockReadGuard;
use pole_jute::{
    AuthPacket, ConnectRequest, ConnectResponse, Deframer, ErrorCode, OpCode, Reader, Record, Request, RequestHeader,
    Writer, Xid,
};
use pole_node::Event;
use pole_oracle::Time;
use pole_tree::{Ask, Caller, Tree, Watcher};
use pole_zab::Cxid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::credentials::password;
use super::habit::{Habit, Place};
use super::handle::{Handle, State, Waiting, put_frame};
use super::words;
use crate::mailbox::Letter;
use crate::shared::Shared;

/// The task of one connection.
pub(crate) struct Connection<R, W> {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    reader: R,
    /// With TLS, the writing half; otherwise the handle writes.
    writer: Option<W>,
    arrived: BytesMut,
    deframer: Deframer,
    caller: Caller,
    /// The node has heard of it, and must hear of its end.
    has_session: bool,
    /// There is no quorum, and the client only reads.
    read_only: bool,
    /// Where it would be served best.
    pub(super) habit: Habit,
    /// For the node, of one batch; kept for its memory.
    letters: Vec<Letter>,
    waiting: Vec<Waiting>,
    /// Answers of one batch.
    replies: BytesMut,
}

/// What became of a connection.
pub(crate) enum Outcome<C> {
    /// It ended.
    Ended(End),
    /// It is to be served on another thread.
    Moves(C),
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error("closed by the client")]
    ByClient,
    #[error("{0}")]
    ByUs(&'static str),
    #[error("{0}")]
    Socket(#[from] std::io::Error),
    #[error("{0}")]
    Frame(#[from] pole_jute::FrameError),
    #[error("{0}")]
    Record(#[from] pole_jute::Error),
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    pub(crate) fn new(shared: Arc<Shared>, handle: Arc<Handle>, reader: R, writer: Option<W>, caller: Caller) -> Self {
        let deframer = Deframer::new(shared.settings.frame_bytes_max);
        Self {
            shared,
            handle,
            reader,
            writer,
            arrived: BytesMut::with_capacity(READ_BYTES),
            deframer,
            caller,
            has_session: false,
            read_only: false,
            habit: Habit::default(),
            letters: Vec::new(),
            waiting: Vec::new(),
            replies: BytesMut::new(),
        }
    }

    /// Serves the client until the connection ends, or would better be served on another thread.
    pub(crate) async fn run(mut self) -> Outcome<Self> {
        let served = match self.has_session {
            true => self.serve_session().await,
            false => self.begin().await,
        };
        match served {
            Ok(()) => Outcome::Moves(self),
            Err(end) => {
                self.say_the_rest().await;
                Outcome::Ended(end)
            }
        }
    }

    async fn begin(&mut self) -> Result<(), End> {
        match self.first_frame().await? {
            Some(frame) => self.session(frame).await,
            None => Err(End::ByUs("a word was answered")),
        }
    }

    /// The first frame; none if the client sent a word of four letters, which is answered.
    async fn first_frame(&mut self) -> Result<Option<Bytes>, End> {
        loop {
            if pole_jute::four_letter_word(&self.arrived).is_some() {
                let answer = words::answer(&self.shared, self.handle.address, &self.arrived).await;
                self.handle.push_frames(answer.unwrap_or_default().as_bytes(), 0, 0, None);
                return Ok(None);
            }
            if let Some(frame) = self.deframer.next(&mut self.arrived)? {
                return Ok(Some(frame));
            }
            let patience =
                Duration::from_millis(self.shared.settings.session_timeout_max_ms.max(1).unsigned_abs().into());
            match timeout(patience, self.reader.read_buf(&mut self.arrived)).await {
                Ok(read) => {
                    if read? == 0 {
                        return Err(End::ByClient);
                    }
                }
                Err(_) => return Err(End::ByUs("no request within the longest session timeout")),
            }
        }
    }

    async fn session(&mut self, frame: Bytes) -> Result<(), End> {
        let request = ConnectRequest::read(&mut Reader::new(frame))?;
        if request.last_zxid_seen > self.shared.applied.load(Ordering::Acquire) {
            return Err(End::ByUs("the client has seen more than this server has: it must try another"));
        }
        if self.shared.is_read_only() {
            return self.serve_read_only(&request).await;
        }
        self.connect(&request)?;
        self.has_session = true;
        self.serve_session().await
    }

    /// Returns when the connection moves; if it ends, the node hears of it.
    async fn serve_session(&mut self) -> Result<(), End> {
        let served = match self.attached().await {
            Ok(()) => self.serve().await,
            Err(end) => Err(end),
        };
        if served.is_err() {
            self.take_back();
        }
        served
    }

    /// The client introduces itself: a session is asked for, a new one or its old one.
    fn connect(&mut self, request: &ConnectRequest) -> Result<(), End> {
        let settings = &self.shared.settings;
        let timeout_ms = request.timeout.clamp(settings.session_timeout_min_ms, settings.session_timeout_max_ms);
        let (session, resume) = match request.session_id {
            0 => (self.shared.session_ids.next(), false),
            old => (old, true),
        };
        if resume && request.passwd.as_deref() != Some(&password(session)) {
            // The intruder is told that the session is over; its owner goes on.
            let frame = connect_response(0, 0, [0; 16], request.read_only.map(|_| false));
            self.handle.push_frames(&frame, 1, 0, None);
            return Err(End::ByUs("the password is not that of the session"));
        }
        self.handle.wants(session, Some(self.shared.clock.now()));
        self.shared.clients.lock().insert(self.handle.id, Arc::clone(&self.handle));
        self.shared.mailbox.post(Letter::Attach {
            handle: Arc::clone(&self.handle),
            body: Ask::attach(timeout_ms, resume),
            wants_flag: request.read_only.is_some(),
        });
        Ok(())
    }

    /// Without a quorum, and if the operator allows it, whoever asks for no more may read. Such a session is known to
    /// nobody else, and ends when there is a quorum again.
    async fn serve_read_only(&mut self, request: &ConnectRequest) -> Result<(), End> {
        if request.read_only != Some(true) {
            return Err(End::ByUs("there is no quorum, and the client does not want to read only"));
        }
        self.read_only = true;
        self.habit.settle(Place::Fixed);
        let settings = &self.shared.settings;
        let timeout_ms = request.timeout.clamp(settings.session_timeout_min_ms, settings.session_timeout_max_ms);
        let session = self.shared.session_ids.next();
        self.handle.wants(session, None);
        self.handle.open(timeout_ms, &connect_response(timeout_ms, session, password(session), Some(true)));
        self.flush();
        let end = self.serve().await;
        self.shared.watches.lock().forget(Watcher(self.handle.id.0));
        end
    }

    /// Waits until the session is there.
    async fn attached(&mut self) -> Result<(), End> {
        loop {
            match self.handle.state() {
                State::Connecting => {}
                State::Open => break,
                State::Closing(reason) => return Err(End::ByUs(reason)),
                State::Broken => return Err(End::ByClient),
            }
            let more = READ_AHEAD_MAX.saturating_sub(self.arrived.len());
            tokio::select! {
                () = self.handle.wake.notified() => {}
                read = self.reader.read_buf(&mut self.arrived), if more > 0 => {
                    if read? == 0 {
                        return Err(End::ByClient);
                    }
                }
            }
        }
        self.flush();
        Ok(())
    }

    /// Returns when it would better be served elsewhere.
    async fn serve(&mut self) -> Result<(), End> {
        loop {
            self.handle_arrived().await?;
            if self.habit.is_to_move() {
                return Ok(());
            }
            self.wait().await?;
            if self.read_only && !self.shared.is_read_only() {
                return Err(End::ByUs("there is a quorum again"));
            }
        }
    }

    /// Waits for something to do: bytes, room in the socket, or a word from the node.
    async fn wait(&mut self) -> Result<(), End> {
        if self.handle.is_held() {
            self.wait_for_belief().await?;
            self.flush();
        }
        if let Some(writer) = &mut self.writer {
            let unsent = self.handle.take_unsent(self.shared.clock.now(), self.shared.confirmed());
            if !unsent.is_empty() {
                writer.write_all(&unsent).await?;
                writer.flush().await?;
            }
        }
        match self.handle.state() {
            State::Connecting | State::Open => {}
            State::Closing(reason) => return Err(End::ByUs(reason)),
            State::Broken => return Err(End::ByUs("the client does not read")),
        }
        let has_room = self.handle.has_room();
        if has_room && self.arrived.capacity() - self.arrived.len() < READ_BYTES / 4 {
            self.arrived.reserve(READ_BYTES);
        }
        tokio::select! {
            () = self.handle.wake.notified() => {}
            () = self.handle.has_drained() => self.flush(),
            () = self.shared.status.role_changed.notified(), if self.read_only => {}
            read = self.reader.read_buf(&mut self.arrived), if has_room => {
                if read? == 0 {
                    return Err(End::ByClient);
                }
            }
        }
        Ok(())
    }

    /// Handles the whole frames that have arrived, as far as there is room for what they ask.
    async fn handle_arrived(&mut self) -> Result<(), End> {
        while self.deframer.has_frame(&self.arrived)? && self.handle.has_room() {
            if !self.read_only {
                let now = self.shared.clock.now();
                self.handle.with_lease(|lease| lease.hear(now));
                self.shared.touch(&self.handle);
                self.wait_for_belief().await?;
                self.wait_for_room().await?;
            }
            self.handle_batch()?;
            self.flush();
        }
        Ok(())
    }

    /// Sends what there is.
    fn flush(&self) {
        self.handle.flush(self.shared.clock.now(), self.shared.confirmed());
    }

    /// Holds the client's requests while it must not be told that all is well.
    async fn wait_for_belief(&mut self) -> Result<(), End> {
        loop {
            let anew = self.shared.confirmed_anew.notified();
            let (now, confirmed) = (self.shared.clock.now(), self.shared.confirmed());
            match self.handle.with_lease(|lease| (lease.allows(now, confirmed), lease.is_known())) {
                None | Some((true, _)) => return Ok(()),
                Some((false, false)) => {}
                Some((false, true)) => {
                    self.handle.with_lease(|lease| lease.hear(now));
                    self.shared.touch(&self.handle);
                }
            }
            tokio::select! {
                () = anew => {}
                () = self.handle.wake.notified() => {
                    if let State::Closing(reason) = self.handle.state() {
                        return Err(End::ByUs(reason));
                    }
                }
            }
        }
    }

    /// Holds the client's requests while the server has too many under way.
    async fn wait_for_room(&mut self) -> Result<(), End> {
        loop {
            let room = self.shared.room.notified();
            if self.shared.outstanding.load(Ordering::Acquire) < self.shared.settings.outstanding_max {
                return Ok(());
            }
            tokio::select! {
                () = room => {}
                () = self.handle.wake.notified() => {
                    if let State::Closing(reason) = self.handle.state() {
                        return Err(End::ByUs(reason));
                    }
                }
            }
        }
    }

    /// Handles a batch of frames without waiting. Reads in a row share one look at the tree.
    fn handle_batch(&mut self) -> Result<(), End> {
        let now = self.shared.clock.now();
        let shared = Arc::clone(&self.shared);
        let mut is_behind = self.handle.waiting() > 0;
        let is_alone = !is_behind;
        let mut reading: Option<RwLockReadGuard<'_, Tree>> = None;
        let (mut received, mut answered, mut last) = (0, 0, (0, 0));
        while self.letters.len() < BATCH_MAX
            && let Some(frame) = self.deframer.next(&mut self.arrived)?
        {
            let header = RequestHeader::read(&mut Reader::new(frame.clone()))?;
            let body = frame.slice(HEADER_BYTES..);
            (received, last) = (received + 1, (header.xid, header.op));
            match Kind::of(&header)? {
                Kind::Ping => {
                    let zxid = self.shared.applied.load(Ordering::Acquire);
                    put_frame(&mut self.replies, Xid::PING, zxid, 0, &[]);
                    answered += 1;
                }
                Kind::Auth => self.authenticate(header.xid, body)?,
                Kind::Sync | Kind::Write(_) if self.read_only => {
                    let zxid = self.shared.applied.load(Ordering::Acquire);
                    put_frame(&mut self.replies, header.xid, zxid, ErrorCode::NotReadOnly.number(), &[]);
                    answered += 1;
                }
                Kind::Sync => self.sync(header.xid, body, now),
                Kind::Write(op) => {
                    let (client, cxid) = (self.handle.id, Cxid(header.xid));
                    let body = Ask::encode(op, &self.caller, &body);
                    self.ask(Event::Request { client, cxid, body }, None, now);
                }
                Kind::Read(op) if !is_behind && self.letters.is_empty() => {
                    let tree = reading.get_or_insert_with(|| shared.tree.read());
                    self.read(tree, header.xid, op, body);
                    answered += 1;
                }
                Kind::Read(op) => {
                    let (client, cxid) = (self.handle.id, Cxid(header.xid));
                    let body = Ask::encode(op, &self.caller, &body);
                    self.ask(Event::Read { client, cxid, body }, None, now);
                }
            }
            is_behind |= !self.letters.is_empty();
        }
        self.habit.learn(received, last.1, is_alone);
        self.say(answered, now);
        // Only now may the tree change: a watch that was set is fired after the answer that set it.
        drop(reading);
        self.shared.outstanding.fetch_add(self.waiting.len(), Ordering::AcqRel);
        self.handle.asked(received, last, self.waiting.drain(..));
        self.shared.status.received(received);
        self.shared.mailbox.post_all(&mut self.letters);
        Ok(())
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    fn ask(&mut self, event: Event, sync: Option<Bytes>, at: Time) {
        self.letters.push(Letter::Event(event));
        self.waiting.push(Waiting { at, sync });
    }

    /// The node answers without the path, which is the whole of the request and of the answer.
    fn sync(&mut self, xid: i32, body: Bytes, now: Time) {
        self.ask(Event::Sync { client: self.handle.id, cxid: Cxid(xid) }, Some(body), now);
    }

    /// A read that nothing has to wait for.
    fn read(&mut self, tree: &Tree, xid: i32, op: OpCode, body: Bytes) {
        let mut events = Vec::new();
        let start = self.replies.len();
        let mut writer = Writer::over(std::mem::take(&mut self.replies));
        writer.raw(&[0; FRAME_HEAD_BYTES]);
        let code = match Request::decode(op, &mut Reader::new(body)) {
            Ok(request) => {
                let watches = || self.shared.watches.lock();
                let (watcher, session) = (Watcher(self.handle.id.0), self.handle.session());
                pole_tree::read(tree, watches, watcher, session, &self.caller, &request, &mut writer, &mut events)
            }
            Err(_) => ErrorCode::MarshallingError,
        };
        let zxid = tree.last_zxid();
        self.replies = writer.into_inner();
        if code != ErrorCode::Ok {
            self.replies.truncate(start + FRAME_HEAD_BYTES);
        }
        write_head(&mut self.replies[start..], xid, zxid, code.number());
        if !events.is_empty() {
            let answer = self.replies.split_off(start);
            for event in &events {
                let mut body = Writer::new();
                event.write(&mut body);
                put_frame(&mut self.replies, Xid::NOTIFICATION, zxid, 0, &body.into_bytes());
            }
            self.replies.unsplit(answer);
        }
    }

    /// The client proves to be someone. A scheme that nobody knows, or a false proof, ends the connection.
    fn authenticate(&mut self, xid: i32, body: Bytes) -> Result<(), End> {
        let packet = AuthPacket::read(&mut Reader::new(body))?;
        let proof = packet.auth.unwrap_or_default();
        let super_digest = self.shared.settings.super_digest.as_deref();
        match pole_tree::authenticate(&packet.scheme, &proof, super_digest) {
            Ok(ids) => {
                let new = ids.into_iter().filter(|id| !self.caller.ids.contains(id)).collect::<Vec<_>>();
                self.caller.ids.extend(new);
                self.shared.watches.lock().identify(Watcher(self.handle.id.0), &self.caller);
                put_frame(&mut self.replies, xid, 0, ErrorCode::Ok.number(), &[]);
                Ok(())
            }
            Err(_) => {
                put_frame(&mut self.replies, xid, 0, ErrorCode::AuthFailed.number(), &[]);
                self.say(1, self.shared.clock.now());
                Err(End::ByUs("authentication failed"))
            }
        }
    }

    /// Puts the answers of this batch into the buffer of the connection.
    fn say(&mut self, answered: u64, asked: Time) {
        if self.replies.is_empty() {
            return;
        }
        let now = self.shared.clock.now();
        let zxid = self.shared.applied.load(Ordering::Relaxed);
        self.handle.push_frames(&self.replies, answered, zxid, Some((asked, now)));
        self.shared.status.answered(answered, asked, now);
        self.replies.clear();
    }

    /// The last words, if the client still listens, within a time limit.
    async fn say_the_rest(mut self) {
        let rest = self.handle.take_unsent(self.shared.clock.now(), self.shared.confirmed());
        let _ = timeout(LAST_WORDS, async {
            match (&mut self.writer, rest.is_empty()) {
                (Some(writer), _) => {
                    writer.write_all(&rest).await?;
                    writer.shutdown().await
                }
                (None, false) => self.handle.send_last(&rest).await,
                (None, true) => Ok(()),
            }
        })
        .await;
    }
}

impl<R, W> Connection<R, W> {
    /// The node hears that the connection is no more.
    pub(super) fn take_back(&self) {
        self.shared.clients.lock().remove(&self.handle.id);
        self.shared.settled(self.handle.drop_waiting());
        self.shared.mailbox.post(Letter::Event(Event::Detach { client: self.handle.id }));
    }

    /// The same connection with another reader, and the one that it had.
    pub(super) fn exchange_reader<S>(self, reader: S) -> (R, Connection<S, W>) {
        let Self { shared, handle, reader: before, writer, arrived, deframer, caller, .. } = self;
        let Self { has_session, read_only, habit, letters, waiting, replies, .. } = self;
        let after = Connection {
            shared,
            handle,
            reader,
            writer,
            arrived,
            deframer,
            caller,
            has_session,
            read_only,
            habit,
            letters,
            waiting,
            replies,
        };
        (before, after)
    }
}

/// What has to be done with a request.
enum Kind {
    Ping,
    Auth,
    Sync,
    Write(OpCode),
    Read(OpCode),
}

impl Kind {
    fn of(header: &RequestHeader) -> Result<Self, End> {
        let Ok(op) = header.operation() else { return Err(End::ByUs("the operation is none of ZooKeeper's")) };
        if op == OpCode::Ping {
            return Ok(Self::Ping);
        }
        if op == OpCode::Auth {
            return Ok(Self::Auth);
        }
        // These numbers have a meaning of their own; a request with one of them could not be told from others.
        if header.xid == Cxid::OWN.0 || Cxid(header.xid).is_attachment() {
            return Err(End::ByUs("the number of the request is reserved"));
        }
        Ok(if op == OpCode::Sync {
            Self::Sync
        } else if pole_tree::is_write(op) {
            Self::Write(op)
        } else {
            Self::Read(op)
        })
    }
}

/// The answer to a connect request.
pub(crate) fn connect_response(timeout_ms: i32, session: i64, passwd: [u8; 16], read_only: Option<bool>) -> Bytes {
    let response = ConnectResponse {
        protocol_version: 0,
        timeout: timeout_ms,
        session_id: session,
        passwd: Some(Bytes::copy_from_slice(&passwd)),
        read_only,
    };
    let mut writer = Writer::new();
    writer.frame(|w| response.write(w));
    writer.into_bytes()
}

/// Fills in what stands before the body of a reply, when the length of that is known.
fn write_head(frame: &mut [u8], xid: i32, zxid: i64, code: i32) {
    let length = u32::try_from(frame.len() - 4).expect("a reply is bounded by what the tree holds");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame[4..8].copy_from_slice(&xid.to_be_bytes());
    frame[8..16].copy_from_slice(&zxid.to_be_bytes());
    frame[16..20].copy_from_slice(&code.to_be_bytes());
}

/// Number and operation.
const HEADER_BYTES: usize = 8;

/// Length, number, position and code.
const FRAME_HEAD_BYTES: usize = 20;

/// What is read at once: sixteen requests of a kilobyte, or one small one of an idle client.
const READ_BYTES: usize = 8 << 10;

/// What a client may send before it has a session: its proofs of identity and its watches.
const READ_AHEAD_MAX: usize = 1 << 20;

/// Requests for the node in one batch.
const BATCH_MAX: usize = 256;

/// How long a client that is sent away may take to hear it.
const LAST_WORDS: Duration = Duration::from_secs(1);

#[cfg(test)]
impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Whole frames arrive, are handled, and the answers are taken.
    pub(super) fn feed(&mut self, frames: &[u8]) {
        self.arrived.extend_from_slice(frames);
        self.handle_batch().expect("good requests");
        drop(self.handle.take_unsent(self.shared.clock.now(), self.shared.confirmed()));
    }
}
