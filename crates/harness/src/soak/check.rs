//! Checks that the observations of clients are consistent with the guarantees of ZooKeeper.
//!
//! The input is a [`History`], the output a list of violations. The guarantees: writes are linearizable; the requests
//! of a session are executed in order; a read never goes back in time within a session; a read after a sync
//! sees everything that was acknowledged before the sync.
//!
//! The check is fast because the version of a key counts its changes, so the order of writes is known and need
//! not be searched for. Each version of each key has one value and one transaction, which all observations must agree
//! on.
//!
//! A write without a reply is never considered lost or absent. It may have taken effect once, after it was requested
//! and in the order of its session.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{At, History, Kind, Op, Outcome, Shown, State, Value};

/// A violated guarantee.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Violation {
    /// An acknowledged write was not seen by a read after a later sync.
    #[error("lost: key {key} had version {acknowledged}, acknowledged before a sync; the read after it saw {seen}")]
    Lost { key: usize, acknowledged: i32, seen: i32 },
    /// Two observations of the same version differ.
    #[error("split: key {key} at version {version} was {one:?} and {other:?}")]
    Split { key: usize, version: i32, one: State, other: State },
    /// A write took effect twice.
    #[error("twice: value {value} is version {first} of key {key} and version {second} too")]
    Twice { key: usize, value: Value, first: i32, second: i32 },
    /// There are more changes that no acknowledged write explains (`changes`) than unanswered writes that could
    /// (`writes`), up to this version.
    #[error(
        "key {key} changed {changes} times up to version {version}, but no more than {writes} writes can have done it"
    )]
    TooMany { key: usize, version: i32, changes: usize, writes: usize },
    /// A value was seen that was never written, or whose write was refused.
    #[error("phantom: value {value} of key {key} was never written, or its write was refused")]
    Phantom { key: usize, value: Value },
    /// Two writes of a session were executed in the wrong order. `earlier` was requested first.
    #[error("session {session}: transaction {later:#x} was asked for after {earlier:#x}")]
    SessionOrder { session: usize, earlier: i64, later: i64 },
    /// A write was ordered before one that was acknowledged before it was requested.
    #[error("transaction {later:#x} was asked for after {earlier:#x} had been acknowledged")]
    RealTime { earlier: i64, later: i64 },
    /// A session saw a key go back to an older version.
    #[error("session {session} saw version {before} of key {key}, then {after}")]
    WentBack { session: usize, key: usize, before: i32, after: i32 },
    /// The server refused a valid request.
    #[error("session {session}: {kind:?} was refused: {why}")]
    Refused { session: usize, kind: Kind, why: String },
    /// A node of a queue is missing.
    #[error("server {server} does not show {path}, which was created")]
    AppendLost { server: usize, path: String },
    /// A request created two nodes, or a node belongs to no request.
    #[error("server {server} shows {path} with value {value}: {why}")]
    AppendStrange { server: usize, path: String, value: Value, why: &'static str },
    /// The ephemeral node of a live session is missing, or was created by another transaction.
    #[error("server {server} shows {path} created by {got:?}; its session lives, and {expected:#x} created it")]
    EphemeralLost { server: usize, path: String, expected: i64, got: Option<i64> },
    /// The ephemeral node of a session that has ended still exists.
    #[error("server {server} shows {path}, whose session is over")]
    EphemeralLeft { server: usize, path: String },
    /// A session expired although its client was active.
    #[error("session {session} expired, though its client never stopped")]
    Expired { session: usize },
    /// A read saw a change before the event of the watch arrived.
    #[error("session {session} read a change of {path} before its watch told of it")]
    Overtaken { session: usize, path: String },
    /// Two sessions held a lock at the same time.
    #[error("two sessions held one lock at the same time, for {both_us} µs")]
    TwoHolders { both_us: u128 },
    /// A read saw a state in which a transaction was applied in part.
    #[error("the accounts had a sum of {sum} in a state not after {zxid:#x}; it is {expected} in every state")]
    Sum { sum: i64, expected: i64, zxid: i64 },
    /// The server refused a valid request of a recipe.
    #[error("{what} was refused: {code}")]
    RecipeRefused { what: String, code: String },
    /// Two servers have different trees.
    #[error("{path} is {one} at server {first} and {other} at server {second}")]
    TreesDiffer { path: String, first: usize, one: String, second: usize, other: String },
    /// A watch did not fire.
    #[error("session {session} watched a key and was not told of its last change")]
    Unwatched { session: usize },
}

/// Returns all violations in a history.
pub(super) fn violations(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    check_refusals(&history.ops, &mut found);
    let effects = effects(&history.ops, &mut found);
    check_writes(&history.ops, &effects, &mut found);
    check_order(&history.ops, &effects, &mut found);
    check_views(&history.ops, &mut found);
    synced(&history.ops, &mut found);
    queues(history, &mut found);
    ephemerals(history, &mut found);
    found.extend(history.expired.iter().map(|session| Violation::Expired { session: *session }));
    trees(&history.shown, &mut found);
    let overtaken = history.overtaken.iter();
    found.extend(overtaken.map(|(session, path)| Violation::Overtaken { session: *session, path: path.clone() }));
    found.extend(history.unwatched.iter().map(|session| Violation::Unwatched { session: *session }));
    found
}

