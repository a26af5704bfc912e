//! One test per rule of `docs/election.md`, including the corrections to the printed algorithm. The sections are named
//! after its procedures; scenario numbers are those of `docs/scenarios.md`. Smaller scores are better.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use pole_election::*;

use crate::test_server::{TestServer, proposal, propose, round, vote};

// new_election

#[test]
fn a_new_election_raises_the_round_and_proposes_itself_to_all() {
    let server = TestServer::started(2, 3, 20);
    assert_eq!(server.election.round(), round(1, 0));
    assert_eq!(server.receivers(), [1, 3]);
    let Message::Propose(sent) = server.sent()[0].1 else { panic!("a vote without a leader") };
    assert_eq!((sent.own.id, sent.choice.id, sent.round), (ServerId(2), ServerId(2), round(1, 0)));
    assert_eq!(server.host.assessed_epochs, [1]);
}

#[test]
fn the_retry_starts_at_t_doubles_and_sends_p_again() {
    let mut server = TestServer::started(1, 3, 10);
    for ms in [200, 400, 800, 1600, 2000, 2000] {
        let armed = server.armed(Timer::Retry).expect("a retry");
        assert!(armed >= Span::from_ms(ms) && armed <= Span::from_ms(ms + ms / 4), "{ms}: {armed}");
        server.expire(Timer::Retry);
        assert_eq!(server.receivers(), [2, 3]);
    }
}

#[test]
fn a_single_voter_elects_itself_at_once_even_without_a_score() {
    let mut server = TestServer::new(1, 1, 10);
    server.host.score = None;
    server.start(Cause::Start);
    assert_eq!(server.leader(), Some(1));
    assert_eq!(server.elected().record.decided_by, DecidedBy::OnlyCandidate);
}

// receive P

#[test]
fn a_stale_round_is_answered_but_not_counted() {
    // Scenario 29. The printed algorithm counts it.
    let mut server = TestServer::started(1, 3, 10);
    server.start(Cause::Retry);
    server.receive(2, propose(round(1, 0), (2, 20), (1, 10), &[]));
    assert_eq!(server.receivers(), [2]);
    assert_eq!(server.leader(), None);
    assert_eq!(server.armed(Timer::Wait), None, "no quorum has proposed in this round");
}

#[test]
fn a_newer_round_is_joined_with_a_fresh_score_and_broadcast() {
    let mut server = TestServer::started(1, 5, 10);
    server.receive_proposal(2, 20, (1, 10));
    server.host.score = Some(15);
    server.receive(3, propose(round(7, 2), (3, 30), (4, 12), &[]));
    assert_eq!(server.election.round(), round(7, 2));
    assert_eq!(server.host.assessed_epochs, [1, 7]);
    assert_eq!(server.choice(), 4, "the better of our fresh proposal (15) and the sender's choice (12)");
    assert_eq!(server.receivers(), [2, 3, 4, 5]);
    assert_eq!(server.armed(Timer::Wait), None, "what 2 proposed in the old round is forgotten");
}

#[test]
fn within_one_epoch_the_larger_failed_is_the_newer_round() {
    let mut server = TestServer::started(1, 3, 10);
    server.receive(2, propose(round(1, 1), (2, 20), (2, 20), &[]));
    assert_eq!(server.election.round(), round(1, 1));
}

#[test]
fn a_better_choice_is_adopted_and_sent_to_all() {
    let mut server = TestServer::started(1, 5, 10);
    server.receive_proposal(2, 20, (3, 5));
    assert_eq!((server.choice(), server.receivers()), (3, vec![2, 3, 4, 5]));
}

#[test]
fn a_worse_choice_is_answered_to_its_sender_only() {
    let mut server = TestServer::started(1, 5, 10);
    server.receive_proposal(2, 20, (2, 20));
    assert_eq!((server.choice(), server.receivers()), (1, vec![2]));
}

#[test]
fn an_equal_choice_is_not_answered() {
    let mut server = TestServer::started(1, 5, 10);
    server.receive_proposal(2, 20, (1, 10));
    assert_eq!(server.receivers(), []);
}

#[test]
fn a_server_with_a_leader_answers_by_a_vote_whatever_the_round() {
    let mut server = elected_first();
    server.receive(3, propose(round(9, 0), (3, 1), (3, 1), &[]));
    let vote = server.sent_vote().expect("a vote");
    assert_eq!((vote.choice.id, vote.round, vote.established), (ServerId(1), round(1, 0), None));
    assert_eq!((server.leader(), server.election.round()), (Some(1), round(1, 0)));
    server.election.established(Epoch(4));
    server.receive(3, propose(round(9, 0), (3, 1), (3, 1), &[]));
    assert_eq!(server.sent_vote().expect("a vote").established, Some(Epoch(4)));
}

// count j

#[test]
fn the_election_ends_at_once_when_all_were_heard_and_a_quorum_holds_the_choice() {
    let mut server = TestServer::started(1, 3, 10);
    server.receive_proposal(2, 20, (2, 20));
    server.receive_proposal(3, 30, (3, 30));
    assert_eq!(server.leader(), None, "all have responded, but nobody holds our choice");
    server.receive_proposal(2, 20, (1, 10));
    assert_eq!(server.leader(), Some(1));
    assert_eq!(server.elected().record.end_reason, EndReason::AllResponded);
}

