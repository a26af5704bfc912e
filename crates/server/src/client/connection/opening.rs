//! How a connection begins: a word of four letters, or a session that is asked for.
//!
//! In: the first bytes. Out: an announcement to the node, and its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use pole_jute::{ConnectRequest, ConnectResponse, Reader, Record, Writer};
use pole_tree::{Ask, Watcher};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::timeout;

use super::super::credentials::password;
use super::super::habit::Place;
use super::super::handle::State;
use super::super::words;
use super::{Connection, End};
use crate::mailbox::Letter;

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    pub(super) async fn begin(&mut self) -> Result<(), End> {
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
    pub(super) async fn attached(&mut self) -> Result<(), End> {
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

/// What a client may send before it has a session: its proofs of identity and its watches.
const READ_AHEAD_MAX: usize = 1 << 20;
