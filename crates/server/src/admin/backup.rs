//! `/commands/snapshot` and `/commands/restore`: backups of the whole state, with the names, parameters and status codes
//! of Apache 3.9.
//!
//! A snapshot is the state of this server between two transactions. It is sent as it is made, so it needs no disk space
//! and no memory but a few pieces.
//!
//! A restore turns the content of the running ensemble into that of a backup by ordinary writes, in multis of bounded
//! size, on whichever server is asked. So all servers agree on it, clients keep their sessions, and their watches fire.
//! Apache replaces the state of one server instead, which may then disagree with the others. What a restore leaves alone
//! is described in `tree::difference`.
//!
//! Both show or change everything, whatever the ACLs say. The caller has to prove that it may ([`authorize`]); each of
//! them is limited to one at a time, and to one in `admin.rateLimiterIntervalInMS`.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use pole_jute::{ErrorCode, Id, MultiOp, MultiRequest, MultiResult, Reply, Request};
use pole_storage::export_snapshot;
use pole_tree::{Caller, Counts, Frozen, Rules, Step, authenticate};
use pole_types::{Span, Time, Zxid};
use serde_json::{Map, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use super::access::is_same;
use super::commands::answer_with;
use super::internal_client::InternalClient;
use super::v1::hex;
use crate::client::four_letter::NOT_SERVING;
use crate::inspection::read_backup;
use crate::log::target::ADMIN;
use crate::metrics::{Counter, Summary, mode};
use crate::shared::Shared;

/// The two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Snapshot,
    Restore,
}

impl Command {
    fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Restore => "restore",
        }
    }
}

/// When each command was last allowed, and whether it is under way.
#[derive(Debug, Default)]
pub(crate) struct Backups([Mutex<Limiter>; 2]);

#[derive(Debug, Default)]
struct Limiter {
    last: Option<Time>,
    busy: bool,
}

impl Limiter {
    /// Starts the command, or says how long it has to wait; `None` for as long as another one runs.
    fn begin(&mut self, now: Time, interval: Span) -> Result<(), Option<Span>> {
        if self.busy {
            return Err(None);
        }
        if let Some(since) = self.last.map(|last| now - last)
            && since < interval
        {
            return Err(Some(Span(interval.0 - since.0)));
        }
        (self.last, self.busy) = (Some(now), true);
        Ok(())
    }
}

/// Held while a command is under way.
struct Permit {
    shared: Arc<Shared>,
    command: Command,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shared.backups.0[self.command as usize].lock().busy = false;
    }
}

/// Why a command is not carried out.
struct Refused {
    status: StatusCode,
    error: String,
}

impl Refused {
    fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into() }
    }

    fn into_response(self, command: Command) -> Response {
        let mut response = answer_with(self.status, command.name(), Map::new(), Some(self.error));
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("digest, Bearer"));
        }
        response
    }
}

