//! Four-letter words about watches: `wchs`, `wchc`, `wchp`.

use std::collections::BTreeMap;
use std::fmt::Write;

use pole_node::ClientId;
use pole_tree::Watcher;

use crate::shared::Shared;

/// `wchs`.
pub(crate) fn summary(shared: &Shared) -> String {
    let summary = shared.watches.lock().summary();
    format!("{} connections watching {} paths\nTotal watches:{}\n", summary.connections, summary.paths, summary.watches)
}

/// `wchc`.
pub(crate) fn by_session(shared: &Shared) -> String {
    let mut text = String::new();
    for (session, paths) in paths_by_session(shared) {
        let _ = writeln!(text, "{session:#x}");
        for path in paths {
            let _ = writeln!(text, "\t{path}");
        }
    }
    text + "\n"
}

/// `wchp`.
pub(crate) fn by_path(shared: &Shared) -> String {
    let mut text = String::new();
    for (path, sessions) in sessions_by_path(shared) {
        let _ = writeln!(text, "{path}");
        for session in sessions {
            let _ = writeln!(text, "\t{session:#x}");
        }
    }
    text + "\n"
}

pub(crate) fn paths_by_session(shared: &Shared) -> BTreeMap<i64, Vec<String>> {
    let sessions = sessions(shared);
    let watches = shared.watches.lock();
    let paths = watches.by_watcher().map(|(watcher, paths)| {
        (sessions.get(&watcher).copied().unwrap_or_default(), paths.map(str::to_owned).collect())
    });
    paths.collect()
}

pub(crate) fn sessions_by_path(shared: &Shared) -> BTreeMap<String, Vec<i64>> {
    let sessions = sessions(shared);
    let watches = shared.watches.lock();
    let session = |watcher: Watcher| sessions.get(&watcher).copied().unwrap_or_default();
    watches.by_path().map(|(path, watchers)| (path.to_owned(), watchers.map(session).collect())).collect()
}

/// The session of each watcher. Watches belong to connections, but operators know sessions.
fn sessions(shared: &Shared) -> BTreeMap<Watcher, i64> {
    let clients = shared.clients.lock();
    clients.iter().map(|(ClientId(id), handle)| (Watcher(*id), handle.session())).collect()
}
