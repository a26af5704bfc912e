//! The state that the threads of a server share: the tree, the watches, the mailbox of the node, and the status.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{ArcRwLockWriteGuard, Mutex, RawRwLock, RwLock, RwLockReadGuard};
use pole_jute::AuthPacket;
use pole_node::{
    CallContext, ClientId, CloseReason, Nonce, Note, RequestTotals, ServerContext, TokenBucket, TreeStore,
};
use pole_tree::{Caller, Members, Tree, Watcher, Watches};
use pole_types::{Membership, SessionId, Time};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::{Notify, Semaphore};

use crate::Settings;
use crate::admin::Backups;
use crate::audit::AuditLog;
use crate::client::{Greetings, Handle, OutputTotal, SessionIds, Slots};
use crate::clock::Clock;
use crate::kerberos::Acceptor;
use crate::mailbox::Mailbox;
use crate::metrics::{Counter, Summary};
use crate::status::{Role, Status};

/// Exists once per server.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) mailbox: Mailbox,
    pub(crate) tree: Arc<RwLock<Tree>>,
    pub(crate) watches: Arc<Mutex<Watches>>,
    /// The zxid of the last transaction that clients can read.
    pub(crate) applied: AtomicI64,
    /// The leader knows of all client activity before this time; see `pole_node::Lease`.
    confirmed: AtomicU64,
    /// The permit for a long list; see `listing`.
    pub(crate) lists: Arc<Semaphore>,
    pub(crate) confirmation_changed: Notify,
    pub(crate) session_ids: SessionIds,
    next_client: AtomicU64,
    pub(crate) clients: Mutex<HashMap<ClientId, Arc<Handle>>>,
    /// Connections active since the last report to the leader, each once.
    touched: Mutex<Vec<Arc<Handle>>>,
    /// Requests that the node has not answered yet, and their bytes.
    pub(crate) outstanding: AtomicUsize,
    outstanding_bytes: AtomicUsize,
    outstanding_large_bytes: AtomicUsize,
    /// Limits requests for sessions.
    tokens: Mutex<TokenBucket>,
    pub(crate) room: Notify,
    /// Output that clients have not read.
    pub(crate) output: Arc<OutputTotal>,
    pub(crate) greetings: Greetings,
    /// How many client connections leave enough descriptors for files and other servers.
    pub(crate) descriptors_for_clients: usize,
    pub(crate) slots: Slots,
    pub(crate) backups: Backups,
    pub(crate) status: Status,
    /// Set at the start of a server with `audit.enable`.
    pub(crate) audit: OnceLock<AuditLog>,
    /// Set at the start of a server whose clients use Kerberos.
    pub(crate) kerberos: OnceLock<Acceptor>,
    members: RwLock<Arc<CurrentMembers>>,
}

/// The members of the ensemble after the last change that this server knows of.
#[derive(Debug)]
pub(crate) struct CurrentMembers {
    /// Their addresses; empty on a standalone server.
    pub(crate) members: Members,
    pub(crate) membership: Membership,
}

impl Shared {
    /// The members of the ensemble.
    pub(crate) fn members(&self) -> Arc<CurrentMembers> {
        Arc::clone(&self.members.read())
    }

    pub(crate) fn set_members(&self, members: Members) {
        let membership = members.membership();
        *self.members.write() = Arc::new(CurrentMembers { members, membership });
    }

    /// Whether this server is the whole ensemble.
    pub(crate) fn is_standalone(&self) -> bool {
        self.members().membership.linked(self.settings.me).next().is_none()
    }

