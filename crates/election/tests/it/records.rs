//! Election records, which explain why a server became the leader (`GET /v1/election`).

use std::collections::BTreeSet;

use pole_election::*;

use crate::test_server::{TestServer, proposal, propose, round, vote};

#[test]
fn a_record_names_the_winner_the_runner_up_and_the_margin_between_them() {
    let mut server = TestServer::started(1, 3, 30);
    server.receive_proposal(2, 20, (3, 10));
    server.receive_proposal(3, 10, (3, 10));
    let record = &server.elected().record;
    assert_eq!((record.winner, record.runner_up), (ServerId(3), Some(ServerId(2))));
    assert_eq!(record.decided_by, DecidedBy::Score);
    assert_eq!(record.margin, Some(Margin::Score { place: 0, winner: Some(10), runner_up: Some(20) }));
    assert_eq!(record.participants, BTreeSet::from([1, 2, 3].map(ServerId)));
    let listed: Vec<u64> = record.proposals.iter().map(|ranked| ranked.proposal.id.0).collect();
    assert_eq!(listed, [3, 2, 1], "best first");
}

#[test]
fn equal_scores_are_decided_by_the_id() {
    let mut server = TestServer::started(1, 3, 10);
    server.receive_proposal(2, 20, (3, 10));
    server.receive_proposal(3, 10, (3, 10));
    let record = &server.elected().record;
    assert_eq!((record.decided_by, record.runner_up), (DecidedBy::Id, Some(ServerId(1))));
    assert_eq!(record.margin, Some(Margin::Id { winner: ServerId(3), runner_up: ServerId(1) }));
}

#[test]
fn a_runner_up_without_a_score_has_an_unknown_side_of_the_margin() {
    let mut server = TestServer::new(1, 3, 30);
    server.host.score = None;
    server.host.fingerprint = 0;
    server.start(Cause::Start);
    server.expire(Timer::Score);
    let own = Proposal { fingerprint: 0, ..proposal(2, 7) };
    let message = Propose { round: round(1, 0), own: own.clone(), choice: own, demoted: BTreeSet::new() };
    server.receive(2, Message::Propose(message));
    server.expire(Timer::Wait);
    let record = &server.elected().record;
    assert_eq!(record.margin, Some(Margin::Score { place: 0, winner: Some(7), runner_up: None }));
}

#[test]
fn a_demoted_runner_up_loses_by_able_and_another_oracle_by_oracle() {
    let mut server = TestServer::started(1, 3, 30);
    server.receive(2, propose(round(1, 0), (2, 20), (1, 30), &[2]));
    server.expire(Timer::Wait);
    assert_eq!(server.elected().record.decided_by, DecidedBy::Able);
    assert!(server.elected().record.proposals.iter().any(|ranked| !ranked.able));

    let mut server = TestServer::started(1, 3, 30);
    let own = Proposal { version: Zxid(9), ..proposal(2, 99) };
    let message = Propose { round: round(1, 0), own: own.clone(), choice: own, demoted: BTreeSet::new() };
    server.receive(2, Message::Propose(message));
    server.expire(Timer::Wait);
    assert_eq!(server.elected().record.decided_by, DecidedBy::Oracle);
}

#[test]
fn after_three_failed_rounds_the_record_says_history() {
    let mut server = TestServer::new(1, 3, 1);
    server.host.standing.last_zxid = Zxid::new(Epoch(0), 8);
    (0..4).for_each(|_| server.start(Cause::Retry));
    let own = server.election.choice().expect("a choice").clone();
    let message = Propose { round: round(4, 3), own: proposal(2, 0), choice: own, demoted: BTreeSet::new() };
    server.receive(2, Message::Propose(message));
    server.expire(Timer::Wait);
    let record = &server.elected().record;
    assert_eq!((record.decided_by, record.failed_rounds, record.cause), (DecidedBy::History, 3, Cause::Retry));
    assert!(record.to_string().contains("3 failed rounds before, so history decides"), "{record}");
}

#[test]
fn an_election_with_one_proposal_says_so() {
    let mut server = TestServer::started(1, 3, 30);
    server.receive(2, vote(round(1, 0), (1, 30), None));
    let record = &server.elected().record;
    assert_eq!((record.decided_by, record.runner_up), (DecidedBy::OnlyCandidate, None));
}

#[test]
fn a_record_reads_in_a_few_lines() {
    let mut server = TestServer::new(1, 3, 30);
    server.host.inputs = vec![Input { name: "consensus_us".into(), value: 9880 }];
    server.start(Cause::LeaderLost);
    server.receive_proposal(2, 20, (2, 20));
    server.receive_proposal(2, 20, (2, 20));
    server.expire(Timer::Wait);
    let expected = "\
server 2 leads by score, next is 1: 20 against 30 in component 0
  round 1 called for leader-lost; heard 1 2 of 3 voters; ended because the wait is over
  2: score [20], history 0.0 of epoch 0
  1: score [30], history 0.0 of epoch 0, consensus_us=9880
  steps: started round 1; heard 2; chose 2 on word of 2; quorum proposed, waiting 200.000 ms; wait over, 2 hold our \
choice; decided: the wait is over";
    assert_eq!(server.elected().record.to_string(), expected);
}

#[test]
fn the_record_of_a_joiner_says_incumbent_and_who_voted() {
    let mut server = TestServer::started(3, 3, 1);
    server.receive(1, vote(round(3, 0), (2, 20), Some(7)));
    server.receive(2, vote(round(3, 0), (2, 20), Some(7)));
    let record = &server.elected().record;
    assert_eq!((record.decided_by, record.end_reason), (DecidedBy::Incumbent, EndReason::Incumbent));
    assert_eq!(record.participants, BTreeSet::from([1, 2, 3].map(ServerId)));
    assert!(record.to_string().starts_with("server 2 leads by incumbent"), "{record}");
}
