//! The judge: what clients were promised, checked against what they saw.
//!
//! In: a [`History`]. Out: every broken promise, in words.
//! Why it is fast: a key counts its changes, so the order of writes is known and need not be searched for. Each version
//! of each key has one value and one transaction; whoever saw it must have seen the same.
//! Holds: a write without an answer is never called lost and never called absent; it may have happened once, after it was
//! asked for and in the order of its session.
//! Source: the guarantees of ZooKeeper: writes are linearizable, the requests of a session are carried out in order, a
//! read never goes back in time within a session, a read after a sync sees what was acknowledged before the sync.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{At, History, Kind, Op, Outcome, Shown, State, Value};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Violation {
    /// Acknowledged and gone.
    #[error("lost: key {key} had version {acknowledged}, acknowledged before a sync; the read after it saw {seen}")]
    Lost {
        /// Which key.
        key: usize,
        /// What was acknowledged.
        acknowledged: i32,
        /// What was seen.
        seen: i32,
    },
    /// One version, two stories.
    #[error("split: key {key} at version {version} was {one:?} and {other:?}")]
    Split {
        /// Which key.
        key: usize,
        /// Which version.
        version: i32,
        /// One story.
        one: State,
        /// The other.
        other: State,
    },
    /// A write took effect twice.
    #[error("twice: value {value} is version {first} of key {key} and version {second} too")]
    Twice {
        /// Which key.
        key: usize,
        /// Of which write.
        value: Value,
        /// Its version.
        first: i32,
        /// Its other version.
        second: i32,
    },
    /// More changes than there were writes.
    #[error(
        "key {key} changed {changes} times up to version {version}, but no more than {writes} writes can have done it"
    )]
    TooMany {
        /// Which key.
        key: usize,
        /// Up to here.
        version: i32,
        /// Changes that no acknowledged write explains.
        changes: usize,
        /// Writes without an answer that could.
        writes: usize,
    },
    /// A value that nobody wrote, or whose write was refused.
    #[error("phantom: value {value} of key {key} was never written, or its write was refused")]
    Phantom {
        /// Which key.
        key: usize,
        /// What was seen.
        value: Value,
    },
    /// A later write of a session came before an earlier one.
    #[error("session {session}: transaction {later:#x} was asked for after {earlier:#x}")]
    SessionOrder {
        /// Whose.
        session: usize,
        /// Of the request asked first.
        earlier: i64,
        /// Of the request asked second.
        later: i64,
    },
    /// A write came before one that was acknowledged before it was asked for.
    #[error("transaction {later:#x} was asked for after {earlier:#x} had been acknowledged")]
    RealTime {
        /// Acknowledged first.
        earlier: i64,
        /// Asked for afterwards.
        later: i64,
    },
    /// A session saw a key go back.
    #[error("session {session} saw version {before} of key {key}, then {after}")]
    WentBack {
        /// Whose.
        session: usize,
        /// Which key.
        key: usize,
        /// First.
        before: i32,
        /// Then.
        after: i32,
    },
    /// The server said no to what nobody forbids.
    #[error("session {session}: {kind:?} was refused: {why}")]
    Refused {
        /// Whose.
        session: usize,
        /// What.
        kind: Kind,
        /// How.
        why: String,
    },
    /// A node of a queue is gone.
    #[error("server {server} does not show {path}, which was created")]
    AppendLost {
        /// Who.
        server: usize,
        /// What.
        path: String,
    },
    /// Two nodes of one request, or a node of none.
    #[error("server {server} shows {path} with value {value}: {why}")]
    AppendStrange {
        /// Who.
        server: usize,
        /// Where.
        path: String,
        /// What.
        value: Value,
        /// What is strange about it.
        why: &'static str,
    },
    /// The node of a live session is gone, or is another.
    #[error("server {server} shows {path} created by {got:?}; its session lives, and {expected:#x} created it")]
    EphemeralLost {
        /// Who.
        server: usize,
        /// What.
        path: String,
        /// By whom it was created.
        expected: i64,
        /// What is there.
        got: Option<i64>,
    },
    /// The node of a dead session is there.
    #[error("server {server} shows {path}, whose session is over")]
    EphemeralLeft {
        /// Who.
        server: usize,
        /// What.
        path: String,
    },
    /// A session that never stopped talking is over.
    #[error("session {session} expired, though its client never stopped")]
    Expired {
        /// Whose.
        session: usize,
    },
    /// A read overtook the event of a watch.
    #[error("session {session} read a change of {path} before its watch told of it")]
    Overtaken {
        /// Whose.
        session: usize,
        /// Where.
        path: String,
    },
    /// A lock had two holders.
    #[error("two sessions held one lock at the same time, for {both_us} µs")]
    TwoHolders {
        /// How long.
        both_us: u128,
    },
    /// A state in which a transaction was carried out in part.
    #[error("the accounts had a sum of {sum} in a state not after {zxid:#x}; it is {expected} in every state")]
    Sum {
        /// What was read.
        sum: i64,
        /// What it was in the beginning.
        expected: i64,
        /// Of the answer.
        zxid: i64,
    },
    /// The server said no to what nobody forbids.
    #[error("{what} was refused: {code}")]
    RecipeRefused {
        /// What.
        what: String,
        /// How.
        code: String,
    },
    /// Two servers show different trees.
    #[error("{path} is {one} at server {first} and {other} at server {second}")]
    TreesDiffer {
        /// Where.
        path: String,
        /// One server.
        first: usize,
        /// What it shows.
        one: String,
        /// The other server.
        second: usize,
        /// What that shows.
        other: String,
    },
    /// A watch was lost.
    #[error("session {session} watched a key and was not told of its last change")]
    Unwatched {
        /// Whose.
        session: usize,
    },
}

