//! Passes requests on to the servers, and the events of all servers to one stream.
//!
//! Each viewer has a connection to each server, opened again when the server is back. Snapshots of all servers are
//! passed on as they are. Elections are those of the server that leads: the others may have joined later.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Method, Response, Uri, header};
use futures_util::Stream;
use futures_util::stream::unfold;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use pole_api::Capabilities;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::up::board::Board;

pub(super) struct Relay {
    /// Admin ports by id.
    servers: Vec<(u64, u16)>,
    board: Board,
}

impl Relay {
    pub(super) fn new(servers: &[(u64, u16)], board: Board) -> Self {
        Self { servers: servers.to_vec(), board }
    }

    /// The stream of one viewer.
    pub(super) fn events(&self, permit: OwnedSemaphorePermit) -> impl Stream<Item = Result<Bytes, Infallible>> + use<> {
        // A viewer that does not keep up makes the tasks wait, and those the servers, which skip snapshots then.
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let mut tasks = JoinSet::new();
        for (id, port) in self.servers.iter().copied() {
            tasks.spawn(follow(id, port, sender.clone()));
        }
        tasks.spawn(follow_board(self.board.clone(), sender));
        let viewer = Viewer { receiver, _tasks: tasks, _permit: permit };
        unfold(viewer, |mut viewer| async { viewer.receiver.recv().await.map(|bytes| (Ok(bytes), viewer)) })
    }

    /// Asks the leader, or another server if it accepts no connection. A read that is not answered in time is repeated at
    /// another server, but a change is not: it may have taken effect.
    pub(super) async fn forward(
        &self,
        method: &Method,
        uri: &Uri,
        authorization: Option<&HeaderValue>,
        body: Bytes,
    ) -> Option<Response<Body>> {
        let leader = self.board.content().leader.map(|(leader, _)| leader);
        let mut servers = self.servers.clone();
        servers.sort_by_key(|(id, _)| Some(*id) != leader);
        for (_, port) in servers {
            let mut request = hyper::Request::builder().method(method).uri(uri.path_and_query()?.as_str());
            if let Some(authorization) = authorization {
                request = request.header(header::AUTHORIZATION, authorization);
            }
            let Some(stream) = connect(port).await else { continue };
            let answer = timeout(ANSWER_LIMIT, exchange(port, stream, request, body.clone())).await;
            let response = match answer {
                Ok(Some(response)) => response,
                Ok(None) | Err(_) if method == Method::GET => continue,
                Ok(None) | Err(_) => return None,
            };
            let (parts, incoming) = response.into_parts();
            let bytes = Limited::new(incoming, ANSWER_BYTES_MAX).collect().await.ok()?.to_bytes();
            let mut response = Response::new(Body::from(bytes));
            *response.status_mut() = parts.status;
            let kind = parts.headers.get(header::CONTENT_TYPE).cloned();
            response.headers_mut().extend(kind.map(|kind| (header::CONTENT_TYPE, kind)));
            return Some(response);
        }
        None
    }
}

struct Viewer {
    receiver: mpsc::Receiver<Bytes>,
    /// Aborted with the viewer.
    _tasks: JoinSet<()>,
    _permit: OwnedSemaphorePermit,
}

/// Sends what the page may do, and then the state of `pole up` whenever it changes.
async fn follow_board(board: Board, sender: mpsc::Sender<Bytes>) {
    let mut actions = vec!["oracle", "transfer", "kill", "pause", "restart", "load"];
    if cfg!(feature = "emulation") {
        actions.extend(["link", "cut"]);
    }
    let capabilities = Capabilities {
        server: None,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        actions: actions.into_iter().map(str::to_owned).collect(),
        nodes: true,
    };
    let first = serde_json::to_string(&capabilities).unwrap_or_default();
    if sender.send(format!("retry: 1000\n\nevent: capabilities\ndata: {first}\n\n").into()).await.is_err() {
        return;
    }
    let mut updates = board.watch();
    updates.mark_changed();
    while updates.changed().await.is_ok() {
        let state = serde_json::to_string(&updates.borrow_and_update().state).unwrap_or_default();
        if sender.send(format!("event: up\ndata: {state}\n\n").into()).await.is_err() {
            return;
        }
        sleep(BOARD_PAUSE).await;
    }
}

