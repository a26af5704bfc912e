//! Four-letter words about connections and sessions: `cons`, `dump`, `crst`, and the client list of `stat`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use pole_jute::OpCode;
use pole_types::Time;
use time::{Duration, OffsetDateTime};

use crate::client::Handle;
use crate::clock::wall_ms;
use crate::listing::{Budget, ENTRIES_AT_ONCE};
use crate::question::{Question, ask};
use crate::shared::Shared;

/// All connections that have a session or have asked for one, in the order in which they were accepted.
pub(crate) fn handles(shared: &Shared) -> Vec<Arc<Handle>> {
    let mut handles: Vec<_> = shared.clients.lock().values().cloned().collect();
    handles.sort_by_key(|handle| handle.id);
    handles
}

/// The number of entries in the lists of connections.
pub(crate) fn count(shared: &Shared) -> usize {
    shared.clients.lock().len()
}

/// The client list of `stat`. As in Apache's, it includes the connection that asks.
pub(crate) fn brief(shared: &Shared, from: SocketAddr, budget: &mut Budget) -> String {
    let mut text = String::new();
    for handle in handles(shared) {
        let line = format!(" {})\n", line_prefix(&handle));
        if !budget.take(line.len()) {
            break;
        }
        text += &line;
    }
    let _ = writeln!(text, " /{from}[0](queued=0,recved=1,sent=0)");
    text
}

/// `cons`.
pub(crate) fn list(shared: &Shared, from: SocketAddr, budget: &mut Budget) -> String {
    let mut text = String::new();
    for handle in handles(shared) {
        let counts = handle.counts();
        let latency = counts.latency;
        let line = format!(
            " {},sid={:#x},lop={},est={},to={},lcxid={:#x},lzxid={:#x},lresp={},llat={},minlat={},avglat={},maxlat={})\n",
            line_prefix(&handle),
            handle.session(),
            op_name(counts.last_op),
            established_ms(shared, handle.since),
            handle.timeout_ms(),
            counts.last_cxid,
            counts.last_zxid,
            counts.last_at.0 / 1_000_000,
            latency.last_ms,
            latency.min_ms,
            latency.mean_ms() as u64,
            latency.max_ms,
        );
        if !budget.take(line.len()) {
            break;
        }
        text += &line;
    }
    let _ = writeln!(text, " /{from}[0](queued=0,recved=1,sent=0)\n");
    text
}

fn line_prefix(handle: &Handle) -> String {
    let counts = handle.counts();
    let (address, queued) = (handle.address, handle.pending());
    format!("/{address}[1](queued={queued},recved={},sent={}", counts.received, counts.sent)
}

/// The wall-clock time of `since`, in milliseconds since 1970.
pub(crate) fn established_ms(shared: &Shared, since: Time) -> i64 {
    let age_ms = (shared.clock.now() - since).0 / 1_000_000;
    wall_ms() - i64::try_from(age_ms).unwrap_or(0)
}

/// `crst`.
pub(crate) fn reset(shared: &Shared) {
    handles(shared).iter().for_each(|handle| handle.reset_counts());
}

/// The sessions that expire in each second, by the wall clock in milliseconds. `None` on a server that does not lead:
/// only the leader knows.
pub(crate) async fn expiries(shared: &Shared) -> Option<BTreeMap<i64, Vec<i64>>> {
    let remaining = ask(shared, Question::SessionExpiries).await??;
    let (now, mut sets) = (wall_ms(), BTreeMap::<_, Vec<_>>::new());
    for (session, left) in remaining {
        let at_ms = now + i64::try_from(left.as_us() / 1000).unwrap_or(0);
        sets.entry((at_ms / 1000 + 1) * 1000).or_default().push(session.0);
    }
    Some(sets)
}

/// The number of entries in `dump`.
pub(crate) fn dump_count(shared: &Shared) -> usize {
    let tree = shared.tree.read();
    tree.session_count() + tree.ephemerals_count()
}

