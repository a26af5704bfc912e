//! Invalid messages of a peer are refused with an error that names the message and its sender, and change nothing.

use bytes::Bytes;
use pole_election::{INPUTS_MAX, Input, Proposal, ROUND_MAX, Rank, Round, Standing};
use pole_types::{Epoch, ServerId, Voters, Zxid};
use pole_zab::{
    Entry, Epochs, Error, Hello, Limits, Message, Origin, Output, Promise, Recovered, SnapshotPart, Ticket, Zab,
};

const ME: ServerId = ServerId(1);
const LEADER: ServerId = ServerId(3);
const ROUND: Round = Round { epoch: 1, failed: 0 };

fn zxid(epoch: u32, counter: u32) -> Zxid {
    Zxid::new(Epoch(epoch), counter)
}

fn entry(at: Zxid) -> Entry {
    Entry { zxid: at, origin: Origin::default(), body: Bytes::from_static(b"x") }
}

fn entries(epoch: u32, counters: std::ops::RangeInclusive<u32>) -> Vec<Entry> {
    counters.map(|counter| entry(zxid(epoch, counter))).collect()
}

/// A server of an ensemble of three, with links to the others.
fn server() -> Zab {
    let voters = Voters::new([1, 2, 3].map(ServerId));
    let mut zab = Zab::new(ME, voters, Limits::default(), Recovered::blank());
    zab.link_up(ServerId(2), &mut Vec::new());
    zab.link_up(LEADER, &mut Vec::new());
    zab
}

/// Delivers a message that must be accepted, and completes all writes.
fn deliver(zab: &mut Zab, from: ServerId, message: Message) -> Vec<Output> {
    let mut out = Vec::new();
    zab.receive(from, message, &mut out).expect("a good message");
    zab.written(Ticket(u64::MAX), &mut out);
    out
}

/// A follower that serves in epoch 1, with 1.1 to 1.3 committed and 1.4 logged.
fn serving() -> Zab {
    let mut zab = server();
    zab.follow(LEADER, ROUND, [], &mut Vec::new());
    deliver(&mut zab, LEADER, Message::NewEpoch { epoch: Epoch(1) });
    deliver(&mut zab, LEADER, Message::NewLeader { epoch: Epoch(1), last: Zxid::ZERO });
    deliver(&mut zab, LEADER, Message::UpToDate { epoch: Epoch(1), committed: Zxid::ZERO });
    let committed = zxid(1, 3);
    deliver(&mut zab, LEADER, propose(1, Zxid::ZERO, entries(1, 1..=4), Zxid::ZERO));
    deliver(&mut zab, LEADER, Message::Commit { epoch: Epoch(1), zxid: committed });
    assert_eq!((zab.log().last(), zab.committed()), (zxid(1, 4), committed));
    zab
}

/// The same follower after it promised epoch 2 to its leader. It waits for the history.
fn promised() -> Zab {
    let mut zab = serving();
    deliver(&mut zab, LEADER, Message::NewEpoch { epoch: Epoch(2) });
    zab
}

/// A leader that waits for promises.
fn leading() -> (Zab, Epoch) {
    let mut zab = server();
    zab.lead(ROUND, [(ServerId(2), Epoch(0))], &mut Vec::new());
    let hello = Hello { round: ROUND, accepted_epoch: Epoch(0), taking_over: None };
    let asked = deliver(&mut zab, ServerId(2), Message::Hello(hello)).into_iter().find_map(|output| {
        let Output::Send { message: Message::NewEpoch { epoch }, .. } = output else { return None };
        Some(epoch)
    });
    (zab, asked.expect("the follower is asked for a promise"))
}

fn propose(epoch: u32, prev: Zxid, entries: Vec<Entry>, committed: Zxid) -> Message {
    Message::Propose { epoch: Epoch(epoch), prev, entries, committed, listeners: Vec::new() }
}

fn promise(epoch: Epoch, current_epoch: Epoch, history: &[Zxid]) -> Promise {
    let mut epochs = Epochs::starting_at(Zxid::ZERO);
    history.iter().for_each(|zxid| epochs.push(*zxid));
    let last_zxid = history.last().copied().unwrap_or(Zxid::ZERO);
    Promise { epoch, fresh: true, current_epoch, last_zxid, epochs, blank: false, ahead: false }
}