    pub(crate) fn new(settings: Settings, clock: Clock, wall_ms: i64) -> Self {
        Self {
            clock,
            mailbox: Mailbox::default(),
            tree: Arc::new(RwLock::new(Tree::new(settings.rules))),
            watches: Arc::default(),
            applied: AtomicI64::new(0),
            lists: Arc::new(Semaphore::new(1)),
            confirmed: AtomicU64::new(0),
            confirmation_changed: Notify::new(),
            session_ids: SessionIds::new(settings.me, wall_ms),
            next_client: AtomicU64::new(1),
            clients: Mutex::default(),
            touched: Mutex::default(),
            outstanding: AtomicUsize::new(0),
            outstanding_bytes: AtomicUsize::new(0),
            outstanding_large_bytes: AtomicUsize::new(0),
            tokens: Mutex::new(TokenBucket::new(settings.connection_tokens, Time(0))),
            room: Notify::new(),
            output: Arc::new(OutputTotal::new(settings.output_bytes_max)),
            greetings: Greetings::new(settings.greetings_max),
            descriptors_for_clients: crate::descriptors::for_clients(),
            slots: Slots::default(),
            backups: Backups::default(),
            status: Status::default(),
            members: RwLock::new(Arc::new(CurrentMembers {
                members: settings.config.ensemble.as_ref().map(|ensemble| ensemble.members.clone()).unwrap_or_default(),
                membership: settings.config.members(),
            })),
            audit: OnceLock::new(),
            kerberos: OnceLock::new(),
            settings,
        }
    }