/// `dump`: sessions, their ephemeral nodes, and the connections of this server. As in Apache, the leader says when
/// sessions expire, and others how long they last.
pub(crate) fn dump(shared: &Shared, expiries: Option<BTreeMap<i64, Vec<i64>>>, budget: &mut Budget) -> String {
    let mut text = String::from("SessionTracker dump:\n");
    match expiries {
        Some(sets) => {
            let _ = writeln!(text, "Session Sets ({})/({}):", sets.len(), sets.values().map(Vec::len).sum::<usize>());
            for (at_ms, sessions) in sets {
                let _ = writeln!(text, "{} expire at {}:", sessions.len(), java_date(at_ms));
                for id in sessions.into_iter().filter(|_| budget.take(ID_BYTES)) {
                    let _ = writeln!(text, "\t{id:#x}");
                }
            }
        }
        None => {
            let sessions: Vec<_> = shared.tree.read().sessions().collect();
            let _ = writeln!(text, "Global Sessions({}):", sessions.len());
            for (id, timeout_ms) in sessions.into_iter().filter(|_| budget.take(ID_BYTES)) {
                let _ = writeln!(text, "{id:#x}\t{timeout_ms}ms");
            }
        }
    }
    let ephemerals = ephemerals(shared, budget);
    let _ = writeln!(text, "ephemeral nodes dump:\nSessions with Ephemerals ({}):", ephemerals.len());
    for (id, paths) in ephemerals {
        let _ = writeln!(text, "{id:#x}:");
        for path in paths {
            let _ = writeln!(text, "\t{path}");
        }
    }
    let handles = handles(shared);
    let _ = writeln!(text, "Connections dump:\nConnections Sets (1)/({}):", handles.len());
    for handle in handles.into_iter().filter(|_| budget.take(2 * ID_BYTES)) {
        let _ = writeln!(text, "\tip: /{} sessionId: {:#x}", handle.address, handle.session());
    }
    if let Some(note) = budget.note() {
        let _ = writeln!(text, "({note})");
    }
    text
}

/// The ephemeral nodes of each session, as far as the budget permits.
pub(crate) fn ephemerals(shared: &Shared, budget: &mut Budget) -> Vec<(i64, Vec<Arc<str>>)> {
    let mut all = Vec::new();
    let mut last = None;
    loop {
        let part = shared.tree.read().ephemerals_after(last, ENTRIES_AT_ONCE);
        let Some((end, _)) = part.last() else { return all };
        last = Some(*end);
        for (session, mut paths) in part {
            let permitted = paths.iter().take_while(|path| budget.take(path.len() + 2)).count();
            if !budget.take(ID_BYTES) {
                return all;
            }
            paths.truncate(permitted);
            all.push((session, paths));
        }
    }
}

/// The id of a session with what surrounds it.
const ID_BYTES: usize = 32;

/// A time in the form of Java's `Date`, in UTC.
fn java_date(wall_ms: i64) -> String {
    let at = OffsetDateTime::UNIX_EPOCH.saturating_add(Duration::milliseconds(wall_ms));
    let short = |name: String| name.chars().take(3).collect::<String>();
    let (weekday, month) = (short(at.weekday().to_string()), short(at.month().to_string()));
    let (day, year) = (at.day(), at.year());
    format!("{weekday} {month} {day:02} {:02}:{:02}:{:02} UTC {year}", at.hour(), at.minute(), at.second())
}

/// Apache's short name of an operation.
pub(crate) fn op_name(number: i32) -> &'static str {
    let Some(op) = OpCode::from_number(number) else { return "NA" };
    match op {
        OpCode::Notification => "NA",
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => "CREA",
        OpCode::Delete | OpCode::DeleteContainer => "DELE",
        OpCode::Exists => "EXIS",
        OpCode::GetData => "GETD",
        OpCode::SetData => "SETD",
        OpCode::GetAcl => "GETA",
        OpCode::SetAcl => "SETA",
        OpCode::GetChildren | OpCode::GetChildren2 => "GETC",
        OpCode::Sync => "SYNC",
        OpCode::Ping => "PING",
        OpCode::Check => "CHEC",
        OpCode::Multi => "MULT",
        OpCode::MultiRead => "MLTR",
        OpCode::Reconfig => "RECO",
        OpCode::CheckWatches => "CHKW",
        OpCode::RemoveWatches => "REMW",
        OpCode::Auth => "AUTH",
        OpCode::SetWatches => "SETW",
        OpCode::SetWatches2 => "STW2",
        OpCode::Sasl => "SASL",
        OpCode::GetEphemerals => "GETE",
        OpCode::GetAllChildrenNumber => "GETACN",
        OpCode::AddWatch => "ADDW",
        OpCode::WhoAmI => "HOMI",
        OpCode::CreateSession => "SESS",
        OpCode::CloseSession => "CLOS",
        OpCode::Error => "ERRO",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_java_writes_it() {
        assert_eq!(java_date(1_795_006_512_000), "Wed Nov 18 12:55:12 UTC 2026");
        assert_eq!(java_date(0), "Thu Jan 01 00:00:00 UTC 1970");
    }
}
