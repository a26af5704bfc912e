//! `etcd://[user:password@]host:2379[,host…]/PATH`, `etcds://` with TLS: etcd 3.4 or later through its JSON gateway.
//!
//! ```text
//! PATH/leader, PATH/succession     keys without a lease
//! PATH/candidates/<lease id>       keys with an etcd lease, whose id is a digest of ours
//! ```
//!
//! A swap is one transaction that compares the mod revision of the record and the creation revisions of the candidates.
//! etcd's leader judges leases by a monotonic clock. A key with a lease is deleted by a replicated write, so all members
//! agree on its end, and a keep-alive of an expired lease is refused even if its deletion is still under way.
//!
//! The gateway is used instead of gRPC because the gRPC clients need `protoc` to build. It listens on the same port. If
//! etcd requires both users and client certificates, it refuses a client certificate with a common name there.
//!
//! Options: `cacert`, `cert`, `key` (else `ETCDCTL_CACERT`, `ETCDCTL_CERT`, `ETCDCTL_KEY`); user and password else from
//! `ETCDCTL_USER` (`user:password`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::Method;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::OpenError;
use super::adapter::Adapter;
use super::http::{Answer, Call, Client, Lines};
use super::tls::{TLS_OPTIONS, TlsFiles};
use crate::promises::{GoesBack, Judge, Promises};
use crate::store::{
    BoxFuture, Entry, Error, Granted, LIST_MAX, LeaseId, Leased, Renewed, Revision, Swap, Swapped, Target, Watch,
};
use crate::url::{InvalidUrl, StoreUrl};

/// Connects to etcd.
pub(super) async fn open(url: &StoreUrl) -> Result<EtcdStore, OpenError> {
    url.check_options(&TLS_OPTIONS)?;
    if url.path.is_empty() {
        return Err(InvalidUrl::Path { scheme: url.scheme.clone(), example: "etcd://host:2379/app/leader" }.into());
    }
    let files = TlsFiles::of(url, ["ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY"]);
    let tls = if url.scheme == "etcds" { Some(Arc::new(files.config()?)) } else { None };
    let login = login(url);
    let http = Client::new(url.addresses(2379), tls);
    // A member without a quorum answers instead of letting a watch wait in silence.
    let http = http.header("grpc-metadata-hasleader", "true", false)?;
    let path = format!("{}/", url.path);
    let store = EtcdStore { http, path, login, token: Mutex::default() };
    store.get(Target::Leader).await?;
    Ok(store)
}

fn login(url: &StoreUrl) -> Option<(String, String)> {
    let given = url.user.as_ref().map(|user| (user.clone(), url.password.clone().unwrap_or_default()));
    let variable = || {
        let login = std::env::var("ETCDCTL_USER").ok().filter(|login| !login.is_empty())?;
        let (user, password) = login.split_once(':').unwrap_or((&login, ""));
        Some((user.to_owned(), password.to_owned()))
    };
    given.or_else(variable)
}

/// An election in etcd.
pub(super) struct EtcdStore {
    http: Client,
    /// The path of the election with a slash at its end.
    path: String,
    login: Option<(String, String)>,
    /// The token for `login`, until etcd refuses it.
    token: Mutex<Option<HeaderValue>>,
}

impl EtcdStore {
    fn key(&self, target: Target) -> String {
        match target {
            Target::Leader | Target::Succession => format!("{}{target}", self.path),
            Target::Lease(lease) => format!("{}candidates/{lease}", self.path),
        }
    }

    /// Posts a request. Without a valid token nothing is executed, so this is repeated once with a new token.
    async fn post(&self, path: &str, body: &Value) -> Result<Value, Failed> {
        let mut answer = self.http.call(self.call(path, body).await?).await?;
        if answer.status == 401 && self.login.is_some() {
            self.forget_token();
            answer = self.http.call(self.call(path, body).await?).await?;
        }
        if answer.status == 200 { Ok(answer.json()?) } else { Err(failed(path, &answer)) }
    }

