//! The fsync times of this server: the median, for scores, and the 99th percentile, for timeouts.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use pole_types::Span;

/// The last fsyncs of this server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DiskTimes {
    /// Newest last.
    window: VecDeque<Span>,
}

impl DiskTimes {
    /// Records the time of one fsync.
    pub fn record(&mut self, took: Span) {
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(took);
    }

    /// The given percentile of the last fsyncs, or zero if none was measured.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Span {
        let mut sorted: Vec<Span> = self.window.iter().copied().collect();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent.min(100)).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or(Span::ZERO)
    }
}

/// The number of fsyncs kept. The 99th percentile of 256 is the third slowest, so a single outlier does not affect it.
const WINDOW: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hiccup_moves_neither_the_median_nor_the_99th_percentile() {
        let mut times = DiskTimes::default();
        assert_eq!(times.percentile(99), Span::ZERO);
        (0..255).for_each(|us| times.record(Span::from_us(us)));
        times.record(Span::from_ms(700));
        assert_eq!(times.percentile(50), Span::from_us(127));
        assert_eq!(times.percentile(99), Span::from_us(253));
        assert_eq!(times.percentile(100), Span::from_ms(700));
    }
}
