//! Four-letter words about watches: `wchs`, `wchc`, `wchp`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use pole_node::ClientId;
use pole_tree::Watcher;

use crate::listing::{Budget, ENTRIES_AT_ONCE};
use crate::shared::Shared;

/// `wchs`.
pub(crate) fn summary(shared: &Shared) -> String {
    let summary = shared.watches.lock().summary();
    format!("{} connections watching {} paths\nTotal watches:{}\n", summary.connections, summary.paths, summary.watches)
}

/// The number of entries in the lists of watches.
pub(crate) fn count(shared: &Shared) -> usize {
    shared.watches.lock().summary().watches
}

/// `wchc`.
pub(crate) fn by_session(shared: &Shared, budget: &mut Budget) -> String {
    let mut text = String::new();
    for (session, paths) in paths_by_session(shared, budget) {
        let _ = writeln!(text, "{session:#x}");
        for path in paths {
            let _ = writeln!(text, "\t{path}");
        }
    }
    ended(text, budget)
}

/// `wchp`.
pub(crate) fn by_path(shared: &Shared, budget: &mut Budget) -> String {
    let mut text = String::new();
    for (path, sessions) in sessions_by_path(shared, budget) {
        let _ = writeln!(text, "{path}");
        for session in sessions {
            let _ = writeln!(text, "\t{session:#x}");
        }
    }
    ended(text, budget)
}

fn ended(mut text: String, budget: &Budget) -> String {
    if let Some(note) = budget.note() {
        let _ = writeln!(text, "({note})");
    }
    text + "\n"
}

pub(crate) fn paths_by_session(shared: &Shared, budget: &mut Budget) -> BTreeMap<i64, Vec<Arc<str>>> {
    let mut lists = BTreeMap::<_, Vec<_>>::new();
    visit(shared, budget, |session, path| lists.entry(session).or_default().push(path));
    lists
}

pub(crate) fn sessions_by_path(shared: &Shared, budget: &mut Budget) -> BTreeMap<Arc<str>, Vec<i64>> {
    let mut lists = BTreeMap::<_, Vec<_>>::new();
    visit(shared, budget, |session, path| lists.entry(path).or_default().push(session));
    lists
}

/// Visits all watches, as far as the budget permits.
fn visit(shared: &Shared, budget: &mut Budget, mut visit: impl FnMut(i64, Arc<str>)) {
    let sessions = sessions(shared);
    let mut last: Option<(Watcher, Arc<str>)> = None;
    loop {
        let part = {
            let watches = shared.watches.lock();
            watches.after(last.as_ref().map(|(watcher, path)| (*watcher, &**path)), ENTRIES_AT_ONCE)
        };
        if part.is_empty() {
            return;
        }
        last = part.last().cloned();
        for (watcher, path) in part {
            if !budget.take(ENTRY_BYTES + path.len()) {
                return;
            }
            visit(sessions.get(&watcher).copied().unwrap_or_default(), path);
        }
    }
}

/// The session of each watcher. Watches belong to connections, but operators know sessions.
fn sessions(shared: &Shared) -> BTreeMap<Watcher, i64> {
    let clients = shared.clients.lock();
    clients.iter().map(|(ClientId(id), handle)| (Watcher(*id), handle.session())).collect()
}

/// The id of a session, and what separates it from the path.
const ENTRY_BYTES: usize = 22;
