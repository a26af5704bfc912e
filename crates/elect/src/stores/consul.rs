//! `consul://[:token@]host[:8500][,host…]/PATH`, `consuls://` with TLS: Consul 1.7 or later.
//!
//! ```text
//! PATH/leader, PATH/succession     keys, changed by compare-and-set on their modify index
//! PATH/candidates/<lease id>       keys held by a session with the behaviour `delete`
//! ```
//!
//! A swap is one transaction. A lease is a session without health checks, so only its time-to-live ends it, not the
//! state of an agent. Consul's leader judges it: not earlier than the time-to-live, at most twice as late. Its lock
//! delay (15 s by default) does not matter here: it delays another session that wants to hold the *same* key, and a
//! candidate's key is held by one session only. We ask for none.
//!
//! The time-to-live is at least 10 s, or the `session_ttl_min` of the servers if that was changed; then the URL says so.
//!
//! Options: `ttl_min` (seconds, default 10), `cacert`, `cert`, `key` (else `CONSUL_CACERT`, `CONSUL_CLIENT_CERT`,
//! `CONSUL_CLIENT_KEY`), `token_file` (else `CONSUL_HTTP_TOKEN_FILE`, `CONSUL_HTTP_TOKEN`).

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};

use super::OpenError;
use super::adapter::Adapter;
use super::http::{Answer, Call, Client, encode_path};
use super::own::OwnLeases;
use super::tls::{TlsFiles, setting};
use crate::promises::{GoesBack, Judge, Promises};
use crate::store::{
    BoxFuture, Entry, Error, Granted, LIST_MAX, LeaseId, Leased, Renewed, Revision, Swap, Swapped, Target, Watch,
};
use crate::url::{InvalidUrl, StoreUrl};

/// Connects to Consul.
pub(super) async fn open(url: &StoreUrl) -> Result<ConsulStore, OpenError> {
    url.check_options(&["cacert", "cert", "key", "token_file", "ttl_min"])?;
    if url.path.is_empty() {
        return Err(InvalidUrl::Path { scheme: url.scheme.clone(), example: "consul://host:8500/app/leader" }.into());
    }
    let ttl_min = match url.option("ttl_min") {
        None => 10,
        Some(text) => text.parse().ok().filter(|seconds| (1..=3600).contains(seconds)).ok_or_else(|| {
            InvalidUrl::Value { key: "ttl_min", expected: "seconds, 1 to 3600", got: text.to_owned() }
        })?,
    };
    let files = TlsFiles::of(url, ["CONSUL_CACERT", "CONSUL_CLIENT_CERT", "CONSUL_CLIENT_KEY"]);
    let tls = if url.scheme == "consuls" { Some(Arc::new(files.config()?)) } else { None };
    let mut http = Client::new(url.addresses(8500), tls);
    if let Some(token) = token(url)? {
        http = http.header("x-consul-token", &token, true)?;
    }
    let store = ConsulStore {
        http,
        path: url.path.clone(),
        ttl_min: Duration::from_secs(ttl_min),
        sessions: OwnLeases::default(),
    };
    store.get(Target::Leader, None).await?;
    Ok(store)
}

fn token(url: &StoreUrl) -> Result<Option<String>, Error> {
    if let Some(token) = &url.password {
        return Ok(Some(token.clone()));
    }
    if let Some(file) = setting(url, "token_file", "CONSUL_HTTP_TOKEN_FILE") {
        let token = std::fs::read_to_string(&file).map_err(|why| Error::refused(format!("{file}: {why}")))?;
        return Ok(Some(token.trim().to_owned()));
    }
    Ok(std::env::var("CONSUL_HTTP_TOKEN").ok().filter(|token| !token.is_empty()))
}

/// An election in Consul.
pub(super) struct ConsulStore {
    http: Client,
    path: String,
    ttl_min: Duration,
    /// The sessions of the own leases.
    sessions: OwnLeases<String>,
}

impl ConsulStore {
    fn key(&self, target: Target) -> String {
        match target {
            Target::Leader | Target::Succession => format!("{}/{target}", self.path),
            Target::Lease(lease) => format!("{}/candidates/{lease}", self.path),
        }
    }

    fn url(&self, target: Target, query: &str) -> String {
        format!("/v1/kv/{}?{query}", encode_path(&self.key(target)))
    }

