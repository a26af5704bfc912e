//! What an operator asks of an election: its state, a resignation, a higher epoch.
//!
//! Requests are changes of the leader record by compare-and-swap, so they never race with the election itself.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use crate::record::{Candidate, Cause, Chosen, FORMAT, Leader, Reason, Record, ResignRequest, Succession};
use crate::score::OracleTag;
use crate::store::{Entry, Error, LeaseId, Plain, Revision, Store, Swap, Swapped, Target};
use crate::token::Token;

/// The state of an election, each part read at its own time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// The leader record.
    pub leader: Option<Leader>,
    /// Whether the leader has not resigned and its lease is alive.
    pub alive: bool,
    /// The succession list.
    pub succession: Option<Succession>,
    /// All candidates, best first, then those that never lead.
    pub candidates: Vec<Candidate>,
    /// Records of candidates that cannot be understood.
    pub damaged: usize,
}

/// Reads the state of an election.
///
/// # Errors
/// If the store does not answer, or the leader record cannot be understood.
pub async fn snapshot(store: &dyn Store) -> Result<Snapshot, Error> {
    let leader = leader(store).await?.map(|(record, _)| record);
    let alive = match leader.as_ref().filter(|leader| !leader.resigned) {
        Some(leader) => store.read(Target::Lease(leader.lease)).await?.is_some(),
        None => false,
    };
    let succession = store.read(Target::Succession).await?.and_then(|entry| Succession::decode(&entry.value).ok());
    let listed = store.list().await?;
    let decoded: Vec<_> = listed.iter().map(|leased| Candidate::decode(&leased.value)).collect();
    let damaged = decoded.iter().filter(|one| one.is_err()).count();
    let mut candidates: Vec<Candidate> = decoded.into_iter().flatten().collect();
    candidates.sort_by(|a, b| (a.never, crate::rank::key(b)).cmp(&(b.never, crate::rank::key(a))));
    Ok(Snapshot { leader, alive, succession, candidates, damaged })
}

/// Asks the leader to resign, in favour of a candidate or of the best one. Returns when another term has begun.
///
/// # Errors
/// [`AdminError::NoLeader`] if nobody leads; [`AdminError::NoCandidate`] if the named candidate is not there or never
/// leads; [`AdminError::TimedOut`] if the leader did not follow, or nobody took over.
pub async fn resign(store: &dyn Store, to: Option<String>, limit: Duration) -> Result<Leader, AdminError> {
    if let Some(id) = &to {
        check_candidate(store, id).await?;
    }
    let asked = change(store, |leader| {
        let mut leader = leader.filter(|leader| !leader.resigned).ok_or(AdminError::NoLeader)?;
        leader.request = Some(ResignRequest { to: to.clone() });
        Ok(leader)
    })
    .await?;
    let wait = async {
        let mut watch = store.watch(Target::Leader).await?;
        loop {
            let leader = watch.next().await?.map(|entry| decode(&entry)).transpose()?;
            if let Some(leader) = leader.filter(|leader| leader.token > asked.token) {
                return Ok(leader);
            }
        }
    };
    tokio::time::timeout(limit, wait).await.map_err(|_| AdminError::TimedOut { limit })?
}

/// Raises the epoch of the next leader's token, after the store was restored from a backup. The present leader keeps its
/// token; let it resign if the new epoch must begin at once.
///
/// # Errors
/// If the store does not answer.
pub async fn raise_epoch(store: &dyn Store, at_least: u32) -> Result<u32, AdminError> {
    let changed = change(store, |leader| {
        let mut leader = leader.unwrap_or_else(nobody);
        leader.epoch_floor = at_least.max(leader.token.epoch().max(leader.epoch_floor) + 1);
        Ok(leader)
    })
    .await?;
    Ok(changed.epoch_floor)
}

/// Why an operator's request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// There is nobody to ask.
    #[error("there is no leader")]
    NoLeader,
    /// Leadership cannot go where it was to go.
    #[error("{id:?} is not a candidate that can lead; `status` lists the candidates")]
    NoCandidate {
        /// The id that was given.
        id: String,
    },
    /// The request was written, but nothing came of it in time.
    #[error("no new leader within {limit:?}; the request stays in the leader record")]
    TimedOut {
        /// The time.
        limit: Duration,
    },
    /// Others changed the record each time.
    #[error("the leader record changed {ATTEMPTS} times while it was to be changed; try again")]
    Contended,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}

/// The leader record with its revision.
///
/// # Errors
/// If the store does not answer, or the record cannot be understood.
pub async fn leader(store: &dyn Store) -> Result<Option<(Leader, Revision)>, Error> {
    let entry = store.read(Target::Leader).await?;
    entry.map(|entry| Ok((decode(&entry)?, entry.revision))).transpose()
}

/// A leader that resigns to nobody would leave a vacancy for anybody.
async fn check_candidate(store: &dyn Store, id: &str) -> Result<(), AdminError> {
    let listed = store.list().await?;
    let candidates = listed.iter().filter_map(|leased| Candidate::decode(&leased.value).ok());
    let found = candidates.into_iter().any(|candidate| candidate.id == id && !candidate.never);
    if found { Ok(()) } else { Err(AdminError::NoCandidate { id: id.to_owned() }) }
}

async fn change(
    store: &dyn Store,
    change: impl Fn(Option<Leader>) -> Result<Leader, AdminError>,
) -> Result<Leader, AdminError> {
    for _ in 0..ATTEMPTS {
        let (old, expected) = leader(store).await?.map_or((None, None), |(old, revision)| (Some(old), Some(revision)));
        let new = change(old)?;
        let value: Bytes = new.encode();
        let swap = Swap { record: Plain::Leader, expected, value, gone: None, alive: None };
        if matches!(store.swap(swap).await?, Swapped::Done(_)) {
            return Ok(new);
        }
    }
    Err(AdminError::Contended)
}

fn decode(entry: &Entry) -> Result<Leader, Error> {
    Leader::decode(&entry.value)
}

/// A leader record in which nobody leads.
fn nobody() -> Leader {
    let reason =
        Reason { cause: Cause::First, chosen: Chosen::FirstCome, score: None, oracle: OracleTag::default(), at_ms: 0 };
    Leader {
        format: FORMAT,
        token: Token::ZERO,
        id: String::new(),
        lease: LeaseId(0),
        resigned: true,
        successor: None,
        request: None,
        epoch_floor: 0,
        reason,
        history: Vec::new(),
    }
}

/// A leader changes its record seldom; more conflicts than this are not chance.
const ATTEMPTS: u32 = 5;
