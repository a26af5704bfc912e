//! `k8s://NAMESPACE/NAME`: Lease objects (`coordination.k8s.io/v1`) of Kubernetes.
//!
//! ```text
//! NAME-leader, NAME-succession     a Lease each, used as a record only
//! NAME-<lease id>                  a Lease for each candidate
//! ```
//!
//! The content of a record is an annotation. Compare-and-swap is an update under the resource version.
//!
//! Kubernetes does not end a Lease: clients judge. An adapter counts, by its own clock, how long it has seen a Lease
//! under the same resource version. After the whole duration it deletes the Lease *under that version*, and only then
//! reports it as gone. Either the deletion or a renewal of the holder succeeds, so no clocks are compared, and the time in
//! `renewTime` is for people only. A client that sees a Lease for the first time waits for the whole duration.
//!
//! The address of the API server is the option `server`, else that of the pod (`KUBERNETES_SERVICE_HOST`,
//! `KUBERNETES_SERVICE_PORT`). The options `token_file`, `cacert`, `cert` and `key` are files; token and CA are those of
//! the service account if there are no others. It needs the verbs get, list, watch, create, update and delete on leases.
//! A kubeconfig is not read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::Method;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::time::{Instant, sleep_until};

use super::OpenError;
use super::adapter::Adapter;
use super::http::{Answer, Call, Client, Lines, encode_query};
use super::own::OwnLeases;
use super::tls::TlsFiles;
use crate::promises::{GoesBack, Judge, Promises};
use crate::store::{
    BoxFuture, Entry, Error, Granted, LIST_MAX, LeaseId, Leased, Renewed, Revision, Swap, Swapped, Target, Watch,
};
use crate::url::{InvalidUrl, StoreUrl};

/// Connects to the API server.
pub(super) async fn open(url: &StoreUrl) -> Result<KubernetesStore, OpenError> {
    url.check_options(&["server", "token_file", "cacert", "cert", "key"])?;
    let name = url.path.clone();
    let valid = |text: &str, max: usize| {
        let byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
        !text.is_empty() && text.len() <= max && text.bytes().all(byte)
    };
    let [namespace] = &url.hosts[..] else {
        return Err(InvalidUrl::Path { scheme: url.scheme.clone(), example: "k8s://namespace/name" }.into());
    };
    if !valid(&name, NAME_MAX) || !valid(&namespace.name, 63) {
        let text = format!("namespace and name have lower-case letters, digits, - and . only, at most {NAME_MAX}");
        return Err(Error::refused(format!("{text}, got {url}")).into());
    }
    let server = server(url)?;
    let (tls, address) = match server.split_once("://") {
        Some(("https", address)) => (true, address),
        Some(("http", address)) => (false, address),
        _ => return Err(wrong_server(&server).into()),
    };
    let address = address.trim_end_matches('/');
    if address.contains('/') {
        return Err(wrong_server(&server).into());
    }
    let port = if tls { 443 } else { 80 };
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let address = if has_port { address.to_owned() } else { format!("{address}:{port}") };
    let mut files = TlsFiles::of(url, ["", "", ""]);
    let in_pod = |file: &str| {
        let file = format!("{SERVICE_ACCOUNT}/{file}");
        Path::new(&file).is_file().then_some(file)
    };
    files.cacert = files.cacert.or_else(|| in_pod("ca.crt"));
    let tls = if tls { Some(Arc::new(files.config()?)) } else { None };
    let token_file = url.option("token_file").map(str::to_owned).or_else(|| in_pod("token"));
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", namespace.name);
    let http = Client::new(vec![address], tls);
    let store = KubernetesStore { http, path, name, token_file, own: OwnLeases::default(), seen: Mutex::default() };
    store.find(&store.object_name(Target::Leader)).await?;
    Ok(store)
}

fn server(url: &StoreUrl) -> Result<String, Error> {
    if let Some(server) = url.option("server") {
        return Ok(server.to_owned());
    }
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let host = variable("KUBERNETES_SERVICE_HOST").ok_or_else(|| {
        Error::refused("not in a pod of Kubernetes: give the API server as ?server=https://host:port")
    })?;
    let port = variable("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".to_owned());
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Ok(format!("https://{host}:{port}"))
}

