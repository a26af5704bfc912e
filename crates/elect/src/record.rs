//! The content of the records in the store: JSON, so that an operator can read it with the store's own tools.
//!
//! A record with a higher `format` than ours was written by a newer release; it is refused, never overwritten. Unknown
//! fields are ignored, so that a release can add some.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::score::{OracleTag, Value};
use crate::store::{Error, LeaseId};
use crate::token::Token;

/// A record that can be stored.
pub trait Record: Serialize + DeserializeOwned {
    /// The format that the record states.
    fn format(&self) -> u32;

    /// The bytes to store.
    fn encode(&self) -> Bytes {
        Bytes::from(serde_json::to_vec(self).expect("a record has string keys and no fallible parts"))
    }

    /// Parses stored bytes.
    ///
    /// # Errors
    /// [`Error::Damaged`] if they are not a record of this kind, or one of a newer release.
    fn decode(bytes: &Bytes) -> Result<Self, Error> {
        let record: Self = serde_json::from_slice(bytes)
            .map_err(|error| Error::damaged(format!("not a record of an election: {error}")))?;
        if record.format() > FORMAT {
            let (got, known) = (record.format(), FORMAT);
            return Err(Error::damaged(format!("a record of format {got}, this release knows up to {known}")));
        }
        Ok(record)
    }
}

/// The record `leader`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Leader {
    /// See [`FORMAT`].
    pub format: u32,
    /// The fencing token of this term.
    pub token: Token,
    /// The leader's id.
    pub id: String,
    /// The lease whose end makes the leadership vacant.
    #[serde(serialize_with = "write_lease", deserialize_with = "read_lease")]
    pub lease: LeaseId,
    /// Whether the leader has given up leadership. Then the lease does not matter.
    pub resigned: bool,
    /// The candidate to which a leader that resigned hands over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<String>,
    /// Set by an operator who wants the leader to resign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<ResignRequest>,
    /// The lowest epoch of the next token, raised by an operator after a restore.
    #[serde(default)]
    pub epoch_floor: u32,
    /// Why this leader leads.
    pub reason: Reason,
    /// Earlier terms, newest first, at most [`HISTORY_MAX`].
    #[serde(default)]
    pub history: Vec<Term>,
}

/// An operator's request to the leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResignRequest {
    /// The candidate that is to lead; none for the best.
    pub to: Option<String>,
}

/// Why a leader leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reason {
    /// What made the leadership vacant.
    pub cause: Cause,
    /// How the leader came to be first.
    pub chosen: Chosen,
    /// Its score when it took over, none if unknown.
    pub score: Option<Value>,
    /// The score's oracle.
    pub oracle: OracleTag,
    /// The wall clock of the leader at the take-over, for display only.
    pub at_ms: u64,
}

/// What made the leadership vacant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// There was no leader before.
    First,
    /// The lease of the leader before ended.
    LeaderLost,
    /// The leader before stopped or was asked to stop.
    Resigned,
    /// The leader before handed over to a better candidate.
    HandedOver,
}

/// How a candidate came to be the first to take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chosen {
    /// The leader before named it.
    Successor,
    /// It was the first live candidate of the succession list, at this position from 0.
    Listed(u32),
    /// It was the first live candidate by rank, at this rank from 0.
    Ranked(u32),
    /// It came first; scores do not matter in this election.
    FirstCome,
}

/// An earlier term.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Term {
    /// Its token.
    pub token: Token,
    /// Its leader.
    pub id: String,
    /// Why it led.
    pub reason: Reason,
}

/// The record `succession`: the best live candidates, best first. A hint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Succession {
    /// See [`FORMAT`].
    pub format: u32,
    /// The highest token that its author knew.
    pub token: Token,
    /// Its author.
    pub by: String,
    /// The candidates except the leader, at most [`LISTED_MAX`].
    pub list: Vec<Listed>,
    /// The number of all candidates when it was written.
    pub candidates: u32,
    /// What the leader thinks of resigning.
    #[serde(default)]
    pub decision: String,
}

