//! The admin server: HTTP for operators, tools and Prometheus.
//!
//! It serves Apache's admin commands under `/commands`, Pole's own API under `/v1`, both as JSON, `/metrics`, and the
//! dashboard, a page for browsers.
//!
//! The server listens on loopback by default. Changes from another host need a token, and nodes are sent to it only over
//! TLS, which `admin.portUnification` turns on. Request bodies and connections are bounded. Pages of other sites can neither change nor read
//! anything that matters, see `access`. If the port is taken, the server logs a warning and runs without it.
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
//! members     GET, PUT /v1/members                the servers of the ensemble
//! probes      GET /live, /ready                   for Kubernetes and load balancers
//! events      GET /v1/events                      what the dashboard shows, as it changes
//! nodes       GET /v1/nodes                       the node browser of the dashboard
//! access                                          who may do what
//! ```

mod access;
mod backup;
mod change;
mod commands;
mod elections;
mod error;
mod events;
mod internal_client;
mod listener;
mod members;
mod nodes;
mod probes;
mod scores;
mod transfer;
mod v1;
mod what_if;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Router};
use rustls::ServerConfig;
use serde::Serialize;
use tokio::runtime::Handle;
use tracing::warn;

pub(crate) use backup::Backups;
pub(crate) use events::{DashboardState, ElectionsFingerprint};
pub(crate) use transfer::{PendingTransfer, TransferError};

use crate::config::{Address, ClientAuth, Config, TlsSettings};
use crate::dashboard;
use crate::driver::Driver;
use crate::log::target::ADMIN;
use crate::metrics;
use crate::question::Question;
use crate::server::resolve;
use crate::shared::Shared;
use crate::tls::{self, Live};
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
    let serve = |key, address: &Option<Address>, tls, routes: fn() -> Router<Arc<Shared>>| {
        let address = address.as_ref()?;
        let router = routes().with_state(Arc::clone(shared));
        let opened = acceptor(config, tls).and_then(|tls| listen(key, address, tls, router, runtime));
        match opened {
            Ok(address) => Some(address),
            Err(error) => {
                let address = format!("{}:{}", address.host, address.port);
                warn!(target: ADMIN, key, address, %error, "admin_not_served");
                None
            }
        }
    };
    Addresses {
        admin: serve("admin.serverPort", &config.admin.address, config.admin.port_unification, router),
        metrics: serve("metricsProvider.httpPort", &config.admin.metrics, false, metrics_router),
    }
}

/// TLS with the certificate of the server: that of `ssl.quorum.*`, as in Apache, or else that of `ssl.*`. Callers prove
/// themselves by the token, not by certificates. The certificate is opened again where its other port does so.
fn acceptor(config: &Config, is_wanted: bool) -> io::Result<Option<Live<Arc<ServerConfig>>>> {
    if !is_wanted {
        return Ok(None);
    }
    let tls = &config.tls;
    let (settings, reload) = match tls.peers.key_store {
        Some(_) => (&tls.peers, tls.reload_between_servers),
        None => (&tls.clients, tls.reload_for_clients),
    };
    let none =
        TlsSettings { client_auth: ClientAuth::None, trust_store: None, revocation_lists: None, ..settings.clone() };
    let acceptor = Live::new(tls::acceptor(&none).map_err(io::Error::other)?);
    tls::watch(&none, reload, &acceptor, tls::acceptor);
    Ok(Some(acceptor))
}

fn listen(
    key: &'static str,
    address: &Address,
    tls: Option<Live<Arc<ServerConfig>>>,
    router: Router,
    runtime: &Handle,
) -> io::Result<SocketAddr> {
    let _entered = runtime.enter();
    let address = resolve(key, address).map_err(io::Error::other)?;
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let listener = AdminListener::new(tokio::net::TcpListener::from_std(listener)?, tls);
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
        .route("/v1/members", put(members::change).get(members::members))
        .route("/v1/events", get(events::events))
        .route("/v1/nodes", get(nodes::nodes))
        .route("/v1/openapi.json", get(openapi))
        .route("/live", get(probes::live))
        .route("/ready", get(probes::ready))
        .route("/", get(dashboard_file))
        .route("/dashboard/{name}", get(dashboard_file))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(Extension(Arc::new(events::Publisher::new())))
        .layer(Extension(Arc::new(nodes::NodePermits::new())))
        .fallback(async || ApiError::not_found("no such page: see /, /commands, /metrics, /v1/health"))
        .method_not_allowed_fallback(async || ApiError::wrong_method())
        .layer(map_response(secured))
}

/// A file of the dashboard.
async fn dashboard_file(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap) -> Result<Response, ApiError> {
    // Checked for the page, too, so that it says at once what is wrong.
    access::check_watch(&shared, &headers)?;
    let file = dashboard::file(uri.path()).ok_or_else(|| ApiError::not_found("the dashboard has no such file"))?;
    let caching = [(header::ETAG, file.etag.as_str()), (header::CACHE_CONTROL, "no-cache")];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == file.etag.as_str()) {
        return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
    }
    Ok((caching, [(header::CONTENT_TYPE, file.content_type)], file.body).into_response())
}

/// The description of this API, generated by the tests of `pole-api`.
async fn openapi() -> Response {
    let document = include_str!("../../../../docs/openapi.json");
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}

/// Adds the headers that keep other pages away.
async fn secured(mut response: Response) -> Response {
    for (name, value) in dashboard::SECURITY_HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
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
            Question::Dashboard { seen, reply } => {
                drop(reply.send(DashboardState::of(self, seen.as_ref())));
            }
            Question::Stats(reply) => drop(reply.send(metrics::NodeStats::of(self))),
            Question::SessionExpiries(reply) => {
                let _ = reply.send(self.node.session_expiries(self.shared.clock.now()));
            }
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
