//! The task of one candidate: runs an [`Election`] on a store and a clock.
//!
//! It carries out effects in order and turns whatever happens into events. Store operations and watches run as tasks of
//! their own, so that a slow store never delays the end of a guard. Every operation is answered, by the store or by its
//! time-out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pole_types::Span;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::candidate::{CampaignError, Change, wall_ms};
use crate::clock::Clock;
use crate::election::{Answer, Effect, Election, Event, Op, OpId, YieldReason};
use crate::guard::{Guard, Hold};
use crate::score::Value;
use crate::store::{Error, Store, Target};
use crate::token::Token;

/// What a handle asks of the task.
#[derive(Debug)]
pub(crate) enum Command {
    Campaign(oneshot::Sender<Result<Guard, CampaignError>>),
    Score(Option<Value>, Option<Span>),
    Priority(i32, Option<Span>),
    Resign(Option<String>),
    Leave(oneshot::Sender<()>),
}

/// What a candidate has asked of the store, for metrics.
#[derive(Debug, Default)]
pub struct Counters {
    /// Operations sent, renewals included.
    pub operations: AtomicU64,
    /// Operations that failed or timed out.
    pub failures: AtomicU64,
    /// States that watches reported.
    pub watched: AtomicU64,
    /// Terms led.
    pub terms: AtomicU64,
}

pub(crate) struct Driver {
    election: Election,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    commands: mpsc::Receiver<Command>,
    /// For guards, which keep the candidate in the election like a handle.
    handle: mpsc::WeakSender<Command>,
    changes: watch::Sender<Change>,
    trouble: watch::Sender<Option<Error>>,
    counters: Arc<Counters>,
    /// Answers and watched states, from the tasks.
    inbox: mpsc::Receiver<(u64, Event)>,
    outbox: mpsc::Sender<(u64, Event)>,
    /// Guards that were dropped. At most one at a time, because there is at most one guard.
    released: mpsc::UnboundedReceiver<Token>,
    release: mpsc::UnboundedSender<Token>,
    tasks: JoinSet<()>,
    /// The running watches, each with its number: a report of an earlier watch of the same record is dropped.
    watches: BTreeMap<Target, (u64, AbortHandle)>,
    watch_count: u64,
    waiter: Option<oneshot::Sender<Result<Guard, CampaignError>>>,
    term: Option<(Arc<Hold>, watch::Sender<Option<YieldReason>>)>,
    leavers: Vec<oneshot::Sender<()>>,
    left: bool,
}

impl Driver {
    pub(crate) fn new(
        election: Election,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        (handle, commands): (mpsc::WeakSender<Command>, mpsc::Receiver<Command>),
        changes: watch::Sender<Change>,
        trouble: watch::Sender<Option<Error>>,
        counters: Arc<Counters>,
    ) -> Self {
        let (outbox, inbox) = mpsc::channel(INBOX_MAX);
        let (release, released) = mpsc::unbounded_channel();
        Self {
            election,
            store,
            clock,
            commands,
            handle,
            changes,
            trouble,
            counters,
            inbox,
            outbox,
            released,
            release,
            tasks: JoinSet::new(),
            watches: BTreeMap::new(),
            watch_count: 0,
            waiter: None,
            term: None,
            leavers: Vec::new(),
            left: false,
        }
    }

    pub(crate) async fn run(mut self) {
        self.step(Event::Timer);
        while !self.left {
            if let Some(event) = self.next_event().await {
                self.step(event);
            }
            while self.tasks.try_join_next().is_some() {}
        }
        // Withdrawals are under way. Nobody waits for them longer than an operation may take.
        self.inbox.close();
        self.watches.values().for_each(|(_, watch)| watch.abort());
        while self.tasks.join_next().await.is_some() {}
        for leaver in self.leavers.drain(..) {
            let _ = leaver.send(());
        }
    }

    async fn next_event(&mut self) -> Option<Event> {
        let sleep = self.election.wake_at().map(|at| Duration::from_nanos((at - self.clock.now()).0));
        let leaving = !self.leavers.is_empty();
        tokio::select! {
            biased;
            () = tokio::time::sleep(sleep.unwrap_or_default()), if sleep.is_some() => Some(Event::Timer),
            Some(token) = self.released.recv() => Some(self.guard_dropped(token)),
            () = waiter_gone(&mut self.waiter) => {
                self.waiter = None;
                Some(Event::Eligible(false))
            }
            message = self.inbox.recv() => message.and_then(|(number, event)| self.accept(number, event)),
            command = self.commands.recv(), if !leaving => self.command(command),
        }
    }

    /// A report of a task. Those of watches that were ended meanwhile are dropped.
    fn accept(&mut self, number: u64, event: Event) -> Option<Event> {
        if let Event::Watched(target, _) | Event::WatchFailed(target) = &event {
            self.watches.get(target).filter(|(current, _)| *current == number)?;
            self.counters.watched.fetch_add(1, Ordering::Relaxed);
            if matches!(event, Event::WatchFailed(_)) {
                self.watches.remove(target);
            }
        }
        if matches!(&event, Event::Answer(_, answer) if failed(answer)) {
            self.counters.failures.fetch_add(1, Ordering::Relaxed);
        }
        Some(event)
    }

    fn guard_dropped(&mut self, token: Token) -> Event {
        // Without a new campaign nobody would get the next guard.
        let stand = self.waiter.is_some();
        self.step(Event::Eligible(stand));
        Event::Released(token)
    }

