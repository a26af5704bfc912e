//! Counts how often clients ran into each limit: `pole_limit_hits_total`.
//!
//! Without a count a limit cannot be tuned: the operator sees a client fail, but not which limit refused it. Limits of
//! the tree are counted where requests become transactions, which is on the leader.

use std::sync::atomic::{AtomicU64, Ordering};

use pole_node::CloseReason;

/// A limit that is enforced on the threads that serve clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Connections from one address.
    ClientConnections,
    /// Connections in total.
    Connections,
    /// File descriptors that clients may use.
    Descriptors,
    /// Bytes of a request.
    RequestBytes,
    /// Bytes of a reply.
    ReplyBytes,
    /// Bytes that all clients, or one client, have not read.
    OutputBytes,
    /// How long a client may read nothing.
    Stall,
    /// Bytes of a connection's identities.
    IdentityBytes,
    /// The time until the first request.
    GreetingTime,
    /// Connections without a session.
    Greetings,
    /// Outstanding requests of the server; further ones wait.
    Outstanding,
    /// Requests for sessions in a time.
    ConnectionTokens,
    /// Bytes of outstanding large requests.
    LargeRequestBytes,
    /// Long lists for operators, by number and length.
    Lists,
}

impl Limit {
    /// The limit because of which a connection was closed, if that was the reason.
    pub(crate) fn of(reason: CloseReason) -> Option<Self> {
        match reason {
            CloseReason::SlowGreeting => Some(Self::GreetingTime),
            CloseReason::ClientStalled => Some(Self::Stall),
            CloseReason::OutputLimit => Some(Self::OutputBytes),
            CloseReason::GreetingLimit => Some(Self::Greetings),
            CloseReason::TooManyIdentities => Some(Self::IdentityBytes),
            CloseReason::ConnectionThrottled => Some(Self::ConnectionTokens),
            CloseReason::LargeRequest => Some(Self::LargeRequestBytes),
            CloseReason::BadFrame(_) => Some(Self::RequestBytes),
            CloseReason::ByClient
            | CloseReason::SocketFailed
            | CloseReason::FourLetterWordAnswered
            | CloseReason::SessionEnded
            | CloseReason::SessionExpired
            | CloseReason::SessionMoved
            | CloseReason::SessionAttachedAgain
            | CloseReason::SnapshotInstalled
            | CloseReason::NoLeader
            | CloseReason::ClientAhead
            | CloseReason::NoQuorum
            | CloseReason::QuorumRegained
            | CloseReason::WrongPassword
            | CloseReason::AuthenticationFailed
            | CloseReason::SaslFailed(_)
            | CloseReason::AuthenticationRequired
            | CloseReason::OtherEnsemble
            | CloseReason::LeaderDoesNotServe
            | CloseReason::UnknownOperation
            | CloseReason::ReservedXid
            | CloseReason::BadRecord(_)
            | CloseReason::OutOfOrder
            | CloseReason::Stopping => None,
        }
    }

    /// The configuration key, or whatever else sets the limit.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::ClientConnections => "maxClientCnxns",
            Self::Connections => "maxCnxns",
            Self::Descriptors => "ulimit -n",
            Self::RequestBytes => "jute.maxbuffer",
            Self::ReplyBytes => "pole.client.replyBytesMax",
            Self::OutputBytes => "pole.client.outputBytesMax",
            Self::Stall => "session timeout",
            Self::IdentityBytes => "pole.client.identityBytesMax",
            Self::GreetingTime => "pole.client.greetingTimeoutMs",
            Self::Greetings => "pole.client.greetingsMax",
            Self::Outstanding => "globalOutstandingLimit",
            Self::ConnectionTokens => "connectionMaxTokens",
            Self::LargeRequestBytes => "largeRequestMaxBytes",
            Self::Lists => "long lists",
        }
    }

    const ALL: [Self; 14] = [
        Self::ClientConnections,
        Self::Connections,
        Self::Descriptors,
        Self::RequestBytes,
        Self::ReplyBytes,
        Self::OutputBytes,
        Self::Stall,
        Self::IdentityBytes,
        Self::GreetingTime,
        Self::Greetings,
        Self::Outstanding,
        Self::ConnectionTokens,
        Self::LargeRequestBytes,
        Self::Lists,
    ];
}

/// A count for each limit.
#[derive(Debug, Default)]
pub(crate) struct LimitHits([AtomicU64; Limit::ALL.len()]);

impl LimitHits {
    pub(crate) fn add(&self, limit: Limit, count: u64) {
        if count > 0 {
            self.0[limit as usize].fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, limit: Limit) -> u64 {
        self.0[limit as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = (Limit, u64)> {
        Limit::ALL.into_iter().map(|limit| (limit, self.get(limit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_a_place_and_a_name_of_its_own() {
        let hits = LimitHits::default();
        for (count, limit) in (1..).zip(Limit::ALL) {
            hits.add(limit, count);
        }
        let counts: Vec<_> = hits.each().map(|(_, count)| count).collect();
        assert_eq!(counts, (1..=Limit::ALL.len() as u64).collect::<Vec<_>>());
        let mut keys: Vec<_> = hits.each().map(|(limit, _)| limit.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), Limit::ALL.len());
    }
}
