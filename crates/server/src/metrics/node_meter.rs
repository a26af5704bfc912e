//! Measures what passes through the node's thread: transactions, synchronisations, elections, watch events.
//!
//! The node and the agreement read no clock, so the driver measures around them. It shows this module the events that it
//! passes to the node and the effects that it carries out. Nothing here influences either.
//!
//! Transactions are followed in batches: all transactions of one write to the log were proposed in one turn, with one time
//! stamp of the leader. A batch passes the stages durable, committed, applied, and on the leader acknowledged by each
//! server; each stage records its latency once. On the leader the time since the proposal is measured with the monotonic
//! clock. A follower subtracts the leader's time stamp from its own wall clock, as Apache does, and omits negative results.
//!
//! Only what is proposed while this server serves under one leader is followed. When that leader changes, the batches
//! under way are dropped.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use pole_jute::{EventType, Reader, Record, TxnHeader};
use pole_node::{Channel, Event, Message, Note};
use pole_tree::WriteRequest;
use pole_types::{Cxid, Epoch, ServerId, SessionId, Span, Time, Zxid};
use pole_zab::{Entry, Ticket};

use super::names::{Counter, ProposalSizes, Summary};
use crate::status::Status;

pub(crate) struct NodeMeter {
    me: ServerId,
    /// The wall clock of this turn in milliseconds since 1970.
    wall_ms: i64,
    /// The leader under which this server serves, and its epoch.
    serving: Option<(ServerId, Epoch)>,
    batches: Batches,
    /// Leader: the followers that are being synchronised.
    synchronising: BTreeMap<ServerId, Method>,
    times: RoleTimes,
    /// The watch event of the last effects, and the number of connections that get it.
    event: Option<(Bytes, u64)>,
}

/// How a follower is synchronised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Snapshot,
    Difference,
}

/// Since when this server has been in a state that ends with a measurement.
#[derive(Debug, Default)]
struct RoleTimes {
    electing: Option<Time>,
    unavailable: Option<Time>,
    following: Option<Time>,
}

impl NodeMeter {
    pub(crate) fn new(me: ServerId) -> Self {
        Self {
            me,
            wall_ms: 0,
            serving: None,
            batches: Batches::default(),
            synchronising: BTreeMap::new(),
            times: RoleTimes::default(),
            event: None,
        }
    }

    pub(crate) fn set_wall_ms(&mut self, wall_ms: i64) {
        self.wall_ms = wall_ms;
    }

    /// Before the node handles an event.
    pub(crate) fn event(&mut self, event: &Event, now: Time, status: &Status) {
        match event {
            Event::Written { through } => self.written(*through, now, status),
            Event::LinkDown { peer, channel: Channel::Quorum } => drop(self.synchronising.remove(peer)),
            Event::Received { from, message, .. } => self.received(*from, message, now, status),
            Event::Start
            | Event::LinkUp { .. }
            | Event::LinkDown { .. }
            | Event::DiskFailed { .. }
            | Event::PieceReady { .. }
            | Event::LogRead { .. }
            | Event::Restored { .. }
            | Event::Continue
            | Event::Expired(_)
            | Event::Attach { .. }
            | Event::Request { .. }
            | Event::Read { .. }
            | Event::Sync { .. }
            | Event::Touched { .. }
            | Event::Detach { .. }
            | Event::Transfer { .. } => {}
        }
    }

    fn received(&mut self, from: ServerId, message: &Message, now: Time, status: &Status) {
        match message {
            // By sender, which the link has verified: the node refuses a message with the id of another server only later.
            Message::Zab(pole_zab::Message::Ack { epoch, zxid, .. }) => {
                if self.serving == Some((self.me, *epoch)) {
                    let passed = self.batches.acknowledged(from, *zxid);
                    passed.for_each(|batch| status.summaries.record_ack(from, now - batch.at, batch.count, now));
                }
            }
            Message::Zab(pole_zab::Message::Propose { entries, .. }) => {
                status.counters.add(Counter::LearnerProposalReceivedCount, entries.len() as u64);
            }
            // The first message on a new link.
            Message::Zab(pole_zab::Message::Hello(_)) => drop(self.synchronising.remove(&from)),
            Message::Zab(pole_zab::Message::AckLeader { .. }) => {
                if let Some(method) = self.synchronising.remove(&from) {
                    self.record_in_flight(method, now, status);
                }
            }
            Message::Forward { requests, .. } => {
                let attachments = requests.iter().filter(|request| request.origin.cxid.is_attachment());
                let resumed = attachments.filter(|request| WriteRequest::is_resumption(&request.body)).count();
                status.counters.add(Counter::RevalidateCount, resumed as u64);
            }
            Message::Zab(_)
            | Message::Election(_)
            | Message::Heartbeat { .. }
            | Message::Members { .. }
            | Message::Echo { .. }
            | Message::Touch { .. }
            | Message::TouchDone { .. }
            | Message::SyncAsk { .. }
            | Message::SyncDone { .. }
            | Message::Remaining { .. }
            | Message::TransferAsk { .. }
            | Message::LeaderSought { .. }
            | Message::Behind { .. }
            | Message::TransferRefused { .. } => {}
        }
    }

