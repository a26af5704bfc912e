//! What a server is told at its start. Parsed elsewhere, once; here it is trusted.

use pole_election::{ServerId, Span, Voters};
use pole_oracle::ResignConfig;
use pole_zab::Limits;

/// The settings of one server. Names and defaults are those of the configuration keys.
#[derive(Clone, Debug)]
pub struct Config {
    /// This server.
    pub me: ServerId,
    /// All servers that vote.
    pub voters: Voters,
    /// Tells the starts of this server apart, so that numbers given to connections are not given twice.
    pub incarnation: u32,
    /// `pole.electionTimeoutMs`: how long an election waits for the silent.
    pub election_timeout: Span,
    /// `pole.firstScoreWaitMs`: how long the first election waits for measurements.
    pub first_score_wait: Span,
    /// `pole.heartbeatMs`: between measurements.
    pub heartbeat: Span,
    /// `pole.oracle.rateHalfLifeMs`: how fast the measured rate of requests forgets.
    pub rate_half_life: Span,
    /// `pole.livenessMs`: between liveness messages.
    pub liveness: Span,
    /// `pole.livenessTimeoutMs`: the least silence after which a peer is given up.
    pub liveness_timeout: Span,
    /// `syncLimit`: caps the adaptive liveness timeout.
    pub sync_limit: Span,
    /// `initLimit`: how long a synchronisation may make no progress.
    pub init_limit: Span,
    /// `pole.patienceMs`: how long clients are kept without a leader.
    pub patience: Span,
    /// `tickTime`: what a leader that stood still counts of its pause when it lets sessions expire.
    pub tick: Span,
    /// `znode.container.checkIntervalMs`: between the leader's looks at what is due by the calendar.
    pub chores_every: Span,
    /// How long the disk may take before it counts as hung.
    pub disk_timeout: Span,
    /// The least patience with a leader that gathers its quorum.
    pub establish_floor: Span,
    /// How long a hand-over may wait for the target to be level.
    pub drain_limit: Span,
    /// The least time between two epochs that a leader opens because it was outbid.
    pub reopen_pause: Span,
    /// `pole.diffRetainMb`: how much log is kept in memory for differences, in bytes.
    pub retain_bytes: usize,
    /// `snapCount`: transactions between two snapshots.
    pub snapshot_every: u64,
    /// `snapSizeLimitInKb`, in bytes: a snapshot is begun when between half of this and this much log was written since
    /// the last one. None: the size of the log does not matter.
    pub snapshot_bytes: Option<u64>,
    /// Proposals under way at most; further requests wait in their queue.
    pub outstanding_max: usize,
    /// `pole.resign` and `pole.resign.*`: when the leader gives way to a better one.
    pub resign: ResignConfig,
    /// Bounds of the agreement.
    pub limits: Limits,
}

impl Config {
    /// The defaults for a server of an ensemble.
    #[must_use]
    pub fn new(me: ServerId, voters: Voters) -> Self {
        Self {
            me,
            voters,
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
            disk_timeout: Span::from_ms(1_000),
            establish_floor: Span::from_ms(50),
            drain_limit: Span::from_ms(2_000),
            reopen_pause: Span::from_ms(1_000),
            retain_bytes: 256 << 20,
            snapshot_every: 100_000,
            snapshot_bytes: Some(4 << 30),
            outstanding_max: 1_000,
            resign: ResignConfig::default(),
            limits: Limits::default(),
        }
    }
}