/// `GET /commands/snapshot`.
pub(crate) async fn snapshot(
    shared: &Arc<Shared>,
    from: SocketAddr,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Response {
    let begun = match begin_snapshot(shared, from, headers, query) {
        Ok(permit) => send_snapshot(permit, from).await,
        Err(refused) => Err(refused),
    };
    begun.unwrap_or_else(|refused| refused.into_response(Command::Snapshot))
}

fn begin_snapshot(
    shared: &Arc<Shared>,
    from: SocketAddr,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Permit, Refused> {
    let is_streamed = query.into_iter().flat_map(|query| query.split('&')).all(|pair| match pair.split_once('=') {
        Some(("streaming", value)) => value.eq_ignore_ascii_case("true"),
        Some(_) | None => true,
    });
    check(shared, Command::Snapshot, from, headers)?;
    if !is_streamed {
        let error = "snapshots are streamed: use streaming=true. The files in dataDir are written by snapCount";
        return Err(Refused::new(StatusCode::NOT_IMPLEMENTED, error));
    }
    begin(shared, Command::Snapshot)
}

async fn send_snapshot(permit: Permit, from: SocketAddr) -> Result<Response, Refused> {
    let shared = Arc::clone(&permit.shared);
    let (frozen, zxid) = {
        let tree = shared.tree.read();
        (tree.freeze(), Zxid(tree.last_zxid().cast_unsigned()))
    };
    // The size is known only after the snapshot was made, and has to be sent before it.
    let measured = spawn_blocking(move || {
        let mut bytes = 0_u64;
        export_snapshot(zxid, |sink| frozen.write(sink), &mut |piece| bytes += piece.len() as u64);
        (frozen, bytes)
    });
    let Ok((frozen, bytes)) = measured.await else {
        shared.status.counters.add(Counter::SnapshotErrorCount, 1);
        return Err(Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the snapshot could not be made: see the log"));
    };
    info!(target: ADMIN, %from, zxid = %hex(zxid), bytes, "snapshot_sent");
    let (sender, pieces) = channel(PIECES_MAX);
    spawn_blocking(move || {
        let mut is_closed = false;
        export_snapshot(zxid, |sink| frozen.write(sink), &mut |piece| {
            is_closed = is_closed || sender.blocking_send(Bytes::copy_from_slice(piece)).is_err();
        });
        if is_closed {
            permit.shared.status.counters.add(Counter::SnapshotErrorCount, 1);
        }
    });
    let mut response = Body::new(PieceBody { pieces, left: Some(bytes) }).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    // Numbers in digits are valid in a header.
    for (name, value) in [("last_zxid", hex(zxid)), ("snapshot_size", bytes.to_string())] {
        headers.extend(value.parse().ok().map(|value| (header::HeaderName::from_static(name), value)));
    }
    Ok(response)
}

/// `POST /commands/restore`.
pub(crate) async fn restore(shared: &Arc<Shared>, from: SocketAddr, headers: &HeaderMap, body: Body) -> Response {
    let permit = match check(shared, Command::Restore, from, headers).and_then(|()| begin(shared, Command::Restore)) {
        Ok(permit) => permit,
        Err(refused) => return refused.into_response(Command::Restore),
    };
    let (target, zxid) = match receive(body, shared.settings.rules).await {
        Ok(received) => received,
        Err(error) => {
            shared.status.counters.add(Counter::RestoreErrorCount, 1);
            return Refused::new(StatusCode::BAD_REQUEST, error).into_response(Command::Restore);
        }
    };
    info!(target: ADMIN, %from, snapshot_zxid = %zxid.map_or_else(|| "unknown".to_owned(), hex), "restoring");
    let (sender, pieces) = channel(PIECES_MAX);
    // In a task of its own, so that a caller that disconnects does not leave half of it.
    tokio::spawn(async move {
        let result = restore_to(&permit.shared, Arc::new(target), &sender).await;
        let body = report(&permit, zxid, result);
        drop(permit);
        let _ = sender.send(body.into()).await;
    });
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], Body::new(PieceBody { pieces, left: None })).into_response()
}

/// The answer to a restore, as JSON.
fn report(permit: &Permit, zxid: Option<Zxid>, result: Result<Counts, String>) -> String {
    let shared = &permit.shared;
    let (counts, error) = match result {
        Ok(counts) => {
            let Counts { created, changed, deleted, .. } = counts;
            info!(target: ADMIN, created, changed, deleted, "restored");
            (Some(counts), None)
        }
        Err(error) => {
            shared.status.counters.add(Counter::RestoreErrorCount, 1);
            warn!(target: ADMIN, error, "restore_failed");
            (None, Some(error))
        }
    };
    let last = Zxid(shared.tree.read().last_zxid().cast_unsigned());
    let mut fields = json!({"last_zxid": hex(last), "snapshot_zxid": zxid.map(hex)});
    if let (Some(fields), Some(counts)) = (fields.as_object_mut(), counts) {
        for (name, count) in [
            ("created", counts.created),
            ("changed", counts.changed),
            ("deleted", counts.deleted),
            ("ephemerals", counts.ephemerals),
        ] {
            fields.insert(name.to_owned(), count.into());
        }
    }
    if let Some(fields) = fields.as_object_mut() {
        fields.insert("command".to_owned(), Command::Restore.name().into());
        fields.insert("error".to_owned(), error.into());
    }
    format!("{fields:#}\n")
}

/// Checks that the command is enabled, that this server serves, and that the caller may use it.
fn check(shared: &Shared, command: Command, from: SocketAddr, headers: &HeaderMap) -> Result<(), Refused> {
    let admin = &shared.settings.config.admin;
    let is_enabled = match command {
        Command::Snapshot => admin.snapshot_enabled,
        Command::Restore => admin.restore_enabled,
    };
    if !is_enabled {
        let error = format!("this command is disabled: admin.{}.enabled is false on this server", command.name());
        return Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, error));
    }
    authorize(shared, from, headers)?;
    if mode(shared) == "looking" {
        return Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, NOT_SERVING.trim_end()));
    }
    Ok(())
}

