//! The protocol, packet by packet, without a leader.

use super::*;
use pole_jute::{CreateSessionTxn, OpCode, Txn, TxnEntry};

const ID: ServerId = ServerId(99);

fn zxid(epoch: u32, counter: u32) -> Zxid {
    Zxid::new(Epoch(epoch), counter)
}

fn learner(last: Zxid, accepted: u32) -> Learner {
    let start = Start { id: ID, accepted: Epoch(accepted), current: last.epoch(), last };
    Learner::new(start, Limits { packet_bytes_max: 1_000, state_bytes_max: 10_000, proposals_max: 3 }).0
}

fn packet(kind: Kind, zxid: Zxid, data: Option<&[u8]>) -> Bytes {
    Packet::new(kind, zxid.0.cast_signed(), data.map(Bytes::copy_from_slice)).encode()
}

fn leader_info(epoch: u32) -> Bytes {
    packet(Kind::LeaderInfo, zxid(epoch, 0), Some(&PROTOCOL_VERSION.to_be_bytes()))
}

fn body(zxid: Zxid) -> Bytes {
    let op = OpCode::CreateSession.number();
    let header = TxnHeader { client_id: 7, cxid: 1, zxid: zxid.0.cast_signed(), time: 1_000, op };
    TxnEntry { header, txn: Txn::CreateSession(CreateSessionTxn { timeout: 4_000 }), digest: None }.encode()
}

fn inform(zxid: Zxid) -> Bytes {
    packet(Kind::Inform, zxid, Some(&body(zxid)))
}

/// The effects as one word each.
fn words(effects: &[Effect]) -> Vec<String> {
    effects
        .iter()
        .map(|effect| match effect {
            Effect::Send(bytes) => {
                let sent = Packet::cut(&mut BytesMut::from(&bytes[..]), 1_000).unwrap().unwrap();
                format!("{:?} {:#x} {:?}", sent.kind, sent.zxid, sent.data.as_deref())
            }
            Effect::Accept(epoch) => format!("accept {epoch}"),
            Effect::Truncate(to) => format!("truncate {to}"),
            Effect::Restore(zxid, tree) => format!("restore {zxid} with {} nodes", tree.node_count()),
            Effect::Reapply(entry) => format!("reapply {}", entry.zxid),
            Effect::Commit(entry) => format!("commit {}", entry.zxid),
            Effect::Adopt { epoch, members } => {
                format!("adopt {epoch} of {:?}", members.iter().map(|id| id.0).collect::<Vec<_>>())
            }
            Effect::Changed => "changed".to_owned(),
            Effect::UpToDate => "up to date".to_owned(),
            Effect::Proposed(zxid) => format!("proposed {zxid}"),
        })
        .collect()
}

fn state() -> Vec<u8> {
    let mut state = Vec::new();
    Tree::new(Rules::default()).freeze().write(&mut |piece| state.extend_from_slice(piece));
    state
}

#[test]
fn the_first_packet_names_epoch_id_and_version() {
    let start = Start { id: ID, accepted: Epoch(5), current: Epoch(4), last: zxid(4, 9) };
    let (_, first) = Learner::new(start, Limits::default());
    let first = Packet::cut(&mut BytesMut::from(&first[..]), 1_000).unwrap().unwrap();
    assert_eq!((first.kind, first.zxid), (Kind::ObserverInfo, 0x5_0000_0000));
    let data = [&99_u64.to_be_bytes()[..], &0x1_0000_i32.to_be_bytes(), &0_i64.to_be_bytes()].concat();
    assert_eq!(first.data.as_deref(), Some(&data[..]));
}

#[test]
fn a_diff_is_committed_in_order_and_acknowledged_after_it_is_durable() {
    let mut learner = learner(zxid(1, 2), 1);
    let stream = [
        leader_info(3),
        packet(Kind::Diff, zxid(2, 1), None),
        packet(Kind::Proposal, zxid(1, 3), Some(&body(zxid(1, 3)))),
        packet(Kind::Commit, zxid(1, 3), None),
        packet(Kind::Proposal, zxid(2, 1), Some(&body(zxid(2, 1)))),
        packet(Kind::Commit, zxid(2, 1), None),
        packet(Kind::NewLeader, zxid(3, 0), Some(b"server.1=a")),
        packet(Kind::UpToDate, Zxid(u64::MAX), None),
        inform(zxid(3, 1)),
        packet(Kind::Ping, zxid(3, 4), None),
    ];
    // One byte at a time gives the same effects.
    let mut effects = Vec::new();
    for byte in stream.concat() {
        effects.extend(learner.receive(&[byte]).unwrap());
    }
    assert_eq!(
        words(&effects),
        [
            "accept 3",
            "AckEpoch 0x100000002 Some([0, 0, 0, 1])",
            "commit 1.3",
            "commit 2.1",
            "adopt 3 of [1]",
            "Ack 0x300000000 None",
            "up to date",
            "Ack 0x300000000 None",
            "commit 3.1",
            "proposed 3.4",
            "Ping 0x300000004 Some([])",
        ]
    );
}

