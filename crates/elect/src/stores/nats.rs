//! `nats://[user:password@]host[:4222][,host…]/BUCKET/PATH`, `natss://` with TLS: a key-value bucket of NATS JetStream.
//!
//! ```text
//! PATH.leader, PATH.succession     keys, changed under their last sequence
//! PATH.candidates.<lease id>       keys with a time-to-live for each message
//! ```
//!
//! A time-to-live for each key needs NATS 2.11. The bucket is created if it is missing, with history 1, markers for
//! expired keys and the given number of replicas. Slashes in the path become dots.
//!
//! Every change is a message with the expected last sequence of its key. A renewal is the same message again, so an
//! expired key cannot come back: its last sequence is another one.
//!
//! Reads are answered by the leader of the stream, but one that was deposed without knowing may answer an old state for
//! a moment. So a take-over does not trust a read that says that a lease is gone. It writes a deletion under the
//! sequence that it has seen, which needs a quorum and which a lease that is alive elsewhere refuses.
//!
//! Options: `replicas` (default 1; of a bucket that is created), `creds` (a file), `cacert`, `cert`, `key`. Without a
//! password the user is a token. Else `NATS_USER`, `NATS_PASSWORD`, `NATS_TOKEN`, `NATS_CREDS`, as NATS's own tools.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::context::{CreateKeyValueErrorKind, PublishErrorKind};
use async_nats::jetstream::kv;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, StorageType, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{ConnectOptions, Event, HeaderMap};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::watch;

use super::OpenError;
use super::adapter::Adapter;
use super::own::OwnLeases;
use super::tls::{TlsFiles, setting};
use crate::promises::{GoesBack, Judge, Promises};
use crate::store::{
    BoxFuture, Entry, Error, Granted, LIST_MAX, LeaseId, Leased, Renewed, Revision, Swap, Swapped, Target, Watch,
};
use crate::url::{InvalidUrl, StoreUrl};

/// Connects to NATS and creates the bucket if it is missing.
pub(super) async fn open(url: &StoreUrl) -> Result<NatsStore, OpenError> {
    url.check_options(&["replicas", "creds", "cacert", "cert", "key"])?;
    let no_path = || InvalidUrl::Path { scheme: url.scheme.clone(), example: "nats://host/bucket/app/leader" };
    let (bucket, path) = url.path.split_once('/').ok_or_else(no_path)?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=/.".contains(&byte);
    if !path.bytes().all(allowed) {
        return Err(Error::refused(format!("a key of NATS has letters, digits and -_=/. only, got {path:?}")).into());
    }
    let (connected, connections) = watch::channel(0);
    let options = options(url).await?.event_callback(move |event| {
        if matches!(event, Event::Connected) {
            connected.send_modify(|count: &mut u64| *count += 1);
        }
        std::future::ready(())
    });
    let client =
        options.connect(url.addresses(4222)).await.map_err(|why| Error::unavailable(format!("NATS: {why}")))?;
    let context = jetstream::new(client);
    let bucket = bucket_of(&context, url, bucket).await?;
    let store = NatsStore {
        context,
        stream: bucket.stream.clone(),
        bucket,
        prefix: path.replace('/', "."),
        leases: OwnLeases::default(),
        connections,
    };
    store.get(Target::Leader).await?;
    Ok(store)
}

async fn options(url: &StoreUrl) -> Result<ConnectOptions, Error> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut options = ConnectOptions::new().name("pole-elect");
    let user = url.user.clone().or_else(|| variable("NATS_USER"));
    let password = url.password.clone().or_else(|| variable("NATS_PASSWORD"));
    options = match (user, password) {
        (Some(user), Some(password)) => options.user_and_password(user, password),
        (Some(token), None) => options.token(token),
        (None, _) => match variable("NATS_TOKEN") {
            Some(token) => options.token(token),
            None => options,
        },
    };
    if let Some(file) = setting(url, "creds", "NATS_CREDS") {
        options = options.credentials_file(&file).await.map_err(|why| Error::refused(format!("{file}: {why}")))?;
    }
    if url.scheme == "natss" {
        let files = TlsFiles::of(url, ["NATS_CA", "NATS_CERT", "NATS_KEY"]);
        options = options.require_tls(true).tls_client_config(files.config()?);
    }
    Ok(options)
}

