//! Requests under way: those that a server has received from its clients and not yet answered.
//!
//! Clients must not notice a leader change. A request is therefore held until its transaction is applied. After a
//! leader change it is either found in the recovered history or sent to the new leader again, see
//! [`Requests::unlogged`].
//!
//! Invariants:
//! - In each session, the requests found in the log are a prefix of those held.
//! - A request is answered once.
//!
//! The meaning of a request, and whether its session exists, is up to the state machine.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use pole_types::{Cxid, SessionId, Zxid};

use crate::Entry;

/// The requests of all sessions attached to this server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requests<R> {
    sessions: BTreeMap<SessionId, Attached<R>>,
    /// Numbers the requests, so that those sent again keep their order across sessions.
    arrivals: u64,
}

/// A session attached to this server: its connection and requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attached<R> {
    /// The number of the connection's attachment.
    attachment: Cxid,
    /// The position of the attachment once applied. Only transactions above it can belong to this connection.
    floor: Option<Zxid>,
    /// The position at which the log attaches the session to another connection. Later transactions do not belong to
    /// this connection.
    superseded: Option<Zxid>,
    /// In order of arrival.
    held: VecDeque<HeldRequest<R>>,
}

/// A request that is not yet answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HeldRequest<R> {
    /// The session that sent it.
    pub session: SessionId,
    /// The session's number for the request.
    pub cxid: Cxid,
    /// The request itself.
    pub request: R,
    arrival: u64,
    logged: Option<Zxid>,
}

/// The effect of an applied entry on this server's clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied<R> {
    /// It answers no request held here.
    Foreign,
    /// It answers this request.
    Answers(HeldRequest<R>),
    /// It attaches the session to another connection. The connection here ends, and these requests with it.
    Supersedes(Vec<HeldRequest<R>>),
}

/// A request appears in the log before an earlier one of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{zxid} answers #{cxid}, but the session's next request is #{next}")]
pub struct OutOfOrder {
    /// The entry.
    pub zxid: Zxid,
    /// The request that it answers.
    pub cxid: Cxid,
    /// The request that should have been answered first.
    pub next: Cxid,
}

impl<R> Default for Requests<R> {
    fn default() -> Self {
        Self { sessions: BTreeMap::new(), arrivals: 0 }
    }
}

impl<R> Requests<R> {
    /// Attaches the session to a new connection; `request` is the attachment. Returns the unanswered requests of an
    /// older connection here.
    pub fn attach(&mut self, session: SessionId, attachment: Cxid, request: R) -> Vec<HeldRequest<R>> {
        let dropped = self.detach(session);
        let fresh = Attached { attachment, floor: None, superseded: None, held: VecDeque::new() };
        self.sessions.insert(session, fresh);
        self.hold(session, attachment, request);
        dropped
    }

    /// Holds a request of an attached session. Returns false if the session is not attached here.
    pub fn hold(&mut self, session: SessionId, cxid: Cxid, request: R) -> bool {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let Some(attached) = self.sessions.get_mut(&session) else { return false };
        attached.held.push_back(HeldRequest { session, cxid, request, arrival, logged: None });
        true
    }

    /// Removes a closed connection and returns its unanswered requests.
    pub fn detach(&mut self, session: SessionId) -> Vec<HeldRequest<R>> {
        self.sessions.remove(&session).map_or_else(Vec::new, |attached| attached.held.into())
    }

    /// Removes all connections.
    pub fn clear(&mut self) {
        self.sessions.clear();
    }

    /// The position of the session's attachment, once applied.
    #[must_use]
    pub fn floor(&self, session: SessionId) -> Option<Zxid> {
        self.sessions.get(&session)?.floor
    }

    /// Whether the session has a connection here whose attachment has this number.
    #[must_use]
    pub fn is_attached_as(&self, session: SessionId, attachment: Cxid) -> bool {
        self.sessions.get(&session).is_some_and(|a| a.attachment == attachment)
    }

