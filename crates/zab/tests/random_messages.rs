//! Random messages in random order never make a server panic or violate the order of its positions.

use std::collections::BTreeSet;

use bytes::Bytes;
use pole_election::{Proposal, Rank, Round, Standing};
use pole_types::{Epoch, ServerId, Voters, Zxid};
use pole_zab::{
    Entry, Epochs, Hello, Limits, Message, Origin, Output, Phase, Promise, Recovered, SnapshotPart, Ticket, TransferId,
    Zab,
};

/// A xorshift generator, deterministic on every machine.
struct Rng(u64);

impl Rng {
    fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// Mostly small, sometimes at the ends of the range.
    fn number(&mut self) -> u32 {
        match self.below(20) {
            0 => u32::MAX - self.below(2) as u32,
            1 => self.next_u64() as u32,
            _ => self.below(5) as u32,
        }
    }

    fn epoch(&mut self) -> Epoch {
        Epoch(self.number())
    }

    fn zxid(&mut self) -> Zxid {
        Zxid::new(self.epoch(), self.number())
    }

    fn entries(&mut self, prev: Zxid) -> Vec<Entry> {
        let mut last = prev;
        (0..self.below(4))
            .map(|_| {
                last = match self.below(6) {
                    0 => self.zxid(),
                    1 => Zxid::new(Epoch(last.epoch().0.wrapping_add(1)), 1),
                    _ => Zxid(last.0.wrapping_add(1)),
                };
                Entry { zxid: last, origin: Origin::default(), body: Bytes::from_static(b"x") }
            })
            .collect()
    }

    fn epochs(&mut self) -> Epochs {
        let mut epochs = Epochs::starting_at(if self.below(2) == 0 { Zxid::ZERO } else { self.zxid() });
        (0..self.below(3)).for_each(|_| epochs.push(self.zxid()));
        epochs
    }

    /// A random message. Most epochs and positions are those of the server, so that some messages pass its checks.
    fn message(&mut self, zab: &Zab) -> Message {
        let random_position = |rng: &mut Self| if rng.below(3) > 0 { zab.log().last() } else { rng.zxid() };
        let random_epoch = |rng: &mut Self| if rng.below(3) > 0 { zab.standing().accepted_epoch } else { rng.epoch() };
        let (epoch, last) = (random_epoch(self), random_position(self));
        // Later phases are reached too rarely by chance alone, so one message in eight is the next one of a correct run.
        let next = NEXT_IN_ORDER.iter().find(|(phase, _)| *phase == zab.phase()).map(|(_, kind)| *kind);
        let kind = next.filter(|_| self.below(8) == 0).unwrap_or_else(|| self.below(21));
        match kind {
            0 => {
                let taking_over = (self.below(2) == 0).then(|| random_epoch(self));
                Message::Hello(Hello { round: self.round(), accepted_epoch: self.epoch(), taking_over })
            }
            1 => Message::Decline,
            2 => Message::NewEpoch { epoch: Epoch(epoch.0.wrapping_add(self.below(2) as u32)) },
            3 => {
                let epochs = if self.below(2) == 0 { zab.log().epochs().clone() } else { self.epochs() };
                let (fresh, blank, ahead) = (self.below(4) > 0, self.below(3) == 0, self.below(2) == 0);
                let last_zxid = epochs.last().unwrap_or(last);
                Message::AckEpoch(Promise {
                    epoch,
                    fresh,
                    current_epoch: self.epoch(),
                    last_zxid,
                    epochs,
                    blank,
                    ahead,
                })
            }
            4 => Message::RefuseEpoch { refused: epoch, accepted: self.epoch() },
            5 => Message::Pull { epochs: self.epochs() },
            6 => Message::Truncate { to: last },
            7 => {
                let epochs = self.epochs();
                let zxid = epochs.last().unwrap_or(last);
                let (last, offset) = (self.below(2) == 0, self.below(9) as usize * self.below(2) as usize);
                let body = Bytes::copy_from_slice(&b"12345678"[..self.below(9) as usize]);
                Message::Snapshot(SnapshotPart { zxid, epochs, offset, last, body })
            }
            8 => Message::Entries { prev: last, entries: self.entries(last) },
            9 => Message::Received,
            10 => Message::PullEnd { last },
            11 => Message::NewLeader { epoch, last },
            12 => Message::AckLeader { epoch, last },
            13 => Message::UpToDate { epoch, committed: last },
            14 => {
                let listeners = vec![ServerId(1 + self.below(4))];
                Message::Propose { epoch, prev: last, entries: self.entries(last), committed: self.zxid(), listeners }
            }
            15 => Message::Ack { epoch, zxid: last, server: ServerId(1 + self.below(4)) },
            16 => Message::Commit { epoch, zxid: last },
            17 => {
                let id = ServerId(1 + self.below(4));
                let (rank, version, fingerprint) = (Rank::Unknown, Zxid::ZERO, 0);
                let choice = Proposal { id, rank, version, fingerprint, standing: Standing::default(), inputs: vec![] };
                let next = Epoch(epoch.0.wrapping_add(self.below(3) as u32));
                Message::Handover { epoch, next, last, round: self.round(), choice, asked: false }
            }
            18 => Message::TakenOver { epoch, last },
            19 => Message::Ping { seq: self.below(9) },
            _ => Message::Pong { seq: self.below(9), accepted: epoch },
        }
    }