#[test]
fn an_epoch_that_was_promised_before_is_not_promised_again() {
    let effects = learner(zxid(3, 2), 3).receive(&leader_info(3)).unwrap();
    assert_eq!(words(&effects)[1], "AckEpoch 0x300000002 Some([255, 255, 255, 255])");
    let error = learner(zxid(3, 2), 4).receive(&leader_info(3)).unwrap_err();
    assert!(matches!(error, ProtocolError::OldEpoch { got: Epoch(3), accepted: Epoch(4) }), "{error}");
}

#[test]
fn a_state_is_restored_and_what_it_may_contain_is_applied_again() {
    let mut learner = learner(Zxid::ZERO, 0);
    let stream = [
        &leader_info(2)[..],
        &packet(Kind::Snap, zxid(2, 5), None),
        &state(),
        SIGNATURE,
        &inform(zxid(2, 4)),
        &inform(zxid(2, 5)),
        &inform(zxid(2, 6)),
        &packet(Kind::NewLeader, zxid(2, 0), None),
        &inform(zxid(2, 7)),
        &packet(Kind::UpToDate, Zxid(u64::MAX), None),
    ]
    .concat();
    let expected = [
        "accept 2",
        "AckEpoch 0x0 Some([0, 0, 0, 0])",
        "restore 2.5 with 4 nodes",
        "reapply 2.4",
        "reapply 2.5",
        "commit 2.6",
        "adopt 2 of []",
        "Ack 0x200000000 None",
        "commit 2.7",
        "up to date",
        "Ack 0x200000000 None",
    ];
    for size in [1, 7, stream.len()] {
        let mut learner = std::mem::replace(&mut learner, self::learner(Zxid::ZERO, 0));
        let effects: Vec<_> = stream.chunks(size).flat_map(|piece| learner.receive(piece).unwrap()).collect();
        assert_eq!(words(&effects), expected, "in pieces of {size}");
    }
}

#[test]
fn a_state_without_its_signature_or_over_the_limit_is_refused() {
    let begin = [leader_info(2), packet(Kind::Snap, zxid(2, 5), None)].concat();
    let mut other = learner(Zxid::ZERO, 0);
    let error = other.receive(&[&begin[..], &state(), b"\0\0\0\x0aBenWasGone"].concat()).unwrap_err();
    assert!(matches!(error, ProtocolError::Signature), "{error}");
    let mut endless = learner(Zxid::ZERO, 0);
    endless.receive(&begin).unwrap();
    // 1,000 sessions are announced, and they never end.
    let error = endless.receive(&[&1_000_i32.to_be_bytes()[..], &[0; 10_000]].concat()).unwrap_err();
    assert!(matches!(error, ProtocolError::Limit { .. }), "{error}");
}

#[test]
fn a_truncation_goes_back_and_never_forward() {
    let begin = |to| [leader_info(2), packet(Kind::Trunc, to, None)].concat();
    let mut shorter = learner(zxid(1, 9), 1);
    assert_eq!(words(&shorter.receive(&begin(zxid(1, 4))).unwrap())[2..], ["truncate 1.4"]);
    assert_eq!(words(&shorter.receive(&inform(zxid(1, 5))).unwrap()), ["commit 1.5"]);
    let error = learner(zxid(1, 9), 1).receive(&begin(zxid(1, 10))).unwrap_err();
    assert!(matches!(error, ProtocolError::Truncation { .. }), "{error}");
}

#[test]
fn a_gap_is_refused_and_a_repetition_ignored() {
    let synchronised = || {
        let mut learner = learner(zxid(1, 2), 1);
        learner.receive(&[leader_info(1), packet(Kind::Diff, zxid(1, 2), None)].concat()).unwrap();
        learner
    };
    assert!(synchronised().receive(&inform(zxid(1, 2))).unwrap().is_empty());
    for wrong in [zxid(1, 4), zxid(2, 1), zxid(0x7000_0000, 1)] {
        let error = synchronised().receive(&inform(wrong)).unwrap_err();
        assert!(matches!(error, ProtocolError::Gap { .. }), "{wrong}: {error}");
    }
    let error = synchronised().receive(&packet(Kind::Commit, zxid(1, 3), None)).unwrap_err();
    assert!(matches!(error, ProtocolError::Gap { .. }), "a commit without its proposal: {error}");
}

