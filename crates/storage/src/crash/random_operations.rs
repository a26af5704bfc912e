//! Sequences of random operations, the states that a restart may find after each, and the tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use pole_jute::{Record, TxnHeader};
use pole_types::{Cxid, Epoch, SessionId, Zxid};
use pole_zab::{DiskOp, Entry, Epochs, Origin, Recovered, Snapshot, Ticket};

use super::image::{Image, Survival};
use super::{Rng, Scratch, Trace};
use crate::recovery::open_on;
use crate::volume::Volume;
use crate::{Config, Repair};

/// The content of a disk, independent of the snapshot in use: the body of a snapshot lists the zxids up to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    accepted: Epoch,
    current: Epoch,
    history: Vec<Zxid>,
}

impl State {
    fn last(&self) -> Zxid {
        self.history.last().copied().unwrap_or_default()
    }

    fn of(recovered: &Recovered) -> Self {
        let body = recovered.snapshot.as_ref().map(|s| s.body.to_bytes()).unwrap_or_default();
        let mut history: Vec<_> =
            body.chunks(8).map(|zxid| Zxid(u64::from_be_bytes(zxid.try_into().unwrap()))).collect();
        let snapshot = recovered.snapshot_zxid();
        history.extend(recovered.entries.iter().map(|entry| entry.zxid).filter(|zxid| *zxid > snapshot));
        Self { accepted: recovered.accepted_epoch, current: recovered.current_epoch, history }
    }

    fn body(&self, to: Zxid) -> Bytes {
        self.history.iter().filter(|zxid| **zxid <= to).flat_map(|zxid| zxid.0.to_be_bytes()).collect()
    }
}

/// Generates operations that `zab` could issue.
struct OperationGenerator {
    rng: Rng,
    state: State,
    committed: Zxid,
    ticket: u64,
}

impl OperationGenerator {
    /// The next operation, and every state that a crash during it may leave; the last one is that of the completed
    /// operation.
    fn next(&mut self) -> (Vec<(Ticket, DiskOp)>, Vec<State>) {
        let (op, states) = match self.rng.below(16) {
            0..6 => self.append(),
            6 => self.accept(),
            7 => self.adopt_epoch(),
            8 => self.take_over(),
            9..11 => self.truncate(),
            11..13 => self.checkpoint(),
            _ => self.install(),
        };
        self.state = states.last().unwrap().clone();
        // A snapshot is received in parts before it is installed; the parts do not change the state.
        let parts = if let DiskOp::Install { zxid } = op { self.parts(zxid) } else { Vec::new() };
        let number = |op| {
            self.ticket += 1;
            (Ticket(self.ticket), op)
        };
        (parts.into_iter().chain([op]).map(number).collect(), states)
    }

    /// The state at a position that was just installed, in parts.
    fn parts(&mut self, zxid: Zxid) -> Vec<DiskOp> {
        let body = self.state.body(zxid);
        let cut = self.rng.below(body.len() as u64 + 1) as usize;
        let part = |offset, body| DiskOp::Receive { zxid, offset, body };
        match cut {
            0 => vec![part(0, body)],
            _ => vec![part(0, body.slice(..cut)), part(cut, body.slice(cut..))],
        }
    }

    fn append(&mut self) -> (DiskOp, Vec<State>) {
        // Nothing is sent before an epoch was promised.
        if self.state.accepted == Epoch(0) {
            return self.accept();
        }
        let (mut state, mut entries, mut states) = (self.state.clone(), Vec::new(), vec![self.state.clone()]);
        for _ in 0..=self.rng.below(4) {
            let (last, epoch) = (state.last(), state.accepted);
            let zxid = if last.epoch() < epoch { Zxid::new(epoch, 1) } else { Zxid(last.0 + 1) };
            let size = [0, 10, 300, 5000][self.rng.below(4) as usize];
            entries.push(entry(zxid, size));
            state.history.push(zxid);
            states.push(state.clone());
        }
        (DiskOp::Append(entries), states)
    }

