//! Direct acknowledgements: what a follower that listens for them may conclude.

use bytes::Bytes;
use pole_types::{Epoch, ServerId, Voters, Zxid};
use pole_zab::{
    Entry, Epochs, Hello, Limits, Message, Origin, Output, Phase, Recovered, Round, SnapshotPart, Ticket, Zab,
};

const EPOCH: Epoch = Epoch(1);
const ME: ServerId = ServerId(3);
const LEADER: ServerId = ServerId(1);

/// Server 3 of five, serving under server 1.
struct Follower {
    zab: Zab,
    written: Ticket,
}

impl Follower {
    /// Linked to all, and following server 1.
    fn greeting() -> Self {
        let zab = Zab::new(ME, Voters::new((1..=5).map(ServerId)), Limits::default(), Recovered::blank());
        let mut follower = Self { zab, written: Ticket(0) };
        follower.act(|zab, out| (1..=5).map(ServerId).filter(|id| *id != ME).for_each(|id| zab.link_up(id, out)));
        follower.act(|zab, out| zab.follow(LEADER, Round { epoch: 1, failed: 0 }, [], out));
        follower
    }

    fn serving() -> Self {
        let mut follower = Self::greeting();
        follower.receive(LEADER, Message::NewEpoch { epoch: EPOCH });
        follower.write();
        follower.receive(LEADER, Message::NewLeader { epoch: EPOCH, last: Zxid::ZERO });
        follower.write();
        follower.receive(LEADER, Message::UpToDate { epoch: EPOCH, committed: Zxid::ZERO });
        assert_eq!(follower.zab.phase(), Phase::Serving);
        follower
    }

    fn act(&mut self, call: impl FnOnce(&mut Zab, &mut Vec<Output>)) -> Vec<Output> {
        let mut out = Vec::new();
        call(&mut self.zab, &mut out);
        for output in &out {
            if let Output::Write { ticket, .. } = output {
                self.written = *ticket;
            }
        }
        self.zab.assert_invariants();
        out
    }

    fn receive(&mut self, from: ServerId, message: Message) -> Vec<Output> {
        self.act(|zab, out| zab.receive(from, message, out).expect("a valid message"))
    }

    /// Everything under way becomes durable.
    fn write(&mut self) -> Vec<Output> {
        let written = self.written;
        self.act(|zab, out| zab.written(written, out))
    }

    fn propose(&mut self, counter: u32, listeners: &[u64]) -> Vec<Output> {
        let entry = Entry { zxid: zxid(counter), origin: Origin::default(), body: Bytes::from_static(b"x") };
        let prev = if counter == 1 { Zxid::ZERO } else { zxid(counter - 1) };
        let listeners = listeners.iter().copied().map(ServerId).collect();
        let committed = Zxid::ZERO;
        self.receive(LEADER, Message::Propose { epoch: EPOCH, prev, entries: vec![entry], committed, listeners })
    }

    fn acknowledged(&mut self, by: u64, epoch: Epoch, zxid: Zxid) -> Vec<Output> {
        self.receive(ServerId(by), Message::Ack { epoch, zxid, server: ServerId(by) })
    }
}

fn zxid(counter: u32) -> Zxid {
    Zxid::new(EPOCH, counter)
}

#[test]
fn a_listener_commits_what_a_quorum_has_acknowledged_to_it() {
    let mut follower = Follower::serving();
    follower.propose(1, &[3]);
    follower.write();
    follower.acknowledged(1, EPOCH, zxid(1));
    assert_eq!(follower.zab.committed(), Zxid::ZERO, "two of five");
    let out = follower.acknowledged(4, EPOCH, zxid(1));
    assert_eq!(follower.zab.committed(), zxid(1));
    assert!(out.contains(&Output::CommittedDirectly) && out.contains(&Output::Ready(zxid(1))), "{out:?}");
}

#[test]
fn acknowledgements_may_arrive_before_the_proposal_and_its_own_disk_counts_when_it_has_it() {
    let mut follower = Follower::serving();
    follower.acknowledged(1, EPOCH, zxid(1));
    follower.acknowledged(4, EPOCH, zxid(1));
    follower.propose(1, &[3]);
    assert_eq!(follower.zab.committed(), Zxid::ZERO, "its own disk is the third");
    follower.write();
    assert_eq!((follower.zab.committed(), follower.zab.ready()), (zxid(1), zxid(1)));
}

#[test]
fn what_is_committed_is_applied_only_when_it_is_durable_here() {
    let mut follower = Follower::serving();
    follower.propose(1, &[3]);
    [1, 4, 5].into_iter().for_each(|by| drop(follower.acknowledged(by, EPOCH, zxid(1))));
    assert_eq!((follower.zab.committed(), follower.zab.ready()), (zxid(1), Zxid::ZERO));
    follower.write();
    assert_eq!(follower.zab.ready(), zxid(1));
}

#[test]
fn acknowledgements_of_another_epoch_prove_nothing() {
    let mut follower = Follower::serving();
    follower.propose(1, &[3]);
    follower.write();
    // Servers that have joined a later epoch may have truncated what they lack in it.
    [1, 4, 5].into_iter().for_each(|by| drop(follower.acknowledged(by, Epoch(2), Zxid::new(Epoch(2), 9))));
    [1, 4, 5].into_iter().for_each(|by| drop(follower.acknowledged(by, Epoch(0), Zxid::ZERO)));
    assert_eq!(follower.zab.committed(), Zxid::ZERO);
}

