//! Formatting of numbers with units, and of lists.

use pole_oracle::{Better, Spec};

/// The unit of an oracle's scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    name: &'static str,
    lower_is_better: bool,
}

impl Unit {
    /// None if this release has no oracle of that name, or if its scores have several components of different kinds.
    pub(super) fn of(oracle: &str) -> Option<Self> {
        let scale = Spec::parse(oracle).ok()?.build().ok()?.scale();
        Some(Self { name: scale.unit, lower_is_better: scale.better == Better::Lower })
    }

    pub(super) fn which_is_better(self) -> &'static str {
        if self.lower_is_better { "lower is better" } else { "higher is better" }
    }
}

/// `30.9 ms`.
pub(super) fn with_unit(value: f64, unit: Option<Unit>) -> String {
    format!("{} {}", number(value), unit.map_or("", |unit| unit.name)).trim_end().to_owned()
}

/// Formats two values with enough digits to show that they differ.
pub(super) fn distinguishable(one: f64, other: f64, unit: Option<Unit>) -> (String, String) {
    let plain = (with_unit(one, unit), with_unit(other, unit));
    if plain.0 != plain.1 || one == other {
        return plain;
    }
    let fine = |value: f64| format!("{value:.3} {}", unit.map_or("", |unit| unit.name)).trim_end().to_owned();
    (fine(one), fine(other))
}

/// Formats a number with its significant digits.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        // Histories and ids are counts.
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Formats `consensus_ms` with value 9.9 as `consensus 9.9 ms`.
pub(super) fn input(name: &str, value: f64) -> String {
    match name.strip_suffix("_ms") {
        Some(stem) => format!("{} {} ms", stem.replace('_', " "), number(value)),
        None => format!("{} {}", name.replace('_', " "), number(value)),
    }
}

/// `1`, `1 and 2`, `1, 2 and 3`.
pub(super) fn list(ids: &[u64]) -> String {
    let words: Vec<String> = ids.iter().map(u64::to_string).collect();
    match &words[..] {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// `server 1`, `servers 1 and 2`.
pub(super) fn servers(ids: &[u64]) -> String {
    format!("server{} {}", if ids.len() == 1 { "" } else { "s" }, list(ids))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        let shown = [0.123, 9.876, 77.06, 166.04, 3.0, -2.5].map(number);
        assert_eq!(shown, ["0.12", "9.9", "77.1", "166", "3", "-2.5"]);
    }

    #[test]
    fn values_that_differ_look_different() {
        let apart = |one, other| distinguishable(one, other, Unit::of("latency"));
        assert_eq!(apart(16.9, 17.2), ("16.9 ms".into(), "17.2 ms".into()));
        assert_eq!(apart(16.91, 16.93), ("16.910 ms".into(), "16.930 ms".into()));
        assert_eq!(apart(16.91, 16.91), ("16.9 ms".into(), "16.9 ms".into()));
    }

    #[test]
    fn lists_read_like_sentences() {
        assert_eq!([list(&[]), list(&[1]), list(&[1, 2]), list(&[1, 2, 3])], ["none", "1", "1 and 2", "1, 2 and 3"]);
        assert_eq!([servers(&[1]), servers(&[1, 2])], ["server 1", "servers 1 and 2"]);
    }

    #[test]
    fn units_come_from_the_oracle() {
        assert_eq!(with_unit(30.9, Unit::of("latency")), "30.9 ms");
        assert_eq!(with_unit(30.9, Unit::of("of-tomorrow")), "30.9");
        assert_eq!(input("consensus_ms", 9.88), "consensus 9.9 ms");
        assert_eq!(input("rate", 12.0), "rate 12");
    }
}
