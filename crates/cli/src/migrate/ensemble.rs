//! The ensemble of Apache and the directory of the copy, from two configurations.

use std::sync::Arc;
use std::time::Duration;

use pole_migrate::{ApacheServer, Encryption, Follow, FollowError, Limits, Replica, ReplicaError};
use pole_server::config::{Config, Identity, MemberRole};
use pole_server::tls::PeerTls;
use pole_storage::{OpenError, WriteError, is_following, mark_following};
use pole_types::{ServerId, Voters};

use super::args::FollowArgs;
use crate::failure::{Failure, Kind};
use crate::server::kind_of_disk;

/// What `follow` and `take-over` work with.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) follow: Follow,
    pub(super) voters: Voters,
    pub(super) tick: Duration,
    /// The configuration of the Pole server.
    pub(super) config: Config,
}

impl Source {
    pub(super) fn load(args: &FollowArgs) -> Result<Self, Failure> {
        let file = args.apache.display();
        let bad = |error: String| Failure::bad_input(error);
        let (apache, _) = Config::load_source(&args.apache).map_err(|error| bad(error.to_string()))?;
        let (config, _) = Config::load_as(&args.config, Identity::Any).map_err(|error| bad(error.to_string()))?;
        let Some(ensemble) = &apache.ensemble else {
            return Err(bad(format!("{file} has no server.N: a server without others is moved in place")));
        };
        if apache.storage.data_dir == config.storage.data_dir || apache.storage.log_dir == config.storage.log_dir {
            return Err(bad(format!(
                "{file} and {} have the same directory: a copy needs one of its own",
                args.config.display()
            )));
        }
        if ensemble.members.servers.contains_key(&ServerId(args.id)) {
            return Err(bad(format!("--id {}: the ensemble has a server with this id; choose another", args.id)));
        }
        let port = apache.clients.plain.as_ref().map(|address| address.port);
        let servers = ensemble.members.servers.iter().map(|(id, server)| {
            let given = args.client.iter().find(|client| client.id == id.0).map(|c| (c.host.clone(), c.port));
            let listed = server.client.as_ref().map(|client| {
                let host = if client.is_wildcard() { &server.host } else { &client.host };
                (host.clone(), client.port)
            });
            let client =
                given.or(listed).or_else(|| port.map(|port| (server.host.clone(), port))).ok_or_else(|| {
                    bad(format!("{file} has no clientPort for server {id}: say where it serves clients with --client"))
                })?;
            Ok(ApacheServer {
                id: *id,
                host: server.host.clone(),
                quorum_port: server.quorum_port,
                election_port: server.election_port,
                client,
                votes: server.role == MemberRole::Participant,
            })
        });
        let tick = Duration::from_millis(apache.timing.tick_ms);
        let ticks = |count: u64| tick.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        let follow = Follow {
            servers: servers.collect::<Result<_, Failure>>()?,
            id: ServerId(args.id),
            init_limit: ticks(apache.timing.init_limit),
            sync_limit: ticks(apache.timing.sync_limit),
            limits: Limits::default(),
            encryption: encryption(&apache).map_err(|error| bad(format!("{file}: {error}")))?,
        };
        Ok(Self { follow, voters: apache.voters(), tick, config })
    }

    /// Opens the copy, and marks its directory so that no server starts on it.
    pub(super) fn open(&self) -> Result<Replica, Failure> {
        let storage = &self.config.storage;
        let file = |error: pole_storage::FileError| Failure::failed(error.to_string());
        let history = [&storage.data_dir, &storage.log_dir].map(|dir| dir.join("version-2"));
        if !is_following(&storage.data_dir).map_err(file)?
            && let Some(dir) = history.iter().find(|dir| dir.exists())
        {
            return Err(Failure::bad_input(format!(
                "{} has a history that is no copy of `pole migrate`: move it away, or choose another dataDir",
                dir.display()
            )));
        }
        mark_following(&storage.data_dir).map_err(file)?;
        let config = pole_storage::Config {
            data_log_dir: storage.log_dir.clone(),
            preallocate_bytes: PREALLOCATE_BYTES,
            ..pole_storage::Config::in_dir(&storage.data_dir)
        };
        Replica::open(config).map_err(|error| refused(&error))
    }
}

/// TLS as the servers of the ensemble use it between each other, with their key and trust stores.
fn encryption(apache: &Config) -> Result<Option<Encryption>, pole_server::tls::Error> {
    if !apache.tls.between_servers {
        return Ok(None);
    }
    let tls = PeerTls::open(&apache.tls.peers)?;
    Ok(Some(Encryption(Arc::new(move |socket, host| Ok(Box::new(tls.connect(socket, host, HANDSHAKE_LIMIT)?))))))
}

fn refused(error: &OpenError) -> Failure {
    let advice = match error {
        OpenError::InUse { .. } => ". Is `pole migrate follow` still running there? Stop it first",
        OpenError::File(_)
        | OpenError::Damaged(_)
        | OpenError::Version { .. }
        | OpenError::Compressed { .. }
        | OpenError::NoSnapshot { .. }
        | OpenError::Misplaced { .. }
        | OpenError::Following { .. } => "",
    };
    Failure::new(kind_of_disk(error), format!("{error}{advice}"))
}

pub(super) fn failed(error: &FollowError) -> Failure {
    match error {
        FollowError::Replica(ReplicaError::Open(error)) => refused(error),
        FollowError::Replica(ReplicaError::Write(WriteError::CutsSnapshot { .. })) => {
            Failure::failed(format!("{error}: the leader has another history; remove the copy and follow again"))
        }
        FollowError::Replica(
            ReplicaError::Write(_) | ReplicaError::Truncation { .. } | ReplicaError::Transaction { .. },
        ) => Failure::failed(error.to_string()),
        FollowError::Protocol(_) => Failure::new(Kind::BadInput, error.to_string()),
    }
}

/// A handshake takes milliseconds of work. A server that does not answer is not waited for while others may lead.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Less than a server reserves: the copy may be copied again, with everything that is reserved.
const PREALLOCATE_BYTES: u64 = 1 << 20;