#[test]
fn a_server_that_starts_over_acknowledges_anew() {
    let mut follower = Follower::serving();
    follower.propose(1, &[3]);
    follower.acknowledged(4, EPOCH, zxid(1));
    follower.act(|zab, out| zab.link_down(ServerId(4), out));
    follower.write();
    follower.acknowledged(1, EPOCH, zxid(1));
    assert_eq!(follower.zab.committed(), Zxid::ZERO, "4 may have lost its disk");
}

#[test]
fn listeners_are_told_what_is_durable_and_nobody_else_is() {
    let mut follower = Follower::serving();
    let told = |out: &[Output]| -> Vec<(u64, Zxid)> {
        let ack = |output: &Output| {
            let Output::Send { to, message: Message::Ack { zxid, .. } } = output else { return None };
            Some((to.0, *zxid))
        };
        out.iter().filter_map(ack).collect()
    };
    assert!(told(&follower.propose(1, &[2, 3])).is_empty(), "not before it is durable");
    assert_eq!(told(&follower.write()), [(1, zxid(1)), (2, zxid(1))]);
    follower.propose(2, &[]);
    assert_eq!(told(&follower.write()), [(1, zxid(2))]);
    follower.propose(3, &[4]);
    follower.propose(4, &[5]);
    assert_eq!(told(&follower.write()), [(1, zxid(4)), (4, zxid(4)), (5, zxid(4))]);
    follower.act(|zab, out| zab.link_down(ServerId(5), out));
    follower.propose(5, &[5]);
    assert_eq!(told(&follower.write()), [(1, zxid(5))], "its link is closed");
}

#[test]
fn what_became_durable_while_the_state_was_restored_is_acknowledged_behind_the_history() {
    let mut follower = Follower::greeting();
    let (epoch, last) = (Epoch(2), zxid(7));
    follower.receive(LEADER, Message::NewEpoch { epoch });
    follower.write();
    let epochs = Epochs::starting_at(last);
    let part = SnapshotPart { zxid: last, epochs, offset: 0, last: true, body: Bytes::from_static(b"state") };
    follower.receive(LEADER, Message::Snapshot(part));
    let installed = follower.write();
    let installed = if installed.is_empty() { follower.write() } else { installed };
    let restore = |output: &Output| if let Output::Restore { ticket, .. } = output { Some(*ticket) } else { None };
    let ticket = installed.iter().find_map(restore).expect("the snapshot is installed");
    follower.receive(LEADER, Message::NewLeader { epoch, last });
    let next = Zxid::new(epoch, 1);
    let entries = vec![Entry { zxid: next, origin: Origin::default(), body: Bytes::from_static(b"x") }];
    let listeners = vec![ServerId(4)];
    follower.receive(LEADER, Message::Propose { epoch, prev: last, entries, committed: last, listeners });
    follower.write();
    let out = follower.act(|zab, out| assert_eq!(zab.restored(ticket, None, out), Some(last)));
    let ack = |to: u64| Output::Send { to: ServerId(to), message: Message::Ack { epoch, zxid: next, server: ME } };
    let ack_leader = Output::Send { to: LEADER, message: Message::AckLeader { epoch, last } };
    let at = |wanted: Output| out.iter().position(|output| *output == wanted);
    assert!(at(ack_leader.clone()).is_some() && at(ack_leader) < at(ack(1)), "{out:?}");
    assert!(at(ack(4)).is_some(), "a listener is told as well: {out:?}");
}

#[test]
fn a_leader_tells_listeners_when_its_own_disk_has_the_proposal() {
    let mut leader = Zab::new(LEADER, Voters::new((1..=3).map(ServerId)), Limits::default(), Recovered::blank());
    let mut out = Vec::new();
    leader.link_up(ServerId(2), &mut out);
    leader.link_up(ME, &mut out);
    leader.lead(Round { epoch: 1, failed: 0 }, [(ME, Epoch(0))], &mut out);
    let hello = Hello { round: Round { epoch: 1, failed: 0 }, accepted_epoch: Epoch(0), taking_over: None };
    let epochs = Epochs::starting_at(Zxid::ZERO);
    let (current_epoch, last_zxid) = (Epoch(0), Zxid::ZERO);
    let promise =
        pole_zab::Promise { epoch: EPOCH, fresh: true, current_epoch, last_zxid, epochs, blank: true, ahead: false };
    leader.receive(ME, Message::Hello(hello), &mut out).expect("valid");
    leader.written(Ticket(1), &mut out);
    leader.receive(ME, Message::AckEpoch(promise), &mut out).expect("valid");
    leader.written(Ticket(2), &mut out);
    leader.receive(ME, Message::AckLeader { epoch: EPOCH, last: Zxid::ZERO }, &mut out).expect("valid");
    assert_eq!(leader.phase(), Phase::Established);
    out.clear();
    leader.propose(vec![(Origin::default(), Bytes::from_static(b"x"))], vec![ME], &mut out);
    let is_ack = |output: &Output| matches!(output, Output::Send { message: Message::Ack { .. }, .. });
    assert!(!out.iter().any(is_ack), "a proposal is sent before it is written: {out:?}");
    leader.written(Ticket(3), &mut out);
    let ack = Message::Ack { epoch: EPOCH, zxid: zxid(1), server: LEADER };
    assert!(out.contains(&Output::Send { to: ME, message: ack }), "{out:?}");
}