/// Checks that every server has the same tree as the first one.
fn trees(shown: &[Shown], found: &mut Vec<Violation>) {
    let Some((first, others)) = shown.split_first() else { return };
    for other in others {
        let paths: BTreeSet<&String> = first.tree.keys().chain(other.tree.keys()).collect();
        for path in paths.into_iter().filter(|path| first.tree.get(*path) != other.tree.get(*path)) {
            let node = |shown: &Shown| shown.tree.get(path).cloned().unwrap_or_else(|| "not there".into());
            let (one, second) = (node(first), node(other));
            let path = path.clone();
            found.push(Violation::TreesDiffer { path, first: first.server, one, second: other.server, other: second });
        }
    }
}

fn check_refusals(ops: &[Op], found: &mut Vec<Violation>) {
    for op in ops {
        if let Outcome::Refused(why) = &op.outcome {
            found.push(Violation::Refused { session: op.session, kind: op.kind, why: why.clone() });
        }
    }
}

/// The observed state of every version of every key.
type Effects = BTreeMap<usize, BTreeMap<i32, State>>;

/// Collects the observed states. Each version must have one state, and each value one version and one write.
fn effects(ops: &[Op], found: &mut Vec<Violation>) -> Effects {
    let mut effects = Effects::new();
    for (key, state) in ops.iter().filter_map(seen) {
        let known = *effects.entry(key).or_default().entry(state.version).or_insert(state);
        if known != state {
            found.push(Violation::Split { key, version: state.version, one: known, other: state });
        }
    }
    let writes = ops.iter().filter(|op| !matches!(op.outcome, Outcome::Refused(_)));
    let written: BTreeSet<(usize, Value)> = writes.filter_map(|op| written(op.kind)).collect();
    for (key, versions) in &effects {
        let mut first_of: BTreeMap<Value, i32> = BTreeMap::new();
        for (version, state) in versions {
            let first = *first_of.entry(state.value).or_insert(*version);
            if first != *version {
                found.push(Violation::Twice { key: *key, value: state.value, first, second: *version });
            }
            if *version > 0 && !written.contains(&(*key, state.value)) {
                found.push(Violation::Phantom { key: *key, value: state.value });
            }
        }
    }
    effects
}

/// Checks that every version has a write. A version without an acknowledged write needs an unanswered one. Each
/// unanswered write accounts for one version, and only if it was requested before that version or a later one was
/// seen.
fn check_writes(ops: &[Op], effects: &Effects, found: &mut Vec<Violation>) {
    let mut acknowledged: BTreeMap<usize, BTreeSet<i32>> = BTreeMap::new();
    let mut unknown: BTreeMap<usize, Vec<At>> = BTreeMap::new();
    let mut first_seen: BTreeMap<(usize, i32), At> = BTreeMap::new();
    for op in ops {
        if let (Some((key, _)), Outcome::Unknown) = (written(op.kind), &op.outcome) {
            unknown.entry(key).or_default().push(op.asked);
        }
        if let (Some((key, state)), Some(answered)) = (seen(op), op.outcome.answered()) {
            let at = first_seen.entry((key, state.version)).or_insert(answered);
            *at = answered.min(*at);
            if written(op.kind).is_some() {
                acknowledged.entry(key).or_default().insert(state.version);
            }
        }
    }
    for (key, versions) in effects {
        let mut unexplained = 0;
        let mut last = 0;
        let asked = unknown.get(key).map(Vec::as_slice).unwrap_or_default();
        for version in versions.keys().filter(|version| **version > 0) {
            unexplained += usize::try_from(version - last - 1).unwrap_or(0);
            last = *version;
            if !acknowledged.get(key).is_some_and(|known| known.contains(version)) {
                unexplained += 1;
            }
            let seen_at = first_seen.get(&(*key, *version)).copied().unwrap_or(At::MAX);
            let writes = asked.iter().filter(|asked| **asked <= seen_at).count();
            if unexplained > writes {
                found.push(Violation::TooMany { key: *key, version: *version, changes: unexplained, writes });
                break;
            }
        }
    }
}

/// Checks that writes are in the order of their sessions, and in real-time order if one was acknowledged
/// before the other was requested.
fn check_order(ops: &[Op], effects: &Effects, found: &mut Vec<Violation>) {
    // An unanswered write has a place in the order too, if its value was seen.
    let made: BTreeMap<(usize, Value), i64> = effects
        .iter()
        .flat_map(|(key, versions)| versions.values().map(|state| ((*key, state.value), state.zxid)))
        .collect();
    let zxid = |op: &Op| match written(op.kind) {
        Some(write) => op.outcome.zxid().or_else(|| made.get(&write).copied()),
        None => appended(op.kind).and_then(|_| op.outcome.zxid()),
    };
    let mut last_of: BTreeMap<usize, i64> = BTreeMap::new();
    for op in ops {
        let Some(later) = zxid(op) else { continue };
        if let Some(earlier) = last_of.insert(op.session, later).filter(|earlier| *earlier >= later) {
            found.push(Violation::SessionOrder { session: op.session, earlier, later });
        }
    }

    let mut answers: Vec<(At, i64)> = ops
        .iter()
        .filter(|op| written(op.kind).is_some() || appended(op.kind).is_some())
        .filter_map(|op| op.outcome.answered().zip(op.outcome.zxid()))
        .collect();
    answers.sort_unstable();
    let mut asked: Vec<(At, i64)> = ops.iter().filter_map(|op| Some((op.asked, zxid(op)?))).collect();
    asked.sort_unstable();
    let mut answers = answers.into_iter().peekable();
    let mut greatest = 0;
    for (at, later) in asked {
        while let Some((_, zxid)) = answers.next_if(|(answered, _)| *answered < at) {
            greatest = greatest.max(zxid);
        }
        if later <= greatest {
            found.push(Violation::RealTime { earlier: greatest, later });
        }
    }
}