fn wrong_server(server: &str) -> InvalidUrl {
    InvalidUrl::Value { key: "server", expected: "https://host:port", got: server.to_owned() }
}

/// An election in Kubernetes.
pub(super) struct KubernetesStore {
    http: Client,
    /// The path of the Leases of the namespace.
    path: String,
    name: String,
    /// Read for each request: Kubernetes replaces the token of a pod every hour.
    token_file: Option<String>,
    own: OwnLeases<Own>,
    /// Since when this client has seen each Lease of a candidate under its present version.
    seen: Mutex<BTreeMap<String, Seen>>,
}

/// An own Lease, as it was written last.
#[derive(Clone)]
struct Own {
    object: Value,
    renewals: u64,
}

#[derive(Clone, Copy)]
struct Seen {
    version: u64,
    since: Instant,
}

/// A Lease of a candidate, as this client judges it.
enum Judged {
    Alive { entry: Entry, until: Instant },
    Gone,
}

impl KubernetesStore {
    fn object_name(&self, target: Target) -> String {
        match target {
            Target::Leader | Target::Succession => format!("{}-{target}", self.name),
            Target::Lease(lease) => format!("{}-{lease}", self.name),
        }
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, Error> {
        let mut call = Call::new(method, path);
        if let Some(body) = body {
            call = call.json(body);
        }
        call.header = self.authorization()?;
        self.http.call(call).await
    }

    fn authorization(&self) -> Result<Option<(HeaderName, HeaderValue)>, Error> {
        let Some(file) = &self.token_file else { return Ok(None) };
        let failed = |why: &dyn std::fmt::Display| Error::refused(format!("{file}: {why}"));
        let token = std::fs::read_to_string(file).map_err(|why| failed(&why))?;
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim())).map_err(|why| failed(&why))?;
        value.set_sensitive(true);
        Ok(Some((AUTHORIZATION, value)))
    }

    async fn find(&self, name: &str) -> Result<Option<Value>, Error> {
        let answer = self.call(Method::GET, &format!("{}/{name}", self.path), None).await?;
        match answer.status {
            200 => answer.json().map(Some),
            404 => Ok(None),
            _ => Err(answer.error("Kubernetes")),
        }
    }

    /// Judges the Lease of a candidate: notes its version, or deletes it if it was seen for its whole duration.
    async fn judge(&self, mut object: Value) -> Result<Judged, Error> {
        loop {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let version = version(&object)?;
            let since = {
                let mut seen = self.seen();
                let known = seen.get(&name).copied().filter(|known| known.version == version);
                let known = known.unwrap_or_else(|| Seen { version, since: Instant::now() });
                seen.insert(name.clone(), known);
                known.since
            };
            let seconds = object["spec"]["leaseDurationSeconds"].as_u64();
            let seconds = seconds.ok_or_else(|| Error::damaged(format!("{name}: a Lease without a duration")))?;
            let until = since + Duration::from_secs(seconds.min(TTL_MAX.as_secs()));
            if Instant::now() < until {
                return Ok(Judged::Alive { entry: entry(&object)?, until });
            }
            let options = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {
                "uid": object["metadata"]["uid"], "resourceVersion": object["metadata"]["resourceVersion"],
            } });
            let answer = self.call(Method::DELETE, &format!("{}/{name}", self.path), Some(&options)).await?;
            match answer.status {
                200 | 202 | 404 => {
                    self.seen().remove(&name);
                    return Ok(Judged::Gone);
                }
                // Renewed in between.
                409 => match self.find(&name).await? {
                    Some(renewed) => object = renewed,
                    None => return Ok(Judged::Gone),
                },
                _ => return Err(answer.error("Kubernetes")),
            }
        }
    }

    /// The record and, for a lease, until when it is alive if it is not renewed.
    async fn get(&self, target: Target) -> Result<(Option<Entry>, Option<Instant>), Error> {
        let object = self.find(&self.object_name(target)).await?;
        self.state(target, object).await
    }

    async fn state(&self, target: Target, object: Option<Value>) -> Result<(Option<Entry>, Option<Instant>), Error> {
        let Some(object) = object else {
            self.seen().remove(&self.object_name(target));
            return Ok((None, None));
        };
        if !matches!(target, Target::Lease(_)) {
            return Ok((Some(entry(&object)?), None));
        }
        Ok(match self.judge(object).await? {
            Judged::Alive { entry, until } => (Some(entry), Some(until)),
            Judged::Gone => (None, None),
        })
    }

    fn object(&self, target: Target, value: &Bytes) -> Result<Value, Error> {
        let text = std::str::from_utf8(value).map_err(|_| Error::damaged("a record for Kubernetes must be UTF-8"))?;
        Ok(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": self.object_name(target),
                "labels": { LABEL: label(&self.name) },
                "annotations": { ANNOTATION: text },
            },
            "spec": {},
        }))
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Adapter for KubernetesStore {
    type Watch = KubernetesWatch;

    fn promises(&self) -> Promises {
        Promises {
            store: "k8s",
            linearizable_reads: true,
            judge: Judge::Clients,
            transactions: false,
            can_go_back: GoesBack::Restore,
            ttl_min: TTL_MIN,
            ttl_max: TTL_MAX,
            early: Duration::ZERO,
            late_factor: 2,
            late: Duration::ZERO,
            note: "each client judges leases by its own clock and waits for the whole time when it sees one for the first \
                   time; one object for each candidate",
        }
    }

    async fn read(&self, target: Target) -> Result<Option<Entry>, Error> {
        Ok(self.get(target).await?.0)
    }

    async fn swap(&self, swap: Swap) -> Result<Swapped, Error> {
        let target = swap.record.into();
        let present = self.find(&self.object_name(target)).await?;
        let revision = present.as_ref().map(version).transpose()?.map(|number| Revision(number.into()));
        if revision != swap.expected {
            return Ok(Swapped::Conflict);
        }
        // A Lease that is gone stays gone, so this may come before the change.
        if let Some(lease) = swap.gone
            && self.get(Target::Lease(lease)).await?.0.is_some()
        {
            return Ok(Swapped::StillHeld);
        }
        let mut object = self.object(target, &swap.value)?;
        let exists = present.is_some();
        let answer = match present {
            None => self.call(Method::POST, &self.path, Some(&object)).await?,
            Some(present) => {
                keep_identity(&mut object, &present);
                let path = format!("{}/{}", self.path, self.object_name(target));
                self.call(Method::PUT, &path, Some(&object)).await?
            }
        };
        match answer.status {
            200 | 201 => Ok(Swapped::Done(Revision(version(&answer.json()?)?.into()))),
            // Another version, created or deleted in between. A creation that finds nothing has no namespace.
            409 => Ok(Swapped::Conflict),
            404 if exists => Ok(Swapped::Conflict),
            404 => Err(Error::refused(format!("Kubernetes: {}", answer.text()))),
            _ => Err(answer.error("Kubernetes")),
        }
    }

    async fn publish(&self, lease: LeaseId, record: Bytes, ttl: Duration) -> Result<Granted, Error> {
        let seconds = ttl.clamp(TTL_MIN, TTL_MAX).as_nanos().div_ceil(1_000_000_000);
        let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
        let ttl = Duration::from_secs(seconds);
        let mut object = self.object(Target::Lease(lease), &record)?;
        let now = rfc3339(SystemTime::now());
        object["spec"] = json!({
            "holderIdentity": lease.to_string(), "leaseDurationSeconds": seconds, "acquireTime": now, "renewTime": now,
        });
        // Known before the answer: a renewal finds out about the version.
        self.own.insert(lease, ttl, Own { object: object.clone(), renewals: 0 });
        let answer = self.call(Method::POST, &self.path, Some(&object)).await?;
        if answer.status != 201 {
            return Err(answer.error("Kubernetes"));
        }
        let created = answer.json()?;
        keep_identity(&mut object, &created);
        self.own.insert(lease, ttl, Own { object, renewals: 0 });
        Ok(Granted { ttl })
    }

    async fn renew(&self, lease: LeaseId, record: Option<Bytes>) -> Result<Renewed, Error> {
        let name = self.object_name(Target::Lease(lease));
        let Some(mut own) = self.own.get(lease) else { return Ok(Renewed::Gone) };
        if let Some(record) = &record {
            own.object["metadata"]["annotations"][ANNOTATION] = json!(String::from_utf8_lossy(record));
        }
        own.renewals += 1;
        // An update without a change has no effect in Kubernetes, so each renewal has a number.
        own.object["metadata"]["annotations"][RENEWALS] = json!(own.renewals.to_string());
        own.object["spec"]["renewTime"] = json!(rfc3339(SystemTime::now()));
        for _ in 0..2 {
            if own.object["metadata"]["resourceVersion"].is_string() {
                let answer = self.call(Method::PUT, &format!("{}/{name}", self.path), Some(&own.object)).await?;
                match answer.status {
                    200 => {
                        keep_identity(&mut own.object, &answer.json()?);
                        self.own.renewed(lease, own);
                        return Ok(Renewed::Extended);
                    }
                    // Deleted, or an earlier renewal was written but not answered.
                    404 | 409 => {}
                    _ => return Err(answer.error("Kubernetes")),
                }
            }
            // Only its owner writes to the Lease of a candidate.
            match self.find(&name).await? {
                Some(present) => keep_identity(&mut own.object, &present),
                None => {
                    self.own.remove(lease);
                    return Ok(Renewed::Gone);
                }
            }
        }
        Err(Error::unavailable(format!("Kubernetes: {name} changes while it is renewed")))
    }

    async fn withdraw(&self, lease: LeaseId) -> Result<(), Error> {
        let name = self.object_name(Target::Lease(lease));
        let answer = self.call(Method::DELETE, &format!("{}/{name}", self.path), None).await?;
        if !matches!(answer.status, 200 | 202 | 404) {
            return Err(answer.error("Kubernetes"));
        }
        self.own.remove(lease);
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Leased>, Error> {
        let selector = encode_query(&format!("{LABEL}={}", label(&self.name)));
        let prefix = format!("{}-", self.name);
        let (mut listed, mut seen, mut from) = (Vec::new(), Vec::new(), String::new());
        loop {
            let path = format!("{}?labelSelector={selector}&limit={PAGE}{from}", self.path);
            let answer = self.call(Method::GET, &path, None).await?;
            let page = if answer.status == 200 { answer.json()? } else { return Err(answer.error("Kubernetes")) };
            for object in page["items"].as_array().map_or(&[][..], Vec::as_slice) {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let Some(Ok(lease)) = name.strip_prefix(&prefix).map(str::parse) else { continue };
                seen.push(name.to_owned());
                if let Judged::Alive { entry, .. } = self.judge(object.clone()).await? {
                    listed.push(Leased { lease, value: entry.value });
                }
            }
            match page["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() && listed.len() < LIST_MAX => {
                    from = format!("&continue={}", encode_query(token));
                }
                _ => break,
            }
        }
        seen.sort();
        self.seen().retain(|name, _| seen.binary_search(name).is_ok());
        listed.truncate(LIST_MAX);
        Ok(listed)
    }

    async fn watch(self: &Arc<Self>, target: Target) -> Result<KubernetesWatch, Error> {
        Ok(KubernetesWatch { store: self.clone(), target, lines: None, last: None, until: None })
    }
}

