//! Who counts: observers in discovery, and the voters before and after a change.

use bytes::Bytes;
use pole_election::Round;
use pole_types::{Epoch, Membership, ServerId, Voters, Zxid};
use pole_zab::{
    Entry, Epochs, Hello, Limits, MembersOf, Message, Origin, Output, Phase, Promise, Recovered, Ticket, Zab,
};

const ROUND: Round = Round { epoch: 1, failed: 0 };
const ME: ServerId = ServerId(1);

fn voters(ids: &[u64]) -> Voters {
    Voters::new(ids.iter().copied().map(ServerId))
}

/// A transaction that names the new voters, a byte each; any other text is none.
const MEMBERS_OF: MembersOf = MembersOf(|body| {
    let ids = body.strip_prefix(b"voters")?;
    Some(Voters::new(ids.iter().map(|id| ServerId(u64::from(id - b'0')))).into())
});

fn entry(counter: u32, body: &'static [u8]) -> Entry {
    Entry { zxid: Zxid::new(Epoch(1), counter), origin: Origin::default(), body: Bytes::from_static(body) }
}

/// Server 1 of voters 1, 2 and 3, with these entries of epoch 1 on its disk.
fn server(entries: Vec<Entry>, limits: Limits) -> Zab {
    let disk = Recovered { accepted_epoch: Epoch(1), current_epoch: Epoch(1), snapshot: None, entries };
    Zab::new_changing(ME, (voters(&[1, 2, 3]).into(), Zxid::ZERO), MEMBERS_OF, limits, disk)
}

fn deliver(zab: &mut Zab, from: u64, message: Message) -> Vec<Output> {
    let mut out = Vec::new();
    zab.receive(ServerId(from), message, &mut out).expect("a good message");
    zab.written(Ticket(u64::MAX), &mut out);
    zab.assert_invariants();
    out
}

fn lead(zab: &mut Zab, peers: &[u64]) {
    let mut out = Vec::new();
    peers.iter().for_each(|peer| zab.link_up(ServerId(*peer), &mut out));
    zab.lead(ROUND, [2, 3].map(|id| (ServerId(id), Epoch(1))), &mut out);
    zab.written(Ticket(u64::MAX), &mut out);
    for peer in peers {
        let hello = Hello { round: ROUND, accepted_epoch: Epoch(1), taking_over: None };
        deliver(zab, *peer, Message::Hello(hello));
    }
}

/// The promise of a server whose log ends at this entry of epoch 1.
fn promise(counter: u32) -> Message {
    let last_zxid = Zxid::new(Epoch(1), counter);
    let mut epochs = Epochs::starting_at(Zxid::ZERO);
    (1..=counter).for_each(|counter| epochs.push(Zxid::new(Epoch(1), counter)));
    let (epoch, current_epoch) = (Epoch(2), Epoch(1));
    Message::AckEpoch(Promise { epoch, fresh: true, current_epoch, last_zxid, epochs, blank: false, ahead: false })
}

fn pulls(out: &[Output]) -> Vec<u64> {
    let pull = |output: &Output| {
        if let Output::Send { to, message: Message::Pull { .. } } = output { Some(to.0) } else { None }
    };
    out.iter().filter_map(pull).collect()
}

#[test]
fn the_history_of_an_observer_is_not_chosen_even_if_it_promises_first() {
    let members = Membership::new(voters(&[1, 2, 3]), [ServerId(4)]);
    let entries = vec![entry(1, b"a")];
    let disk = Recovered { accepted_epoch: Epoch(1), current_epoch: Epoch(1), snapshot: None, entries };
    let mut zab = Zab::new(ME, members, Limits::default(), disk);
    lead(&mut zab, &[2, 4]);
    assert_eq!(pulls(&deliver(&mut zab, 4, promise(3))), [0; 0]);
    assert_eq!(zab.phase(), Phase::Promising, "the observer does not count");
    assert_eq!(pulls(&deliver(&mut zab, 2, promise(1))), [0; 0]);
    assert_eq!(zab.phase(), Phase::Synchronising, "our own history is the best of the voters");
}