    /// The record and Consul's index. With an index, waits until the record may have changed since then.
    async fn get(&self, target: Target, since: Option<u64>) -> Result<(Option<Entry>, u64), Error> {
        let wait = since.map_or(String::new(), |index| format!("&index={index}&wait={WAIT_SECONDS}s"));
        let path = self.url(target, &format!("consistent{wait}"));
        let answer = self.http.call(Call::new(Method::GET, &path)).await?;
        let index = answer.headers.get("x-consul-index").and_then(|index| index.to_str().ok()?.parse().ok());
        let entry = match answer.status {
            200 => answer.json()?.get(0).map(entry).transpose()?,
            404 => None,
            _ => return Err(answer.error("Consul")),
        };
        Ok((entry, index.unwrap_or(0)))
    }

    /// Writes the record of a candidate as its session.
    async fn acquire(&self, lease: LeaseId, session: &str, record: Bytes) -> Result<bool, Error> {
        let path = self.url(Target::Lease(lease), &format!("acquire={session}"));
        let mut call = Call::new(Method::PUT, &path);
        call.body = record;
        let answer = self.http.call(call).await?;
        match answer.status {
            200 => Ok(answer.text() == "true"),
            _ if is_invalid_session(&answer) => Ok(false),
            _ => Err(answer.error("Consul")),
        }
    }
}

impl Adapter for ConsulStore {
    type Watch = ConsulWatch;

    fn promises(&self) -> Promises {
        Promises {
            store: "consul",
            linearizable_reads: true,
            judge: Judge::StoreMonotonic,
            transactions: true,
            can_go_back: GoesBack::Restore,
            ttl_min: self.ttl_min,
            ttl_max: TTL_MAX,
            early: Duration::ZERO,
            late_factor: 2,
            late: Duration::ZERO,
            note: "Consul ends an abandoned lease after up to twice its time-to-live, which is at least 10 s",
        }
    }

    async fn read(&self, target: Target) -> Result<Option<Entry>, Error> {
        Ok(self.get(target, None).await?.0)
    }

    async fn swap(&self, swap: Swap) -> Result<Swapped, Error> {
        let index = swap.expected.map_or(0, |revision| revision.0);
        let index = u64::try_from(index).map_err(|_| Error::damaged("a revision that is not Consul's"))?;
        let key = self.key(swap.record.into());
        let mut operations = vec![json!({ "KV": {
            "Verb": "cas", "Key": key, "Value": STANDARD.encode(&swap.value), "Index": index,
        } })];
        let mut meanings = vec![Swapped::Conflict];
        if let Some(lease) = swap.gone {
            operations.push(json!({ "KV": { "Verb": "check-not-exists", "Key": self.key(Target::Lease(lease)) } }));
            meanings.push(Swapped::StillHeld);
        }
        if let Some(lease) = swap.alive {
            operations.push(json!({ "KV": { "Verb": "get", "Key": self.key(Target::Lease(lease)) } }));
            meanings.push(Swapped::LeaseGone);
        }
        let answer = self.http.call(Call::new(Method::PUT, "/v1/txn").json(&Value::Array(operations))).await?;
        match answer.status {
            200 => {
                let index = answer.json()?["Results"][0]["KV"]["ModifyIndex"].as_u64();
                let index = index.ok_or_else(|| Error::damaged("a transaction of Consul without its index"))?;
                Ok(Swapped::Done(Revision(index.into())))
            }
            409 => {
                let answer = answer.json()?;
                let failed = answer["Errors"].as_array().map_or(&[][..], Vec::as_slice);
                let first = failed.iter().filter_map(|error| error["OpIndex"].as_u64()).min();
                let meaning = first.and_then(|first| meanings.get(usize::try_from(first).ok()?)).copied();
                meaning.ok_or_else(|| Error::unavailable(format!("Consul: {}", answer["Errors"])))
            }
            _ => Err(answer.error("Consul")),
        }
    }

