//! `/commands` and `/commands/NAME`: Apache's admin commands, with its names and its format.
//!
//! Every answer is an object with the fields of the command, its full name, and an error or null.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::{ConnectInfo, Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use pole_types::Zxid;
use serde_json::{Map, Value, json};

use super::backup;
use super::listener::RemoteAddress;
use super::v1::hex;
use crate::client::Handle;
use crate::client::four_letter::{NOT_SERVING, TRACE_MASK, connections, server, watches};
use crate::config::MemberRole;
use crate::listing::{self, Budget, List};
use crate::metrics::{self, Counter, NodeStats, environment, mode, version};
use crate::shared::Shared;
use crate::status::Role;
use crate::tally::Packets;

/// `/commands`: a page with links to all commands.
pub(crate) async fn list() -> Html<String> {
    let mut text = String::new();
    for (name, _) in COMMANDS {
        let _ = writeln!(text, "<a href=\"/commands/{name}\">{name}</a>\n<br/>");
    }
    Html(text)
}

/// `/commands/NAME`.
pub(crate) async fn run(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(RemoteAddress(from, _)): ConnectInfo<RemoteAddress>,
    Path(requested): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let Some(name) = find(&requested) else { return unknown(&requested) };
    if name == "snapshot" {
        return backup::snapshot(&shared, from, &headers, query.as_deref()).await;
    }
    if name == "restore" {
        let error = "send a snapshot with POST".to_owned();
        return answer_with(StatusCode::METHOD_NOT_ALLOWED, name, Map::new(), Some(error));
    }
    let needs_server =
        !matches!(name, "ruok" | "environment" | "system_properties" | "get_trace_mask" | "set_trace_mask");
    if needs_server && mode(&shared) == "looking" {
        return answer(name, Map::new(), Some(NOT_SERVING.trim_end().to_owned()));
    }
    if let Some(entries) = list_entries(&shared, name) {
        return list_of(&shared, name, entries).await;
    }
    match execute(&shared, name).await {
        Ok(Value::Object(fields)) => answer(name, fields, None),
        Ok(_) => answer(name, Map::new(), None),
        Err(error) => answer(name, Map::new(), Some(error.to_owned())),
    }
}

/// `POST /commands/NAME`: of Apache's commands only `restore` has a body.
pub(crate) async fn post(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(RemoteAddress(from, _)): ConnectInfo<RemoteAddress>,
    Path(requested): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    match find(&requested) {
        Some("restore") => backup::restore(&shared, from, &headers, body).await,
        Some(name) => {
            let error = "this command is read with GET".to_owned();
            answer_with(StatusCode::METHOD_NOT_ALLOWED, name, Map::new(), Some(error))
        }
        None => unknown(&requested),
    }
}

fn find(requested: &str) -> Option<&'static str> {
    let known = COMMANDS.into_iter().find(|(name, short)| *name == requested || short.contains(&requested));
    known.map(|(name, _)| name)
}

fn unknown(requested: &str) -> Response {
    answer(requested, Map::new(), Some(format!("Unknown command: {requested}")))
}

/// The number of entries of a command whose answer is a list.
fn list_entries(shared: &Shared, name: &str) -> Option<usize> {
    match name {
        "connections" | "stats" => Some(connections::count(shared)),
        "dump" => Some(connections::dump_count(shared)),
        "watches" | "watches_by_path" => Some(watches::count(shared)),
        _ => None,
    }
}

/// Answers a command whose answer is a list, in pieces if it is long. The permit for it ends with the last piece.
async fn list_of(shared: &Arc<Shared>, name: &'static str, entries: usize) -> Response {
    let expiries =
        if name == "dump" { connections::expiries(shared).await.unwrap_or_default() } else { BTreeMap::new() };
    let stats = if name == "stats" { server_stats(shared).await } else { Value::Null };
    let list = listing::make(shared, entries, move |shared, budget| {
        let fields = match name {
            "connections" => connection_lists(shared, budget),
            "stats" => merged(stats, connection_lists(shared, budget)),
            "dump" => dump(shared, expiries, budget),
            "watches" => json!({"session_id_to_watched_paths": by_text(paths_by_session(shared, budget))}),
            _ => json!({"path_to_session_ids": by_text(watches::sessions_by_path(shared, budget))}),
        };
        let Value::Object(fields) = fields else { return String::new() };
        answer_text(name, fields, budget.note().map(str::to_owned))
    });
    match list.await {
        Ok(List { content, permit: None }) => response(StatusCode::OK, content),
        Ok(List { content, permit: Some(permit) }) => {
            let mut rest = Bytes::from(content);
            let pieces = stream::iter(std::iter::from_fn(move || {
                let _until_sent = &permit;
                let piece = rest.split_to(rest.len().min(PIECE_BYTES));
                (!piece.is_empty()).then_some(Ok::<_, Infallible>(piece))
            }));
            response(StatusCode::OK, Body::from_stream(pieces))
        }
        Err(busy) => answer_with(StatusCode::SERVICE_UNAVAILABLE, name, Map::new(), Some(busy.to_string())),
    }
}

