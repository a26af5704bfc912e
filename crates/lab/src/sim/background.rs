//! What works beside a process: pieces of a state, the log read from disk, a state restored. As in the real driver each
//! takes its time, and a crash ends it.

use std::collections::BTreeMap;

use bytes::Bytes;
use pole_election::Zxid;
use pole_node::{Effect, Event, Machine};
use pole_zab::{Body, Ticket, TransferId};

use super::MS;
use super::hosts::Item;
use super::judge::Verdict;
use super::stage::Sight;
use super::world::{Happening, World};
use crate::rng::Rng;

/// Of one process.
#[derive(Debug)]
pub(crate) struct Background {
    transfers: BTreeMap<TransferId, Option<Source>>,
    restoring: Option<Ticket>,
    rng: Rng,
}

/// A state that is being sent.
#[derive(Debug)]
struct Source {
    /// Turned into bytes with its first piece, when the process has gone on.
    state: Body,
    bytes: Option<Bytes>,
    at: usize,
}

/// Something that is done when its time has come.
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

    /// The process ended.
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
    /// Work of this kind is asked for, or no longer wanted.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others do not come here")]
    pub(crate) fn work_beside(&mut self, server: usize, effect: Effect) {
        let host = &mut self.hosts[server];
        let (work, takes) = match effect {
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
                self.see(|_| Some(Sight::ReadsLog { server, after }));
                (Work::ReadLog { transfer, after, through, bytes }, READ_MAX)
            }
            Effect::Restore { ticket, zxid } => {
                host.background.restoring = Some(ticket);
                (Work::Restore { ticket, zxid }, RESTORE_MAX)
            }
            _ => return,
        };
        let is_staged = self.is_staged();
        let host = &mut self.hosts[server];
        let at = self.now + if is_staged { takes } else { host.background.rng.between(TAKES_MIN, takes) };
        let boot = host.boot;
        self.queue.push(at, Happening::Beside { server, boot, work });
    }

    /// Work has taken its time.
    pub(crate) fn beside(&mut self, server: usize, boot: u32, work: Work) -> Verdict {
        let host = &mut self.hosts[server];
        if host.boot != boot || host.node.is_none() {
            return Ok(());
        }
        let item = match work {
            Work::Piece { transfer, bytes } => {
                let Some(Some(source)) = host.background.transfers.get_mut(&transfer) else { return Ok(()) };
                let (body, last) = source.next(bytes);
                Item::Event(Event::PieceReady { transfer, body, last })
            }
            Work::ReadLog { transfer, after, through, bytes } => {
                if !host.background.transfers.contains_key(&transfer) {
                    return Ok(());
                }
                let entries = host.disk.read_log(after, through, bytes);
                Item::Event(Event::LogRead { transfer, entries })
            }
            Work::Restore { ticket, zxid } => Item::Restored { ticket, zxid },
        };
        self.hand(server, item)
    }

    /// The process takes a restored state in place of its own, unless another one was asked for since.
    pub(crate) fn take_restored(&mut self, server: usize, ticket: Ticket, zxid: Zxid) -> Verdict {
        let host = &mut self.hosts[server];
        if host.background.restoring != Some(ticket) {
            return Ok(());
        }
        host.background.restoring = None;
        let Some(node) = &mut host.node else { return Ok(()) };
        let failed = match host.disk.snapshot_at(zxid) {
            Some(body) => node.machine_mut().restore(zxid, &body).err(),
            // The next one has taken its place, and its restoration will be asked for.
            None => Some("no such snapshot".to_owned()),
        };
        self.see(|_| Some(Sight::Restored { server, zxid }));
        self.step(server, Event::Restored { ticket, failed })
    }
}

/// What takes no time at all would never be met half done.
const TAKES_MIN: u64 = MS / 100;

/// To produce a piece, or to read one.
const READ_MAX: u64 = MS;

/// To restore a state: long enough that much can happen meanwhile.
const RESTORE_MAX: u64 = 50 * MS;