    pub(crate) fn next_client(&self) -> ClientId {
        ClientId(self.next_client.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn confirmed(&self) -> Time {
        Time(self.confirmed.load(Ordering::Acquire))
    }

    pub(crate) fn confirm(&self, at: Time) {
        self.confirmed.fetch_max(at.0, Ordering::AcqRel);
        self.confirmation_changed.notify_waiters();
    }

    /// The time and positions that a connection needs for a call.
    pub(crate) fn call_context(&self) -> CallContext {
        // The confirmation is read first, so that it is not later than the clock.
        let confirmed = self.confirmed();
        CallContext { now: self.clock.now(), confirmed, applied: self.applied.load(Ordering::Acquire) }
    }

    /// Counts requests that are handed to the node.
    pub(crate) fn add_outstanding(&self, added: RequestTotals) {
        if added.count > 0 {
            self.outstanding.fetch_add(added.count, Ordering::AcqRel);
            self.outstanding_bytes.fetch_add(added.bytes, Ordering::AcqRel);
            self.outstanding_large_bytes.fetch_add(added.large_bytes, Ordering::AcqRel);
        }
    }

    /// Updates the status that other threads read from a note of the node.
    pub(crate) fn record(&self, note: &Note) {
        let status = &self.status;
        match note {
            Note::Electing { .. } => {
                if let Role::Starting | Role::Serving { .. } = status.role() {
                    status.set_role(Role::Looking { since: self.clock.now() });
                }
                status.elections.fetch_add(1, Ordering::Relaxed);
            }
            Note::Serving { leader, epoch } => {
                status.set_role(Role::Serving { leader: *leader, epoch: *epoch });
                if !self.serves_clients() {
                    self.close_clients(CloseReason::LeaderDoesNotServe);
                }
                status.leader_changes.fetch_add(1, Ordering::Relaxed);
            }
            Note::SlowWrite { .. } => drop(status.slow_writes.fetch_add(1, Ordering::Relaxed)),
            Note::HandedOver { .. } => drop(status.hand_overs.fetch_add(1, Ordering::Relaxed)),
            Note::Installed { .. } => {
                status.installed.fetch_add(1, Ordering::Relaxed);
                status.closed_by_snapshot.fetch_add(self.clients.lock().len() as u64, Ordering::Relaxed);
            }
            Note::Elected(_)
            | Note::Leading { .. }
            | Note::Following { .. }
            | Note::Members { .. }
            | Note::Resigning { .. }
            | Note::Unreached { .. }
            | Note::ResignationAborted { .. }
            | Note::Abandoned { .. }
            | Note::OutOfOrder { .. }
            | Note::BadPeer { .. }
            | Note::InvalidScore { .. }
            | Note::BadOracle { .. }
            | Note::DiskHangs => {}
        }
    }

    /// Whether clients may have sessions on this server: a leader may be configured to leave them to its followers.
    fn serves_clients(&self) -> bool {
        let leads = matches!(self.status.role(), Role::Serving { leader, .. } if leader == self.settings.me);
        self.settings.leader_serves || self.is_standalone() || !leads
    }

    /// Closes the connections of all clients, but not of the server itself.
    fn close_clients(&self, reason: CloseReason) {
        let handles: Vec<_> = self.clients.lock().values().cloned().collect();
        handles.iter().filter(|handle| !handle.is_exempt()).for_each(|handle| handle.close(reason));
    }

    /// Whether there has been no quorum for long enough to serve read-only clients.
    pub(crate) fn is_read_only(&self) -> bool {
        let Some(after) = self.settings.read_only_after else { return false };
        match self.status.role() {
            Role::Looking { since } => self.clock.now() - since >= after,
            Role::Starting | Role::Serving { .. } => false,
        }
    }

    /// Records activity of a client, which the next report to the leader will include. Returns the time that counts for
    /// the lease of the connection.
    pub(crate) fn touch(&self, handle: &Arc<Handle>) -> Time {
        loop {
            let now = self.clock.now();
            if handle.activity.record(now) {
                return now;
            }
            // A report without the client may be made before this line, so the clock must be read again.
            self.touched.lock().push(Arc::clone(handle));
        }
    }

    /// The sessions active since the last report, for a report as of `at`, which was read from the clock before the
    /// call.
    pub(crate) fn take_touched(&self, at: Time) -> Vec<SessionId> {
        let touched = std::mem::take(&mut *self.touched.lock());
        let sessions = touched.iter().map(|handle| SessionId(handle.session())).collect();
        let active_since = touched.into_iter().filter(|handle| handle.activity.report(at));
        let active_since: Vec<_> = active_since.collect();
        self.touched.lock().extend(active_since);
        sessions
    }

    /// Counts requests that were answered or dropped.
    pub(crate) fn remove_outstanding(&self, removed: RequestTotals) {
        if removed.count == 0 {
            return;
        }
        let had_room = self.has_room_for_all();
        self.outstanding.fetch_sub(removed.count, Ordering::AcqRel);
        self.outstanding_bytes.fetch_sub(removed.bytes, Ordering::AcqRel);
        self.outstanding_large_bytes.fetch_sub(removed.large_bytes, Ordering::AcqRel);
        if !had_room && self.has_room_for_all() {
            self.room.notify_waiters();
        }
    }

    /// Whether there is room for connections with much outstanding, too.
    pub(crate) fn has_room_for_all(&self) -> bool {
        self.has_room(usize::MAX, usize::MAX)
    }
}

impl ServerContext for Shared {
    fn new_session(&self) -> i64 {
        self.session_ids.next()
    }

    fn is_read_only(&self) -> bool {
        Self::is_read_only(self)
    }

    fn has_room(&self, requests: usize, bytes: usize) -> bool {
        let (all, most) = (self.outstanding.load(Ordering::Acquire), self.settings.outstanding_max);
        (requests <= most / OWN_SHARE || all < most)
            && (bytes <= OWN_BYTES_MIN || self.outstanding_bytes.load(Ordering::Acquire) < OUTSTANDING_BYTES_MAX)
    }

    fn admit(&self, resumes: bool, now: Time) -> Result<(), CloseReason> {
        if !self.serves_clients() {
            return Err(CloseReason::LeaderDoesNotServe);
        }
        let mut tokens = self.tokens.lock();
        let Some(deficit) = tokens.take(resumes, now) else {
            self.status.refused.fetch_add(1, Ordering::Relaxed);
            return Err(CloseReason::ConnectionThrottled);
        };
        if tokens.is_limited() {
            self.status.summaries.record(Summary::ConnectionTokenDeficit, deficit, 1, now);
        }
        Ok(())
    }

    fn has_room_for_large(&self, bytes: usize) -> bool {
        let has_room = self.outstanding_large_bytes.load(Ordering::Acquire) + bytes <= self.settings.large_bytes_max;
        self.status.counters.add(Counter::LargeRequestsRejected, u64::from(!has_room));
        has_room
    }

    fn identify(&self, watcher: Watcher, caller: &Caller) {
        self.watches.lock().identify(watcher, caller);
    }

    fn nonce(&self) -> Option<Nonce> {
        let mut nonce = Nonce::default();
        SystemRandom::new().fill(&mut nonce).ok().map(|()| nonce)
    }

    fn authenticated(&self, packet: &AuthPacket, is_accepted: bool) {
        let names = &self.settings.limits.authentication.providers.ensemble_names;
        let names = names.as_ref().filter(|_| packet.scheme == "ensemble");
        let compared =
            names.is_some_and(|names| !names.is_empty()) && packet.auth.as_ref().is_some_and(|name| !name.is_empty());
        let counter = match (names, is_accepted) {
            (Some(_), true) if compared => Counter::EnsembleAuthSuccess,
            (Some(_), true) => Counter::EnsembleAuthSkip,
            (Some(_), false) => Counter::EnsembleAuthFail,
            (None, false) => Counter::AuthFailedCount,
            (None, true) => return,
        };
        self.status.counters.add(counter, 1);
    }
}

/// The shared tree, as held by the one thread that changes it.
///
/// From the first change of a step until [`SharedTree::publish`] no other thread can read the tree. By then the watch
/// events of the change are queued on their connections.
pub(crate) struct SharedTree {
    tree: Arc<RwLock<Tree>>,
    watches: Arc<Mutex<Watches>>,
    writing: Option<ArcRwLockWriteGuard<RawRwLock, Tree>>,
}

impl SharedTree {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self { tree: Arc::clone(&shared.tree), watches: Arc::clone(&shared.watches), writing: None }
    }

    /// Lets other threads read the changes.
    pub(crate) fn publish(&mut self) {
        self.writing = None;
    }
}

impl TreeStore for SharedTree {
    fn tree(&self) -> impl Deref<Target = Tree> + '_ {
        match &self.writing {
            Some(guard) => TreeGuard::Own(guard),
            None => TreeGuard::Shared(self.tree.read()),
        }
    }

