//! The form of a line, as text or as JSON, and of its time.

use std::fmt::Write as _;

use time::{Duration, OffsetDateTime};

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
pub(crate) fn timestamp(wall_ms: i64) -> String {
    let at = OffsetDateTime::UNIX_EPOCH.saturating_add(Duration::milliseconds(wall_ms));
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second, ms) = (at.hour(), at.minute(), at.second(), at.millisecond());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
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