    fn command(&mut self, command: Option<Command>) -> Option<Event> {
        match command {
            Some(Command::Campaign(reply)) => {
                if self.waiter.is_some() || self.term.as_ref().is_some_and(|(_, ended)| !ended.is_closed()) {
                    let _ = reply.send(Err(CampaignError::Busy));
                    return None;
                }
                self.waiter = Some(reply);
                Some(Event::Eligible(true))
            }
            Some(Command::Score(value, ttl)) => Some(Event::Score { value, ttl, computed_ms: wall_ms() }),
            Some(Command::Priority(value, ttl)) => Some(Event::Priority { value, ttl }),
            Some(Command::Resign(to)) => Some(Event::Resign { to }),
            Some(Command::Leave(reply)) => {
                self.leavers.push(reply);
                Some(Event::Leave)
            }
            None => {
                // All handles and guards are gone.
                let (reply, _) = oneshot::channel();
                self.leavers.push(reply);
                Some(Event::Leave)
            }
        }
    }

    fn step(&mut self, event: Event) {
        for effect in self.election.step(self.clock.now(), event) {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Store(id, op) => self.operate(id, op),
            Effect::Watch(target) => self.watch(target),
            Effect::Unwatch(target) => {
                if let Some((_, watch)) = self.watches.remove(&target) {
                    watch.abort();
                }
            }
            Effect::Lead { token, deadline } => {
                self.counters.terms.fetch_add(1, Ordering::Relaxed);
                let hold = Arc::new(Hold::new(token, self.clock.clone(), deadline));
                let (ended_tx, ended) = watch::channel(None);
                let guard = Guard::new(hold.clone(), ended, self.release.clone(), self.handle.upgrade());
                self.term = Some((hold, ended_tx));
                self.changes.send_modify(|change| change.leading = true);
                // If nobody waits any more, the guard is dropped here, which gives up leadership.
                if let Some(waiter) = self.waiter.take() {
                    drop(waiter.send(Ok(guard)));
                }
            }
            Effect::Extend { deadline } => {
                if let Some((hold, _)) = &self.term {
                    hold.extend(deadline);
                }
            }
            Effect::Yield { reason, .. } => {
                if let Some((hold, ended)) = &self.term {
                    hold.end();
                    ended.send_replace(Some(reason));
                }
                self.changes.send_modify(|change| change.leading = false);
            }
            Effect::Leader(record) => self.changes.send_modify(|change| change.record = record),
            Effect::Trouble(error) => {
                self.trouble.send_replace(Some(error));
            }
            Effect::Left => self.left = true,
        }
    }

    fn operate(&mut self, id: OpId, op: Op) {
        self.counters.operations.fetch_add(1, Ordering::Relaxed);
        let (store, outbox) = (self.store.clone(), self.outbox.clone());
        let limit = Duration::from_nanos(self.election.timing().operation.0);
        self.tasks.spawn(async move {
            let answer = perform(&*store, op, limit).await;
            // The driver outlives its tasks; a failure means that the runtime is shutting down.
            let _ = outbox.send((0, Event::Answer(id, answer))).await;
        });
    }

    fn watch(&mut self, target: Target) {
        self.watch_count += 1;
        let number = self.watch_count;
        let (store, outbox) = (self.store.clone(), self.outbox.clone());
        let task = self.tasks.spawn(async move {
            if let Ok(mut watch) = store.watch(target).await {
                while let Ok(entry) = watch.next().await {
                    if outbox.send((number, Event::Watched(target, entry))).await.is_err() {
                        return;
                    }
                }
            }
            let _ = outbox.send((number, Event::WatchFailed(target))).await;
        });
        self.watches.insert(target, (number, task));
    }
}

/// The guard must not outlive the task that renews its lease by more than the lease itself.
impl Drop for Driver {
    fn drop(&mut self) {
        if let Some((hold, ended)) = &self.term {
            hold.end();
            ended.send_if_modified(|reason| reason.is_none() && reason.replace(YieldReason::LeaseLost).is_none());
        }
    }
}

async fn waiter_gone(waiter: &mut Option<oneshot::Sender<Result<Guard, CampaignError>>>) {
    match waiter {
        Some(waiter) => waiter.closed().await,
        None => std::future::pending().await,
    }
}

/// Performs one operation within a limit.
async fn perform(store: &dyn Store, op: Op, limit: Duration) -> Answer {
    async fn limited<T>(
        limit: Duration,
        what: &str,
        operation: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let late = |_| Error::Unavailable(format!("{what}: no answer within {limit:?}"));
        tokio::time::timeout(limit, operation).await.map_err(late)?
    }
    match op {
        Op::Read(target) => Answer::Read(limited(limit, "read", store.read(target)).await),
        Op::Swap(swap) => Answer::Swap(limited(limit, "swap", store.swap(swap)).await),
        Op::Publish { lease, record, ttl } => {
            let ttl = Duration::from_nanos(ttl.0);
            Answer::Publish(limited(limit, "publish", store.publish(lease, record, ttl)).await)
        }
        Op::Renew { lease, record } => Answer::Renew(limited(limit, "renew", store.renew(lease, record)).await),
        Op::Withdraw(lease) => Answer::Withdraw(limited(limit, "withdraw", store.withdraw(lease)).await),
        Op::List => Answer::List(limited(limit, "list", store.list()).await),
    }
}

fn failed(answer: &Answer) -> bool {
    match answer {
        Answer::Read(result) => result.is_err(),
        Answer::Swap(result) => result.is_err(),
        Answer::Publish(result) => result.is_err(),
        Answer::Renew(result) => result.is_err(),
        Answer::Withdraw(result) => result.is_err(),
        Answer::List(result) => result.is_err(),
    }
}

/// Reports that may wait for the task. Tasks wait for room; each operation and each watch has at most one.
const INBOX_MAX: usize = 16;
