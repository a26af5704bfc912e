//! A candidate of an election, as an application uses it.
//!
//! [`Candidate`] is a handle; a task on the tokio runtime does the work (`driver`). When the last handle and the guard
//! are dropped, the candidate leaves the election.

use std::sync::Arc;
use std::time::Duration;

use pole_oracle::ResignConfig;
use pole_types::Span;
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::{BootClock, Clock};
use crate::driver::{Command, Counters, Driver};
use crate::election::{Election, InvalidSettings, Settings, Strategy};
use crate::guard::{Check, Guard};
use crate::record::Leader;
use crate::score::{OracleTag, Value};
use crate::store::{Error, Store};
use crate::timing::Timing;
use crate::token::Token;

/// The configuration of a candidate, before it joins.
#[derive(Clone)]
pub struct Builder {
    settings: Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    remembered: Token,
}

impl Builder {
    /// The time-to-live of leases, and with it all other spans. Default: 10 s, or what the store needs at least.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.timing = Timing::for_ttl(ttl);
        self
    }

    /// All spans one by one.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.settings.timing = timing;
        self
    }

    /// Who wins. Default: the best score.
    #[must_use]
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.settings.strategy = strategy;
        self
    }

    /// What computes the scores. Scores of different oracles are not compared.
    #[must_use]
    pub fn oracle(mut self, name: impl Into<String>, version: u64) -> Self {
        self.settings.oracle = OracleTag { name: name.into(), version };
        self
    }

    /// When a leader hands over to a better candidate.
    #[must_use]
    pub fn resign(mut self, resign: ResignConfig) -> Self {
        self.settings.resign = resign;
        self
    }

    /// Takes part, but never leads.
    #[must_use]
    pub fn never(mut self, never: bool) -> Self {
        self.settings.never = never;
        self
    }

    /// Another clock for guards and deadlines, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The highest token that this application knows from before, so that tokens increase even if the store lost it.
    #[must_use]
    pub fn remember(mut self, token: Token) -> Self {
        self.remembered = token;
        self
    }

    /// Joins the election. Must be called on a tokio runtime. The candidate is an observer until it calls
    /// [`Candidate::campaign`].
    ///
    /// # Errors
    /// If the configuration cannot work with this store.
    pub fn join(mut self) -> Result<Candidate, InvalidSettings> {
        let promises = self.store.promises();
        self.settings.early = span(promises.early);
        self.settings.wall_ms = wall_ms().saturating_sub(Span(self.clock.now().0).as_us() / 1000);
        let (ttl, least) = (self.settings.timing.ttl, span(promises.ttl_min));
        if ttl < least {
            return Err(InvalidSettings::Ttl { store: promises.store, ttl, least });
        }
        let id = self.settings.id.clone();
        let mut election = Election::new(self.settings)?;
        election.remember(self.remembered);
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let (changes_tx, changes) = watch::channel(Change::default());
        let (trouble_tx, trouble) = watch::channel(None);
        let counters = Arc::new(Counters::default());
        let driver = Driver::new(
            election,
            self.store,
            self.clock,
            (commands.downgrade(), inbox),
            changes_tx,
            trouble_tx,
            counters.clone(),
        );
        tokio::spawn(driver.run());
        Ok(Candidate { id, commands, changes, trouble, counters })
    }
}

/// A candidate that has joined an election. Clones are handles of the same candidate.
#[derive(Clone, Debug)]
pub struct Candidate {
    id: String,
    commands: mpsc::Sender<Command>,
    changes: watch::Receiver<Change>,
    trouble: watch::Receiver<Option<Error>>,
    counters: Arc<Counters>,
}

impl Candidate {
    /// Prepares a candidate with an id that is unique in the election.
    #[must_use]
    pub fn builder(store: Arc<dyn Store>, id: impl Into<String>) -> Builder {
        let mut settings = Settings::new(id, random());
        let least = store.promises().ttl_min;
        settings.timing = Timing::for_ttl(least.max(TTL_DEFAULT));
        Builder { settings, store, clock: Arc::new(BootClock), remembered: Token::ZERO }
    }

    /// The candidate's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Stands for election until this candidate leads, and returns the proof of it.
    ///
    /// When leadership ends ([`Guard::ended`]), stop the work, drop the guard and campaign again. Losing a lease is no
    /// reason to end the process. Dropping the future ends the campaign.
    ///
    /// # Errors
    /// If another campaign of this candidate is under way or its guard still held, or the candidate has left.
    pub async fn campaign(&self) -> Result<Guard, CampaignError> {
        let (reply, guard) = oneshot::channel();
        self.send(Command::Campaign(reply)).await?;
        guard.await.map_err(|_| CampaignError::Left)?
    }

