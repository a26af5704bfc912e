//! Invalid messages of a peer cause an error that names the peer, or have no effect; the server keeps running.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use pole_election::{Proposal, Propose, Rank, Round, Standing};
use pole_oracle::Spec;
use pole_types::{Cxid, Epoch, ServerId, SessionId, Time, Voters, Zxid};
use pole_zab::{Body, Entry, Message as Zab, Origin, Phase, Recovered, Ticket};

use crate::{
    Channel, ClientId, Config, Effect, Event, Machine, MayChange, Message, Node, Note, Outcome, ReadResult, Request,
};

const LEADER: ServerId = ServerId(3);

/// A state machine without a state.
struct EmptyMachine;

impl Machine for EmptyMachine {
    fn prepare(&mut self, _: Zxid, request: &Request, _: i64, _: MayChange<'_>) -> Option<Bytes> {
        Some(request.body.clone())
    }

    fn forget_prepared(&mut self) {}

    fn apply(&mut self, _: &Entry, _: bool) -> Result<Outcome, String> {
        Ok(Outcome::default())
    }

    fn read(&mut self, _: ClientId, _: SessionId, _: &Bytes) -> ReadResult {
        ReadResult::default()
    }

    fn snapshot(&self) -> Body {
        Bytes::new().into()
    }

    fn restore(&mut self, _: Zxid, _: &Bytes) -> Result<(), String> {
        Ok(())
    }

    fn digest(&self) -> u64 {
        0
    }
}

/// Server 1 of three, linked to the others, just after it chose its leader.
fn following() -> Node<EmptyMachine> {
    let config = Config::new(ServerId(1), Voters::new([1, 2, 3].map(ServerId)));
    let oracle = Spec::parse("latency").and_then(|spec| spec.build()).expect("a known oracle");
    let mut node = Node::new(config, oracle, EmptyMachine, Recovered::blank(), Time(0));
    step(&mut node, Event::Start);
    for peer in [2, 3].map(ServerId) {
        step(&mut node, Event::LinkUp { peer, channel: Channel::Election });
        step(&mut node, Event::LinkUp { peer, channel: Channel::Quorum });
    }
    node.with_zab(|zab, outputs| zab.follow(LEADER, Round::default(), [], outputs));
    node
}

/// Feeds an event, and completes all writes that it causes.
fn step(node: &mut Node<EmptyMachine>, event: Event) -> Vec<Effect> {
    let mut effects = Vec::new();
    node.step(event, Time(1), &mut effects);
    node.step(Event::Written { through: Ticket(u64::MAX) }, Time(1), &mut effects);
    effects
}

fn receive(node: &mut Node<EmptyMachine>, message: Message) -> Vec<Effect> {
    let channel = if matches!(message, Message::Heartbeat { .. }) { Channel::Election } else { Channel::Quorum };
    step(node, Event::Received { from: LEADER, channel, message })
}

#[test]
fn the_highest_epoch_in_a_report_does_not_overflow() {
    for promised in [false, true] {
        let mut node = following();
        if promised {
            receive(&mut node, Message::Zab(Zab::NewEpoch { epoch: Epoch(1) }));
        }
        let mut report = node.scoring.report(Time(1), node.zab.standing(), 1);
        report.standing.current_epoch = Epoch(u32::MAX);
        receive(&mut node, Message::Heartbeat { seq: 1, members: Zxid::ZERO, report: Box::new(report) });
        assert_eq!(
            node.zab.phase(),
            if promised { Phase::Promised } else { Phase::Greeting },
            "one server is no quorum"
        );
    }
}

#[test]
fn a_leader_that_answers_a_connection_out_of_order_is_abandoned_and_the_connection_closed() {
    let mut node = following();
    let (epoch, zero) = (Epoch(1), Zxid::ZERO);
    for message in
        [Zab::NewEpoch { epoch }, Zab::NewLeader { epoch, last: zero }, Zab::UpToDate { epoch, committed: zero }]
    {
        receive(&mut node, Message::Zab(message));
    }
    let (client, session) = (ClientId(1), SessionId(7));
    let forwarded = step(&mut node, Event::Attach { client, session, body: Bytes::new() });
    let attachment = forwarded.iter().find_map(|effect| {
        let Effect::Send { message: Message::Forward { requests, .. }, .. } = effect else { return None };
        Some(requests[0].origin)
    });
    let propose = |counter, origin, committed| {
        let entry = Entry { zxid: Zxid::new(epoch, counter), origin, body: Bytes::new() };
        let prev = if counter == 1 { zero } else { Zxid::new(epoch, counter - 1) };
        Message::Zab(Zab::Propose { epoch, prev, entries: Vec::from([entry]), committed, listeners: Vec::new() })
    };
    receive(&mut node, propose(1, attachment.expect("it is forwarded"), zero));
    receive(&mut node, Message::Zab(Zab::Commit { epoch, zxid: Zxid::new(epoch, 1) }));
    for cxid in [1, 2].map(Cxid) {
        step(&mut node, Event::Request { client, cxid, body: Bytes::new() });
    }
    let effects = receive(&mut node, propose(2, Origin { session, cxid: Cxid(2) }, Zxid::new(epoch, 1)));
    let is = |wanted: fn(&Effect) -> bool| effects.iter().any(wanted);
    assert!(is(|effect| matches!(effect, Effect::Close { client: ClientId(1), .. })), "{effects:?}");
    assert!(is(|effect| matches!(effect, Effect::Note(Note::OutOfOrder { .. }))), "{effects:?}");
    assert!(is(|effect| matches!(effect, Effect::Note(Note::BadPeer { from: LEADER, .. }))), "{effects:?}");
    assert!(is(|effect| matches!(effect, Effect::Reset { peer: LEADER, channel: Channel::Quorum })), "{effects:?}");
    assert_eq!(node.zab.phase(), Phase::Looking);
}

#[test]
fn nothing_is_kept_of_strangers_that_propose_under_ever_new_ids() {
    let mut config = Config::new(ServerId(1), Voters::new([ServerId(1)]));
    config.limits.joiners = true;
    let oracle = Spec::parse("history").and_then(|spec| spec.build()).expect("a known oracle");
    let mut node = Node::new(config, oracle, EmptyMachine, Recovered::blank(), Time(0));
    step(&mut node, Event::Start);
    while node.serving().is_none() {
        let effects = step(&mut node, Event::Continue);
        assert!(!effects.is_empty() || node.serving().is_some(), "a single server serves");
    }
    for stranger in (100..1_100).map(ServerId) {
        let own = Proposal {
            id: stranger,
            rank: Rank::Unknown,
            version: Zxid::ZERO,
            fingerprint: 0,
            standing: Standing::default(),
            inputs: Vec::new(),
        };
        let propose = Propose { round: Round::default(), choice: own.clone(), own, demoted: [].into() };
        let message = Message::Election(pole_election::Message::Propose(propose));
        let effects = step(&mut node, Event::Received { from: stranger, channel: Channel::Election, message });
        let probes =
            effects.iter().filter(|effect| matches!(effect, Effect::Send { message: Message::Heartbeat { .. }, .. }));
        assert_eq!(probes.count(), 0, "{stranger}");
    }
    assert!(node.probed_seekers.is_empty());
}
