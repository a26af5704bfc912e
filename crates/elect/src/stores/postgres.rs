//! `postgres://[user[:password]@]host[:5432][,host…]/DATABASE/ELECTION`: PostgreSQL 10 or later.
//!
//! ```text
//! pole_elect_record (election, name, value, revision)          the plain records
//! pole_elect_lease  (election, lease, value, ttl, ends)        one row for each candidate
//! pole_elect_revision                                          a sequence
//! ```
//!
//! The tables are created by the first client that may do so, in the first schema of its search path. The clock of the
//! server judges leases: `ends` is compared with `clock_timestamp()`. An expired row is deleted before a client reports it
//! as gone, so a lease stays gone if the clock of the server is set back.
//!
//! Every operation is one statement, so that a dropped future leaves no transaction open. A swap deletes the row of the
//! previous holder if it has expired; this takes the lock of the row and looks at its newest version, so that a renewal
//! at the same time either comes before and keeps it, or finds no row.
//!
//! Changes of content are announced by `NOTIFY` on a channel of the election; renewals without content are not. A watch of a
//! lease also looks again at the known end of the lease.
//!
//! Options: `sslmode` (`disable`, `prefer`, `require`; the default is `prefer`), `cacert`, `cert`, `key` (else
//! `PGSSLMODE`, `PGSSLROOTCERT`, `PGSSLCERT`, `PGSSLKEY`). User and password else from `PGUSER` and `PGPASSWORD`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Mutex, broadcast};
use tokio::time::{Instant, sleep_until};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Row, Socket};
use tokio_rustls::TlsConnector;

use super::OpenError;
use super::adapter::Adapter;
use super::tls::{TlsFiles, setting};
use crate::promises::{GoesBack, Judge, Promises};
use crate::store::{
    BoxFuture, Entry, Error, Granted, LIST_MAX, LeaseId, Leased, Renewed, Revision, Swap, Swapped, Target, Watch,
};
use crate::url::{InvalidUrl, StoreUrl};

/// Connects to PostgreSQL and makes the tables if they are not there.
pub(super) async fn open(url: &StoreUrl) -> Result<PostgresStore, OpenError> {
    url.check_options(&["sslmode", "cacert", "cert", "key"])?;
    let no_path = || InvalidUrl::Path { scheme: url.scheme.clone(), example: "postgres://host/database/app/leader" };
    let (database, election) = url.path.split_once('/').ok_or_else(no_path)?;
    let mut config = Config::new();
    config.dbname(database).application_name("pole-elect");
    // A standby answers old states and takes no writes.
    config.target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
    config
        .connect_timeout(CONNECT_LIMIT)
        .keepalives_idle(KEEPALIVE)
        .keepalives_interval(KEEPALIVE)
        .keepalives_retries(3);
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    config.user(url.user.clone().or_else(|| variable("PGUSER")).unwrap_or_else(|| "postgres".to_owned()));
    if let Some(password) = url.password.clone().or_else(|| variable("PGPASSWORD")) {
        config.password(password);
    }
    for host in &url.hosts {
        config.host(&host.name).port(host.port.unwrap_or(5432));
    }
    if url.hosts.is_empty() {
        config.host("localhost");
    }
    let mode = setting(url, "sslmode", "PGSSLMODE").unwrap_or_else(|| "prefer".to_owned());
    config.ssl_mode(match mode.as_str() {
        "disable" => SslMode::Disable,
        "prefer" => SslMode::Prefer,
        // Ours always verify the certificate and the name.
        "require" | "verify-ca" | "verify-full" => SslMode::Require,
        _ => {
            let expected = "disable, prefer or require";
            return Err(InvalidUrl::Value { key: "sslmode", expected, got: mode }.into());
        }
    });
    let tls = Tls(Arc::new(TlsFiles::of(url, ["PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY"]).config()?));
    let store = PostgresStore { config, tls, election: election.to_owned(), session: Mutex::default() };
    let session = store.session().await?;
    let found: bool = query(session.client.query_one(FIND_TABLES, &[]).await)?.get(0);
    if !found {
        query(session.client.batch_execute(MAKE_TABLES).await)?;
    }
    Ok(store)
}

/// An election in PostgreSQL.
pub(super) struct PostgresStore {
    config: Config,
    tls: Tls,
    election: String,
    /// The connection, made anew when it was lost.
    session: Mutex<Option<Arc<Session>>>,
}

struct Session {
    client: Client,
    /// The names of changed records. Closed when the connection is lost.
    changes: broadcast::WeakSender<String>,
}