async fn bucket_of(context: &Context, url: &StoreUrl, bucket: &str) -> Result<kv::Store, OpenError> {
    if let Ok(store) = context.get_key_value(bucket).await {
        let config = &store.stream.cached_info().config;
        if !config.allow_message_ttl || config.subject_delete_marker_ttl.is_none() {
            let text =
                "NATS: the bucket has no times-to-live for single keys (allow_msg_ttl, subject_delete_marker_ttl)";
            return Err(Error::refused(text).into());
        }
        return Ok(store);
    }
    let replicas = url.option("replicas").unwrap_or("1");
    let wrong = || InvalidUrl::Value { key: "replicas", expected: "1, 3 or 5", got: replicas.to_owned() };
    let config = kv::Config {
        bucket: bucket.to_owned(),
        description: "elections of pole-elect".to_owned(),
        history: 1,
        storage: StorageType::File,
        num_replicas: replicas.parse().map_err(|_| wrong())?,
        limit_markers: Some(MARKER_TTL),
        ..kv::Config::default()
    };
    match context.create_key_value(config).await {
        Ok(store) => Ok(store),
        // Another client may have been faster.
        Err(why) => match context.get_key_value(bucket).await {
            Ok(store) => Ok(store),
            Err(_) if why.kind() == CreateKeyValueErrorKind::TimedOut => {
                Err(Error::unavailable(format!("NATS: bucket {bucket:?}: {why}")).into())
            }
            Err(_) => Err(Error::refused(format!("NATS: bucket {bucket:?}: {why}")).into()),
        },
    }
}

/// An election in NATS.
pub(super) struct NatsStore {
    context: Context,
    bucket: kv::Store,
    stream: Stream,
    prefix: String,
    /// The own leases.
    leases: OwnLeases<Own>,
    /// Counts connections. A watch ends when the client has connected again: its consumer may be gone.
    connections: watch::Receiver<u64>,
}

/// What a renewal needs.
#[derive(Clone)]
struct Own {
    sequence: u64,
    ttl: Duration,
    record: Bytes,
}

/// The last message of a key.
struct Last {
    /// 0 if there is none.
    sequence: u64,
    /// None if the message is a deletion.
    value: Option<Bytes>,
}

impl NatsStore {
    fn key(&self, target: Target) -> String {
        match target {
            Target::Leader | Target::Succession => format!("{}.{target}", self.prefix),
            Target::Lease(lease) => format!("{}.candidates.{lease}", self.prefix),
        }
    }

    fn subject(&self, target: Target) -> String {
        format!("{}{}", self.bucket.prefix, self.key(target))
    }

    async fn last(&self, target: Target) -> Result<Last, Error> {
        match self.stream.get_last_raw_message_by_subject(&self.subject(target)).await {
            Ok(message) => {
                let value = (!is_deletion(&message.headers)).then_some(message.payload);
                Ok(Last { sequence: message.sequence, value })
            }
            Err(why) if why.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(Last { sequence: 0, value: None }),
            Err(why) => Err(Error::unavailable(format!("NATS: {why}"))),
        }
    }

    async fn get(&self, target: Target) -> Result<Option<Entry>, Error> {
        let last = self.last(target).await?;
        Ok(last.value.map(|value| Entry { value, revision: Revision(last.sequence.into()) }))
    }

    /// Writes a message if the last one of the key is the expected one. None if it is another.
    async fn put(&self, target: Target, expected: u64, message: PublishMessage) -> Result<Option<u64>, Error> {
        let message = message.expected_last_subject_sequence(expected);
        let sent = match self.context.send_publish(self.subject(target), message).await {
            Ok(sent) => sent.await,
            Err(why) => Err(why),
        };
        match sent {
            Ok(acknowledged) => Ok(Some(acknowledged.sequence)),
            Err(why) if why.kind() == PublishErrorKind::WrongLastSequence => Ok(None),
            Err(why) if why.kind() == PublishErrorKind::StreamNotFound => Err(Error::refused(format!("NATS: {why}"))),
            Err(why) => Err(Error::unavailable(format!("NATS: {why}"))),
        }
    }

