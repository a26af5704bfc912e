//! Prints results: as ZooKeeper's own shell does, or as one JSON object each.

use std::io::{self, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use pole_jute::{Acl, Perms, Stat, WatcherEvent};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

use crate::failure::Failure;

/// Where results go. Watch events come from another thread than results.
pub(super) struct Out {
    is_json: bool,
    pub(super) prints_watches: AtomicBool,
    /// The editor's printer, which keeps the line that is being typed below the output.
    printer: Mutex<Option<Printer>>,
}

pub(super) type Printer = Box<dyn FnMut(String) + Send>;

impl Out {
    pub(super) fn new(is_json: bool) -> Self {
        Self { is_json, prints_watches: AtomicBool::new(true), printer: Mutex::new(None) }
    }

    pub(super) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Uses this printer for everything that comes while a line is typed.
    pub(super) fn set_printer(&self, printer: Printer) {
        if let Ok(mut current) = self.printer.lock() {
            *current = Some(printer);
        }
    }

    /// Prints one result.
    pub(super) fn result(&self, text: impl FnOnce() -> String, json: impl FnOnce() -> Value) -> Result<(), Failure> {
        let line = if self.is_json { json().to_string() } else { text() };
        let mut out = io::stdout().lock();
        crate::ignore_broken_pipe(writeln!(out, "{line}").and_then(|()| out.flush()))
    }

    /// Prints a watch event, whenever it comes.
    pub(super) fn event(&self, event: &WatcherEvent) {
        if !self.prints_watches.load(Ordering::Relaxed) {
            return;
        }
        let text = if self.is_json {
            json!({ "event": { "type": format!("{:?}", event.kind), "path": event.path } }).to_string() + "\n"
        } else {
            format!("\nWATCHER::\n\nWatchedEvent state:{:?} type:{:?} path:{}\n", event.state, event.kind, event.path)
        };
        self.between_lines(text, |text| {
            let mut out = io::stdout().lock();
            // Without a reader there is nobody to tell.
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        });
    }

    /// Says something about the connection.
    pub(super) fn notice(&self, text: &str) {
        self.between_lines(format!("{text}\n"), crate::print_error);
    }

    fn between_lines(&self, text: String, otherwise: impl FnOnce(&str)) {
        match self.printer.lock().ok().as_deref_mut() {
            Some(Some(printer)) => printer(text),
            _ => otherwise(&text),
        }
    }
}

/// The metadata of a node, one field a line.
pub(super) fn stat_text(stat: &Stat) -> String {
    [
        format!("cZxid = {:#x}", stat.czxid),
        format!("ctime = {}", date(stat.ctime)),
        format!("mZxid = {:#x}", stat.mzxid),
        format!("mtime = {}", date(stat.mtime)),
        format!("pZxid = {:#x}", stat.pzxid),
        format!("cversion = {}", stat.cversion),
        format!("dataVersion = {}", stat.version),
        format!("aclVersion = {}", stat.aversion),
        format!("ephemeralOwner = {:#x}", stat.ephemeral_owner),
        format!("dataLength = {}", stat.data_length),
        format!("numChildren = {}", stat.num_children),
    ]
    .join("\n")
}

pub(super) fn stat_json(stat: &Stat) -> Value {
    json!({
        "czxid": format!("{:#x}", stat.czxid),
        "mzxid": format!("{:#x}", stat.mzxid),
        "pzxid": format!("{:#x}", stat.pzxid),
        "ctime_ms": stat.ctime,
        "mtime_ms": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeral_owner": format!("{:#x}", stat.ephemeral_owner),
        "data_length": stat.data_length,
        "num_children": stat.num_children,
    })
}

/// A time as Java prints it, in UTC.
fn date(wall_ms: i64) -> String {
    let at = OffsetDateTime::UNIX_EPOCH.saturating_add(Duration::milliseconds(wall_ms));
    let (weekday, month) = (at.weekday().to_string(), at.month().to_string());
    let (hour, minute, second) = at.to_hms();
    let (day, year) = (at.day(), at.year());
    format!("{weekday:.3} {month:.3} {day:02} {hour:02}:{minute:02}:{second:02} UTC {year}")
}

/// The data of a node. A node that was created without data has none, which is not the same as empty.
pub(super) fn data_text(data: Option<&Bytes>) -> String {
    data.map_or_else(|| "null".to_owned(), |data| String::from_utf8_lossy(data).into_owned())
}

/// The data as text if it is text, else as a list of bytes.
pub(super) fn data_json(data: Option<&Bytes>) -> Value {
    data.map_or(Value::Null, |data| match std::str::from_utf8(data) {
        Ok(text) => json!(text),
        Err(_) => json!(data.to_vec()),
    })
}

pub(super) fn list_text(items: &[String]) -> String {
    format!("[{}]", items.join(", "))
}

/// Each identity with its permissions.
pub(super) fn acl_text(acl: &[Acl]) -> String {
    let entry = |entry: &Acl| format!("'{},'{}\n: {}", entry.id.scheme, entry.id.id, perms_text(entry.perms));
    acl.iter().map(entry).collect::<Vec<_>>().join("\n")
}

pub(super) fn acl_json(acl: &[Acl]) -> Value {
    let entry = |entry: &Acl| json!({"scheme": entry.id.scheme, "id": entry.id.id, "perms": perms_text(entry.perms)});
    acl.iter().map(entry).collect()
}

fn perms_text(perms: Perms) -> String {
    PERMS.iter().filter(|(_, bit)| perms.contains(*bit)).map(|(letter, _)| letter).collect()
}

/// The letters of permissions, in the order in which they are printed.
pub(super) const PERMS: [(char, Perms); 5] =
    [('c', Perms::CREATE), ('d', Perms::DELETE), ('r', Perms::READ), ('w', Perms::WRITE), ('a', Perms::ADMIN)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_look_like_those_of_java() {
        assert_eq!(date(0), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(date(1_794_920_399_999), "Tue Nov 17 12:59:59 UTC 2026");
        assert_eq!(date(-1), "Wed Dec 31 23:59:59 UTC 1969");
    }

    #[test]
    fn data_that_is_not_text_is_a_list_of_bytes_in_json() {
        assert_eq!(data_json(Some(&Bytes::from_static(b"\xff\x00"))), json!([255, 0]));
        assert_eq!(data_json(None), Value::Null);
        assert_eq!(data_text(None), "null");
    }
}