    /// The number of unanswered requests of the session.
    #[must_use]
    pub fn waiting(&self, session: SessionId) -> usize {
        self.sessions.get(&session).map_or(0, |a| a.held.len())
    }

    /// The number of unanswered requests of all sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.values().map(|a| a.held.len()).sum()
    }

    /// Whether there are no unanswered requests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records that an entry was appended to this server's log.
    ///
    /// # Errors
    /// If the log holds the requests of a connection here out of order. Then two servers disagree on what the client
    /// sent, and the connection can no longer be answered in order.
    pub fn logged(&mut self, entry: &Entry) -> Result<(), OutOfOrder> {
        let Some(attached) = self.sessions.get_mut(&entry.origin.session) else { return Ok(()) };
        if !attached.may_own(entry) {
            return Ok(());
        }
        if entry.origin.cxid.is_attachment() && entry.origin.cxid != attached.attachment {
            // Only an attachment logged after our own takes the session away from us.
            let ours_is_logged = attached.floor.is_some() || attached.held.front().is_some_and(|h| h.logged.is_some());
            attached.superseded = ours_is_logged.then_some(entry.zxid);
            return Ok(());
        }
        let Some(next) = attached.held.iter_mut().find(|held| held.logged.is_none()) else {
            return Ok(()); // not a client's request, for example the expiry of the session
        };
        if attached.floor.is_none() && entry.origin.cxid != attached.attachment {
            return Ok(()); // a request of an earlier connection
        }
        let (cxid, next_cxid) = (entry.origin.cxid, next.cxid);
        if next_cxid == cxid {
            next.logged = Some(entry.zxid);
        } else if attached.held.iter().any(|held| held.logged.is_none() && held.cxid == cxid) {
            return Err(OutOfOrder { zxid: entry.zxid, cxid, next: next_cxid });
        }
        Ok(())
    }

    /// Records a truncation: requests found above `to` are unlogged again.
    pub fn truncated(&mut self, to: Zxid) {
        for attached in self.sessions.values_mut() {
            attached.superseded = attached.superseded.filter(|zxid| *zxid <= to);
            for held in &mut attached.held {
                held.logged = held.logged.filter(|zxid| *zxid <= to);
            }
        }
    }

    /// Records that an entry was applied. Entries must be applied in order.
    pub fn applied(&mut self, entry: &Entry) -> Applied<R> {
        let session = entry.origin.session;
        let Some(attached) = self.sessions.get_mut(&session) else { return Applied::Foreign };
        if attached.held.front().is_some_and(|held| held.logged == Some(entry.zxid)) {
            if entry.origin.cxid == attached.attachment {
                attached.floor = Some(entry.zxid);
            }
            return attached.held.pop_front().map_or(Applied::Foreign, Applied::Answers);
        }
        if attached.superseded == Some(entry.zxid) {
            return Applied::Supersedes(self.detach(session));
        }
        Applied::Foreign
    }

    /// The requests that are not in our log, in order of arrival. These must be sent to a new leader.
    #[must_use]
    pub fn unlogged(&self) -> Vec<&HeldRequest<R>> {
        let mut unlogged: Vec<_> =
            self.sessions.values().flat_map(|a| a.held.iter()).filter(|held| held.logged.is_none()).collect();
        unlogged.sort_unstable_by_key(|held| held.arrival);
        unlogged
    }
}

