//! Observers find out who leads, and servers without weight do not lead.

use pole_election::{Cause, Config, Election, Error, Message, Output, Timer};
use pole_types::{Epoch, ServerId, Voter, Voters};

use crate::test_server::{FixedHost, TestServer, propose, round, vote};

/// Server `me`; 1 to 3 vote, 4 observes.
fn server(me: u64) -> TestServer {
    let mut config = Config::new(ServerId(me), Voters::new((1..=3).map(ServerId)));
    config.observers.insert(ServerId(4));
    TestServer { election: Election::new(config), host: FixedHost::scored(10), out: Vec::new() }
}

fn observer() -> TestServer {
    let mut server = server(4);
    server.start(Cause::Start);
    server
}

#[test]
fn an_observer_asks_all_voters_and_proposes_nothing() {
    let mut observer = observer();
    let asked = |server: &TestServer| server.sent().iter().all(|(_, message)| **message == Message::Ask);
    assert_eq!((observer.receivers(), asked(&observer)), (vec![1, 2, 3], true));
    observer.expire(Timer::Retry);
    assert_eq!((observer.receivers(), asked(&observer)), (vec![1, 2, 3], true), "until it knows");
    assert!(observer.armed(Timer::Retry).is_some());
}

#[test]
fn an_observer_follows_the_leader_that_a_quorum_of_voters_names() {
    let mut observer = observer();
    observer.receive(1, vote(round(5, 0), (2, 20), Some(3)));
    assert_eq!(observer.leader(), None, "one voter of three");
    observer.receive(2, vote(round(5, 0), (2, 20), Some(3)));
    assert_eq!((observer.leader(), observer.election.round()), (Some(2), round(5, 0)));
}

#[test]
fn an_observer_begins_no_round_of_its_own() {
    let mut observer = observer();
    for from in [1, 2] {
        observer.receive(from, vote(round(5, 0), (2, 20), Some(3)));
    }
    observer.start(Cause::LeaderLost);
    assert_eq!(
        observer.election.round(),
        round(5, 0),
        "or the vote of a leader of round 6 would look old after a while"
    );
    assert!(observer.election.is_electing());
}

#[test]
fn an_observer_that_reaches_only_the_leader_follows_it_after_a_retry() {
    let mut observer = observer();
    observer.receive(2, vote(round(5, 0), (2, 20), Some(3)));
    assert_eq!(observer.leader(), None);
    observer.expire(Timer::Retry);
    observer.receive(2, vote(round(5, 0), (2, 20), Some(3)));
    assert_eq!(observer.leader(), Some(2));
}

#[test]
fn a_voter_answers_an_observer_when_it_has_a_leader_and_announces_one_that_is_established() {
    let mut voter = server(1);
    voter.start(Cause::Start);
    voter.receive(4, Message::Ask);
    assert_eq!(voter.receivers(), [], "nothing to tell yet");
    voter.receive_proposal(2, 20, (1, 10));
    voter.receive_proposal(3, 30, (1, 10));
    assert_eq!(voter.leader(), Some(1));
    voter.receive(4, Message::Ask);
    assert_eq!((voter.receivers(), voter.sent_vote().map(|vote| vote.established)), (vec![4], Some(None)));
    voter.election.established(Epoch(7));
    voter.out.clear();
    voter.election.announce(&mut voter.out);
    assert_eq!(voter.receivers(), [], "its link is not up");
    voter.election.link_up(ServerId(4));
    voter.election.announce(&mut voter.out);
    assert_eq!((voter.receivers(), voter.sent_vote().map(|vote| vote.established)), (vec![4], Some(Some(Epoch(7)))));
}

#[test]
fn an_observer_may_ask_and_nothing_else() {
    let mut voter = server(1);
    voter.start(Cause::Start);
    let refused = voter.try_receive(4, propose(round(1, 0), (4, 1), (4, 1), &[]));
    assert_eq!(refused, Err(Error::UnknownSender { from: ServerId(4) }));
    let refused = voter.try_receive(4, vote(round(1, 0), (2, 1), Some(1)));
    assert_eq!(refused, Err(Error::UnknownSender { from: ServerId(4) }));
    assert_eq!(voter.try_receive(5, Message::Ask), Err(Error::UnknownSender { from: ServerId(5) }));
}

#[test]
fn a_server_without_weight_is_not_chosen_even_with_the_best_score() {
    let weight = |id: u64| (ServerId(id), Voter { weight: u32::from(id != 3), group: 0 });
    let config = Config::new(ServerId(1), Voters::weighted((1..=3).map(weight)));
    let mut server = TestServer { election: Election::new(config), host: FixedHost::scored(10), out: Vec::new() };
    server.start(Cause::Start);
    server.receive(3, propose(round(1, 0), (3, 1), (3, 1), &[3]));
    assert_eq!(server.leader(), None, "server 3 adds nothing to a quorum");
    server.receive(2, propose(round(1, 0), (2, 20), (1, 10), &[3]));
    assert_eq!(server.leader(), Some(1));
    assert!(server.out.iter().any(|output| matches!(output, Output::Elected(_))));
}
