//! The products that can be started, and the command that starts one of their servers.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{apache, pole};
use crate::Failure;
use crate::command::{is_installed, program};

/// The product whose servers are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Product {
    /// Apache ZooKeeper 3.8, as Debian packs it.
    Apache,
    /// Ours.
    Pole,
}

impl Product {
    /// Finds the program, and builds or installs it if necessary.
    pub fn launcher(self) -> Result<Launcher, Failure> {
        let (program, arguments) = match self {
            Self::Apache => apache::command()?,
            Self::Pole => pole::command()?,
        };
        Ok(Launcher { product: self, program, arguments, environment: Vec::new(), files_max: None, log_unread: false })
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

/// The command that starts a server, without the configuration file, which is its last argument.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The product.
    pub product: Product,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(String, String)>,
    /// The limit of open files of a server. `None` means that it inherits ours.
    files_max: Option<u64>,
    /// Whether standard error is a full pipe that is never read, instead of a file.
    pub(super) log_unread: bool,
}

impl Launcher {
    /// Starts servers with this hard limit of open files (`ulimit -n`).
    #[must_use]
    pub fn with_files_max(mut self, files_max: u64) -> Self {
        self.files_max = Some(files_max);
        self
    }

    /// Starts servers whose standard error is a full pipe that is never read.
    #[must_use]
    pub fn with_log_unread(mut self) -> Self {
        self.log_unread = true;
        self
    }

    /// The program: Pole's binary, or a JVM.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Starts servers of Apache with this Java property. Pole has none.
    #[must_use]
    pub fn with_property(mut self, name: &str, value: &str) -> Self {
        if self.product == Product::Apache {
            self.arguments.insert(0, format!("-D{name}={value}").into());
        }
        self
    }

    /// Starts servers with this variable in their environment.
    #[must_use]
    pub fn with_environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts another program of the same kind.
    #[must_use]
    pub fn with_program(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// The command for a server with this configuration file.
    ///
    /// `setpriv` makes the kernel kill the server when our thread ends for any reason. It then executes the server in
    /// its own process, so the process id stays the same.
    pub fn command(&self, config: &Path) -> Command {
        let mut argv: Vec<OsString> = Vec::new();
        if is_installed("setpriv") {
            argv.extend(["setpriv", "--pdeathsig", "KILL", "--"].map(OsString::from));
        }
        if let Some(files_max) = self.files_max {
            argv.extend(["prlimit".into(), format!("--nofile={files_max}:{files_max}").into(), "--".into()]);
        }
        argv.push(self.program.clone().into());
        let mut command = program(&argv[0].to_string_lossy());
        command.args(&argv[1..]).args(&self.arguments).arg(config);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}
