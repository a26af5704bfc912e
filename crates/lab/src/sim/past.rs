//! A past that did not happen here: servers that start with more or less of one history.
//!
//! In: how many bytes of it each server has. Out: a world that is about to start, in which nobody leads.
//! Why not let it happen: a gigabyte through the agreement takes long, and what is to be seen is only how it is caught up.
//! Holds: the histories are prefixes of one, proposed by one leader; the judges know it and look at all that follows.

use bytes::Bytes;
use pole_election::{Epoch, Zxid};
use pole_node::{Event, Timer};
use pole_zab::{Cxid, Entry, Origin, SessionId};

use super::disk::Image;
use super::world::World;
use super::{Opinion, Setup, Sink};
use crate::kv::{Refusal, Txn, pad};

impl World {
    /// A world whose servers have the first so many bytes of one history and know each other. The last of them, who has
    /// led, has just crashed; the others are about to elect the favourite.
    #[must_use]
    pub fn with_past(setup: Setup, bytes: &[u64], favourite: u64, sink: Option<Sink>) -> Self {
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
            let says = if server as u64 + 1 == favourite { "1" } else { "2" };
            world.hosts[server].opinion = Some(Opinion::of(&world.setup.oracle, Some(says.to_owned())));
        }
        world.judge.inherits(entries);
        world.clients.iter_mut().for_each(|client| client.steadfast = true);
        world.begin();
        world.acquaint();
        world
    }

    /// The servers get to know each other before they elect, as those have who lost a leader. Then the leader is gone,
    /// and when all have heard of that they begin at once: who hears first is not what is to be seen.
    fn acquaint(&mut self) {
        self.hushed = true;
        let (heartbeat, leader) = (self.setup.heartbeat.0, self.hosts.len() - 1);
        self.run_until(HEARTBEATS * heartbeat);
        self.kill(leader);
        self.run_until((HEARTBEATS + 1) * heartbeat);
        self.hushed = false;
        let again = Timer::Election(pole_election::Timer::Retry);
        (0..leader).for_each(|server| self.tell(server, Event::Expired(again)));
    }
}

/// A history that has an end wherever a server's part ends. All its transactions share their bytes: they mean nothing
/// but their size.
fn history(bytes: &[u64]) -> Vec<Entry> {
    let body = pad(Txn::Refused(0, Refusal::Absent).encode(), PIECE);
    let mut ends: Vec<u64> = bytes.to_vec();
    ends.sort_unstable();
    let mut entries: Vec<Entry> = Vec::new();
    let mut done = 0;
    for end in ends {
        while done < end {
            // A transaction has a least size; what is smaller than that is rounded up.
            let size = (end - done).clamp(SMALLEST as u64, PIECE as u64) as usize;
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

/// Enough to measure each other, and to hear what the others have measured.
const HEARTBEATS: u64 = 4;

/// When it was proposed.
const EPOCH: Epoch = Epoch(1);

/// The size of a large transaction: a slow line carries one well within the time after which a silent server is given up.
const PIECE: usize = 128 << 10;

/// A transaction of the small state machine without padding.
const SMALLEST: usize = 25;