#[test]
fn proposals_of_a_quorum_that_differ_do_not_end_the_election() {
    // The printed algorithm ends on them when T expires.
    let mut server = TestServer::started(1, 3, 10);
    server.receive_proposal(2, 20, (2, 20));
    server.expire(Timer::Wait);
    assert_eq!(server.leader(), None);
    assert_eq!(server.receivers(), [2, 3], "proposes again instead");
    server.receive_proposal(2, 20, (1, 10));
    assert_eq!(server.leader(), Some(1), "the wait is over: elect the moment a quorum holds our choice");
    assert_eq!(server.elected().record.end_reason, EndReason::Waited);
}

#[test]
fn the_leader_just_given_up_is_not_waited_for() {
    let mut server = elected(TestServer::started(1, 3, 10), 3);
    server.start(Cause::LeaderLost);
    server.receive_proposal(2, 20, (1, 10));
    assert_eq!(server.leader(), Some(1));
    assert_eq!(server.elected().record.end_reason, EndReason::Gone);
}

#[test]
fn a_leader_that_resigned_is_waited_for() {
    for cause in [Cause::Resigned, Cause::Transfer, Cause::QuorumLost, Cause::Retry] {
        let mut server = elected(TestServer::started(1, 3, 10), 3);
        server.start(cause);
        server.receive_proposal(2, 20, (1, 10));
        assert_eq!(server.leader(), None, "{cause}");
    }
}

#[test]
fn a_voter_whose_link_was_up_and_has_closed_is_not_waited_for() {
    let mut server = TestServer::started(1, 3, 10);
    server.election.link_up(ServerId(3));
    server.receive_proposal(2, 20, (1, 10));
    assert_eq!(server.leader(), None);
    server.link_down(3);
    assert_eq!(server.leader(), Some(1));
    assert_eq!(server.elected().record.end_reason, EndReason::Gone);
}

#[test]
fn a_link_never_yet_up_excuses_nobody_before_the_wait_is_over() {
    let mut server = TestServer::started(1, 3, 10);
    server.link_down(3);
    server.receive_proposal(2, 20, (1, 10));
    assert_eq!(server.leader(), None);
    server.expire(Timer::Wait);
    assert_eq!(server.leader(), Some(1));
}

#[test]
fn a_link_that_is_up_again_excuses_nobody() {
    let mut server = TestServer::started(1, 3, 10);
    server.election.link_up(ServerId(3));
    server.link_down(3);
    server.election.link_up(ServerId(3));
    server.receive_proposal(2, 20, (1, 10));
    assert_eq!(server.leader(), None);
}

#[test]
fn a_voter_that_ranks_lower_by_gossip_is_not_waited_for() {
    let mut server = TestServer::started(1, 3, 10);
    server.host.below.insert(ServerId(3));
    server.receive_proposal(2, 20, (1, 10));
    assert_eq!(server.leader(), Some(1));
    assert_eq!(server.elected().record.end_reason, EndReason::Gossip);
}

#[test]
fn gossip_about_scores_excuses_nobody_when_history_decides() {
    let mut server = TestServer::started(3, 3, 10);
    server.host.below.insert(ServerId(2));
    server.receive(1, propose(round(5, 3), (1, 20), (3, 10), &[]));
    assert_eq!(server.leader(), None);
}

#[test]
fn gossip_about_scores_excuses_nobody_when_the_choice_is_demoted() {
    // A server that is not demoted outranks a demoted one, whatever the scores.
    let mut server = TestServer::started(1, 3, 10);
    server.host.below.insert(ServerId(3));
    server.receive(2, propose(round(1, 0), (2, 20), (1, 10), &[1, 2]));
    assert_eq!((server.choice(), server.leader()), (1, None));
}

#[test]
fn a_quorum_is_needed_however_many_are_excused() {
    let mut server = TestServer::started(1, 5, 10);
    for peer in 2..=5 {
        server.election.link_up(ServerId(peer));
        server.link_down(peer);
    }
    server.receive_proposal(2, 20, (1, 10));
    server.expire(Timer::Wait);
    server.expire(Timer::Retry);
    assert_eq!(server.leader(), None);
}

// the election timer

#[test]
fn the_wait_begins_when_a_quorum_has_proposed_and_chatter_does_not_re_arm_it() {
    // Scenario 20.
    let mut server = TestServer::started(1, 5, 10);
    server.receive_proposal(2, 20, (2, 20));
    assert_eq!(server.armed(Timer::Wait), None);
    server.receive_proposal(3, 30, (3, 30));
    assert_eq!(server.armed(Timer::Wait), Some(Span::from_ms(200)), "T, as no round trip is known");
    server.receive_proposal(3, 30, (3, 30));
    server.receive_proposal(4, 40, (1, 10));
    server.receive_proposal(2, 20, (2, 20));
    assert_eq!(server.armed(Timer::Wait), None);
}