    fn tree_mut(&mut self) -> &mut Tree {
        self.writing.get_or_insert_with(|| self.tree.write_arc())
    }

    fn watches(&self) -> impl DerefMut<Target = Watches> + '_ {
        self.watches.lock()
    }
}

/// The tree under the write lock that this thread holds, or under a read lock.
enum TreeGuard<'a> {
    Own(&'a Tree),
    Shared(RwLockReadGuard<'a, Tree>),
}

impl Deref for TreeGuard<'_> {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        match self {
            Self::Own(tree) => tree,
            Self::Shared(guard) => guard,
        }
    }
}

#[cfg(test)]
impl Shared {
    /// A standalone server that is not running, with these additional lines of `zoo.cfg`.
    pub(crate) fn configured(more: &str) -> Self {
        let text = format!("dataDir=/nowhere\nclientPort=2181\n{more}");
        let nothing = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
        let (config, _) = crate::config::Config::parse_cfg("test.cfg", &text, &nothing).expect("a good configuration");
        Self::new(Settings::new(&config), Clock::start(), 0)
    }
}

/// Bytes of all requests that the node has not answered; further requests wait at their connections, where those of other
/// clients pass them. On the way to the leader they cannot. Enough for `globalOutstandingLimit` (1000) requests of 8 KiB.
const OUTSTANDING_BYTES_MAX: usize = 8 << 20;

/// The part of `globalOutstandingLimit` that a connection may have outstanding although others have used up the limit: 7 of
/// 1000 requests. Those who wait for room take it in any order, so a client with few requests would wait for long.
const OWN_SHARE: usize = 128;

/// The same for bytes.
const OWN_BYTES_MIN: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_with_little_outstanding_does_not_wait_for_those_that_use_up_the_room() {
        let shared = Shared::configured("");
        let all =
            RequestTotals { count: shared.settings.outstanding_max, bytes: OUTSTANDING_BYTES_MAX, large_bytes: 0 };
        assert!(shared.has_room_for_all());
        shared.add_outstanding(all);
        assert!(!shared.has_room_for_all());
        assert!(shared.has_room(1, 100) && shared.has_room(7, OWN_BYTES_MIN));
        assert!(!shared.has_room(8, 100) && !shared.has_room(1, OWN_BYTES_MIN + 1));
        shared.remove_outstanding(all);
        assert!(shared.has_room(8, OWN_BYTES_MIN + 1));

        // With a small limit there is no such part.
        let shared = Shared::configured("globalOutstandingLimit=10\n");
        shared.add_outstanding(RequestTotals { count: 10, ..all });
        assert!(!shared.has_room(1, 100));
    }
}
