//! Four-letter words about the server as a whole: `srvr`, `stat`, `mntr`, `conf`, `dirs`, `envi`, `hash`.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use super::connections;
use crate::listing::Budget;
use crate::metrics::{self, NodeStats, Value, directory_bytes, version};
use crate::shared::Shared;
use crate::tally::Packets;

/// `srvr`.
pub(crate) fn statistics(shared: &Shared, mode: &str) -> String {
    format!("Zookeeper version: {}\n{}", version(), lines(shared, mode))
}

/// `stat`.
pub(crate) fn statistics_with_clients(shared: &Shared, mode: &str, from: SocketAddr, budget: &mut Budget) -> String {
    let clients = connections::brief(shared, from, budget);
    format!("Zookeeper version: {}\nClients:\n{clients}\n{}", version(), lines(shared, mode))
}

fn lines(shared: &Shared, mode: &str) -> String {
    let status = &shared.status;
    let Packets { received, sent, latency, .. } = status.tally.sum();
    let connections = status.connections.load(Ordering::Relaxed);
    let outstanding = shared.outstanding.load(Ordering::Relaxed);
    let zxid = shared.applied.load(Ordering::Acquire);
    let nodes = shared.tree.read().node_count();
    let (min, mean, max) = (latency.min_ms, Value::Float(latency.mean_ms()), latency.max_ms);
    let mut text = format!(
        "Latency min/avg/max: {min}/{mean}/{max}\nReceived: {received}\nSent: {sent}\nConnections: {connections}\n\
         Outstanding: {outstanding}\nZxid: {zxid:#x}\nMode: {mode}\nNode count: {nodes}\n"
    );
    if mode == "leader" {
        let sizes = match *status.proposal_sizes.lock() {
            Some(sizes) => format!("{}/{}/{}", sizes.last, sizes.min, sizes.max),
            // What Apache prints before the first proposal.
            None => "-1/-1/-1".to_owned(),
        };
        let _ = writeln!(text, "Proposal sizes last/min/max: {sizes}");
    }
    text
}

/// `mntr`.
pub(crate) fn metrics(shared: &Shared, stats: Option<&NodeStats>) -> String {
    let mut text = String::new();
    for metric in metrics::collect(shared, stats) {
        let _ = writeln!(text, "zk_{}\t{}", metric.name, metric.value);
    }
    text
}

/// `conf`.
pub(crate) async fn configuration(shared: &Shared) -> String {
    let (data, log) = sizes(shared).await;
    shared.settings.config.conf(data, log)
}

/// `dirs`.
pub(crate) async fn directories(shared: &Shared) -> String {
    let (data, log) = sizes(shared).await;
    format!("datadir_size: {data}\nlogdir_size: {log}\n")
}

/// Bytes of snapshots and of logs.
pub(crate) async fn sizes(shared: &Shared) -> (u64, u64) {
    let storage = &shared.settings.config.storage;
    (directory_bytes(&storage.data_dir).await, directory_bytes(&storage.log_dir).await)
}

/// `hash`: the digest of the state at its last transaction, equal on all servers that are at the same one.
pub(crate) fn digest(shared: &Shared) -> String {
    let tree = shared.tree.read();
    format!("{:x}: {}\n", tree.last_zxid(), tree.digest())
}

/// `envi`.
pub(crate) fn environment() -> String {
    let mut text = String::from("Environment:\n");
    for (name, value) in metrics::environment() {
        let _ = writeln!(text, "{name}={value}");
    }
    text
}
