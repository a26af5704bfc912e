//! Parsing of the lines that a server writes to its log, as far as `pole up` needs them.
//!
//! A line is JSON (`pole.log=json`). Any other line is the message of a process that is about to exit.

use serde::Deserialize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogLine {
    /// The server looks for a leader.
    Electing,
    /// An election has ended.
    Elected {
        /// The first line of the explanation.
        why: String,
    },
    /// The server becomes leader by an election or a hand-over in this round.
    Leading {
        round: u64,
    },
    Serving {
        leader: u64,
        epoch: u64,
    },
    /// The server leads, and hands over.
    Resigning {
        to: u64,
    },
    /// The server has reread the topology file.
    Links {
        /// The result.
        what: String,
    },
    /// Not a line of the log.
    Plain {
        text: String,
    },
    /// Any other event.
    Other,
}

impl LogLine {
    pub(crate) fn parse(text: &str) -> Self {
        let Ok(Entry { event, leader, epoch, round, to, why, what }) = serde_json::from_str(text) else {
            return Self::Plain { text: text.trim_start_matches("pole: ").to_owned() };
        };
        let number = |field: Option<String>| field.and_then(|field| field.parse().ok());
        let found = match event.as_str() {
            "electing" => Some(Self::Electing),
            "elected" => why.map(|why| Self::Elected { why: reason(&why) }),
            // `7`, or `7/1` after a failed round.
            "leading" => number(round.and_then(|round| round.split('/').next().map(str::to_owned)))
                .map(|round| Self::Leading { round }),
            "serving" => number(leader).zip(number(epoch)).map(|(leader, epoch)| Self::Serving { leader, epoch }),
            "resigning" => number(to).map(|to| Self::Resigning { to }),
            "topology" => what.map(|what| Self::Links { what }),
            _ => None,
        };
        found.unwrap_or(Self::Other)
    }
}

/// Returns `score, next is 4` for `server 3 leads by score, next is 4: …`.
fn reason(record: &str) -> String {
    let first = record.lines().next().unwrap_or_default();
    let by = first.split_once(" leads by ").map_or(first, |(_, by)| by);
    // The rest compares scores in internal units.
    by.split_once(": ").map_or(by, |(by, _)| by).to_owned()
}

/// The fields of all events that are used here.
#[derive(Deserialize)]
struct Entry {
    event: String,
    leader: Option<String>,
    epoch: Option<String>,
    round: Option<String>,
    to: Option<String>,
    why: Option<String>,
    what: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_events_are_parsed_and_others_ignored() {
        let parse = |text: &str| LogLine::parse(text);
        let serving = r#"{"time":"x","level":"INFO","event":"serving","leader":"3","epoch":"2"}"#;
        assert_eq!(parse(serving), LogLine::Serving { leader: 3, epoch: 2 });
        assert_eq!(parse(r#"{"event":"resigning","to":"4","cause":"transfer"}"#), LogLine::Resigning { to: 4 });
        assert_eq!(parse(r#"{"event":"electing","cause":"start"}"#), LogLine::Electing);
        assert_eq!(parse(r#"{"event":"leading","round":"7"}"#), LogLine::Leading { round: 7 });
        assert_eq!(parse(r#"{"event":"leading","round":"7/1"}"#), LogLine::Leading { round: 7 });
        assert_eq!(parse(r#"{"event":"serving","leader":"nobody"}"#), LogLine::Other);
        assert_eq!(parse(r#"{"event":"disk"}"#), LogLine::Other);
        let elected = r#"{"event":"elected","why":"server 3 leads by score, next is 4: 1 against 2\n  round 1"}"#;
        assert_eq!(parse(elected), LogLine::Elected { why: "score, next is 4".into() });
        assert_eq!(parse("pole: no such file"), LogLine::Plain { text: "no such file".into() });
    }
}
