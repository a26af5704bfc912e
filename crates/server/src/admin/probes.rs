//! `/live` and `/ready`: for the probes of Kubernetes and of load balancers.
//!
//! Neither asks the node's thread. A server that is not live should be restarted; one that is not ready should get no
//! clients, but may be busy with what makes it ready, such as an election or a synchronisation.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;

use crate::shared::Shared;
use crate::status::Role;

/// `GET /live`: the process answers.
pub(crate) async fn live() -> &'static str {
    "live\n"
}

/// `GET /ready`: clients are served, with a quorum.
pub(crate) async fn ready(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    match shared.status.role() {
        Role::Serving { .. } => (StatusCode::OK, "ready\n"),
        Role::Starting => (StatusCode::SERVICE_UNAVAILABLE, "not ready: the server starts\n"),
        Role::Looking { .. } => (StatusCode::SERVICE_UNAVAILABLE, "not ready: no leader with a quorum\n"),
    }
}
