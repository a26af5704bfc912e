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
        Ok(Launcher { product: self, program, arguments })
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
}

impl Launcher {
    /// The command for a server with this configuration file.
    ///
    /// `setpriv` has the kernel kill the server when our thread ends, however it ends; then it becomes the server, so
    /// the process id is the same.
    pub fn command(&self, config: &Path) -> Command {
        let mut command = if is_installed("setpriv") {
            let mut command = program("setpriv");
            command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program);
            command
        } else {
            program(&self.program.to_string_lossy())
        };
        command.args(&self.arguments).arg(config);
        command
    }
}
