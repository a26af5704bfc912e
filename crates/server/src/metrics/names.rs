//! The summaries and counters with the names that Apache's server exports.
//!
//! Each has one row here; `mntr`, `/commands/monitor` and `/metrics` follow from the rows. `docs/admin.md` lists all names
//! of Apache, with the place where each is measured or the reason why it is absent, and a test compares that list with
//! what a server exports.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use pole_types::{ServerId, Span, Time};

use super::summary::{Distribution, LazySamples, SharedSamples};

/// Defines an enum whose variants have a text each, and the list of all of them.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            pub(crate) const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

named! {
    /// A summary. Times are recorded in microseconds and shown in milliseconds, Apache's unit.
    Summary {
        /// How long a write to the log took, sync included.
        FsyncTime = "fsynctime",
        SnapshotTime = "snapshottime",
        /// Loading snapshot and log at start.
        DbInitTime = "dbinittime",
        StartupSnapLoadTime = "startup_snap_load_time",
        StartupTxnsLoadTime = "startup_txns_load_time",
        StartupTxnsLoaded = "startup_txns_loaded",
        /// From the request to the reply, for everything that is not a write.
        ReadLatency = "readlatency",
        /// From the request to the reply, for writes of this server's clients.
        UpdateLatency = "updatelatency",
        /// Follower: from the leader's time stamp to the arrival of the proposal.
        ProposalLatency = "proposal_latency",
        /// From the leader's time stamp to a durable log here.
        ProposalAckCreationLatency = "proposal_ack_creation_latency",
        /// Leader: from proposing to the acknowledgements of a quorum.
        QuorumAckLatency = "quorum_ack_latency",
        /// Follower: from the leader's time stamp to the arrival of the commit.
        CommitPropagationLatency = "commit_propagation_latency",
        /// From the leader's time stamp until applied here.
        PropagationLatency = "propagation_latency",
        ElectionTime = "election_time",
        /// Follower: from following a leader to serving.
        FollowerSyncTime = "follower_sync_time",
        /// From losing a leader to serving under one.
        UnavailableTime = "unavailable_time",
        /// The same, on the server that leads afterwards.
        LeaderUnavailableTime = "leader_unavailable_time",
        /// Followers that are being synchronised with a snapshot, at the beginning and end of each.
        InflightSnapCount = "inflight_snap_count",
        InflightDiffCount = "inflight_diff_count",
        /// Transactions per write to the log.
        SyncProcessorBatchSize = "sync_processor_batch_size",
        SyncProcessorQueueFlushTime = "sync_processor_queue_flush_time_ms",
        /// From handing a transaction to the disk to a durable log.
        SyncProcessorQueueAndFlushTime = "sync_processor_queue_and_flush_time_ms",
        /// Connections that one event was sent to.
        NodeCreatedWatchCount = "node_created_watch_count",
        NodeDeletedWatchCount = "node_deleted_watch_count",
        NodeChangedWatchCount = "node_changed_watch_count",
        NodeChildrenWatchCount = "node_children_watch_count",
        /// Tokens that the bucket lacked after a client got a session.
        ConnectionTokenDeficit = "connection_token_deficit",
        /// Turning the state into that of a backup.
        RestoreTime = "restore_time",
    }
}

/// The name of the summary that has one distribution for each server: leader, from proposing to its acknowledgement.
pub(crate) const ACK_LATENCY: &str = "ack_latency";

named! {
    /// A counter.
    Counter {
        /// Leader: transactions proposed.
        ProposalCount = "proposal_count",
        /// Leader: transactions committed.
        CommitCount = "commit_count",
        LearnerProposalReceivedCount = "learner_proposal_received_count",
        LearnerCommitReceivedCount = "learner_commit_received_count",
        /// Leader: followers synchronised without a snapshot.
        DiffCount = "diff_count",
        /// Leader: followers synchronised with a snapshot.
        SnapCount = "snap_count",
        /// Leader: sessions resumed through a follower.
        RevalidateCount = "revalidate_count",
        /// Leader: sessions that expired.
        StaleSessionsExpired = "stale_sessions_expired",
        /// Transactions handed to the disk.
        SyncProcessorRequestQueued = "sync_processor_request_queued",
        ConnectionRequestCount = "connection_request_count",
        /// Connections that asked to resume a session.
        ConnectionRevalidateCount = "connection_revalidate_count",
        ConnectionDropCount = "connection_drop_count",
        /// Connections closed because there was no leader, or no quorum.
        CnxnClosedWithoutZkServerRunning = "cnxn_closed_without_zk_server_running",
        /// Auth requests that were refused, except those of the scheme `ensemble`.
        AuthFailedCount = "auth_failed_count",
        /// Clients that expect an ensemble of this name.
        EnsembleAuthSuccess = "ensemble_auth_success",
        /// Clients that expect an ensemble of another name.
        EnsembleAuthFail = "ensemble_auth_fail",
        /// Clients that name no ensemble, or any if none is configured.
        EnsembleAuthSkip = "ensemble_auth_skip",
        /// Connections closed because of `largeRequestMaxBytes`.
        LargeRequestsRejected = "large_requests_rejected",
        /// Requests answered with `ThrottledOp`.
        ThrottledOps = "throttled_ops",
        UnsuccessfulHandshake = "unsuccessful_handshake",
        WatchBytes = "watch_bytes",
        UnrecoverableErrorCount = "unrecoverable_error_count",
        NonMtlsRemoteConnCount = "non_mtls_remote_conn_count",
        NonMtlsLocalConnCount = "non_mtls_local_conn_count",
        /// Backups that were not sent to their end.
        SnapshotErrorCount = "snapshot_error_count",
        SnapshotRateLimitedCount = "snapshot_rate_limited_count",
        /// Backups that could not be restored.
        RestoreErrorCount = "restore_error_count",
        RestoreRateLimitedCount = "restore_rate_limited_count",
    }
}