/// Checks that no session sees a key go back to an older version. Replies arrive in the order of the requests.
fn check_views(ops: &[Op], found: &mut Vec<Violation>) {
    let mut last: BTreeMap<(usize, usize), i32> = BTreeMap::new();
    for op in ops {
        let Some((key, state)) = seen(op) else { continue };
        let session = op.session;
        let before = last.insert((session, key), state.version).filter(|before| *before > state.version);
        if let Some(before) = before {
            found.push(Violation::WentBack { session, key, before, after: state.version });
        }
    }
}

/// Checks that a read after a sync sees everything that any session had seen before the sync.
fn synced(ops: &[Op], found: &mut Vec<Violation>) {
    let mut answers: Vec<(At, usize, i32)> = ops
        .iter()
        .filter_map(|op| seen(op).map(|(key, s)| (op.outcome.answered().unwrap_or(At::MAX), key, s.version)))
        .collect();
    answers.sort_unstable();
    let mut reads: Vec<(At, usize, i32)> = ops
        .iter()
        .filter(|op| matches!(op.kind, Kind::Read { synced: true, .. }))
        .filter_map(|op| seen(op).map(|(key, state)| (op.asked, key, state.version)))
        .collect();
    reads.sort_unstable();
    let mut answers = answers.into_iter().peekable();
    let mut greatest: BTreeMap<usize, i32> = BTreeMap::new();
    for (at, key, seen) in reads {
        while let Some((_, key, version)) = answers.next_if(|(answered, ..)| *answered < at) {
            let known = greatest.entry(key).or_default();
            *known = version.max(*known);
        }
        let acknowledged = greatest.get(&key).copied().unwrap_or(0);
        if seen < acknowledged {
            found.push(Violation::Lost { key, acknowledged, seen });
        }
    }
}

/// Checks that every server has each acknowledged node of the queues, none twice, and none without a request.
fn queues(history: &History, found: &mut Vec<Violation>) {
    let asked: BTreeSet<Value> = history.ops.iter().filter_map(|op| appended(op.kind)).collect();
    for shown in &history.shown {
        let server = shown.server;
        for op in &history.ops {
            if let (Outcome::Appended { path, .. }, Some(value)) = (&op.outcome, appended(op.kind))
                && shown.appended.get(path) != Some(&value)
            {
                found.push(Violation::AppendLost { server, path: path.clone() });
            }
        }
        let mut values = BTreeSet::new();
        for (path, value) in &shown.appended {
            let strange = |why| Violation::AppendStrange { server, path: path.clone(), value: *value, why };
            if !asked.contains(value) {
                found.push(strange("nobody asked for it"));
            }
            if !values.insert(*value) {
                found.push(strange("the request made another node too"));
            }
        }
    }
}

/// Checks that every server has the original ephemeral nodes of live sessions, and none of ended sessions.
fn ephemerals(history: &History, found: &mut Vec<Violation>) {
    for shown in &history.shown {
        let server = shown.server;
        for node in &history.ephemerals {
            let path = node.path.clone();
            let got = shown.ephemerals.get(&path).copied();
            match (node.lives, node.created) {
                (true, Some(expected)) if got != Some(expected) => {
                    found.push(Violation::EphemeralLost { server, path, expected, got });
                }
                (false, _) if got.is_some() => found.push(Violation::EphemeralLeft { server, path }),
                (true, _) | (false, _) => (),
            }
        }
    }
}

/// The state of a key that an operation observed.
fn seen(op: &Op) -> Option<(usize, State)> {
    let key = match op.kind {
        Kind::Write { key, .. } | Kind::Read { key, .. } => key,
        Kind::Append { .. } => return None,
    };
    match op.outcome {
        Outcome::State { state, .. } => Some((key, state)),
        Outcome::Unknown | Outcome::Refused(_) | Outcome::Appended { .. } => None,
    }
}

fn written(kind: Kind) -> Option<(usize, Value)> {
    match kind {
        Kind::Write { key, value } => Some((key, value)),
        Kind::Read { .. } | Kind::Append { .. } => None,
    }
}

fn appended(kind: Kind) -> Option<Value> {
    match kind {
        Kind::Append { value } => Some(value),
        Kind::Read { .. } | Kind::Write { .. } => None,
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
