//! Turns events of `tracing` into lines.
//!
//! This is a `tracing::Subscriber` and not a layer over the registry of `tracing-subscriber`, because there are no spans:
//! what the registry keeps for them would only cost memory.

use std::fmt;

use tracing::field::Field;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber, level_filters::LevelFilter};

use super::filter::Filter;
use super::format::Line;

/// Writes the events that pass the filter with `write`, one line each.
pub(super) struct LogSubscriber<W> {
    is_json: bool,
    filter: Filter,
    write: W,
}

impl<W: Fn(Line<'_>, bool) + 'static> LogSubscriber<W> {
    pub(super) fn new(is_json: bool, filter: Filter, write: W) -> Self {
        Self { is_json, filter, write }
    }
}

impl<W: Fn(Line<'_>, bool) + 'static> Subscriber for LogSubscriber<W> {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter.max_level())
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !metadata.is_span() && self.filter.allows(metadata.target(), *metadata.level())
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Fields { name, fields } = fields;
        (self.write)(Line { level: event.metadata().level().as_str(), event: &name, fields: &fields }, self.is_json);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // Not called: spans are not enabled.
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of an event as text. Its message is the name of the event.
#[derive(Default)]
struct Fields {
    name: String,
    fields: Vec<(&'static str, String)>,
}

impl tracing::field::Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name(), value.to_owned()));
    }

    /// Numbers, and values that are given with `%`, whose `Debug` is their `Display`.
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" { self.name = text } else { self.fields.push((field.name(), text)) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::{debug, info, subscriber::with_default, warn};

    use super::*;
    use crate::log::target::{CLIENT, NODE};

    /// What is written when `events` are logged with this filter, without the time.
    fn logged(is_json: bool, filter: &str, events: impl FnOnce()) -> Vec<String> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&lines);
        let write = move |line: Line<'_>, is_json| to.lock().push(line.format(is_json));
        with_default(LogSubscriber::new(is_json, filter.parse().expect("a filter"), write), events);
        std::mem::take(&mut lines.lock())
    }

    #[test]
    fn a_text_line_has_the_name_then_the_fields_in_order() {
        let events = || {
            let reason = String::from("no quorum");
            info!(target: NODE, leader = 1, epoch = 3_u32, "serving");
            warn!(target: NODE, reason, from = %"a", is_new = true, empty = "", "abandoned");
        };
        let lines = logged(false, "info", events);
        let without_time: Vec<&str> =
            lines.iter().filter_map(|line| line.split_once(' ')).map(|(_, rest)| rest).collect();
        let expected =
            ["INFO serving leader=1 epoch=3\n", "WARN abandoned reason=\"no quorum\" from=a is_new=true empty=\"\"\n"];
        assert_eq!(without_time, expected);
    }

    #[test]
    fn a_json_line_has_the_same_as_strings() {
        let lines = logged(true, "info", || info!(target: NODE, leader = 1, why = %"a \"b\"", "serving"));
        let line: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
        let object = line.as_object().expect("an object");
        assert_eq!(object.keys().collect::<Vec<_>>(), ["event", "leader", "level", "time", "why"]);
        assert_eq!((&object["event"], &object["leader"]), (&"serving".into(), &"1".into()));
        assert_eq!((&object["level"], &object["why"]), (&"INFO".into(), &"a \"b\"".into()));
    }

    #[test]
    fn only_what_the_filter_allows_is_written() {
        let events = || {
            debug!(target: CLIENT, "one");
            debug!(target: NODE, "two");
            info!(target: NODE, "three");
            tracing::info_span!(target: "pole::node", "span").in_scope(|| info!(target: NODE, "four"));
        };
        let names = |filter| -> Vec<String> {
            let name = |line: &String| line.split_whitespace().nth(2).map(str::to_owned);
            logged(false, filter, events).iter().filter_map(name).collect()
        };
        assert_eq!(names(Filter::DEFAULT), ["three", "four"]);
        assert_eq!(names("pole::client=debug"), ["one", "three", "four"]);
        assert_eq!(names("off"), [""; 0]);
    }
}
