//! The log on standard error: one line per event, as in the server.
//!
//! A line looks like `2026-01-31T23:59:59.123Z INFO leading token=7`, or is a JSON object with `--json`.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use time::{Duration, OffsetDateTime};

pub(crate) fn set_json(json: bool) {
    JSON.store(json, Ordering::Relaxed);
}

pub(crate) fn info(event: &str, fields: &[(&str, &str)]) {
    line("INFO", event, fields);
}

pub(crate) fn warn(event: &str, fields: &[(&str, &str)]) {
    line("WARN", event, fields);
}

static JSON: AtomicBool = AtomicBool::new(false);

fn line(level: &str, event: &str, fields: &[(&str, &str)]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = timestamp(u64::try_from(now.as_millis()).unwrap_or(0));
    let text = if JSON.load(Ordering::Relaxed) {
        let fields = fields.iter().map(|(key, value)| ((*key).to_owned(), (*value).into()));
        let head = [("at", at.as_str()), ("level", level), ("event", event)];
        let head = head.iter().map(|(key, value)| ((*key).to_owned(), (*value).into()));
        serde_json::Value::Object(head.chain(fields).collect()).to_string()
    } else {
        let quoted =
            |value: &str| if value.contains([' ', '"', '=']) { format!("{value:?}") } else { value.to_owned() };
        let fields: String = fields.iter().map(|(key, value)| format!(" {key}={}", quoted(value))).collect();
        format!("{at} {level} {event}{fields}")
    };
    // A closed standard error is no reason to stop leading.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Milliseconds since 1970 as `2026-01-31T23:59:59.123Z`.
pub(crate) fn timestamp(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    let at = OffsetDateTime::UNIX_EPOCH.saturating_add(Duration::milliseconds(ms));
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second, ms) = (at.hour(), at.minute(), at.second(), at.millisecond());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_found_around_leap_days() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(1_709_164_800_000), "2024-02-29T00:00:00.000Z");
        assert_eq!(timestamp(1_769_903_999_123), "2026-01-31T23:59:59.123Z");
        assert_eq!(timestamp(951_868_800_000), "2000-03-01T00:00:00.000Z");
    }
}
