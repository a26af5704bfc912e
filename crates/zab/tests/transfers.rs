//! Transfers of history: bounded data in flight, log entries read from disk where memory does not reach back, and no
//! acknowledgement before the state is restored.

use bytes::Bytes;
use pole_election::Round;
use pole_types::{Epoch, ServerId, Voters, Zxid};
use pole_zab::{
    DiskOp, Entry, Epochs, Hello, Limits, Message, Origin, Output, Phase, Promise, Recovered, SnapshotPart, Ticket,
    TransferId, Zab,
};

const ME: ServerId = ServerId(1);
const SYNCED: ServerId = ServerId(2);
const JOINER: ServerId = ServerId(3);
const ROUND: Round = Round { epoch: 1, failed: 0 };
const WINDOW: usize = 3;

fn server() -> Zab {
    let limits = Limits { piece_bytes: 1, pieces_in_flight: WINDOW, ..Limits::default() };
    let mut zab = Zab::new(ME, Voters::new([1, 2, 3].map(ServerId)), limits, Recovered::blank());
    [SYNCED, JOINER].into_iter().for_each(|peer| zab.link_up(peer, &mut Vec::new()));
    zab
}

/// Delivers a message and completes all writes.
fn deliver(zab: &mut Zab, from: ServerId, message: Message) -> Vec<Output> {
    let mut out = Vec::new();
    zab.receive(from, message, &mut out).expect("a good message");
    zab.written(Ticket(u64::MAX), &mut out);
    zab.assert_invariants();
    out
}

fn promise(epoch: Epoch) -> Message {
    let (last_zxid, epochs) = (Zxid::ZERO, Epochs::starting_at(Zxid::ZERO));
    Message::AckEpoch(Promise {
        epoch,
        fresh: true,
        current_epoch: Epoch(0),
        last_zxid,
        epochs,
        blank: true,
        ahead: false,
    })
}

/// An established leader with ten transactions, none of them in memory. Returns the transactions too.
fn leader() -> (Zab, Vec<Entry>) {
    let mut zab = server();
    let mut out = Vec::new();
    zab.lead(ROUND, [(SYNCED, Epoch(0))], &mut out);
    zab.written(Ticket(u64::MAX), &mut out);
    deliver(&mut zab, SYNCED, Message::Hello(Hello { round: ROUND, accepted_epoch: Epoch(0), taking_over: None }));
    deliver(&mut zab, SYNCED, promise(Epoch(1)));
    deliver(&mut zab, SYNCED, Message::AckLeader { epoch: Epoch(1), last: Zxid::ZERO });
    assert_eq!(zab.phase(), Phase::Established);
    propose(&mut zab, 10);
    let entries: Vec<_> = zab.log().between(Zxid::ZERO, zab.log().last()).cloned().collect();
    zab.trim(zab.committed(), 0);
    assert!(zab.log().is_empty());
    (zab, entries)
}

fn propose(zab: &mut Zab, count: usize) {
    let mut out = Vec::new();
    zab.propose(vec![(Origin::default(), Bytes::from_static(b"x")); count], Vec::new(), &mut out);
    zab.written(Ticket(u64::MAX), &mut out);
    let zxid = zab.log().last();
    deliver(zab, SYNCED, Message::Ack { epoch: Epoch(1), zxid, server: SYNCED });
    assert_eq!(zab.committed(), zxid);
}

/// The joiner arrives and is sent a snapshot at 1.5. Returns the transfer and the number of pieces requested.
fn join(zab: &mut Zab) -> (TransferId, usize) {
    deliver(zab, JOINER, Message::Hello(Hello { round: ROUND, accepted_epoch: Epoch(0), taking_over: None }));
    let out = deliver(zab, JOINER, promise(Epoch(1)));
    assert!(out.contains(&Output::WantsSnapshot { to: JOINER }));
    let mut out = Vec::new();
    zab.provide_snapshot(JOINER, Zxid::new(Epoch(1), 5), Bytes::from_static(b"state").into(), &mut out);
    let opened = out.iter().find_map(|output| {
        let Output::OpenTransfer { transfer, after, state: Some(_) } = output else { return None };
        Some((*transfer, *after))
    });
    let (transfer, after) = opened.expect("a transfer");
    assert_eq!(after, Zxid::new(Epoch(1), 5), "the log above the snapshot stays");
    (transfer, pieces_requested(&out))
}

fn pieces_requested(out: &[Output]) -> usize {
    out.iter().filter(|output| matches!(output, Output::NextPiece { .. })).count()
}

fn sent(out: &[Output], name: &str) -> usize {
    let is_it = |output: &&Output| matches!(output, Output::Send { to: JOINER, message } if message.name() == name);
    out.iter().filter(is_it).count()
}

fn piece(zab: &mut Zab, transfer: TransferId, last: bool) -> Vec<Output> {
    let mut out = Vec::new();
    zab.piece_is_ready(transfer, Bytes::from_static(b"s"), last, &mut out);
    out
}

