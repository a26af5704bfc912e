//! The disk of one server: what is durable, what is only written, and the steps in between, so that a crash can hit
//! any of them.
//!
//! The disk takes operations in order. It reports how long each step takes and which tickets are durable, and after a
//! crash what is left.
//!
//! Operations are split into steps because a driver that promises an atomic operation must implement it (with an
//! intent file or a rename): a crash between two of its steps must leave all of it or nothing.
//!
//! Operations are carried out one after another. Appends that queue during a sync are synced together. Of what was
//! written and not synced, a crash keeps a prefix.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use pole_types::{Epoch, Zxid};
use pole_zab::{DiskOp, Entry, Epochs, Recovered, Snapshot, Ticket};

use super::marks::{Mark, Marks};
use crate::Rng;

/// The points of a server's work at which a crash can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Entries are about to be written.
    BeforeAppend,
    /// Entries are written, not synced.
    AfterAppend,
    /// Entries are durable, but not yet reported.
    AfterFsync,
    /// An epoch is about to be written.
    BeforeEpoch,
    /// An epoch is durable, but not yet reported.
    AfterEpoch,
    /// A snapshot is durable under its temporary name (and the intent, if it is a leader's).
    BeforeRename,
    /// A snapshot has its final name; the files that it replaces still exist.
    AfterRename,
    /// The server is about to send an acknowledgement.
    BeforeAck,
    /// The acknowledgement has been sent.
    AfterAck,
}

impl CrashPoint {
    /// All crash points.
    pub const ALL: [Self; 9] = [
        Self::BeforeAppend,
        Self::AfterAppend,
        Self::AfterFsync,
        Self::BeforeEpoch,
        Self::AfterEpoch,
        Self::BeforeRename,
        Self::AfterRename,
        Self::BeforeAck,
        Self::AfterAck,
    ];
}

/// The durable content of a disk, as a restart finds it.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) accepted_epoch: Epoch,
    pub(crate) current_epoch: Epoch,
    snapshot: Option<Snapshot>,
    /// The position before the first entry of `log`.
    base: Zxid,
    pub(crate) log: VecDeque<Entry>,
    /// A snapshot installation that start-up has to finish.
    intent: Option<Snapshot>,
}

#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) durable: Image,
    /// Written, not synced.
    unsynced: Vec<Entry>,
    /// The part of a snapshot received so far from another server. A crash loses it.
    receiving: Option<(Zxid, Vec<u8>)>,
    /// Positions above which the log is being read and must be kept, by transfer.
    pub(crate) pins: BTreeMap<u64, Zxid>,
    queue: VecDeque<(Ticket, DiskOp)>,
    work: Option<Work>,
    timing: Timing,
    rng: Rng,
    /// No step ends before this time.
    hangs_until: u64,
    /// The next sync fails.
    sync_fails: bool,
    /// How much of the work in progress survives a crash.
    pub(crate) survival: Survival,
}

/// How much of the work in progress, which is not durable, survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Survival {
    /// A random part.
    Random,
    /// Nothing, as if it had not begun.
    Nothing,
    /// Half of it, with a damaged end.
    Half,
    /// All of it, although it was not reported.
    All,
}

/// Durations in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) append: u64,
    pub(crate) fsync: u64,
    /// Variation of the fsync in both directions, in thousandths.
    pub(crate) jitter: u64,
}

/// The operation in progress.
#[derive(Debug)]
struct Work {
    ticket: Ticket,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Append(Vec<Entry>),
    Sync,
    Epochs { accepted: Option<Epoch>, current: Option<Epoch> },
    Truncate { to: Zxid },
    Receive { zxid: Zxid, offset: usize, body: Bytes },
    InstallTemp(Snapshot),
    InstallIntent(Snapshot),
    InstallRename(Snapshot),
    InstallClean,
    CheckpointTemp(Snapshot),
    CheckpointRename(Snapshot),
}

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The next step ends after this time.
    Step(u64),
    /// Everything up to this ticket is durable.
    Written(Ticket),
    /// The sync failed.
    Failed,
}

impl Disk {
    pub(crate) fn new(timing: Timing, rng: Rng) -> Self {
        let durable = Image::blank();
        let (queue, unsynced) = (VecDeque::new(), Vec::new());
        Self {
            durable,
            unsynced,
            receiving: None,
            pins: BTreeMap::new(),
            queue,
            work: None,
            timing,
            rng,
            hangs_until: 0,
            sync_fails: false,
            survival: Survival::Random,
        }
    }

