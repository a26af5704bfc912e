//! The paper's evaluation: its experiments in virtual time on the production code, beside its formulas and its figures.
//!
//! In: options. Out: tables, figures and a report; see [`run`].
//! Source: sections 4 (setting) and 5 (figures) of the paper; what each figure means is in `docs/lab.md`.
//!
//! ```text
//! experiment, recovery, wander   one run each                 formula   what should come out
//! question                       whom `recovery` should pick  random    deployments by chance
//! figures, scale                 which runs, how large        regret    the oracles on random topologies
//! job, ledger, pool              runs by name, kept, at once  rows      the tables
//! study                          all of it                    pages     the report
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
pub use figures::{Case, Figure, LEADERS, ORACLES, STATED, Share, Stated, What};
pub use formula::{Formula, Winner};
pub use pool::Progress;
pub use question::{Answer, Question, Times};
pub use real::{REAL_MORE, Real, RealOutcome, RealPlan, RealRow, RealRun, RealSummary};
pub use recovery::{Recovered, Recovery};
pub use regret::{Regret, random_topology, regrets};
pub use rows::{
    Agreement, Beside, DISK_MS, PAPER_HEAD, RECOVERY_HEAD, REGRET_HEAD, RecoveryRow, Row, SITES_HEAD, paper_csv,
    recovery_csv, regret_csv,
};
pub use scale::Scale;
pub use study::{Answered, Options, Summary, run};
pub use wander::{Wander, Wandered};

/// Why a study could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}; give another folder by --out", .path.display())]
pub struct Error {
    /// The file or folder.
    pub path: PathBuf,
    /// What the system says.
    pub source: io::Error,
}

impl Error {
    fn at(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self { path: path.to_owned(), source }
    }
}