/// The fields of two objects.
fn merged(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(fields), Value::Object(more)) => fields.into_iter().chain(more).collect::<Map<_, _>>().into(),
        (one, _) => one,
    }
}

fn paths_by_session(shared: &Shared, budget: &mut Budget) -> impl Iterator<Item = (i64, Vec<Value>)> + use<> {
    watches::paths_by_session(shared, budget).into_iter().map(|(session, paths)| (session, path_values(paths)))
}

fn path_values(paths: Vec<Arc<str>>) -> Vec<Value> {
    paths.iter().map(|path| Value::from(&**path)).collect()
}

fn answer(name: &str, fields: Map<String, Value>, error: Option<String>) -> Response {
    answer_with(StatusCode::OK, name, fields, error)
}

pub(super) fn answer_with(
    status: StatusCode,
    name: &str,
    fields: Map<String, Value>,
    error: Option<String>,
) -> Response {
    response(status, answer_text(name, fields, error))
}

fn answer_text(name: &str, mut fields: Map<String, Value>, error: Option<String>) -> String {
    fields.insert("command".into(), name.into());
    fields.insert("error".into(), error.into());
    format!("{:#}\n", Value::Object(fields))
}

fn response(status: StatusCode, body: impl Into<Body>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.into()).into_response()
}

async fn execute(shared: &Arc<Shared>, name: &str) -> Result<Value, &'static str> {
    Ok(match name {
        "configuration" => configuration(shared).await,
        // Observers have no connections of their own here: each has its link, whose counters go on.
        "observer_connection_stat_reset" => Value::Null,
        "connection_stat_reset" => {
            connections::reset(shared);
            Value::Null
        }
        "dirs" => {
            let (data, log) = server::sizes(shared).await;
            json!({"datadir_size": data, "logdir_size": log})
        }
        "environment" => {
            environment().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>().into()
        }
        "get_trace_mask" => json!({"tracemask": TRACE_MASK}),
        "set_trace_mask" => return Err(NO_TRACE_MASK),
        "hash" => {
            let tree = shared.tree.read();
            json!({"digests": [{"zxid": tree.last_zxid(), "digest": tree.digest()}]})
        }
        "initial_configuration" => json!({"initial_configuration": shared.settings.config.membership()}),
        "is_read_only" => json!({"read_only": mode(shared) == "read-only"}),
        "last_snapshot" => last_snapshot(shared),
        "leader" => leader(shared).ok_or("server is not initialized")?,
        "monitor" => monitor(shared).await,
        "observers" => observers(shared).await,
        "ruok" => Value::Null,
        "server_stats" => server_stats(shared).await,
        "stat_reset" => {
            shared.status.reset_statistics();
            Value::Null
        }
        "system_properties" => system_properties(shared),
        "voting_view" => voting_view(shared),
        "watch_summary" => {
            let summary = shared.watches.lock().summary();
            json!({"num_connections": summary.connections, "num_paths": summary.paths, "num_total_watches": summary.watches})
        }
        "zabstate" => zab_state(shared).await.ok_or("the node does not answer")?,
        _ => return Err("not available"),
    })
}

fn by_text<K: ToString, V: Into<Value>>(entries: impl IntoIterator<Item = (K, Vec<V>)>) -> Map<String, Value> {
    entries.into_iter().map(|(key, values)| (key.to_string(), Value::from(values))).collect()
}

async fn configuration(shared: &Shared) -> Value {
    let config = &shared.settings.config;
    let (data, log) = server::sizes(shared).await;
    let entries = config.entries(data, log).into_iter().map(|(name, text)| {
        let value = text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from);
        (snake(name), value)
    });
    entries.collect::<Map<_, _>>().into()
}

/// `clientPort` becomes `client_port`, as in Apache's JSON.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(character.to_ascii_lowercase());
    }
    text
}

fn connection_lists(shared: &Shared, budget: &mut Budget) -> Value {
    let handles = connections::handles(shared);
    let permitted = handles.iter().take_while(|_| budget.take(CONNECTION_BYTES));
    let list: Vec<Value> = permitted.map(|handle| connection(shared, handle)).collect();
    json!({"connections": list, "secure_connections": []})
}

