//! A server that never adopted a history does not count in discovery beside servers that have one.

use bytes::Bytes;
use pole_election::Round;
use pole_types::{Epoch, ServerId, Voters, Zxid};
use pole_zab::{Entry, Epochs, Hello, Limits, Message, Origin, Output, Phase, Promise, Recovered, Ticket, Zab};

const ROUND: Round = Round { epoch: 1, failed: 0 };
const AHEAD: ServerId = ServerId(2);
const BEHIND: [ServerId; 2] = [ServerId(3), ServerId(4)];

fn deliver(zab: &mut Zab, from: ServerId, message: Message) -> Vec<Output> {
    let mut out = Vec::new();
    zab.receive(from, message, &mut out).expect("a good message");
    zab.written(Ticket(u64::MAX), &mut out);
    zab.assert_invariants();
    out
}

fn promise(counter: u32) -> Message {
    let last_zxid = Zxid::new(Epoch(4), counter);
    let mut epochs = Epochs::starting_at(Zxid::ZERO);
    epochs.push(last_zxid);
    Message::AckEpoch(Promise {
        epoch: Epoch(5),
        fresh: true,
        current_epoch: Epoch(4),
        last_zxid,
        epochs,
        blank: false,
        ahead: false,
    })
}

#[test]
fn a_wiped_leader_with_a_part_of_a_history_still_does_not_count() {
    // Server 1 of five was wiped and leads. Two and the lost server 5 may have committed up to 4.9.
    let voters = Voters::new([1, 2, 3, 4, 5].map(ServerId));
    let mut zab = Zab::new(ServerId(1), voters, Limits::default(), Recovered::blank());
    let peers = [BEHIND[0], BEHIND[1], AHEAD];
    peers.into_iter().for_each(|peer| zab.link_up(peer, &mut Vec::new()));
    let mut out = Vec::new();
    zab.lead(ROUND, peers.map(|peer| (peer, Epoch(4))), &mut out);
    zab.written(Ticket(u64::MAX), &mut out);
    let mut out = Vec::new();
    for peer in peers {
        deliver(&mut zab, peer, Message::Hello(Hello { round: ROUND, accepted_epoch: Epoch(4), taking_over: None }));
        out = deliver(&mut zab, peer, promise(if peer == AHEAD { 9 } else { 2 }));
    }
    let is_pull = |output: &Output| matches!(output, Output::Send { to: AHEAD, message: Message::Pull { .. } });
    assert!(out.iter().any(is_pull), "the quorum is 2, 3 and 4, and 2 has the best history: {out:?}");
    let entry = |counter| Entry {
        zxid: Zxid::new(Epoch(4), counter),
        origin: Origin::default(),
        body: Bytes::from_static(b"x"),
    };
    deliver(&mut zab, AHEAD, Message::Entries { prev: Zxid::ZERO, entries: (1..=3).map(entry).collect() });
    // The source is gone: 3 and 4 have promised, and this server still does not know what it once acknowledged.
    let mut out = Vec::new();
    zab.link_down(AHEAD, &mut out);
    zab.written(Ticket(u64::MAX), &mut out);
    assert_eq!(zab.phase(), Phase::Promising, "{out:?}");
    assert!(!out.iter().any(|output| matches!(output, Output::Send { message: Message::Pull { .. }, .. })), "{out:?}");
}

/// Whether a leader of three without a history is established with a follower that has an epoch, the third being lost.
fn is_established_beside_one_epoch(limits: Limits) -> bool {
    let voters = Voters::new([1, 2, 3].map(ServerId));
    let mut zab = Zab::new(ServerId(1), voters, limits, Recovered::blank());
    zab.link_up(AHEAD, &mut Vec::new());
    let mut out = Vec::new();
    zab.lead(ROUND, [(AHEAD, Epoch(1))], &mut out);
    zab.written(Ticket(u64::MAX), &mut out);
    deliver(&mut zab, AHEAD, Message::Hello(Hello { round: ROUND, accepted_epoch: Epoch(1), taking_over: None }));
    let promise = Promise {
        epoch: Epoch(2),
        fresh: true,
        current_epoch: Epoch(1),
        last_zxid: Zxid::ZERO,
        epochs: Epochs::starting_at(Zxid::ZERO),
        blank: false,
        ahead: false,
    };
    deliver(&mut zab, AHEAD, Message::AckEpoch(promise));
    deliver(&mut zab, AHEAD, Message::AckLeader { epoch: Epoch(2), last: Zxid::ZERO });
    zab.phase() == Phase::Established
}

#[test]
fn only_the_operator_lets_a_blank_server_count_beside_an_epoch() {
    assert!(!is_established_beside_one_epoch(Limits::default()));
    assert!(is_established_beside_one_epoch(Limits { trust_blank: true, ..Limits::default() }));
}
