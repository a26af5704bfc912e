//! Properties of the codec on generated messages, and encodings that must not change.

use pole_election::{Input, Proposal, Propose, Rank, Round, Score, Standing, Vote};
use pole_node::TransferRefusal;
use pole_oracle::{Gossip, Report};
use pole_types::{Cxid, Epoch, ServerId, SessionId, Span};
use pole_zab::{Epochs, Hello, Origin, Promise, SnapshotPart};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use super::*;

fn encoded(message: &Message) -> Bytes {
    let mut out = BytesMut::new();
    encode(message, &mut out);
    out.freeze()
}

/// Decodes a sequence of frames.
fn decoded(mut bytes: Bytes) -> Vec<Message> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let length = u32::from_be_bytes(bytes.split_to(LENGTH_BYTES)[..].try_into().expect("four bytes"));
        messages.push(decode(bytes.split_to(length as usize)).expect("our own bytes"));
    }
    messages
}

proptest! {
    #[test]
    fn every_message_comes_back_as_it_was(message in message()) {
        prop_assert_eq!(decoded(encoded(&message)), [message]);
    }

    #[test]
    fn every_truncation_is_an_error(message in message()) {
        let frame = encoded(&message).slice(LENGTH_BYTES..);
        for length in 0..frame.len() {
            prop_assert!(decode(frame.slice(..length)).is_err(), "{} of {} bytes", length, frame.len());
        }
    }

    #[test]
    fn a_byte_too_many_is_an_error(message in message(), extra: u8) {
        let mut frame = encoded(&message)[LENGTH_BYTES..].to_vec();
        frame.push(extra);
        prop_assert!(decode(frame.into()).is_err());
    }

    #[test]
    fn any_bytes_decode_to_an_error_or_to_a_message_with_those_bytes(bytes in vec(any::<u8>(), 0..200), kind in 0_u8..0x40) {
        let mut frame = bytes;
        frame.insert(0, kind);
        let frame = Bytes::from(frame);
        if let Ok(message) = decode(frame.clone()) {
            prop_assert_eq!(encoded(&message).slice(LENGTH_BYTES..), frame);
        }
    }

    #[test]
    fn a_changed_byte_never_panics(message in message(), at: prop::sample::Index, to: u8) {
        let mut frame = encoded(&message)[LENGTH_BYTES..].to_vec();
        let at = at.index(frame.len());
        frame[at] = to;
        let _ = decode(frame.into());
    }

    #[test]
    fn a_large_batch_travels_in_pieces_that_follow_one_another(sizes in vec(0_usize..600_000, 1..12)) {
        let body = Bytes::from(vec![7; 600_000]);
        let entry = |(n, size): (usize, &usize)| Entry {
            zxid: Zxid(n as u64 + 1),
            origin: Origin::default(),
            body: body.slice(..*size),
        };
        let entries: Vec<Entry> = sizes.iter().enumerate().map(entry).collect();
        let (epoch, committed) = (Epoch(1), Zxid(0));
        let whole = Message::Zab(Zab::Propose { epoch, prev: Zxid(0), entries: entries.clone(), committed, listeners: vec![ServerId(3)] });
        let mut arrived = Vec::new();
        for message in decoded(encoded(&whole)) {
            let Message::Zab(Zab::Propose { prev, entries, .. }) = message else { panic!("a Propose") };
            prop_assert_eq!(prev, Zxid(arrived.len() as u64));
            let bytes: usize = entries.iter().map(|entry| ELEMENT_BYTES + entry.body.len()).sum();
            prop_assert!(bytes <= BATCH_BYTES_MAX || entries.len() == 1);
            arrived.extend(entries);
        }
        prop_assert_eq!(arrived, entries);
    }
}

#[test]
fn bodies_share_the_memory_of_their_frame() {
    let entry = Entry { zxid: Zxid(1), origin: Origin::default(), body: Bytes::from_static(b"body") };
    let frame = encoded(&Message::Zab(Zab::Entries { prev: Zxid(0), entries: vec![entry] })).slice(LENGTH_BYTES..);
    let Ok(Message::Zab(Zab::Entries { entries, .. })) = decode(frame.clone()) else { panic!("Entries") };
    assert_eq!(entries[0].body.as_ptr(), frame[frame.len() - 4..].as_ptr());
}

