//! Random events with random contents in any order must neither panic nor violate a guarantee.
//!
//! The assertions inside the election (`invariants`) run after each step as well.

use std::collections::BTreeSet;

use pole_election::*;
use proptest::prelude::*;

use crate::test_server::{FixedHost, TestServer};

#[derive(Clone, Debug)]
enum Event {
    Start(Cause),
    Receive(u64, Box<Message>),
    Expire(Timer),
    Up(u64),
    Down(u64),
    Established,
    Demote(u64),
    Scored(Option<i64>),
}

fn proposals(id: impl Strategy<Value = u64>) -> impl Strategy<Value = Proposal> {
    let rank = prop_oneof![
        Just(Rank::Unknown),
        prop::collection::vec(-1..4i64, 0..2).prop_map(|components| Rank::Known(Score::new(components))),
    ];
    (id, rank, 0..2u64, 0..3u64).prop_map(|(id, rank, version, zxid)| Proposal {
        id: ServerId(id),
        rank,
        version: Zxid(version),
        fingerprint: 1,
        standing: Standing { last_zxid: Zxid(zxid), ..Standing::default() },
        inputs: Vec::new(),
    })
}

fn rounds() -> impl Strategy<Value = Round> {
    let epoch = prop_oneof![20 => 0..4u64, 1 => Just(ROUND_MAX), 1 => Just(u64::MAX)];
    let failed = prop_oneof![20 => 0..5u32, 1 => Just(u32::MAX)];
    (epoch, failed).prop_map(|(epoch, failed)| Round { epoch, failed })
}

// Mostly voters 1 to 3 of three, sometimes an id that is not a voter.
fn ids() -> impl Strategy<Value = u64> {
    prop_oneof![30 => 1..4u64, 1 => 4..6u64]
}

fn messages() -> impl Strategy<Value = (u64, Message)> {
    let demoted = prop::collection::btree_set(ids().prop_map(ServerId), 0..3);
    let propose = (ids(), rounds(), proposals(ids()), proposals(ids()), demoted, prop::bool::weighted(0.95)).prop_map(
        |(from, round, mut own, choice, demoted, honest)| {
            if honest {
                own.id = ServerId(from);
            }
            (from, Message::Propose(Propose { round, own, choice, demoted }))
        },
    );
    let vote = (ids(), rounds(), proposals(ids()), prop::option::of(0..3u32)).prop_map(
        |(from, round, choice, established)| {
            (from, Message::Vote(Vote { round, choice, established: established.map(Epoch) }))
        },
    );
    prop_oneof![3 => propose, 1 => vote]
}

fn events() -> impl Strategy<Value = Event> {
    let cause = prop_oneof![Just(Cause::Start), Just(Cause::LeaderLost), Just(Cause::Retry)];
    let timer = prop_oneof![Just(Timer::Wait), Just(Timer::Retry), Just(Timer::Score)];
    prop_oneof![
        2 => cause.prop_map(Event::Start),
        20 => messages().prop_map(|(from, message)| Event::Receive(from, Box::new(message))),
        3 => timer.prop_map(Event::Expire),
        1 => ids().prop_map(Event::Up),
        1 => ids().prop_map(Event::Down),
        1 => Just(Event::Established),
        1 => ids().prop_map(Event::Demote),
        1 => prop::option::of(-1..4i64).prop_map(Event::Scored),
    ]
}

fn apply(server: &mut TestServer, event: Event) {
    server.out.clear();
    let TestServer { election, host, out } = server;
    match event {
        Event::Start(cause) => election.start(cause, host, out),
        Event::Receive(from, message) => {
            let before = election.clone();
            if election.receive(ServerId(from), *message, host, out).is_err() {
                assert_eq!((&before, out.len()), (&*election, 0), "a refused message left a trace");
            }
        }
        Event::Expire(timer) => election.expired(timer, host, out),
        Event::Up(peer) => election.link_up(ServerId(peer)),
        Event::Down(peer) => election.link_down(ServerId(peer), host, out),
        Event::Established => election.established(Epoch(1)),
        Event::Demote(id) => election.demote(ServerId(id), host, out),
        Event::Scored(score) => {
            host.score = score;
            election.score_ready(host, out);
        }
    }
}

fn assert_outputs(server: &TestServer) {
    let electing = server.election.is_electing();
    for output in &server.out {
        match output {
            Output::Send { to, message } => {
                assert!(*to != ServerId(1) && server.election.voters().contains(*to));
                // Peers must accept whatever we send, no matter what we have received.
                let mut peer = TestServer::started(to.0, 3, 1);
                peer.host = FixedHost::scored(1);
                peer.try_receive(1, message.clone()).expect("we send good messages");
            }
            Output::Elected(elected) => {
                assert!(!electing && server.election.leader() == Some(elected.leader));
                let record = &elected.record;
                assert_eq!(record.winner, elected.leader);
                assert!(record.participants.len() >= 2, "a quorum took part: {record}");
                let listed: BTreeSet<_> = record.proposals.iter().map(|ranked| ranked.proposal.id).collect();
                assert!(listed.contains(&record.winner) && listed.len() == record.proposals.len());
            }
            Output::Arm { after, .. } => assert!(*after <= Span::from_ms(2_500)),
            Output::Cancel(_) | Output::Invalid { .. } => {}
        }
    }
}

proptest! {
    #![proptest_config(crate::generated(2000))]

    #[test]
    fn no_sequence_of_events_panics_or_violates_a_guarantee(
        score in prop::option::of(0..4i64),
        sequence in prop::collection::vec(events(), 1..60),
    ) {
        let mut server = TestServer::new(1, 3, 1);
        server.host.score = score;
        for event in sequence {
            apply(&mut server, event);
            assert_outputs(&server);
        }
    }
}