#[test]
fn the_wait_lasts_as_long_as_the_slowest_round_trip_to_an_unheard_voter() {
    let mut server = TestServer::new(1, 5, 10);
    for (peer, ms) in [(2, 90), (3, 80), (4, 10), (5, 20)] {
        server.host.round_trips.insert(ServerId(peer), Span::from_ms(ms));
    }
    server.start(Cause::Start);
    server.receive_proposal(2, 20, (2, 20));
    server.receive_proposal(3, 30, (3, 30));
    let wait = server.armed(Timer::Wait).expect("a quorum has proposed");
    assert!(wait > Span::from_ms(20) && wait < Span::from_ms(30), "{wait}");
}

#[test]
fn one_unknown_round_trip_makes_the_wait_t() {
    let mut server = TestServer::new(1, 5, 10);
    server.host.round_trips.insert(ServerId(5), Span::from_ms(1));
    server.start(Cause::Start);
    server.receive_proposal(2, 20, (2, 20));
    server.receive_proposal(3, 30, (3, 30));
    assert_eq!(server.armed(Timer::Wait), Some(Span::from_ms(200)));
}

#[test]
fn a_proposal_that_arrives_during_the_wait_is_counted() {
    // Scenario 20: other implementations lost messages that arrived during the final wait.
    let mut server = TestServer::started(1, 3, 10);
    server.receive_proposal(2, 20, (1, 10));
    server.receive_proposal(3, 5, (3, 5));
    assert_eq!((server.choice(), server.leader()), (3, Some(3)), "we and 3 hold it, all have responded");
}

#[test]
fn a_voter_that_still_follows_a_leader_gets_the_rest_of_t_once() {
    // Not in the paper: it has answered, so its round trip is over, but it will propose as soon as it notices the
    // loss.
    let mut server = TestServer::new(1, 3, 10);
    server.host.round_trips.insert(ServerId(3), Span::from_ms(10));
    server.start(Cause::Start);
    server.start(Cause::QuorumLost);
    server.receive_proposal(2, 20, (1, 10));
    let first = server.armed(Timer::Wait).expect("a quorum has proposed");
    server.receive(3, vote(round(1, 0), (2, 20), Some(1)));
    server.expire(Timer::Wait);
    let rest = server.armed(Timer::Wait).expect("an extension");
    assert_eq!(first.saturating_add(rest), Span::from_ms(200));
    assert_eq!(server.leader(), None);
    server.expire(Timer::Wait);
    assert_eq!(server.leader(), Some(1));
}

#[test]
fn timers_of_an_election_that_is_over_do_no_harm() {
    let mut server = elected_first();
    let before = server.election.clone();
    for timer in [Timer::Wait, Timer::Retry, Timer::Score] {
        server.expire(timer);
        assert_eq!((&server.election, server.out.len()), (&before, 0));
    }
}

// V

#[test]
fn a_vote_of_our_round_for_our_choice_is_held() {
    let mut server = TestServer::started(1, 3, 10);
    server.receive_proposal(3, 30, (3, 30));
    server.receive(2, vote(round(1, 0), (1, 10), None));
    assert_eq!(server.leader(), Some(1));
}

#[test]
fn a_vote_of_our_round_for_a_better_choice_is_adopted_as_by_p() {
    let mut server = TestServer::started(1, 5, 10);
    server.receive(2, vote(round(1, 0), (3, 5), None));
    assert_eq!((server.choice(), server.receivers()), (3, vec![2, 3, 4, 5]));
}

#[test]
fn a_server_that_names_our_choice_holds_it_even_with_another_score() {
    // Scenarios 18, 30: differing details must not split servers that agree on the candidate.
    let mut server = TestServer::started(1, 3, 10);
    server.receive_proposal(2, 20, (1, 15));
    assert_eq!(server.receivers(), [2], "it is sent the better score");
    server.receive(3, vote(round(1, 0), (1, 12), None));
    assert_eq!(server.leader(), Some(1));
}

#[test]
fn any_other_vote_is_neither_a_proposal_nor_held() {
    for other in [vote(round(1, 0), (3, 20), None), vote(round(2, 0), (1, 10), None), vote(round(0, 0), (1, 1), None)] {
        let mut server = TestServer::started(1, 3, 10);
        server.receive(2, other);
        assert_eq!((server.choice(), server.armed(Timer::Wait)), (1, None));
        server.expire(Timer::Wait);
        assert_eq!(server.leader(), None);
    }
}

#[test]
fn a_voter_that_changed_its_mind_is_no_longer_counted() {
    // Scenario 18, ZOOKEEPER-3109.
    let mut server = TestServer::started(1, 5, 10);
    server.receive_proposal(2, 20, (1, 10));
    server.receive_proposal(3, 30, (3, 30));
    server.receive(2, vote(round(2, 0), (5, 50), None));
    server.expire(Timer::Wait);
    server.receive_proposal(3, 30, (1, 10));
    assert_eq!(server.leader(), None, "only we and 3 hold our choice");
    server.receive_proposal(4, 40, (1, 10));
    assert_eq!(server.leader(), Some(1));
}

