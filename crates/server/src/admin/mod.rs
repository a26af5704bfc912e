//! The admin server: HTTP for operators, tools and Prometheus.
//!
//! In: requests. Out: JSON; what Apache's admin server tells under `/commands`, Pole's own under `/v1`, and `/metrics`.
//! Why no TLS: it listens on loopback unless told otherwise, and what changes something needs a token from elsewhere.
//! Holds: a port that is taken costs a warning, never the server; bodies and connections are bounded; a page of a browser elsewhere
//! changes nothing here.
//! Not here: decisions (`node`), the figures (`metrics`).
//!
//! ```text
//! commands    /commands/NAME                      what Apache's admin server tells
//! v1          GET /v1/health, /v1/ensemble        where the ensemble stands
//! scores      GET /v1/scores                      who would lead well
//! elections   GET /v1/election                    why that one leads
//! change      PUT /v1/oracle, /v1/score           what an operator decides
//! transfer    POST /v1/transfer                   another leader
//! ```

mod change;
mod commands;
mod door;
mod elections;
mod fault;
mod look;
mod own_client;
mod scores;
mod transfer;
mod v1;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use serde_json::Value;
use tokio::runtime::Handle;

pub(crate) use look::look;

use crate::config::{Address, Config};
use crate::server::resolve;
use crate::shared::Shared;
use crate::{log, metrics};
use door::{Caller, Door};
use fault::Fault;

/// Where it listens.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Addresses {
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
}

/// Opens the ports that the configuration names, as far as they are free.
pub(crate) fn open(config: &Config, shared: &Arc<Shared>, runtime: &Handle) -> Addresses {
    let serve = |key, address: &Option<Address>, router: fn() -> Router<Arc<Shared>>| {
        let address = address.as_ref()?;
        match listen(key, address, router().with_state(Arc::clone(shared)), runtime) {
            Ok(address) => Some(address),
            Err(error) => {
                let at = format!("{}:{}", address.host, address.port);
                log::warn("admin_not_served", &[("key", key), ("address", &at), ("error", &error.to_string())]);
                None
            }
        }
    };
    Addresses {
        admin: serve("admin.serverPort", &config.admin.address, all),
        metrics: serve("metricsProvider.httpPort", &config.admin.metrics, only_metrics),
    }
}

fn listen(key: &'static str, address: &Address, router: Router, runtime: &Handle) -> io::Result<SocketAddr> {
    let _entered = runtime.enter();
    let address = resolve(key, address).map_err(io::Error::other)?;
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let door = Door::new(tokio::net::TcpListener::from_std(listener)?);
    let service = router.into_make_service_with_connect_info::<Caller>();
    runtime.spawn(async move { axum::serve(door, service).await });
    Ok(address)
}

fn all() -> Router<Arc<Shared>> {
    only_metrics()
        .route("/commands", get(commands::list))
        .route("/commands/", get(commands::list))
        .route("/commands/{name}", get(commands::run))
        .route("/v1/health", get(v1::health))
        .route("/v1/ensemble", get(v1::ensemble))
        .route("/v1/scores", get(scores::scores))
        .route("/v1/election", get(elections::elections))
        .route("/v1/oracle", put(change::oracle).get(v1::oracle))
        .route("/v1/score", put(change::score))
        .route("/v1/transfer", post(transfer::transfer))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .fallback(async || Fault::not_found("no such page: see /commands, /metrics, /v1/health"))
        .method_not_allowed_fallback(async || Fault::wrong_method())
}

fn only_metrics() -> Router<Arc<Shared>> {
    Router::new().route("/metrics", get(metrics_page))
}

async fn metrics_page(State(shared): State<Arc<Shared>>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics::page(&shared).await).into_response()
}

/// A page of JSON, with a line end for those who use curl.
fn page(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], format!("{value}\n")).into_response()
}

/// The name of an oracle and a few parameters: more is a mistake.
const BODY_BYTES_MAX: usize = 64 << 10;