fn connection(shared: &Shared, handle: &Handle) -> Value {
    let counts = handle.counts();
    json!({
        "remote_socket_address": handle.address.to_string(),
        "interest_ops": 1,
        "outstanding_requests": handle.pending(),
        "packets_received": counts.received,
        "packets_sent": counts.sent,
        "session_id": handle.session(),
        "last_operation": connections::op_name(counts.last_op),
        "established": connections::established_ms(shared, handle.since),
        "session_timeout": handle.timeout_ms(),
        "last_cxid": counts.last_cxid,
        "last_zxid": counts.last_zxid,
        "last_response_time": counts.last_at.0 / 1_000_000,
        "last_latency": counts.latency.last_ms,
        "min_latency": counts.latency.min_ms,
        "avg_latency": counts.latency.mean_ms() as u64,
        "max_latency": counts.latency.max_ms,
    })
}

fn dump(shared: &Shared, expiries: BTreeMap<i64, Vec<i64>>, budget: &mut Budget) -> Value {
    let ephemerals = connections::ephemerals(shared, budget).into_iter();
    let ephemerals = by_text(ephemerals.map(|(id, paths)| (id, path_values(paths))));
    // Only the leader knows when a session expires: Apache's followers leave this empty too.
    json!({"expiry_time_to_session_ids": by_text(expiries), "session_id_to_ephemeral_paths": ephemerals})
}

fn last_snapshot(shared: &Shared) -> Value {
    let dir = shared.settings.config.storage.data_dir.join("version-2");
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let snapshots = files.filter_map(|file| {
        let zxid = u64::from_str_radix(file.file_name().to_str()?.strip_prefix("snapshot.")?, 16).ok()?;
        let modified = file.metadata().ok()?.modified().ok()?;
        Some((zxid, modified.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs()))
    });
    // Without a snapshot Apache reports -1 for both.
    match snapshots.max() {
        Some((zxid, seconds)) => json!({"zxid": format!("{zxid:x}"), "timestamp": seconds}),
        None => json!({"zxid": "ffffffffffffffff", "timestamp": -1}),
    }
}

fn leader(shared: &Shared) -> Option<Value> {
    let Role::Serving { leader, .. } = shared.status.role() else { return None };
    let current = shared.members();
    let host = current.members.servers.get(&leader).map(|server| server.host.clone());
    Some(json!({
        "is_leader": leader == shared.settings.me,
        "leader_id": leader.0,
        "leader_ip": host.unwrap_or_default(),
    }))
}

async fn monitor(shared: &Shared) -> Value {
    let stats = NodeStats::query(shared).await;
    let metrics = metrics::collect(shared, stats.as_ref()).into_iter().map(|metric| {
        let value = match metric.value {
            metrics::Value::Integer(value) => value.into(),
            metrics::Value::Float(value) => value.into(),
            metrics::Value::Text(text) => text.into(),
        };
        (metric.name.into_owned(), value)
    });
    metrics.collect::<Map<_, _>>().into()
}

/// The observers that follow this server, if it leads.
async fn observers(shared: &Shared) -> Value {
    let observers = NodeStats::query(shared).await.map(|stats| stats.observers).unwrap_or_default();
    let synced = observers.iter().filter(|observer| observer.synced).count();
    let list =
        observers.iter().map(|observer| json!({"sid": observer.id.0, "last_zxid": format!("{:#x}", observer.acked.0)}));
    json!({"synced_observers": synced, "observers": list.collect::<Vec<_>>()})
}

async fn server_stats(shared: &Shared) -> Value {
    let status = &shared.status;
    let Packets { received, sent, latency, .. } = status.tally.sum();
    let (data, log) = server::sizes(shared).await;
    let responses = sizes_json(status.tally.all_reply_sizes().map(|sizes| [sizes.last, sizes.min, sizes.max]));
    json!({
        "version": version(),
        "read_only": mode(shared) == "read-only",
        "server_stats": {
            "packets_sent": sent,
            "packets_received": received,
            "server_state": mode(shared),
            "outstanding_requests": shared.outstanding.load(Ordering::Relaxed),
            "min_latency": latency.min_ms,
            "avg_latency": latency.mean_ms(),
            "max_latency": latency.max_ms,
            "data_dir_size": data,
            "log_dir_size": log,
            "last_processed_zxid": shared.applied.load(Ordering::Acquire),
            "num_alive_client_connections": status.connections.load(Ordering::Relaxed),
            "client_response_stats": responses,
            "provider_null": false,
            "fsync_threshold_exceed_count": status.slow_writes.load(Ordering::Relaxed),
            "auth_failed_count": status.counters.get(Counter::AuthFailedCount),
            "non_mtlslocal_conn_count": status.counters.get(Counter::NonMtlsLocalConnCount),
            "non_mtlsremote_conn_count": status.counters.get(Counter::NonMtlsRemoteConnCount),
            "uptime": u64::try_from(shared.clock.uptime().as_millis()).unwrap_or(u64::MAX),
        },
        "client_response": responses,
        "proposal_stats": sizes_json(status.proposal_sizes.lock().map(|sizes| [sizes.last, sizes.min, sizes.max])),
        "node_count": shared.tree.read().node_count(),
    })
}