/// Lists the one object, then streams its changes from that version on. When the stream ends, it lists again.
pub(super) struct KubernetesWatch {
    store: Arc<KubernetesStore>,
    target: Target,
    lines: Option<Lines>,
    last: Option<Option<Entry>>,
    /// When to judge a lease again.
    until: Option<Instant>,
}

impl KubernetesWatch {
    fn path(&self, query: &str) -> String {
        let selector = encode_query(&format!("metadata.name={}", self.store.object_name(self.target)));
        format!("{}?fieldSelector={selector}{query}", self.store.path)
    }

    /// The present object. The stream begins after it.
    async fn begin(&mut self) -> Result<Option<Value>, Error> {
        let answer = self.store.call(Method::GET, &self.path(""), None).await?;
        let list = if answer.status == 200 { answer.json()? } else { return Err(answer.error("Kubernetes")) };
        let from = list["metadata"]["resourceVersion"].as_str().unwrap_or("0");
        let path = self.path(&format!("&watch=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={from}"));
        let mut call = Call::new(Method::GET, &path);
        call.header = self.store.authorization()?;
        match self.store.http.stream(call).await? {
            Ok(lines) => self.lines = Some(lines),
            Err(answer) => return Err(answer.error("Kubernetes")),
        }
        Ok(list["items"].get(0).cloned())
    }