    async fn call<'a>(&self, path: &'a str, body: &Value) -> Result<Call<'a>, Error> {
        let mut call = Call::new(Method::POST, path).json(body);
        call.header = self.token().await?;
        Ok(call)
    }

    async fn token(&self) -> Result<Option<(HeaderName, HeaderValue)>, Error> {
        let Some((user, password)) = &self.login else { return Ok(None) };
        let known = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let token = match known {
            Some(token) => token,
            None => {
                let path = "/v3/auth/authenticate";
                let call = Call::new(Method::POST, path).json(&json!({ "name": user, "password": password }));
                let answer = self.http.call(call).await?;
                if answer.status != 200 {
                    return Err(failed(path, &answer).into());
                }
                let text = answer.json()?["token"].as_str().unwrap_or_default().to_owned();
                let mut token = HeaderValue::from_str(&text).map_err(Error::damaged)?;
                token.set_sensitive(true);
                *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token.clone());
                token
            }
        };
        Ok(Some((AUTHORIZATION, token)))
    }

    fn forget_token(&self) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The record, and the revision of the whole store at which it was read.
    async fn get(&self, target: Target) -> Result<(Option<Entry>, i64), Error> {
        let answer = self.post("/v3/kv/range", &json!({ "key": encode(&self.key(target)) })).await?;
        let entry = answer["kvs"].get(0).map(entry).transpose()?;
        Ok((entry, number(&answer["header"]["revision"])?))
    }
}

impl Adapter for EtcdStore {
    type Watch = EtcdWatch;

    fn promises(&self) -> Promises {
        Promises {
            store: "etcd",
            linearizable_reads: true,
            judge: Judge::StoreMonotonic,
            transactions: true,
            can_go_back: GoesBack::Restore,
            // One and a half election time-outs of etcd, whose default is 1 s. It grants more than was asked for.
            ttl_min: Duration::from_secs(2),
            ttl_max: TTL_MAX,
            early: Duration::ZERO,
            late_factor: 2,
            late: Duration::ZERO,
            note: "a restored backup brings old revisions and tokens back; after a change of etcd's leader all leases \
                   begin anew",
        }
    }

    async fn read(&self, target: Target) -> Result<Option<Entry>, Error> {
        Ok(self.get(target).await?.0)
    }

    async fn swap(&self, swap: Swap) -> Result<Swapped, Error> {
        let key = encode(&self.key(swap.record.into()));
        let revision = swap.expected.map_or(0, |revision| revision.0);
        // An absent key has the mod revision 0.
        let mut compare = vec![json!({
            "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string(),
        })];
        let mut ranges = vec![json!({ "request_range": { "key": key, "keys_only": true } })];
        let leases = [(swap.gone, "EQUAL"), (swap.alive, "GREATER")];
        for (lease, result) in leases.iter().filter_map(|(lease, result)| lease.map(|lease| (lease, result))) {
            let key = encode(&self.key(Target::Lease(lease)));
            compare.push(json!({ "key": key, "target": "CREATE", "result": result, "create_revision": "0" }));
            ranges.push(json!({ "request_range": { "key": key, "keys_only": true } }));
        }
        let put = json!({ "request_put": { "key": key, "value": STANDARD.encode(&swap.value) } });
        let answer =
            self.post("/v3/kv/txn", &json!({ "compare": compare, "success": [put], "failure": ranges })).await?;
        let header = number(&answer["header"]["revision"])?;
        if answer["succeeded"].as_bool() == Some(true) {
            return Ok(Swapped::Done(Revision(header.unsigned_abs().into())));
        }
        let found = |index: usize| answer["responses"][index]["response_range"]["kvs"].get(0);
        let present = found(0).map(|kv| number(&kv["mod_revision"])).transpose()?.unwrap_or(0);
        if u128::from(present.unsigned_abs()) != revision {
            return Ok(Swapped::Conflict);
        }
        if swap.gone.is_some() && found(1).is_some() {
            return Ok(Swapped::StillHeld);
        }
        Ok(Swapped::LeaseGone)
    }

    async fn publish(&self, lease: LeaseId, record: Bytes, ttl: Duration) -> Result<Granted, Error> {
        let seconds = ttl.as_nanos().div_ceil(1_000_000_000).clamp(1, u128::from(TTL_MAX.as_secs()));
        let grant = json!({ "ID": etcd_id(lease).to_string(), "TTL": seconds.to_string() });
        let granted = self.post("/v3/lease/grant", &grant).await?;
        let key = encode(&self.key(Target::Lease(lease)));
        let put = json!({
            "key": key, "value": STANDARD.encode(&record), "lease": etcd_id(lease).to_string(),
        });
        self.post("/v3/kv/put", &put).await?;
        Ok(Granted { ttl: Duration::from_secs(number(&granted["TTL"])?.unsigned_abs()) })
    }

