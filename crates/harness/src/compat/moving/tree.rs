//! The znodes of a server, one by one, with data and stat.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use pole_client::blocking::Session;
use pole_jute::{CreateMode, Reply, Request, Stat};

use super::clients::{HELD, ROOT, SIGNAL};
use crate::Failure;
use crate::client::{children, create, get_data, sync};

/// Data and stat by path.
pub(super) type Dump = BTreeMap<String, (Option<Vec<u8>>, Stat)>;

/// Creates the parents of the clients' nodes, and `count` nodes below [`STATIC`].
pub(super) fn fill(address: SocketAddr, count: usize) -> Result<(), Failure> {
    let mut session = connect(address)?;
    let node = |path: &str| create(path, path.as_bytes(), CreateMode::Persistent);
    let parents = [ROOT, HELD, SIGNAL, STATIC].map(node);
    session.ask_all(parents).map_err(failed)?;
    let folders = count.div_ceil(NODES_PER_FOLDER);
    for folder in 0..folders {
        let parent = format!("{STATIC}/d{folder}");
        let nodes = NODES_PER_FOLDER.min(count - folder * NODES_PER_FOLDER).saturating_sub(1);
        let requests = std::iter::once(node(&parent)).chain((0..nodes).map(|n| node(&format!("{parent}/n{n}"))));
        session.ask_all(requests).map_err(failed)?;
    }
    Ok(())
}

/// All nodes below and at this path, after everything that was committed before.
pub(super) fn dump(address: SocketAddr, root: &str) -> Result<Dump, Failure> {
    let mut session = connect(address)?;
    session.ask(sync()).map_err(failed)?;
    let (mut found, mut level) = (Dump::new(), vec![root.to_owned()]);
    while !level.is_empty() {
        let mut next = Vec::new();
        for batch in level.chunks(BATCH) {
            let requests = batch.iter().flat_map(|path| [get_data(path, false), children(path)]);
            let replies = session.ask_all(requests.collect::<Vec<Request>>()).map_err(failed)?;
            for (path, pair) in batch.iter().zip(replies.chunks(2)) {
                let [Reply::GetData(data), Reply::GetChildren(names)] = pair else {
                    return Err(Failure::Check(format!("{path}: unexpected replies {pair:?}")));
                };
                found.insert(path.clone(), (data.data.as_deref().map(<[u8]>::to_vec), data.stat));
                next.extend(names.children.iter().map(|name| format!("{path}/{name}")));
            }
        }
        level = next;
    }
    Ok(found)
}

/// The first difference between two dumps.
pub(super) fn compare(before: &Dump, after: &Dump) -> Result<(), Failure> {
    let paths = before.keys().chain(after.keys());
    for path in paths {
        if before.get(path) != after.get(path) {
            let (before, after) = (before.get(path), after.get(path));
            return Err(Failure::Check(format!("{path} was {before:?} and is {after:?}")));
        }
    }
    Ok(())
}

pub(super) fn connect(address: SocketAddr) -> Result<Session, Failure> {
    Session::connect(address, Duration::from_secs(30)).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Check(format!("a client failed: {error}"))
}

/// Nodes that nobody changes.
pub(super) const STATIC: &str = "/move/static";

/// Few enough for one reply of `getChildren`.
const NODES_PER_FOLDER: usize = 1_000;

/// Requests on their way at a time.
const BATCH: usize = 200;