/// A hand-over of epoch 1 to this server.
fn handover(next: Epoch, round: Round, inputs: Vec<Input>) -> Message {
    let (rank, version, fingerprint, standing) = (Rank::Unknown, Zxid::ZERO, 0, Standing::default());
    let choice = Proposal { id: ME, rank, version, fingerprint, standing, inputs };
    Message::Handover { epoch: Epoch(1), next, last: zxid(1, 4), round, choice, asked: false }
}

/// Asserts that the message is refused without outputs and without a change of state. Returns the error and its text.
fn refused(mut zab: Zab, from: ServerId, message: Message) -> (Error, String) {
    let before = zab.clone();
    let mut out = Vec::new();
    let error = zab.receive(from, message, &mut out).expect_err("a bad message");
    assert!(out.is_empty(), "something was put out: {out:?}");
    assert!(zab == before, "the state has changed");
    let text = error.to_string();
    assert!(text.contains(&from.to_string()), "the sender is not named: {text}");
    (error, text)
}

#[test]
fn a_server_that_is_no_voter_is_refused() {
    let (error, text) = refused(server(), ServerId(9), Message::Ping { seq: 1 });
    assert_eq!(error, Error::Foreign(ServerId(9)));
    assert!(text.contains("not a voter"), "{text}");
}

#[test]
fn proposals_after_a_gap_are_refused() {
    let (error, text) = refused(serving(), LEADER, propose(1, zxid(1, 5), entries(1, 6..=6), zxid(1, 3)));
    assert!(matches!(error, Error::Gap { .. }), "{error:?}");
    assert_eq!(text, "Propose of server 3 starts after 1.5, but our log ends at 1.4");
}

#[test]
fn entries_that_do_not_follow_one_another_are_refused() {
    let gapped = vec![entry(zxid(1, 5)), entry(zxid(1, 7))];
    let (error, _) = refused(serving(), LEADER, propose(1, zxid(1, 4), gapped, zxid(1, 3)));
    assert!(matches!(error, Error::NotContiguous { .. }), "{error:?}");
}

#[test]
fn a_leader_proposes_in_its_own_epoch_only() {
    let (error, _) = refused(serving(), LEADER, propose(1, zxid(1, 4), entries(2, 1..=1), zxid(1, 3)));
    assert!(matches!(error, Error::ImpossibleEpoch { epoch: Epoch(2), .. }), "{error:?}");
}

#[test]
fn committed_entries_are_never_truncated() {
    let (error, text) = refused(promised(), LEADER, Message::Truncate { to: zxid(1, 2) });
    assert_eq!(error, Error::CutsCommitted { from: LEADER, to: zxid(1, 2), committed: zxid(1, 3) });
    assert!(text.contains("refusing to lose it"), "{text}");
    let part = SnapshotPart {
        zxid: zxid(1, 2),
        epochs: Epochs::starting_at(zxid(1, 2)),
        offset: 0,
        last: true,
        body: Bytes::new(),
    };
    let (error, _) = refused(promised(), LEADER, Message::Snapshot(part));
    assert!(matches!(error, Error::CutsCommitted { .. }), "{error:?}");
}

#[test]
fn a_truncation_to_a_position_that_we_do_not_have_is_refused() {
    let (error, _) = refused(promised(), LEADER, Message::Truncate { to: zxid(1, 9) });
    assert!(matches!(error, Error::WrongEnd { .. }), "{error:?}");
}

#[test]
fn history_newer_than_the_epoch_promised_is_refused() {
    let future = Message::Entries { prev: zxid(1, 4), entries: entries(3, 1..=1) };
    let (error, _) = refused(promised(), LEADER, future);
    assert!(matches!(error, Error::ImpossibleEpoch { epoch: Epoch(3), .. }), "{error:?}");
}

