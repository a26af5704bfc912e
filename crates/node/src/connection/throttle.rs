//! How many new sessions a server accepts in a time: a bucket of tokens, as Apache's connection throttling has it.
//!
//! Every request for a session takes tokens, and tokens come back with time. A client that finds too few is
//! disconnected, and tries again or elsewhere. Apache can also drop connections at random before the bucket is empty;
//! Pole does not, because that refuses clients that there is room for.

use pole_types::{Span, Time};

/// A bucket of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    settings: BucketSettings,
    tokens: u64,
    /// Up to when the tokens that time brings have been added.
    filled_until: Time,
}

/// The size of the bucket and how it fills; `zoo.cfg` names the values as given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketSettings {
    /// `connectionMaxTokens`: the size. 0 means no limit.
    pub tokens_max: u64,
    /// `connectionTokenFillTime`: how often tokens come back.
    pub fill_time: Span,
    /// `connectionTokenFillCount`: how many each time.
    pub fill_count: u64,
    /// `connection_throttle_global_session_weight`: what a new session takes.
    pub new_weight: u64,
    /// `connection_throttle_renew_session_weight`: what a resumed session takes, which is cheaper.
    pub resumed_weight: u64,
}

impl TokenBucket {
    /// A full bucket.
    #[must_use]
    pub fn new(settings: BucketSettings, now: Time) -> Self {
        Self { settings, tokens: settings.tokens_max, filled_until: now }
    }

    /// Takes the tokens for a session, and returns how many the bucket lacks then. `None` if there are too few; nothing
    /// is taken then.
    pub fn take(&mut self, resumes: bool, now: Time) -> Option<u64> {
        let BucketSettings { tokens_max, new_weight, resumed_weight, .. } = self.settings;
        if tokens_max == 0 {
            return Some(0);
        }
        self.fill(now);
        self.tokens = self.tokens.checked_sub(if resumes { resumed_weight } else { new_weight })?;
        Some(tokens_max - self.tokens)
    }

    /// Whether there is a limit at all.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.settings.tokens_max > 0
    }

    fn fill(&mut self, now: Time) {
        let BucketSettings { tokens_max, fill_time, fill_count, .. } = self.settings;
        let fills = (now - self.filled_until).0 / fill_time.0.max(1);
        self.filled_until = self.filled_until + Span(fills * fill_time.0);
        self.tokens = self.tokens.saturating_add(fills.saturating_mul(fill_count)).min(tokens_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: BucketSettings =
        BucketSettings { tokens_max: 4, fill_time: Span::from_ms(10), fill_count: 2, new_weight: 1, resumed_weight: 1 };

    fn ms(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    #[test]
    fn a_burst_empties_it_and_time_fills_it() {
        let mut bucket = TokenBucket::new(SETTINGS, ms(0));
        let taken = |bucket: &mut TokenBucket, now| (0..10).filter(|_| bucket.take(false, now).is_some()).count();
        assert_eq!(taken(&mut bucket, ms(0)), 4);
        assert_eq!(taken(&mut bucket, ms(9)), 0);
        assert_eq!(taken(&mut bucket, ms(10)), 2);
        assert_eq!(taken(&mut bucket, ms(25)), 2);
        assert_eq!(taken(&mut bucket, ms(30)), 2, "the time from 20 to 25 is not lost");
        assert_eq!(taken(&mut bucket, ms(1_000_000)), 4, "never more than its size");
    }

    #[test]
    fn a_resumed_session_may_take_less() {
        let settings = BucketSettings { new_weight: 3, resumed_weight: 2, ..SETTINGS };
        let mut bucket = TokenBucket::new(settings, ms(0));
        assert_eq!(bucket.take(true, ms(0)), Some(2));
        assert_eq!(bucket.take(false, ms(0)), None);
        assert_eq!(bucket.take(true, ms(0)), Some(4), "the attempt before took nothing");
    }

    #[test]
    fn without_a_size_there_is_no_limit() {
        let mut bucket = TokenBucket::new(BucketSettings { tokens_max: 0, ..SETTINGS }, ms(0));
        assert!((0..1_000).all(|_| bucket.take(false, ms(0)).is_some()));
    }
}