#[test]
fn a_late_server_adopts_the_leader_that_a_quorum_and_itself_vote_for() {
    let mut server = TestServer::started(5, 5, 1);
    server.receive(1, vote(round(3, 0), (2, 20), Some(7)));
    server.receive(3, vote(round(3, 0), (2, 20), Some(7)));
    assert_eq!(server.leader(), None, "without its own vote it may be dead");
    server.receive(2, vote(round(3, 0), (2, 20), Some(7)));
    assert_eq!((server.leader(), server.election.round()), (Some(2), round(3, 0)));
    assert_eq!(server.elected().record.decided_by, DecidedBy::Incumbent);
}

#[test]
fn a_server_that_the_others_counted_joins_the_leader_that_they_elected_in_its_round() {
    // Server 4 held 2, so 2 and 3 elected it. Then a late proposal of 5, which is better, changed the choice of 4.
    let mut server = TestServer::started(4, 5, 10);
    server.receive_proposal(2, 20, (2, 20));
    server.receive_proposal(3, 15, (2, 20));
    server.receive_proposal(5, 50, (5, 50));
    assert_eq!(server.leader(), None);
    let here = server.election.round();
    server.receive(3, vote(here, (2, 20), None));
    assert_eq!(server.leader(), None, "2 itself has not said that it leads");
    server.receive(2, vote(here, (2, 20), None));
    assert_eq!((server.leader(), server.election.round()), (Some(2), here), "with this server a quorum follows 2");
    assert_eq!(server.elected().record.end_reason, EndReason::Joined);
}

#[test]
fn a_server_that_the_others_have_elected_leads_without_waiting_for_the_rest() {
    let mut server = TestServer::started(3, 5, 30);
    let here = server.election.round();
    server.receive(2, vote(round(0, 0), (1, 1), Some(7)));
    server.receive_proposal(4, 40, (3, 30));
    server.receive_proposal(5, 50, (3, 30));
    assert_eq!(server.leader(), None, "2 may have a better score");
    server.receive(4, vote(here, (3, 30), None));
    assert_eq!(server.leader(), None, "5 has not decided");
    server.receive(5, vote(here, (3, 30), None));
    assert_eq!(server.leader(), Some(3));
    assert_eq!(server.elected().record.end_reason, EndReason::Joined);
}

#[test]
fn a_server_that_begins_late_joins_a_leader_that_needs_it() {
    // Servers 2 and 3 elected 2 together with 5, which has failed since.
    let mut server = TestServer::started(4, 5, 10);
    server.receive(3, vote(round(1, 1), (2, 20), None));
    server.receive(2, vote(round(1, 1), (2, 20), None));
    assert_eq!((server.leader(), server.election.round()), (Some(2), round(1, 1)));
    assert_eq!(server.elected().record.end_reason, EndReason::Joined);
}

#[test]
fn a_server_counts_itself_neither_for_an_older_round_nor_for_an_established_leader() {
    for (of, established) in [(round(0, 0), None), (round(1, 0), Some(7))] {
        let mut server = TestServer::started(4, 5, 10);
        server.receive(3, vote(of, (2, 20), established));
        server.receive(2, vote(of, (2, 20), established));
        assert_eq!(server.leader(), None);
    }
}

#[test]
fn a_server_that_reaches_only_the_leader_joins_it_after_a_retry() {
    let established = || vote(round(3, 0), (2, 20), Some(7));
    let mut server = TestServer::started(4, 5, 10);
    server.receive(2, established());
    assert_eq!(server.leader(), None, "the others may answer yet");
    server.expire(Timer::Retry);
    assert_eq!(server.leader(), None, "the vote may be older than the leader's end");
    server.receive(3, established());
    assert_eq!(server.leader(), None, "3 does not lead");
    server.receive(2, established());
    assert_eq!(server.leader(), Some(2));
    assert_eq!(server.elected().record.end_reason, EndReason::OnlyLeader);
}

#[test]
fn a_leader_that_is_not_established_or_has_competitors_is_not_joined_on_its_own_vote() {
    let mut server = TestServer::started(4, 5, 10);
    server.expire(Timer::Retry);
    server.receive(2, vote(round(3, 0), (2, 20), None));
    assert_eq!(server.leader(), None);
    server.receive(2, vote(round(0, 0), (2, 20), Some(7)));
    assert_eq!(server.leader(), None, "a vote of an older round may have been under way for long");

    let mut server = TestServer::started(4, 5, 10);
    server.expire(Timer::Retry);
    server.receive_proposal(1, 50, (1, 50));
    server.receive_proposal(3, 15, (1, 50));
    server.receive(2, vote(round(3, 0), (2, 20), Some(7)));
    assert_ne!(server.leader(), Some(2), "a quorum elects");
}

#[test]
fn votes_of_many_for_a_dead_leader_never_revive_it() {
    // Scenario 33: servers that still receive from the old leader, or that answer each other.
    let mut server = TestServer::started(5, 5, 1);
    for peer in [1, 2, 4] {
        server.receive(peer, vote(round(3, 0), (3, 20), Some(7)));
    }
    assert_eq!(server.leader(), None);
}