    fn accept(&mut self) -> (DiskOp, Vec<State>) {
        let after = State { accepted: self.state.accepted.next(), ..self.state.clone() };
        (DiskOp::AcceptedEpoch(after.accepted), vec![self.state.clone(), after])
    }

    fn adopt_epoch(&mut self) -> (DiskOp, Vec<State>) {
        let after = State { current: self.state.accepted, ..self.state.clone() };
        (DiskOp::CurrentEpoch(after.current), vec![self.state.clone(), after])
    }

    fn take_over(&mut self) -> (DiskOp, Vec<State>) {
        let epoch = self.state.accepted.next();
        let after = State { accepted: epoch, current: epoch, ..self.state.clone() };
        (DiskOp::TakeOver(epoch), vec![self.state.clone(), after])
    }

    /// Truncates to a position that is not committed, and only before a new epoch, or zxids would be reused.
    fn truncate(&mut self) -> (DiskOp, Vec<State>) {
        let Some(position) = self.position() else { return self.accept() };
        if self.state.accepted <= self.state.last().epoch() {
            return self.accept();
        }
        let mut states = vec![self.state.clone()];
        while states.last().unwrap().last() > position {
            let mut shorter = states.last().unwrap().clone();
            shorter.history.pop();
            states.push(shorter);
        }
        (DiskOp::Truncate { to: position }, states)
    }

    fn checkpoint(&mut self) -> (DiskOp, Vec<State>) {
        let Some(position) = self.position() else { return self.append() };
        self.committed = position;
        (DiskOp::Checkpoint(snapshot(position, self.state.body(position))), vec![self.state.clone()])
    }

    /// Installs what is committed, followed by another history of the promised epoch.
    fn install(&mut self) -> (DiskOp, Vec<State>) {
        let epoch = self.state.accepted;
        if epoch <= self.state.last().epoch() {
            return self.accept();
        }
        let mut after = self.state.clone();
        after.history.retain(|zxid| *zxid <= self.committed);
        after.history.extend((1..=1 + self.rng.below(3) as u32).map(|counter| Zxid::new(epoch, counter)));
        self.committed = after.last();
        (DiskOp::Install { zxid: after.last() }, vec![self.state.clone(), after])
    }

    /// A position at or above what is committed.
    fn position(&mut self) -> Option<Zxid> {
        let positions: Vec<_> = self.state.history.iter().filter(|zxid| **zxid >= self.committed).collect();
        if positions.is_empty() { None } else { Some(*positions[self.rng.below(positions.len() as u64) as usize]) }
    }
}

pub(crate) fn entry(zxid: Zxid, size: usize) -> Entry {
    let header = TxnHeader { client_id: 7, cxid: zxid.counter() as i32, zxid: zxid.0 as i64, time: 1, op: -1 };
    let mut body = header.encode().to_vec();
    body.extend((0..size).map(|at| (at as u8 ^ zxid.0 as u8) | 1));
    let origin = Origin { session: SessionId(7), cxid: Cxid(zxid.counter() as i32) };
    Entry { zxid, origin, body: body.into() }
}

fn snapshot(zxid: Zxid, body: Bytes) -> Snapshot {
    Snapshot { zxid, epochs: Epochs::starting_at(zxid), body: body.into() }
}

/// Every other seed uses a separate directory for the log, and every third one limits the size of its files.
fn config(dir: &Path, seed: u64) -> Config {
    let data_log_dir = dir.join(if seed.is_multiple_of(2) { "data" } else { "log" });
    let blank = Some(Bytes::new());
    Config {
        data_log_dir,
        log_bytes_max: seed.is_multiple_of(3).then_some(8 << 10),
        preallocate_bytes: 16 << 10,
        snap_retain_count: 2,
        blank,
        ..Config::in_dir(dir.join("data"))
    }
}

