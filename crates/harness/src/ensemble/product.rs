//! Which product, and the command that starts one of its servers.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{apache, pole};
use crate::Failure;
use crate::command::{is_installed, program};

/// Whose servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Product {
    /// Apache ZooKeeper 3.8, as Debian packs it.
    Apache,
    /// Ours.
    Pole,
}

impl Product {
    /// Finds what is needed to start servers, and builds or installs it if it may.
    pub fn launcher(self) -> Result<Launcher, Failure> {
        let (program, arguments) = match self {
            Self::Apache => apache::command()?,
            Self::Pole => pole::command()?,
        };
        Ok(Launcher { product: self, program, arguments, files_max: None, log_unread: false })
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Apache => "Apache",
            Self::Pole => "Pole",
        })
    }
}

/// The command of a product, without the configuration file that comes last.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// Whose it is.
    pub product: Product,
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Open files that a server may have, if it is to have another limit than we do.
    files_max: Option<u64>,
    /// Whether standard error is a pipe that nobody reads, instead of a file.
    pub(super) log_unread: bool,
}

impl Launcher {
    /// Servers with this hard limit of open files (`ulimit -n`).
    #[must_use]
    pub fn with_files_max(mut self, files_max: u64) -> Self {
        self.files_max = Some(files_max);
        self
    }

    /// Servers whose standard error is a pipe that nobody reads.
    #[must_use]
    pub fn with_log_unread(mut self) -> Self {
        self.log_unread = true;
        self
    }

    /// The command for a server with this configuration file.
    ///
    /// `setpriv` has the kernel kill the server when our thread ends, however it ends; then it becomes the server, so
    /// the process id is the same.
    pub fn command(&self, config: &Path) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        if is_installed("setpriv") {
            words.extend(["setpriv", "--pdeathsig", "KILL", "--"].map(OsString::from));
        }
        if let Some(files_max) = self.files_max {
            words.extend(["prlimit".into(), format!("--nofile={files_max}:{files_max}").into(), "--".into()]);
        }
        words.push(self.program.clone().into());
        let mut command = program(&words[0].to_string_lossy());
        command.args(&words[1..]).args(&self.arguments).arg(config);
        command
    }
}