    async fn renew(&self, lease: LeaseId, record: Option<Bytes>) -> Result<Renewed, Error> {
        let id = etcd_id(lease).to_string();
        let answer = self.post("/v3/lease/keepalive", &json!({ "ID": id })).await?;
        if !answer["error"].is_null() {
            return Err(Error::unavailable(format!("keep-alive: {}", answer["error"])));
        }
        // A lease that is gone is answered with no time-to-live.
        if answer["result"]["TTL"].is_null() || number(&answer["result"]["TTL"])? <= 0 {
            return Ok(Renewed::Gone);
        }
        let Some(record) = record else { return Ok(Renewed::Extended) };
        let put =
            json!({ "key": encode(&self.key(Target::Lease(lease))), "value": STANDARD.encode(&record), "lease": id });
        match self.post("/v3/kv/put", &put).await {
            Ok(_) => Ok(Renewed::Extended),
            Err(Failed::NotFound(_)) => Ok(Renewed::Gone),
            Err(Failed::Other(error)) => Err(error),
        }
    }

    async fn withdraw(&self, lease: LeaseId) -> Result<(), Error> {
        match self.post("/v3/lease/revoke", &json!({ "ID": etcd_id(lease).to_string() })).await {
            Ok(_) | Err(Failed::NotFound(_)) => Ok(()),
            Err(Failed::Other(error)) => Err(error),
        }
    }

    /// Pages of one revision, so that the list is what the store had at one time.
    async fn list(&self) -> Result<Vec<Leased>, Error> {
        let prefix = format!("{}candidates/", self.path);
        let end = encode(&format!("{}candidates0", self.path));
        let (mut from, mut revision, mut listed) = (prefix.clone(), 0, Vec::new());
        while listed.len() < LIST_MAX {
            let range = json!({
                "key": encode(&from), "range_end": end, "limit": PAGE.to_string(), "revision": revision.to_string(),
            });
            let answer = self.post("/v3/kv/range", &range).await?;
            if revision == 0 {
                revision = number(&answer["header"]["revision"])?;
            }
            for kv in answer["kvs"].as_array().map_or(&[][..], Vec::as_slice) {
                let key = String::from_utf8(decode(&kv["key"])?).map_err(Error::damaged)?;
                let name = key.strip_prefix(&prefix).ok_or_else(|| Error::damaged("a key outside of its range"))?;
                listed.push(Leased { lease: name.parse()?, value: entry(kv)?.value });
                from = format!("{key}\0");
            }
            if answer["more"].as_bool() != Some(true) {
                break;
            }
        }
        Ok(listed)
    }

    async fn watch(self: &Arc<Self>, target: Target) -> Result<EtcdWatch, Error> {
        Ok(EtcdWatch { store: self.clone(), target, state: State::New })
    }
}

pub(super) struct EtcdWatch {
    store: Arc<EtcdStore>,
    target: Target,
    state: State,
}

enum State {
    New,
    /// The present state was told; events follow from this revision on.
    Read {
        from: i64,
        last: Option<Entry>,
    },
    Streaming {
        lines: Lines,
        last: Option<Entry>,
    },
}

impl Watch for EtcdWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Entry>, Error>> {
        Box::pin(async move {
            loop {
                match &mut self.state {
                    State::New => {
                        let (entry, revision) = self.store.get(self.target).await?;
                        self.state = State::Read { from: revision + 1, last: entry.clone() };
                        return Ok(entry);
                    }
                    State::Read { from, last } => {
                        let lines = begin(&self.store, self.target, *from).await?;
                        self.state = State::Streaming { lines, last: last.take() };
                    }
                    State::Streaming { lines, last } => {
                        let line = lines.next().await?;
                        let line = line.ok_or_else(|| Error::unavailable("etcd has ended the watch"))?;
                        let Some(entry) = last_event(&line)? else { continue };
                        if entry != *last {
                            last.clone_from(&entry);
                            return Ok(entry);
                        }
                    }
                }
            }
        })
    }
}

