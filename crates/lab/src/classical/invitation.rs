//! The invitation algorithm: every process starts as leader of its own group, and groups invite each other to merge.
//!
//! It is made for networks that partition. A leader leads its *group*; uniqueness across all processes is not
//! guaranteed, and two groups with a leader each are two leaders at once, by design.
//!
//! Count for N processes, the old leader crashed and all know it: the highest running process asks N - 2 others
//! whether they lead a group, they answer, are invited, accept, and are notified that the group is ready: 5(N - 2)
//! messages. Delays: the wait by priority, Ask, Answer, Invitation, Accept, Ready = 6.
//!
//! Source: Garcia-Molina 1982, "Elections in a distributed computing system". Our addition: a group of one has no
//! leader.

use std::collections::BTreeSet;
use std::mem;

use super::{Actions, Algorithm, AlgorithmMessage, Event, ProcessConfig, Timer, others};

#[derive(Clone, Debug)]
pub(super) struct Invitation {
    me: usize,
    n: usize,
    timeout: u64,
    suspected: BTreeSet<usize>,
    /// The number of groups that we have led, so that each has a unique name. Durable.
    groups: u64,
    group: Group,
    /// The members of our own group, without us.
    members: BTreeSet<usize>,
    stage: Stage,
}

/// The name of a group: its coordinator and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    coordinator: usize,
    number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Normal,
    /// Has asked who leads a group: `awaited` have not answered, `coordinators` lead one.
    Asking {
        awaited: BTreeSet<usize>,
        coordinators: BTreeSet<usize>,
    },
    /// Has invited `invited` to the new group; `accepted` have accepted.
    Inviting {
        invited: BTreeSet<usize>,
        accepted: BTreeSet<usize>,
    },
    /// Has accepted an invitation and waits until the group is ready.
    Joining(Group),
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    /// Asks whether the receiver leads a group.
    Ask,
    Answer {
        leads: bool,
    },
    Invitation {
        group: Group,
    },
    Accept {
        group: Group,
    },
    Ready {
        group: Group,
    },
}

impl AlgorithmMessage for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Ask => "Ask",
            Self::Answer { .. } => "Answer",
            Self::Invitation { .. } => "Invitation",
            Self::Accept { .. } => "Accept",
            Self::Ready { .. } => "Ready",
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Ask => "Ask: do you lead?".to_owned(),
            Self::Answer { leads } => format!("Answer: {}", if *leads { "yes" } else { "no" }),
            Self::Invitation { group } | Self::Accept { group } | Self::Ready { group } => {
                format!("{} {}.{}", self.name(), group.coordinator, group.number)
            }
        }
    }
}

impl Algorithm for Invitation {
    type Message = Message;

    /// A group needs no consent from outside.
    fn needed(_: usize) -> usize {
        1
    }

    fn new(config: &ProcessConfig) -> Self {
        let (me, n) = (config.me, config.n);
        let coordinator = config.leader.unwrap_or(me);
        let members = if config.leader == Some(me) { others(me, n).collect() } else { BTreeSet::new() };
        Self {
            me,
            n,
            timeout: config.timeout,
            suspected: BTreeSet::new(),
            groups: 1,
            group: Group { coordinator, number: 1 },
            members,
            stage: Stage::Normal,
        }
    }

    fn restarted(&self, config: &ProcessConfig) -> Self {
        Self { groups: self.groups, ..Self::new(config) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Actions<Message>) {
        match event {
            Event::Start => {}
            Event::Elect => self.start_own_group(out),
            Event::Suspects(other) => {
                self.suspected.insert(other);
                self.members.remove(&other);
                if self.group.coordinator == other && self.stage == Stage::Normal {
                    self.start_own_group(out);
                }
            }
            Event::Trusts(other) => {
                self.suspected.remove(&other);
                self.schedule_check(out);
            }
            Event::Received { from, message } => self.receive(from, &message, out),
            Event::Expired(timer) if timer == CHECK => self.check_groups(out),
            Event::Expired(timer) if timer == ANSWERS => self.send_invitations(out),
            Event::Expired(timer) if timer == ACCEPTS => self.group_ready(out),
            Event::Expired(_) => self.start_own_group(out),
        }
    }

    fn leads(&self) -> Option<u64> {
        let leads = self.is_coordinator() && self.stage == Stage::Normal && !self.members.is_empty();
        leads.then_some(self.group.number)
    }

    fn known_leader(&self) -> Option<usize> {
        let is_alone = self.is_coordinator() && self.members.is_empty();
        (self.stage == Stage::Normal && !is_alone).then_some(self.group.coordinator)
    }

    fn accepts(&self, leader: usize, number: u64) -> bool {
        self.stage == Stage::Normal && self.group == Group { coordinator: leader, number }
    }

    fn done(&self) -> bool {
        self.stage == Stage::Normal
    }
}

impl Invitation {
    fn receive(&mut self, from: usize, message: &Message, out: &mut Actions<Message>) {
        match *message {
            Message::Ask => {
                let leads = self.is_coordinator() && self.stage == Stage::Normal;
                out.send(from, Message::Answer { leads });
            }
            Message::Answer { leads } => {
                if let Stage::Asking { awaited, coordinators } = &mut self.stage
                    && awaited.remove(&from)
                {
                    coordinators.extend(leads.then_some(from));
                    if awaited.is_empty() {
                        self.send_invitations(out);
                    }
                }
            }
            Message::Invitation { group } => self.receive_invitation(group, out),
            Message::Accept { group } => self.receive_accept(from, group, out),
            Message::Ready { group } => {
                if self.stage == Stage::Joining(group) {
                    (self.group, self.stage) = (group, Stage::Normal);
                    out.cancel(READY);
                }
            }
        }
    }