    /// Queues an operation. Returns the duration of its first step if the disk was idle.
    pub(crate) fn submit(&mut self, ticket: Ticket, op: DiskOp) -> Option<u64> {
        self.queue.push_back((ticket, op));
        if self.work.is_none() { self.begin() } else { None }
    }

    /// Starts the next operation; to be called when the last one is done. Returns the duration of its first step.
    pub(crate) fn begin(&mut self) -> Option<u64> {
        let (mut ticket, op) = self.queue.pop_front()?;
        let step = match op {
            DiskOp::Append(mut entries) => {
                while let Some((_, DiskOp::Append(_))) = self.queue.front() {
                    let Some((next, DiskOp::Append(more))) = self.queue.pop_front() else { break };
                    ticket = next;
                    entries.extend(more);
                }
                Step::Append(entries)
            }
            DiskOp::Truncate { to } => Step::Truncate { to },
            DiskOp::AcceptedEpoch(epoch) => Step::Epochs { accepted: Some(epoch), current: None },
            DiskOp::CurrentEpoch(epoch) => Step::Epochs { accepted: None, current: Some(epoch) },
            DiskOp::TakeOver(epoch) => Step::Epochs { accepted: Some(epoch), current: Some(epoch) },
            DiskOp::Receive { zxid, offset, body } => Step::Receive { zxid, offset, body },
            DiskOp::Install { zxid } => {
                let (received, body) = self.receiving.take().expect("a snapshot is received before it is installed");
                assert_eq!(received, zxid, "another snapshot was received");
                Step::InstallTemp(Snapshot { zxid, epochs: Epochs::starting_at(zxid), body: Bytes::from(body).into() })
            }
            DiskOp::Checkpoint(snapshot) => Step::CheckpointTemp(snapshot),
        };
        let wait = self.duration(&step);
        self.work = Some(Work { ticket, step });
        Some(wait)
    }

    /// The crash points right before the current step and at its end.
    pub(crate) fn points(&self) -> (Option<CrashPoint>, Option<CrashPoint>) {
        match self.work.as_ref().map(|work| &work.step) {
            None => (None, None),
            Some(Step::Truncate { .. } | Step::Receive { .. } | Step::InstallTemp(_) | Step::CheckpointTemp(_)) => {
                (None, None)
            }
            Some(Step::Append(_)) => (Some(CrashPoint::BeforeAppend), Some(CrashPoint::AfterAppend)),
            Some(Step::Sync) => (None, Some(CrashPoint::AfterFsync)),
            Some(Step::Epochs { .. }) => (Some(CrashPoint::BeforeEpoch), Some(CrashPoint::AfterEpoch)),
            Some(Step::InstallIntent(_)) => (None, Some(CrashPoint::BeforeRename)),
            Some(Step::InstallRename(_)) => (None, Some(CrashPoint::AfterRename)),
            Some(Step::InstallClean) => (None, None),
            Some(Step::CheckpointRename(_)) => (Some(CrashPoint::BeforeRename), Some(CrashPoint::AfterRename)),
        }
    }

    /// Ends the current step.
    pub(crate) fn advance(&mut self) -> Progress {
        let Some(Work { ticket, step }) = self.work.take() else { return Progress::Step(0) };
        if self.sync_fails && !matches!(step, Step::Append(_)) {
            self.work = Some(Work { ticket, step });
            return Progress::Failed;
        }
        let next = self.perform(step);
        match next {
            Some(step) => {
                let wait = self.duration(&step);
                self.work = Some(Work { ticket, step });
                Progress::Step(wait)
            }
            None => Progress::Written(ticket),
        }
    }

