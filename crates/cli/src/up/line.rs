//! The lines that a server writes to its log, as far as they concern us.
//!
//! In: a line of JSON (`pole.log=json`). Out: what happened. What is no JSON is what a process says when it ends.

use serde::Deserialize;

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It looks for a leader.
    Electing,
    /// An election has ended.
    Elected {
        /// The first line of its record.
        why: String,
    },
    /// It takes the lead that an election or a hand-over of this round gave it.
    Leading { round: u64 },
    /// It serves.
    Serving { leader: u64, epoch: u64 },
    /// It leads, and gives way.
    Resigning { to: u64 },
    /// It looked at the file of the links, which had changed.
    Links {
        /// What came of it.
        what: String,
    },
    /// Not a line of the log.
    Plain { text: String },
    /// Something that does not concern us.
    Other,
}

impl Line {
    pub(crate) fn parse(text: &str) -> Self {
        let Ok(Entry { event, leader, epoch, round, to, why, what }) = serde_json::from_str(text) else {
            return Self::Plain { text: text.trim_start_matches("pole: ").to_owned() };
        };
        let number = |field: Option<String>| field.and_then(|field| field.parse().ok());
        let found = match event.as_str() {
            "electing" => Some(Self::Electing),
            "elected" => why.map(|why| Self::Elected { why: short(&why) }),
            // `7`, or `7/1` after a failure.
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

/// `score, next is 4` of `server 3 leads by score, next is 4: …`.
fn short(record: &str) -> String {
    let first = record.lines().next().unwrap_or_default();
    let by = first.split_once(" leads by ").map_or(first, |(_, by)| by);
    // What follows compares scores in units of their own.
    by.split_once(": ").map_or(by, |(by, _)| by).to_owned()
}

/// The fields of all events that we read.
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
    fn events_are_read_and_strangers_are_passed_over() {
        let parse = |text: &str| Line::parse(text);
        let serving = r#"{"time":"x","level":"INFO","event":"serving","leader":"3","epoch":"2"}"#;
        assert_eq!(parse(serving), Line::Serving { leader: 3, epoch: 2 });
        assert_eq!(parse(r#"{"event":"resigning","to":"4","cause":"transfer"}"#), Line::Resigning { to: 4 });
        assert_eq!(parse(r#"{"event":"electing","cause":"start"}"#), Line::Electing);
        assert_eq!(parse(r#"{"event":"leading","round":"7"}"#), Line::Leading { round: 7 });
        assert_eq!(parse(r#"{"event":"leading","round":"7/1"}"#), Line::Leading { round: 7 });
        assert_eq!(parse(r#"{"event":"serving","leader":"nobody"}"#), Line::Other);
        assert_eq!(parse(r#"{"event":"disk"}"#), Line::Other);
        let elected = r#"{"event":"elected","why":"server 3 leads by score, next is 4: 1 against 2\n  round 1"}"#;
        assert_eq!(parse(elected), Line::Elected { why: "score, next is 4".into() });
        assert_eq!(parse("pole: no such file"), Line::Plain { text: "no such file".into() });
    }
}