#[test]
fn a_part_of_a_snapshot_out_of_place_is_refused() {
    let at = zxid(1, 9);
    let part = SnapshotPart { zxid: at, epochs: Epochs::starting_at(at), offset: 4, last: false, body: Bytes::new() };
    let (error, _) = refused(promised(), LEADER, Message::Snapshot(part));
    assert!(matches!(error, Error::Gap { message: "Snapshot", .. }), "{error:?}");
}

#[test]
fn a_new_leader_that_claims_another_end_is_refused() {
    let (error, _) = refused(promised(), LEADER, Message::NewLeader { epoch: Epoch(2), last: zxid(1, 7) });
    assert!(matches!(error, Error::WrongEnd { message: "NewLeader", .. }), "{error:?}");
}

#[test]
fn commits_of_what_we_do_not_have_are_refused() {
    let (error, _) = refused(serving(), LEADER, Message::Commit { epoch: Epoch(1), zxid: zxid(1, 8) });
    assert!(matches!(error, Error::WrongEnd { message: "Commit", .. }), "{error:?}");
}

#[test]
fn an_epoch_far_above_ours_is_refused_in_every_message() {
    let far = Epoch(u32::MAX);
    let (error, text) = refused(serving(), LEADER, Message::NewEpoch { epoch: far });
    assert!(matches!(error, Error::ImpossibleEpoch { .. }), "{error:?}");
    assert!(text.contains("4294967295"), "{text}");
    let hello = Hello { round: ROUND, accepted_epoch: far, taking_over: None };
    refused(leading().0, ServerId(2), Message::Hello(hello));
    let (leader, epoch) = leading();
    refused(leader, ServerId(2), Message::RefuseEpoch { refused: epoch, accepted: far });
    refused(serving(), LEADER, handover(far, ROUND, Vec::new()));
}

#[test]
fn a_hand_over_that_does_not_fit_into_a_vote_is_refused() {
    let beyond = Round { epoch: ROUND_MAX + 1, failed: 0 };
    let (error, text) = refused(serving(), LEADER, handover(Epoch(2), beyond, Vec::new()));
    assert!(matches!(error, Error::Choice(pole_election::Error::Round { .. })), "{error:?}");
    assert!(text.starts_with("Handover: server 3 is in round"), "{text}");
    let inputs = vec![Input { name: "x".into(), value: 0 }; INPUTS_MAX + 1];
    let (error, _) = refused(serving(), LEADER, handover(Epoch(2), ROUND, inputs));
    assert!(matches!(error, Error::Choice(pole_election::Error::Inputs { .. })), "{error:?}");
}

#[test]
fn leaps_to_higher_epochs_do_not_exhaust_them() {
    let mut zab = leading().0;
    let mut refusals = 0;
    for _ in 0..1_000 {
        let accepted_epoch = Epoch(zab.standing().accepted_epoch.0.saturating_add(1 << 24));
        let hello = Message::Hello(Hello { round: ROUND, accepted_epoch, taking_over: None });
        refusals += u32::from(zab.receive(ServerId(2), hello, &mut Vec::new()).is_err());
    }
    assert!(refusals > 800 && zab.standing().accepted_epoch < Epoch(u32::MAX / 2 + 2), "{refusals}");
    // An ensemble that has reached such epochs can continue.
    let above = Epoch(zab.standing().accepted_epoch.0 + 1);
    let hello = Hello { round: ROUND, accepted_epoch: above, taking_over: None };
    deliver(&mut zab, ServerId(2), Message::Hello(hello));
    assert!(zab.standing().accepted_epoch > above);
}

#[test]
fn an_epoch_far_above_ours_in_a_vote_is_ignored() {
    let mut zab = server();
    let mut out = Vec::new();
    zab.lead(ROUND, [(ServerId(2), Epoch(u32::MAX)), (LEADER, Epoch(4))], &mut out);
    assert_eq!(zab.standing().accepted_epoch, Epoch(5), "the next above what can be");
}