/// Opens the stream of events. If the revisions since `from` are compacted, etcd ends it at once; the next watch reads
/// the present state first.
async fn begin(store: &EtcdStore, target: Target, from: i64) -> Result<Lines, Error> {
    let create = json!({ "create_request": {
        "key": encode(&store.key(target)), "start_revision": from.to_string(),
    } });
    let call = store.call("/v3/watch", &create).await?;
    match store.http.stream(call).await? {
        Ok(lines) => Ok(lines),
        Err(answer) => {
            if answer.status == 401 {
                store.forget_token();
            }
            Err(failed("/v3/watch", &answer).into())
        }
    }
}

/// The state after the last event of a message, if it has one.
fn last_event(line: &[u8]) -> Result<Option<Option<Entry>>, Error> {
    let message: Value = serde_json::from_slice(line).map_err(Error::damaged)?;
    if !message["error"].is_null() || message["result"]["canceled"].as_bool() == Some(true) {
        return Err(Error::unavailable(format!("etcd has ended the watch: {message}")));
    }
    let Some(event) = message["result"]["events"].as_array().and_then(|events| events.last()) else { return Ok(None) };
    match event["type"].as_str() {
        Some("DELETE") => Ok(Some(None)),
        _ => entry(&event["kv"]).map(|entry| Some(Some(entry))),
    }
}

fn entry(kv: &Value) -> Result<Entry, Error> {
    let revision = Revision(number(&kv["mod_revision"])?.unsigned_abs().into());
    Ok(Entry { value: decode(&kv["value"])?.into(), revision })
}

/// etcd's leases are named by 63 bits: a digest of our id (the last step of SplitMix64), whose halves are not both random.
fn etcd_id(lease: LeaseId) -> i64 {
    let mut bits = ((lease.0 >> 64) as u64) ^ (lease.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    (bits & (i64::MAX as u64)).max(1).cast_signed()
}

fn encode(key: &str) -> String {
    STANDARD.encode(key)
}

fn decode(value: &Value) -> Result<Vec<u8>, Error> {
    STANDARD.decode(value.as_str().unwrap_or_default()).map_err(Error::damaged)
}

/// The gateway writes 64-bit numbers as text.
fn number(value: &Value) -> Result<i64, Error> {
    let number = value.as_str().and_then(|text| text.parse().ok()).or_else(|| value.as_i64());
    number.ok_or_else(|| Error::damaged(format!("etcd's answer lacks a number, got {value}")))
}

/// Why a request failed; a lease that does not exist is told apart.
enum Failed {
    NotFound(Error),
    Other(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::NotFound(error) | Failed::Other(error) => error,
        }
    }
}

fn failed(path: &str, answer: &Answer) -> Failed {
    let error = answer.error(path);
    if answer.status == 404 { Failed::NotFound(error) } else { Failed::Other(error) }
}

/// The longest lease of etcd is 9,000,000,000 s; a day is enough.
const TTL_MAX: Duration = Duration::from_secs(86_400);

/// The candidates in one page of a list.
const PAGE: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_of_different_candidates_have_different_ids() {
        let id = |incarnation: u128, counter: u128| etcd_id(LeaseId((incarnation << 64) | counter));
        let ids = std::collections::BTreeSet::from_iter((1..100).flat_map(|a| (0..100).map(move |b| id(a, b))));
        assert_eq!(ids.len(), 9900);
        assert!(ids.iter().all(|id| *id > 0));
    }

    #[test]
    fn events_are_understood() {
        let put = br#"{"result":{"header":{},"events":[{"kv":{"key":"aw==","mod_revision":"7","value":"eA=="}}]}}"#;
        let entry = Entry { value: Bytes::from_static(b"x"), revision: Revision(7) };
        assert_eq!(last_event(put), Ok(Some(Some(entry))));
        let delete = br#"{"result":{"events":[{"type":"DELETE","kv":{"key":"aw==","mod_revision":"8"}}]}}"#;
        assert_eq!(last_event(delete), Ok(Some(None)));
        assert_eq!(last_event(br#"{"result":{"created":true}}"#), Ok(None));
        assert!(last_event(br#"{"result":{"canceled":true,"compact_revision":"9"}}"#).is_err());
    }
}
