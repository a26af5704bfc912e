//! Errors in topology files, with file, line and reason.

use std::fmt;

/// Why a topology file was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, if the text came from one.
    pub file: Option<String>,
    /// The line, from 1. For something that is missing: the line that requires it.
    pub line: usize,
    /// What is wrong in that line.
    pub reason: Reason,
}

impl Error {
    /// Adds the name of the file that the text came from.
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

/// The reason why a topology file was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Invalid TOML, a value of the wrong type, a missing key, or an unknown key.
    #[error("{0}")]
    Syntax(String),
    /// A number is out of range: negative, not a number, too large, or zero where zero makes no sense.
    #[error("{key} = {value}: must be {allowed}")]
    Range {
        /// The key.
        key: &'static str,
        /// The value in the file.
        value: String,
        /// The allowed range.
        allowed: &'static str,
    },
    /// There is no `[[server]]`, so there can be no leader.
    #[error("no servers, so no quorum: a topology needs at least one [[server]]")]
    NoServers,
    /// There are several servers, but every message between them is lost.
    #[error(
        "no quorum: with loss_percent = 100 no message arrives, and {servers} servers never agree; give less, or one server"
    )]
    NoQuorum {
        /// The number of servers.
        servers: usize,
    },
    /// Two servers have the same id.
    #[error("server {id} is already on line {first}")]
    DuplicateServer {
        /// The id.
        id: u64,
        /// The line of the first one.
        first: usize,
    },
    /// A link or a load names a site without a server.
    #[error("unknown site \"{site}\": no [[server]] is there")]
    UnknownSite {
        /// The name of the site.
        site: String,
    },
    /// There are two links between the same sites. A link has no direction.
    #[error("the link {a} - {b} is already on line {first}")]
    DuplicateLink {
        /// One end, the smaller name.
        a: String,
        /// The other end.
        b: String,
        /// The line of the first one.
        first: usize,
    },
    /// There is no link between two sites with servers.
    #[error("no link {a} - {b}: every pair of sites needs a [[link]]")]
    MissingLink {
        /// One end, the smaller name.
        a: String,
        /// The other end, whose first server is on the reported line.
        b: String,
    },
    /// There are two loads for one site.
    #[error("the load of {site} is already on line {first}")]
    DuplicateLoad {
        /// The site.
        site: String,
        /// The line of the first one.
        first: usize,
    },
}