    /// Waits for a change, or for the time to judge, and returns the object as it is then.
    async fn change(&mut self) -> Result<Option<Value>, Error> {
        let Some(lines) = &mut self.lines else { return self.begin().await };
        let end = self.until.unwrap_or_else(|| Instant::now() + Duration::from_secs(2 * WATCH_SECONDS));
        let line = tokio::select! {
            line = lines.next() => line?,
            () = sleep_until(end) => return self.store.find(&self.store.object_name(self.target)).await,
        };
        let Some(line) = line else {
            self.lines = None;
            return self.begin().await;
        };
        let event: Value = serde_json::from_slice(&line).map_err(Error::damaged)?;
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => Ok(Some(event["object"].clone())),
            Some("DELETED") => Ok(None),
            // The version is too old; the list begins anew.
            _ => {
                self.lines = None;
                self.begin().await
            }
        }
    }
}

impl Watch for KubernetesWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Entry>, Error>> {
        Box::pin(async move {
            loop {
                let object = self.change().await?;
                let (entry, until) = self.store.state(self.target, object).await?;
                self.until = until;
                let same = match (&self.last, &entry) {
                    (None, _) => false,
                    (Some(None), None) => true,
                    (Some(Some(last)), Some(entry)) => last.value == entry.value && self.is_same(last, entry),
                    (Some(_), _) => false,
                };
                self.last = Some(entry.clone());
                if !same {
                    return Ok(entry);
                }
            }
        })
    }
}

