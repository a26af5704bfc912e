//! Whole ensembles over a perfect network: a smoke test of the composition. Faults are tested in the simulator.

use bytes::Bytes;
use pole_node::{
    Channel, ClientId, Config, Effect, Event, Machine, MayChange, Message, Node, Outcome, ReadResult, Request, Timer,
    TransferRefusal,
};
use pole_oracle::Spec;
use pole_types::{Cxid, Epoch, ServerId, SessionId, Span, Time, Voters, Zxid};
use pole_zab::{DiskOp, Entry, Recovered, Ticket};
use std::collections::{BTreeMap, VecDeque};

/// A machine that records what it applied.
#[derive(Default)]
struct RecordingMachine {
    applied: Vec<u8>,
    /// [`EXCLUSIVE`] was prepared and not yet applied.
    is_waiting: bool,
}

impl Machine for RecordingMachine {
    fn prepare(&mut self, _: Zxid, request: &Request, _: i64, _: MayChange<'_>) -> Option<Bytes> {
        assert!(!self.is_waiting, "it asked for time");
        self.is_waiting = request.body == EXCLUSIVE;
        Some(request.body.clone())
    }
    fn is_waiting(&self) -> bool {
        self.is_waiting
    }
    fn forget_prepared(&mut self) {
        self.is_waiting = false;
    }
    fn apply(&mut self, entry: &Entry, _: bool) -> Result<Outcome, String> {
        if entry.body == DAMAGED {
            return Err("no transaction".to_owned());
        }
        self.applied.extend_from_slice(&entry.body);
        self.is_waiting = false;
        let events = if entry.body == WATCHED { vec![(ClientId(0), Bytes::new()); 5_000] } else { Vec::new() };
        Ok(Outcome { reply: entry.body.clone(), events, ..Outcome::default() })
    }
    fn read(&mut self, _: ClientId, _: SessionId, _: &Bytes) -> ReadResult {
        ReadResult { events: Vec::new(), reply: Bytes::copy_from_slice(&self.applied) }
    }
    fn snapshot(&self) -> pole_zab::Body {
        Bytes::copy_from_slice(&self.applied).into()
    }
    fn restore(&mut self, _: Zxid, body: &Bytes) -> Result<(), String> {
        self.applied = body.to_vec();
        Ok(())
    }
    fn digest(&self) -> u64 {
        self.applied.len() as u64
    }
}

/// Servers, messages in flight and timers. Messages take no time.
struct Ensemble {
    nodes: BTreeMap<ServerId, Node<RecordingMachine>>,
    queue: VecDeque<(ServerId, Event)>,
    timers: BTreeMap<(ServerId, Timer), Time>,
    replies: Vec<(ClientId, Cxid, Bytes)>,
    attached: Vec<ClientId>,
    closed: Vec<ClientId>,
    refusals: Vec<(ServerId, TransferRefusal)>,
    halted: BTreeMap<ServerId, String>,
    /// A server that does not come to apply more than one batch.
    busy: Option<ServerId>,
    now: Time,
}