#[test]
fn data_in_flight_is_bounded_and_the_log_is_read_from_disk() {
    let (mut zab, entries) = leader();
    let (transfer, first) = join(&mut zab);
    assert_eq!(first, WINDOW);
    for _ in 0..WINDOW {
        let out = piece(&mut zab, transfer, false);
        assert_eq!((sent(&out, "Snapshot"), pieces_requested(&out)), (1, 0));
    }
    // Transactions proposed meanwhile are not sent to the joiner.
    propose(&mut zab, 1);
    let out = deliver(&mut zab, JOINER, Message::Received);
    assert_eq!(pieces_requested(&out), 1);
    let out = piece(&mut zab, transfer, true);
    assert_eq!(sent(&out, "Snapshot"), 1);
    // The log follows when all parts are confirmed.
    (1..WINDOW).for_each(|_| assert_eq!(deliver(&mut zab, JOINER, Message::Received), [Output::Progress]));
    let out = deliver(&mut zab, JOINER, Message::Received);
    let (after, through) = (Zxid::new(Epoch(1), 5), Zxid::new(Epoch(1), 10));
    assert!(out.contains(&Output::ReadLog { transfer, after, through, bytes: 1 }), "{out:?}");
    let mut out = Vec::new();
    zab.log_is_read(transfer, entries[5..9].to_vec(), &mut out);
    assert_eq!(sent(&out, "Entries"), 1);
    assert!(matches!(out.last(), Some(Output::ReadLog { .. })), "{out:?}");
    let mut out = Vec::new();
    zab.log_is_read(transfer, entries[9..].to_vec(), &mut out);
    // 1.11 is still in memory, and the history ends there.
    assert_eq!((sent(&out, "Entries"), sent(&out, "NewLeader")), (2, 1));
    assert!(out.contains(&Output::CloseTransfer { transfer }));
    // From now on the joiner is sent proposals.
    let mut out = Vec::new();
    zab.propose(vec![(Origin::default(), Bytes::new())], Vec::new(), &mut out);
    assert_eq!(sent(&out, "Propose"), 1);
}

#[test]
fn a_failed_log_read_closes_the_link_and_a_closed_link_ends_its_transfer() {
    let (mut zab, _) = leader();
    let (transfer, _) = join(&mut zab);
    piece(&mut zab, transfer, true);
    deliver(&mut zab, JOINER, Message::Received);
    let mut out = Vec::new();
    zab.log_is_read(transfer, Vec::new(), &mut out);
    assert_eq!(out, [Output::CloseTransfer { transfer }, Output::Reset { peer: JOINER }]);
    zab.link_up(JOINER, &mut Vec::new());
    let (again, _) = join(&mut zab);
    let mut out = Vec::new();
    zab.link_down(JOINER, &mut out);
    assert_eq!(out, [Output::CloseTransfer { transfer: again }]);
    assert_eq!(piece(&mut zab, again, false), []);
}

#[test]
fn a_follower_does_not_acknowledge_before_its_state_is_restored() {
    let mut zab = server();
    let leader = SYNCED;
    zab.follow(leader, ROUND, [], &mut Vec::new());
    deliver(&mut zab, leader, Message::NewEpoch { epoch: Epoch(1) });
    let zxid = Zxid::new(Epoch(1), 5);
    let part = |offset, last| {
        let body = Bytes::from_static(b"s");
        Message::Snapshot(SnapshotPart { zxid, epochs: Epochs::starting_at(zxid), offset, last, body })
    };
    let received = Output::Send { to: leader, message: Message::Received };
    let out = deliver(&mut zab, leader, part(0, false));
    assert!(out.contains(&received), "{out:?}");
    let out = deliver(&mut zab, leader, part(1, true));
    assert!(!out.contains(&received), "{out:?}");
    let install = out.iter().find_map(|output| {
        let Output::Write { ticket, op: DiskOp::Install { .. } } = output else { return None };
        Some(*ticket)
    });
    let ticket = install.expect("it is installed");
    assert!(out.contains(&Output::Restore { ticket, zxid }) && zab.is_restoring());
    // A NewLeader that arrives early is not acknowledged.
    let out = deliver(&mut zab, leader, Message::NewLeader { epoch: Epoch(1), last: zxid });
    assert!(!out.iter().any(|output| matches!(output, Output::Send { .. })), "{out:?}");
    let mut out = Vec::new();
    assert_eq!(zab.restored(Ticket(0), None, &mut out), None, "of another snapshot");
    assert_eq!(zab.restored(ticket, None, &mut out), Some(zxid));
    let level = Output::Send { to: leader, message: Message::AckLeader { epoch: Epoch(1), last: zxid } };
    assert!(out.contains(&level) && !zab.is_restoring(), "{out:?}");
}

#[test]
fn the_window_grows_while_the_receiver_stays_behind_under_load() {
    let (mut zab, _) = leader();
    propose(&mut zab, 4);
    deliver(&mut zab, JOINER, Message::Hello(Hello { round: ROUND, accepted_epoch: Epoch(1), taking_over: None }));
    let last_zxid = Zxid::new(Epoch(1), 10);
    let mut epochs = Epochs::starting_at(Zxid::ZERO);
    epochs.push(last_zxid);
    let promise = Promise {
        epoch: Epoch(1),
        fresh: false,
        current_epoch: Epoch(1),
        last_zxid,
        epochs,
        blank: false,
        ahead: false,
    };
    let out = deliver(&mut zab, JOINER, Message::AckEpoch(promise));
    assert_eq!(sent(&out, "Entries"), WINDOW, "of the four that the joiner lacks");
    // For every entry that is confirmed, another one is proposed.
    for _ in 0..20 {
        propose(&mut zab, 1);
        let out = deliver(&mut zab, JOINER, Message::Received);
        if sent(&out, "NewLeader") == 1 {
            return assert!(sent(&out, "Entries") > 1, "a larger window holds everything that the joiner lacks");
        }
        assert_eq!(sent(&out, "Entries"), 1);
    }
    panic!("the joiner stays behind");
}
