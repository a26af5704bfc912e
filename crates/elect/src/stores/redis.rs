//! `redis://[user:password@]host[:6379]/PATH`, `rediss://` with TLS: one node of Redis 6.2 or later, or of Valkey.
//!
//! ```text
//! PATH/leader, PATH/succession     hashes: value, revision
//! PATH/revision                    a counter
//! PATH/candidates                  the set of all lease ids, also of some that have expired
//! PATH/candidates/<lease id>       strings with a time-to-live
//! ```
//!
//! Every change is a Lua script, which Redis runs alone. Changes of content are published on a channel with the name of
//! the key. Redis publishes no expiry that can be relied on, so a watch of a lease looks again at its known end.
//!
//! This is one node, and its limits are those of that node: replication is asynchronous, so a replica that is promoted
//! may lack acknowledged changes, and a node that restarts has what its persistence kept (`appendfsync always` keeps
//! everything). Redis Cluster and Sentinel are not followed.
//!
//! Options: `db` (default 0), `cacert`, `cert`, `key`. The password else from `REDISCLI_AUTH`.

use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::{MultiplexedConnection, PubSub};
use ::redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, RedisConnectionInfo, RedisError, Script, ScriptInvocation,
    ServerErrorKind,
};
use bytes::Bytes;
use futures_util::StreamExt;
use rustls::ClientConfig;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::OpenError;
use super::adapter::Adapter;
use super::own::OwnLeases;
use super::tls::{self, Stream, TlsFiles};
use crate::promises::{GoesBack, Judge, Promises};
use crate::store::{
    BoxFuture, Entry, Error, Granted, LIST_MAX, LeaseId, Leased, Renewed, Revision, Swap, Swapped, Target, Watch,
};
use crate::url::{InvalidUrl, StoreUrl};

/// Connects to Redis.
pub(super) async fn open(url: &StoreUrl) -> Result<RedisStore, OpenError> {
    url.check_options(&["db", "cacert", "cert", "key"])?;
    if url.path.is_empty() {
        return Err(InvalidUrl::Path { scheme: url.scheme.clone(), example: "redis://host/app/leader" }.into());
    }
    let [address] = &url.addresses(6379)[..] else {
        return Err(Error::refused("an election runs on one node of Redis; give one host").into());
    };
    let db = url.option("db").unwrap_or("0");
    let wrong = || InvalidUrl::Value { key: "db", expected: "a number", got: db.to_owned() };
    let mut login = RedisConnectionInfo::default().set_db(db.parse().map_err(|_| wrong())?);
    if let Some(user) = &url.user {
        login = login.set_username(user);
    }
    let variable = || std::env::var("REDISCLI_AUTH").ok().filter(|password| !password.is_empty());
    if let Some(password) = url.password.clone().or_else(variable) {
        login = login.set_password(password);
    }
    let tls = match url.scheme.as_str() {
        "rediss" => Some(Arc::new(TlsFiles::of(url, ["", "", ""]).config()?)),
        _ => None,
    };
    let store = RedisStore {
        address: address.clone(),
        tls,
        login,
        path: url.path.clone(),
        connection: Mutex::default(),
        scripts: Scripts::new(),
        granted: OwnLeases::default(),
    };
    store.get(Target::Leader).await?;
    Ok(store)
}

/// An election in Redis.
pub(super) struct RedisStore {
    address: String,
    tls: Option<Arc<ClientConfig>>,
    login: RedisConnectionInfo,
    path: String,
    /// Made anew after an error of the connection.
    connection: Mutex<Option<MultiplexedConnection>>,
    scripts: Scripts,
    /// The times-to-live of the own leases, in milliseconds.
    granted: OwnLeases<u64>,
}

struct Scripts {
    read_lease: Script,
    swap: Script,
    publish: Script,
    renew: Script,
    withdraw: Script,
    forget: Script,
}

impl Scripts {
    fn new() -> Self {
        Self {
            read_lease: Script::new(READ_LEASE),
            swap: Script::new(SWAP),
            publish: Script::new(PUBLISH),
            renew: Script::new(RENEW),
            withdraw: Script::new(WITHDRAW),
            forget: Script::new(FORGET),
        }
    }
}

impl RedisStore {
    fn key(&self, target: Target) -> String {
        match target {
            Target::Leader | Target::Succession => format!("{}/{target}", self.path),
            Target::Lease(lease) => format!("{}/candidates/{lease}", self.path),
        }
    }

    fn index(&self) -> String {
        format!("{}/candidates", self.path)
    }

    async fn stream(&self) -> Result<Stream, Error> {
        tls::connect(&self.address, self.tls.as_ref()).await
    }

