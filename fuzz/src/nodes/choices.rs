//! Messages of a peer, chosen by bytes of the input: every kind, with numbers near those of the node.
//!
//! Random bytes rarely contain the epoch of the node. Most of the numbers here are close to the node's state, and
//! some are as far away as possible.

use std::collections::BTreeMap;

use bytes::Bytes;
use pole_election::{Input, Message as Election, Proposal, Propose, ROUND_MAX, Rank, Round, Score, Standing, Vote};
use pole_jute::{
    CloseSessionTxn, CreateSessionTxn, CreateTxn, DeleteTxn, ErrorTxn, Record, SetDataTxn, Txn, TxnEntry, TxnHeader,
};
use pole_node::{Message, Request, TransferRefusal};
use pole_oracle::{Gossip, Report};
use pole_tree::{Caller, WriteRequest};
use pole_types::{Cxid, Epoch, ServerId, SessionId, Span, Zxid};
use pole_zab::{Entry, Epochs, Hello, Message as Zab, Origin, Promise, SnapshotPart};

/// The state of the node, on which choices are based.
#[derive(Clone, Debug)]
pub(super) struct NodeView {
    pub(super) standing: Standing,
    pub(super) committed: Zxid,
    pub(super) base: Zxid,
    pub(super) epochs: Epochs,
    pub(super) round: Round,
    pub(super) fingerprint: u64,
    /// The tree, encoded as in a snapshot.
    pub(super) state: Bytes,
}

/// Chooses values by the bytes of an input.
pub(super) struct Choices<'a> {
    pub(super) left: &'a [u8],
    pub(super) view: &'a NodeView,
    /// The peer that sends the message.
    pub(super) from: ServerId,
}

