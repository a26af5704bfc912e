//! What an operator may change: the oracle of the ensemble, and the score of this server by a probe.
//!
//! Holds: from elsewhere than this machine only with the token; a page in a browser never, because it cannot know
//! whose admin server it talks to.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use pole_election::Span;
use pole_jute::{Create2Response, CreateRequest, ErrorCode, OpCode, Reader, Record, SetDataRequest, SetDataResponse};
use pole_node::ORACLE_PATH;
use pole_oracle::Spec;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::door::Caller;
use super::fault::Fault;
use super::own_client::OwnClient;
use super::{look, page};
use crate::shared::Shared;
use crate::status::Role;

/// `PUT /v1/oracle`: another oracle for the whole ensemble. Committed when it answers.
pub(crate) async fn oracle(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(Caller(from)): ConnectInfo<Caller>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Fault> {
    permit(&shared, from, &headers)?;
    let text = spec(&fields(body, &["name", "params"])?)?.to_string();
    if !matches!(shared.status.role(), Role::Serving { .. }) {
        return Err(Fault::no_quorum());
    }
    // In a task of its own: a caller that hangs up must not leave the session behind.
    let committed = tokio::spawn(async move { timeout(COMMIT_LIMIT, choose(&shared, &text)).await });
    let late = "the choice was not committed in time, and may be later: look at /v1/ensemble before trying again";
    let version = committed.await.ok().and_then(Result::ok).ok_or_else(|| Fault::timeout(late))??;
    Ok(page(&json!({"version": format!("{version:#x}")})))
}

/// `PUT /v1/score`: what a probe says of this server, for as long as it says.
pub(crate) async fn score(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(Caller(from)): ConnectInfo<Caller>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, Fault> {
    permit(&shared, from, &headers)?;
    let fields = fields(body, &["value", "ttl_ms"])?;
    let value = fields.get("value").and_then(Value::as_f64);
    let value = value.ok_or_else(|| Fault::bad_value("value: expected a finite number, higher is better"))?;
    let ttl_ms = whole(&fields, "ttl_ms", TTL_MS_DEFAULT, TTL_MS_MAX)?;
    let recorded = look(&shared, move |driver| {
        let now = driver.shared.clock.now();
        driver.node.record_probe(value, Span::from_ms(ttl_ms), now)
    });
    match recorded.await {
        Some(Ok(())) => Ok(StatusCode::NO_CONTENT),
        Some(Err(error)) => Err(Fault::bad_value(error.to_string())),
        None => Err(Fault::busy()),
    }
}

/// Whether this caller may change something.
pub(crate) fn permit(shared: &Shared, from: SocketAddr, headers: &HeaderMap) -> Result<(), Fault> {
    if headers.contains_key(header::ORIGIN) {
        return Err(Fault::denied("changes are not taken from pages in a browser: use pole or curl"));
    }
    if from.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    let Some(token) = &shared.settings.config.admin.token else {
        let error = format!("changes from {} need pole.admin.token in the configuration of this server", from.ip());
        return Err(Fault::denied(error));
    };
    let shown = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
    let shown = shown.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or_default();
    match is_same(shown, token.0.as_bytes()) {
        true => Ok(()),
        false => Err(Fault::denied("show the token of this server: Authorization: Bearer <pole.admin.token>")),
    }
}

/// Compares in a time that does not tell how much of it was right.
fn is_same(shown: &[u8], token: &[u8]) -> bool {
    let differing = shown.iter().zip(token).fold(0, |seen, (a, b)| seen | (a ^ b));
    shown.len() == token.len() && differing == 0
}

/// The fields of the body, which may have these names and no others. No body is an object without fields.
pub(crate) fn fields(body: Result<Bytes, BytesRejection>, known: &[&str]) -> Result<Map<String, Value>, Fault> {
    let body = body.map_err(|error| Fault::bad_value(format!("body: {error}")))?;
    if body.is_empty() {
        return Ok(Map::new());
    }
    let value = serde_json::from_slice(&body).map_err(|error| Fault::bad_value(format!("body: not JSON: {error}")))?;
    let Value::Object(fields) = value else { return Err(Fault::bad_value("body: expected an object")) };
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(Fault::bad_value(format!("{name}: no such field, there are {}", known.join(", ")))),
        None => Ok(fields),
    }
}

/// A whole number from 1 to `most`.
pub(crate) fn whole(fields: &Map<String, Value>, name: &str, default: u64, most: u64) -> Result<u64, Fault> {
    let given = fields.get(name).filter(|value| !value.is_null()).map_or(Some(default), Value::as_u64);
    given
        .filter(|value| (1..=most).contains(value))
        .ok_or_else(|| Fault::bad_value(format!("{name}: expected a whole number from 1 to {most}")))
}

/// The oracle that the body names, if it can be built and written down.
fn spec(fields: &Map<String, Value>) -> Result<Spec, Fault> {
    let name = fields.get("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| Fault::bad_value("name: expected the name of an oracle, such as \"latency\""))?;
    let params = match fields.get("params") {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(Value::Object(params)) => {
            params.iter().map(|(name, value)| Some((name.clone(), text(value)?))).collect::<Option<_>>().ok_or(())
        }
        Some(_) => Err(()),
    };
    let params = params.map_err(|()| Fault::bad_value("params: expected an object of texts or numbers"))?;
    let plain = params.is_empty().then(|| Spec::parse(name));
    let spec = plain.unwrap_or_else(|| {
        let spec = Spec { name: name.to_owned(), params };
        spec.build().map(|_| spec)
    });
    let spec = spec.map_err(|error| Fault::bad_value(error.to_string()))?;
    match Spec::parse(&spec.to_string()) {
        Ok(read) if read == spec => Ok(spec),
        Ok(_) | Err(_) => Err(Fault::bad_value(
            "combined: a preference within it cannot be chosen at run time: set pole.oracle.preference in the files",
        )),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Writes the choice where the ensemble keeps it. Returns the position of the transaction.
async fn choose(shared: &Arc<Shared>, text: &str) -> Result<i64, Fault> {
    let mut client = OwnClient::open(shared).await?;
    let outcome = write(&mut client, text).await;
    client.close().await?;
    outcome
}

async fn write(client: &mut OwnClient, text: &str) -> Result<i64, Fault> {
    let data = Some(pole_text(text));
    let set = SetDataRequest { path: ORACLE_PATH.into(), data: data.clone(), version: -1 }.encode();
    let create = CreateRequest { path: ORACLE_PATH.into(), data, acl: Vec::new(), flags: 0 }.encode();
    // Twice: another operator may create it between our two requests.
    for _ in 0..2 {
        match client.ask(OpCode::SetData, &set).await? {
            (ErrorCode::Ok, body) => {
                let reply = SetDataResponse::read(&mut Reader::new(body)).map_err(refused)?;
                return Ok(reply.stat.mzxid);
            }
            (ErrorCode::NoNode, _) => {}
            (code, _) => return Err(refused(code)),
        }
        match client.ask(OpCode::Create2, &create).await? {
            (ErrorCode::Ok, body) => {
                let reply = Create2Response::read(&mut Reader::new(body)).map_err(refused)?;
                return Ok(reply.stat.mzxid);
            }
            (ErrorCode::NodeExists, _) => {}
            (code, _) => return Err(refused(code)),
        }
    }
    Err(Fault::conflict("another operator chose at the same time: look at /v1/ensemble and try again"))
}

fn pole_text(text: &str) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(text.as_bytes())
}

fn refused(why: impl std::fmt::Display) -> Fault {
    Fault::conflict(format!("{ORACLE_PATH} was not written: {why}"))
}

/// A commit takes a few round trips; a leader change in between a second.
const COMMIT_LIMIT: Duration = Duration::from_secs(5);

/// As long as `pole score set` says.
const TTL_MS_DEFAULT: u64 = 30_000;

/// A day: whoever probes less often does not probe.
const TTL_MS_MAX: u64 = 86_400_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn is_permitted(server: &Shared, from: &str, authorization: Option<&str>) -> bool {
        let value = authorization.map(|text| (header::AUTHORIZATION, text.parse().expect("a header")));
        permit(server, from.parse().expect("an address"), &value.into_iter().collect()).is_ok()
    }

    #[test]
    fn this_machine_needs_no_token() {
        let server = Shared::configured("pole.admin.token=secret\n");
        for from in ["127.0.0.1:9", "127.8.8.8:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            assert!(is_permitted(&server, from, None), "{from}");
        }
    }

    #[test]
    fn another_machine_needs_the_token_and_nothing_but_the_token() {
        let server = Shared::configured("pole.admin.token=secret\n");
        assert!(is_permitted(&server, "10.0.0.1:9", Some("Bearer secret")));
        for wrong in [None, Some("Bearer secre"), Some("Bearer secrets"), Some("Bearer "), Some("secret")] {
            assert!(!is_permitted(&server, "10.0.0.1:9", wrong), "{wrong:?}");
        }
    }

    #[test]
    fn without_a_token_in_the_configuration_another_machine_changes_nothing() {
        assert!(!is_permitted(&Shared::configured(""), "10.0.0.1:9", Some("Bearer ")));
    }
}
