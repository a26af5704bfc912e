//! What an attack knows of the ensemble, and what it has to say afterwards.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::raw::Raw;
use crate::ensemble::{Ensemble, Ports, Probe, Usage};

/// A running ensemble, as an attacker sees it.
pub(super) struct Target {
    /// The ports of all servers.
    pub(super) ports: Vec<Ports>,
    /// The index of the server that led when the attack began.
    pub(super) leader: usize,
    /// To connect to the secure ports.
    pub(super) tls: Arc<ClientConfig>,
    probes: Vec<Probe>,
    pids: Vec<u32>,
}

/// What an attack saw.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// How far it came, in figures.
    pub(super) note: String,
    /// What should not be so.
    pub(super) complaints: Vec<String>,
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

    /// A session at this server.
    pub(super) fn session(&self, server: usize) -> io::Result<Raw> {
        let mut raw = Raw::plain(self.address(server))?;
        raw.open_session(SESSION_TIMEOUT)?;
        Ok(raw)
    }

    /// A session at this server, over TLS.
    pub(super) fn secure_session(&self, server: usize, timeout: Duration) -> io::Result<Raw> {
        let mut raw = Raw::tls(loopback(self.ports[server].secure), &self.tls)?;
        raw.open_session(timeout)?;
        Ok(raw)
    }

    /// To ask the servers how they are.
    pub(super) fn probes(&self) -> &[Probe] {
        &self.probes
    }

    /// Resident memory of each server now, in bytes; 0 of one that has ended.
    pub(super) fn resident(&self) -> Vec<u64> {
        self.pids.iter().map(|pid| Usage::of(*pid).map_or(0, |usage| usage.resident_bytes)).collect()
    }

    /// Whether some server says this within the limit. Asked again and again: there is no event for it.
    pub(super) fn within(&self, limit: Duration, mut holds: impl FnMut(&Self) -> bool) -> bool {
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

impl Found {
    /// Nothing to complain of.
    pub(super) fn note(note: String) -> Self {
        Self { note, complaints: Vec::new() }
    }

    /// With this complaint, if there is a reason for it.
    #[must_use]
    pub(super) fn unless(mut self, good: bool, complaint: impl FnOnce() -> String) -> Self {
        if !good {
            self.complaints.push(complaint());
        }
        self
    }
}

/// An address on loopback.
pub(super) fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Of an attacker's session: longer than any attack, which does not ping.
pub(super) const SESSION_TIMEOUT: Duration = Duration::from_secs(40);
