//! Requests under way: what a server has taken from its clients and not yet answered.
//!
//! In: requests as they arrive; entries as they are logged, cut off and applied. Out: whom to answer, and what to
//! send to a new leader. Why: a client must not notice a leader change, so its request is held until its
//! transaction is applied, found again in the recovered history, or sent once more.
//! Holds: of each session, the requests found in the log are a prefix of those held; a request is answered once.
//! Not here: what a request means, or whether its session exists (the state machine).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use pole_election::Zxid;

use crate::{Cxid, Entry, SessionId};

/// The requests of all sessions attached to this server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requests<R> {
    sessions: BTreeMap<SessionId, Attached<R>>,
    /// Numbers arrivals, so that what is sent again keeps its order over sessions.
    arrivals: u64,
}

/// One session on this server: a connection and its requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attached<R> {
    /// The number of the connection's attachment.
    attachment: Cxid,
    /// The position of the attachment once applied: only transactions above it can be this connection's.
    floor: Option<Zxid>,
    /// Where the log attaches the session to another connection: what follows is not ours.
    superseded: Option<Zxid>,
    /// In order of arrival.
    held: VecDeque<Held<R>>,
}

/// A request that is not yet answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Held<R> {
    /// The session that asked.
    pub session: SessionId,
    /// Its number for the request.
    pub cxid: Cxid,
    /// What was asked.
    pub request: R,
    arrival: u64,
    logged: Option<Zxid>,
}

/// What the application of an entry means to this server's clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied<R> {
    /// It is nobody's here.
    Foreign,
    /// It answers this request.
    Answers(Held<R>),
    /// It attaches the session elsewhere: the connection here is over, with these requests.
    Supersedes(Vec<Held<R>>),
}

/// A request was put into the log before one that was asked earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{zxid} answers #{cxid}, but the session's next request is #{next}")]
pub struct OutOfOrder {
    /// The entry.
    pub zxid: Zxid,
    /// The request that it answers.
    pub cxid: Cxid,
    /// The request that was to be answered before.
    pub next: Cxid,
}

impl<R> Default for Requests<R> {
    fn default() -> Self {
        Self { sessions: BTreeMap::new(), arrivals: 0 }
    }
}

impl<R> Requests<R> {
    /// A new connection of the session, whose attachment is the request. Returns what its older connection here
    /// still waited for.
    pub fn attach(&mut self, session: SessionId, attachment: Cxid, request: R) -> Vec<Held<R>> {
        let dropped = self.detach(session);
        let fresh = Attached { attachment, floor: None, superseded: None, held: VecDeque::new() };
        self.sessions.insert(session, fresh);
        self.hold(session, attachment, request);
        dropped
    }

    /// Takes a request of an attached session; false if the session is not attached here.
    pub fn hold(&mut self, session: SessionId, cxid: Cxid, request: R) -> bool {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let Some(attached) = self.sessions.get_mut(&session) else { return false };
        attached.held.push_back(Held { session, cxid, request, arrival, logged: None });
        true
    }

    /// The connection is closed: its requests are dropped.
    pub fn detach(&mut self, session: SessionId) -> Vec<Held<R>> {
        self.sessions.remove(&session).map_or_else(Vec::new, |attached| attached.held.into())
    }

    /// All connections are closed.
    pub fn clear(&mut self) {
        self.sessions.clear();
    }

    /// The position of the session's attachment here, once applied.
    #[must_use]
    pub fn floor(&self, session: SessionId) -> Option<Zxid> {
        self.sessions.get(&session)?.floor
    }

    /// Whether the session has a connection here whose attachment has this number.
    #[must_use]
    pub fn is_attached_as(&self, session: SessionId, attachment: Cxid) -> bool {
        self.sessions.get(&session).is_some_and(|a| a.attachment == attachment)
    }

    /// How many requests the session waits for.
    #[must_use]
    pub fn waiting(&self, session: SessionId) -> usize {
        self.sessions.get(&session).map_or(0, |a| a.held.len())
    }

    /// How many requests are held in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.values().map(|a| a.held.len()).sum()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An entry was put into this server's log.
    ///
    /// # Errors
    /// If the log holds a request of a connection here out of its order: then two servers disagree on what was asked, and
    /// the connection cannot be answered in order any more.
    pub fn logged(&mut self, entry: &Entry) -> Result<(), OutOfOrder> {
        let Some(attached) = self.sessions.get_mut(&entry.origin.session) else { return Ok(()) };
        if !attached.may_own(entry) {
            return Ok(());
        }
        if entry.origin.cxid.is_attachment() && entry.origin.cxid != attached.attachment {
            // Only one that comes after our own attachment takes the session away from us.
            let ours_is_logged = attached.floor.is_some() || attached.held.front().is_some_and(|h| h.logged.is_some());
            attached.superseded = ours_is_logged.then_some(entry.zxid);
            return Ok(());
        }
        let Some(next) = attached.held.iter_mut().find(|held| held.logged.is_none()) else {
            return Ok(()); // closed by expiry, say: not a request of the client's
        };
        if attached.floor.is_none() && entry.origin.cxid != attached.attachment {
            return Ok(()); // an earlier connection's, committed only now
        }
        let (cxid, next_cxid) = (entry.origin.cxid, next.cxid);
        if next_cxid == cxid {
            next.logged = Some(entry.zxid);
        } else if attached.held.iter().any(|held| held.logged.is_none() && held.cxid == cxid) {
            return Err(OutOfOrder { zxid: entry.zxid, cxid, next: next_cxid });
        }
        Ok(())
    }

    /// The log was cut: what was found above `to` is to be sent again.
    pub fn truncated(&mut self, to: Zxid) {
        for attached in self.sessions.values_mut() {
            attached.superseded = attached.superseded.filter(|zxid| *zxid <= to);
            for held in &mut attached.held {
                held.logged = held.logged.filter(|zxid| *zxid <= to);
            }
        }
    }

    /// An entry was applied, in order.
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

    /// The requests that are in no log of ours, in order of arrival: what a new leader has to be sent.
    #[must_use]
    pub fn unlogged(&self) -> Vec<&Held<R>> {
        let mut unlogged: Vec<_> =
            self.sessions.values().flat_map(|a| a.held.iter()).filter(|held| held.logged.is_none()).collect();
        unlogged.sort_unstable_by_key(|held| held.arrival);
        unlogged
    }
}

impl<R> Attached<R> {
    /// Whether an entry can be this connection's at all.
    fn may_own(&self, entry: &Entry) -> bool {
        self.floor.is_none_or(|floor| entry.zxid > floor) && self.superseded.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, ServerId};
    use bytes::Bytes;
    use pole_election::Epoch;

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

    fn names(held: &[&Held<&'static str>]) -> Vec<&'static str> {
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
    fn a_request_cut_off_the_log_is_sent_again() {
        let (mut table, _) = attached();
        table.hold(SESSION, Cxid(1), "a");
        table.logged(&entry(2, Cxid(1))).expect("in order");
        table.truncated(Zxid::new(Epoch(1), 1));
        assert_eq!(names(&table.unlogged()), ["a"]);
    }

    #[test]
    fn an_entry_at_or_below_the_floor_is_an_older_connections() {
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
    fn an_attachment_elsewhere_that_is_cut_off_ends_nothing() {
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
        let words = alloc::format!("{error}");
        assert_eq!(words, "1.2 answers #2, but the session's next request is #1");
        assert_eq!(names(&table.unlogged()), ["a", "b"]);
    }
}