    /// Confirms by a write that a lease is gone. False if it is alive.
    async fn make_gone(&self, lease: LeaseId) -> Result<bool, Error> {
        let target = Target::Lease(lease);
        let last = self.last(target).await?;
        if last.value.is_some() {
            return Ok(false);
        }
        Ok(self.put(target, last.sequence, deletion()).await?.is_some())
    }
}

impl Adapter for NatsStore {
    type Watch = NatsWatch;

    fn promises(&self) -> Promises {
        Promises {
            store: "nats",
            linearizable_reads: false,
            judge: Judge::StoreWall,
            transactions: false,
            can_go_back: GoesBack::Restore,
            ttl_min: TTL_MIN,
            ttl_max: TTL_MAX,
            early: Duration::ZERO,
            late_factor: 2,
            late: Duration::from_secs(1),
            note: "whole seconds; a bucket that is deleted and created again begins at sequence 1; one replica is as safe \
                   as its disk",
        }
    }

    async fn read(&self, target: Target) -> Result<Option<Entry>, Error> {
        self.get(target).await
    }

    async fn swap(&self, swap: Swap) -> Result<Swapped, Error> {
        let target = swap.record.into();
        let last = self.last(target).await?;
        let present = last.value.is_some().then_some(Revision(last.sequence.into()));
        if present != swap.expected {
            return Ok(Swapped::Conflict);
        }
        if let Some(lease) = swap.gone
            && !self.make_gone(lease).await?
        {
            return Ok(Swapped::StillHeld);
        }
        let message = PublishMessage::build().payload(swap.value);
        Ok(match self.put(target, last.sequence, message).await? {
            Some(sequence) => Swapped::Done(Revision(sequence.into())),
            None => Swapped::Conflict,
        })
    }

    async fn publish(&self, lease: LeaseId, record: Bytes, ttl: Duration) -> Result<Granted, Error> {
        let seconds = ttl.clamp(TTL_MIN, TTL_MAX).as_nanos().div_ceil(1_000_000_000);
        let ttl = Duration::from_secs(seconds.try_into().unwrap_or(u64::MAX));
        let message = PublishMessage::build().payload(record.clone()).ttl(ttl);
        // Known before the answer: a renewal finds out about the sequence.
        self.leases.insert(lease, ttl, Own { sequence: 0, ttl, record: record.clone() });
        let sequence = self.put(Target::Lease(lease), 0, message).await?;
        let sequence = sequence.ok_or_else(|| Error::unavailable("NATS: published before"))?;
        self.leases.insert(lease, ttl, Own { sequence, ttl, record });
        Ok(Granted { ttl })
    }

    async fn renew(&self, lease: LeaseId, record: Option<Bytes>) -> Result<Renewed, Error> {
        let target = Target::Lease(lease);
        let Some(mut own) = self.leases.get(lease) else { return Ok(Renewed::Gone) };
        if let Some(record) = record {
            own.record = record;
        }
        // The sequence is wrong if the lease is gone, or if an earlier renewal was written but not answered. Only its
        // owner writes to a lease, so a message that is no deletion is our own.
        for attempt in 0..2 {
            let message = PublishMessage::build().payload(own.record.clone()).ttl(own.ttl);
            if own.sequence > 0
                && let Some(sequence) = self.put(target, own.sequence, message).await?
            {
                own.sequence = sequence;
                self.leases.renewed(lease, own);
                return Ok(Renewed::Extended);
            }
            let last = self.last(target).await?;
            if last.value.is_none() || attempt == 1 {
                break;
            }
            own.sequence = last.sequence;
        }
        self.leases.remove(lease);
        Ok(Renewed::Gone)
    }

    async fn withdraw(&self, lease: LeaseId) -> Result<(), Error> {
        let target = Target::Lease(lease);
        for _ in 0..2 {
            let last = self.last(target).await?;
            if last.value.is_none() || self.put(target, last.sequence, deletion()).await?.is_some() {
                self.leases.remove(lease);
                return Ok(());
            }
        }
        Err(Error::unavailable("NATS: the lease changes while it is withdrawn"))
    }

