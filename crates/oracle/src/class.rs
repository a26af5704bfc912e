//! Classes: score components rounded so coarsely that noise stays within one class.
//!
//! Plain rounding is not enough: a score that jitters around a class border would change its class at every heartbeat,
//! and the leader with it (scenario 25). So the class of a server depends on its previous class, which it leaves only
//! when its border is crossed by a tenth of a class. This is more than a smoothed score jitters, and little enough
//! that noisy first measurements do not stick.
//!
//! Invariant: the previous class is the server's own and affects only its own score. How two scores compare depends on
//! the two messages alone; otherwise the order would have cycles.

use core::fmt;

/// How a component is divided into classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Classes of this many microseconds: from 0 to below one width, from one to below two widths, and so on.
    Micros(u32),
    /// Each class ends this many percent above the previous one. For components that span magnitudes, such as rates.
    Percent(u8),
}

impl Class {
    /// Returns the class of a component, ignoring hysteresis.
    #[must_use]
    pub fn of(self, component: i64) -> i64 {
        match self {
            Self::Micros(width) => component.div_euclid(i64::from(width.max(1))),
            Self::Percent(percent) => logarithm(component.unsigned_abs(), percent) * component.signum(),
        }
    }

    /// Returns the class of a component for a server that was in `previous`, which it leaves only when the border is
    /// crossed by a tenth of a class.
    #[must_use]
    pub fn of_after(self, component: i64, previous: Option<i64>) -> i64 {
        let class = self.of(component);
        let Some(previous) = previous else { return class };
        let margin = match self {
            Self::Micros(width) => i64::from(width / 10),
            Self::Percent(percent) => {
                i64::try_from(component.unsigned_abs() / 1000).unwrap_or(i64::MAX).saturating_mul(percent.into())
            }
        };
        let stays = match class.cmp(&previous) {
            core::cmp::Ordering::Less => self.of(component.saturating_add(margin)) >= previous,
            core::cmp::Ordering::Equal => true,
            core::cmp::Ordering::Greater => self.of(component.saturating_sub(margin)) <= previous,
        };
        if stays { previous } else { class }
    }

    /// Returns the border of a class that is nearer to zero. It is the value of a classified score in human-readable
    /// output and in the difference of two classes.
    #[must_use]
    pub fn border(self, class: i64) -> i64 {
        match self {
            Self::Micros(width) => class.saturating_mul(i64::from(width.max(1))),
            Self::Percent(percent) => power(class.unsigned_abs(), percent).saturating_mul(class.signum()),
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Micros(width) if width % 1000 == 0 => write!(f, "{}ms", width / 1000),
            Self::Micros(width) => write!(f, "{width}us"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// 0 for 0, otherwise 1 + the largest n with (1 + percent/100)^n <= value.
fn logarithm(value: u64, percent: u8) -> i64 {
    let borders = borders(percent).take_while(|border| *border <= u128::from(value) << FRACTION_BITS);
    i64::try_from(borders.count()).unwrap_or(i64::MAX)
}

/// The smallest value of a class of [`logarithm`].
fn power(class: u64, percent: u8) -> i64 {
    let Some(before) = class.checked_sub(1) else { return 0 };
    let border =
        borders(percent).nth(usize::try_from(before).unwrap_or(usize::MAX).min(CLASSES_MAX)).unwrap_or(u128::MAX);
    i64::try_from(border >> FRACTION_BITS).unwrap_or(i64::MAX)
}

/// The borders 1, 1 + p, (1 + p)^2, … in units of 2^-32, within the range of an i64.
fn borders(percent: u8) -> impl Iterator<Item = u128> {
    let grow = move |border: &u128| Some(border * (100 + u128::from(percent.max(1))) / 100);
    core::iter::successors(Some(1 << FRACTION_BITS), grow).take_while(|border| *border < 1 << 96)
}

const FRACTION_BITS: u32 = 32;

/// The number of classes of 1 % up to 2^64, which bounds the iteration.
const CLASSES_MAX: usize = 4_500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_a_width_begin_at_its_multiples() {
        let class = Class::Micros(10_000);
        assert_eq!([0, 9_999, 10_000, 30_900].map(|us| class.of(us)), [0, 0, 1, 3]);
        assert_eq!(class.border(3), 30_000);
    }

    #[test]
    fn classes_of_ten_per_cent_tell_rates_a_fifth_apart_and_keep_the_order_of_negatives() {
        let class = Class::Percent(10);
        assert_eq!(class.of(0), 0);
        assert_eq!(class.of(-333_333), class.of(-334_000));
        assert!(class.of(-400_000) < class.of(-333_333));
        assert!(class.of(-1) < class.of(0));
        for component in [1, 7, 333_333, 1_000_000_000_000] {
            let border = class.border(class.of(component));
            assert!(border <= component && component <= border + border / 9 + 1, "{component} {border}");
            assert_eq!(class.border(-class.of(component)), -border);
        }
    }

    #[test]
    fn a_class_is_left_only_when_its_border_is_passed_by_a_tenth_scenario_25() {
        let class = Class::Micros(10_000);
        assert_eq!(class.of_after(10_100, Some(0)), 0);
        assert_eq!(class.of_after(10_999, Some(0)), 0);
        assert_eq!(class.of_after(11_000, Some(0)), 1);
        assert_eq!(class.of_after(9_900, Some(1)), 1);
        assert_eq!(class.of_after(8_999, Some(1)), 0);
        assert_eq!(class.of_after(55_000, Some(1)), 5);
        let class = Class::Percent(10);
        let there = class.of(-333_333);
        let across = class.border(there);
        assert_ne!(class.of(across + 1_000), there);
        assert_eq!(class.of_after(across + 1_000, Some(there)), there);
        assert_ne!(class.of_after(across + 30_000, Some(there)), there);
    }

    #[test]
    fn the_ends_of_the_range_have_classes_too() {
        for component in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX] {
            for class in
                [Class::Micros(0), Class::Micros(1), Class::Micros(u32::MAX), Class::Percent(1), Class::Percent(255)]
            {
                let there = class.of_after(component, Some(class.of(component)));
                let _ = (class.border(there), class.border(i64::MIN), class.of_after(component, Some(i64::MAX)));
            }
        }
    }
}