#[test]
fn a_huge_count_is_refused_before_anything_is_allocated() {
    let frame = [&[kind::ENTRIES][..], &[0; 8], &[0xff; 4], &[0; 30]].concat();
    let error = decode(frame.into()).expect_err("four billion entries in 30 bytes");
    assert_eq!(error.to_string(), "Entries.entries at byte 13: needs 103079215080 bytes, got 30");
}

#[test]
fn an_error_names_the_field_expected_and_got() {
    let error = decode(Bytes::from_static(&[0xee])).expect_err("no such kind");
    assert_eq!(error.to_string(), "Frame.kind at byte 1: expected the kind of a message, got 238");
    let error = decode(Bytes::from_static(&[kind::PING, 0, 0])).expect_err("short");
    assert_eq!(error.to_string(), "Ping.seq at byte 1: needs 8 bytes, got 2");
}

/// If one of these changes, the version in the handshake must change with it.
#[test]
fn the_bytes_of_messages_are_fixed() {
    let hex = |message: &Message| encoded(message).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&Message::Echo { seq: 0x0102 }), "00000009040000000000000102");
    assert_eq!(hex(&Message::Zab(Zab::Decline)), "0000000121");
    let ack = Zab::Ack { epoch: Epoch(3), zxid: Zxid::new(Epoch(3), 7), server: ServerId(2) };
    assert_eq!(hex(&Message::Zab(ack)), "000000152f0000000300000003000000070000000000000002");
    let origin = Origin { session: SessionId(-2), cxid: Cxid(5) };
    let entry = Entry { zxid: Zxid::new(Epoch(1), 2), origin, body: Bytes::from_static(b"ab") };
    let (epoch, prev, committed) = (Epoch(1), Zxid::new(Epoch(1), 1), Zxid::ZERO);
    assert_eq!(
        hex(&Message::Zab(Zab::Propose { epoch, prev, entries: vec![entry], committed, listeners: vec![ServerId(3)] })),
        "0000003f\
         2e\
         00000001\
         0000000100000001\
         0000000000000000\
         000000010000000000000003\
         00000001\
         0000000100000002fffffffffffffffe00000005000000026162"
    );
    let epochs = Epochs::starting_at(Zxid::new(Epoch(2), 9));
    assert_eq!(hex(&Message::Zab(Zab::Pull { epochs })), "0000000e2500000000010000000200000009");
    let choice = Proposal {
        id: ServerId(1),
        rank: Rank::Known(Score::new(vec![-1])),
        version: Zxid(0),
        fingerprint: 4,
        standing: Standing::default(),
        inputs: vec![Input { name: "hop_us".into(), value: 9 }],
    };
    let vote = Vote { round: Round { epoch: 1, failed: 2 }, choice, established: Some(Epoch(6)) };
    assert_eq!(
        hex(&Message::Election(Election::Vote(vote))),
        "0000005d\
         02\
         000000000000000100000002\
         0000000000000001\
         0100000001ffffffffffffffff\
         0000000000000000\
         0000000000000004\
         00000000000000000000000000000000\
         00000001\
         00000006686f705f7573\
         0000000000000009\
         0100000006"
    );
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (round(), proposal(), proposal(), btree_set(server(), 0..4)).prop_map(|(round, own, choice, demoted)| {
            Message::Election(Election::Propose(Propose { round, own, choice, demoted }))
        }),
        (round(), proposal(), option::of(epoch())).prop_map(|(round, choice, established)| {
            Message::Election(Election::Vote(Vote { round, choice, established }))
        }),
        (any::<u64>(), zxid(), report()).prop_map(|(seq, members, report)| Message::Heartbeat {
            seq,
            members,
            report: Box::new(report)
        }),
        (zxid(), body()).prop_map(|(version, members)| Message::Members { version, members }),
        Just(Message::Election(Election::Ask)),
        any::<u64>().prop_map(|seq| Message::Echo { seq }),
        agreement().prop_map(Message::Zab),
        synchronisation().prop_map(Message::Zab),
        (epoch(), vec(request(), 0..4)).prop_map(|(epoch, requests)| Message::Forward { epoch, requests }),
        (epoch(), any::<u64>(), vec(any::<i64>().prop_map(SessionId), 0..4))
            .prop_map(|(epoch, id, sessions)| Message::Touch { epoch, id, sessions }),
        (epoch(), any::<u64>()).prop_map(|(epoch, id)| Message::TouchDone { epoch, id }),
        (epoch(), any::<u64>()).prop_map(|(epoch, through)| Message::SyncAsk { epoch, through }),
        (epoch(), any::<u64>(), zxid()).prop_map(|(epoch, through, zxid)| Message::SyncDone { epoch, through, zxid }),
        (epoch(), any::<bool>(), vec((any::<i64>().prop_map(SessionId), any::<u64>().prop_map(Span)), 0..4))
            .prop_map(|(epoch, begins, sessions)| Message::Remaining { epoch, begins, sessions }),
        (epoch(), option::of(any::<u64>().prop_map(ServerId)))
            .prop_map(|(epoch, to)| Message::TransferAsk { epoch, to }),
        (epoch(), server()).prop_map(|(epoch, by)| Message::LeaderSought { epoch, by }),
        epoch().prop_map(|epoch| Message::Behind { epoch }),
        (epoch(), refusal()).prop_map(|(epoch, refusal)| Message::TransferRefused { epoch, refusal }),
    ]
}

