//! Work that runs beside a server's process: reading parts of a state, reading the log, restoring a state.
//!
//! As in the real driver, each piece of work takes time and a crash ends it.

use std::collections::BTreeMap;

use bytes::Bytes;
use pole_node::{Effect, Event, Machine};
use pole_types::Zxid;
use pole_zab::{Body, Ticket, TransferId};

use super::MS;
use super::checker::CheckResult;
use super::hosts::InboxItem;
use super::scripting::Observation;
use super::world::{SimEvent, World};
use crate::Rng;

/// The background work of one process.
#[derive(Debug)]
pub(crate) struct Background {
    transfers: BTreeMap<TransferId, Option<Source>>,
    restoring: Option<Ticket>,
    rng: Rng,
}

/// A state that is being sent.
#[derive(Debug)]
struct Source {
    /// Serialized when the first piece is read, while the process goes on.
    state: Body,
    bytes: Option<Bytes>,
    at: usize,
}

/// Work that is performed at the end of its simulated duration.
#[derive(Debug)]
pub(crate) enum Work {
    Piece { transfer: TransferId, bytes: usize },
    ReadLog { transfer: TransferId, after: Zxid, through: Zxid, bytes: usize },
    Restore { ticket: Ticket, zxid: Zxid },
}

impl Background {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { transfers: BTreeMap::new(), restoring: None, rng }
    }

    /// Drops all work when the process ends.
    pub(crate) fn clear(&mut self) {
        self.transfers.clear();
        self.restoring = None;
    }
}

impl Source {
    fn next(&mut self, bytes: usize) -> (Bytes, bool) {
        let whole = self.bytes.get_or_insert_with(|| self.state.to_bytes());
        let end = whole.len().min(self.at + bytes.max(1));
        let piece = whole.slice(self.at..end);
        self.at = end;
        (piece, end == whole.len())
    }
}

impl World {
    /// Starts or cancels the background work that an effect asks for.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only called with effects of this kind")]
    pub(crate) fn start_background_work(&mut self, server: usize, effect: Effect) {
        let host = &mut self.hosts[server];
        let (work, duration_max) = match effect {
            Effect::OpenTransfer { transfer, after, state } => {
                host.disk.pins.insert(transfer.0, after);
                let source = state.map(|state| Source { state, bytes: None, at: 0 });
                host.background.transfers.insert(transfer, source);
                return;
            }
            Effect::CloseTransfer { transfer } => {
                host.disk.pins.remove(&transfer.0);
                host.background.transfers.remove(&transfer);
                return;
            }
            Effect::NextPiece { transfer, bytes } => (Work::Piece { transfer, bytes }, READ_MAX),
            Effect::ReadLog { transfer, after, through, bytes } => {
                self.observe(|_| Some(Observation::ReadsLog { server, after }));
                (Work::ReadLog { transfer, after, through, bytes }, READ_MAX)
            }
            Effect::Restore { ticket, zxid } => {
                host.background.restoring = Some(ticket);
                (Work::Restore { ticket, zxid }, RESTORE_MAX)
            }
            _ => return,
        };
        let is_scripted = self.is_scripted();
        let host = &mut self.hosts[server];
        let at =
            self.now + if is_scripted { duration_max } else { host.background.rng.between(DURATION_MIN, duration_max) };
        let boot = host.boot;
        self.queue.push(at, SimEvent::BackgroundDone { server, boot, work });
    }

    /// Completes a piece of background work, unless the process has restarted since.
    pub(crate) fn background_done(&mut self, server: usize, boot: u32, work: Work) -> CheckResult {
        let host = &mut self.hosts[server];
        if host.boot != boot || host.node.is_none() {
            return Ok(());
        }
        let item = match work {
            Work::Piece { transfer, bytes } => {
                let Some(Some(source)) = host.background.transfers.get_mut(&transfer) else { return Ok(()) };
                let (body, last) = source.next(bytes);
                InboxItem::Event(Event::PieceReady { transfer, body, last })
            }
            Work::ReadLog { transfer, after, through, bytes } => {
                if !host.background.transfers.contains_key(&transfer) {
                    return Ok(());
                }
                let entries = host.disk.read_log(after, through, bytes);
                InboxItem::Event(Event::LogRead { transfer, entries })
            }
            Work::Restore { ticket, zxid } => InboxItem::Restored { ticket, zxid },
        };
        self.deliver(server, item)
    }

    /// Replaces the state of the process by a restored one, unless another restore was requested since.
    pub(crate) fn install_restored(&mut self, server: usize, ticket: Ticket, zxid: Zxid) -> CheckResult {
        let host = &mut self.hosts[server];
        if host.background.restoring != Some(ticket) {
            return Ok(());
        }
        host.background.restoring = None;
        let Some(node) = &mut host.node else { return Ok(()) };
        let failed = match host.disk.snapshot_at(zxid) {
            Some(body) => node.machine_mut().restore(zxid, &body).err(),
            // A later snapshot has replaced it, and its own restore will be requested.
            None => Some("no such snapshot".to_owned()),
        };
        self.observe(|_| Some(Observation::Restored { server, zxid }));
        self.step(server, Event::Restored { ticket, failed })
    }
}

/// Never zero, so that a crash can interrupt the work.
const DURATION_MIN: u64 = MS / 100;

/// The longest that producing or reading one piece takes.
const READ_MAX: u64 = MS;

/// The longest that a restore takes: long enough for many other events to happen meanwhile.
const RESTORE_MAX: u64 = 50 * MS;
