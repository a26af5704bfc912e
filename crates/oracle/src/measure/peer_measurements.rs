//! The measurements of another server, reconstructed from its reports.
//!
//! Reports carry scores only for the configured oracle. This module lets an operator ask who would lead under another
//! oracle without switching to it: the inputs of a peer's score are in its report. The value of an external probe is
//! not in a report, so it is unknown.

use alloc::collections::BTreeMap;

use pole_election::Standing;
use pole_types::{ServerId, Span, Time};

use super::{Bandwidths, DiskTimes, Measurements, Report, RequestRate, RoundTrips};
use crate::measure::ReceivedReport;

impl Measurements {
    /// Returns what `peer` measured according to its last report, and its standing, or None if it never reported.
    /// `own` is the current report of this server. For inspection only: in an election a peer scores itself.
    #[must_use]
    pub fn of_peer(&self, peer: ServerId, own: Report, now: Time) -> Option<(Self, Standing)> {
        let report = &self.reports.get(&peer)?.report;
        let mut round_trips = RoundTrips::new(self.config.stale_after());
        for (id, round_trip) in &report.round_trips {
            round_trips.record(*id, *round_trip, now);
        }
        let mut disk = DiskTimes::default();
        disk.record(report.fsync_p50);
        let mut bandwidths = Bandwidths::default();
        report.bandwidths.iter().for_each(|(id, speed)| bandwidths.record(*id, *speed, Span::from_ms(1_000)));
        let mut reports = self.reports.clone();
        reports.remove(&peer);
        reports.insert(self.me, ReceivedReport { report: own, at: now });
        let measured = Self {
            me: peer,
            members: self.members.clone(),
            config: self.config,
            round_trips,
            rate: RequestRate::from_rate(report.rate_milli, self.config.half_life, now),
            bandwidths,
            disk,
            lacking: report.lacking.clone(),
            reports,
            probe: None,
            last: BTreeMap::new(),
        };
        Some((measured, report.standing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gossip, Latency, MeasureConfig, Moment, Oracle, Request};
    use alloc::collections::BTreeSet;
    use pole_types::{Voters, Zxid};

    const NOW: Time = Time(60_000_000_000);

    /// Server `me` of three, with these round trips and `per_second` requests in each of the last sixty seconds.
    fn server(me: u64, round_trips: &[(u64, u64)], per_second: u64) -> Measurements {
        let voters = Voters::new([1, 2, 3].map(ServerId));
        let mut measured = Measurements::new(ServerId(me), voters, MeasureConfig::default());
        (1..=60).for_each(|s| measured.record_requests(per_second, Time(s * 1_000_000_000)));
        for (peer, ms) in round_trips {
            measured.record_round_trip(ServerId(*peer), Span::from_ms(*ms), NOW);
        }
        measured
    }

    fn report(measured: &Measurements) -> Report {
        let unknown = || Gossip::unknown(Zxid::ZERO, 0);
        measured.report(NOW, Standing::default(), unknown(), unknown())
    }

    #[test]
    fn a_peer_is_scored_as_it_scores_itself() {
        let mut all =
            [server(1, &[(2, 10), (3, 30)], 5), server(2, &[(1, 10), (3, 20)], 100), server(3, &[(1, 30), (2, 20)], 0)];
        let reports: [Report; 3] = core::array::from_fn(|i| report(&all[i]));
        for measured in &mut all {
            for (id, report) in (1..).zip(&reports) {
                measured.record_report(ServerId(id), report.clone(), NOW);
            }
        }
        let score = |measured: &Measurements, oracle: &dyn Oracle| {
            let view = measured.view(NOW, None, &BTreeSet::new(), Moment::BeforeResignation, Standing::default());
            oracle.assess(&view, 1).expect("enough is measured").score.components()[0]
        };
        for (id, own) in (1..).zip(&all).skip(1) {
            let (theirs, _) = all[0].of_peer(ServerId(id), reports[0].clone(), NOW).expect("it reported");
            assert!((score(&theirs, &Latency) - score(own, &Latency)).abs() <= 1, "server {id}");
            assert!((score(&theirs, &Request) - score(own, &Request)).abs() <= 1, "server {id}");
        }
    }

    #[test]
    fn a_peer_that_never_reported_has_no_measurements() {
        let one = server(1, &[(2, 10)], 5);
        assert!(one.of_peer(ServerId(2), report(&one), NOW).is_none());
    }
}
