//! The log on standard error: one line per event, with a time, a level, an event name and fields.
//!
//! A line looks like `2026-01-31T23:59:59.123Z INFO serving leader=1 epoch=3`, or is a JSON object with
//! `pole.log=json`.
//!
//! A thread of its own writes the lines, so that a blocked reader (a full pipe, a paused terminal) never blocks the
//! server. If the queue is full, lines are dropped and counted; the next line that fits is preceded by the count.
//! [`flush`] writes what is left before the process ends.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pole_node::{CloseReason, Note};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

use crate::client::End;
use crate::clock::wall_ms;
use crate::limits::Limit;
use crate::metrics::Counter;
use crate::shared::Shared;

/// Selects JSON or text for all further lines.
pub fn set_json(json: bool) {
    JSON.store(json, Ordering::Relaxed);
}

/// Logs an expected event.
pub fn info(event: &str, fields: &[(&str, &str)]) {
    line("INFO", event, fields);
}

/// Logs something that an operator should look at when there is time.
pub fn warn(event: &str, fields: &[(&str, &str)]) {
    line("WARN", event, fields);
}

/// Logs something that an operator should look at now.
pub fn error(event: &str, fields: &[(&str, &str)]) {
    line("ERROR", event, fields);
}

/// Logs a note of the node.
pub(crate) fn note(note: &Note) {
    match note {
        Note::Electing { cause, round } => {
            info("electing", &[("cause", &cause.to_string()), ("round", &round.to_string())]);
        }
        Note::Elected(record) => info("elected", &[("why", &record.to_string())]),
        Note::Leading { round } => info("leading", &[("round", &round.to_string())]),
        Note::Following { leader } => info("following", &[("leader", &leader.to_string())]),
        Note::Serving { leader, epoch } => {
            info("serving", &[("leader", &leader.to_string()), ("epoch", &epoch.to_string())]);
        }
        Note::Resigning { to, cause } => {
            info("resigning", &[("to", &to.to_string()), ("cause", &cause.to_string())]);
        }
        Note::ResignationAborted { refusal } => warn("resignation_aborted", &[("reason", &refusal.to_string())]),
        Note::HandedOver { to } => info("handed_over", &[("to", &to.to_string())]),
        Note::Abandoned { reason } => warn("abandoned", &[("reason", reason)]),
        Note::OutOfOrder { error } => warn("out_of_order", &[("error", error)]),
        Note::BadPeer { from, error } => warn("bad_peer", &[("from", &from.to_string()), ("error", error)]),
        Note::InvalidScore { from, reason } => {
            warn("invalid_score", &[("from", &from.to_string()), ("reason", reason)]);
        }
        Note::BadOracle { version, error } => {
            warn("bad_oracle", &[("version", &version.to_string()), ("error", error)]);
        }
        Note::Installed { zxid } => {
            warn("installed", &[("zxid", &zxid.to_string()), ("what", "a snapshot of the leader; clients reconnect")]);
        }
        Note::SlowWrite { took } => {
            let what = "a write to the log took longer than fsync.warningthresholdms: look at the disk";
            warn("slow_write", &[("took_ms", &(took.as_us() / 1_000).to_string()), ("what", what)]);
        }
        Note::DiskHangs => error("disk_hangs", &[("what", "a write has not ended in time: look at the disk")]),
    }
}

/// Logs the end of a client's connection, unless it is an ordinary one.
pub(crate) fn connection_ended(shared: &Shared, address: SocketAddr, end: &End) {
    if matches!(end, End::Closed(reason) if reason.is_ordinary()) {
        return;
    }
    count_limit(shared, end);
    if matches!(end, End::Closed(CloseReason::NoLeader | CloseReason::NoQuorum)) {
        shared.status.counters.add(Counter::CnxnClosedWithoutZkServerRunning, 1);
    }
    rate_limited("INFO", "connection_ended", &[("from", &address.to_string()), ("why", &end.to_string())]);
}

/// Logs a failed TLS handshake.
pub(crate) fn tls_refused(shared: &Shared, address: SocketAddr, end: &End) {
    count_limit(shared, end);
    shared.status.counters.add(Counter::UnsuccessfulHandshake, 1);
    rate_limited("INFO", "tls_refused", &[("from", &address.to_string()), ("error", &end.to_string())]);
}

/// Logs a connection that was refused because a limit is reached.
pub(crate) fn connection_refused(address: SocketAddr, limit: Limit) {
    rate_limited("WARN", "too_many_connections", &[("from", &address.ip().to_string()), ("allowed", limit.key())]);
}

/// Logs an event that anyone who can reach a port can cause at will: only the first lines of each period are written.
fn rate_limited(level: &str, event: &'static str, fields: &[(&str, &str)]) {
    let (may_log, left_out) = REPEATS.lock().entry(event).or_default().admit(Instant::now());
    if left_out > 0 {
        line(level, event, &[("left_out", &left_out.to_string())]);
    }
    if may_log {
        line(level, event, fields);
    }
}

/// The count of one event in the current period.
#[derive(Debug, Default)]
struct Repeats {
    since: Option<Instant>,
    count: u64,
}

