//! The admin server: HTTP for operators, tools and Prometheus.
//!
//! It serves Apache's admin commands under `/commands`, Pole's own API under `/v1`, both as JSON, and `/metrics`.
//!
//! There is no TLS: the server listens on loopback by default, and changes from another host need a token. Request
//! bodies and connections are bounded. A web page in a browser cannot change anything. If the port is taken, the server
//! logs a warning and runs without it.
//!
//! Decisions are made in `node`; the metrics are collected in `metrics`.
//!
//! ```text
//! commands    /commands/NAME                      Apache's admin commands
//! backup      /commands/snapshot, restore         the whole state, sent and received
//! v1          GET /v1/health, /v1/ensemble        the state of the server and of the ensemble
//! scores      GET /v1/scores                      how well each server would lead
//! what_if     GET /v1/whatif                      what would make another server lead well
//! elections   GET /v1/election                    why the current leader leads
//! change      PUT /v1/oracle, /v1/score           changes by an operator
//! transfer    POST /v1/transfer                   a change of the leader
//! ```

mod backup;
mod change;
mod commands;
mod elections;
mod error;
mod internal_client;
mod listener;
mod scores;
mod transfer;
mod v1;
mod what_if;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use serde::Serialize;
use tokio::runtime::Handle;
use tracing::warn;

pub(crate) use backup::Backups;
pub(crate) use transfer::{PendingTransfer, TransferError};

use crate::config::{Address, Config};
use crate::driver::Driver;
use crate::log::target::ADMIN;
use crate::metrics;
use crate::question::Question;
use crate::server::resolve;
use crate::shared::Shared;
use error::ApiError;
use listener::{AdminListener, RemoteAddress};

/// The addresses that it listens on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Addresses {
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
}

/// Opens the configured ports. A port that cannot be opened is logged and left out.
pub(crate) fn open(config: &Config, shared: &Arc<Shared>, runtime: &Handle) -> Addresses {
    let serve = |key, address: &Option<Address>, routes: fn() -> Router<Arc<Shared>>| {
        let address = address.as_ref()?;
        match listen(key, address, routes().with_state(Arc::clone(shared)), runtime) {
            Ok(address) => Some(address),
            Err(error) => {
                let address = format!("{}:{}", address.host, address.port);
                warn!(target: ADMIN, key, address, %error, "admin_not_served");
                None
            }
        }
    };
    Addresses {
        admin: serve("admin.serverPort", &config.admin.address, router),
        metrics: serve("metricsProvider.httpPort", &config.admin.metrics, metrics_router),
    }
}

fn listen(key: &'static str, address: &Address, router: Router, runtime: &Handle) -> io::Result<SocketAddr> {
    let _entered = runtime.enter();
    let address = resolve(key, address).map_err(io::Error::other)?;
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let listener = AdminListener::new(tokio::net::TcpListener::from_std(listener)?);
    let service = router.into_make_service_with_connect_info::<RemoteAddress>();
    runtime.spawn(async move { axum::serve(listener, service).await });
    Ok(address)
}

fn router() -> Router<Arc<Shared>> {
    metrics_router()
        .route("/commands", get(commands::list))
        .route("/commands/", get(commands::list))
        .route("/commands/{name}", get(commands::run).post(commands::post))
        .route("/v1/health", get(v1::health))
        .route("/v1/ensemble", get(v1::ensemble))
        .route("/v1/scores", get(scores::scores))
        .route("/v1/whatif", get(what_if::page_of))
        .route("/v1/election", get(elections::elections))
        .route("/v1/oracle", put(change::oracle).get(v1::oracle))
        .route("/v1/score", put(change::score))
        .route("/v1/transfer", post(transfer::transfer))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .fallback(async || ApiError::not_found("no such page: see /commands, /metrics, /v1/health"))
        .method_not_allowed_fallback(async || ApiError::wrong_method())
}

fn metrics_router() -> Router<Arc<Shared>> {
    Router::new().route("/metrics", get(metrics_page))
}

async fn metrics_page(State(shared): State<Arc<Shared>>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics::page(&shared).await).into_response()
}

/// A JSON response, with a newline at its end for the sake of curl.
fn page(value: &impl Serialize) -> Response {
    let body = serde_json::to_string(value).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
    ([(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

impl Driver {
    /// Answers a question of another thread. Its receiver may have timed out, which is no error.
    pub(crate) fn answer(&mut self, question: Question) {
        match question {
            Question::Ensemble(reply) => drop(reply.send(v1::ensemble_of(self))),
            Question::Oracle(reply) => drop(reply.send(v1::oracle_of(self))),
            Question::Scores { moment, reply } => drop(reply.send(scores::scores_of(self, moment))),
            Question::WhatIf(reply) => drop(reply.send(what_if::what_ifs(self))),
            Question::Elections { last, reply } => drop(reply.send(elections::elections_of(self, last))),
            Question::Stats(reply) => drop(reply.send(metrics::NodeStats::of(self))),
            Question::ScoreMetrics(reply) => drop(reply.send(metrics::all_scores(self))),
            Question::RecordProbe { value, ttl, reply } => {
                let now = self.shared.clock.now();
                let _ = reply.send(self.node.record_probe(value, ttl, now));
            }
            Question::Transfer { to, reply } => self.begin_transfer(to, reply),
        }
    }
}

/// The largest valid body holds the name of an oracle and a few parameters.
const BODY_BYTES_MAX: usize = 64 << 10;
