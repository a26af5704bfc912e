//! Errors of the HTTP API: a sentence for people and a code for programs.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use pole_api::Refusal;

use super::page;

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    error: String,
}

impl ApiError {
    pub(crate) fn bad_value(error: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code: "bad-value", error: error.into() }
    }

    pub(crate) fn no_quorum() -> Self {
        let error = "no leader with a quorum: start more servers, or look at /v1/ensemble for who is missing";
        Self { status: StatusCode::SERVICE_UNAVAILABLE, code: "no-quorum", error: error.into() }
    }

    pub(crate) fn not_found(error: impl Into<String>) -> Self {
        Self { status: StatusCode::NOT_FOUND, code: "not-found", error: error.into() }
    }

    pub(crate) fn wrong_method() -> Self {
        let error = "this page has another method: GET reads, PUT sets, POST acts";
        Self { status: StatusCode::METHOD_NOT_ALLOWED, code: "bad-value", error: error.into() }
    }

    pub(crate) fn denied(error: impl Into<String>) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, code: "denied", error: error.into() }
    }

    pub(crate) fn timeout(error: impl Into<String>) -> Self {
        Self { status: StatusCode::GATEWAY_TIMEOUT, code: "timeout", error: error.into() }
    }

    pub(crate) fn conflict(error: impl Into<String>) -> Self {
        Self { status: StatusCode::CONFLICT, code: "conflict", error: error.into() }
    }

    /// What is wrong and what to do.
    pub(crate) fn text(&self) -> &str {
        &self.error
    }

    /// The node did not answer in time.
    pub(crate) fn busy() -> Self {
        Self::timeout("this server's node did not answer in time: look at its log, its disk and its load")
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, page(&Refusal { error: self.error, code: self.code.to_owned() })).into_response()
    }
}