    async fn connection(&self) -> Result<MultiplexedConnection, Error> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = connection.as_ref() {
            return Ok(connection.clone());
        }
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(RESPONSE_LIMIT));
        let made = MultiplexedConnection::new_with_config(&self.login, self.stream().await?, config).await;
        let (made, driver) = made.map_err(|why| failed(&why))?;
        tokio::spawn(driver);
        *connection = Some(made.clone());
        Ok(made)
    }

    async fn script<T: FromRedisValue>(&self, call: &ScriptInvocation<'_>) -> Result<T, Error> {
        let mut connection = self.connection().await?;
        let result = call.invoke_async(&mut connection).await;
        self.checked(result).await
    }

    async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        let mut connection = self.connection().await?;
        let result = command.query_async(&mut connection).await;
        self.checked(result).await
    }

    /// After an error of the connection the next operation makes a new one.
    async fn checked<T>(&self, result: Result<T, RedisError>) -> Result<T, Error> {
        if let Err(why) = &result
            && (why.is_io_error() || why.is_connection_dropped() || why.is_unrecoverable_error())
        {
            *self.connection.lock().await = None;
        }
        result.map_err(|why| failed(&why))
    }

    /// The record and, for a lease, the time that is left to it.
    async fn get(&self, target: Target) -> Result<(Option<Entry>, Option<Duration>), Error> {
        let key = self.key(target);
        if let Target::Lease(_) = target {
            let found: Option<(Vec<u8>, i64)> = self.script(&self.scripts.read_lease.key(key)).await?;
            return Ok(match found {
                None => (None, None),
                Some((value, left_ms)) => {
                    // Redis counts milliseconds; one more, so that the key is gone at the next look.
                    let left = Duration::from_millis(left_ms.max(0).unsigned_abs() + 1);
                    (Some(Entry { value: value.into(), revision: Revision(0) }), Some(left))
                }
            });
        }
        let command = ::redis::cmd("HMGET").arg(key).arg("value").arg("revision").to_owned();
        let found: (Option<Vec<u8>>, Option<u64>) = self.command(&command).await?;
        match found {
            (Some(value), Some(revision)) => {
                Ok((Some(Entry { value: value.into(), revision: Revision(revision.into()) }), None))
            }
            (None, None) => Ok((None, None)),
            (Some(_), None) | (None, Some(_)) => {
                Err(Error::damaged(format!("{target}: a field of its hash is missing")))
            }
        }
    }

    async fn forget(&self, lease: LeaseId) -> Result<(), Error> {
        let mut call = self.scripts.forget.key(self.key(Target::Lease(lease)));
        call.key(self.index()).arg(lease.to_string());
        self.script(&call).await
    }
}

impl Adapter for RedisStore {
    type Watch = RedisWatch;

    fn promises(&self) -> Promises {
        Promises {
            store: "redis",
            linearizable_reads: true,
            judge: Judge::StoreWall,
            transactions: true,
            can_go_back: GoesBack::Restart,
            ttl_min: TTL_MIN,
            ttl_max: TTL_MAX,
            early: Duration::ZERO,
            late_factor: 1,
            late: Duration::ZERO,
            note: "one node: a promoted replica may lack acknowledged changes, and a restart keeps what appendfsync kept",
        }
    }

    async fn read(&self, target: Target) -> Result<Option<Entry>, Error> {
        Ok(self.get(target).await?.0)
    }

    async fn swap(&self, swap: Swap) -> Result<Swapped, Error> {
        let lease_key = |lease: Option<LeaseId>| lease.map_or(String::new(), |lease| self.key(Target::Lease(lease)));
        let expected = swap.expected.map_or(String::new(), |revision| revision.0.to_string());
        let mut call = self.scripts.swap.key(self.key(swap.record.into()));
        call.key(format!("{}/revision", self.path)).key(lease_key(swap.gone)).key(lease_key(swap.alive));
        call.arg(expected).arg(&swap.value[..]);
        let answer: i64 = self.script(&call).await?;
        match answer {
            -1 => Ok(Swapped::Conflict),
            -2 => Ok(Swapped::StillHeld),
            -3 => Ok(Swapped::LeaseGone),
            revision => Ok(Swapped::Done(Revision(revision.unsigned_abs().into()))),
        }
    }

    async fn publish(&self, lease: LeaseId, record: Bytes, ttl: Duration) -> Result<Granted, Error> {
        let ttl_ms = u64::try_from(ttl.clamp(TTL_MIN, TTL_MAX).as_millis()).unwrap_or(u64::MAX);
        let ttl = Duration::from_millis(ttl_ms);
        let mut call = self.scripts.publish.key(self.key(Target::Lease(lease)));
        call.key(self.index()).arg(lease.to_string()).arg(&record[..]).arg(ttl_ms);
        self.granted.insert(lease, ttl, ttl_ms);
        let created: bool = self.script(&call).await?;
        if created { Ok(Granted { ttl }) } else { Err(Error::unavailable("published before")) }
    }

    async fn renew(&self, lease: LeaseId, record: Option<Bytes>) -> Result<Renewed, Error> {
        let Some(ttl_ms) = self.granted.get(lease) else { return Ok(Renewed::Gone) };
        let mut call = self.scripts.renew.key(self.key(Target::Lease(lease)));
        call.arg(ttl_ms);
        if let Some(record) = &record {
            call.arg(&record[..]);
        }
        let extended: bool = self.script(&call).await?;
        if extended {
            self.granted.renewed(lease, ttl_ms);
            return Ok(Renewed::Extended);
        }
        self.granted.remove(lease);
        Ok(Renewed::Gone)
    }