#[test]
fn votes_that_differ_in_detail_still_name_the_same_incumbent() {
    // Scenario 18, ZOOKEEPER-1732, -1817: rounds and scores differ between servers that chose and servers that
    // adopted.
    let mut server = TestServer::started(5, 5, 1);
    server.receive(1, vote(round(3, 0), (2, 20), Some(7)));
    server.receive(3, vote(round(4, 1), (2, 99), Some(7)));
    server.receive(2, vote(round(3, 0), (2, 20), Some(7)));
    assert_eq!(server.leader(), Some(2));
}

#[test]
fn votes_of_different_epochs_or_of_different_rounds_before_there_is_one_do_not_add_up() {
    for (first, second) in [
        (vote(round(3, 0), (2, 20), Some(6)), vote(round(3, 0), (2, 20), Some(7))),
        (vote(round(3, 0), (2, 20), None), vote(round(4, 0), (2, 20), None)),
    ] {
        let mut server = TestServer::started(3, 5, 1);
        server.receive(1, first);
        server.receive(2, second);
        assert_eq!(server.leader(), None);
    }
}

#[test]
fn only_the_latest_vote_of_a_server_counts() {
    let mut server = TestServer::started(3, 3, 1);
    server.receive(2, vote(round(3, 0), (2, 20), Some(7)));
    server.receive(2, vote(round(4, 0), (1, 10), Some(8)));
    server.receive(1, vote(round(3, 0), (2, 20), Some(7)));
    assert_eq!(server.leader(), None);
}

#[test]
fn a_new_election_forgets_the_votes_of_the_last() {
    let mut server = TestServer::started(3, 3, 1);
    server.receive(2, vote(round(3, 0), (2, 20), Some(7)));
    server.start(Cause::Retry);
    server.receive(1, vote(round(3, 0), (2, 20), Some(7)));
    assert_eq!(server.leader(), None);
}

#[test]
fn taking_over_a_newer_round_forgets_the_votes_too() {
    let mut server = TestServer::started(3, 3, 1);
    server.receive(2, vote(round(3, 0), (2, 20), Some(7)));
    server.receive(1, propose(round(5, 0), (1, 10), (1, 10), &[]));
    server.receive(1, vote(round(3, 0), (2, 20), Some(7)));
    assert_eq!(server.leader(), None);
}

// failed rounds

#[test]
fn failed_counts_the_rounds_since_a_leader_was_established() {
    let mut server = TestServer::new(1, 3, 10);
    for failed in 0..4 {
        server.start(Cause::Retry);
        assert_eq!(server.election.round(), round(u64::from(failed) + 1, failed));
    }
    let mut server = elected(server, 3);
    server.start(Cause::Retry);
    assert_eq!(server.election.round(), round(5, 4), "elected is not established");
    let mut server = elected(server, 3);
    server.election.established(Epoch(1));
    server.start(Cause::LeaderLost);
    assert_eq!(server.election.round(), round(6, 0));
}

#[test]
fn a_server_that_proposes_again_no_longer_follows_the_leader_of_its_vote() {
    // Messages that waited on a link for long: the votes for server 3 are older than its end.
    for proposes_again in [false, true] {
        let mut server = TestServer::started(5, 5, 1);
        let own = server.election.round();
        server.receive(1, vote(round(0, 0), (3, 30), Some(7)));
        if proposes_again {
            server.receive(1, propose(own, (1, 10), (1, 10), &[]));
        }
        server.receive(2, vote(round(0, 0), (3, 30), Some(7)));
        server.receive(3, vote(round(0, 0), (3, 30), Some(7)));
        assert_eq!(server.leader(), if proposes_again { None } else { Some(3) });
    }
}

#[test]
fn an_established_incumbent_ends_the_count_of_failed_rounds() {
    let mut server = TestServer::started(3, 3, 1);
    server.start(Cause::Retry);
    server.receive(1, vote(round(9, 0), (2, 20), Some(7)));
    server.receive(2, vote(round(9, 0), (2, 20), Some(7)));
    server.start(Cause::LeaderLost);
    assert_eq!(server.election.round(), round(10, 0));
}

#[test]
fn after_three_failed_rounds_the_best_history_wins_whatever_the_scores() {
    // Scenario 23: the only server with the latest log has a score that means "never".
    let mut server = TestServer::new(1, 3, 1);
    (0..4).for_each(|_| server.start(Cause::Retry));
    let mut late = proposal(2, 1_000_000);
    late.standing.last_zxid = Zxid(5);
    let Message::Propose(mut message) = propose(round(4, 3), (2, 0), (2, 0), &[]) else { unreachable!() };
    (message.own, message.choice) = (late.clone(), late);
    server.receive(2, Message::Propose(message));
    assert_eq!(server.choice(), 2);
    server.receive_proposal(3, 0, (2, 0));
    assert_eq!(server.choice(), 2);
}