    /// Starts a new group with ourselves as the only member.
    fn start_own_group(&mut self, out: &mut Actions<Message>) {
        self.groups += 1;
        self.group = Group { coordinator: self.me, number: self.groups };
        self.members.clear();
        self.stage = Stage::Normal;
        [ANSWERS, ACCEPTS, READY].into_iter().for_each(|timer| out.cancel(timer));
        self.schedule_check(out);
    }

    /// Schedules a search for other groups. Processes with fewer higher ones above them search sooner, by more than a
    /// merge takes, so that not all search at once.
    fn schedule_check(&mut self, out: &mut Actions<Message>) {
        if self.is_coordinator() && self.stage == Stage::Normal && self.outsiders().next().is_some() {
            let higher = (self.me + 1..self.n).filter(|other| !self.suspected.contains(other)).count() as u64;
            out.arm(CHECK, self.timeout * (1 + 3 * higher));
        }
    }

    fn check_groups(&mut self, out: &mut Actions<Message>) {
        let awaited: BTreeSet<usize> = self.outsiders().collect();
        if self.is_coordinator() && self.stage == Stage::Normal && !awaited.is_empty() {
            out.send_all(awaited.iter().copied(), Message::Ask);
            out.arm(ANSWERS, self.timeout);
            self.stage = Stage::Asking { awaited, coordinators: BTreeSet::new() };
        }
    }

    fn send_invitations(&mut self, out: &mut Actions<Message>) {
        let Stage::Asking { coordinators, .. } = mem::replace(&mut self.stage, Stage::Normal) else { return };
        out.cancel(ANSWERS);
        if coordinators.is_empty() {
            return self.schedule_check(out);
        }
        self.groups += 1;
        self.group = Group { coordinator: self.me, number: self.groups };
        let invited: BTreeSet<usize> = coordinators.union(&self.members).copied().collect();
        out.send_all(invited.iter().copied(), Message::Invitation { group: self.group });
        // Twice the timeout, because coordinators forward the invitation to their members.
        out.arm(ACCEPTS, 2 * self.timeout);
        self.stage = Stage::Inviting { invited, accepted: BTreeSet::new() };
    }

    fn receive_invitation(&mut self, group: Group, out: &mut Actions<Message>) {
        // A process that is merging groups itself does not join another; both will search again.
        if self.stage != Stage::Normal || self.suspected.contains(&group.coordinator) {
            return;
        }
        out.send(group.coordinator, Message::Accept { group });
        out.send_all(mem::take(&mut self.members), Message::Invitation { group });
        out.cancel(CHECK);
        out.arm(READY, 3 * self.timeout);
        self.stage = Stage::Joining(group);
    }

    fn receive_accept(&mut self, from: usize, group: Group, out: &mut Actions<Message>) {
        if group != self.group {
            return;
        }
        match &mut self.stage {
            Stage::Inviting { invited, accepted } => {
                accepted.insert(from);
                if accepted.is_superset(invited) {
                    self.group_ready(out);
                }
            }
            Stage::Normal => {
                self.members.insert(from);
                out.send(from, Message::Ready { group });
            }
            Stage::Asking { .. } | Stage::Joining(_) => {}
        }
    }

    fn group_ready(&mut self, out: &mut Actions<Message>) {
        let Stage::Inviting { accepted, .. } = mem::replace(&mut self.stage, Stage::Normal) else { return };
        out.cancel(ACCEPTS);
        out.send_all(accepted.iter().copied(), Message::Ready { group: self.group });
        self.members = accepted;
        self.schedule_check(out);
    }

    fn is_coordinator(&self) -> bool {
        self.group.coordinator == self.me
    }

    /// The unsuspected processes outside our group.
    fn outsiders(&self) -> impl Iterator<Item = usize> + '_ {
        let is_known = |other: &usize| self.suspected.contains(other) || self.members.contains(other);
        others(self.me, self.n).filter(move |other| !is_known(other))
    }
}

const CHECK: Timer = Timer("its turn to look for groups", 0);
const ANSWERS: Timer = Timer("no more answers", 0);
const ACCEPTS: Timer = Timer("no more members", 0);
const READY: Timer = Timer("the group is not ready", 0);