/// Passes on the events of one server, as long as there is a viewer.
async fn follow(id: u64, port: u16, sender: mpsc::Sender<Bytes>) {
    loop {
        let request = hyper::Request::builder().method(Method::GET).uri("/v1/events");
        if let Some(stream) = connect(port).await
            && let Ok(Some(response)) = timeout(ANSWER_LIMIT, exchange(port, stream, request, Bytes::new())).await
            && response.status().is_success()
            && copy(id, response.into_body(), &sender).await.is_none()
        {
            return;
        }
        sleep(RETRY).await;
    }
}

/// Copies events until the server is gone; `None` if the viewer is.
async fn copy(id: u64, mut body: Incoming, sender: &mpsc::Sender<Bytes>) -> Option<()> {
    let mut received = Vec::new();
    let mut elections = Elections::default();
    while let Ok(Some(Ok(frame))) = timeout(SILENCE_MAX, body.frame()).await {
        received.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if received.len() > EVENT_BYTES_MAX {
            return Some(());
        }
        while let Some(end) = received.windows(2).position(|pair| pair == b"\n\n") {
            let event: Bytes = received.drain(..end + 2).collect::<Vec<u8>>().into();
            for event in elections.sort_out(id, event) {
                sender.send(event).await.ok()?;
            }
        }
    }
    Some(())
}

/// Holds the elections of a server back until it leads.
#[derive(Default)]
struct Elections {
    /// Those that were not passed on yet.
    newest: Option<Bytes>,
}

impl Elections {
    /// Returns the events to pass on.
    fn sort_out(&mut self, id: u64, event: Bytes) -> Vec<Bytes> {
        if event.starts_with(b"event: elections\n") {
            self.newest = Some(event);
            return Vec::new();
        }
        let Some(data) = event.strip_prefix(b"event: snapshot\ndata: ") else { return Vec::new() };
        let leads = serde_json::from_slice(data).is_ok_and(|snapshot: SnapshotHead| snapshot.health.leader == Some(id));
        let elections = if leads { self.newest.take() } else { None };
        elections.into_iter().chain([event]).collect()
    }
}

/// The part of a snapshot that is used here.
#[derive(Deserialize)]
struct SnapshotHead {
    health: HealthHead,
}

#[derive(Deserialize)]
struct HealthHead {
    leader: Option<u64>,
}

async fn connect(port: u16) -> Option<TcpStream> {
    timeout(CONNECT_LIMIT, TcpStream::connect((Ipv4Addr::LOCALHOST, port))).await.ok()?.ok()
}

/// Sends one request on a connection of its own, which lives as long as the body of the response.
async fn exchange(
    port: u16,
    stream: TcpStream,
    request: hyper::http::request::Builder,
    body: Bytes,
) -> Option<Response<Incoming>> {
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    let host = SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string();
    let request = request.header(header::HOST, host).body(Full::new(body)).ok()?;
    sender.send_request(request).await.ok()
}

/// On one machine a connection is made at once, even by a process that is paused.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// Events that wait for a viewer: a few of each server.
const QUEUE_MAX: usize = 32;
/// Longer than a transfer takes by default.
const ANSWER_LIMIT: Duration = Duration::from_secs(6);
/// The largest answers are pages of nodes.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Far more than a snapshot or 50 elections.
const EVENT_BYTES_MAX: usize = 4 << 20;
/// A server sends something every second, unless it is paused.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Pause before a server that is down is tried again.
const RETRY: Duration = Duration::from_millis(300);
/// At most this often is the state of `pole up` sent.
const BOARD_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn elections_come_from_the_leader_only() {
        let mut elections = Elections::default();
        let old = event("event: elections\ndata: [1]\n\n");
        let new = event("event: elections\ndata: [2]\n\n");
        let follows = event("event: snapshot\ndata: {\"health\":{\"id\":2,\"leader\":1}}\n\n");
        let leads = event("event: snapshot\ndata: {\"health\":{\"id\":2,\"leader\":2}}\n\n");
        assert!(elections.sort_out(2, event("event: capabilities\ndata: {}\n\n")).is_empty());
        assert!(elections.sort_out(2, old).is_empty());
        assert_eq!(elections.sort_out(2, follows.clone()), [follows]);
        assert!(elections.sort_out(2, new.clone()).is_empty());
        assert_eq!(elections.sort_out(2, leads.clone()), [new, leads.clone()]);
        assert_eq!(elections.sort_out(2, leads.clone()), [leads]);
    }
}
