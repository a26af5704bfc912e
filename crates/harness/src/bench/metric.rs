//! The rows of the table, their metrics, and the goals.

use clap::ValueEnum;

/// A row of the table, as named by `--only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Row {
    /// Writes of 1 KiB, 30 sessions with 16 outstanding.
    Writes,
    /// The same with reads.
    Reads,
    /// One session, one outstanding write.
    Latency,
    /// 1 to 100 sessions with one outstanding write each.
    Curve,
    /// Writes that arrive at 200 to 20,000 a second.
    Arrivals,
    /// Three servers with five observers and without.
    Observers,
    /// Time without a write after `kill -9` of the leader.
    Kill,
    /// Time without a write after SIGSTOP of the leader.
    Freeze,
    /// Resident memory.
    Memory,
    /// From the start of the processes to the first write.
    Start,
    /// 1,000 sessions connecting.
    Sessions,
    /// Reads inside one server of Pole, by one thread and by two.
    Scaling,
    /// Elections over a store: `pole-elect` against other libraries. Only if named, because it needs other servers.
    Elect,
    /// How memory, times and pauses grow with znodes, sessions, watches, children and servers. Only if named.
    Growth,
}

/// A measured value, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Metric {
    /// CPU time of all servers for a write.
    WriteCpu,
    /// Acknowledged writes per second.
    WriteRate,
    /// Latency under that load.
    WriteP50,
    /// Latency under that load.
    WriteP99,
    /// The load generator's share of the machine.
    WriteGenerator,
    /// The servers' share of the machine.
    WriteServers,
    /// CPU time of all servers for a read.
    ReadCpu,
    /// Reads per second.
    ReadRate,
    /// Latency under that load.
    ReadP50,
    /// Latency under that load.
    ReadP99,
    /// The load generator's share of the machine.
    ReadGenerator,
    /// The servers' share of the machine.
    ReadServers,
    /// One write at a time, via the leader.
    LeaderP50,
    /// One write at a time, via the leader.
    LeaderP99,
    /// One write at a time, via a follower.
    FollowerP50,
    /// One write at a time, via a follower.
    FollowerP99,
    /// CPU time of all servers for one write at a time.
    LoneCpu,
    /// The disk's share of one write at a time.
    DiskP50,
    /// This many sessions with one outstanding write each.
    CurveP50(u16),
    /// This many sessions with one outstanding write each.
    CurveP99(u16),
    /// CPU time of all servers for a write of these.
    CurveCpu(u16),
    /// Syncs of all servers for a write of these.
    CurveSyncs(u16),
    /// Writes that arrive at this rate.
    ArrivalsP50(u16),
    /// Writes that arrive at this rate.
    ArrivalsP99(u16),
    /// CPU time of all servers for a write of these.
    ArrivalsCpu(u16),
    /// Syncs of all servers for a write of these.
    ArrivalsSyncs(u16),
    /// Writes at a fixed rate beside this many observers.
    ObserversP50(u16),
    /// Writes at a fixed rate beside this many observers.
    ObserversP99(u16),
    /// CPU time of the leader for a write of these.
    ObserversLeaderCpu(u16),
    /// Bytes that the leader sends to one observer for a write of these.
    ObserversBytes(u16),
    /// From the kill to the next write.
    Kill,
    /// From the freeze to the next write.
    Freeze,
    /// An empty server.
    MemoryFresh,
    /// A server after the write load.
    MemoryLoaded,
    /// A server started on many znodes.
    MemoryTree,
    /// Three servers to the first write.
    StartThree,
    /// One server on many znodes to the first write.
    StartTree,
    /// All sessions connected.
    Sessions,
    /// Reads of two threads divided by those of one.
    Scaling,
}

/// The goal that Pole has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    /// At least this many times Apache's value.
    Times(f64),
    /// At most this fraction of Apache's value.
    Part(f64),
    /// At most this fraction of Apache's value, and at most this maximum.
    PartAndMax(f64, f64),
    /// At most this value, independent of Apache.
    Max(f64),
    /// At least this value, independent of Apache.
    Min(f64),
    /// No goal: the value explains others.
    Informative,
}