#[test]
fn a_round_at_the_ceiling_leaves_room_for_newer_ones() {
    // Found by `random_events`: one damaged message must not leave us in a round that peers refuse, or in the last
    // one.
    let mut server = TestServer::started(1, 3, 10);
    server.receive(2, propose(round(ROUND_MAX, 0), (2, 20), (2, 20), &[]));
    server.start(Cause::Retry);
    assert_eq!(server.election.round(), round(ROUND_MAX, 1));
    let message = server.sent()[0].1.clone();
    TestServer::started(2, 3, 20).receive(1, message);
}

// demoted

#[test]
fn a_demoted_choice_is_chosen_again_among_the_own_proposals_heard() {
    // Scenario 21: the best score can vote but not lead. Scenario 45: only some servers see it fail.
    let mut server = TestServer::started(1, 5, 30);
    server.receive_proposal(2, 20, (2, 20));
    server.receive_proposal(3, 10, (3, 10));
    assert_eq!(server.choice(), 3);
    server.demote(3);
    assert_eq!((server.choice(), server.receivers()), (2, vec![2, 3, 4, 5]), "and the demotion is broadcast at once");
    server.receive_proposal(4, 40, (3, 10));
    assert_eq!((server.choice(), server.receivers()), (2, vec![4]), "a sender that does not know yet is answered");
}

#[test]
fn demotions_received_are_united_and_passed_on() {
    let mut server = TestServer::started(1, 5, 30);
    server.receive_proposal(3, 10, (3, 10));
    server.receive(4, propose(round(1, 0), (4, 40), (4, 40), &[3]));
    assert_eq!((server.choice(), server.receivers()), (1, vec![2, 3, 4, 5]));
    let Message::Propose(sent) = server.sent()[0].1 else { panic!("a vote without a leader") };
    assert_eq!(sent.demoted, BTreeSet::from([ServerId(3)]));
    server.receive(4, propose(round(1, 0), (4, 40), (1, 30), &[]));
    assert_eq!(server.receivers(), [4], "a sender that lacks a demotion is answered, although it holds our choice");
}

#[test]
fn when_all_are_demoted_the_best_of_them_is_elected_all_the_same() {
    let mut server = TestServer::started(1, 3, 30);
    server.receive(2, propose(round(1, 0), (2, 20), (2, 20), &[1, 2, 3]));
    assert_eq!(server.choice(), 2);
    server.receive_proposal(3, 50, (2, 20));
    assert_eq!(server.leader(), Some(2));
}

#[test]
fn a_demotion_lasts_three_rounds() {
    let mut server = TestServer::new(1, 3, 10);
    server.demote(3);
    for able in [false, false, false, true] {
        server.start(Cause::Retry);
        server.receive_proposal(3, 5, (3, 5));
        assert_eq!(server.choice() == 3, able);
    }
    let mut server = TestServer::started(1, 3, 10);
    server.demote(3);
    for able in [false, false, true] {
        server.start(Cause::Retry);
        server.receive_proposal(3, 5, (3, 5));
        assert_eq!(server.choice() == 3, able, "the running round was the first of three");
    }
}

#[test]
fn a_demotion_heard_from_others_ends_with_its_round() {
    let mut server = TestServer::started(1, 3, 10);
    server.receive(2, propose(round(1, 0), (2, 20), (2, 20), &[3]));
    server.start(Cause::Retry);
    server.receive_proposal(3, 5, (3, 5));
    assert_eq!(server.choice(), 3);
}

#[test]
fn a_server_may_demote_itself_and_then_elects_another() {
    // With a hung disk a server can vote, but should not lead.
    let mut server = TestServer::started(1, 3, 10);
    server.demote(1);
    server.receive_proposal(2, 20, (2, 20));
    assert_eq!(server.choice(), 2);
}

// scores

#[test]
fn the_first_election_waits_for_a_score_and_begins_in_the_highest_round_heard() {
    let mut server = TestServer::new(1, 5, 10);
    server.host.score = None;
    server.start(Cause::Start);
    assert_eq!((server.receivers(), server.armed(Timer::Score)), (vec![], Some(Span::from_ms(100))));
    server.receive(2, propose(round(1, 0), (2, 20), (2, 20), &[]));
    server.receive(3, propose(round(4, 1), (3, 30), (3, 30), &[]));
    server.receive(4, propose(round(4, 1), (4, 40), (3, 30), &[]));
    server.receive(2, propose(round(3, 0), (2, 20), (2, 20), &[]));
    server.out.clear();
    server.election.score_ready(&mut server.host, &mut server.out);
    assert_eq!(server.receivers(), [], "still not ready");
    server.host.score = Some(10);
    server.election.score_ready(&mut server.host, &mut server.out);
    assert_eq!((server.election.round(), server.choice(), server.receivers()), (round(4, 1), 1, vec![2, 3, 4, 5]));
    assert!(server.armed(Timer::Wait).is_some(), "3 and 4 proposed while we waited");
}