    /// After the node handled events, before its effects are carried out: who leads, and what is committed.
    pub(crate) fn follow(&mut self, serving: Option<(ServerId, Epoch)>, committed: Zxid) {
        if self.serving != serving {
            self.serving = serving;
            self.batches = Batches { last_committed: committed, ..Batches::default() };
        }
    }

    /// These transactions are handed to the disk.
    pub(crate) fn appended(&mut self, ticket: Ticket, entries: &[Entry], now: Time, status: &Status) {
        let count = entries.len() as u64;
        status.counters.add(Counter::SyncProcessorRequestQueued, count);
        let (Some(last), Some(_)) = (entries.last(), self.serving) else { return };
        let batch = Batch { last: last.zxid, count, stamped_ms: stamp(last), at: now, ticket };
        if self.leads() {
            self.proposed(entries, status);
        } else {
            self.record_since_stamp(Summary::ProposalLatency, &batch, now, status);
        }
        self.batches.push(batch);
    }

    fn proposed(&self, entries: &[Entry], status: &Status) {
        status.counters.add(Counter::ProposalCount, entries.len() as u64);
        let is_expiry = |entry: &&Entry| entry.origin.cxid == Cxid::OWN && entry.origin.session != SessionId(0);
        status.counters.add(Counter::StaleSessionsExpired, entries.iter().filter(is_expiry).count() as u64);
        let mut sizes = status.proposal_sizes.lock();
        entries.iter().for_each(|entry| ProposalSizes::add(&mut sizes, entry.body.len()));
    }

    fn written(&mut self, through: Ticket, now: Time, status: &Status) {
        let leads = self.leads();
        while let Some(batch) = self.batches.next_written(through) {
            let (summaries, time) = (&status.summaries, now - batch.at);
            summaries.record_time(Summary::SyncProcessorQueueAndFlushTime, time, batch.count, now);
            self.record_since_stamp(Summary::ProposalAckCreationLatency, &batch, now, status);
            if leads {
                summaries.record_ack(self.me, time, batch.count, now);
            }
        }
    }

    /// This is committed and applied now.
    pub(crate) fn advanced(&mut self, committed: Zxid, applied: Zxid, now: Time, status: &Status) {
        if self.serving.is_none() {
            return;
        }
        let (counter, latency) = match self.leads() {
            true => (Counter::CommitCount, Summary::QuorumAckLatency),
            false => (Counter::LearnerCommitReceivedCount, Summary::CommitPropagationLatency),
        };
        status.counters.add(counter, self.batches.count_committed(committed));
        while let Some(batch) = self.batches.next_committed(committed) {
            self.record_since_stamp(latency, &batch, now, status);
        }
        while let Some(batch) = self.batches.next_applied(applied) {
            self.record_since_stamp(Summary::PropagationLatency, &batch, now, status);
        }
    }

    /// Records how long ago the leader proposed a batch.
    fn record_since_stamp(&self, summary: Summary, batch: &Batch, now: Time, status: &Status) {
        let time = match self.leads() {
            true => Some(now - batch.at),
            false => {
                // The time stamp is another server's, so it may be anything.
                let ms = self.wall_ms.checked_sub(batch.stamped_ms).and_then(|ms| u64::try_from(ms).ok());
                ms.map(|ms| Span(ms.saturating_mul(1_000_000)))
            }
        };
        if let Some(time) = time {
            status.summaries.record_time(summary, time, batch.count, now);
        }
    }

    /// A message is sent. `leads`: this server leads, established or not.
    pub(crate) fn sent(&mut self, to: ServerId, message: &Message, leads: bool, now: Time, status: &Status) {
        let Message::Zab(message) = message else { return };
        let is_first_part = matches!(message, pole_zab::Message::Snapshot(part) if part.offset == 0);
        let is_end = matches!(message, pole_zab::Message::NewLeader { .. });
        let began = match is_first_part {
            true => Method::Snapshot,
            false if is_end && !self.synchronising.contains_key(&to) => Method::Difference,
            false => return,
        };
        // The source of a pull sends a snapshot to its leader, which is no synchronisation of a follower.
        if leads {
            let counter = if began == Method::Snapshot { Counter::SnapCount } else { Counter::DiffCount };
            status.counters.add(counter, 1);
            self.synchronising.insert(to, began);
            self.record_in_flight(began, now, status);
        }
    }

