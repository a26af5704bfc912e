//! The dashboard of `pole up`: the page of the servers, the events of all of them, and actions on their processes.
//!
//! It has a port of its own, so that killing the server that one looks at does not take the page away. Requests for the
//! servers are passed on to one that answers, the leader first; see `relay`. Actions go to the event loop, which owns
//! the processes.
//!
//! It listens on loopback only, and takes requests only under a loopback name and only from its own page: any other page
//! in a browser on this machine could reach it otherwise.

mod relay;

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use pole_api::{Refusal, UpChooseServer, UpCutSite, UpSetLink, UpSetLoad};
use pole_server::dashboard;
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};

use super::Event;
use super::action::Action;
use super::board::Board;
use relay::Relay;

/// What the handlers share.
struct Shared {
    relay: Relay,
    actions: Sender<Event>,
    port: u16,
    streams: Arc<Semaphore>,
}

/// Starts the dashboard on its port. It ends with the process.
pub(crate) fn start(port: u16, admin_ports: &[(u64, u16)], board: &Board, actions: Sender<Event>) -> io::Result<()> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let relay = Relay::new(admin_ports, board.clone());
    let streams = Arc::new(Semaphore::new(STREAMS_MAX));
    let shared = Arc::new(Shared { relay, actions, port, streams });
    std::thread::Builder::new().name("dashboard".into()).spawn(move || {
        runtime.block_on(async {
            if let Ok(listener) = TcpListener::from_std(listener) {
                let _ = axum::serve(listener, router(shared)).await;
            }
        });
    })?;
    Ok(())
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(file))
        .route("/dashboard/{name}", get(file))
        .route("/v1/events", get(events))
        .route("/v1/up/{action}", post(act))
        .fallback(forward)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(&shared), check_caller))
        .layer(map_response(secured))
        .with_state(shared)
}

/// Adds the headers that keep other pages away.
async fn secured(mut response: Response) -> Response {
    for (name, value) in dashboard::SECURITY_HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// Refuses requests on behalf of pages of other sites.
async fn check_caller(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    if is_own(request.headers(), shared.port) {
        next.run(request).await
    } else {
        refuse(
            StatusCode::UNAUTHORIZED,
            "denied",
            "requests from pages of other sites, and under other names, are refused",
        )
    }
}

/// Whether the request names this port by a loopback name, which no page of another site can take, and comes from the
/// page of this port, if from any.
fn is_own(headers: &HeaderMap, port: u16) -> bool {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let Some(host) = text(header::HOST) else { return false };
    let names = ["127.0.0.1", "localhost", "[::1]"];
    let is_here = names.iter().any(|name| host == format!("{name}:{port}"));
    let is_own_page = !headers.contains_key(header::ORIGIN) || text(header::ORIGIN) == Some(&format!("http://{host}"));
    let site = text(HeaderName::from_static("sec-fetch-site"));
    is_here && is_own_page && matches!(site, None | Some("none" | "same-origin"))
}

async fn file(uri: Uri, headers: HeaderMap) -> Response {
    let Some(file) = dashboard::file(uri.path()) else {
        return refuse(StatusCode::NOT_FOUND, "not-found", "the dashboard has no such file");
    };
    let caching = [(header::ETAG, file.etag.as_str()), (header::CACHE_CONTROL, "no-cache")];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == file.etag.as_str()) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    (caching, [(header::CONTENT_TYPE, file.content_type)], file.body).into_response()
}

async fn events(State(shared): State<Arc<Shared>>) -> Response {
    let Ok(permit) = Arc::clone(&shared.streams).try_acquire_owned() else {
        return refuse(StatusCode::CONFLICT, "conflict", &format!("{STREAMS_MAX} dashboards are open: close one"));
    };
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(shared.relay.events(permit))).into_response()
}