impl<R> Attached<R> {
    /// Whether an entry can belong to this connection at all.
    fn may_own(&self, entry: &Entry) -> bool {
        self.floor.is_none_or(|floor| entry.zxid > floor) && self.superseded.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;
    use bytes::Bytes;
    use pole_types::Epoch;
    use pole_types::ServerId;

    const SESSION: SessionId = SessionId(7);

    fn entry(counter: u32, cxid: Cxid) -> Entry {
        Entry {
            zxid: Zxid::new(Epoch(1), counter),
            origin: Origin { session: SESSION, cxid },
            body: Bytes::from_static(b"x"),
        }
    }

    /// A table with the session attached at 1.1.
    fn attached() -> (Requests<&'static str>, Cxid) {
        let mut table = Requests::default();
        let number = Cxid::attachment(ServerId(3), 1);
        table.attach(SESSION, number, "attach");
        log_and_apply(&mut table, &entry(1, number));
        (table, number)
    }

    fn log_and_apply(table: &mut Requests<&'static str>, entry: &Entry) -> Applied<&'static str> {
        table.logged(entry).expect("in order");
        table.applied(entry)
    }

    fn names(held: &[&HeldRequest<&'static str>]) -> Vec<&'static str> {
        held.iter().map(|h| h.request).collect()
    }

    #[test]
    fn a_request_found_in_the_log_is_not_sent_again_and_is_answered_when_applied() {
        let (mut table, _) = attached();
        table.hold(SESSION, Cxid(1), "a");
        table.hold(SESSION, Cxid(2), "b");
        table.logged(&entry(2, Cxid(1))).expect("in order");
        assert_eq!(names(&table.unlogged()), ["b"]);
        assert!(matches!(table.applied(&entry(2, Cxid(1))), Applied::Answers(held) if held.request == "a"));
    }

    #[test]
    fn a_request_truncated_from_the_log_is_sent_again() {
        let (mut table, _) = attached();
        table.hold(SESSION, Cxid(1), "a");
        table.logged(&entry(2, Cxid(1))).expect("in order");
        table.truncated(Zxid::new(Epoch(1), 1));
        assert_eq!(names(&table.unlogged()), ["a"]);
    }

    #[test]
    fn an_entry_at_or_below_the_floor_belongs_to_an_older_connection() {
        let mut table = Requests::default();
        let number = Cxid::attachment(ServerId(3), 2);
        table.attach(SESSION, number, "attach");
        assert_eq!(log_and_apply(&mut table, &entry(1, Cxid(1))), Applied::Foreign);
        log_and_apply(&mut table, &entry(2, number));
        table.hold(SESSION, Cxid(1), "reused number");
        table.logged(&entry(2, Cxid(1))).expect("in order");
        assert_eq!(names(&table.unlogged()), ["reused number"]);
    }

    #[test]
    fn an_attachment_elsewhere_ends_the_connection_here_and_its_requests() {
        let (mut table, _) = attached();
        table.hold(SESSION, Cxid(1), "a");
        let elsewhere = entry(2, Cxid::attachment(ServerId(4), 1));
        table.logged(&elsewhere).expect("in order");
        table.logged(&entry(3, Cxid(1))).expect("in order");
        assert_eq!(names(&table.unlogged()), ["a"], "the other connection's request is not ours");
        assert!(matches!(table.applied(&elsewhere), Applied::Supersedes(held) if held.len() == 1));
        assert_eq!(table.applied(&entry(3, Cxid(1))), Applied::Foreign);
    }

    #[test]
    fn an_attachment_elsewhere_that_is_truncated_ends_no_connection() {
        let (mut table, _) = attached();
        table.hold(SESSION, Cxid(1), "a");
        table.logged(&entry(2, Cxid::attachment(ServerId(4), 1))).expect("in order");
        table.truncated(Zxid::new(Epoch(1), 1));
        table.logged(&entry(2, Cxid(1))).expect("in order");
        assert!(matches!(table.applied(&entry(2, Cxid(1))), Applied::Answers(_)));
    }

    #[test]
    fn a_request_that_overtakes_an_earlier_one_of_its_connection_is_an_error() {
        let (mut table, _) = attached();
        table.hold(SESSION, Cxid(1), "a");
        table.hold(SESSION, Cxid(2), "b");
        let error = table.logged(&entry(2, Cxid(2))).expect_err("1 comes first");
        let message = alloc::format!("{error}");
        assert_eq!(message, "1.2 answers #2, but the session's next request is #1");
        assert_eq!(names(&table.unlogged()), ["a", "b"]);
    }
}