#[test]
fn a_promise_with_a_malformed_or_impossible_history_is_refused() {
    let (leader, epoch) = leading();
    let unordered = promise(epoch, Epoch(0), &[zxid(2, 1), zxid(1, 1)]);
    let (error, _) = refused(leader, ServerId(2), Message::AckEpoch(unordered));
    assert_eq!(error, Error::MalformedHistory(ServerId(2)));
    let (leader, epoch) = leading();
    let newer = promise(epoch, Epoch(9), &[]);
    let (error, _) = refused(leader, ServerId(2), Message::AckEpoch(newer));
    assert!(matches!(error, Error::ImpossibleEpoch { .. }), "{error:?}");
    let (leader, epoch) = leading();
    let wrong_end = Promise { last_zxid: zxid(1, 5), ..promise(epoch, Epoch(0), &[zxid(1, 1)]) };
    let (error, _) = refused(leader, ServerId(2), Message::AckEpoch(wrong_end));
    assert_eq!(error, Error::MalformedHistory(ServerId(2)));
}

#[test]
fn a_promise_with_a_history_of_the_epoch_just_opened_is_refused() {
    let (leader, epoch) = leading();
    let (error, _) = refused(leader, ServerId(2), Message::AckEpoch(promise(epoch, epoch, &[])));
    assert!(matches!(error, Error::ImpossibleEpoch { .. }), "{error:?}");
    let (leader, epoch) = leading();
    let (error, _) = refused(leader, ServerId(2), Message::AckEpoch(promise(epoch, Epoch(0), &[zxid(epoch.0, 1)])));
    assert!(matches!(error, Error::ImpossibleEpoch { .. }), "{error:?}");
}

#[test]
fn history_of_the_leaders_epoch_from_the_source_of_a_pull_is_refused() {
    let pulling = || {
        let mut zab = server();
        zab.lead(ROUND, [(ServerId(2), Epoch(4))], &mut Vec::new());
        let mut out = Vec::new();
        for from in [ServerId(2), LEADER] {
            let hello = Hello { round: ROUND, accepted_epoch: Epoch(4), taking_over: None };
            deliver(&mut zab, from, Message::Hello(hello));
            out = deliver(&mut zab, from, Message::AckEpoch(promise(Epoch(5), Epoch(4), &[zxid(4, 2)])));
        }
        let is_pull =
            |output: &Output| matches!(output, Output::Send { to: ServerId(2), message: Message::Pull { .. } });
        assert!(out.iter().any(is_pull), "{out:?}");
        zab
    };
    let newest = zxid(5, u32::MAX);
    let ahead = Message::Entries { prev: Zxid::ZERO, entries: entries(5, 1..=1) };
    let epochs = Epochs::starting_at(newest);
    let part = SnapshotPart { zxid: newest, epochs, offset: 0, last: true, body: Bytes::new() };
    for message in [ahead, Message::Snapshot(part)] {
        let (error, text) = refused(pulling(), ServerId(2), message);
        assert!(matches!(error, Error::ImpossibleEpoch { epoch: Epoch(5), .. }), "{error:?}");
        assert!(text.contains("nobody but this server proposes"), "{text}");
    }
}

#[test]
fn a_refusal_must_name_a_higher_epoch() {
    let (leader, epoch) = leading();
    let (error, _) = refused(leader, ServerId(2), Message::RefuseEpoch { refused: epoch, accepted: epoch });
    assert!(matches!(error, Error::ImpossibleEpoch { .. }), "{error:?}");
}

#[test]
fn acknowledgements_for_another_server_or_of_what_was_never_proposed_are_refused() {
    let (leader, epoch) = leading();
    let foreign = Message::Ack { epoch, zxid: Zxid::ZERO, server: LEADER };
    let mut out = Vec::new();
    assert!(leader.clone().receive(ServerId(2), foreign, &mut out).is_err());
    let ahead = Message::Ack { epoch, zxid: zxid(epoch.0, 7), server: ServerId(2) };
    let (error, _) = refused(leader.clone(), ServerId(2), ahead);
    assert!(matches!(error, Error::WrongEnd { message: "Ack", .. }), "{error:?}");
    let (error, _) = refused(leader, ServerId(2), Message::AckLeader { epoch, last: zxid(epoch.0, 7) });
    assert!(matches!(error, Error::WrongEnd { message: "AckLeader", .. }), "{error:?}");
}
