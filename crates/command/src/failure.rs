//! Why a tool failed, and its exit code.

/// The reason why a command could not do its work. A check that ran and failed is reported by exit code instead.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The arguments are invalid. The command exits with code 2 and prints the usage.
    Usage(String),
    /// Something that the command needs is missing or failed. The command exits with code 1.
    Check(String),
}

impl Failure {
    /// Prints the reason and returns the exit code.
    pub fn exit(self) -> std::process::ExitCode {
        let (Self::Usage(what) | Self::Check(what)) = &self;
        eprintln!("xtask: {what}");
        std::process::ExitCode::from(if matches!(self, Self::Usage(_)) { 2 } else { 1 })
    }

    /// A failed file operation: what was attempted (a verb), on which path, and the error of the operating system.
    pub fn io(doing: &str, what: &std::path::Path, why: &std::io::Error) -> Self {
        Self::Check(format!("cannot {doing} {}: {why}", what.display()))
    }
}

/// Parses the arguments of `cargo xtask <command>`. `--help` prints the help and exits the process.
pub fn arguments<T: clap::Parser>(command: &str, args: &[String]) -> Result<T, Failure> {
    let named = std::iter::once(format!("cargo xtask {command}")).chain(args.iter().cloned());
    T::try_parse_from(named).map_err(|refused| {
        if !refused.use_stderr() {
            refused.exit();
        }
        Failure::Usage(refused.to_string())
    })
}