impl Metric {
    /// The name in the table.
    pub(super) fn name(self) -> String {
        let name = match self {
            Self::CurveP50(writers) => return format!("writers with one write at a time: {writers}, p50"),
            Self::CurveP99(writers) => return format!("writers with one write at a time: {writers}, p99"),
            Self::CurveCpu(writers) => return format!("writers with one write at a time: {writers}, CPU per write"),
            Self::CurveSyncs(writers) => {
                return format!("writers with one write at a time: {writers}, syncs per write");
            }
            Self::ArrivalsP50(rate) => return format!("{rate} writes arrive a second, p50"),
            Self::ArrivalsP99(rate) => return format!("{rate} writes arrive a second, p99"),
            Self::ArrivalsCpu(rate) => return format!("{rate} writes arrive a second, CPU per write"),
            Self::ArrivalsSyncs(rate) => return format!("{rate} writes arrive a second, syncs per write"),
            Self::ObserversP50(count) => return format!("2,000 writes/s, {count} observers, p50"),
            Self::ObserversP99(count) => return format!("2,000 writes/s, {count} observers, p99"),
            Self::ObserversLeaderCpu(count) => {
                return format!("2,000 writes/s, {count} observers, leader's CPU per write");
            }
            Self::ObserversBytes(count) => {
                return format!("2,000 writes/s, {count} observers, bytes per write and observer");
            }
            Self::WriteCpu => "writes: CPU of all servers per write",
            Self::WriteRate => "writes a second",
            Self::WriteP50 => "writes: latency p50",
            Self::WriteP99 => "writes: latency p99",
            Self::WriteGenerator => "writes: load generator, of the machine",
            Self::WriteServers => "writes: servers, of the machine",
            Self::ReadCpu => "reads: CPU of all servers per read",
            Self::ReadRate => "reads a second",
            Self::ReadP50 => "reads: latency p50",
            Self::ReadP99 => "reads: latency p99",
            Self::ReadGenerator => "reads: load generator, of the machine",
            Self::ReadServers => "reads: servers, of the machine",
            Self::LeaderP50 => "one write at a time via the leader, p50",
            Self::LeaderP99 => "one write at a time via the leader, p99",
            Self::FollowerP50 => "one write at a time via a follower, p50",
            Self::FollowerP99 => "one write at a time via a follower, p99",
            Self::LoneCpu => "one write at a time: CPU of all servers",
            Self::DiskP50 => "of these, the disk: two of three files, p50",
            Self::Kill => "no write after kill -9 of the leader",
            Self::Freeze => "no write after SIGSTOP of the leader",
            Self::MemoryFresh => "memory of a server, fresh",
            Self::MemoryLoaded => "memory of a server, after the write load",
            Self::MemoryTree => "memory of a server, 100,000 znodes of 100 B",
            Self::StartThree => "start: three servers to the first write",
            Self::StartTree => "start: one server on the 100,000 znodes",
            Self::Sessions => "1,000 sessions connecting",
            Self::Scaling => "reads inside a server, two threads over one",
        };
        name.to_owned()
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::WriteCpu | Self::ReadCpu | Self::LoneCpu | Self::CurveCpu(_) => "µs",
            Self::ArrivalsCpu(_) | Self::ObserversLeaderCpu(_) => "µs",
            Self::ArrivalsP50(_) | Self::ArrivalsP99(_) | Self::ObserversP50(_) | Self::ObserversP99(_) => "ms",
            Self::CurveSyncs(_) | Self::ArrivalsSyncs(_) => "",
            Self::ObserversBytes(_) => "B",
            Self::WriteRate | Self::ReadRate => "/s",
            Self::WriteGenerator | Self::WriteServers | Self::ReadGenerator | Self::ReadServers => "%",
            Self::MemoryFresh | Self::MemoryLoaded | Self::MemoryTree => "MB",
            Self::WriteP50 | Self::WriteP99 | Self::ReadP50 | Self::ReadP99 => "ms",
            Self::LeaderP50 | Self::LeaderP99 | Self::FollowerP50 | Self::FollowerP99 | Self::DiskP50 => "ms",
            Self::CurveP50(_) | Self::CurveP99(_) => "ms",
            Self::Kill | Self::Freeze | Self::StartThree | Self::StartTree | Self::Sessions => "ms",
            Self::Scaling => "×",
        }
    }

    pub(super) fn goal(self) -> Goal {
        match self {
            Self::WriteCpu | Self::ReadCpu => Goal::Part(1.0 / 3.0),
            Self::WriteRate | Self::ReadRate => Goal::Times(3.0),
            Self::LeaderP50 | Self::LeaderP99 | Self::FollowerP50 | Self::FollowerP99 => Goal::Part(0.5),
            Self::Kill => Goal::PartAndMax(0.1, 50.0),
            Self::Freeze => Goal::Max(1000.0),
            Self::MemoryFresh => Goal::Part(0.125),
            Self::MemoryLoaded | Self::StartThree | Self::StartTree => Goal::Part(0.2),
            Self::MemoryTree | Self::Sessions => Goal::Part(0.25),
            Self::Scaling => Goal::Min(1.7),
            Self::WriteP50 | Self::WriteP99 | Self::ReadP50 | Self::ReadP99 | Self::DiskP50 => Goal::Informative,
            Self::WriteGenerator | Self::WriteServers | Self::ReadGenerator | Self::ReadServers => Goal::Informative,
            Self::CurveP50(1) => Goal::Part(0.5),
            Self::CurveP50(2..=30) => Goal::Part(0.4),
            Self::LoneCpu | Self::CurveP50(_) | Self::CurveP99(_) => Goal::Informative,
            Self::CurveCpu(_) | Self::CurveSyncs(_) => Goal::Informative,
            Self::ArrivalsCpu(_) => Goal::Part(0.25),
            Self::ArrivalsP50(_) | Self::ArrivalsP99(_) | Self::ArrivalsSyncs(_) => Goal::Informative,
            Self::ObserversP50(_) | Self::ObserversP99(_) | Self::ObserversLeaderCpu(_) => Goal::Informative,
            Self::ObserversBytes(_) => Goal::Informative,
        }
    }

    /// For a rate, the generator's share that must be low for the rate to count; none for other metrics.
    pub(super) fn generator_share(self) -> Option<Self> {
        if self == Self::WriteRate {
            Some(Self::WriteGenerator)
        } else if self == Self::ReadRate {
            Some(Self::ReadGenerator)
        } else {
            None
        }
    }
}