/// Everything that is wrong with a history.
pub(super) fn violations(history: &History) -> Vec<Violation> {
    let mut found = Vec::new();
    refusals(&history.ops, &mut found);
    let effects = effects(&history.ops, &mut found);
    explained(&history.ops, &effects, &mut found);
    order(&history.ops, &effects, &mut found);
    views(&history.ops, &mut found);
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

/// Every server shows the same tree as the first one.
fn trees(shown: &[Shown], found: &mut Vec<Violation>) {
    let Some((first, others)) = shown.split_first() else { return };
    for other in others {
        let paths: BTreeSet<&String> = first.tree.keys().chain(other.tree.keys()).collect();
        for path in paths.into_iter().filter(|path| first.tree.get(*path) != other.tree.get(*path)) {
            let told = |shown: &Shown| shown.tree.get(path).cloned().unwrap_or_else(|| "not there".into());
            let (one, second) = (told(first), told(other));
            let path = path.clone();
            found.push(Violation::TreesDiffer { path, first: first.server, one, second: other.server, other: second });
        }
    }
}

fn refusals(ops: &[Op], found: &mut Vec<Violation>) {
    for op in ops {
        if let Outcome::Refused(why) = &op.outcome {
            found.push(Violation::Refused { session: op.session, kind: op.kind, why: why.clone() });
        }
    }
}

/// The state of every version of every key that anybody saw.
type Effects = BTreeMap<usize, BTreeMap<i32, State>>;

/// Collects them; each version must have one state, each value one version, and each value its write.
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

/// A version that no acknowledged write made must have been made by a write without an answer. Each can have made one,
/// and none that was asked for after a later version had been seen.
fn explained(ops: &[Op], effects: &Effects, found: &mut Vec<Violation>) {
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

/// Writes are in the order of their sessions, and of real time where one ended before the other began.
fn order(ops: &[Op], effects: &Effects, found: &mut Vec<Violation>) {
    // A write without an answer has a place in the order too, once somebody saw what it wrote.
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

/// Within a session no key goes back. Operations are listed as asked, and answers come in that order.
fn views(ops: &[Op], found: &mut Vec<Violation>) {
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

/// A read after a sync sees all that anyone had seen before the sync.
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

/// Every server shows each acknowledged node of the queues, none twice, and none that nobody asked for.
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

/// Every server shows the ephemeral nodes of live sessions, the same as were created, and no others.
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

/// The state of a key that an operation got to know.
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