    async fn list(&self) -> Result<Vec<Leased>, Error> {
        let failed = |why: &dyn std::fmt::Display| Error::unavailable(format!("NATS: {why}"));
        let prefix = format!("{}{}.candidates.", self.bucket.prefix, self.prefix);
        let config = pull::OrderedConfig {
            deliver_policy: DeliverPolicy::LastPerSubject,
            filter_subject: format!("{prefix}*"),
            ..pull::OrderedConfig::default()
        };
        let consumer = self.stream.create_consumer(config).await.map_err(|why| failed(&why))?;
        let mut listed = Vec::new();
        if consumer.cached_info().num_pending == 0 {
            return Ok(listed);
        }
        let mut messages = consumer.messages().await.map_err(|why| failed(&why))?;
        while let Some(message) = messages.next().await {
            let message = message.map_err(|why| failed(&why))?;
            let pending = message.info().map_err(|why| failed(&why))?.pending;
            if !message.headers.as_ref().is_some_and(is_deletion) {
                let name = message.subject.strip_prefix(&prefix).unwrap_or_default();
                listed.push(Leased { lease: name.parse()?, value: message.payload.clone() });
            }
            if pending == 0 || listed.len() == LIST_MAX {
                break;
            }
        }
        Ok(listed)
    }

    async fn watch(self: &Arc<Self>, target: Target) -> Result<NatsWatch, Error> {
        let mut connections = self.connections.clone();
        connections.mark_unchanged();
        let changes = self.bucket.watch(self.key(target)).await;
        let changes = changes.map_err(|why| Error::unavailable(format!("NATS: {why}")))?;
        Ok(NatsWatch { store: self.clone(), target, changes, connections, last: None })
    }
}

/// A consumer of new messages, begun before the first state is read.
pub(super) struct NatsWatch {
    store: Arc<NatsStore>,
    target: Target,
    changes: kv::Watch,
    connections: watch::Receiver<u64>,
    /// The last answer. Of a lease only the content counts.
    last: Option<Option<Entry>>,
}

impl NatsWatch {
    fn is_news(&self, entry: Option<&Entry>) -> bool {
        let Some(last) = &self.last else { return true };
        match (last, entry, self.target) {
            (Some(last), Some(entry), Target::Lease(_)) => last.value != entry.value,
            // A message that was already seen by the first read.
            (Some(last), Some(entry), _) => entry.revision > last.revision,
            (last, entry, _) => last.is_some() != entry.is_some(),
        }
    }
}

impl Watch for NatsWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Entry>, Error>> {
        Box::pin(async move {
            if self.last.is_none() {
                let entry = self.store.get(self.target).await?;
                self.last = Some(entry.clone());
                return Ok(entry);
            }
            loop {
                let change = tokio::select! {
                    change = self.changes.next() => change,
                    _ = self.connections.changed() => None,
                };
                let Some(Ok(change)) = change else {
                    return Err(Error::unavailable("NATS: the connection was lost"));
                };
                let entry = match change.operation {
                    kv::Operation::Put => {
                        Some(Entry { value: change.value, revision: Revision(change.revision.into()) })
                    }
                    kv::Operation::Delete | kv::Operation::Purge => None,
                };
                if self.is_news(entry.as_ref()) {
                    self.last = Some(entry.clone());
                    return Ok(entry);
                }
            }
        })
    }
}

/// A message that says that a key is deleted. It goes by itself after a while.
fn deletion() -> PublishMessage {
    PublishMessage::build().header("KV-Operation", "DEL").ttl(MARKER_TTL)
}

/// Deleted by a client, or expired.
fn is_deletion(headers: &HeaderMap) -> bool {
    let deleted = headers.get("KV-Operation").is_some_and(|operation| matches!(operation.as_str(), "DEL" | "PURGE"));
    deleted || headers.get("Nats-Marker-Reason").is_some()
}

const TTL_MIN: Duration = Duration::from_secs(1);
const TTL_MAX: Duration = Duration::from_secs(86_400);

/// How long deletions stay in the stream, for watchers that are slow or connect again. A lease needs no deletion to stay
/// gone.
const MARKER_TTL: Duration = Duration::from_secs(60);