    fn round(&mut self) -> Round {
        Round { epoch: self.below(4), failed: self.below(2) as u32 }
    }
}

/// The kind of message that a server in this phase waits for.
const NEXT_IN_ORDER: [(Phase, u64); 4] =
    [(Phase::Greeting, 2), (Phase::Promised, 11), (Phase::Joining, 13), (Phase::Serving, 17)];

/// A server driven by a caller that makes calls in random order.
struct Driven {
    zab: Zab,
    last_ticket: Ticket,
    applied: Zxid,
    /// The last restoration requested.
    restore_requested: Option<Ticket>,
    transfer: TransferId,
}

impl Driven {
    fn carry_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Write { ticket, .. } => self.last_ticket = ticket,
                Output::Ready(zxid) => self.applied = self.applied.max(zxid),
                Output::Restore { ticket, zxid } => {
                    self.restore_requested = Some(ticket);
                    self.applied = zxid;
                }
                Output::OpenTransfer { transfer, .. } => self.transfer = transfer,
                Output::Installed { .. }
                | Output::NextPiece { .. }
                | Output::ReadLog { .. }
                | Output::CloseTransfer { .. } => {}
                Output::WantsSnapshot { to } => {
                    let mut more = Vec::new();
                    self.zab.provide_snapshot(to, self.applied, Bytes::from_static(b"state").into(), &mut more);
                    self.carry_out(more);
                }
                Output::Send { .. }
                | Output::Reset { .. }
                | Output::Logged { .. }
                | Output::Truncated { .. }
                | Output::Members { .. }
                | Output::Joined { .. }
                | Output::Progress
                | Output::Promised { .. }
                | Output::Discovered { .. }
                | Output::Established { .. }
                | Output::MayForward
                | Output::Serving { .. }
                | Output::LeaderLost { .. }
                | Output::QuorumLost
                | Output::Outbid { .. }
                | Output::CommittedDirectly
                | Output::HandedOver { .. } => {}
            }
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        let mut out = Vec::new();
        let peer = ServerId(2 + rng.below(2));
        match rng.below(40) {
            0 => self.zab.step_down(&mut out),
            1 => self.zab.lead(rng.round(), [(peer, rng.epoch())], &mut out),
            2 => {
                // Any epoch would be promised, and soon the last one that there is.
                let accepted = (rng.below(2) == 0).then(|| (peer, self.zab.standing().accepted_epoch));
                self.zab.follow(peer, rng.round(), accepted, &mut out);
            }
            3 => self.zab.link_down(peer, &mut out),
            4..8 => self.zab.link_up(peer, &mut out),
            8 => self.zab.reopen(&mut out),
            9..14 => self.zab.written(self.last_ticket, &mut out),
            14 if self.zab.phase() == Phase::Established => {
                let listeners = vec![ServerId(2), ServerId(4)];
                self.zab.propose(vec![(Origin::default(), Bytes::from_static(b"y"))], listeners, &mut out);
            }
            15 => self.zab.trim(self.applied, 0),
            16 => drop(self.zab.ping(&mut out)),
            17 => self.zab.flush(&mut out),
            18 => {
                if let Some(ticket) = self.restore_requested {
                    self.zab.restored(ticket, None, &mut out);
                }
            }
            19 => self.zab.piece_is_ready(self.transfer, Bytes::from_static(b"piece"), rng.below(2) == 0, &mut out),
            20 => {
                let after = rng.zxid();
                self.zab.log_is_read(self.transfer, rng.entries(after), &mut out);
            }
            _ => {
                let message = rng.message(&self.zab);
                let before = self.zab.clone();
                // A message that is refused changes nothing but the parts of a snapshot received so far.
                if self.zab.receive(peer, message, &mut out).is_err() {
                    assert_eq!(self.zab.standing(), before.standing());
                    assert_eq!(self.zab.committed(), before.committed());
                }
            }
        }
        self.zab.assert_invariants();
        self.carry_out(out);
    }
}

#[test]
fn no_message_in_any_order_makes_a_server_panic() {
    let mut phases_seen = BTreeSet::new();
    for seed in 1..=1_000_u64 {
        let voters = Voters::new([1, 2, 3].map(ServerId));
        let zab = Zab::new(ServerId(1), voters, Limits::default(), Recovered::blank());
        let mut driven = Driven {
            zab,
            last_ticket: Ticket(0),
            applied: Zxid::ZERO,
            restore_requested: None,
            transfer: TransferId(0),
        };
        let mut rng = Rng(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        for _ in 0..2_000 {
            driven.step(&mut rng);
            phases_seen.insert(format!("{:?}", driven.zab.phase()));
        }
    }
    assert_eq!(phases_seen.len(), 11, "only these phases were reached: {phases_seen:?}");
}
