//! What the threads of a server look up again and again, drawn from the configuration once.

use std::time::Duration;

use pole_election::{ServerId, Span};
use pole_node::Limits;
use pole_tree::Rules;

use crate::config::{Config, Words};

/// Limits and switches.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) me: ServerId,
    /// How many servers vote.
    pub(crate) voters: usize,
    pub(crate) rules: Rules,
    /// What a connection may cost.
    pub(crate) limits: Limits,
    /// What clients may leave unread, over all connections.
    pub(crate) output_bytes_max: usize,
    /// Connections whose first request has not arrived.
    pub(crate) greetings_max: usize,
    /// How long a TLS handshake may take.
    pub(crate) handshake_max: Duration,
    /// `globalOutstandingLimit`: requests that the node owes an answer.
    pub(crate) outstanding_max: usize,
    /// `maxClientCnxns`; 0 for no limit.
    pub(crate) connections_per_address_max: usize,
    /// `maxCnxns`; 0 for no limit.
    pub(crate) connections_max: usize,
    pub(crate) x509_super_user: Option<String>,
    /// Clients may read after so long without a quorum; none: never.
    pub(crate) read_only_after: Option<Span>,
    pub(crate) words: Words,
    /// All of it, for those who look.
    pub(crate) config: Config,
}

impl Settings {
    pub(crate) fn new(config: &Config) -> Self {
        let count = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let ms = |value: u64| i32::try_from(value).unwrap_or(i32::MAX);
        Self {
            me: config.me(),
            voters: config.voters().len(),
            rules: Rules {
                skip_acl: config.service.skip_acl,
                enforce_quota: config.service.enforce_quota,
                extended_types: config.service.extended_types,
                path_bytes_max: count(config.service.path_bytes_max),
                ephemerals_max: count(config.service.ephemerals_max),
                watches_max: count(config.clients.watches_max),
                // As much more than a request as servers accept from each other.
                txn_bytes_max: count(config.clients.request_bytes_max).saturating_mul(2).max(1 << 20),
            },
            limits: Limits {
                frame_bytes_max: count(config.clients.request_bytes_max),
                session_timeout_min_ms: ms(config.timing.min_session_timeout_ms),
                session_timeout_max_ms: ms(config.timing.max_session_timeout_ms),
                reply_bytes_max: count(config.clients.reply_bytes_max),
                identity_bytes_max: count(config.clients.identity_bytes_max),
                greeting: Span::from_ms(config.clients.greeting_timeout_ms),
                super_digest: config.service.super_digest.as_ref().map(|secret| secret.0.clone()),
            },
            output_bytes_max: count(config.clients.output_bytes_max),
            greetings_max: count(config.clients.greetings_max),
            handshake_max: Duration::from_millis(config.tls.handshake_timeout_ms),
            outstanding_max: count(config.clients.outstanding_max),
            connections_per_address_max: count(config.clients.max_per_host),
            connections_max: count(config.clients.max_total),
            x509_super_user: config.service.x509_super_user.clone(),
            // As Apache waits before it serves readers: two seconds, or a tick if that is longer.
            read_only_after: config.clients.read_only_mode.then(|| Span::from_ms(config.timing.tick_ms.max(2_000))),
            words: config.clients.words.clone(),
            config: config.clone(),
        }
    }
}