#[test]
fn a_change_at_the_end_of_a_log_needs_both_sets_of_voters() {
    let zab = server(vec![entry(1, b"a"), entry(2, b"voters145")], Limits::default());
    assert!(zab.is_changing_members());
    assert!(!zab.members().voters().is_quorum([1, 2].map(ServerId)), "a quorum before the change alone");
    assert!(!zab.members().voters().is_quorum([4, 5].map(ServerId)), "a quorum after it alone");
    assert!(zab.members().voters().is_quorum([1, 2, 4].map(ServerId)));
}

#[test]
fn an_entry_behind_a_change_proves_that_it_is_committed() {
    let zab = server(vec![entry(1, b"voters145"), entry(2, b"a")], Limits::default());
    assert!(!zab.is_changing_members());
    assert_eq!((zab.members(), zab.members_version()), (&voters(&[1, 4, 5]).into(), Zxid::new(Epoch(1), 1)));
}

#[test]
fn a_leader_that_pulls_a_change_waits_for_promises_of_the_new_voters_and_may_find_more() {
    let mut zab = server(vec![entry(1, b"a")], Limits { joiners: true, ..Limits::default() });
    lead(&mut zab, &[2, 4, 5]);
    assert_eq!(pulls(&deliver(&mut zab, 2, promise(2))), [2], "server 2 has more");
    deliver(&mut zab, 2, Message::Entries { prev: Zxid::new(Epoch(1), 1), entries: vec![entry(2, b"voters145")] });
    deliver(&mut zab, 2, Message::PullEnd { last: Zxid::new(Epoch(1), 2) });
    assert_eq!(zab.phase(), Phase::Promising, "1 and 2 are no quorum of 1, 4 and 5");
    assert_eq!(pulls(&deliver(&mut zab, 4, promise(3))), [4], "the new voters went on without 2 and 3");
}

#[test]
fn a_wiped_server_that_hears_of_an_old_change_does_not_lead_alone() {
    // It was the only voter once. Since then others were added, and went on without it.
    let lead = |mut zab: Zab| {
        let mut out = Vec::new();
        zab.lead(ROUND, [], &mut out);
        (1..4).for_each(|ticket| zab.written(Ticket(ticket), &mut out));
        zab.phase()
    };
    let blank = |ids: &[u64]| Zab::new(ME, voters(ids), Limits::default(), Recovered::blank());
    let mut wiped = blank(&[1, 2, 3]);
    wiped.learn_members(voters(&[1]).into(), Zxid::new(Epoch(24), 18), &mut Vec::new());
    assert_eq!(lead(wiped), Phase::Promising);
    assert_eq!(lead(blank(&[1])), Phase::Established, "a new ensemble of one");
}

#[test]
fn a_change_that_is_truncated_is_undone() {
    let mut zab = server(vec![entry(1, b"a"), entry(2, b"voters145")], Limits::default());
    let mut out = Vec::new();
    zab.link_up(ServerId(2), &mut out);
    zab.follow(ServerId(2), ROUND, [], &mut out);
    deliver(&mut zab, 2, Message::NewEpoch { epoch: Epoch(2) });
    let out = deliver(&mut zab, 2, Message::Truncate { to: Zxid::new(Epoch(1), 1) });
    let undone = Output::Members { members: voters(&[1, 2, 3]).into(), version: Zxid::ZERO };
    assert!(out.contains(&undone), "{out:?}");
}

#[test]
fn what_others_know_to_be_committed_replaces_what_is_not_and_never_goes_back() {
    let mut zab = server(vec![entry(1, b"a"), entry(2, b"voters145")], Limits::default());
    zab.learn_members(voters(&[4, 5, 6]).into(), Zxid::new(Epoch(3), 1), &mut Vec::new());
    assert_eq!(zab.members(), &voters(&[4, 5, 6]).into());
    zab.learn_members(voters(&[1, 2, 3]).into(), Zxid::new(Epoch(2), 9), &mut Vec::new());
    assert_eq!(zab.members(), &voters(&[4, 5, 6]).into(), "an older change");
}