    async fn publish(&self, lease: LeaseId, record: Bytes, ttl: Duration) -> Result<Granted, Error> {
        let seconds = ttl.clamp(self.ttl_min, TTL_MAX).as_nanos().div_ceil(1_000_000_000);
        let ttl = Duration::from_secs(seconds.try_into().unwrap_or(u64::MAX));
        let session = json!({
            "Name": "pole-elect", "TTL": format!("{seconds}s"), "Behavior": "delete", "LockDelay": "0s",
            "NodeChecks": [], "Checks": [],
        });
        let answer = self.http.call(Call::new(Method::PUT, "/v1/session/create").json(&session)).await?;
        let created = if answer.status == 200 { answer.json()? } else { return Err(answer.error("Consul")) };
        let session = created["ID"].as_str().ok_or_else(|| Error::damaged("a session of Consul without an id"))?;
        self.sessions.insert(lease, ttl, session.to_owned());
        if !self.acquire(lease, session, record).await? {
            return Err(Error::unavailable("Consul: the new session does not get its key"));
        }
        Ok(Granted { ttl })
    }

    async fn renew(&self, lease: LeaseId, record: Option<Bytes>) -> Result<Renewed, Error> {
        let Some(session) = self.sessions.get(lease) else { return Ok(Renewed::Gone) };
        let path = format!("/v1/session/renew/{session}");
        let answer = self.http.call(Call::new(Method::PUT, &path)).await?;
        let alive = match answer.status {
            200 => match record {
                None => true,
                Some(record) => self.acquire(lease, &session, record).await?,
            },
            404 => false,
            _ => return Err(answer.error("Consul")),
        };
        if alive {
            self.sessions.renewed(lease, session);
            return Ok(Renewed::Extended);
        }
        self.sessions.remove(lease);
        Ok(Renewed::Gone)
    }

    /// Destroys the session, which deletes its key. The entry is kept until Consul has answered, for another attempt.
    async fn withdraw(&self, lease: LeaseId) -> Result<(), Error> {
        let Some(session) = self.sessions.get(lease) else { return Ok(()) };
        let path = format!("/v1/session/destroy/{session}");
        let answer = self.http.call(Call::new(Method::PUT, &path)).await?;
        if answer.status != 200 {
            return Err(answer.error("Consul"));
        }
        self.sessions.remove(lease);
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Leased>, Error> {
        let prefix = format!("{}/candidates/", self.path);
        let path = format!("/v1/kv/{}?recurse&consistent", encode_path(&prefix));
        let answer = self.http.call(Call::new(Method::GET, &path)).await?;
        let pairs = match answer.status {
            200 => answer.json()?,
            404 => return Ok(Vec::new()),
            _ => return Err(answer.error("Consul")),
        };
        let pairs = pairs.as_array().map_or(&[][..], Vec::as_slice);
        let leased = |pair: &Value| {
            let name = pair["Key"].as_str().and_then(|key| key.strip_prefix(&prefix)).unwrap_or_default();
            Ok(Leased { lease: name.parse()?, value: entry(pair)?.value })
        };
        pairs.iter().take(LIST_MAX).map(leased).collect()
    }

    async fn watch(self: &Arc<Self>, target: Target) -> Result<ConsulWatch, Error> {
        Ok(ConsulWatch { store: self.clone(), target, index: None, last: None })
    }
}

/// Blocking queries: each waits for an index after the last one.
pub(super) struct ConsulWatch {
    store: Arc<ConsulStore>,
    target: Target,
    index: Option<u64>,
    last: Option<Option<Entry>>,
}

impl Watch for ConsulWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Entry>, Error>> {
        Box::pin(async move {
            loop {
                let (entry, index) = self.store.get(self.target, self.index).await?;
                // An index that goes back, or none, must not be waited for.
                self.index = Some(index).filter(|index| *index > 0 && *index >= self.index.unwrap_or(0));
                if self.last.as_ref() != Some(&entry) {
                    self.last = Some(entry.clone());
                    return Ok(entry);
                }
            }
        })
    }
}

fn entry(pair: &Value) -> Result<Entry, Error> {
    let value = STANDARD.decode(pair["Value"].as_str().unwrap_or_default()).map_err(Error::damaged)?;
    let index = pair["ModifyIndex"].as_u64().ok_or_else(|| Error::damaged("a key of Consul without its index"))?;
    Ok(Entry { value: value.into(), revision: Revision(index.into()) })
}

fn is_invalid_session(answer: &Answer) -> bool {
    answer.status == 500 && answer.text().contains("invalid session")
}

/// Consul's own limit is a day.
const TTL_MAX: Duration = Duration::from_secs(86_400);

/// How long a blocking query waits before it answers without a change.
const WAIT_SECONDS: u32 = 55;
