//! The configuration of one server. It is parsed and validated elsewhere, and trusted here.

use pole_oracle::{DIRECT_ACKS_MARGIN, ResignConfig};
use pole_types::{Membership, ServerId, Span, Voters};
use pole_zab::Limits;

/// The settings of one server. Names and defaults are those of the configuration keys.
#[derive(Clone, Debug)]
pub struct Config {
    pub me: ServerId,
    /// The servers of the ensemble, this one among them.
    pub members: Membership,
    /// Distinguishes the starts of this server, so that attachment numbers are not reused.
    pub incarnation: u32,
    /// `pole.electionTimeoutMs`: how long an election waits for servers that do not answer.
    pub election_timeout: Span,
    /// `pole.firstScoreWaitMs`: how long the first election waits for measurements.
    pub first_score_wait: Span,
    /// `pole.heartbeatMs`: the interval between measurements.
    pub heartbeat: Span,
    /// `pole.oracle.rateHalfLifeMs`: the half-life of the measured request rate.
    pub rate_half_life: Span,
    /// `pole.livenessMs`: the interval between liveness messages.
    pub liveness: Span,
    /// `pole.livenessTimeoutMs`: the minimum silence after which a peer is considered lost.
    pub liveness_timeout: Span,
    /// `syncLimit`: caps the adaptive liveness timeout.
    pub sync_limit: Span,
    /// `initLimit`: how long a synchronisation may make no progress.
    pub init_limit: Span,
    /// `pole.patienceMs`: how long client connections are kept without a leader.
    pub patience: Span,
    /// `tickTime`: how much of a pause of the leader's own process counts towards the expiry of sessions.
    pub tick: Span,
    /// `znode.container.checkIntervalMs`: the interval between the leader's checks for expired containers and TTL
    /// nodes.
    pub chores_every: Span,
    /// `znode.container.maxPerMinute`: how many of these nodes are deleted in a minute.
    pub containers_per_minute: u64,
    /// `fsync.warningthresholdms`: a write that takes longer is reported.
    pub slow_write: Span,
    /// How long the disk may take before it counts as hung.
    pub disk_timeout: Span,
    /// The minimum time that a new leader is given to gather its quorum.
    pub establish_floor: Span,
    /// How long a hand-over may wait for the target to catch up.
    pub drain_limit: Span,
    /// The minimum time between two epochs that a leader opens because a follower promised a higher one.
    pub reopen_pause: Span,
    /// `pole.diffRetainMb`, in bytes: how much log is kept in memory for differences.
    pub retain_bytes: usize,
    /// `snapCount`: the number of transactions between two snapshots.
    pub snapshot_every: u64,
    /// `snapSizeLimitInKb`, in bytes: a snapshot is started when the log written since the last one exceeds a random
    /// value between half of this limit and the limit. `None`: the size of the log does not matter.
    pub snapshot_bytes: Option<u64>,
    /// The maximum number of proposals under way. Further requests wait in their queue.
    pub outstanding_max: usize,
    /// `pole.directAcks`: a follower counts acknowledgements itself if its clients gain more than this; `None`: never.
    pub direct_acks: Option<Span>,
    /// `pole.resign` and `pole.resign.*`: when the leader resigns in favour of a better one.
    pub resign: ResignConfig,
    /// Limits of the agreement.
    pub limits: Limits,
}

impl Config {
    /// The defaults for a server of an ensemble.
    #[must_use]
    pub fn new(me: ServerId, members: impl Into<Membership>) -> Self {
        Self {
            me,
            members: members.into(),
            incarnation: 0,
            election_timeout: Span::from_ms(200),
            first_score_wait: Span::from_ms(100),
            heartbeat: Span::from_ms(1_000),
            rate_half_life: Span::from_ms(10_000),
            liveness: Span::from_ms(50),
            liveness_timeout: Span::from_ms(400),
            sync_limit: Span::from_ms(10_000),
            init_limit: Span::from_ms(20_000),
            patience: Span::from_ms(10_000),
            tick: Span::from_ms(2_000),
            chores_every: Span::from_ms(60_000),
            containers_per_minute: 10_000,
            slow_write: Span::from_ms(1_000),
            disk_timeout: Span::from_ms(1_000),
            establish_floor: Span::from_ms(50),
            drain_limit: Span::from_ms(2_000),
            reopen_pause: Span::from_ms(1_000),
            retain_bytes: 256 << 20,
            snapshot_every: 100_000,
            snapshot_bytes: Some(4 << 30),
            outstanding_max: 1_000,
            direct_acks: Some(DIRECT_ACKS_MARGIN),
            resign: ResignConfig::default(),
            limits: Limits::default(),
        }
    }

    /// The servers that vote.
    #[must_use]
    pub fn voters(&self) -> &Voters {
        self.members.voters()
    }
}
