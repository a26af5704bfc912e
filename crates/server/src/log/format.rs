//! The form of a line, as text or as JSON, and of its time.

use std::fmt::Write as _;

use crate::clock::wall_ms;

/// An event to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) level: &'a str,
    pub(super) event: &'a str,
    pub(super) fields: &'a [(&'static str, String)],
}

impl Line<'_> {
    /// The line with its end. Truncated if it is too long.
    pub(super) fn format(&self, is_json: bool) -> String {
        let mut line = if is_json { self.json() } else { self.text() };
        if line.len() > LINE_BYTES_MAX {
            line.truncate(line.floor_char_boundary(LINE_BYTES_MAX));
            line.push_str("...\n");
        }
        line
    }

    fn text(&self) -> String {
        let mut line = format!("{} {} {}", timestamp(wall_ms()), self.level, self.event);
        for (key, value) in self.fields {
            let plain = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"');
            let _ = if plain { write!(line, " {key}={value}") } else { write!(line, " {key}={value:?}") };
        }
        line.push('\n');
        line
    }

    fn json(&self) -> String {
        let mut object = serde_json::Map::new();
        object.insert("time".into(), timestamp(wall_ms()).into());
        object.insert("level".into(), self.level.into());
        object.insert("event".into(), self.event.into());
        object.extend(self.fields.iter().map(|(key, value)| ((*key).to_owned(), value.as_str().into())));
        format!("{}\n", serde_json::Value::Object(object))
    }
}

/// Formats a time in milliseconds since 1970 as ISO 8601, in UTC.
fn timestamp(wall_ms: i64) -> String {
    let (days, ms) = (wall_ms.div_euclid(86_400_000), wall_ms.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (hour, minute, second, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The date of a day counted from 1970-01-01. Years are counted from March, which puts the leap day last; the calendar
/// repeats every 400 years.
fn civil(days: i64) -> (i64, i64, i64) {
    let from_march = days + 719_468;
    let (era, day_of_era) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * shifted + 2) / 5 + 1, (shifted + 2) % 12 + 1);
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Longer lines are truncated, which bounds the queue at 16 MiB. The record of an election among hundreds of servers
/// fits.
const LINE_BYTES_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_the_calendar_has_them() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(timestamp(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(timestamp(1_769_903_999_123), "2026-01-31T23:59:59.123Z");
    }

    #[test]
    fn a_line_is_cut_at_its_limit_between_characters() {
        let fields = [("a", "é".repeat(LINE_BYTES_MAX))];
        let line = Line { level: "INFO", event: "x", fields: &fields }.format(false);
        assert!(line.len() <= LINE_BYTES_MAX + "...\n".len() && line.ends_with("é...\n"), "{}", line.len());
    }

    #[test]
    fn values_with_spaces_are_quoted() {
        let fields = [("a", "b".to_owned()), ("c", "d e".to_owned())];
        let line = Line { level: "INFO", event: "x", fields: &fields }.format(false);
        assert!(line.ends_with(" INFO x a=b c=\"d e\"\n"), "{line}");
    }
}