fn begin(shared: &Arc<Shared>, command: Command) -> Result<Permit, Refused> {
    let interval = Span::from_ms(shared.settings.config.admin.rate_limit_ms);
    let begun = shared.backups.0[command as usize].lock().begin(shared.clock.now(), interval);
    let refuse = |wait: Option<Span>| {
        let counter = match command {
            Command::Snapshot => Counter::SnapshotRateLimitedCount,
            Command::Restore => Counter::RestoreRateLimitedCount,
        };
        shared.status.counters.add(counter, 1);
        let error = match wait {
            None => "another one is under way: wait for its end".to_owned(),
            Some(wait) => format!(
                "one is allowed in {} s (admin.rateLimiterIntervalInMS): try again in {} s",
                interval.0.div_ceil(1_000_000_000),
                wait.0.div_ceil(1_000_000_000)
            ),
        };
        Refused::new(StatusCode::TOO_MANY_REQUESTS, error)
    };
    begun.map_err(refuse)?;
    Ok(Permit { shared: Arc::clone(shared), command })
}

/// Checks that the caller may read and write everything: it shows the token of this server, or an identity that has all
/// permissions on the root. If the root is open to everybody, any identity has them, but only on this machine: otherwise
/// any host that reaches the port could read nodes that have an ACL of their own.
fn authorize(shared: &Shared, from: SocketAddr, headers: &HeaderMap) -> Result<(), Refused> {
    if headers.contains_key(header::ORIGIN) {
        return Err(Refused::new(StatusCode::FORBIDDEN, "not from a page in a browser: use pole or curl"));
    }
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(shown) = shown else { return Err(Refused::new(StatusCode::UNAUTHORIZED, SHOW_IDENTITY)) };
    let (scheme, data) = shown.split_once(' ').unwrap_or((shown, ""));
    if scheme.eq_ignore_ascii_case("bearer") {
        let token = shared.settings.config.admin.token.as_ref();
        let is_right = token.is_some_and(|token| is_same(data.as_bytes(), token.0.as_bytes()));
        return is_right.then_some(()).ok_or_else(|| Refused::new(StatusCode::UNAUTHORIZED, SHOW_IDENTITY));
    }
    let mut ids = authenticate(scheme, data.as_bytes(), &shared.settings.limits.authentication.providers)
        .map_err(|_| Refused::new(StatusCode::UNAUTHORIZED, SHOW_IDENTITY))?;
    let address = from.ip().to_canonical();
    ids.push(Id { scheme: "ip".to_owned(), id: address.to_string() });
    match shared.tree.read().has_all_on_root(&Caller { ids }, !address.is_loopback()) {
        true => Ok(()),
        false => Err(Refused::new(StatusCode::FORBIDDEN, ROOT_DENIED)),
    }
}

const SHOW_IDENTITY: &str = "show who you are: Authorization: digest user:password, Authorization: ip, or \
                             Authorization: Bearer <pole.admin.token>";
const ROOT_DENIED: &str = "this identity has not all permissions on /: give them to it with setAcl, use the superuser, or \
                           the token of this server. From another machine, permissions of everybody do not count";

/// Reads a snapshot to its end and restores its state, on a thread of its own.
async fn receive(mut body: Body, rules: Rules) -> Result<(Frozen, Option<Zxid>), String> {
    let (sender, pieces) = channel(PIECES_MAX);
    let parsed = spawn_blocking(move || parse(pieces, rules));
    let mut bytes = 0_u64;
    while let Some(frame) = body.frame().await {
        let piece = frame.map_err(|error| format!("the body ended early: {error}"))?.into_data().unwrap_or_default();
        bytes += piece.len() as u64;
        if bytes > RESTORE_BYTES_MAX {
            return Err(format!(
                "more than {RESTORE_BYTES_MAX} bytes: restore it with `pole restore --config` instead"
            ));
        }
        if sender.send(piece).await.is_err() {
            break;
        }
    }
    drop(sender);
    parsed.await.unwrap_or_else(|_| Err("it could not be read: see the log".to_owned()))
}

fn parse(mut pieces: Receiver<Bytes>, rules: Rules) -> Result<(Frozen, Option<Zxid>), String> {
    let (tree, zxid) = read_backup(rules, || Ok(pieces.blocking_recv()))?;
    Ok((tree.freeze(), zxid))
}