impl Repeats {
    /// Returns whether the event may be logged, and how many were left out in the previous period, once per period.
    fn admit(&mut self, now: Instant) -> (bool, u64) {
        let mut left_out = 0;
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= REPEATS_PERIOD) {
            left_out = self.count.saturating_sub(REPEATS_MAX);
            *self = Self { since: Some(now), count: 0 };
        }
        self.count += 1;
        (self.count <= REPEATS_MAX, left_out)
    }
}

fn count_limit(shared: &Shared, end: &End) {
    if let End::Closed(reason) = end
        && let Some(limit) = Limit::of(*reason)
    {
        shared.status.limits.add(limit, 1);
    }
}

/// Waits until everything logged so far is written, for a second at most. Later lines are written by the thread that
/// logs them. Must be called once, before the process ends.
pub fn flush() {
    drop(WRITER.worker.lock().take());
}

/// The number of lines dropped because the reader of the log was too slow.
pub(crate) fn lines_dropped() -> usize {
    WRITER.dropped.dropped_lines()
}

fn line(level: &str, event: &str, fields: &[(&str, &str)]) {
    let dropped = lines_dropped();
    if dropped > DROPPED_REPORTED.swap(dropped, Ordering::Relaxed) {
        WRITER.write(&formatted("WARN", "log_lines_dropped", &[("total", &dropped.to_string())]));
    }
    WRITER.write(&formatted(level, event, fields));
}

fn formatted(level: &str, event: &str, fields: &[(&str, &str)]) -> String {
    let mut line = match JSON.load(Ordering::Relaxed) {
        true => json(level, event, fields),
        false => text(level, event, fields),
    };
    if line.len() > LINE_BYTES_MAX {
        line.truncate(line.floor_char_boundary(LINE_BYTES_MAX));
        line.push_str("...\n");
    }
    line
}

/// The thread that writes to standard error, and the queue in front of it.
struct Writer {
    lines: NonBlocking,
    dropped: ErrorCounter,
    /// `None` after [`flush`].
    worker: Mutex<Option<WorkerGuard>>,
}

impl Writer {
    fn start() -> Self {
        let builder = NonBlockingBuilder::default().buffered_lines_limit(LINES_MAX).lossy(true).thread_name("log");
        let (lines, worker) = builder.finish(std::io::stderr());
        Self { dropped: lines.error_counter(), lines, worker: Mutex::new(Some(worker)) }
    }

    fn write(&self, line: &str) {
        // A log that cannot be written must not stop the server.
        let _ = match &*self.worker.lock() {
            Some(_) => self.lines.clone().write_all(line.as_bytes()),
            None => std::io::stderr().lock().write_all(line.as_bytes()),
        };
    }
}

fn text(level: &str, event: &str, fields: &[(&str, &str)]) -> String {
    let mut line = format!("{} {level} {event}", timestamp(wall_ms()));
    for (key, value) in fields {
        let plain = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"');
        let _ = if plain { write!(line, " {key}={value}") } else { write!(line, " {key}={value:?}") };
    }
    line.push('\n');
    line
}

fn json(level: &str, event: &str, fields: &[(&str, &str)]) -> String {
    let mut object = serde_json::Map::new();
    object.insert("time".into(), timestamp(wall_ms()).into());
    object.insert("level".into(), level.into());
    object.insert("event".into(), event.into());
    object.extend(fields.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())));
    format!("{}\n", serde_json::Value::Object(object))
}

/// Formats a time in milliseconds since 1970 as ISO 8601, in UTC.
pub(crate) fn timestamp(wall_ms: i64) -> String {
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

static JSON: AtomicBool = AtomicBool::new(false);

static WRITER: LazyLock<Writer> = LazyLock::new(Writer::start);

static REPEATS: Mutex<BTreeMap<&'static str, Repeats>> = Mutex::new(BTreeMap::new());

/// Lines of one event per [`REPEATS_PERIOD`]; further ones are only counted.
const REPEATS_MAX: u64 = 20;

const REPEATS_PERIOD: Duration = Duration::from_secs(10);

/// How many dropped lines have been reported in the log.
static DROPPED_REPORTED: AtomicUsize = AtomicUsize::new(0);

/// Lines that may wait to be written: about what a busy second logs.
const LINES_MAX: usize = 1024;

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
    fn of_a_flood_the_first_lines_of_each_period_are_logged_and_the_rest_counted() {
        let (mut repeats, start) = (Repeats::default(), Instant::now());
        let logged = (0..1_000).filter(|_| repeats.admit(start).0).count() as u64;
        assert_eq!(logged, REPEATS_MAX);
        assert_eq!(repeats.admit(start + REPEATS_PERIOD), (true, 1_000 - REPEATS_MAX));
        assert_eq!(repeats.admit(start + REPEATS_PERIOD), (true, 0));
    }

    #[test]
    fn a_line_is_cut_at_its_limit_between_characters() {
        let line = formatted("INFO", "x", &[("a", &"é".repeat(LINE_BYTES_MAX))]);
        assert!(line.len() <= LINE_BYTES_MAX + "...\n".len() && line.ends_with("é...\n"), "{}", line.len());
    }

    #[test]
    fn values_with_spaces_are_quoted() {
        assert!(text("INFO", "x", &[("a", "b"), ("c", "d e")]).ends_with(" INFO x a=b c=\"d e\"\n"));
    }
}
