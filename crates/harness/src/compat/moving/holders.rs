//! Third-party clients during a move: Curator, Apache's C client and kazoo, each with a lock, an ephemeral node and a watch.
//!
//! The programs check themselves: `compat/java/Holder.java`, `compat/c/holder.c`, `compat/kazoo/holder.py`. Each prints
//! `@fault` when it holds everything, and looks at all of it when it is told that the servers have been replaced.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::Failure;
use crate::command::root;
use crate::compat::programs::{Output, Running, failure_line, log_path};
use crate::compat::python::Python;
use crate::compat::{Tally, c, java};
use crate::ensemble::READY_LIMIT;

/// Finds or installs the clients.
pub(super) fn prepare() -> Result<(), Failure> {
    java::prepare()?;
    c::prepare()?;
    Python::prepare().map(drop)
}

/// The programs that run.
pub(super) struct Holders(Vec<Holder>);

struct Holder {
    name: &'static str,
    program: Running,
    log: PathBuf,
}

impl Holders {
    /// Starts them with these addresses: those of all servers, old and new.
    pub(super) fn start(addresses: &[SocketAddr]) -> Result<Self, Failure> {
        java::compile()?;
        c::compile()?;
        let servers: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let servers = servers.join(",");
        let commands: [(&str, Command); 3] = [
            ("curator", java::command("holder", &servers)?),
            (c::HOLDER, c::command(c::HOLDER, &servers)?),
            ("kazoo", kazoo(&servers)?),
        ];
        let started = commands.into_iter().map(|(name, command)| Holder::start(name, command));
        started.collect::<Result<_, _>>().map(Self)
    }

    /// Waits until all hold everything.
    pub(super) fn wait_ready(&mut self) -> Result<(), Failure> {
        self.0.iter_mut().try_for_each(|holder| holder.wait_for("@fault").map(drop))
    }

    /// Tells them that the servers have been replaced. They check what they hold.
    pub(super) fn replaced(&mut self) -> Result<(), Failure> {
        self.0.iter_mut().try_for_each(|holder| holder.program.send("done"))
    }

    /// Waits until all have ended with success.
    pub(super) fn end(mut self) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        for holder in &mut self.0 {
            let said = holder.wait_for("ok: ")?;
            println!("move, {}: {said}", holder.name);
            tally.add(&Tally::of(true));
        }
        Ok(tally)
    }
}

impl Holder {
    fn start(name: &'static str, command: Command) -> Result<Self, Failure> {
        let log = log_path(&format!("move-{name}"))?;
        Ok(Self { name, program: Running::start(command, &log)?, log })
    }

    /// Waits for a line with this beginning, and returns the rest of it.
    fn wait_for(&mut self, beginning: &str) -> Result<String, Failure> {
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            let why = match self.program.next_line(deadline) {
                Output::Line(line) => match line.strip_prefix(beginning) {
                    Some(rest) => return Ok(rest.to_owned()),
                    None => continue,
                },
                Output::Ended => failure_line(&self.log),
                Output::Timeout => format!("no {beginning:?} within {READY_LIMIT:?}"),
            };
            return Err(Failure::Check(format!("{}: {why}; full output: {}", self.name, self.log.display())));
        }
    }
}

/// The program for kazoo.
fn kazoo(servers: &str) -> Result<Command, Failure> {
    let mut command = Python::prepare()?.command();
    command.arg(root().join("compat/kazoo/holder.py")).arg(servers);
    Ok(command)
}