    /// Performs a step. Returns the next step of the same operation.
    fn perform(&mut self, step: Step) -> Option<Step> {
        match step {
            Step::Append(entries) => {
                self.unsynced.extend(entries);
                return Some(Step::Sync);
            }
            Step::Sync => self.durable.log.extend(self.unsynced.drain(..)),
            Step::Epochs { accepted, current } => {
                self.durable.accepted_epoch = accepted.unwrap_or(self.durable.accepted_epoch);
                self.durable.current_epoch = current.unwrap_or(self.durable.current_epoch);
            }
            Step::Truncate { to } => self.durable.truncate(to),
            Step::Receive { zxid, offset, body } => {
                if offset == 0 {
                    self.receiving = Some((zxid, Vec::new()));
                }
                let (at, received) = self.receiving.as_mut().expect("the first part comes first");
                assert_eq!((*at, received.len()), (zxid, offset), "parts follow one another");
                received.extend_from_slice(&body);
            }
            Step::InstallTemp(snapshot) => return Some(Step::InstallIntent(snapshot)),
            Step::InstallIntent(snapshot) => {
                self.durable.intent = Some(snapshot.clone());
                return Some(Step::InstallRename(snapshot));
            }
            Step::InstallRename(snapshot) => {
                self.durable.snapshot = Some(snapshot);
                return Some(Step::InstallClean);
            }
            Step::InstallClean => self.durable.finish_installation(),
            // The image is serialized only now, after the state has moved on, as in the real driver.
            Step::CheckpointTemp(snapshot) => {
                let body = snapshot.body.to_bytes().into();
                return Some(Step::CheckpointRename(Snapshot { body, ..snapshot }));
            }
            Step::CheckpointRename(snapshot) => self.checkpoint(snapshot),
        }
        None
    }

    /// A checkpoint has its final name. The log below it is deleted fully, partly or not at all.
    fn checkpoint(&mut self, snapshot: Snapshot) {
        let (zxid, image) = (snapshot.zxid, &mut self.durable);
        image.snapshot = Some(snapshot);
        let kept = self.pins.values().copied().fold(zxid, Zxid::min);
        let below = image.log.partition_point(|e| e.zxid <= kept) as u64;
        let dropped = match (self.survival, self.rng.below(3)) {
            (Survival::Random, 0) => 0,
            (Survival::Random, 2) => self.rng.below(below + 1),
            (Survival::Random | Survival::Nothing | Survival::Half | Survival::All, _) => below,
        };
        if let Some(last) = image.log.drain(..dropped as usize).next_back() {
            image.base = last.zxid;
        }
    }

    fn duration(&mut self, step: &Step) -> u64 {
        let Timing { append, fsync, jitter } = self.timing;
        let spread = fsync * jitter / 1000;
        let synced = fsync - spread + self.rng.below(2 * spread + 1);
        match step {
            Step::Append(_) | Step::Receive { .. } | Step::InstallRename(_) | Step::CheckpointRename(_) => append,
            Step::Sync
            | Step::Epochs { .. }
            | Step::Truncate { .. }
            | Step::InstallTemp(_)
            | Step::InstallIntent(_)
            | Step::InstallClean
            | Step::CheckpointTemp(_) => synced,
        }
    }

    /// A crash of the process or the machine. The operation in progress is lost, done or half done; queued ones are
    /// lost.
    pub(crate) fn crash(&mut self, marks: &mut Marks) {
        self.queue.clear();
        let unsynced = core::mem::take(&mut self.unsynced);
        match self.work.take().map(|work| work.step) {
            Some(Step::Append(entries)) => self.tear(entries, marks),
            Some(Step::Sync) => self.tear(unsynced, marks),
            Some(Step::Truncate { to }) => {
                // Truncation goes from the end backwards, newest file first, so a part of it may be done.
                let above: Vec<_> = self.durable.log.iter().map(|e| e.zxid).filter(|z| *z > to).collect();
                let kept = above.len() - self.survives(above.len());
                self.durable.truncate(above[..kept].last().copied().unwrap_or(to));
            }
            Some(step) if self.survives(1) == 1 => {
                self.perform(step);
            }
            Some(_) | None => {}
        }
        self.receiving = None;
        self.pins.clear();
        self.hangs_until = 0;
        self.sync_fails = false;
    }

    /// Entries of the durable log above `after` up to `through`: about `bytes` bytes, at least one entry.
    pub(crate) fn read_log(&self, after: Zxid, through: Zxid, bytes: usize) -> Vec<Entry> {
        let from = self.durable.log.partition_point(|e| e.zxid <= after);
        let mut read = 0;
        let fits = |entry: &&Entry| {
            let has_room = read < bytes && entry.zxid <= through;
            read += entry.cost_bytes();
            has_room
        };
        self.durable.log.range(from..).take_while(fits).cloned().collect()
    }

    /// The state in the current snapshot, if it is at this position.
    pub(crate) fn snapshot_at(&self, zxid: Zxid) -> Option<Bytes> {
        self.durable.snapshot.as_ref().filter(|s| s.zxid == zxid).map(|s| s.body.to_bytes())
    }

