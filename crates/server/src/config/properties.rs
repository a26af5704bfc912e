//! Parses `zoo.cfg`, which has the syntax of Java properties.
//!
//! The result is a list of keys and values in order, each with its line. Lines that cannot be parsed are reported.
//! Whatever Apache's server accepts must be accepted here too, including continuation lines. `${…}` is not expanded, as
//! in Apache. No input causes a panic.
//!
//! The meaning of keys is in `keys`, repeated keys are handled in `values`. The syntax follows the documentation of
//! `java.util.Properties.load`.

use super::report::Report;

/// One setting of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// Trimmed, as Apache does.
    pub(super) value: String,
    /// Counted from 1; the first line if there are continuation lines.
    pub(super) line: usize,
}

impl Entry {
    pub(super) fn new(key: &str, value: &str, line: usize) -> Self {
        Self { key: trim(key).to_owned(), value: trim(value).to_owned(), line }
    }
}

/// Parses a whole file. Lines that cannot be parsed are reported and left out.
pub(super) fn parse(text: &str, report: &mut Report) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (line, logical) in logical_lines(text) {
        let (key, value) = split(&logical);
        match (unescape(key), unescape(value)) {
            (Ok(key), Ok(value)) => entries.push(Entry::new(&key, &value, line)),
            (Err(bad), _) | (_, Err(bad)) => {
                report.problem(
                    line,
                    key,
                    value,
                    format!("{bad} is no character: write \\u and four hexadecimal digits"),
                );
            }
        }
    }
    entries
}

/// Escapes a value so that [`parse`] reads it back.
pub(super) fn escape(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for char in value.chars() {
        match char {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\x0c' => text.push_str("\\f"),
            other => text.push(other),
        }
    }
    text
}

/// Joins continuation lines, and removes comments and blank lines.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let mut natural = text.split('\n').enumerate();
    let mut logical = Vec::new();
    while let Some((index, line)) = natural.next() {
        let line = line.trim_start_matches(WHITE);
        // A single backslash does not continue the line: for Java, the next line may still be a comment.
        if line.is_empty() || line == "\\" || line.starts_with(['#', '!']) {
            continue;
        }
        let mut whole = line.to_owned();
        while continues(&whole) {
            whole.pop();
            let Some((_, more)) = natural.next() else { break };
            whole.push_str(more.trim_start_matches(WHITE));
        }
        logical.push((index + 1, whole));
    }
    logical
}

/// Whether the line ends in an odd number of backslashes, so that the last one is not itself escaped.
fn continues(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Splits a line into key and value. The key ends at the first `=`, `:` or white space that is not escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|char: char| {
        let ends = !escaped && (char == '=' || char == ':' || WHITE.contains(&char));
        escaped = !escaped && char == '\\';
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(WHITE);
    (key, rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(WHITE))
}

/// Resolves escapes, or returns the one that is invalid.
fn unescape(text: &str) -> Result<String, String> {
    // In UTF-16, because `\u` escapes are code units: two of them may form one character.
    let mut units = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        let plain = match (char, char == '\\') {
            (other, false) => other,
            (_, true) => match chars.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\x0c',
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    let four = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                    let unit = u16::from_str_radix(&digits, 16).ok().filter(|_| four);
                    units.push(unit.ok_or_else(|| format!("\\u{digits}"))?);
                    continue;
                }
                Some(other) => other,
                None => break,
            },
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    Ok(String::from_utf16_lossy(&units))
}

/// Trims as Java does: removes all characters up to the space.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|char| char <= ' ')
}

/// Java's white space within a line.
const WHITE: [char; 3] = [' ', '\t', '\x0c'];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let mut report = Report::new("test");
        parse(text, &mut report).into_iter().map(|entry| (entry.key, entry.value)).collect()
    }

    fn pair(key: &str, value: &str) -> Vec<(String, String)> {
        vec![(key.to_owned(), value.to_owned())]
    }

    #[test]
    fn equals_colon_and_space_separate() {
        for text in ["a=b", "a:b", "a b", "a = b ", "  a\t:\tb", "a   b", "a=\\\n   b"] {
            assert_eq!(pairs(text), pair("a", "b"), "{text:?}");
        }
        assert_eq!(pairs("a==b"), pair("a", "=b"));
    }

    #[test]
    fn comments_and_blank_lines_are_skipped() {
        assert_eq!(pairs("# one\n ! two\n\n \t\na=b#c\n"), pair("a", "b#c"));
    }

    #[test]
    fn a_continued_line_keeps_the_number_of_its_first() {
        let entries = parse("\na=b,\\\n  c\\\\\nd=e", &mut Report::new("test"));
        assert_eq!(entries, [Entry::new("a", "b,c\\", 2), Entry::new("d", "e", 4)]);
    }

    #[test]
    fn escapes_are_resolved_and_variables_are_not() {
        assert_eq!(pairs("a\\ b\\=c=\\u0041\\ud83d\\ude00\\q${HOME}"), pair("a b=c", "A😀q${HOME}"));
    }

    #[test]
    fn a_bad_escape_is_reported_with_its_line() {
        let mut report = Report::new("zoo.cfg");
        assert!(parse("a=b\\\n\nc=\\u00g0", &mut report).len() == 1);
        let message = report.finish(()).unwrap_err().to_string();
        assert!(message.contains("zoo.cfg:3") && message.contains("\\u00g0"), "{message}");
    }

    #[test]
    fn a_backslash_alone_continues_nothing() {
        assert_eq!(pairs("\\\n# comment\n\\\n\\\na=b\n\\"), pair("a", "b"));
    }

    proptest! {
        #[test]
        fn what_is_escaped_reads_back(value in "[^\\x00-\\x20](\\PC|[\\\\\\n\\t\\r\\f =:#!])*[^\\x00-\\x20]") {
            prop_assert_eq!(pairs(&format!("key={}\n", escape(&value))), pair("key", &value));
        }

        #[test]
        fn no_text_causes_a_panic(text in "(\\PC|[\\\\\\n\\r\\t =:#!u0])*") {
            let lines = text.matches(['\n', '\r']).count() + 1;
            for entry in parse(&text, &mut Report::new("test")) {
                prop_assert!(entry.line <= lines);
            }
        }
    }
}
