//! The settings that the threads of a server use often, derived from the configuration once.

use std::sync::Arc;
use std::time::Duration;

use pole_node::{Authentication, BucketSettings, KerberosNames, Limits, SaslMechanism, SaslUsers};
use pole_tree::{AuthSettings, Rules};
use pole_types::{ServerId, Span};

use crate::config::{Config, FourLetterWords, Service};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) me: ServerId,
    pub(crate) rules: Rules,
    /// Limits of one connection.
    pub(crate) limits: Limits,
    /// Unread output over all connections.
    pub(crate) output_bytes_max: usize,
    /// Connections that have not sent their first request.
    pub(crate) greetings_max: usize,
    pub(crate) handshake_max: Duration,
    /// Whether the certificate of a client must name its address.
    pub(crate) verify_client_host: bool,
    /// `globalOutstandingLimit`: requests that the node has not answered yet.
    pub(crate) outstanding_max: usize,
    /// `largeRequestMaxBytes`: bytes of outstanding large requests.
    pub(crate) large_bytes_max: usize,
    /// `connectionMaxTokens` and what belongs to it.
    pub(crate) connection_tokens: BucketSettings,
    /// `leaderServes`.
    pub(crate) leader_serves: bool,
    /// `maxClientCnxns`; 0 for no limit.
    pub(crate) connections_per_address_max: usize,
    /// `maxCnxns`; 0 for no limit.
    pub(crate) connections_max: usize,
    /// How long after losing the quorum read-only clients are served; `None` for never.
    pub(crate) read_only_after: Option<Span>,
    pub(crate) four_letter_words: FourLetterWords,
    /// The full configuration, for the admin endpoints.
    pub(crate) config: Config,
}

impl Settings {
    pub(crate) fn new(config: &Config) -> Self {
        let count = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let ms = |value: u64| i32::try_from(value).unwrap_or(i32::MAX);
        Self {
            me: config.me(),
            rules: Rules {
                skip_acl: config.service.skip_acl,
                reconfig: config.ensemble.as_ref().is_some_and(|ensemble| ensemble.reconfig),
                standalone: config.ensemble.as_ref().is_none_or(|ensemble| ensemble.standalone),
                sasl: config.service.sasl,
                digest_acls: config.service.digest_enabled,
                enforce_quota: config.service.enforce_quota,
                extended_types: config.service.extended_types,
                path_bytes_max: count(config.service.path_bytes_max),
                depth_max: count(config.service.depth_max),
                ephemerals_max: count(config.service.ephemerals_max),
                watches_max: count(config.clients.watches_max),
                // Twice a request, which is what servers accept from each other.
                txn_bytes_max: count(config.clients.request_bytes_max).saturating_mul(2).max(1 << 20),
            },
            limits: Limits {
                frame_bytes_max: count(config.clients.request_bytes_max),
                session_timeout_min_ms: ms(config.timing.min_session_timeout_ms),
                session_timeout_max_ms: ms(config.timing.max_session_timeout_ms),
                reply_bytes_max: count(config.clients.reply_bytes_max),
                identity_bytes_max: count(config.clients.identity_bytes_max),
                greeting: Span::from_ms(config.clients.greeting_timeout_ms),
                large_request_bytes: config.clients.large_request_bytes.map(count),
                keeps_writes: config.admin.audit,
                throttled_after: config.clients.throttled_after_ms.map(Span::from_ms),
                authentication: Arc::new(authentication(&config.service)),
            },
            output_bytes_max: count(config.clients.output_bytes_max),
            greetings_max: count(config.clients.greetings_max),
            verify_client_host: config.tls.clients.verify_client_host,
            handshake_max: Duration::from_millis(config.tls.handshake_timeout_ms),
            outstanding_max: count(config.clients.throttle_limit.min(config.clients.outstanding_max)),
            large_bytes_max: count(config.clients.large_bytes_max),
            connection_tokens: BucketSettings {
                tokens_max: config.clients.tokens_max,
                fill_time: Span::from_ms(config.clients.token_fill_ms),
                fill_count: config.clients.token_fill_count,
                new_weight: config.clients.new_session_weight,
                resumed_weight: config.clients.resumed_session_weight,
            },
            leader_serves: config.clients.leader_serves,
            connections_per_address_max: count(config.clients.max_per_host),
            connections_max: count(config.clients.max_total),
            // Apache waits as long before it serves read-only clients: two seconds, or a tick if that is longer.
            read_only_after: config.clients.read_only_mode.then(|| Span::from_ms(config.timing.tick_ms.max(2_000))),
            four_letter_words: config.clients.four_letter_words.clone(),
            config: config.clone(),
        }
    }
}

fn authentication(service: &Service) -> Authentication {
    let users = service.sasl_users.as_ref();
    let users = users.map(|users| SaslUsers::new(users.iter().map(|(user, password)| (&**user, &*password.0))));
    let kerberos = service.kerberos.as_ref().map(|kerberos| KerberosNames {
        realm: kerberos.realm().to_owned(),
        remove_host: service.kerberos_remove_host,
        remove_realm: service.kerberos_remove_realm,
    });
    Authentication {
        providers: AuthSettings {
            digest: service.digest_enabled.then_some(service.digest_algorithm),
            super_digest: service.super_digest.as_ref().map(|secret| secret.0.clone()),
            x509_super_user: service.x509_super_user.clone(),
            sasl_super_users: service.sasl_super_users.clone(),
            ensemble_names: service.ensemble_names.clone(),
        },
        sasl: kerberos.map(SaslMechanism::Gssapi).or_else(|| users.map(SaslMechanism::DigestMd5)),
        allow_sasl_failed: service.allow_sasl_failed,
        required_schemes: service.required_schemes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use crate::shared::Shared;

    #[test]
    fn the_smaller_limit_of_requests_under_way_counts() {
        let limit = |lines: &str| Shared::configured(lines).settings.outstanding_max;
        assert_eq!(limit(""), 1_000);
        assert_eq!(limit("requestThrottleLimit=0\n"), 1_000);
        assert_eq!(limit("request_throttle_max_requests=5\n"), 5, "Apache's property");
        assert_eq!(limit("requestThrottleLimit=5000\nglobalOutstandingLimit=20\n"), 20);
    }

    #[test]
    fn tokens_have_weights_if_they_are_enabled() {
        let weights = |lines: &str| {
            let tokens = Shared::configured(lines).settings.connection_tokens;
            (tokens.new_weight, tokens.resumed_weight)
        };
        assert_eq!(weights("connection_throttle_global_session_weight=9\n"), (1, 1));
        assert_eq!(weights("connection_throttle_weight_enabled=true\n"), (3, 2));
    }
}