/// The changes made to the files, and the legal states at each step.
struct Recording {
    trace: Trace,
    /// From this number of effects on, these states are legal.
    legal: Vec<(usize, Vec<State>)>,
}

/// Performs random operations, sometimes several at a time.
fn record(seed: u64, operations: usize) -> Recording {
    let scratch = Scratch::new();
    let trace = Trace::recording();
    let volume = Volume::recorded_by(&trace);
    let purge_interval = Some(std::time::Duration::ZERO);
    let (mut disk, _, _) = open_on(volume, Config { purge_interval, ..config(&scratch.0, seed) }, None).unwrap();
    let mut generator =
        OperationGenerator { rng: Rng::new(seed), state: State::default(), committed: Zxid::ZERO, ticket: 0 };
    let mut legal = vec![(0, vec![State::default()])];
    for _ in 0..operations {
        let (mut ops, mut states) = (Vec::new(), vec![generator.state.clone()]);
        for _ in 0..=generator.rng.below(2) {
            let (more_ops, more) = generator.next();
            ops.extend(more_ops);
            states.extend(more);
        }
        legal.push((trace.len(), states));
        let last = ops.last().map(|(ticket, _)| *ticket);
        assert_eq!(disk.perform(&mut ops).unwrap(), last);
        disk.finish_checkpoints();
        // It was reported, so from here on no older state is legal.
        legal.push((trace.len(), vec![generator.state.clone()]));
    }
    Recording { trace, legal }
}

/// Creates a directory with these files.
fn create_files(files: &BTreeMap<String, Vec<u8>>) -> Scratch {
    let scratch = Scratch::new();
    for (name, content) in files {
        let (dir, name) = name.split_once('/').unwrap();
        let dir = scratch.0.join(dir).join("version-2");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(name), content).unwrap();
    }
    scratch
}

/// Opens a directory with these files.
fn recover(seed: u64, files: &BTreeMap<String, Vec<u8>>) -> (Recovered, Vec<Repair>, Trace) {
    let scratch = create_files(files);
    let trace = Trace::recording();
    let volume = Volume::recorded_by(&trace);
    let opened = open_on(volume, config(&scratch.0, seed), None);
    let (disk, recovered, repairs) = opened
        .unwrap_or_else(|error| panic!("{error}\n{:?}", files.iter().map(|(n, c)| (n, c.len())).collect::<Vec<_>>()));
    drop(disk);
    check_continues(&config(&scratch.0, seed), &recovered);
    (recovered, repairs, trace)
}

/// Checks that repairs are permanent and that the log can be continued.
fn check_continues(config: &Config, first: &Recovered) {
    let (mut disk, again, repairs) = open_on(Volume::default(), config.clone(), None).unwrap();
    assert_eq!((&again, &repairs[..]), (first, &[][..]), "a second start finds something else");
    let next = Zxid::new(first.standing().last_zxid.epoch().max(first.accepted_epoch).next(), 1);
    disk.perform(&mut vec![(Ticket(1), DiskOp::Append(vec![entry(next, 40)]))]).unwrap();
    drop(disk);
    let (_, longer, _) = open_on(Volume::default(), config.clone(), None).unwrap();
    assert_eq!(longer.entries.last().map(|entry| entry.zxid), Some(next));
    assert_eq!(State::of(&longer).history.len(), State::of(first).history.len() + 1);
}

#[test]
fn a_crash_at_any_step_leaves_what_was_reported_and_a_legal_history() {
    for seed in 0..SEEDS {
        let recording = record(seed, 16);
        let effects = recording.trace.effects();
        let mut rng = Rng::new(!seed);
        let mut image = Image::default();
        for step in 0..=effects.len() {
            // The states that are legal before, during and after the operation under way.
            let begun = recording.legal.iter().rposition(|(from, _)| *from <= step).unwrap();
            let legal = &recording.legal[begun].1;
            for survival in [Survival::Nothing, Survival::Everything, Survival::Some, Survival::Some] {
                let files = image.crash(survival, &mut rng);
                let (recovered, _, _) = recover(seed, &files);
                let found = State::of(&recovered);
                assert!(legal.contains(&found), "seed {seed} step {step} {survival:?}: {found:?}\nlegal: {legal:?}");
            }
            if let Some(effect) = effects.get(step) {
                image.apply(effect);
            }
        }
    }
}

