//! Maps values to positions on an axis with round tick marks.
//!
//! Uses only the four basic operations and comparisons on floats, which give the same results on every machine, so
//! that the same values give the same picture byte for byte.

/// One axis: maps values from `low` to `high` to positions from `from` to `to`.
#[derive(Clone, Debug)]
pub(super) struct Scale {
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
        Self { low: first * step, high: (first + count as f64) * step, from, to, ticks }
    }

    /// The position of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        self.from + (value - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// The label of a tick, with as many decimals as the step between ticks needs.
    pub(super) fn label(&self, tick: f64) -> String {
        let step = self.ticks.get(1).map_or(1.0, |second| second - self.ticks[0]);
        let whole = |power: &f64| {
            let scaled = step * power;
            (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1.0)
        };
        let decimals = [1.0, 10.0, 100.0, 1000.0].iter().position(whole).unwrap_or(3);
        format!("{tick:.decimals$}")
    }
}

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
    fn nothing_to_show_still_gives_an_axis() {
        let scale = Scale::round(std::iter::empty(), true, 0.0, 1.0, 4);
        assert!(scale.ticks.len() > 1 && scale.at(0.5).is_finite());
    }
}
