//! Worlds whose servers start with prefixes of one preloaded history.
//!
//! The caller gives the number of bytes that each server has; no server leads when the world starts. Sending a gigabyte
//! through the agreement would take long, and the experiments only measure how servers catch up.
//!
//! All histories are prefixes of one, proposed by one leader. The checker knows it and checks all that follows.

use bytes::Bytes;
use pole_node::{Event, Timer};
use pole_types::{Cxid, Epoch, SessionId, Zxid};
use pole_zab::{Entry, Origin};

use super::disk::Image;
use super::world::World;
use super::{ScriptedOracle, Setup, Sink};
use crate::kv::{Refusal, Txn, pad};

impl World {
    /// A world whose servers have the first `bytes` bytes of one history and have measured each other. The last server,
    /// the former leader, has just crashed; the others are about to elect the favourite.
    #[must_use]
    pub fn with_history(setup: Setup, bytes: &[u64], favourite: u64, sink: Option<Sink>) -> Self {
        let entries = history(bytes);
        let mut world = Self::still(setup, sink);
        for (server, bytes) in bytes.iter().enumerate() {
            let mut rest = *bytes as i64;
            let log = entries.iter().take_while(|entry| {
                let fits = rest > 0;
                rest -= entry.body.len() as i64;
                fits
            });
            world.hosts[server].disk.durable = Image::with_log(EPOCH, log.cloned());
            let score = if server as u64 + 1 == favourite { "1" } else { "2" };
            world.hosts[server].scripted_oracle = Some(ScriptedOracle::of(&world.setup.oracle, Some(score.to_owned())));
        }
        world.checker.preload(entries);
        world.clients.iter_mut().for_each(|client| client.waits_forever = true);
        world.begin();
        world.warm_up();
        world
    }

    /// Lets the servers exchange heartbeats without electing, as they have in an ensemble that lost its leader. Then
    /// the leader is killed, and after all servers have noticed, all start the election at the same time: which one
    /// notices first must not influence the measurement.
    fn warm_up(&mut self) {
        self.election_muted = true;
        let (heartbeat, leader) = (self.setup.heartbeat.0, self.hosts.len() - 1);
        self.run_until(HEARTBEATS * heartbeat);
        self.kill(leader);
        self.run_until((HEARTBEATS + 1) * heartbeat);
        self.election_muted = false;
        let retry = Timer::Election(pole_election::Timer::Retry);
        (0..leader).for_each(|server| self.deliver_event(server, Event::Expired(retry)));
    }
}

/// A history with a transaction boundary wherever a server's part ends. All transactions share one buffer, since only
/// their size matters.
fn history(bytes: &[u64]) -> Vec<Entry> {
    let body = pad(Txn::Refused(0, Refusal::Absent).encode(), BYTES_MAX);
    let mut ends: Vec<u64> = bytes.to_vec();
    ends.sort_unstable();
    let mut entries: Vec<Entry> = Vec::new();
    let mut done = 0;
    for end in ends {
        while done < end {
            // Rounded up to the smallest transaction.
            let size = (end - done).clamp(BYTES_MIN as u64, BYTES_MAX as u64) as usize;
            entries.push(entry(entries.len() as u32 + 1, body.slice(..size)));
            done += size as u64;
        }
    }
    entries
}

fn entry(counter: u32, body: Bytes) -> Entry {
    let origin = Origin { session: SessionId(i64::MAX), cxid: Cxid(counter as i32) };
    Entry { zxid: Zxid::new(EPOCH, counter), origin, body }
}

/// Enough to measure each other and to receive the measurements of the others.
const HEARTBEATS: u64 = 4;

/// The epoch of the preloaded history.
const EPOCH: Epoch = Epoch(1);

/// The size of a large transaction: a slow line carries one well within the liveness timeout.
const BYTES_MAX: usize = 128 << 10;

/// A transaction of the small state machine without padding.
const BYTES_MIN: usize = 25;