    fn record_in_flight(&self, method: Method, now: Time, status: &Status) {
        let summary = match method {
            Method::Snapshot => Summary::InflightSnapCount,
            Method::Difference => Summary::InflightDiffCount,
        };
        let count = self.synchronising.values().filter(|other| **other == method).count();
        status.summaries.record(summary, count as u64, 1, now);
    }

    pub(crate) fn note(&mut self, note: &Note, now: Time, status: &Status) {
        let times = &mut self.times;
        let record = |summary, since: Option<Time>| {
            since.into_iter().for_each(|since| status.summaries.record_time(summary, now - since, 1, now));
        };
        match note {
            Note::Electing { .. } => {
                self.synchronising.clear();
                times.electing.get_or_insert(now);
                times.unavailable.get_or_insert(now);
                times.following = None;
            }
            Note::Leading { .. } => record(Summary::ElectionTime, times.electing.take()),
            Note::Following { .. } => {
                record(Summary::ElectionTime, times.electing.take());
                times.following = Some(now);
            }
            Note::Serving { leader, .. } => {
                let unavailable = times.unavailable.take();
                record(Summary::UnavailableTime, unavailable);
                record(Summary::FollowerSyncTime, times.following.take());
                if *leader == self.me {
                    record(Summary::LeaderUnavailableTime, unavailable);
                }
            }
            Note::Elected(_)
            | Note::Members { .. }
            | Note::Resigning { .. }
            | Note::Unreached { .. }
            | Note::ResignationAborted { .. }
            | Note::HandedOver { .. }
            | Note::Abandoned { .. }
            | Note::BadPeer { .. }
            | Note::OutOfOrder { .. }
            | Note::InvalidScore { .. }
            | Note::BadOracle { .. }
            | Note::Installed { .. }
            | Note::DiskHangs
            | Note::SlowWrite { .. } => {}
        }
    }

    /// A connection gets a watch event. Events of one change follow each other, with equal bodies.
    pub(crate) fn notified(&mut self, body: &Bytes, now: Time, status: &Status) {
        status.counters.add(Counter::WatchBytes, (FRAME_HEADER_BYTES + body.len()) as u64);
        match &mut self.event {
            Some((last, count)) if last == body => *count += 1,
            _ => {
                self.end_step(now, status);
                self.event = Some((body.clone(), 1));
            }
        }
    }

    /// All effects of a step are carried out.
    pub(crate) fn end_step(&mut self, now: Time, status: &Status) {
        let Some((body, count)) = self.event.take() else { return };
        let kind = body.first_chunk().map(|kind| i32::from_be_bytes(*kind));
        let is = |event: EventType| kind == Some(event.number());
        let summary = [
            (EventType::NodeCreated, Summary::NodeCreatedWatchCount),
            (EventType::NodeDeleted, Summary::NodeDeletedWatchCount),
            (EventType::NodeDataChanged, Summary::NodeChangedWatchCount),
            (EventType::NodeChildrenChanged, Summary::NodeChildrenWatchCount),
        ];
        if let Some((_, summary)) = summary.into_iter().find(|(event, _)| is(*event)) {
            status.summaries.record(summary, count, 1, now);
        }
    }

    fn leads(&self) -> bool {
        self.serving.is_some_and(|(leader, _)| leader == self.me)
    }
}

/// The leader's time stamp of a transaction, in milliseconds since 1970. All transactions of one turn have the same.
fn stamp(entry: &Entry) -> i64 {
    TxnHeader::read(&mut Reader::new(entry.body.clone())).map_or(i64::MAX, |header| header.time)
}

/// Transactions that were proposed in one turn.
#[derive(Clone, Copy, Debug)]
struct Batch {
    last: Zxid,
    count: u64,
    stamped_ms: i64,
    /// When they were handed to the disk here.
    at: Time,
    ticket: Ticket,
}

/// The last batches, and how far each stage is. Batches are numbered from 0 in the order in which they were added.
#[derive(Debug, Default)]
struct Batches {
    kept: VecDeque<Batch>,
    /// The number of the first batch in `kept`.
    first: u64,
    /// The numbers of the next batches to become durable, committed and applied.
    written: u64,
    committed: u64,
    applied: u64,
    /// The number of the next batch that each server will acknowledge.
    acknowledged: BTreeMap<ServerId, u64>,
    last_committed: Zxid,
}

impl Batches {
    fn push(&mut self, batch: Batch) {
        if self.kept.len() == BATCHES_MAX {
            self.kept.pop_front();
            self.first += 1;
        }
        self.kept.push_back(batch);
    }

    /// The next batch that is durable.
    fn next_written(&mut self, through: Ticket) -> Option<Batch> {
        next(&self.kept, self.first, &mut self.written, |batch| batch.ticket <= through)
    }

