//! `GET` and `PUT /v1/members`: the members of the ensemble, and changes of them.
//!
//! A change takes the way of a client's `reconfig`, on any server, and is committed before the response.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, State};
use axum::http::HeaderMap;
use axum::response::Response;
use pole_api::ChangeMembers;
use pole_jute::{ErrorCode, GetDataResponse, ReconfigRequest, Reply, Request};
use pole_tree::{MemberRole, Members};
use tokio::time::timeout;

use super::access::check_change;
use super::change::{COMMIT_LIMIT, body_of};
use super::error::ApiError;
use super::internal_client::InternalClient;
use super::listener::RemoteAddress;
use super::page;
use crate::shared::Shared;
use crate::status::Role;

/// `GET /v1/members`. A standalone server has none.
pub(crate) async fn members(State(shared): State<Arc<Shared>>) -> Response {
    let (members, version) = shared.tree.read().members().unwrap_or_default();
    page(&answer(&shared, &members, version))
}

/// `PUT /v1/members`.
pub(crate) async fn change(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(RemoteAddress(from, _)): ConnectInfo<RemoteAddress>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    check_change(&shared, from, &headers)?;
    let request = request(body_of(body)?)?;
    if !matches!(shared.status.role(), Role::Serving { .. }) {
        return Err(ApiError::no_quorum());
    }
    // In a task of its own, so that a caller that disconnects does not leave the session behind.
    let asking = Arc::clone(&shared);
    let committed = tokio::spawn(async move { timeout(COMMIT_LIMIT, commit(&asking, request)).await });
    let late = "the change was not committed in time, and may be later: look at /v1/members before trying again";
    let (members, version) = committed.await.ok().and_then(Result::ok).ok_or_else(|| ApiError::timeout(late))??;
    Ok(page(&answer(&shared, &members, version)))
}

fn request(ChangeMembers { join, leave, version }: ChangeMembers) -> Result<ReconfigRequest, ApiError> {
    if join.is_empty() && leave.is_empty() {
        return Err(ApiError::bad_value("join, leave: nothing to change: name servers to add or to remove"));
    }
    let version = match version.as_deref() {
        None => -1,
        Some(text) => {
            let number = u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16);
            number.map_err(|_| ApiError::bad_value("version: expected a hexadecimal number"))?.cast_signed()
        }
    };
    let ids: Vec<String> = leave.iter().map(u64::to_string).collect();
    let given = |text: String| (!text.is_empty()).then_some(text);
    Ok(ReconfigRequest {
        joining_servers: given(join.join(",")),
        leaving_servers: given(ids.join(",")),
        new_members: None,
        cur_config_id: version,
    })
}

async fn commit(shared: &Arc<Shared>, request: ReconfigRequest) -> Result<(Members, i64), ApiError> {
    let mut client = InternalClient::open(shared).await?;
    let reply = client.request(Request::Reconfig(request)).await;
    client.close().await?;
    match reply? {
        Ok(Reply::Reconfig(GetDataResponse { data, .. })) => {
            let text = String::from_utf8_lossy(&data.unwrap_or_default()).into_owned();
            Members::parse_description(&text).map_err(ApiError::conflict)
        }
        Ok(other) => Err(ApiError::conflict(format!("the reply is one to {:?}", other.op()))),
        Err(code) => Err(refused(code)),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the other codes are not answers to this request")]
fn refused(code: ErrorCode) -> ApiError {
    match code {
        ErrorCode::ReconfigDisabled => {
            ApiError::conflict("changes are not allowed: set reconfigEnabled=true on all servers and restart them")
        }
        ErrorCode::Unimplemented => alone(),
        ErrorCode::BadVersion => {
            ApiError::conflict("the members were changed meanwhile: look at /v1/members and try again")
        }
        ErrorCode::BadArguments => ApiError::bad_value(
            "join, leave: expected ids and lines server.N=host:quorumPort:electionPort[:role];[address:]clientPort with \
             ports that no other member has; at least two voters stay (one with standaloneEnabled=false), and votes with \
             weights or groups are changed by a complete list only",
        ),
        ErrorCode::NewConfigNoQuorum => ApiError::conflict(
            "no quorum of the new voters follows the leader and is level: start them and wait, or change fewer at a time",
        ),
        code => ApiError::conflict(format!("the members were not changed: {code}")),
    }
}

fn alone() -> ApiError {
    ApiError::conflict("a standalone server has no members: list it and others as server.N, and restart it")
}

fn answer(shared: &Shared, members: &Members, version: i64) -> pole_api::Members {
    let member = |(id, server): (&pole_types::ServerId, &pole_tree::Server)| {
        let vote = members.votes.get(id);
        let votes = server.role == MemberRole::Participant;
        pole_api::Member {
            id: id.0,
            role: server.role.name().to_owned(),
            line: server.to_string(),
            weight: votes.then(|| vote.map_or(1, |vote| vote.weight)),
            group: vote.map(|vote| vote.group),
        }
    };
    pole_api::Members {
        version: format!("{version:#x}"),
        changeable: shared.settings.rules.reconfig,
        members: members.servers.iter().map(member).collect(),
    }
}