    /// Keeps a prefix of entries that were not synced. The next entry may be damaged; recovery cuts it off.
    fn tear(&mut self, entries: Vec<Entry>, marks: &mut Marks) {
        let kept = self.survives(entries.len());
        if kept < entries.len() {
            marks.hit(Mark::UnsyncedLost);
            if self.rng.per_mille(500) {
                marks.hit(Mark::TornTail);
            }
        }
        self.durable.log.extend(entries.into_iter().take(kept));
    }

    /// How many of `of` items in progress survive a crash.
    fn survives(&mut self, of: usize) -> usize {
        match self.survival {
            Survival::Random => self.rng.below(of as u64 + 1) as usize,
            Survival::Nothing => 0,
            Survival::Half => of / 2,
            Survival::All => of,
        }
    }

    /// Start-up: finishes an interrupted installation and returns the durable state.
    pub(crate) fn recover(&mut self, marks: &mut Marks) -> Recovered {
        if let Some(intent) = self.durable.intent.clone() {
            marks.hit(Mark::IntentRolledForward);
            self.durable.snapshot = Some(intent);
            self.durable.finish_installation();
        }
        let image = &self.durable;
        // A disk stores the state and its position, not the epochs that led there.
        let snapshot = image.snapshot.as_ref().map(|s| Snapshot { epochs: Epochs::starting_at(s.zxid), ..s.clone() });
        Recovered {
            accepted_epoch: image.accepted_epoch,
            current_epoch: image.current_epoch,
            snapshot,
            entries: image.log.iter().cloned().collect(),
        }
    }

    /// Erases the disk.
    pub(crate) fn wipe(&mut self) {
        self.durable = Image::blank();
    }

    pub(crate) fn hang(&mut self, until: u64) {
        self.hangs_until = self.hangs_until.max(until);
    }

    pub(crate) fn hangs_until(&self) -> u64 {
        self.hangs_until
    }

    pub(crate) fn fail(&mut self) {
        self.sync_fails = true;
    }

    /// Ends a hang or a failure.
    pub(crate) fn repair(&mut self) {
        (self.hangs_until, self.sync_fails) = (0, false);
    }

    pub(crate) fn set_fsync(&mut self, fsync: u64) {
        self.timing.fsync = fsync;
    }
}

impl Image {
    fn blank() -> Self {
        Self {
            accepted_epoch: Epoch(0),
            current_epoch: Epoch(0),
            snapshot: None,
            base: Zxid::ZERO,
            log: VecDeque::new(),
            intent: None,
        }
    }

    /// A disk with this log, whose owner has accepted and taken over `epoch`.
    pub(crate) fn with_log(epoch: Epoch, log: impl Iterator<Item = Entry>) -> Self {
        Self { accepted_epoch: epoch, current_epoch: epoch, log: log.collect(), ..Self::blank() }
    }

    /// The last durable position.
    pub(crate) fn last(&self) -> Zxid {
        let snapshot = self.snapshot.as_ref().map_or(Zxid::ZERO, |s| s.zxid);
        self.log.back().map_or(self.base.max(snapshot), |e| e.zxid.max(snapshot))
    }

    pub(crate) fn snapshot_zxid(&self) -> Option<Zxid> {
        self.snapshot.as_ref().map(|snapshot| snapshot.zxid)
    }

    /// Whether an installation was begun and not finished.
    pub(crate) fn has_intent(&self) -> bool {
        self.intent.is_some()
    }

    /// Whether the history up to and including `zxid` is here, in the log or covered by the snapshot.
    pub(crate) fn contains(&self, zxid: Zxid) -> bool {
        zxid <= self.base
            || self.snapshot.as_ref().is_some_and(|s| zxid <= s.zxid)
            || self.log.binary_search_by_key(&zxid, |e| e.zxid).is_ok()
    }

    /// Whether the log itself holds the entry.
    pub(crate) fn log_holds(&self, zxid: Zxid) -> bool {
        self.log.binary_search_by_key(&zxid, |e| e.zxid).is_ok()
    }

    fn truncate(&mut self, to: Zxid) {
        while self.log.back().is_some_and(|e| e.zxid > to) {
            self.log.pop_back();
        }
    }

    /// Ends an installation: deletes the log that the snapshot replaces, then the intent. A log that leads exactly up
    /// to the snapshot agrees with it and may stay; any other may hold entries that were never committed.
    fn finish_installation(&mut self) {
        let Some(snapshot) = self.intent.take() else { return };
        self.truncate(snapshot.zxid);
        if self.log.back().is_none_or(|e| e.zxid != snapshot.zxid) {
            self.log.clear();
            self.base = snapshot.zxid;
        }
    }
}
