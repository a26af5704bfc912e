//! Maps values to positions on an axis with round tick marks.
//!
//! Linear axes use only the four basic operations and comparisons on floats, which give the same results on every
//! machine, so that the same values give the same picture byte for byte. Logarithms may differ in their last bits, far
//! below the tenth to which positions are rounded.

/// One axis: maps values from `low` to `high` to positions from `from` to `to`.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    is_logarithmic: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// An axis that includes all values, with round ends and about `marks` ticks.
    pub(super) fn round(values: impl Iterator<Item = f64>, with_zero: bool, from: f64, to: f64, marks: usize) -> Self {
        let start = if with_zero { (0.0, 0.0) } else { (f64::INFINITY, f64::NEG_INFINITY) };
        let (low, high) = values.filter(|v| v.is_finite()).fold(start, |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if low > high { (0.0, 1.0) } else { (low, high) };
        let high = if high > low { high } else { low + 1.0 };
        let step = round_step((high - low) / marks.max(1) as f64);
        let first = (low / step).floor();
        let count = ((high / step).ceil() - first) as usize;
        let ticks: Vec<f64> = (0..=count).map(|n| (first + n as f64) * step).collect();
        Self { is_logarithmic: false, low: first * step, high: (first + count as f64) * step, from, to, ticks }
    }

    /// A logarithmic axis that includes all positive values, with ticks at 1, 2 and 5 times powers of ten, or at the
    /// powers alone if there are many.
    pub(super) fn logarithmic(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let positive = values.filter(|v| v.is_finite() && *v > 0.0);
        let (low, high) = positive.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), v| (low.min(v), high.max(v)));
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        let within = |factors: &[f64]| {
            let powers = (-9..=15).map(|power| 10_f64.powi(power));
            let all: Vec<f64> = powers.flat_map(|power| factors.iter().map(move |factor| factor * power)).collect();
            let first = all.iter().rposition(|tick| *tick <= low).unwrap_or(0);
            let last = all.iter().position(|tick| *tick >= high).unwrap_or(all.len() - 1);
            // One value alone still needs an axis.
            all[first..=last.max(first + 1)].to_vec()
        };
        let fine = within(&[1.0, 2.0, 5.0]);
        let ticks = if fine.len() > TICKS_MAX { within(&[1.0]) } else { fine };
        let (low, high) = (ticks[0], ticks[ticks.len() - 1]);
        Self { is_logarithmic: true, low, high, from, to, ticks }
    }

    /// The position of a value. On a logarithmic axis, all that is not positive is at its beginning.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = if self.is_logarithmic {
            (value.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + part * (self.to - self.from)
    }

    /// The label of a tick, with as many decimals as the step between ticks needs.
    pub(super) fn label(&self, tick: f64) -> String {
        if self.is_logarithmic {
            return magnitude(tick);
        }
        let step = self.ticks.get(1).map_or(1.0, |second| second - self.ticks[0]);
        let whole = |power: &f64| {
            let scaled = step * power;
            (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0)
        };
        let decimals = [1.0, 10.0, 100.0, 1000.0].iter().position(whole).unwrap_or(3);
        format!("{tick:.decimals$}")
    }
}

/// A round number with at most three digits and its unit: 0.05, 20, 500k, 5M.
fn magnitude(tick: f64) -> String {
    match tick {
        tick if tick >= 0.999e6 => format!("{:.0}M", tick / 1e6),
        tick if tick >= 0.999e3 => format!("{:.0}k", tick / 1e3),
        tick if tick >= 0.999 => format!("{tick:.0}"),
        tick if tick >= 0.0999 => format!("{tick:.1}"),
        tick if tick >= 0.00999 => format!("{tick:.2}"),
        tick => format!("{tick:.3}"),
    }
}

/// More ticks than this on a logarithmic axis would leave no room for their labels.
const TICKS_MAX: usize = 7;

/// The smallest of 1, 2, 2.5 or 5 times a power of ten that is at least `wanted`.
fn round_step(wanted: f64) -> f64 {
    let mut power = 1.0;
    while power > wanted {
        power /= 10.0;
    }
    while power * 10.0 <= wanted {
        power *= 10.0;
    }
    [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= wanted * 0.999_999).unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_marks_and_holds_every_value() {
        let scale = Scale::round([3.0, 117.0].into_iter(), true, 0.0, 240.0, 5);
        assert_eq!(scale.ticks, [0.0, 25.0, 50.0, 75.0, 100.0, 125.0]);
        assert!((scale.at(125.0) - 240.0).abs() < 1e-9 && scale.at(0.0).abs() < 1e-9);
        let labels = Scale::round([0.0, 1.0].into_iter(), false, 0.0, 1.0, 4);
        assert_eq!(
            labels.ticks.iter().map(|tick| labels.label(*tick)).collect::<Vec<_>>(),
            ["0.00", "0.25", "0.50", "0.75", "1.00"]
        );
    }

    #[test]
    fn a_logarithmic_axis_gives_equal_room_to_equal_factors() {
        let scale = Scale::logarithmic([10_000.0, 5_000_000.0].into_iter(), 0.0, 300.0);
        assert_eq!(scale.ticks.iter().map(|tick| scale.label(*tick)).collect::<Vec<_>>(), ["10k", "100k", "1M", "10M"]);
        assert!((scale.at(100_000.0) - 100.0).abs() < 1e-6 && (scale.at(1e7) - 300.0).abs() < 1e-6);
        let short = Scale::logarithmic([3.0, 9.0].into_iter(), 0.0, 1.0);
        assert_eq!(short.ticks.iter().map(|tick| short.label(*tick)).collect::<Vec<_>>(), ["2", "5", "10"]);
        assert!(Scale::logarithmic([7.0].into_iter(), 0.0, 1.0).at(7.0).is_finite());
    }

    #[test]
    fn nothing_to_show_still_gives_an_axis() {
        let scale = Scale::round(std::iter::empty(), true, 0.0, 1.0, 4);
        assert!(scale.ticks.len() > 1 && scale.at(0.5).is_finite());
    }
}