    fn next_committed(&mut self, committed: Zxid) -> Option<Batch> {
        next(&self.kept, self.first, &mut self.committed, |batch| batch.last <= committed)
    }

    fn next_applied(&mut self, applied: Zxid) -> Option<Batch> {
        next(&self.kept, self.first, &mut self.applied, |batch| batch.last <= applied)
    }

    /// The batches that this server has acknowledged since the last call.
    fn acknowledged(&mut self, server: ServerId, through: Zxid) -> impl Iterator<Item = Batch> {
        let position = self.acknowledged.entry(server).or_insert(self.first);
        let (kept, first) = (&self.kept, self.first);
        std::iter::from_fn(move || next(kept, first, position, |batch| batch.last <= through))
    }

    /// The number of transactions that were committed since the last call.
    fn count_committed(&mut self, committed: Zxid) -> u64 {
        let before = std::mem::replace(&mut self.last_committed, committed);
        let is_same_epoch = before.epoch() == committed.epoch();
        u64::from(committed.counter().saturating_sub(if is_same_epoch { before.counter() } else { 0 }))
    }
}

/// Moves a position beyond the next batch, if that has passed. Batches that are no longer kept are skipped.
fn next(kept: &VecDeque<Batch>, first: u64, position: &mut u64, has_passed: impl Fn(&Batch) -> bool) -> Option<Batch> {
    *position = first.max(*position);
    let index = usize::try_from(*position - first).ok()?;
    let batch = kept.get(index).copied().filter(has_passed)?;
    *position += 1;
    Some(batch)
}

/// Length, xid, zxid and code before the body of an event.
const FRAME_HEADER_BYTES: usize = 20;

/// Enough for all transactions under way, one for each batch. A server that is further behind with its acknowledgements
/// is not measured meanwhile.
const BATCHES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(counter: u32) -> Batch {
        let last = Zxid::new(Epoch(3), counter);
        Batch { last, count: 1, stamped_ms: 0, at: Time(counter.into()), ticket: Ticket(counter.into()) }
    }

    #[test]
    fn each_stage_passes_each_batch_once() {
        let mut batches = Batches::default();
        (1..=3).for_each(|counter| batches.push(batch(counter)));
        let zxid = |counter| Zxid::new(Epoch(3), counter);
        let of = |server, through, batches: &mut Batches| batches.acknowledged(ServerId(server), through).count();
        assert_eq!(of(2, zxid(2), &mut batches), 2);
        assert_eq!(of(2, zxid(3), &mut batches), 1);
        assert_eq!(of(3, zxid(1), &mut batches), 1);
        assert_eq!(std::iter::from_fn(|| batches.next_written(Ticket(2))).count(), 2);
        assert_eq!(std::iter::from_fn(|| batches.next_committed(zxid(9))).count(), 3);
        assert_eq!(std::iter::from_fn(|| batches.next_applied(zxid(0))).count(), 0);
    }

    #[test]
    fn a_server_that_is_far_behind_is_measured_again_from_what_is_kept() {
        let mut batches = Batches::default();
        assert_eq!(batches.acknowledged(ServerId(2), Zxid::ZERO).count(), 0);
        let last = BATCHES_MAX as u32 + 10;
        (1..=last).for_each(|counter| batches.push(batch(counter)));
        let found: Vec<_> = batches.acknowledged(ServerId(2), Zxid::new(Epoch(3), last)).map(|b| b.last).collect();
        assert_eq!((found.len(), found[0]), (BATCHES_MAX, Zxid::new(Epoch(3), 11)));
    }

    #[test]
    fn an_acknowledgement_in_the_name_of_another_server_adds_no_server() {
        let (mut meter, status) = (NodeMeter::new(ServerId(1)), Status::default());
        meter.follow(Some((ServerId(1), Epoch(3))), Zxid::ZERO);
        meter.batches.push(batch(1));
        for server in [7, 8, 9].map(ServerId) {
            let ack = pole_zab::Message::Ack { epoch: Epoch(3), zxid: Zxid::new(Epoch(3), 1), server };
            meter.received(ServerId(2), &Message::Zab(ack), Time(5), &status);
        }
        let servers: Vec<_> = status.summaries.ack_latency(Time(5)).into_iter().map(|(server, _)| server).collect();
        assert_eq!((servers, meter.batches.acknowledged.len()), (vec![ServerId(2)], 1));
    }

    #[test]
    fn commits_are_counted_across_the_beginning_of_an_epoch() {
        let mut batches = Batches { last_committed: Zxid::new(Epoch(2), 70), ..Batches::default() };
        assert_eq!(batches.count_committed(Zxid::new(Epoch(2), 70)), 0);
        assert_eq!(batches.count_committed(Zxid::new(Epoch(3), 4)), 4);
        assert_eq!(batches.count_committed(Zxid::new(Epoch(3), 9)), 5);
    }
}