impl Goal {
    /// The text in the table.
    pub(super) fn text(self) -> String {
        match self {
            Self::Times(times) => format!("at least {times} ×"),
            Self::Part(part) => format!("at most {}", fraction(part)),
            Self::PartAndMax(part, max) => format!("at most 1/{:.0} and {max:.0}", 1.0 / part),
            Self::Max(max) => format!("at most {max:.0}"),
            Self::Min(min) => format!("at least {min}"),
            Self::Informative => String::new(),
        }
    }

    /// Whether the goal is reached; none if there is no goal, or nothing to compare with.
    pub(super) fn reached(self, pole: f64, apache: Option<f64>) -> Option<bool> {
        match self {
            Self::Times(times) => apache.map(|apache| pole >= times * apache),
            Self::Part(part) => apache.map(|apache| pole <= part * apache),
            Self::PartAndMax(part, max) => apache.map(|apache| pole <= part * apache && pole <= max),
            Self::Max(max) => Some(pole <= max),
            Self::Min(min) => Some(pole >= min),
            Self::Informative => None,
        }
    }
}

/// Above this share of the machine, the generator may limit the rate.
pub(super) const GENERATOR_PERCENT_MAX: f64 = 15.0;

/// A fraction as people write it: 1/3 rather than 0.333, but 0.6.
fn fraction(part: f64) -> String {
    let whole = 1.0 / part;
    if (whole - whole.round()).abs() < 0.01 { format!("1/{whole:.0}") } else { format!("{part:.1}") }
}

#[test]
fn goals_are_reached_at_their_limit_and_missed_beyond() {
    assert_eq!(Goal::Times(3.0).reached(30.0, Some(10.0)), Some(true));
    assert_eq!(Goal::Times(3.0).reached(29.0, Some(10.0)), Some(false));
    assert_eq!(Goal::Part(0.5).reached(5.0, Some(10.0)), Some(true));
    assert_eq!(Goal::Part(0.5).reached(5.1, Some(10.0)), Some(false));
    assert_eq!(Goal::PartAndMax(0.1, 50.0).reached(51.0, Some(1000.0)), Some(false));
    assert_eq!(Goal::PartAndMax(0.1, 50.0).reached(50.0, Some(400.0)), Some(false));
    assert_eq!(Goal::Max(1000.0).reached(999.0, None), Some(true));
    assert_eq!(Goal::Min(1.7).reached(1.7, None), Some(true));
    assert_eq!(Goal::Min(1.7).reached(1.69, None), Some(false));
    assert_eq!(Goal::Part(0.5).reached(5.0, None), None);
}
