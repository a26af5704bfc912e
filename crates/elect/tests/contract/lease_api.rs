//! A small server with the documented behaviour of Lease objects, where no `kube-apiserver` is found.
//!
//! It has what the adapter uses: get, list (by label or name, in pages), watch from a resource version, create, update
//! under a resource version, delete under preconditions. One counter gives resource versions to all changes, an update
//! without a change has no effect, and a failed condition is a conflict, as the API conventions of Kubernetes say. It is
//! not Kubernetes: what it does not imitate, it does not test.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

/// A running server on loopback. It ends with this value.
pub(crate) struct LeaseApi {
    pub(crate) port: u16,
    _running: oneshot::Sender<()>,
}

impl LeaseApi {
    /// Starts the server in a thread of its own: one of the cases stops the thread of the test.
    pub(crate) fn start() -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        listener.set_nonblocking(true).expect("a socket");
        let (running, ended) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener) => {}
                    _ = ended => {}
                }
            });
        });
        Self { port, _running: running }
    }
}

async fn accept(listener: std::net::TcpListener) {
    let listener = TcpListener::from_std(listener).expect("a socket");
    let leases = Arc::new(Leases { state: Mutex::default(), changed: watch::channel(0).0 });
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(leases.clone(), stream));
    }
}

struct Leases {
    state: Mutex<State>,
    /// The last resource version.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<String, Value>,
    /// Every change: its version, type and object.
    history: Vec<(u64, &'static str, Value)>,
}

impl State {
    fn change(&mut self, kind: &'static str, name: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if kind == "DELETED" {
            self.objects.remove(name);
        } else {
            self.objects.insert(name.to_owned(), object.clone());
        }
        self.history.push((self.version, kind, object.clone()));
        object
    }
}

struct Request {
    method: String,
    name: String,
    query: BTreeMap<String, String>,
    body: Value,
}

/// Answers the requests of one connection, one after the other.
async fn serve(leases: Arc<Leases>, stream: TcpStream) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let request = read(&mut stream).await?;
        if request.query.get("watch").is_some_and(|watch| watch == "true") {
            return stream_changes(&leases, &request, stream).await;
        }
        let (status, body) = answer(&leases, &request);
        let body = body.to_string();
        let head =
            format!("HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.ok()?;
        stream.write_all(body.as_bytes()).await.ok()?;
        stream.flush().await.ok()?;
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    if stream.read_line(&mut line).await.ok()? == 0 {
        return None;
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut length = 0;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await.ok()?;
        match header.trim_end().to_ascii_lowercase().split_once(':') {
            None => break,
            Some(("content-length", value)) => length = value.trim().parse().ok()?,
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let name = path.split_once("/leases")?.1.trim_start_matches('/').to_owned();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.map(|(key, value)| (key.to_owned(), decode(value))).collect();
    Some(Request { method, name, query, body: serde_json::from_slice(&body).unwrap_or(Value::Null) })
}

fn decode(text: &str) -> String {
    text.replace("%3D", "=").replace("%2F", "/")
}

fn answer(leases: &Leases, request: &Request) -> (u16, Value) {
    let mut state = leases.state.lock().unwrap_or_else(PoisonError::into_inner);
    let state = &mut *state;
    let failure =
        |status: u16, reason: &str| (status, json!({ "kind": "Status", "status": "Failure", "reason": reason }));
    let done = match (request.method.as_str(), request.name.as_str()) {
        ("GET", "") => return (200, list(state, request)),
        ("GET", name) => {
            return state.objects.get(name).map_or_else(|| failure(404, "NotFound"), |object| (200, object.clone()));
        }
        ("POST", "") => {
            let name = request.body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            if state.objects.contains_key(&name) {
                return failure(409, "AlreadyExists");
            }
            let mut object = request.body.clone();
            object["metadata"]["uid"] = json!(format!("uid-{}", state.version));
            (201, state.change("ADDED", &name, object))
        }
        ("PUT", name) => {
            let Some(present) = state.objects.get(name) else { return failure(404, "NotFound") };
            if ["uid", "resourceVersion"].iter().any(|field| differs(&request.body["metadata"], present, field)) {
                return failure(409, "Conflict");
            }
            if request.body == *present {
                return (200, present.clone());
            }
            (200, state.change("MODIFIED", name, request.body.clone()))
        }
        ("DELETE", name) => {
            let Some(present) = state.objects.get(name).cloned() else { return failure(404, "NotFound") };
            let conditions = &request.body["preconditions"];
            if ["uid", "resourceVersion"].iter().any(|field| differs(conditions, &present, field)) {
                return failure(409, "Conflict");
            }
            (200, state.change("DELETED", name, present))
        }
        _ => return failure(405, "MethodNotAllowed"),
    };
    leases.changed.send_replace(state.version);
    done
}

/// Whether a field is given and has another value in the metadata of an object.
fn differs(given: &Value, object: &Value, field: &str) -> bool {
    given[field].is_string() && given[field] != object["metadata"][field]
}

fn list(state: &State, request: &Request) -> Value {
    let limit = request.query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
    let after = request.query.get("continue").cloned().unwrap_or_default();
    let mut found = state.objects.iter().filter(|(name, object)| **name > after && is_selected(request, object));
    let items: Vec<(&String, &Value)> = found.by_ref().take(limit).collect();
    let next = found.next().and(items.last()).map(|(name, _)| (*name).clone()).unwrap_or_default();
    let items: Vec<&Value> = items.iter().map(|(_, object)| *object).collect();
    json!({ "metadata": { "resourceVersion": state.version.to_string(), "continue": next }, "items": items })
}

fn is_selected(request: &Request, object: &Value) -> bool {
    let metadata = &object["metadata"];
    let label = request.query.get("labelSelector").and_then(|selector| selector.split_once('='));
    let field = request.query.get("fieldSelector").and_then(|selector| selector.strip_prefix("metadata.name="));
    label.is_none_or(|(label, value)| metadata["labels"][label] == value)
        && field.is_none_or(|name| metadata["name"] == name)
}

/// One chunk for each change, until the client closes the connection.
async fn stream_changes(leases: &Leases, request: &Request, mut stream: BufReader<TcpStream>) -> Option<()> {
    let mut from: u64 = request.query.get("resourceVersion")?.parse().ok()?;
    let mut changed = leases.changed.subscribe();
    stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.ok()?;
    stream.flush().await.ok()?;
    loop {
        let lines: Vec<String> = {
            let state = leases.state.lock().unwrap_or_else(PoisonError::into_inner);
            let start = state.history.partition_point(|(version, ..)| *version <= from);
            from = state.version;
            let new = state.history[start..].iter().filter(|(_, _, object)| is_selected(request, object));
            new.map(|(_, kind, object)| format!("{}\n", json!({ "type": kind, "object": object }))).collect()
        };
        for line in lines {
            stream.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes()).await.ok()?;
        }
        stream.flush().await.ok()?;
        tokio::select! {
            news = changed.changed() => news.ok()?,
            // The client sends nothing more, so this is its end.
            _ = stream.fill_buf() => return None,
        }
    }
}