impl PostgresStore {
    async fn session(&self) -> Result<Arc<Session>, Error> {
        let mut session = self.session.lock().await;
        if let Some(session) = session.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(session.clone());
        }
        let (client, connection) = query(self.config.connect(self.tls.clone()).await)?;
        let (changed, _) = broadcast::channel(CHANGES_MAX);
        let changes = changed.downgrade();
        tokio::spawn(drive(connection, changed));
        query(client.batch_execute(PREPARE_SESSION).await)?;
        let made = Arc::new(Session { client, changes });
        *session = Some(made.clone());
        Ok(made)
    }

    /// The channel of the election. Names of channels are short, so it is a digest, made by the server where it notifies.
    async fn listen(&self, session: &Session) -> Result<broadcast::Receiver<String>, Error> {
        let lost = || Error::unavailable("the connection to PostgreSQL is lost");
        let changes = session.changes.upgrade().ok_or_else(lost)?.subscribe();
        let row = query(session.client.query_one("SELECT 'pole_elect_' || md5($1)", &[&self.election]).await)?;
        let channel: String = row.get(0);
        query(session.client.batch_execute(&format!("LISTEN {channel}")).await)?;
        Ok(changes)
    }

    /// The record and, for a lease, the time that is left to it.
    async fn get(&self, session: &Session, target: Target) -> Result<(Option<Entry>, Option<Duration>), Error> {
        let client = &session.client;
        let Target::Lease(lease) = target else {
            let row = query(client.query_opt(READ_RECORD, &[&self.election, &target.to_string()]).await)?;
            return Ok((row.map(|row| entry(&row)).transpose()?, None));
        };
        let name = lease.to_string();
        // A second look is needed only if the lease is renewed between the first one and its deletion.
        loop {
            let Some(row) = query(client.query_opt(READ_LEASE, &[&self.election, &name]).await)? else {
                return Ok((None, None));
            };
            let left_us: i64 = row.get(1);
            if left_us > 0 {
                let value = Bytes::from(row.get::<_, Vec<u8>>(0));
                let left = Duration::from_micros(left_us.unsigned_abs());
                return Ok((Some(Entry { value, revision: Revision(0) }), Some(left)));
            }
            query(client.execute(END_LEASE, &[&self.election, &name]).await)?;
        }
    }
}

/// Moves the connection and passes its notifications on, until it is lost.
async fn drive(mut connection: Connection<Socket, ClientTls>, changed: broadcast::Sender<String>) {
    while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(notification) = message {
            // An error only says that there is no watch.
            let _ = changed.send(notification.payload().to_owned());
        }
    }
}

impl Adapter for PostgresStore {
    type Watch = PostgresWatch;

    fn promises(&self) -> Promises {
        Promises {
            store: "postgres",
            linearizable_reads: true,
            judge: Judge::StoreWall,
            transactions: true,
            can_go_back: GoesBack::Failover,
            ttl_min: Duration::from_millis(100),
            ttl_max: TTL_MAX,
            early: Duration::ZERO,
            late_factor: 1,
            late: Duration::ZERO,
            note: "one primary; a standby with asynchronous replication may lack the last changes when it takes over",
        }
    }

    async fn read(&self, target: Target) -> Result<Option<Entry>, Error> {
        let session = self.session().await?;
        Ok(self.get(&session, target).await?.0)
    }

    async fn swap(&self, swap: Swap) -> Result<Swapped, Error> {
        let session = self.session().await?;
        let gone = swap.gone.map(|lease| lease.to_string());
        let alive = swap.alive.map(|lease| lease.to_string());
        let expected = swap.expected.map(|revision| i64::try_from(revision.0).unwrap_or(-1));
        let statement = if expected.is_some() { UPDATE_RECORD } else { CREATE_RECORD };
        let value = swap.value.to_vec();
        let record = swap.record.name();
        let row =
            session.client.query_one(statement, &[&self.election, &record, &value, &expected, &gone, &alive]).await;
        let row = query(row)?;
        let (done, present): (Option<i64>, Option<i64>) = (row.get(0), row.get(1));
        let (held, lease_gone): (bool, bool) = (row.get(2), row.get(3));
        Ok(match done {
            Some(revision) => Swapped::Done(Revision(revision.unsigned_abs().into())),
            None if present != expected => Swapped::Conflict,
            None if held => Swapped::StillHeld,
            None if lease_gone => Swapped::LeaseGone,
            // All conditions held in the snapshot, but another client was faster.
            None => Swapped::Conflict,
        })
    }

    async fn publish(&self, lease: LeaseId, record: Bytes, ttl: Duration) -> Result<Granted, Error> {
        let ttl = ttl.clamp(self.promises().ttl_min, TTL_MAX);
        let ttl = Duration::from_millis(ttl.as_millis().try_into().unwrap_or(u64::MAX));
        let session = self.session().await?;
        let (name, value, seconds) = (lease.to_string(), record.to_vec(), ttl.as_secs_f64());
        let made = session.client.execute(PUBLISH, &[&self.election, &name, &value, &seconds]).await;
        query(made)?;
        Ok(Granted { ttl })
    }