#[test]
fn a_crash_during_start_up_repairs_does_not_change_what_is_found() {
    let mut repaired = 0;
    for seed in 0..SEEDS {
        let recording = record(seed, 8);
        let mut rng = Rng::new(!seed);
        let mut image = Image::default();
        for effect in recording.trace.effects() {
            image.apply(&effect);
            let files = image.crash(Survival::Some, &mut rng);
            let (first, repairs, trace) = recover(seed, &files);
            if repairs.is_empty() {
                continue;
            }
            repaired += 1;
            let mut repairing = Image::of(&files);
            for effect in trace.effects() {
                repairing.apply(&effect);
                let (again, _, _) = recover(seed, &repairing.crash(Survival::Some, &mut rng));
                assert_eq!(State::of(&again), State::of(&first), "seed {seed}: {repairs:?}");
            }
        }
    }
    assert!(repaired > 20, "only {repaired} of the crashes left something to repair");
}

/// The process ends between a write and its sync, is restarted and reports what it read; then the power fails.
#[test]
fn what_start_up_reported_survives_a_power_failure_right_after_it() {
    for seed in 0..SEEDS {
        let recording = record(seed, 12);
        let mut rng = Rng::new(seed);
        let mut image = Image::default();
        for effect in recording.trace.effects() {
            image.apply(&effect);
            let (first, _, trace) = recover(seed, &image.kill());
            let mut after = image.clone();
            trace.effects().iter().for_each(|effect| after.apply(effect));
            for survival in [Survival::Nothing, Survival::Some] {
                let (again, _, _) = recover(seed, &after.crash(survival, &mut rng));
                assert_eq!(State::of(&again), State::of(&first), "seed {seed} {survival:?}");
            }
        }
    }
}

/// Nothing was under way, so nothing may be cut off: damage to a log file is refused, or does not matter because a
/// snapshot contains the data.
#[test]
fn damage_to_what_is_durable_is_never_taken_for_a_torn_write() {
    let (mut refused, mut harmless) = (0, 0);
    for seed in 0..SEEDS {
        let recording = record(seed, 16);
        let mut image = Image::default();
        recording.trace.effects().iter().for_each(|effect| image.apply(effect));
        let files = image.crash(Survival::Everything, &mut Rng::new(0));
        let expected = State::of(&recover(seed, &files).0);
        let mut rng = Rng::new(seed);
        let logs: Vec<_> = files.keys().filter(|name| name.contains("/log.")).cloned().collect();
        for _ in 0..if logs.is_empty() { 0 } else { 40 } {
            let mut damaged = files.clone();
            let content = damaged.get_mut(&logs[rng.below(logs.len() as u64) as usize]).unwrap();
            let end = content.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
            let at = rng.below(end) as usize;
            match rng.below(4) {
                0 => content[at] ^= 1 << rng.below(8),
                1 => content.truncate(at),
                2 => content[at..].fill(0),
                _ => {
                    let sector = at / 512 * 512;
                    let to = content.len().min(sector + 512);
                    content[sector..to].fill(0);
                }
            }
            let scratch = create_files(&damaged);
            match open_on(Volume::default(), config(&scratch.0, seed), None) {
                Err(crate::OpenError::Damaged(_) | crate::OpenError::Version { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
                Ok((_, recovered, _)) => {
                    assert_eq!(State::of(&recovered), expected, "seed {seed}: less than was reported");
                    harmless += 1;
                }
            }
        }
    }
    assert!(refused > 50 && harmless > 10, "{refused} refused, {harmless} harmless");
}

/// Enough seeds that removing any single sync from the code fails one of these tests.
const SEEDS: u64 = 12;
