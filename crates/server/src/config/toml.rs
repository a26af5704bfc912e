//! Parses `pole.toml`: the keys of `zoo.cfg`, with tables for dots.
//!
//! The result is the same list of entries that `properties` produces, in the order of the file and with lines, so that
//! both formats have the same meaning. An array is equivalent to its items joined with commas. A key that is both a
//! value and a table in `zoo.cfg` (`pole.oracle`, `pole.resign`) has a name within the table (`name`, `enabled`).

use std::ops::Range;

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};

use super::properties::Entry;
use super::report::Report;

/// Parses a whole file. Values that cannot be parsed are reported and left out.
pub(super) fn parse(text: &str, report: &mut Report) -> Vec<Entry> {
    let mut reader = Reader { text, entries: Vec::new(), report };
    match DeTable::parse(text) {
        Ok(table) => reader.table("", table.get_ref()),
        Err(error) => {
            let line = error.span().map_or(0, |span| line_of(text, &span));
            reader.report.problem(line, "", "", format!("not TOML: {}", error.message()));
        }
    }
    let mut entries = reader.entries;
    entries.sort_by_key(|entry| entry.line);
    entries
}

/// One setting as a line of a file.
pub(super) fn line(key: &str, value: &str) -> String {
    // A key that is also a table has a name within it.
    let name = match key {
        "pole.oracle" => "pole.oracle.name",
        "pole.resign" => "pole.resign.enabled",
        "superUser" => "superUser.name",
        other => other,
    };
    let is_bare =
        value.parse::<i64>().is_ok_and(|number| number.to_string() == value) || ["true", "false"].contains(&value);
    let value = if is_bare { value.to_owned() } else { format!("\"{}\"", escaped(value)) };
    format!("{name} = {value}\n")
}

/// The content of a basic string.
fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

struct Reader<'a> {
    text: &'a str,
    entries: Vec<Entry>,
    report: &'a mut Report,
}

impl Reader<'_> {
    fn table(&mut self, prefix: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            self.value(&format!("{prefix}{}", key.get_ref()), value);
        }
    }

    fn value(&mut self, key: &str, value: &Spanned<DeValue<'_>>) {
        if let DeValue::Table(table) = value.get_ref() {
            return self.table(&format!("{key}."), table);
        }
        let line = line_of(self.text, &value.span());
        match scalar(value.get_ref()) {
            Some(text) => self.entries.push(Entry::new(key, &text, line)),
            None => {
                self.report.problem(line, key, "", "allowed is a string, a number, true or false, or a list of them")
            }
        }
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    Some(match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok()?.to_string(),
        DeValue::Boolean(bool) => bool.to_string(),
        DeValue::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(|item| scalar(item.get_ref())).collect();
            items?.join(",")
        }
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => return None,
    })
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tables_are_dots_and_lists_have_commas() {
        let text =
            "tickTime = 2000\n[server]\n1 = \"a:1:2\"\n[pole.oracle]\nname = 'latency'\npreference = [3, 1, 2]\n";
        let expected = [
            Entry::new("tickTime", "2000", 1),
            Entry::new("server.1", "a:1:2", 3),
            Entry::new("pole.oracle.name", "latency", 5),
            Entry::new("pole.oracle.preference", "3,1,2", 6),
        ];
        assert_eq!(parse(text, &mut Report::new("pole.toml")), expected);
    }

    #[test]
    fn what_is_not_toml_is_reported_with_its_line() {
        let mut report = Report::new("pole.toml");
        parse("a = 1\nb = \n", &mut report);
        assert!(report.finish(()).unwrap_err().to_string().starts_with("pole.toml:2: not TOML"));
    }

    #[test]
    fn a_date_is_no_setting() {
        let mut report = Report::new("pole.toml");
        parse("a = 2026-01-01\n", &mut report);
        assert!(report.finish(()).unwrap_err().to_string().starts_with("pole.toml:1: a: allowed is"));
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "(\\PC|[\\n\\[\\]{}=.,\"'0-9a-c])*") {
            parse(&text, &mut Report::new("test"));
        }
    }
}