/// The last, least and greatest size in bytes; -1 if there was none, as Apache prints it.
fn sizes_json(sizes: Option<[usize; 3]>) -> Value {
    let [last, min, max] = sizes.map_or([json!(-1), json!(-1), json!(-1)], |sizes| sizes.map(Value::from));
    json!({"last_buffer_size": last, "min_buffer_size": min, "max_buffer_size": max})
}

/// Empty for a server on its own, as in Apache.
fn voting_view(shared: &Shared) -> Value {
    let current = shared.members();
    let view: Map<String, Value> = current
        .members
        .servers
        .iter()
        .filter(|(_, server)| server.role == MemberRole::Participant)
        .map(|(id, server)| {
            let client = server.client.as_ref().map(|address| format!("{}:{}", address.host, address.port));
            let fields = json!({
                "server_addresses": [format!("{}:{}", server.host, server.quorum_port)],
                "election_addresses": [format!("{}:{}", server.host, server.election_port)],
                "client_address": client.unwrap_or_default(),
                "learner_type": server.role.name(),
            });
            (id.to_string(), fields)
        })
        .collect();
    json!({"current_config": view})
}

/// What Apache's server has as properties of Java: the environment, and the settings of the file.
fn system_properties(shared: &Shared) -> Value {
    let environment =
        environment().into_iter().filter(|(name, _)| name.starts_with("os.") || name.starts_with("user."));
    let mut fields: Map<_, _> = environment.map(|(name, value)| (name.to_owned(), value.into())).collect();
    fields.extend(shared.settings.config.shown().map(|(key, value)| (format!("zookeeper.{key}"), value.into())));
    fields.into()
}

async fn zab_state(shared: &Shared) -> Option<Value> {
    let stats = NodeStats::query(shared).await?;
    let zxid = Zxid(shared.applied.load(Ordering::Acquire).cast_unsigned());
    Some(json!({
        "myid": shared.settings.me.0,
        "is_leader": matches!(mode(shared), "leader" | "standalone"),
        "voting": true,
        "last_zxid": hex(zxid),
        "zab_epoch": stats.epoch.0,
        "zab_counter": zxid.counter(),
        "zabstate": metrics::zab_state(stats.phase),
    }))
}

const NO_TRACE_MASK: &str = "there is no trace mask: pole.logFilter selects what is logged";

/// A connection in a list.
const CONNECTION_BYTES: usize = 500;

/// A long list is sent in pieces of this size.
const PIECE_BYTES: usize = 256 << 10;

/// The commands with their aliases.
const COMMANDS: [(&str, &[&str]); 28] = [
    ("configuration", &["conf", "config"]),
    ("connection_stat_reset", &["crst"]),
    ("connections", &["cons"]),
    ("dirs", &[]),
    ("dump", &[]),
    ("environment", &["env", "envi"]),
    ("get_trace_mask", &["gtmk"]),
    ("hash", &[]),
    ("initial_configuration", &["icfg"]),
    ("is_read_only", &["isro"]),
    ("last_snapshot", &["lsnp"]),
    ("leader", &["lead"]),
    ("monitor", &["mntr"]),
    ("observer_connection_stat_reset", &["orst"]),
    ("observers", &["obsr"]),
    ("restore", &["rest"]),
    ("ruok", &[]),
    ("server_stats", &["srvr"]),
    ("set_trace_mask", &["stmk"]),
    ("snapshot", &["snap"]),
    ("stat_reset", &["srst"]),
    ("stats", &["stat"]),
    ("system_properties", &["sysp"]),
    ("voting_view", &[]),
    ("watch_summary", &["wchs"]),
    ("watches", &["wchc"]),
    ("watches_by_path", &["wchp"]),
    ("zabstate", &[]),
];
