//! The paper's evaluation: its experiments in virtual time on the production code, with its formulas and its figures.
//!
//! [`run`] writes tables, figures and a report.
//!
//! Source: sections 4 (setting) and 5 (figures) of the paper; `docs/lab.md` explains the figures.
//!
//! ```text
//! experiment, recovery, wander   one run each                  formula   the expected results
//! question                       which server should recover   random    random deployments
//! figures, scale                 which runs, how large         regret    the oracles on random topologies
//! job, ledger, pool              runs by key, stored, threads  rows      the tables
//! study                          the whole evaluation          pages     the report
//! real                           the same on real servers
//! ```

mod experiment;
mod figures;
mod formula;
mod job;
mod ledger;
mod pages;
mod pool;
mod question;
mod random;
mod real;
mod recovery;
mod regret;
mod rows;
mod scale;
mod study;
mod wander;

use std::io;
use std::path::{Path, PathBuf};

pub use experiment::{DISK, Experiment, Outcome};
pub use figures::{Case, Figure, LEADERS, LatencyKind, ORACLES, STATED, Share, StatedLatency};
pub use formula::{Formula, Winner};
pub use pool::Progress;
pub use question::{Answer, Question, Times};
pub use real::{REAL_MORE, Real, RealOutcome, RealPlan, RealRow, RealRun, RealSummary};
pub use recovery::{Recovered, Recovery};
pub use regret::{Regret, random_topology, regrets};
pub use rows::{
    Agreement, DISK_MS, PAPER_HEAD, PaperComparison, RECOVERY_HEAD, REGRET_HEAD, RecoveryRow, Row, SITES_HEAD,
    paper_csv, recovery_csv, regret_csv,
};
pub use scale::Scale;
pub use study::{AnswerSummary, Options, Summary, run};
pub use wander::{Wander, WanderResult};

/// Why a study could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}; give another folder by --out", .path.display())]
pub struct Error {
    /// The file or folder.
    pub path: PathBuf,
    /// The I/O error.
    pub source: io::Error,
}

impl Error {
    fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self { path: path.to_owned(), source }
    }
}