    async fn withdraw(&self, lease: LeaseId) -> Result<(), Error> {
        self.granted.remove(lease);
        let mut call = self.scripts.withdraw.key(self.key(Target::Lease(lease)));
        call.key(self.index()).arg(lease.to_string());
        self.script(&call).await
    }

    /// Reads the index, then the values in pages. Ids without a value have expired and are removed from the index.
    async fn list(&self) -> Result<Vec<Leased>, Error> {
        let command = ::redis::cmd("SMEMBERS").arg(self.index()).to_owned();
        let ids: Vec<String> = self.command(&command).await?;
        let mut listed = Vec::with_capacity(ids.len());
        for page in ids.chunks(PAGE) {
            let leases = page.iter().map(|id| id.parse()).collect::<Result<Vec<LeaseId>, _>>()?;
            let mut command = ::redis::cmd("MGET");
            for lease in &leases {
                command.arg(self.key(Target::Lease(*lease)));
            }
            let values: Vec<Option<Vec<u8>>> = self.command(&command).await?;
            for (lease, value) in leases.into_iter().zip(values) {
                match value {
                    Some(value) => listed.push(Leased { lease, value: value.into() }),
                    None => self.forget(lease).await?,
                }
            }
        }
        listed.truncate(LIST_MAX);
        Ok(listed)
    }

    async fn watch(self: &Arc<Self>, target: Target) -> Result<RedisWatch, Error> {
        let stream = self.stream().await?;
        let mut changes = PubSub::new(&self.login, stream).await.map_err(|why| failed(&why))?;
        changes.subscribe(self.key(target)).await.map_err(|why| failed(&why))?;
        Ok(RedisWatch { store: self.clone(), changes, target, last: None })
    }
}

/// A connection of its own, subscribed before the first state is read.
pub(super) struct RedisWatch {
    store: Arc<RedisStore>,
    changes: PubSub,
    target: Target,
    last: Option<Option<Entry>>,
}

impl Watch for RedisWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Entry>, Error>> {
        Box::pin(async move {
            loop {
                let (entry, left) = self.store.get(self.target).await?;
                if self.last.as_ref() != Some(&entry) {
                    self.last = Some(entry.clone());
                    return Ok(entry);
                }
                let end = Instant::now() + left.unwrap_or(NO_END);
                let mut messages = self.changes.on_message();
                tokio::select! {
                    message = messages.next() => {
                        message.ok_or_else(|| Error::unavailable("the connection to Redis is lost"))?;
                    }
                    () = sleep_until(end) => {}
                }
            }
        })
    }
}

fn failed(error: &RedisError) -> Error {
    let text = format!("Redis: {error}");
    let refused = matches!(
        error.kind(),
        ErrorKind::AuthenticationFailed
            | ErrorKind::InvalidClientConfig
            | ErrorKind::Server(ServerErrorKind::NoPerm | ServerErrorKind::ReadOnly)
    );
    if refused || error.code() == Some("NOAUTH") { Error::refused(text) } else { Error::unavailable(text) }
}

/// The value and the rest of its time, both at one time.
const READ_LEASE: &str = "local value = redis.call('GET', KEYS[1])
if not value then return false end
return {value, redis.call('PTTL', KEYS[1])}";

/// KEYS: record, counter, lease that must be gone, lease that must be alive (both may be empty). ARGV: revision, value.
const SWAP: &str = "local present = redis.call('HGET', KEYS[1], 'revision')
if (present or '') ~= ARGV[1] then return -1 end
if KEYS[3] ~= '' and redis.call('EXISTS', KEYS[3]) == 1 then return -2 end
if KEYS[4] ~= '' and redis.call('EXISTS', KEYS[4]) == 0 then return -3 end
local revision = redis.call('INCR', KEYS[2])
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'revision', revision)
redis.call('PUBLISH', KEYS[1], '')
return revision";

/// KEYS: lease, index. ARGV: id, value, ttl.
const PUBLISH: &str = "if not redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3], 'NX') then return 0 end
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('PUBLISH', KEYS[1], '')
return 1";

/// KEYS: lease. ARGV: ttl, and the value if it changes. Only a lease that exists is extended.
const RENEW: &str = "if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[2] then
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[1])
    redis.call('PUBLISH', KEYS[1], '')
else
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return 1";

const WITHDRAW: &str = "redis.call('DEL', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[1])
redis.call('PUBLISH', KEYS[1], '')";

const FORGET: &str = "if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end";

const TTL_MIN: Duration = Duration::from_millis(100);
const TTL_MAX: Duration = Duration::from_secs(86_400);

/// The candidates in one page of a list.
const PAGE: usize = 500;

/// The driver's own limit is shorter.
const RESPONSE_LIMIT: Duration = Duration::from_secs(30);

/// A watch of a plain record looks again after this time, which costs next to nothing.
const NO_END: Duration = Duration::from_secs(3600);
