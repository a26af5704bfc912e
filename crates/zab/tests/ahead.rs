//! Promises that are made before the leader asks for them.

use pole_election::Round;
use pole_types::{Epoch, ServerId, Voters, Zxid};
use pole_zab::{Epochs, Hello, Limits, Message, Output, Phase, Promise, Recovered, Ticket, Zab};

const ROUND: Round = Round { epoch: 1, failed: 0 };
const ME: ServerId = ServerId(1);

fn hello(accepted_epoch: u32) -> Message {
    Message::Hello(Hello { round: ROUND, accepted_epoch: Epoch(accepted_epoch), taking_over: None })
}

/// The promise of a server that has adopted epoch 1 and has no transaction.
fn promise(epoch: u32, ahead: bool) -> Message {
    let (current_epoch, last_zxid, epochs) = (Epoch(1), Zxid::ZERO, Epochs::starting_at(Zxid::ZERO));
    let epoch = Epoch(epoch);
    Message::AckEpoch(Promise { epoch, fresh: true, current_epoch, last_zxid, epochs, blank: false, ahead })
}

/// Server 1 of five, which has adopted epoch 1.
fn server() -> Zab {
    let disk = Recovered { accepted_epoch: Epoch(1), current_epoch: Epoch(1), snapshot: None, entries: Vec::new() };
    let mut zab = Zab::new(ME, Voters::new((1..=5).map(ServerId)), Limits::default(), disk);
    (2..=5).for_each(|peer| zab.link_up(ServerId(peer), &mut Vec::new()));
    zab
}

fn deliver(zab: &mut Zab, from: u64, message: Message) -> Vec<Output> {
    let mut out = Vec::new();
    zab.receive(ServerId(from), message, &mut out).expect("a good message");
    zab.written(Ticket(u64::MAX), &mut out);
    zab.assert_invariants();
    out
}

fn sends(out: &[Output], wanted: impl Fn(&Message) -> bool) -> usize {
    out.iter().filter(|output| matches!(output, Output::Send { message, .. } if wanted(message))).count()
}

#[test]
fn a_promise_of_the_opened_epoch_counts_and_followers_are_synchronised_at_once() {
    let mut zab = server();
    // They have elected this server before it knows of that.
    for follower in [2, 3] {
        deliver(&mut zab, follower, hello(1));
        deliver(&mut zab, follower, promise(2, true));
    }
    let mut out = Vec::new();
    zab.lead(ROUND, [2, 3].map(|id| (ServerId(id), Epoch(1))), &mut out);
    zab.written(Ticket(u64::MAX), &mut out);
    assert_eq!(sends(&out, |message| matches!(message, Message::NewLeader { epoch: Epoch(2), .. })), 2, "{out:?}");
    assert_eq!(zab.standing().current_epoch, Epoch(1), "nobody has answered it");
    deliver(&mut zab, 2, promise(2, false));
    assert_eq!((zab.phase(), zab.standing().current_epoch), (Phase::Promising, Epoch(1)), "two of five hear it");
    deliver(&mut zab, 3, promise(2, false));
    assert_eq!((zab.phase(), zab.standing().current_epoch), (Phase::Synchronising, Epoch(2)));
}

#[test]
fn a_promise_of_another_epoch_than_the_opened_one_does_not_count() {
    let mut zab = server();
    zab.lead(ROUND, [], &mut Vec::new());
    deliver(&mut zab, 2, hello(1));
    deliver(&mut zab, 2, promise(2, true));
    // Server 3 has promised epoch 2 to another candidate, so epoch 3 is opened.
    let out = deliver(&mut zab, 3, hello(2));
    assert_eq!(sends(&out, |message| matches!(message, Message::NewEpoch { epoch: Epoch(3) })), 2, "{out:?}");
    let is_new_leader = |message: &Message| matches!(message, Message::NewLeader { .. });
    let out = deliver(&mut zab, 3, promise(3, false));
    assert_eq!(sends(&out, is_new_leader), 0, "1 and 3 have promised, of five");
    let out = deliver(&mut zab, 2, promise(3, false));
    assert_eq!((sends(&out, is_new_leader), zab.phase()), (2, Phase::Synchronising));
}

#[test]
fn a_follower_promises_the_expected_epoch_once_and_answers_the_request_for_it() {
    let mut zab = server();
    let mut out = Vec::new();
    zab.follow(ServerId(2), ROUND, [(ME, Epoch(1)), (ServerId(2), Epoch(4))], &mut out);
    zab.written(Ticket(u64::MAX), &mut out);
    let ahead = |message: &Message| matches!(message, Message::AckEpoch(promise) if promise.ahead && promise.fresh);
    assert_eq!((sends(&out, ahead), zab.standing().accepted_epoch, zab.phase()), (1, Epoch(5), Phase::Greeting));
    let out = deliver(&mut zab, 2, Message::NewEpoch { epoch: Epoch(5) });
    let asked = |message: &Message| matches!(message, Message::AckEpoch(promise) if !promise.ahead && promise.fresh);
    assert_eq!((sends(&out, asked), zab.phase()), (1, Phase::Promised));
    // Another candidate gets what was promised before, and it does not count there.
    zab.follow(ServerId(3), ROUND, [], &mut Vec::new());
    let out = deliver(&mut zab, 3, Message::NewEpoch { epoch: Epoch(5) });
    assert_eq!(sends(&out, |message| matches!(message, Message::AckEpoch(promise) if !promise.fresh)), 1, "{out:?}");
}
