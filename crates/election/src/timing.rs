//! The lengths of the retry timer and the election timer, and their jitter.
//!
//! They follow from the configuration, the round and the measured round trips. Servers that retry in lockstep collide
//! in lockstep, hence the jitter. It is a hash rather than a random number, so that a run can be replayed. Timers are
//! run by the driver.

use crate::{Config, Round};
use pole_types::{ServerId, Span};

/// The delay of retry number `attempt`, from 0: T, doubled each time up to the ceiling, plus up to a quarter of
/// jitter.
pub(crate) fn retry(config: &Config, round: Round, attempt: u32) -> Span {
    let doubled = config.timeout.saturating_mul(1 << attempt.min(DOUBLINGS_MAX)).min(config.retry_max);
    doubled.saturating_add(jitter(config.me, round, attempt, Span(doubled.0 / 4)))
}

/// The length of the election timer. `slowest` is the slowest round trip to a voter that has not responded, or None if
/// one is unknown.
pub(crate) fn wait(config: &Config, round: Round, slowest: Option<Span>) -> Span {
    let Some(slowest) = slowest else { return config.timeout };
    // The quarter covers the variation of a round trip; the constant covers a late scheduler on a fast LAN.
    let bound = Span(slowest.0 / 4).saturating_add(SCHEDULING);
    slowest.saturating_add(SCHEDULING).saturating_add(jitter(config.me, round, 0, bound)).min(config.timeout)
}

fn jitter(me: ServerId, round: Round, attempt: u32, bound: Span) -> Span {
    let seed = [me.0, round.epoch, u64::from(round.failed), u64::from(attempt)];
    let hash = seed.iter().fold(0, |hash, word| mix(hash ^ word));
    Span(hash % bound.0.saturating_add(1).max(1))
}

/// The finaliser of splitmix64: every input bit affects half of the output bits.
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The time that a busy server may need to notice a message.
const SCHEDULING: Span = Span::from_ms(1);

/// After this many retries, a quorum that takes part but does not agree begins a new round with one more failure, so
/// that history decides in the end. With the defaults this takes three seconds.
pub(crate) const STALEMATE_RETRIES: u32 = 4;

/// Retries are counted up to this limit: enough for any ceiling, and the count stays finite for the model checker.
pub(crate) const DOUBLINGS_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use pole_types::Voters;

    fn config(me: u64) -> Config {
        Config::new(ServerId(me), Voters::new((1..=3).map(ServerId)))
    }

    #[test]
    fn retries_double_from_t_up_to_the_ceiling() {
        let config = config(1);
        let round = Round { epoch: 1, failed: 0 };
        for (attempt, ms) in [(0, 200), (1, 400), (2, 800), (3, 1600), (4, 2000), (40, 2000), (u32::MAX, 2000)] {
            let span = retry(&config, round, attempt);
            assert!(span >= Span::from_ms(ms) && span <= Span::from_ms(ms + ms / 4), "{attempt}: {span}");
        }
    }

    #[test]
    fn the_wait_is_t_at_most_and_t_when_a_round_trip_is_not_known() {
        let config = config(1);
        let round = Round::default();
        assert_eq!(wait(&config, round, None), config.timeout);
        assert_eq!(wait(&config, round, Some(Span::from_ms(500))), config.timeout);
        assert_eq!(wait(&config, round, Some(Span(u64::MAX))), config.timeout);
        let lan = wait(&config, round, Some(Span::from_us(100)));
        assert!(lan > Span::from_us(100) && lan < Span::from_ms(3), "{lan}");
    }

    #[test]
    fn servers_do_not_retry_in_step_but_a_server_repeats_itself_exactly() {
        let round = Round { epoch: 4, failed: 1 };
        assert_eq!(retry(&config(1), round, 2), retry(&config(1), round, 2));
        assert_ne!(retry(&config(1), round, 2), retry(&config(2), round, 2));
        assert_ne!(retry(&config(1), round, 4), retry(&config(1), round, 5));
    }
}