fn refusal() -> impl Strategy<Value = TransferRefusal> {
    prop_oneof![
        Just(TransferRefusal::NotLeading),
        Just(TransferRefusal::Alone),
        Just(TransferRefusal::UnderWay),
        Just(TransferRefusal::NoneFit),
        any::<u64>().prop_map(|id| TransferRefusal::NotFollowing(ServerId(id))),
        any::<u64>().prop_map(|id| TransferRefusal::NotLevel(ServerId(id))),
    ]
}

fn agreement() -> impl Strategy<Value = Zab> {
    prop_oneof![
        (round(), epoch(), option::of(epoch())).prop_map(|(round, accepted_epoch, taking_over)| {
            Zab::Hello(Hello { round, accepted_epoch, taking_over })
        }),
        Just(Zab::Decline),
        Just(Zab::Received),
        epoch().prop_map(|epoch| Zab::NewEpoch { epoch }),
        (epoch(), epoch()).prop_map(|(refused, accepted)| Zab::RefuseEpoch { refused, accepted }),
        (epoch(), zxid()).prop_map(|(epoch, last)| Zab::NewLeader { epoch, last }),
        (epoch(), zxid()).prop_map(|(epoch, last)| Zab::AckLeader { epoch, last }),
        (epoch(), zxid()).prop_map(|(epoch, committed)| Zab::UpToDate { epoch, committed }),
        (epoch(), zxid(), vec(entry(), 0..4), zxid(), vec(server(), 0..4)).prop_map(
            |(epoch, prev, entries, committed, listeners)| Zab::Propose { epoch, prev, entries, committed, listeners }
        ),
        (epoch(), zxid(), server()).prop_map(|(epoch, zxid, server)| Zab::Ack { epoch, zxid, server }),
        (epoch(), zxid()).prop_map(|(epoch, zxid)| Zab::Commit { epoch, zxid }),
        (epoch(), epoch(), zxid(), round(), proposal(), any::<bool>()).prop_map(
            |(epoch, next, last, round, choice, asked)| Zab::Handover { epoch, next, last, round, choice, asked }
        ),
        (epoch(), zxid()).prop_map(|(epoch, last)| Zab::TakenOver { epoch, last }),
        any::<u64>().prop_map(|seq| Zab::Ping { seq }),
        (any::<u64>(), epoch()).prop_map(|(seq, accepted)| Zab::Pong { seq, accepted }),
    ]
}

fn synchronisation() -> impl Strategy<Value = Zab> {
    prop_oneof![
        (epoch(), any::<bool>(), epoch(), zxid(), epochs(), any::<bool>(), any::<bool>()).prop_map(
            |(epoch, fresh, current_epoch, last_zxid, epochs, blank, ahead)| {
                Zab::AckEpoch(Promise { epoch, fresh, current_epoch, last_zxid, epochs, blank, ahead })
            }
        ),
        epochs().prop_map(|epochs| Zab::Pull { epochs }),
        zxid().prop_map(|to| Zab::Truncate { to }),
        (zxid(), epochs(), any::<u32>(), any::<bool>(), body()).prop_map(|(zxid, epochs, offset, last, body)| {
            Zab::Snapshot(SnapshotPart { zxid, epochs, offset: offset as usize, last, body })
        }),
        (zxid(), vec(entry(), 0..4)).prop_map(|(prev, entries)| Zab::Entries { prev, entries }),
        zxid().prop_map(|last| Zab::PullEnd { last }),
    ]
}