    async fn renew(&self, lease: LeaseId, record: Option<Bytes>) -> Result<Renewed, Error> {
        let session = self.session().await?;
        let (name, value) = (lease.to_string(), record.map(|record| record.to_vec()));
        let renewed = session.client.query_opt(RENEW, &[&self.election, &name, &value]).await;
        Ok(if query(renewed)?.is_some() { Renewed::Extended } else { Renewed::Gone })
    }

    async fn withdraw(&self, lease: LeaseId) -> Result<(), Error> {
        let session = self.session().await?;
        query(session.client.execute(WITHDRAW, &[&self.election, &lease.to_string()]).await)?;
        Ok(())
    }

    async fn list(&self) -> Result<Vec<Leased>, Error> {
        let session = self.session().await?;
        let rows = query(session.client.query(LIST, &[&self.election, &(LIST_MAX as i64)]).await)?;
        let (expired, live): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.get::<_, bool>(2));
        if !expired.is_empty() {
            query(session.client.execute(END_EXPIRED, &[&self.election]).await)?;
        }
        let leased =
            |row: Row| Ok(Leased { lease: row.get::<_, &str>(0).parse()?, value: row.get::<_, Vec<u8>>(1).into() });
        live.into_iter().map(leased).collect()
    }

    async fn watch(self: &Arc<Self>, target: Target) -> Result<PostgresWatch, Error> {
        let session = self.session().await?;
        let changes = self.listen(&session).await?;
        let name = match target {
            Target::Leader | Target::Succession => target.to_string(),
            Target::Lease(lease) => lease.to_string(),
        };
        Ok(PostgresWatch { store: self.clone(), session, changes, target, name, last: None })
    }
}

pub(super) struct PostgresWatch {
    store: Arc<PostgresStore>,
    session: Arc<Session>,
    changes: broadcast::Receiver<String>,
    target: Target,
    /// The payload of its notifications.
    name: String,
    last: Option<Option<Entry>>,
}

impl PostgresWatch {
    /// Waits for a notification of this record. If some were missed, one of them may have been for it.
    async fn changed(&mut self) -> Result<(), Error> {
        loop {
            match self.changes.recv().await {
                Ok(name) if name == self.name => return Ok(()),
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return Ok(()),
                Err(broadcast::error::RecvError::Closed) => {
                    return Err(Error::unavailable("the connection to PostgreSQL is lost"));
                }
            }
        }
    }
}

impl Watch for PostgresWatch {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Entry>, Error>> {
        Box::pin(async move {
            loop {
                let (entry, left) = self.store.get(&self.session, self.target).await?;
                if self.last.as_ref() != Some(&entry) {
                    self.last = Some(entry.clone());
                    return Ok(entry);
                }
                match left.map(|left| Instant::now() + left) {
                    None => self.changed().await?,
                    Some(end) => tokio::select! {
                        changed = self.changed() => changed?,
                        () = sleep_until(end) => {}
                    },
                }
            }
        })
    }
}

fn entry(row: &Row) -> Result<Entry, Error> {
    let revision: i64 = row.get(1);
    Ok(Entry { value: row.get::<_, Vec<u8>>(0).into(), revision: Revision(revision.unsigned_abs().into()) })
}

fn query<T>(result: Result<T, tokio_postgres::Error>) -> Result<T, Error> {
    result.map_err(|error| {
        let text = match error.as_db_error() {
            Some(database) => format!("PostgreSQL: {}", database.message()),
            None => match std::error::Error::source(&error) {
                Some(source) => format!("PostgreSQL: {error}: {source}"),
                None => format!("PostgreSQL: {error}"),
            },
        };
        let refused = [
            SqlState::INSUFFICIENT_PRIVILEGE,
            SqlState::INVALID_PASSWORD,
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
            SqlState::INVALID_CATALOG_NAME,
            SqlState::UNDEFINED_TABLE,
        ];
        let refuses = error.code().is_some_and(|code| refused.contains(code));
        if refuses { Error::refused(text) } else { Error::unavailable(text) }
    })
}

/// TLS for tokio-postgres, as for all other stores.
#[derive(Clone)]
struct Tls(Arc<ClientConfig>);

impl MakeTlsConnect<Socket> for Tls {
    type Stream = ClientTls;
    type TlsConnect = ConnectTls;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<ConnectTls, Self::Error> {
        Ok(ConnectTls { config: self.0.clone(), name: ServerName::try_from(domain.to_owned())? })
    }
}

struct ConnectTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for ConnectTls {
    type Stream = ClientTls;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<ClientTls, std::io::Error>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let stream = TlsConnector::from(self.config).connect(self.name, socket).await?;
            Ok(ClientTls(Box::new(stream)))
        })
    }
}