/// A candidate on the succession list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// Its priority.
    pub priority: i32,
    /// Its score, none if unknown.
    pub score: Option<Value>,
}

/// The leased record of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Candidate {
    /// See [`FORMAT`].
    pub format: u32,
    /// Its id.
    pub id: String,
    /// Its score, none if unknown or expired. The candidate itself judges expiry, so no two clocks are compared.
    pub score: Option<Value>,
    /// The score's oracle.
    pub oracle: OracleTag,
    /// When the score was computed, by the candidate's wall clock, for display only.
    pub computed_ms: u64,
    /// How long the score is good for, for display only.
    pub score_ttl_ms: Option<u64>,
    /// Counts more than any score; 0 unless an operator gave another.
    #[serde(default)]
    pub priority: i32,
    /// Never leads.
    #[serde(default)]
    pub never: bool,
}

impl Record for Leader {
    fn format(&self) -> u32 {
        self.format
    }
}

impl Record for Succession {
    fn format(&self) -> u32 {
        self.format
    }
}

impl Record for Candidate {
    fn format(&self) -> u32 {
        self.format
    }
}

fn write_lease<S: Serializer>(lease: &LeaseId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(lease)
}

fn read_lease<'de, D: Deserializer<'de>>(deserializer: D) -> Result<LeaseId, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// The format of the records.
pub const FORMAT: u32 = 1;

/// The number of earlier terms in the leader record.
pub const HISTORY_MAX: usize = 8;

/// The maximum length of the succession list; with the longest ids it still fits into a record.
pub const LISTED_MAX: usize = 16;

/// The maximum length of a candidate's id, in bytes.
pub const ID_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn leader() -> Leader {
        let oracle = OracleTag::default();
        let reason = Reason { cause: Cause::First, chosen: Chosen::Listed(2), score: None, oracle, at_ms: 5 };
        let (token, lease) = (Token::new(1, 2), LeaseId(0xab));
        Leader {
            format: FORMAT,
            token,
            id: "a".into(),
            lease,
            resigned: false,
            successor: None,
            request: None,
            epoch_floor: 0,
            reason,
            history: vec![],
        }
    }

    #[test]
    fn a_record_reads_back_and_ignores_fields_of_later_releases() {
        let mut text = String::from_utf8(leader().encode().to_vec()).unwrap();
        assert_eq!(Leader::decode(&Bytes::from(text.clone())), Ok(leader()));
        text.insert_str(1, "\"later\":[1],");
        assert_eq!(Leader::decode(&Bytes::from(text)), Ok(leader()));
    }

    #[test]
    fn a_record_of_a_newer_format_or_another_program_is_refused() {
        let newer = Leader { format: 2, ..leader() }.encode();
        assert!(Leader::decode(&newer).unwrap_err().to_string().contains("format 2"));
        assert!(matches!(Leader::decode(&Bytes::from_static(b"x")), Err(Error::Damaged(_))));
    }

    #[test]
    fn the_largest_records_fit() {
        let id = "\u{1}".repeat(ID_MAX);
        let oracle = OracleTag { name: "\u{1}".repeat(crate::score::ORACLE_MAX), version: u64::MAX };
        let reason = Reason { oracle, score: Some(Value::from_milli(i64::MIN)), at_ms: u64::MAX, ..leader().reason };
        let term = Term { token: Token::from_number(u64::MAX), id: id.clone(), reason: reason.clone() };
        let history = vec![term; HISTORY_MAX];
        let largest = Leader { id: id.clone(), successor: Some(id.clone()), reason, history, ..leader() };
        assert!(largest.encode().len() <= crate::store::RECORD_MAX, "{}", largest.encode().len());
        let listed = Listed { id: id.clone(), priority: i32::MIN, score: Some(Value::from_milli(i64::MIN)) };
        let list = vec![listed; LISTED_MAX];
        let decision = "x".repeat(300);
        let succession = Succession { format: 1, token: Token::ZERO, by: id, list, candidates: u32::MAX, decision };
        assert!(succession.encode().len() <= crate::store::RECORD_MAX, "{}", succession.encode().len());
    }
}
