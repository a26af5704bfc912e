//! What can be wrong with a topology file: the file, the line, the reason.

use std::fmt;

/// A topology file that was refused: where, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, if the text came from one.
    pub file: Option<String>,
    /// The line, counted from 1. For something that is missing: the line that asks for it.
    pub line: usize,
    /// What is wrong there.
    pub reason: Reason,
}

impl Error {
    /// Names the file that the text came from.
    #[must_use]
    pub fn in_file(self, file: impl Into<String>) -> Self {
        Self { file: Some(file.into()), ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{file}:{}: {}", self.line, self.reason),
            None => write!(f, "line {}: {}", self.line, self.reason),
        }
    }
}

impl std::error::Error for Error {}

/// Why a topology file was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Not TOML, a value of another type, a missing key, or a key that we do not know.
    #[error("{0}")]
    Syntax(String),
    /// A number that cannot be: negative, zero where something must flow, not a number, or absurdly large.
    #[error("{key} = {value}: must be {allowed}")]
    Range {
        /// The key of the number.
        key: &'static str,
        /// The number, as it was read.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// No `[[server]]` at all: nobody could lead.
    #[error("no servers, so no quorum: a topology needs at least one [[server]]")]
    NoServers,
    /// Several servers, and not one message between them arrives.
    #[error(
        "no quorum: with loss_percent = 100 no message arrives, and {servers} servers never agree; give less, or one server"
    )]
    NoQuorum {
        /// How many there are.
        servers: usize,
    },
    /// Two servers with one id.
    #[error("server {id} is already on line {first}")]
    DuplicateServer {
        /// The id that both have.
        id: u64,
        /// The line of the first.
        first: usize,
    },
    /// A link or a load of a site that has no server.
    #[error("unknown site \"{site}\": no [[server]] is there")]
    UnknownSite {
        /// The site as it was written.
        site: String,
    },
    /// Two links between the same sites; a link has no direction.
    #[error("the link {a} - {b} is already on line {first}")]
    DuplicateLink {
        /// One end, the smaller name.
        a: String,
        /// The other end.
        b: String,
        /// The line of the first.
        first: usize,
    },
    /// Two sites with servers and no link between them.
    #[error("no link {a} - {b}: every pair of sites needs a [[link]]")]
    MissingLink {
        /// One end, the smaller name.
        a: String,
        /// The other end, whose first server is on the line of the error.
        b: String,
    },
    /// Two loads of one site.
    #[error("the load of {site} is already on line {first}")]
    DuplicateLoad {
        /// The site that both name.
        site: String,
        /// The line of the first.
        first: usize,
    },
}