/// An action on the processes, the links or the load.
async fn act(State(shared): State<Arc<Shared>>, Path(name): Path<String>, body: Bytes) -> Response {
    let action = match action(&name, &body) {
        Some(Ok(action)) => action,
        Some(Err(error)) => return refuse(StatusCode::BAD_REQUEST, "bad-value", &error),
        None => return refuse(StatusCode::NOT_FOUND, "not-found", &format!("{name}: there is no such action")),
    };
    let (reply, outcome) = oneshot::channel();
    // The event loop and with it the receiver end before this thread does.
    let _ = shared.actions.send(Event::Act { action, reply });
    match outcome.await {
        Ok(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        Ok(Err(error)) => refuse(StatusCode::CONFLICT, "conflict", &error),
        Err(_) => refuse(StatusCode::CONFLICT, "conflict", "the ensemble is stopping"),
    }
}

/// `None` if there is no action of that name.
fn action(name: &str, body: &[u8]) -> Option<Result<Action, String>> {
    fn parse<T: DeserializeOwned>(body: &[u8], action: impl FnOnce(T) -> Action) -> Option<Result<Action, String>> {
        Some(serde_json::from_slice(body).map(action).map_err(|error| format!("body: {error}")))
    }
    match name {
        "kill" => parse(body, |UpChooseServer { server }| Action::Kill(server)),
        "pause" => parse(body, |UpChooseServer { server }| Action::Pause(server)),
        "resume" => parse(body, |UpChooseServer { server }| Action::Resume(server)),
        "restart" => parse(body, |UpChooseServer { server }| Action::Restart(server)),
        "load" => parse(body, |UpSetLoad { rate, site }| Action::Load { rate, site }),
        "link" => parse(body, |UpSetLink { a, b, rtt_ms }| Action::Link { a, b, rtt_ms }),
        "cut" => parse(body, |UpCutSite { site, cut }| Action::Cut { site, is_cut: cut }),
        _ => None,
    }
}

/// Passes a request on to a server.
async fn forward(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let is_known =
        ["/v1/", "/commands", "/metrics", "/ready", "/live"].iter().any(|start| uri.path().starts_with(start));
    if !is_known {
        return refuse(StatusCode::NOT_FOUND, "not-found", "there is no such page: see /");
    }
    match shared.relay.forward(&method, &uri, headers.get(header::AUTHORIZATION), body).await {
        Some(response) => response,
        None => refuse(StatusCode::SERVICE_UNAVAILABLE, "no-quorum", "no server answers in time: start or resume one"),
    }
}

fn refuse(status: StatusCode, code: &str, error: &str) -> Response {
    let refusal = Refusal { error: error.to_owned(), code: code.to_owned() };
    let body = serde_json::to_string(&refusal).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// As large as the largest that a server takes.
const BODY_BYTES_MAX: usize = 64 << 10;

/// As many as each server serves.
const STREAMS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(pairs: &[(&'static str, &str)]) -> bool {
        let headers = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        is_own(&headers.collect(), 21810)
    }

    #[test]
    fn only_our_own_page_under_a_loopback_name_is_served() {
        let own = ("host", "127.0.0.1:21810");
        assert!(accepts(&[own]) && accepts(&[("host", "localhost:21810")]) && accepts(&[("host", "[::1]:21810")]));
        assert!(accepts(&[own, ("origin", "http://127.0.0.1:21810"), ("sec-fetch-site", "same-origin")]));
        assert!(accepts(&[own, ("sec-fetch-site", "none")]));
        for host in ["evil.example:21810", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:21810.evil.example"] {
            assert!(!accepts(&[("host", host)]), "{host}");
        }
        for origin in ["http://evil.example", "null", "http://localhost:21810", "https://127.0.0.1:21810"] {
            assert!(!accepts(&[own, ("origin", origin)]), "{origin}");
        }
        assert!(!accepts(&[]) && !accepts(&[own, ("sec-fetch-site", "cross-site")]));
        assert!(!accepts(&[own, ("sec-fetch-site", "same-site")]));
    }

    #[test]
    fn actions_are_parsed_strictly() {
        assert_eq!(action("kill", br#"{"server":3}"#), Some(Ok(Action::Kill(3))));
        let load = Action::Load { rate: 10.0, site: Some("D1".into()) };
        assert_eq!(action("load", br#"{"rate":10,"site":"D1"}"#), Some(Ok(load)));
        assert_eq!(action("load", br#"{"rate":10}"#), Some(Ok(Action::Load { rate: 10.0, site: None })));
        assert!(matches!(action("kill", br#"{"server":3,"now":true}"#), Some(Err(_))));
        assert!(matches!(action("kill", b""), Some(Err(_))));
        assert_eq!(action("erase", b"{}"), None);
    }
}
