//! One-line descriptions of the state of servers.

use super::names::Names;
use super::transcript::ranges;
use crate::recording::view;
use crate::{World, id};

/// The state of a server in one line: for a running one its view, and its disk if that differs; for one that is down
/// its disk.
pub(crate) fn describe(world: &World, server: usize) -> String {
    let disk = &world.hosts[server].disk.durable;
    let snapshot = disk.snapshot_zxid().map_or(String::new(), |zxid| format!("snapshot {zxid}, "));
    let intent = if disk.has_intent() { ", an installation under way" } else { "" };
    let Some(node) = &world.hosts[server].node else {
        return format!(
            "{}: down, {snapshot}log {}, accepted {}, current {}{intent}",
            id(server),
            ranges(disk.log.iter()),
            disk.accepted_epoch,
            disk.current_epoch
        );
    };
    let (zab, standing) = (node.zab(), node.zab().standing());
    let log = ranges(zab.log().between(zab.log().base(), zab.log().last()));
    let names: Vec<String> = (0..world.hosts.len()).map(|server| id(server).to_string()).collect();
    let mut line = format!(
        "{}: {}, {snapshot}log {log}, accepted {}, current {}, committed {}",
        id(server),
        view(world, server).role(&names),
        standing.accepted_epoch,
        standing.current_epoch,
        zab.committed()
    );
    if zab.is_restoring() {
        line += ", restoring its state";
    }
    let behind = (disk.last(), disk.accepted_epoch, disk.current_epoch)
        != (standing.last_zxid, standing.accepted_epoch, standing.current_epoch);
    if behind {
        line += &format!(
            "; on disk: up to {}, accepted {}, current {}",
            disk.last(),
            disk.accepted_epoch,
            disk.current_epoch
        );
    }
    line + intent
}

/// The log of a server, entry by entry: first what is on disk, then what is only in memory.
pub(crate) fn log(world: &World, server: usize, names: &Names) -> String {
    let host = &world.hosts[server];
    let mut lines = Vec::new();
    if let Some(zxid) = host.disk.durable.snapshot_zxid() {
        lines.push(format!("snapshot {zxid}"));
    }
    lines.extend(host.disk.durable.log.iter().map(|entry| names.entry(entry)));
    if let Some(node) = &host.node {
        let log = node.zab().log();
        let unwritten = log.between(log.base(), log.last()).filter(|entry| !host.disk.durable.contains(entry.zxid));
        lines.extend(unwritten.map(|entry| names.entry(entry) + " (not on disk)"));
    }
    if lines.is_empty() { "empty\n".to_owned() } else { lines.join("\n") + "\n" }
}

/// Checks that these servers hold the same state; all running ones if none is named.
pub(crate) fn check(world: &World, named: &[usize]) -> Result<String, String> {
    use pole_node::Machine;
    let running = (0..world.hosts.len()).filter(|server| world.hosts[*server].node.is_some());
    let servers: Vec<_> = if named.is_empty() { running.collect() } else { named.to_vec() };
    let mut states = Vec::new();
    for server in &servers {
        let Some(node) = &world.hosts[*server].node else { return Err(format!("{} is down", id(*server))) };
        let last = world.hosts[*server].disk.durable.last();
        states.push((node.zab().log().last(), last, node.applied(), node.machine().digest()));
    }
    if states.windows(2).any(|pair| pair[0] != pair[1]) || states.iter().any(|s| s.0 != s.1 || s.0 != s.2) {
        let lines: Vec<_> = servers.iter().map(|server| describe(world, *server)).collect();
        return Err(format!("not all hold the same:\n{}", lines.join("\n")));
    }
    let at = states.first().map_or_else(|| "nowhere".to_owned(), |state| state.0.to_string());
    Ok(format!("ok, {} at {at}\n", super::transcript::group(servers.into_iter().map(id).collect())))
}
