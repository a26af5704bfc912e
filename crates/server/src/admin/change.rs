//! Changes by an operator: the oracle of the ensemble, and a probe's score of this server.
//!
//! `access` decides who may make them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use pole_api::{ChooseOracle, OracleChosen, SetScore};
use pole_jute::{Create2Response, CreateRequest, ErrorCode, Reply, Request, SetDataRequest, SetDataResponse};
use pole_node::ORACLE_PATH;
use pole_oracle::Spec;
use pole_types::Span;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::access::check_change;
use super::error::ApiError;
use super::internal_client::InternalClient;
use super::listener::RemoteAddress;
use super::page;
use crate::question::{Question, ask};
use crate::shared::Shared;
use crate::status::Role;

/// `PUT /v1/oracle`: chooses the oracle of the whole ensemble. The choice is committed before the response.
pub(crate) async fn oracle(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(RemoteAddress(from, _)): ConnectInfo<RemoteAddress>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    check_change(&shared, from, &headers)?;
    let text = spec(body_of(body)?)?.to_string();
    if !matches!(shared.status.role(), Role::Serving { .. }) {
        return Err(ApiError::no_quorum());
    }
    // In a task of its own, so that a caller that disconnects does not leave the session behind.
    let committed = tokio::spawn(async move { timeout(COMMIT_LIMIT, choose(&shared, &text)).await });
    let late = "the choice was not committed in time, and may be later: look at /v1/ensemble before trying again";
    let version = committed.await.ok().and_then(Result::ok).ok_or_else(|| ApiError::timeout(late))??;
    Ok(page(&OracleChosen { version: format!("{version:#x}") }))
}

/// `PUT /v1/score`: sets the score that a probe gives this server, for as long as it asks.
pub(crate) async fn score(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(RemoteAddress(from, _)): ConnectInfo<RemoteAddress>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<StatusCode, ApiError> {
    check_change(&shared, from, &headers)?;
    let SetScore { value, ttl_ms } = body_of(body)?;
    let ttl = Span::from_ms(within("ttl_ms", ttl_ms.unwrap_or(TTL_MS_DEFAULT), TTL_MS_MAX)?);
    let recorded = ask(&shared, |reply| Question::RecordProbe { value, ttl, reply });
    match recorded.await {
        Some(Ok(())) => Ok(StatusCode::NO_CONTENT),
        Some(Err(error)) => Err(ApiError::bad_value(error.to_string())),
        None => Err(ApiError::busy()),
    }
}

/// Parses a body. A missing one is an object without fields.
pub(crate) fn body_of<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, ApiError> {
    let body = body.map_err(|error| ApiError::bad_value(format!("body: {error}")))?;
    let body = if body.is_empty() { b"{}" } else { &body[..] };
    let value: Value =
        serde_json::from_slice(body).map_err(|error| ApiError::bad_value(format!("body: not JSON: {error}")))?;
    if !value.is_object() {
        return Err(ApiError::bad_value("body: expected an object"));
    }
    // The error itself does not name the field; its path does.
    serde_path_to_error::deserialize(value).map_err(|error| ApiError::bad_value(error.to_string()))
}

/// Checks a number that must be from 1 to `most`.
pub(crate) fn within(name: &str, value: u64, most: u64) -> Result<u64, ApiError> {
    let error = || ApiError::bad_value(format!("{name}: expected a whole number from 1 to {most}"));
    (1..=most).contains(&value).then_some(value).ok_or_else(error)
}

/// Returns the oracle that the body names, if it can be built and stored as text.
fn spec(body: ChooseOracle) -> Result<Spec, ApiError> {
    let ChooseOracle { name, params } = body;
    let params: BTreeMap<_, _> =
        params.unwrap_or_default().into_iter().map(|(name, value)| (name, value.to_string())).collect();
    let plain = params.is_empty().then(|| Spec::parse(&name));
    let spec = plain.unwrap_or_else(|| {
        let spec = Spec { name, params };
        spec.build().map(|_| spec)
    });
    let spec = spec.map_err(|error| ApiError::bad_value(error.to_string()))?;
    match Spec::parse(&spec.to_string()) {
        Ok(read) if read == spec => Ok(spec),
        Ok(_) | Err(_) => Err(ApiError::bad_value(
            "combined: a preference within it cannot be chosen at run time: set pole.oracle.preference in the files",
        )),
    }
}

/// Writes the choice to the znode that holds it. Returns the zxid of the transaction.
async fn choose(shared: &Arc<Shared>, text: &str) -> Result<i64, ApiError> {
    let mut client = InternalClient::open(shared).await?;
    let outcome = write(&mut client, text).await;
    client.close().await?;
    outcome
}

async fn write(client: &mut InternalClient, text: &str) -> Result<i64, ApiError> {
    let data = Some(pole_text(text));
    let set = SetDataRequest { path: ORACLE_PATH.into(), data: data.clone(), version: -1 };
    let create = CreateRequest { path: ORACLE_PATH.into(), data, acl: Vec::new(), flags: 0 };
    // Twice, because another operator may create the node between our two requests.
    for _ in 0..2 {
        match client.request(Request::SetData(set.clone())).await? {
            Ok(reply) => return mzxid(&reply),
            Err(ErrorCode::NoNode) => {}
            Err(code) => return Err(refused(code)),
        }
        match client.request(Request::Create2(create.clone())).await? {
            Ok(reply) => return mzxid(&reply),
            Err(ErrorCode::NodeExists) => {}
            Err(code) => return Err(refused(code)),
        }
    }
    Err(ApiError::conflict("another operator chose at the same time: look at /v1/ensemble and try again"))
}

fn mzxid(reply: &Reply) -> Result<i64, ApiError> {
    let (Reply::SetData(SetDataResponse { stat }) | Reply::Create2(Create2Response { stat, .. })) = reply else {
        return Err(refused(format_args!("the reply is one to {:?}", reply.op())));
    };
    Ok(stat.mzxid)
}

fn pole_text(text: &str) -> bytes::Bytes {
    bytes::Bytes::copy_from_slice(text.as_bytes())
}

fn refused(why: impl std::fmt::Display) -> ApiError {
    ApiError::conflict(format!("{ORACLE_PATH} was not written: {why}"))
}

/// A commit takes a few round trips, and about a second more if the leader changes in between.
pub(super) const COMMIT_LIMIT: Duration = Duration::from_secs(5);

/// The default of `pole score set`.
const TTL_MS_DEFAULT: u64 = 30_000;

/// A day; a probe that runs less often is not useful.
const TTL_MS_MAX: u64 = 86_400_000;