impl Summary {
    /// Whether `mntr` shows percentiles and `/metrics` more than the median.
    pub(crate) fn is_detailed(self) -> bool {
        matches!(
            self,
            Self::ReadLatency
                | Self::UpdateLatency
                | Self::ProposalLatency
                | Self::ProposalAckCreationLatency
                | Self::QuorumAckLatency
                | Self::CommitPropagationLatency
                | Self::PropagationLatency
                | Self::SyncProcessorQueueFlushTime
                | Self::SyncProcessorQueueAndFlushTime
        )
    }

    /// Whether the values are numbers of something instead of times.
    pub(crate) fn is_plain(self) -> bool {
        matches!(
            self,
            Self::StartupTxnsLoaded
                | Self::InflightSnapCount
                | Self::InflightDiffCount
                | Self::SyncProcessorBatchSize
                | Self::NodeCreatedWatchCount
                | Self::NodeDeletedWatchCount
                | Self::NodeChangedWatchCount
                | Self::NodeChildrenWatchCount
                | Self::ConnectionTokenDeficit
        )
    }
}

/// The summaries of a server, except [`Summary::ReadLatency`] and [`Summary::UpdateLatency`], which `tally` keeps.
#[derive(Debug, Default)]
pub(crate) struct Summaries {
    by_name: [SharedSamples; Summary::ALL.len()],
    /// [`ACK_LATENCY`]; one for each voter at most.
    ack_latency: Mutex<BTreeMap<ServerId, LazySamples>>,
}

impl Summaries {
    /// Records `count` equal values.
    pub(crate) fn record(&self, summary: Summary, value: u64, count: u64, now: Time) {
        self.by_name[summary as usize].record(value, count, now);
    }

    /// Records the same time for `count` things.
    pub(crate) fn record_time(&self, summary: Summary, time: Span, count: u64, now: Time) {
        self.record(summary, time.as_us(), count, now);
    }

    pub(crate) fn record_ack(&self, server: ServerId, time: Span, count: u64, now: Time) {
        self.ack_latency.lock().entry(server).or_default().record(time.as_us(), count, now);
    }

    pub(crate) fn distribution(&self, summary: Summary, now: Time) -> Distribution {
        self.by_name[summary as usize].distribution(now)
    }

    /// [`ACK_LATENCY`] by server.
    pub(crate) fn ack_latency(&self, now: Time) -> Vec<(ServerId, Distribution)> {
        let distribution = |samples: &LazySamples| {
            let mut total = Distribution::default();
            samples.add_to(&mut total, now);
            total
        };
        self.ack_latency.lock().iter().map(|(id, samples)| (*id, distribution(samples))).collect()
    }

    pub(crate) fn reset(&self) {
        self.by_name.iter().for_each(SharedSamples::reset);
        self.ack_latency.lock().clear();
    }
}

/// The counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Counters([AtomicU64; Counter::ALL.len()]);

impl Counters {
    pub(crate) fn add(&self, counter: Counter, count: u64) {
        if count > 0 {
            self.0[counter as usize].fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn reset(&self) {
        self.0.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}

/// The sizes of proposals in bytes. `None` before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProposalSizes {
    pub(crate) last: usize,
    pub(crate) min: usize,
    pub(crate) max: usize,
}

impl ProposalSizes {
    /// Adds the size of another proposal.
    pub(crate) fn add(sizes: &mut Option<Self>, size: usize) {
        let before = sizes.unwrap_or(Self { last: size, min: size, max: size });
        *sizes = Some(Self { last: size, min: before.min.min(size), max: before.max.max(size) });
    }
}
