//! The delay of a link as a distribution: its mean, its jitter, its bounds, and that it is a pure function.

use pole_topology::Link;
use proptest::prelude::*;

fn link(rtt_ns: u64, jitter_ppm: u64) -> Link {
    Link { rtt_ns, jitter_ppm, loss_ppm: 0, bandwidth_bps: 940_000_000, window_bytes: 4 << 20 }
}

/// Delays for evenly spaced random numbers: an integral rather than a sample, so that the tests do not depend on
/// chance.
fn spread(link: Link) -> Vec<f64> {
    const STEPS: u64 = 1 << 16;
    (0..STEPS).map(|step| link.delay(step * (u64::MAX / STEPS) + (u64::MAX / STEPS / 2)) as f64).collect()
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    (mean, variance.sqrt())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_mean_of_the_delay_is_half_the_round_trip_and_its_deviation_the_jitter(
        rtt_ns in 100_000_u64..1_000_000_000,
        jitter_ppm in 1_000_u64..1_000_000,
    ) {
        let (mean, deviation) = mean_and_deviation(&spread(link(rtt_ns, jitter_ppm)));
        let expected = rtt_ns as f64 / 2.0;
        let jitter = expected * jitter_ppm as f64 / 1e6;
        prop_assert!((mean - expected).abs() < 0.002 * jitter + 2.0, "mean {mean}, expected {expected}");
        prop_assert!((deviation - jitter).abs() < 0.01 * jitter + 2.0, "deviation {deviation}, expected {jitter}");
    }

    #[test]
    fn a_delay_lies_between_three_quarters_below_and_five_and_a_half_deviations_above_its_mean(
        rtt_ns in 0_u64..600_000_000_000,
        jitter_ppm in 0_u64..=1_000_000,
        random: u64,
    ) {
        let mean = u128::from(rtt_ns / 2);
        let jitter = mean * u128::from(jitter_ppm) / 1_000_000;
        let delay = u128::from(link(rtt_ns, jitter_ppm).delay(random));
        prop_assert!(delay + jitter * 75 / 100 + 2 >= mean && delay <= mean + jitter * 11 / 2 + 2);
    }

    #[test]
    fn longer_transfers_take_longer_and_never_less_than_a_round_trip(bytes in 0_u64..1 << 40, more in 0_u64..1 << 40) {
        let link = link(20_750_000, 0);
        prop_assert!(link.transfer(bytes) >= 20_750_000);
        prop_assert!(link.transfer(bytes) <= link.transfer(bytes + more));
    }
}

#[test]
fn without_jitter_every_delay_is_half_the_round_trip() {
    for random in [0, 1, u64::MAX / 2, u64::MAX] {
        assert_eq!(link(20_750_000, 0).delay(random), 10_375_000);
    }
}

#[test]
fn the_tail_is_long_on_the_late_side_as_of_pareto() {
    let delays = spread(link(20_750_000, 20_000));
    let (mean, _) = mean_and_deviation(&delays);
    let late = delays.iter().filter(|delay| **delay > mean).count() as f64 / delays.len() as f64;
    assert!((0.29..0.32).contains(&late), "1 / 1.48^3 = 0.308 of all messages are later than the mean: {late}");
}

#[test]
fn the_extremes_of_the_random_number_are_harmless() {
    let link = link(20_750_000, 20_000);
    assert_eq!(link.delay(0), 10_375_000 + 207_500 * 11 / 2, "the tail is cut at 5.5 deviations");
    assert!(link.delay(u64::MAX).abs_diff(10_375_000 - 207_500 * 3 / 4) < 10);
}

#[test]
fn loss_is_never_at_nothing_and_always_at_everything() {
    let mut lossy = link(1, 0);
    assert!(!lossy.lost(0));
    lossy.loss_ppm = 1_000_000;
    assert!(lossy.lost(u64::MAX));
    lossy.loss_ppm = 10_000;
    let lost = (0..1000_u64).filter(|step| lossy.lost((2 * step + 1) * (u64::MAX / 2000))).count();
    assert_eq!(lost, 10, "one in a hundred");
}