    /// Runs `work` whenever this candidate leads, and drops it, which cancels it, when leadership ends. Returns the
    /// result of `work` when it completes by itself; leadership is then given up.
    ///
    /// # Errors
    /// As [`Candidate::campaign`].
    pub async fn run<T, F: Future<Output = T>>(&self, mut work: impl FnMut(Check) -> F) -> Result<T, CampaignError> {
        loop {
            let mut guard = self.campaign().await?;
            let check = guard.check();
            // The guard is dropped after the work, so that a successor never overlaps with it.
            tokio::select! {
                biased;
                _reason = guard.ended() => {}
                result = work(check) => return Ok(result),
            }
        }
    }

    /// Publishes a score, higher is better, good until it is replaced.
    ///
    /// # Errors
    /// If the number is not finite or its magnitude exceeds a trillion.
    pub async fn set_score(&self, score: f64) -> Result<(), InvalidScore> {
        self.set_score_for(score, None).await
    }

    /// Publishes a score that becomes unknown after a time, so that a dead probe does not make a leader.
    ///
    /// # Errors
    /// If the number is not finite or its magnitude exceeds a trillion.
    pub async fn set_score_for(&self, score: f64, ttl: Option<Duration>) -> Result<(), InvalidScore> {
        let value = Value::new(score).ok_or(InvalidScore { got: score })?;
        let _ = self.send(Command::Score(Some(value), ttl.map(span))).await;
        Ok(())
    }

    /// Says that the score is unknown.
    pub async fn clear_score(&self) {
        let _ = self.send(Command::Score(None, None)).await;
    }

    /// Sets a priority, which counts more than any score, for a time or for ever. 0 is the priority of everybody else.
    pub async fn set_priority(&self, priority: i32, ttl: Option<Duration>) {
        let _ = self.send(Command::Priority(priority, ttl.map(span))).await;
    }

    /// Gives up leadership, if this candidate leads, in favour of another candidate or of the best one. The guard ends;
    /// the next leader begins after it was dropped.
    pub async fn resign(&self, to: Option<&str>) {
        let _ = self.send(Command::Resign(to.map(str::to_owned))).await;
    }

    /// Leaves the election and returns when the store knows it, or when the lease has ended.
    pub async fn leave(&self) {
        let (reply, left) = oneshot::channel();
        if self.send(Command::Leave(reply)).await.is_ok() {
            let _ = left.await;
        }
    }

    /// The leader as this candidate last saw it.
    #[must_use]
    pub fn leader(&self) -> Change {
        self.changes.borrow().clone()
    }

    /// The changes of leadership from now on.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes { receiver: self.changes.clone() }
    }

    /// Calls a function with every change of leadership, until the candidate has left.
    pub fn on_change(&self, mut callback: impl FnMut(Change) + Send + 'static) {
        let mut changes = self.changes();
        tokio::spawn(async move {
            while let Some(change) = changes.next().await {
                callback(change);
            }
        });
    }

    /// Waits for the next failure of the store. The candidate goes on by itself; this is for logs.
    pub async fn trouble(&mut self) -> Option<Error> {
        self.trouble.changed().await.ok()?;
        self.trouble.borrow_and_update().clone()
    }

    /// What this candidate has asked of the store so far.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    async fn send(&self, command: Command) -> Result<(), CampaignError> {
        self.commands.send(command).await.map_err(|_| CampaignError::Left)
    }
}

/// Who leads, as seen by one candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The leader record; none before the first election, or before it is known.
    pub record: Option<Leader>,
    /// Whether this candidate leads. The guard decides, not this.
    pub leading: bool,
}

impl Change {
    /// The id of the leader. A leader that has resigned, and is not yet replaced, is none.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.record.as_ref().filter(|record| !record.resigned).map(|record| record.id.as_str())
    }

    /// The token of the last leader.
    #[must_use]
    pub fn token(&self) -> Token {
        self.record.as_ref().map_or(Token::ZERO, |record| record.token)
    }
}

/// The changes of leadership. A slow reader misses intermediate ones, never the last one.
#[derive(Clone, Debug)]
pub struct Changes {
    receiver: watch::Receiver<Change>,
}

impl Changes {
    /// The next change, or None when the candidate has left. The first call answers at once if a leader is known.
    pub async fn next(&mut self) -> Option<Change> {
        self.receiver.changed().await.ok()?;
        Some(self.receiver.borrow_and_update().clone())
    }
}

/// Why a campaign cannot begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CampaignError {
    /// One at a time.
    #[error("a campaign of this candidate is under way, or its guard is still held")]
    Busy,
    /// The candidate has left the election.
    #[error("the candidate has left the election")]
    Left,
}

/// A number that cannot be a score.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a score must be finite and at most a trillion in magnitude, got {got}")]
pub struct InvalidScore {
    /// The number.
    pub got: f64,
}

/// A duration as a span; the longest if it does not fit.
pub(crate) fn span(duration: Duration) -> Span {
    Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// The wall clock in milliseconds, for display.
pub(crate) fn wall_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Random bits of the standard library's hasher, which the operating system seeds.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// The commands that may wait for the task; a caller waits for room.
const COMMANDS_MAX: usize = 16;

/// The default time-to-live: long enough for a pause of a virtual machine, short enough to be waited for.
const TTL_DEFAULT: Duration = Duration::from_secs(10);