/// Writes until nothing differs. Sends a blank line now and then, so that the connection does not count as idle.
async fn restore_to(shared: &Arc<Shared>, target: Arc<Frozen>, caller: &Sender<Bytes>) -> Result<Counts, String> {
    let began = Instant::now();
    let mut restoring = std::pin::pin!(restore_passes(shared, target));
    let mut alive = tokio::time::interval(ALIVE_EVERY);
    alive.tick().await;
    let result = loop {
        tokio::select! {
            result = &mut restoring => break result,
            // A caller that is gone does not stop it.
            _ = alive.tick() => drop(caller.try_send(Bytes::from_static(b"\n"))),
        }
    };
    let took = Span(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    shared.status.summaries.record_time(Summary::RestoreTime, took, 1, shared.clock.now());
    result
}

/// Clients may write in the meantime, so what differs is looked for again after each pass.
async fn restore_passes(shared: &Arc<Shared>, target: Arc<Frozen>) -> Result<Counts, String> {
    let (mut first, mut failed) = (None, None);
    for _ in 0..PASSES_MAX {
        let (sender, requests) = channel(REQUESTS_MAX);
        let (tree, target) = (Arc::clone(&shared.tree), Arc::clone(&target));
        let (bytes_max, rules) = (shared.settings.limits.frame_bytes_max / 2, shared.settings.rules);
        let computed = spawn_blocking(move || {
            let live = tree.read().freeze();
            send_difference(&live, &target, rules, bytes_max.min(MULTI_BYTES_MAX), &sender)
        });
        failed = write(shared, requests).await.err();
        let counts = computed.await.unwrap_or_else(|_| Err("the difference could not be computed".to_owned()))?;
        // What differed at the beginning is what was restored. Later passes repeat a part of it.
        let restored = *first.get_or_insert(counts);
        if counts.created + counts.changed + counts.deleted == 0 {
            return Ok(restored);
        }
    }
    let why = failed.unwrap_or_else(|| "clients keep changing nodes".to_owned());
    Err(format!("still not the same after {PASSES_MAX} passes ({why}): keep clients from writing, and try again"))
}

/// Sends the requests that turn `live` into `target`, in multis of a bounded size.
fn send_difference(
    live: &Frozen,
    target: &Frozen,
    rules: Rules,
    bytes_max: usize,
    requests: &Sender<Request>,
) -> Result<Counts, String> {
    let difference = live.difference(target);
    if let Some((path, scheme)) = difference.unsupported_acl(rules) {
        return Err(format!("{path} has an ACL of the scheme {scheme}, which this server does not support"));
    }
    let (mut ops, mut bytes) = (Vec::new(), 0);
    // A receiver that is gone has failed, and the next pass begins anew.
    let send = |request| requests.blocking_send(request).is_ok();
    for step in difference.steps() {
        let more = match &step {
            Step::Op(op) => cost(op),
            Step::SetAcl(_) => 0,
        };
        let is_full = bytes + more > bytes_max || ops.len() >= MULTI_OPS_MAX || matches!(step, Step::SetAcl(_));
        if is_full && !ops.is_empty() {
            bytes = 0;
            if !send(Request::Multi(MultiRequest { ops: std::mem::take(&mut ops) })) {
                return Ok(difference.counts());
            }
        }
        match step {
            Step::Op(op) => {
                bytes += more;
                ops.push(op);
            }
            Step::SetAcl(request) => {
                if !send(Request::SetAcl(request)) {
                    return Ok(difference.counts());
                }
            }
        }
    }
    if !ops.is_empty() {
        send(Request::Multi(MultiRequest { ops }));
    }
    Ok(difference.counts())
}

/// Carries out the requests of one pass, as a superuser.
async fn write(shared: &Arc<Shared>, mut requests: Receiver<Request>) -> Result<(), String> {
    let Some(first) = requests.recv().await else { return Ok(()) };
    let mut caller = Caller::admin();
    caller.ids.push(Id { scheme: "super".to_owned(), id: String::new() });
    let mut client = InternalClient::open_as(shared, caller).await.map_err(|error| error.text().to_owned())?;
    let mut next = Some(first);
    while let Some(request) = next {
        match client.request(request).await.map_err(|error| error.text().to_owned())? {
            Ok(Reply::Multi(reply)) => reply.results.iter().try_for_each(check_result)?,
            Ok(_) => {}
            Err(code) => return Err(format!("a write was refused: {code}")),
        }
        next = requests.recv().await;
    }
    client.close().await.map_err(|error| error.text().to_owned())
}

fn check_result(result: &MultiResult) -> Result<(), String> {
    match result {
        MultiResult::Error(ErrorCode::Ok | ErrorCode::RuntimeInconsistency) => Ok(()),
        MultiResult::Error(code) => Err(format!("a write was refused: {code}")),
        MultiResult::Create(_)
        | MultiResult::Create2(_)
        | MultiResult::Delete
        | MultiResult::SetData(_)
        | MultiResult::Check => Ok(()),
    }
}

/// About the size of an operation in a request.
fn cost(op: &MultiOp) -> usize {
    let acl =
        |list: &[pole_jute::Acl]| list.iter().map(|acl| 12 + acl.id.scheme.len() + acl.id.id.len()).sum::<usize>();
    let data = |data: &Option<Bytes>| data.as_ref().map_or(0, Bytes::len);
    64 + match op {
        MultiOp::Create(r) | MultiOp::Create2(r) | MultiOp::CreateContainer(r) => {
            r.path.len() + data(&r.data) + acl(&r.acl)
        }
        MultiOp::CreateTtl(r) => r.path.len() + data(&r.data) + acl(&r.acl),
        MultiOp::Delete(r) => r.path.len(),
        MultiOp::SetData(r) => r.path.len() + data(&r.data),
        MultiOp::Check(r) => r.path.len(),
    }
}

/// A body whose pieces come from another thread or task.
struct PieceBody {
    pieces: Receiver<Bytes>,
    /// The bytes that are still to come, if their number is known.
    left: Option<u64>,
}

impl hyper::body::Body for PieceBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let piece = std::task::ready!(self.pieces.poll_recv(context));
        if let (Some(left), Some(piece)) = (&mut self.left, &piece) {
            *left = left.saturating_sub(piece.len() as u64);
        }
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Pieces of a snapshot between two threads. A piece has 64 KiB, unless a node is larger.
const PIECES_MAX: usize = 8;

/// Requests that wait to be sent.
const REQUESTS_MAX: usize = 2;

/// A multi is one transaction, which every server holds in memory: large enough that the round trip of a commit does not
/// matter, small enough that other clients do not wait for it.
const MULTI_BYTES_MAX: usize = 256 << 10;
const MULTI_OPS_MAX: usize = 500;

/// The first pass makes the changes and the second finds none, unless clients write meanwhile.
const PASSES_MAX: usize = 4;

/// The state of a restore is in memory beside the present one.
const RESTORE_BYTES_MAX: u64 = 4 << 30;

/// Less than the time after which a connection counts as idle.
const ALIVE_EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(server: &Shared, from: &str, authorization: Option<&str>) -> Option<u16> {
        let value = authorization.map(|text| (header::AUTHORIZATION, text.parse().expect("a header")));
        let headers: HeaderMap = value.into_iter().collect();
        authorize(server, from.parse().expect("an address"), &headers).err().map(|refused| refused.status.as_u16())
    }

    #[test]
    fn on_this_machine_any_identity_has_what_everybody_has() {
        let server = Shared::configured("");
        for shown in ["ip", "digest someone:secret"] {
            assert_eq!(refused(&server, "127.0.0.1:9", Some(shown)), None, "{shown}");
        }
        for shown in [None, Some("x509"), Some("sasl x"), Some("Bearer "), Some("Bearer x")] {
            assert_eq!(refused(&server, "127.0.0.1:9", shown), Some(401), "{shown:?}");
        }
    }

    #[test]
    fn from_another_machine_the_token_or_the_superuser_is_needed() {
        // Of the password "test", from Apache's documentation.
        let superuser = "DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=\n";
        let server = Shared::configured(&format!("pole.admin.token=secret\n{superuser}"));
        for shown in ["ip", "digest someone:secret", "digest super:tset"] {
            assert_eq!(refused(&server, "10.0.0.1:9", Some(shown)), Some(403), "{shown}");
        }
        for shown in ["Bearer secret", "digest super:test"] {
            assert_eq!(refused(&server, "10.0.0.1:9", Some(shown)), None, "{shown}");
        }
        assert_eq!(refused(&server, "10.0.0.1:9", Some("Bearer secrets")), Some(401));
    }

    #[test]
    fn one_is_allowed_at_a_time_and_one_in_an_interval() {
        let (mut limiter, interval) = (Limiter::default(), Span::from_ms(1_000));
        let at = |ms| Time(Span::from_ms(ms).0);
        assert_eq!(limiter.begin(at(5), interval), Ok(()));
        assert_eq!(limiter.begin(at(5_000), interval), Err(None), "the first is under way");
        limiter.busy = false;
        assert_eq!(limiter.begin(at(905), interval), Err(Some(Span::from_ms(100))));
        assert_eq!(limiter.begin(at(1_005), interval), Ok(()));
    }
}