struct ClientTls(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for ClientTls {
    /// The password is protected by the verified certificate alone.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for ClientTls {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientTls {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}

const FIND_TABLES: &str = "SELECT to_regclass('pole_elect_record') IS NOT NULL
    AND to_regclass('pole_elect_lease') IS NOT NULL AND to_regclass('pole_elect_revision') IS NOT NULL";

/// The lock is there because two `CREATE TABLE IF NOT EXISTS` at one time fail in PostgreSQL.
const MAKE_TABLES: &str = "BEGIN;
    SELECT pg_advisory_xact_lock(8101120108101);
    CREATE SEQUENCE IF NOT EXISTS pole_elect_revision;
    CREATE TABLE IF NOT EXISTS pole_elect_record (
        election text NOT NULL, name text NOT NULL, value bytea NOT NULL, revision bigint NOT NULL,
        PRIMARY KEY (election, name));
    CREATE TABLE IF NOT EXISTS pole_elect_lease (
        election text NOT NULL, lease text NOT NULL, value bytea NOT NULL, ttl interval NOT NULL,
        ends timestamptz NOT NULL, PRIMARY KEY (election, lease));
    COMMIT";

/// A commit that is acknowledged before it is on disk could be lost by a crash. Stronger settings stay.
const PREPARE_SESSION: &str = "SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') IN ('off', 'local')";

const READ_RECORD: &str = "SELECT value, revision FROM pole_elect_record WHERE election = $1 AND name = $2";

const READ_LEASE: &str = "SELECT value, (extract(epoch FROM ends - clock_timestamp()) * 1000000)::bigint
    FROM pole_elect_lease WHERE election = $1 AND lease = $2";

const END_LEASE: &str = "DELETE FROM pole_elect_lease WHERE election = $1 AND lease = $2 AND ends <= clock_timestamp()";

const END_EXPIRED: &str = "DELETE FROM pole_elect_lease WHERE election = $1 AND ends <= clock_timestamp()";

const LIST: &str = "SELECT lease, value, ends <= clock_timestamp() FROM pole_elect_lease WHERE election = $1 LIMIT $2";

const PUBLISH: &str = "INSERT INTO pole_elect_lease (election, lease, value, ttl, ends)
    VALUES ($1, $2, $3, make_interval(secs => $4), clock_timestamp() + make_interval(secs => $4))
    RETURNING pg_notify('pole_elect_' || md5($1), $2)";

/// Without new content nobody is notified.
const RENEW: &str = "UPDATE pole_elect_lease SET ends = clock_timestamp() + ttl, value = COALESCE($3::bytea, value)
    WHERE election = $1 AND lease = $2 AND ends > clock_timestamp()
    RETURNING CASE WHEN $3::bytea IS NOT NULL THEN pg_notify('pole_elect_' || md5($1), $2) END";

const WITHDRAW: &str = "DELETE FROM pole_elect_lease WHERE election = $1 AND lease = $2
    RETURNING pg_notify('pole_elect_' || md5($1), $2)";

macro_rules! swap_statement {
    ($change:literal) => {
        concat!(
            "WITH ended AS (
                DELETE FROM pole_elect_lease WHERE election = $1 AND lease = $5 AND ends <= clock_timestamp()
                RETURNING lease),
            state AS (SELECT
                (SELECT revision FROM pole_elect_record WHERE election = $1 AND name = $2) AS present,
                EXISTS (SELECT 1 FROM pole_elect_lease WHERE election = $1 AND lease = $5)
                    AND NOT EXISTS (SELECT 1 FROM ended) AS held,
                $6::text IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pole_elect_lease
                    WHERE election = $1 AND lease = $6 AND ends > clock_timestamp()) AS lease_gone),
            changed AS (",
            $change,
            " RETURNING revision, pg_notify('pole_elect_' || md5($1), $2) AS notified)
            SELECT (SELECT revision FROM changed), present, held, lease_gone FROM state"
        )
    };
}

const UPDATE_RECORD: &str = swap_statement!(
    "UPDATE pole_elect_record AS record SET value = $3, revision = nextval('pole_elect_revision') FROM state
        WHERE record.election = $1 AND record.name = $2 AND record.revision = $4::bigint
        AND NOT state.held AND NOT state.lease_gone"
);

const CREATE_RECORD: &str = swap_statement!(
    "INSERT INTO pole_elect_record (election, name, value, revision)
        SELECT $1, $2, $3, nextval('pole_elect_revision') FROM state
        WHERE $4::bigint IS NULL AND NOT held AND NOT lease_gone
        ON CONFLICT DO NOTHING"
);

const TTL_MAX: Duration = Duration::from_secs(86_400);

/// Notifications that a slow watch may have outstanding; one that misses some reads the state again.
const CHANGES_MAX: usize = 64;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A dead server is noticed after about four times this.
const KEEPALIVE: Duration = Duration::from_secs(5);
