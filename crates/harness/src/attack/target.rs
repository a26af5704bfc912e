//! The ensemble as an attack sees it, and the findings that an attack returns.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::raw::RawClient;
use crate::ensemble::{Ensemble, Ports, Probe, Usage};

/// A running ensemble under attack.
pub(super) struct Target {
    /// The ports of all servers.
    pub(super) ports: Vec<Ports>,
    /// The index of the server that led at the start of the attack.
    pub(super) leader: usize,
    /// The client configuration for the secure ports.
    pub(super) tls: Arc<ClientConfig>,
    probes: Vec<Probe>,
    pids: Vec<u32>,
}

/// The result of an attack's own checks.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Figures that show how much the attack did.
    pub(super) note: String,
    /// Descriptions of failed checks.
    pub(super) problems: Vec<String>,
}

impl Target {
    pub(super) fn new(ensemble: &Ensemble, leader: usize, tls: Arc<ClientConfig>) -> Self {
        let servers = ensemble.servers();
        Self {
            ports: servers.iter().map(|server| server.ports()).collect(),
            leader,
            tls,
            probes: servers.iter().map(|server| server.probe()).collect(),
            pids: servers.iter().filter_map(|server| server.pid()).collect(),
        }
    }

    /// The client port of a server.
    pub(super) fn address(&self, server: usize) -> SocketAddr {
        loopback(self.ports[server].client)
    }

    /// The index of a server that does not lead.
    pub(super) fn follower(&self) -> usize {
        (self.leader + 1) % self.ports.len()
    }

    /// Opens a session at this server.
    pub(super) fn session(&self, server: usize) -> io::Result<RawClient> {
        let mut raw = RawClient::plain(self.address(server))?;
        raw.open_session(SESSION_TIMEOUT)?;
        Ok(raw)
    }

    /// Opens a session at this server, over TLS.
    pub(super) fn secure_session(&self, server: usize, timeout: Duration) -> io::Result<RawClient> {
        let mut raw = RawClient::tls(loopback(self.ports[server].secure), &self.tls)?;
        raw.open_session(timeout)?;
        Ok(raw)
    }

    /// A probe for each server.
    pub(super) fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// The current resident memory of each server, in bytes; 0 if it has exited.
    pub(super) fn resident(&self) -> Vec<u64> {
        self.pids.iter().map(|pid| Usage::of(*pid).map_or(0, |usage| usage.resident_bytes)).collect()
    }

    /// Polls a condition until it holds. Returns false if it does not hold within the limit.
    pub(super) fn wait_until(&self, limit: Duration, mut holds: impl FnMut(&Self) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            if holds(self) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Findings {
    /// Findings without problems.
    pub(super) fn note(note: String) -> Self {
        Self { note, problems: Vec::new() }
    }

    /// Adds this problem if the check failed.
    #[must_use]
    pub(super) fn require(mut self, passed: bool, problem: impl FnOnce() -> String) -> Self {
        if !passed {
            self.problems.push(problem());
        }
        self
    }
}

/// An address on loopback.
pub(super) fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// The session timeout of attackers. Longer than any attack, because attackers send no pings.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(40);
