//! Runs the operator's command that stops a server of Apache, once for each server.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use pole_migrate::ApacheServer;
use pole_types::ServerId;

/// The command, and what was started of it.
pub(super) struct StopCommand {
    text: Option<String>,
    started: BTreeMap<ServerId, Option<Child>>,
}

impl StopCommand {
    pub(super) fn new(text: Option<String>) -> Self {
        Self { text, started: BTreeMap::new() }
    }

    /// Starts the command for this server, unless it was started before. Returns what to tell the operator.
    pub(super) fn run(&mut self, server: &ApacheServer) -> Option<String> {
        let text = self.text.as_ref()?;
        if self.started.contains_key(&server.id) {
            return None;
        }
        let line = text.replace("{id}", &server.id.to_string()).replace("{host}", &server.host);
        let child = Command::new("sh").arg("-c").arg(&line).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let said = match &child {
            Ok(_) => format!("runs: {line}"),
            Err(error) => format!("cannot run {line}: {error}; stop {server} yourself"),
        };
        self.started.insert(server.id, child.ok());
        Some(said)
    }

    /// The commands that have failed since the last call.
    pub(super) fn failures(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        for (id, child) in &mut self.started {
            let Some(Ok(Some(status))) = child.as_mut().map(Child::try_wait) else { continue };
            *child = None;
            if !status.success() {
                failures.push(format!("the command for server {id} ended with {status}; stop the server yourself"));
            }
        }
        failures
    }
}

impl Drop for StopCommand {
    fn drop(&mut self) {
        for child in self.started.values_mut().flatten() {
            // It has done its work if the server is down, and must not go on if we gave up.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