#[test]
fn past_the_bound_unknown_is_proposed_and_can_be_elected() {
    // Scenarios 24, 28: an isolated server with an empty vector; an oracle that never answers.
    let mut server = TestServer::new(3, 3, 10);
    server.host.score = None;
    server.start(Cause::Start);
    server.expire(Timer::Score);
    assert_eq!(server.election.choice().expect("a choice").rank, Rank::Unknown);
    server.receive_proposal(2, 1_000, (2, 1_000));
    assert_eq!(server.choice(), 2, "every known score is better");
    let mut server = TestServer::new(3, 3, 10);
    server.host.score = None;
    server.start(Cause::Start);
    server.expire(Timer::Score);
    let own = server.election.choice().expect("a choice").clone();
    for peer in [1, 2] {
        let theirs = Proposal { id: ServerId(peer), ..own.clone() };
        let message = Propose { round: round(1, 0), own: theirs, choice: own.clone(), demoted: BTreeSet::new() };
        server.receive(peer, Message::Propose(message));
    }
    assert_eq!(server.leader(), Some(3), "the ensemble always comes up");
}

#[test]
fn only_the_very_first_election_waits_for_a_score() {
    let mut server = TestServer::started(1, 3, 10);
    server.host.score = None;
    server.start(Cause::Retry);
    assert_eq!((server.armed(Timer::Score), server.receivers()), (None, vec![2, 3]));
}

#[test]
fn votes_may_name_an_incumbent_while_we_wait_for_a_score() {
    let mut server = TestServer::new(3, 3, 10);
    server.host.score = None;
    server.start(Cause::Start);
    server.receive(1, vote(round(9, 0), (2, 20), Some(7)));
    server.receive(2, vote(round(9, 0), (2, 20), Some(7)));
    assert_eq!(server.leader(), Some(2));
}

#[test]
fn an_invalid_score_ranks_unknown_is_reported_once_and_its_sender_still_counts() {
    // Scenario 27.
    let mut server = TestServer::started(1, 3, 10);
    server.receive_proposal(2, -5, (2, -5));
    let reported =
        server.out.iter().filter(|output| matches!(output, Output::Invalid { from: ServerId(2), .. })).count();
    assert_eq!((reported, server.choice()), (1, 1));
    server.receive_proposal(3, 30, (1, 10));
    assert_eq!(server.leader(), Some(1), "2 has proposed, we and 3 hold the choice");
}

#[test]
fn an_empty_score_or_one_of_too_many_components_is_invalid() {
    for components in [vec![], vec![0; Score::COMPONENTS_MAX + 1]] {
        let mut server = TestServer::started(1, 3, 10);
        let own = Proposal { rank: Rank::Known(Score::new(components)), ..proposal(2, 0) };
        let message = Propose { round: round(1, 0), own: own.clone(), choice: own, demoted: BTreeSet::new() };
        server.receive(2, Message::Propose(message));
        assert_eq!(server.choice(), 1);
        assert!(server.out.iter().any(|output| matches!(output, Output::Invalid { .. })));
    }
}

#[test]
fn our_own_invalid_score_is_proposed_as_unknown() {
    let server = TestServer::started(1, 3, -1);
    assert_eq!(server.election.choice().expect("a choice").rank, Rank::Unknown);
    assert!(server.out.iter().any(|output| matches!(output, Output::Invalid { from: ServerId(1), .. })));
}

#[test]
fn a_restarted_server_may_score_itself_anew_in_the_same_round() {
    // Scenario 30: the latest own proposal of a server replaces the older one; among choices the order still decides.
    let mut server = TestServer::started(1, 3, 10);
    server.receive_proposal(2, 5, (2, 5));
    assert_eq!(server.choice(), 2);
    server.receive_proposal(2, 20, (2, 20));
    assert_eq!((server.choice(), server.receivers()), (2, vec![2]), "it is reminded of its better score");
    server.demote(2);
    server.receive_proposal(3, 15, (3, 15));
    assert_eq!(server.choice(), 1);
}

#[test]
fn voters_with_three_different_fingerprints_still_agree() {
    // Scenario 45.
    let mut server = TestServer::new(1, 3, 1);
    server.host.fingerprint = 10;
    server.start(Cause::Start);
    for (peer, fingerprint) in [(2, 30), (3, 20)] {
        let own = Proposal { fingerprint, ..proposal(peer, 99) };
        let choice = Proposal { fingerprint: 30, ..proposal(2, 99) };
        let message = Propose { round: round(1, 0), own, choice, demoted: BTreeSet::new() };
        server.receive(peer, Message::Propose(message));
    }
    assert_eq!(server.leader(), Some(2));
}

// the service

#[test]
fn a_hand_over_makes_a_leader_without_an_election_and_cancels_one_that_runs() {
    let mut server = TestServer::started(1, 3, 10);
    server.election.adopt(round(6, 0), proposal(3, 5));
    assert_eq!(
        (server.leader(), server.election.is_electing(), server.election.round()),
        (Some(3), false, round(6, 0))
    );
    server.expire(Timer::Retry);
    assert_eq!(server.out, []);
}