impl Ensemble {
    fn new(count: u64, oracle: &str) -> Self {
        let voters = Voters::new((1..=count).map(ServerId));
        let node = |id| {
            let config = Config::new(id, voters.clone());
            let oracle = Spec::parse(oracle).and_then(|spec| spec.build()).expect("a known oracle");
            (id, Node::new(config, oracle, RecordingMachine::default(), Recovered::blank(), Time(0)))
        };
        let mut ensemble = Self {
            nodes: voters.iter().map(node).collect(),
            queue: VecDeque::new(),
            timers: BTreeMap::new(),
            replies: Vec::new(),
            attached: Vec::new(),
            closed: Vec::new(),
            refusals: Vec::new(),
            halted: BTreeMap::new(),
            busy: None,
            now: Time(0),
        };
        for a in voters.iter() {
            ensemble.queue.push_back((a, Event::Start));
        }
        for a in voters.iter() {
            for peer in voters.peers(a) {
                for channel in [Channel::Election, Channel::Quorum] {
                    ensemble.queue.push_back((a, Event::LinkUp { peer, channel }));
                }
            }
        }
        ensemble
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            while let Some((id, event)) = self.queue.pop_front() {
                self.step(id, event);
            }
            match self.timers.iter().min_by_key(|(_, at)| **at).map(|(key, at)| (*key, *at)) {
                Some(((id, timer), at)) if at <= end => {
                    self.timers.remove(&(id, timer));
                    self.now = at;
                    self.queue.push_back((id, Event::Expired(timer)));
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn step(&mut self, id: ServerId, event: Event) {
        self.step_all(id, vec![event]);
    }

    fn step_all(&mut self, id: ServerId, events: Vec<Event>) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let mut effects = Vec::new();
        node.begin_turn();
        node.step_all(events, self.now, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send { to, channel, message } => {
                    self.queue.push_back((to, Event::Received { from: id, channel, message }));
                }
                Effect::Write { ticket, .. } => self.queue.push_back((id, Event::Written { through: ticket })),
                Effect::Arm { timer, after } => drop(self.timers.insert((id, timer), self.now + after)),
                Effect::Cancel(timer) => drop(self.timers.remove(&(id, timer))),
                Effect::Reset { peer, channel } => {
                    self.queue.retain(|(to, event)| !is_between(*to, event, id, peer, channel));
                    self.queue.push_back((peer, Event::LinkDown { peer: id, channel }));
                    self.queue.push_back((peer, Event::LinkUp { peer: id, channel }));
                    self.queue.push_back((id, Event::LinkUp { peer, channel }));
                }
                Effect::Reply { client, cxid, body, .. } => self.replies.push((client, cxid, body)),
                Effect::Attached { client, .. } => self.attached.push(client),
                Effect::Close { client, .. } => self.closed.push(client),
                Effect::Continue if self.busy == Some(id) => {}
                Effect::Continue => self.queue.push_back((id, Event::Continue)),
                Effect::OpenTransfer { .. }
                | Effect::NextPiece { .. }
                | Effect::ReadLog { .. }
                | Effect::CloseTransfer { .. }
                | Effect::Restore { .. } => unreachable!("no log is trimmed here, and no difference is long"),
                Effect::TransferRefused(refusal) => self.refusals.push((id, refusal)),
                Effect::Notify { .. } | Effect::Confirmed { .. } | Effect::Members { .. } => {}
                Effect::Note(note) => println!("{:>8} {id}: {note:?}", self.now.0 / 1000),
                Effect::Halt { reason } => drop(self.halted.insert(id, reason)),
            }
        }
    }

    fn kill(&mut self, id: ServerId) {
        self.nodes.remove(&id);
        self.timers.retain(|(owner, _), _| *owner != id);
        self.queue.retain(|(to, event)| *to != id && !matches!(event, Event::Received { from, .. } if *from == id));
        for peer in self.nodes.keys() {
            for channel in [Channel::Election, Channel::Quorum] {
                self.queue.push_back((*peer, Event::LinkDown { peer: id, channel }));
            }
        }
    }

    fn leader(&self) -> Option<ServerId> {
        let mut leaders: Vec<_> = self.nodes.values().map(|node| node.zab().leader()).collect();
        leaders.dedup();
        match leaders[..] {
            [leader] => leader,
            _ => None,
        }
    }

    fn write(&mut self, at: ServerId, client: u64, cxid: i32, body: &'static [u8]) {
        let event = Event::Request { client: ClientId(client), cxid: Cxid(cxid), body: Bytes::from_static(body) };
        self.queue.push_back((at, event));
    }

    fn attach(&mut self, at: ServerId, client: u64) {
        let (session, body) = (SessionId(client as i64), Bytes::new());
        self.queue.push_back((at, Event::Attach { client: ClientId(client), session, body }));
    }
}

/// A write that many clients watch.
const WATCHED: &[u8] = b"watched";

fn is_between(to: ServerId, event: &Event, a: ServerId, b: ServerId, on: Channel) -> bool {
    matches!(event, Event::Received { from, channel, .. }
        if *channel == on && ((to == a && *from == b) || (to == b && *from == a)))
}

#[test]
fn an_ensemble_elects_serves_and_survives_its_leader() {
    let mut ensemble = Ensemble::new(5, "history");
    ensemble.run(Span::from_ms(500));
    assert_eq!(ensemble.leader(), Some(ServerId(5)), "equal histories: the highest id");
    ensemble.attach(ServerId(1), 9);
    ensemble.run(Span::from_ms(10));
    assert_eq!(ensemble.attached, [ClientId(9)]);
    ensemble.write(ServerId(1), 9, 1, b"a");
    ensemble.run(Span::from_ms(10));
    ensemble.kill(ServerId(5));
    ensemble.write(ServerId(1), 9, 2, b"b");
    ensemble.run(Span::from_ms(10));
    assert_eq!(ensemble.leader(), Some(ServerId(4)));
    let expected = [(ClientId(9), Cxid(1), Bytes::from("a")), (ClientId(9), Cxid(2), Bytes::from("b"))];
    assert_eq!(ensemble.replies, expected, "each request answered once, across the leader change");
    assert!(ensemble.closed.is_empty(), "no client noticed");
    assert!(ensemble.nodes.values().all(|node| node.machine().applied == b"ab"));
    assert_eq!(ensemble.halted, BTreeMap::new());
}

#[test]
fn a_leader_hands_over_without_a_client_noticing() {
    let mut ensemble = Ensemble::new(3, "history");
    ensemble.run(Span::from_ms(1_500));
    ensemble.attach(ServerId(2), 9);
    ensemble.run(Span::from_ms(10));
    ensemble.write(ServerId(2), 9, 1, b"a");
    ensemble.queue.push_back((ServerId(3), Event::Transfer { to: Some(ServerId(1)) }));
    ensemble.write(ServerId(2), 9, 2, b"b");
    ensemble.run(Span::from_ms(10));
    assert_eq!(ensemble.leader(), Some(ServerId(1)));
    assert_eq!(ensemble.replies.len(), 2);
    assert!(ensemble.closed.is_empty());
}

#[test]
fn a_follower_forwards_a_request_for_another_leader() {
    let mut ensemble = Ensemble::new(3, "history");
    ensemble.run(Span::from_ms(1_500));
    assert_eq!(ensemble.leader(), Some(ServerId(3)));
    ensemble.queue.push_back((ServerId(1), Event::Transfer { to: Some(ServerId(1)) }));
    ensemble.run(Span::from_ms(10));
    assert_eq!(ensemble.leader(), Some(ServerId(1)));
    ensemble.queue.push_back((ServerId(2), Event::Transfer { to: None }));
    ensemble.run(Span::from_ms(10));
    assert_ne!(ensemble.leader(), Some(ServerId(1)), "another server, with the best score");
}

#[test]
fn a_refused_transfer_reaches_the_server_that_was_asked() {
    let mut ensemble = Ensemble::new(3, "history");
    ensemble.run(Span::from_ms(1_500));
    let leader = ensemble.leader().expect("a leader");
    ensemble.kill(ServerId(1));
    ensemble.run(Span::from_ms(1_500));
    for asked in [ServerId(2), leader] {
        ensemble.queue.push_back((asked, Event::Transfer { to: Some(ServerId(1)) }));
        ensemble.run(Span::from_ms(10));
        assert_eq!(ensemble.refusals.pop(), Some((asked, TransferRefusal::NotFollowing(ServerId(1)))));
    }
    assert_eq!((ensemble.leader(), ensemble.refusals.len()), (Some(leader), 0));
}

#[test]
fn a_transfer_requested_of_an_earlier_leader_is_ignored_by_a_later_one() {
    let mut ensemble = Ensemble::new(3, "history");
    ensemble.run(Span::from_ms(1_500));
    let epoch = ensemble.nodes[&ServerId(3)].zab().serving_epoch().expect("it serves");
    for (epoch, leader) in [(Epoch(epoch.0 - 1), ServerId(3)), (epoch, ServerId(1))] {
        let message = Message::TransferAsk { epoch, to: Some(ServerId(1)) };
        let event = Event::Received { from: ServerId(2), channel: Channel::Quorum, message };
        ensemble.queue.push_back((ServerId(3), event));
        ensemble.run(Span::from_ms(10));
        assert_eq!(ensemble.leader(), Some(leader));
    }
}

#[test]
fn a_session_attached_elsewhere_closes_its_older_connection() {
    let mut ensemble = Ensemble::new(3, "history");
    ensemble.run(Span::from_ms(500));
    for (server, client) in [(1, 9), (2, 10)] {
        let (client, session) = (ClientId(client), SessionId(7));
        ensemble.queue.push_back((ServerId(server), Event::Attach { client, session, body: Bytes::new() }));
        ensemble.run(Span::from_ms(10));
    }
    assert_eq!(ensemble.attached, [ClientId(9), ClientId(10)]);
    assert_eq!(ensemble.closed, [ClientId(9)], "a lock holder must not assume that it is still attached");
}

#[test]
fn a_message_on_the_wrong_link_is_refused_and_nothing_else_happens() {
    let mut ensemble = Ensemble::new(3, "history");
    ensemble.run(Span::from_ms(500));
    let message = Message::Zab(pole_zab::Message::Ping { seq: 1 });
    let event = Event::Received { from: ServerId(2), channel: Channel::Election, message };
    ensemble.queue.push_back((ServerId(1), event));
    ensemble.run(Span::from_ms(10));
    assert_eq!(ensemble.leader(), Some(ServerId(3)));
}

#[test]
fn a_failed_disk_halts_the_server_permanently() {
    let mut node = Node::new(
        Config::new(ServerId(1), Voters::new([ServerId(1)])),
        Spec::parse("history").and_then(|spec| spec.build()).expect("a known oracle"),
        RecordingMachine::default(),
        Recovered::blank(),
        Time(0),
    );
    let mut effects = Vec::new();
    node.step(Event::DiskFailed { reason: "No space left on device".into() }, Time(0), &mut effects);
    assert!(matches!(&effects[..], [Effect::Halt { .. }]));
    effects.clear();
    node.step(Event::Written { through: Ticket(1) }, Time(0), &mut effects);
    assert!(effects.is_empty(), "nothing is acknowledged after a failed fsync");
}

#[test]
fn a_transaction_that_cannot_be_read_halts_a_server_and_is_not_skipped() {
    let mut ensemble = Ensemble::new(3, "history");
    ensemble.run(Span::from_ms(500));
    ensemble.attach(ServerId(1), 9);
    ensemble.run(Span::from_ms(10));
    ensemble.write(ServerId(1), 9, 1, DAMAGED);
    ensemble.write(ServerId(1), 9, 2, b"b");
    ensemble.run(Span::from_ms(10));
    assert_eq!(ensemble.replies, [], "neither is it answered, nor what comes after it");
    let reason = &ensemble.halted[&ServerId(3)];
    let expected = "the transaction at 1.2 cannot be read: no transaction; ";
    assert!(reason.starts_with(expected) && reason.contains("move the files"), "{reason}");
}

#[test]
fn nothing_is_prepared_while_the_machine_waits_and_everything_is_afterwards() {
    let mut ensemble = Ensemble::new(3, "history");
    ensemble.run(Span::from_ms(500));
    for (server, client) in [(1, 9), (3, 10)] {
        ensemble.attach(ServerId(server), client);
    }
    ensemble.run(Span::from_ms(10));
    ensemble.write(ServerId(1), 9, 1, EXCLUSIVE);
    ensemble.write(ServerId(3), 10, 1, EXCLUSIVE);
    ensemble.write(ServerId(3), 10, 2, b"b");
    ensemble.write(ServerId(1), 9, 2, b"c");
    ensemble.run(Span::from_ms(10));
    assert_eq!(ensemble.replies.len(), 4);
}

#[test]
fn a_leader_does_little_in_one_step_and_has_little_under_way() {
    let mut ensemble = Ensemble::new(1, "history");
    ensemble.run(Span::from_ms(500));
    ensemble.attach(ServerId(1), 9);
    ensemble.attach(ServerId(1), 10);
    ensemble.run(Span::from_ms(10));
    let node = ensemble.nodes.get_mut(&ServerId(1)).expect("it lives");
    let large = (1..=30).map(|cxid| Event::Request {
        client: ClientId(9),
        cxid: Cxid(cxid),
        body: Bytes::from_static(&[b'x'; 100_000]),
    });
    let small = Event::Request { client: ClientId(10), cxid: Cxid(1), body: Bytes::from_static(b"small") };
    let mut effects = Vec::new();
    node.step_all(large.chain([small]), ensemble.now, &mut effects);
    let (mut steps, mut sizes, mut last) = (1, Vec::new(), None);
    loop {
        let continues = effects.iter().any(|effect| matches!(effect, Effect::Continue));
        let before = sizes.iter().sum::<usize>();
        for effect in effects.drain(..) {
            if let Effect::Write { ticket, op: DiskOp::Append(entries) } = effect {
                last = Some(ticket);
                sizes.extend(entries.iter().map(|entry| entry.body.len()));
            }
        }
        let proposed = sizes.iter().sum::<usize>() - before;
        assert!(proposed <= (256 << 10) + 100_000, "{proposed} bytes in one step");
        if !continues {
            break;
        }
        steps += 1;
        node.step(Event::Continue, ensemble.now, &mut effects);
    }
    assert_eq!(sizes[0], 5, "the small one passes the others");
    let under_way = sizes.iter().sum::<usize>();
    assert!((1 << 20..(1 << 20) + 100_000).contains(&under_way), "{under_way} bytes under way");
    assert!(steps >= 4, "{steps} steps");
    // What was written makes room for the next.
    ensemble.queue.push_back((ServerId(1), Event::Written { through: last.expect("a write") }));
    ensemble.run(Span::from_ms(10));
    assert_eq!(ensemble.replies.len(), 31);
}

#[test]
fn a_leader_proposes_little_before_it_comes_to_the_messages_of_others() {
    let mut ensemble = Ensemble::new(1, "history");
    ensemble.run(Span::from_ms(500));
    ensemble.attach(ServerId(1), 9);
    ensemble.run(Span::from_ms(10));
    let node = ensemble.nodes.get_mut(&ServerId(1)).expect("it lives");
    let request =
        |cxid| Event::Request { client: ClientId(9), cxid: Cxid(cxid), body: Bytes::from_static(&[b'x'; 200_000]) };
    let proposed = |node: &mut Node<RecordingMachine>, cxid| {
        let mut effects = Vec::new();
        node.step_all([request(cxid)], ensemble.now, &mut effects);
        effects.iter().any(|effect| matches!(effect, Effect::Write { op: DiskOp::Append(_), .. }))
    };
    node.begin_turn();
    let in_a_turn = [1, 2, 3, 4].map(|cxid| proposed(node, cxid));
    assert_eq!(in_a_turn, [true, true, false, false], "400 KB in a turn of four steps");
    node.begin_turn();
    assert!(proposed(node, 5));
}

#[test]
fn a_leader_waits_for_a_server_that_applies_slowly() {
    let mut ensemble = Ensemble::new(3, "history");
    ensemble.run(Span::from_ms(500));
    ensemble.attach(ServerId(3), 9);
    ensemble.run(Span::from_ms(10));
    ensemble.busy = Some(ServerId(2));
    let watched = (1..=10).map(|cxid| Event::Request {
        client: ClientId(9),
        cxid: Cxid(cxid),
        body: Bytes::from_static(WATCHED),
    });
    ensemble.step_all(ServerId(3), watched.collect());
    ensemble.run(Span::from_ms(60));
    assert_eq!(ensemble.replies.len(), 10, "a quorum does not need it");
    ensemble.replies.clear();
    let write = |ensemble: &mut Ensemble, cxids: core::ops::Range<i32>| {
        cxids.for_each(|cxid| ensemble.write(ServerId(3), 9, cxid, b"y"));
        ensemble.run(Span::from_ms(1));
        core::mem::take(&mut ensemble.replies).len()
    };
    ensemble.step(ServerId(2), Event::Expired(Timer::Heartbeat));
    assert_eq!(write(&mut ensemble, 11..61), 10, "the leader proposes slowly");
    ensemble.run(Span::from_ms(10));
    assert_eq!(ensemble.replies.len(), 10);

    // It has caught up, and reports no more.
    ensemble.busy = None;
    ensemble.step(ServerId(2), Event::Continue);
    ensemble.run(Span::from_ms(60));
    assert_eq!(ensemble.replies.len(), 40);
    ensemble.replies.clear();
    assert_eq!(write(&mut ensemble, 61..111), 50);
}

#[test]
fn requests_forwarded_before_joining_over_a_new_link_are_dropped() {
    let mut ensemble = Ensemble::new(3, "history");
    ensemble.run(Span::from_ms(500));
    let (leader, peer, channel) = (ServerId(3), ServerId(1), Channel::Quorum);
    ensemble.attach(peer, 9);
    ensemble.run(Span::from_ms(10));
    let epoch = ensemble.nodes[&leader].zab().serving_epoch().expect("it serves");
    let origin = pole_zab::Origin { session: SessionId(9), cxid: Cxid(2) };
    let request = Request { origin, floor: Zxid::ZERO, body: Bytes::from_static(b"second") };
    // The first request of the client was lost with the old link.
    let message = Message::Forward { epoch, requests: vec![request] };
    ensemble.step(leader, Event::LinkDown { peer, channel });
    ensemble.step(leader, Event::LinkUp { peer, channel });
    ensemble.step(leader, Event::Received { from: peer, channel, message });
    ensemble.run(Span::from_ms(10));
    assert_eq!(ensemble.nodes[&leader].machine().applied, b"");
}

/// A request that [`RecordingMachine`] must apply before anything else is prepared.
const EXCLUSIVE: &[u8] = b"alone";

/// A transaction that [`RecordingMachine`] cannot decode.
const DAMAGED: &[u8] = b"damaged";