impl Choices<'_> {
    /// The next byte of the input; 0 at its end.
    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, left)) = self.left.split_first() else { return 0 };
        self.left = left;
        *first
    }

    fn bool(&mut self) -> bool {
        !self.byte().is_multiple_of(2)
    }

    fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX,
            254 => u64::MAX / 2,
            253 => 1 << 40,
            small => small.into(),
        }
    }

    fn span(&mut self) -> Span {
        match self.byte() {
            255 => Span(u64::MAX),
            ms => Span::from_ms(ms.into()),
        }
    }

    pub(super) fn server(&mut self) -> ServerId {
        ServerId(u64::from(self.byte() % 5))
    }

    pub(super) fn epoch(&mut self) -> Epoch {
        let Standing { accepted_epoch: Epoch(accepted), current_epoch, .. } = self.view.standing;
        match self.byte() % 9 {
            0 => Epoch(accepted),
            1 => Epoch(accepted.saturating_add(1)),
            2 => current_epoch,
            3 => Epoch(accepted.saturating_sub(1)),
            4 => Epoch(0),
            5 => Epoch(u32::MAX),
            6 => Epoch(accepted.saturating_add(1 << 24)),
            7 => Epoch(accepted.saturating_add(2)),
            _ => Epoch(self.byte().into()),
        }
    }

    pub(super) fn zxid(&mut self) -> Zxid {
        let last = self.view.standing.last_zxid;
        match self.byte() % 9 {
            0 => last,
            1 => next(last),
            2 => self.view.committed,
            3 => Zxid::ZERO,
            4 => self.view.base,
            5 => Zxid::new(self.epoch(), 1),
            6 => Zxid::new(self.epoch(), u32::MAX),
            7 => Zxid::new(last.epoch(), last.counter().saturating_sub(1)),
            _ => Zxid::new(self.epoch(), self.byte().into()),
        }
    }

    fn round(&mut self) -> Round {
        let Round { epoch, failed } = self.view.round;
        match self.byte() % 8 {
            0 => Round { epoch, failed },
            1 => Round { epoch: epoch.saturating_add(1), failed: 0 },
            2 => Round { epoch, failed: failed.saturating_add(1) },
            3 => Round { epoch: epoch.saturating_sub(1), failed },
            4 => Round { epoch: ROUND_MAX, failed },
            5 => Round { epoch: u64::MAX, failed: u32::MAX },
            6 => Round { epoch, failed: u32::MAX },
            _ => Round { epoch: self.byte().into(), failed: self.byte().into() },
        }
    }

    fn standing(&mut self) -> Standing {
        match self.byte() % 3 {
            0 => self.view.standing,
            1 => Standing::default(),
            _ => Standing { current_epoch: self.epoch(), last_zxid: self.zxid(), accepted_epoch: self.epoch() },
        }
    }

    fn rank(&mut self) -> Rank {
        let component = |byte| match byte {
            255 => i64::MAX,
            254 => i64::MIN,
            small => i64::from(small) - 100,
        };
        match self.byte() % 4 {
            0 => Rank::Unknown,
            count => Rank::Known(Score::new((0..count).map(|_| component(self.byte())).collect())),
        }
    }

    pub(super) fn proposal(&mut self, id: ServerId) -> Proposal {
        let names = usize::from(self.byte() % 4);
        let inputs = (0..names).map(|at| Input { name: "name".repeat(10 * at), value: i64::MIN }).collect();
        let fingerprint = if self.byte() % 8 == 7 { self.number() } else { self.view.fingerprint };
        Proposal { id, rank: self.rank(), version: Zxid::ZERO, fingerprint, standing: self.standing(), inputs }
    }

    fn gossip(&mut self) -> Gossip {
        Gossip { rank: self.rank(), version: Zxid::ZERO, fingerprint: self.view.fingerprint }
    }

    pub(super) fn report(&mut self) -> Report {
        let ids = [1, 2, 3, 4].map(ServerId);
        let (lacking, bandwidths) = (ids.map(|id| (id, self.number())), ids.map(|id| (id, self.number())));
        Report {
            rate_milli: self.number(),
            standing: self.standing(),
            lacking: lacking.into(),
            bandwidths: bandwidths.into(),
            round_trips: ids.iter().map(|id| (*id, self.span())).collect::<BTreeMap<_, _>>(),
            fsync_p50: self.span(),
            fsync_p99: self.span(),
            after_crash: self.gossip(),
            before_resignation: self.gossip(),
        }
    }

    pub(super) fn epochs(&mut self) -> Epochs {
        let mut epochs = match self.byte() % 4 {
            0 => self.view.epochs.clone(),
            1 => Epochs::starting_at(Zxid::ZERO),
            _ => Epochs::starting_at(self.zxid()),
        };
        (0..self.byte() % 3).for_each(|_| epochs.push(self.zxid()));
        epochs
    }

    fn hello(&mut self) -> Hello {
        let taking_over = self.bool().then(|| self.epoch());
        Hello { round: self.round(), accepted_epoch: self.epoch(), taking_over }
    }

    /// A promise, mostly consistent.
    pub(super) fn promise(&mut self, epoch: Epoch) -> Promise {
        let epochs = self.epochs();
        let last_zxid = if self.byte() % 8 == 7 { self.zxid() } else { epochs.last().unwrap_or(Zxid::ZERO) };
        let current_epoch = if self.bool() { self.epoch() } else { self.view.standing.current_epoch };
        let (blank, ahead) = (self.bool(), self.bool());
        Promise { epoch, fresh: !self.bool(), current_epoch, last_zxid, epochs, blank, ahead }
    }

    fn origin(&mut self) -> Origin {
        let session = SessionId(i64::from(self.byte() % 4));
        let cxid = match self.byte() {
            255 => Cxid::OWN,
            small @ 0..64 => Cxid(small.into()),
            nth => Cxid::attachment(ServerId(u64::from(nth % 4)), u32::from(nth / 4 % 16)),
        };
        Origin { session, cxid }
    }

    pub(super) fn txn(&mut self, zxid: Zxid, origin: Origin) -> Bytes {
        let path = if self.bool() { "/zookeeper/pole".to_owned() } else { format!("/{}", self.byte() % 4) };
        let data = Some(Bytes::from_static(if self.bool() { b"rotating" } else { b"no oracle" }));
        let txn = match self.byte() % 8 {
            0 => Txn::CreateSession(CreateSessionTxn { timeout: i32::from(self.byte()) << 23 | 4_000 }),
            1 | 2 => Txn::Create(CreateTxn { path, data, acl: Vec::new(), ephemeral: self.bool(), parent_cversion: 1 }),
            3 => Txn::SetData(SetDataTxn { path, data, version: 1 }),
            4 => Txn::Delete(DeleteTxn { path }),
            5 => Txn::CloseSession(Some(CloseSessionTxn { paths_to_delete: vec![path] })),
            6 => Txn::Error(ErrorTxn { err: -101 }),
            _ => return self.bytes(),
        };
        let (client_id, cxid) = (origin.session.0, origin.cxid.0);
        let header = TxnHeader { client_id, cxid, zxid: zxid.0.cast_signed(), time: 0, op: txn.op().number() };
        TxnEntry { header, txn, digest: None }.encode()
    }

    /// A request of a client.
    pub(super) fn request(&mut self) -> Bytes {
        match self.byte() % 4 {
            0 => WriteRequest::attach(4_000, self.bool()),
            1 => WriteRequest::close(),
            2 => {
                let path = format!("/{}", self.byte() % 4);
                let length = u32::try_from(path.len()).expect("short").to_be_bytes();
                let flags = i32::from(self.byte() % 4).to_be_bytes();
                // Path, no data, the open ACL, flags.
                let acl = b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone";
                let body = [&length[..], path.as_bytes(), &[0; 4], acl, &flags].concat();
                WriteRequest::encode(pole_jute::OpCode::Create, &Caller::default(), &body)
            }
            _ => self.bytes(),
        }
    }

    fn bytes(&mut self) -> Bytes {
        let count = usize::from(self.byte()).min(self.left.len());
        let (bytes, left) = self.left.split_at(count);
        self.left = left;
        Bytes::copy_from_slice(bytes)
    }

    /// Entries after this position, mostly contiguous.
    pub(super) fn entries(&mut self, prev: Zxid, epoch: Epoch) -> Vec<Entry> {
        let mut last = prev;
        let mut entries = Vec::new();
        for _ in 0..self.byte() % 4 {
            let zxid = match self.byte() % 16 {
                15 => self.zxid(),
                14 => Zxid::new(last.epoch(), last.counter().wrapping_add(1)),
                _ if epoch > last.epoch() => Zxid::new(epoch, 1),
                _ => next(last),
            };
            let origin = self.origin();
            entries.push(Entry { zxid, origin, body: self.txn(zxid, origin) });
            last = zxid;
        }
        entries
    }

    pub(super) fn snapshot(&mut self) -> SnapshotPart {
        let epochs = self.epochs();
        let zxid = if self.byte() % 8 == 7 { self.zxid() } else { epochs.last().unwrap_or(Zxid::ZERO) };
        let body = if self.bool() { self.bytes() } else { self.view.state.clone() };
        let offset = match self.byte() % 8 {
            7 => usize::MAX,
            6 => body.len(),
            _ => 0,
        };
        SnapshotPart { zxid, epochs, offset, last: !self.bool(), body }
    }

    /// A message of any kind.
    pub(super) fn message(&mut self) -> Message {
        let (from, last) = (self.from, self.view.standing.last_zxid);
        Message::Zab(match self.byte() % 40 {
            0 | 1 => return self.propose(),
            2 | 3 => return self.vote(),
            4 | 5 => {
                return Message::Heartbeat { seq: self.number(), members: Zxid::ZERO, report: Box::new(self.report()) };
            }
            6 => return Message::Echo { seq: self.number() },
            7 | 8 => {
                let epoch = self.epoch();
                let request = |choices: &mut Self| Request {
                    origin: choices.origin(),
                    floor: choices.zxid(),
                    body: choices.request(),
                };
                return Message::Forward { epoch, requests: (0..self.byte() % 4).map(|_| request(self)).collect() };
            }
            9 => {
                let (epoch, id) = (self.epoch(), self.number());
                return Message::Touch { epoch, id, sessions: (0..4).map(SessionId).collect() };
            }
            10 => return Message::TouchDone { epoch: self.epoch(), id: self.number() },
            11 => return Message::SyncAsk { epoch: self.epoch(), through: self.number() },
            12 => return Message::SyncDone { epoch: self.epoch(), through: self.number(), zxid: self.zxid() },
            13 => {
                let (epoch, begins) = (self.epoch(), self.bool());
                let sessions = (0..4).map(|id| (SessionId(id), self.span())).collect();
                return Message::Remaining { epoch, begins, sessions };
            }
            14 if self.bool() => {
                let (epoch, refusal) = (self.epoch(), TransferRefusal::NotLevel(self.server()));
                return Message::TransferRefused { epoch, refusal };
            }
            14 if self.bool() => return Message::Behind { epoch: self.epoch() },
            14 if self.bool() => return Message::LeaderSought { epoch: self.epoch(), by: self.server() },
            14 => return Message::TransferAsk { epoch: self.epoch(), to: self.bool().then(|| self.server()) },
            15 | 16 => Zab::Hello(self.hello()),
            17 => Zab::Decline,
            18 | 19 => Zab::NewEpoch { epoch: self.epoch() },
            20 | 21 => {
                let epoch = self.epoch();
                Zab::AckEpoch(self.promise(epoch))
            }
            22 => Zab::RefuseEpoch { refused: self.epoch(), accepted: self.epoch() },
            23 => Zab::Pull { epochs: self.epochs() },
            24 => Zab::Truncate { to: self.zxid() },
            25 | 26 => Zab::Snapshot(self.snapshot()),
            27 => {
                let (prev, epoch) = (self.zxid(), self.epoch());
                Zab::Entries { prev, entries: self.entries(prev, epoch) }
            }
            28 => Zab::Received,
            29 => Zab::PullEnd { last: self.zxid() },
            30 => Zab::NewLeader { epoch: self.epoch(), last: self.zxid() },
            31 => Zab::AckLeader { epoch: self.epoch(), last: self.zxid() },
            32 => Zab::UpToDate { epoch: self.epoch(), committed: self.zxid() },
            33 | 34 => {
                let epoch = self.epoch();
                let prev = if self.byte() % 8 == 7 { self.zxid() } else { last };
                let listeners = vec![self.server()];
                Zab::Propose { epoch, prev, entries: self.entries(prev, epoch), committed: self.zxid(), listeners }
            }
            35 => Zab::Ack { epoch: self.epoch(), zxid: self.zxid(), server: from },
            36 => Zab::Commit { epoch: self.epoch(), zxid: self.zxid() },
            37 => self.handover(),
            38 => Zab::TakenOver { epoch: self.epoch(), last: self.zxid() },
            _ if self.bool() => Zab::Ping { seq: self.number() },
            _ => Zab::Pong { seq: self.number(), accepted: self.epoch() },
        })
    }

    fn handover(&mut self) -> Zab {
        let (epoch, next, last, round) = (self.epoch(), self.epoch(), self.zxid(), self.round());
        let target = self.server();
        Zab::Handover { epoch, next, last, round, choice: self.proposal(target), asked: self.bool() }
    }

    pub(super) fn propose(&mut self) -> Message {
        let (round, own) = (self.round(), self.proposal(self.from));
        let candidate = self.server();
        let choice = if self.bool() { own.clone() } else { self.proposal(candidate) };
        let demoted = (0..self.byte() % 3).map(|_| self.server()).collect();
        Message::Election(Election::Propose(Propose { round, own, choice, demoted }))
    }

    pub(super) fn vote(&mut self) -> Message {
        let (round, candidate) = (self.round(), self.server());
        let vote = Vote { round, choice: self.proposal(candidate), established: self.bool().then(|| self.epoch()) };
        Message::Election(Election::Vote(vote))
    }
}

/// The position after this one.
fn next(zxid: Zxid) -> Zxid {
    Zxid::new(zxid.epoch(), zxid.counter().saturating_add(1))
}