#[test]
fn the_elected_leader_learns_the_standings_of_those_who_hold_its_choice() {
    let mut server = TestServer::started(1, 5, 10);
    server.host.standing.accepted_epoch = Epoch(4);
    for (peer, choice) in [(2, (1, 10)), (3, (3, 30)), (4, (1, 10)), (5, (5, 50))] {
        server.receive_proposal(peer, i64::try_from(peer).expect("small") * 10, choice);
    }
    let elected = server.elected();
    assert_eq!(elected.standings.keys().map(|id| id.0).collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!(elected.standings[&ServerId(1)].accepted_epoch, Epoch(4));
}

#[test]
fn a_link_that_opens_gets_our_proposal_while_we_elect() {
    let mut server = TestServer::started(1, 3, 10);
    server.out.clear();
    server.election.propose_to(ServerId(2), &mut server.out);
    assert_eq!(server.receivers(), [2]);
    let mut server = elected_first();
    server.out.clear();
    server.election.propose_to(ServerId(2), &mut server.out);
    assert_eq!(server.receivers(), []);
}

// bad and repeated messages

#[test]
fn a_message_that_is_out_of_bounds_is_refused_and_leaves_no_trace() {
    let many = Input { name: "x".into(), value: 0 };
    let long = Input { name: "x".repeat(INPUT_NAME_MAX + 1), value: 0 };
    let with = |inputs: Vec<Input>| {
        let own = Proposal { inputs, ..proposal(2, 1) };
        Message::Propose(Propose { round: round(1, 0), own, choice: proposal(2, 1), demoted: BTreeSet::new() })
    };
    let here = round(1, 0);
    let cases = [
        (9, propose(here, (9, 1), (9, 1), &[]), "no voter"),
        (1, propose(here, (1, 1), (1, 1), &[]), "which is this server"),
        (2, propose(here, (3, 1), (2, 1), &[]), "proposes server 3 as itself"),
        (2, propose(here, (2, 1), (9, 1), &[]), "proposes server 9"),
        (2, propose(here, (2, 1), (2, 1), &[3, 9]), "demotes server 9"),
        (2, propose(round(u64::MAX, 0), (2, 1), (2, 1), &[]), "round"),
        (2, vote(round(u64::MAX, 0), (2, 1), None), "round"),
        (2, vote(here, (9, 1), None), "proposes server 9"),
        (2, with(vec![many; INPUTS_MAX + 1]), "33 inputs"),
        (2, with(vec![long]), "49 bytes"),
    ];
    for (from, message, expected) in cases {
        let mut server = TestServer::started(1, 3, 10);
        let before = server.election.clone();
        let error = server.try_receive(from, message).expect_err(expected).to_string();
        assert!(error.contains(expected) && error.contains(&format!("server {from}")), "{error}");
        assert_eq!((server.election, server.out), (before, vec![]));
    }
}

#[test]
fn a_doubled_message_changes_nothing() {
    let mut server = TestServer::started(1, 5, 10);
    for message in [propose(round(1, 0), (2, 20), (3, 5), &[4]), vote(round(1, 0), (3, 5), None)] {
        server.receive(2, message.clone());
        let once = server.election.clone();
        server.receive(2, message);
        assert_eq!(server.election, once);
        assert_eq!(server.receivers(), []);
    }
}

#[test]
fn too_many_inputs_of_our_own_are_cut_to_what_peers_accept() {
    let mut server = TestServer::new(1, 3, 10);
    server.host.inputs = vec![Input { name: "é".repeat(40), value: 1 }; 99];
    server.start(Cause::Start);
    let message = server.sent()[0].1.clone();
    TestServer::started(2, 3, 20).receive(1, message);
}

#[test]
fn two_servers_in_the_same_state_are_equal_however_they_came_there() {
    // Otherwise a model checker would treat every path as a new state.
    let (mut a, mut b) = (TestServer::started(1, 5, 10), TestServer::started(1, 5, 10));
    a.receive_proposal(2, 20, (2, 20));
    a.receive_proposal(3, 30, (3, 30));
    b.receive_proposal(3, 30, (3, 30));
    b.receive_proposal(2, 20, (2, 20));
    assert_eq!(a.election, b.election);
    let hash = |election: &Election| {
        let mut hasher = DefaultHasher::new();
        election.hash(&mut hasher);
        hasher.finish()
    };
    assert_eq!(hash(&a.election), hash(&b.election));
}

#[test]
fn before_the_first_start_nothing_happens() {
    let mut server = TestServer::new(1, 3, 10);
    server.receive_proposal(2, 20, (2, 20));
    server.receive(2, vote(round(1, 0), (2, 20), Some(1)));
    server.link_down(3);
    server.expire(Timer::Retry);
    assert_eq!((server.out.len(), server.leader(), server.election.is_electing()), (0, None, false));
}

/// Server 1 of 3, which has elected itself in round 1.
fn elected_first() -> TestServer {
    elected(TestServer::started(1, 3, 10), 1)
}

/// Lets server 1 of 3 elect `leader` in its round.
fn elected(mut server: TestServer, leader: u64) -> TestServer {
    let winner = if leader == 1 { (1, 10) } else { (leader, 1) };
    for peer in [2, 3] {
        let own = if peer == leader { 1 } else { 99 };
        if server.leader().is_none() {
            server.receive_proposal(peer, own, winner);
        }
    }
    assert_eq!(server.leader(), Some(leader));
    server
}