/// Plausible histories: from the beginning or from a snapshot, extended, possibly truncated.
fn epochs() -> impl Strategy<Value = Epochs> {
    let pairs = btree_map(0_u32..50, 1..u32::MAX, 0..6);
    (any::<bool>(), pairs, option::of(0_u32..50)).prop_map(|(complete, pairs, cut)| {
        let mut ends = pairs.into_iter().map(|(epoch, counter)| Zxid::new(Epoch(epoch), counter));
        let base = if complete { None } else { ends.next() };
        let mut epochs = Epochs::starting_at(base.unwrap_or(Zxid::ZERO));
        ends.for_each(|end| epochs.push(end));
        if let Some(cut) = cut {
            epochs.truncate(Zxid::new(Epoch(cut), u32::MAX));
        }
        epochs
    })
}

fn report() -> impl Strategy<Value = Report> {
    let sizes = || btree_map(server(), any::<u64>(), 0..4);
    let spans = (span(), span(), btree_map(server(), span(), 0..4));
    (any::<u64>(), standing(), (sizes(), sizes()), spans, (gossip(), gossip())).prop_map(
        |(rate_milli, standing, (lacking, bandwidths), (p50, p99, round_trips), (after_crash, before_resignation))| {
            let (fsync_p50, fsync_p99) = (p50, p99);
            Report {
                rate_milli,
                standing,
                lacking,
                bandwidths,
                round_trips,
                fsync_p50,
                fsync_p99,
                after_crash,
                before_resignation,
            }
        },
    )
}

fn proposal() -> impl Strategy<Value = Proposal> {
    let input = (".{0,12}", any::<i64>()).prop_map(|(name, value)| Input { name, value });
    (server(), rank(), zxid(), any::<u64>(), standing(), vec(input, 0..3)).prop_map(
        |(id, rank, version, fingerprint, standing, inputs)| Proposal {
            id,
            rank,
            version,
            fingerprint,
            standing,
            inputs,
        },
    )
}

fn gossip() -> impl Strategy<Value = Gossip> {
    (rank(), zxid(), any::<u64>()).prop_map(|(rank, version, fingerprint)| Gossip { rank, version, fingerprint })
}

fn rank() -> impl Strategy<Value = Rank> {
    prop_oneof![Just(Rank::Unknown), vec(any::<i64>(), 0..4).prop_map(|score| Rank::Known(Score::new(score)))]
}

fn standing() -> impl Strategy<Value = Standing> {
    (epoch(), zxid(), epoch()).prop_map(|(current_epoch, last_zxid, accepted_epoch)| Standing {
        current_epoch,
        last_zxid,
        accepted_epoch,
    })
}

fn request() -> impl Strategy<Value = Request> {
    (origin(), zxid(), body()).prop_map(|(origin, floor, body)| Request { origin, floor, body })
}

fn entry() -> impl Strategy<Value = Entry> {
    (zxid(), origin(), body()).prop_map(|(zxid, origin, body)| Entry { zxid, origin, body })
}

fn origin() -> impl Strategy<Value = Origin> {
    (any::<i64>(), any::<i32>()).prop_map(|(session, cxid)| Origin { session: SessionId(session), cxid: Cxid(cxid) })
}

fn body() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..20).prop_map(Bytes::from)
}

fn round() -> impl Strategy<Value = Round> {
    (any::<u64>(), any::<u32>()).prop_map(|(epoch, failed)| Round { epoch, failed })
}

fn server() -> impl Strategy<Value = ServerId> {
    any::<u64>().prop_map(ServerId)
}

fn epoch() -> impl Strategy<Value = Epoch> {
    any::<u32>().prop_map(Epoch)
}

fn zxid() -> impl Strategy<Value = Zxid> {
    any::<u64>().prop_map(Zxid)
}

fn span() -> impl Strategy<Value = Span> {
    any::<u64>().prop_map(Span)
}