impl KubernetesWatch {
    /// A renewal of a lease changes its version, which is no news.
    fn is_same(&self, last: &Entry, entry: &Entry) -> bool {
        matches!(self.target, Target::Lease(_)) || last.revision == entry.revision
    }
}

fn entry(object: &Value) -> Result<Entry, Error> {
    let value = object["metadata"]["annotations"][ANNOTATION].as_str();
    let value = value.ok_or_else(|| Error::damaged("a Lease that is not of pole-elect"))?;
    Ok(Entry { value: Bytes::copy_from_slice(value.as_bytes()), revision: Revision(version(object)?.into()) })
}

fn version(object: &Value) -> Result<u64, Error> {
    let version = object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok());
    version.ok_or_else(|| Error::damaged("a Lease without a numeric resource version"))
}

/// An update must be of this very object under this version.
fn keep_identity(object: &mut Value, present: &Value) {
    for field in ["uid", "resourceVersion"] {
        object["metadata"][field] = present["metadata"][field].clone();
    }
}

/// Values of labels are short; a list is filtered by name as well.
fn label(name: &str) -> &str {
    name[..name.len().min(63)].trim_end_matches(['-', '.'])
}

/// As `MicroTime` of Kubernetes wants it: `2026-01-02T03:04:05.000006Z`.
fn rfc3339(time: SystemTime) -> String {
    let at = OffsetDateTime::from(time);
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let ((hour, minute, second), micros) = (at.to_hms(), at.microsecond());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

const ANNOTATION: &str = "pole-elect/record";
const RENEWALS: &str = "pole-elect/renewals";
const LABEL: &str = "pole-elect/election";

/// Where a pod finds its credentials.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A name of Kubernetes has 253 characters, and a lease id takes 33 of them.
const NAME_MAX: usize = 220;

const TTL_MIN: Duration = Duration::from_secs(1);
const TTL_MAX: Duration = Duration::from_secs(86_400);

const PAGE: usize = 500;

/// After this time the API server ends a watch, and the next one begins with a list.
const WATCH_SECONDS: u64 = 300;

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn times_are_written_as_kubernetes_wants_them() {
        let at = |seconds, micros| rfc3339(UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(micros));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_827_696, 7), "2000-02-29T12:34:56.000007Z");
        assert_eq!(at(1_798_761_599, 999_999), "2026-12-31T23:59:59.999999Z");
    }

    #[test]
    fn labels_are_valid() {
        assert_eq!(label("app"), "app");
        let long = format!("{}-tail", "a".repeat(62));
        assert_eq!(label(&long).len(), 62);
    }
}