#[test]
fn an_id_of_the_ensemble_is_refused_before_anything_is_acknowledged() {
    let mut learner = learner(zxid(1, 2), 1);
    learner.receive(&[leader_info(1), packet(Kind::Diff, zxid(1, 2), None)].concat()).unwrap();
    let configuration = b"server.9=a:1:2:participant\nserver.99=b:1:2:observer\nversion=0";
    let error = learner.receive(&packet(Kind::NewLeader, zxid(1, 0), Some(configuration))).unwrap_err();
    assert!(matches!(error, ProtocolError::IdTaken { id: ID }), "{error}");
}

#[test]
fn packets_in_the_wrong_phase_are_refused() {
    let greeted = || {
        let mut learner = learner(zxid(1, 2), 1);
        learner.receive(&leader_info(1)).unwrap();
        learner
    };
    let wrong = |mut learner: Learner, bytes: &[u8]| {
        let error = learner.receive(bytes).unwrap_err();
        if let ProtocolError::Unexpected { got, .. } = error { got } else { panic!("{error}") }
    };
    assert_eq!(wrong(learner(zxid(1, 2), 1), &inform(zxid(1, 3))), Kind::Inform);
    assert_eq!(wrong(greeted(), &inform(zxid(1, 3))), Kind::Inform);
    let mut synchronising = greeted();
    synchronising.receive(&packet(Kind::Diff, zxid(1, 2), None)).unwrap();
    assert_eq!(wrong(synchronising, &packet(Kind::UpToDate, Zxid(u64::MAX), None)), Kind::UpToDate);
}

#[test]
fn a_change_of_the_ensemble_is_committed_and_reported() {
    let mut learner = learner(zxid(1, 2), 1);
    let begin = [
        leader_info(1),
        packet(Kind::Diff, zxid(1, 2), None),
        packet(Kind::NewLeader, zxid(1, 0), Some(b"server.1=a:1:2:participant;b\n server.2=c\nversion=7\nserver.x=\n")),
        packet(Kind::UpToDate, Zxid(u64::MAX), None),
    ];
    assert_eq!(words(&learner.receive(&begin.concat()).unwrap())[2], "adopt 1 of [1, 2]");
    let data = [&3_u64.to_be_bytes()[..], &body(zxid(1, 3))].concat();
    let effects = learner.receive(&packet(Kind::InformAndActivate, zxid(1, 3), Some(&data))).unwrap();
    assert_eq!(words(&effects), ["commit 1.3", "changed"]);
    let error = learner.receive(&packet(Kind::InformAndActivate, zxid(1, 4), Some(b"short"))).unwrap_err();
    assert!(matches!(error, ProtocolError::Content { .. }), "{error}");
}

#[test]
fn a_transaction_under_another_zxid_is_refused() {
    let mut learner = learner(zxid(1, 2), 1);
    learner.receive(&[leader_info(1), packet(Kind::Diff, zxid(1, 2), None)].concat()).unwrap();
    let error = learner.receive(&packet(Kind::Inform, zxid(1, 3), Some(&body(zxid(1, 4))))).unwrap_err();
    assert!(matches!(error, ProtocolError::Content { .. }), "{error}");
}

#[test]
fn proposals_without_commits_are_bounded() {
    let mut learner = learner(zxid(1, 2), 1);
    learner.receive(&[leader_info(1), packet(Kind::Diff, zxid(1, 9), None)].concat()).unwrap();
    let proposal = packet(Kind::Proposal, zxid(1, 3), Some(&body(zxid(1, 3))));
    let error = (0..4).map(|_| learner.receive(&proposal)).find_map(Result::err).unwrap();
    assert!(matches!(error, ProtocolError::Limit { .. }), "{error}");
}

#[test]
fn no_prefix_of_a_session_with_a_flipped_byte_makes_it_panic() {
    let stream = [
        &leader_info(2)[..],
        &packet(Kind::Snap, zxid(2, 5), None),
        &state(),
        SIGNATURE,
        &inform(zxid(2, 6)),
        &packet(Kind::NewLeader, zxid(2, 0), Some(b"version=0")),
    ]
    .concat();
    for at in 0..stream.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = stream.clone();
            damaged[at] ^= flip;
            // Refused or not: only a panic is wrong.
            drop(learner(Zxid::ZERO, 0).receive(&damaged));
        }
    }
}
