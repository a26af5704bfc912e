//! The invitation algorithm: every process leads a group of its own, and groups invite each other to become one.
//!
//! In: suspicions, messages, timeouts. Out: questions, invitations.
//! Why: made for networks that come apart. A leader is the leader of its *group*; that there is only one in all is not
//! promised, and two groups with a leader each are two leaders at once, by design.
//! Count, N processes, the old leader dead and everybody knows: the highest that lives asks N - 2 others whether they
//! lead a group, they answer, are invited, accept, and are told that the group is ready: 5(N - 2) messages; delays: the
//! wait by priority, Ask, Answer, Invitation, Accept, Ready = 6.
//! Source: Garcia-Molina 1982, "Elections in a distributed computing system". Ours: a group of one leads nobody.

use std::collections::BTreeSet;
use std::mem;

use super::{Acts, Algorithm, Event, Setting, Timer, Word, others};

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Invitation {
    me: usize,
    n: usize,
    timeout: u64,
    suspected: BTreeSet<usize>,
    /// Groups that we have led, so that each has a name of its own. Durable.
    groups: u64,
    group: Group,
    /// Of our own group, without us.
    members: BTreeSet<usize>,
    stage: Stage,
}

/// A group: its coordinator, and which of its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    coordinator: usize,
    number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Normal,
    /// We asked who leads a group: these have not answered, those do.
    Asking {
        awaited: BTreeSet<usize>,
        coordinators: BTreeSet<usize>,
    },
    /// We invited these to our new group, and those have accepted.
    Inviting {
        invited: BTreeSet<usize>,
        accepted: BTreeSet<usize>,
    },
    /// We accepted, and wait until the group is ready.
    Joining(Group),
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    /// Do you lead a group?
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

impl Word for Message {
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

    /// A group asks nobody outside of it.
    fn needed(_: usize) -> usize {
        1
    }

    fn new(setting: &Setting) -> Self {
        let (me, n) = (setting.me, setting.n);
        let coordinator = setting.leader.unwrap_or(me);
        let members = if setting.leader == Some(me) { others(me, n).collect() } else { BTreeSet::new() };
        Self {
            me,
            n,
            timeout: setting.timeout,
            suspected: BTreeSet::new(),
            groups: 1,
            group: Group { coordinator, number: 1 },
            members,
            stage: Stage::Normal,
        }
    }

    fn reborn(&self, setting: &Setting) -> Self {
        Self { groups: self.groups, ..Self::new(setting) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Acts<Message>) {
        match event {
            Event::Start => {}
            Event::Elect => self.recovers(out),
            Event::Suspects(other) => {
                self.suspected.insert(other);
                self.members.remove(&other);
                if self.group.coordinator == other && self.stage == Stage::Normal {
                    self.recovers(out);
                }
            }
            Event::Trusts(other) => {
                self.suspected.remove(&other);
                self.checks_later(out);
            }
            Event::Received { from, message } => self.receive(from, &message, out),
            Event::Expired(timer) if timer == CHECK => self.checks(out),
            Event::Expired(timer) if timer == ANSWERS => self.invites(out),
            Event::Expired(timer) if timer == ACCEPTS => self.is_ready(out),
            Event::Expired(_) => self.recovers(out),
        }
    }

    fn leads(&self) -> Option<u64> {
        let leads = self.is_coordinator() && self.stage == Stage::Normal && !self.members.is_empty();
        leads.then_some(self.group.number)
    }

    fn believes(&self) -> Option<usize> {
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
    fn receive(&mut self, from: usize, message: &Message, out: &mut Acts<Message>) {
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
                        self.invites(out);
                    }
                }
            }
            Message::Invitation { group } => self.is_invited(group, out),
            Message::Accept { group } => self.is_accepted(from, group, out),
            Message::Ready { group } => {
                if self.stage == Stage::Joining(group) {
                    (self.group, self.stage) = (group, Stage::Normal);
                    out.cancel(READY);
                }
            }
        }
    }

    /// A group of our own, of which we are the only member.
    fn recovers(&mut self, out: &mut Acts<Message>) {
        self.groups += 1;
        self.group = Group { coordinator: self.me, number: self.groups };
        self.members.clear();
        self.stage = Stage::Normal;
        [ANSWERS, ACCEPTS, READY].into_iter().for_each(|timer| out.cancel(timer));
        self.checks_later(out);
    }

    /// Not all at once: whoever has fewer higher processes above it looks sooner, by more than a merger takes.
    fn checks_later(&mut self, out: &mut Acts<Message>) {
        if self.is_coordinator() && self.stage == Stage::Normal && self.strangers().next().is_some() {
            let higher = (self.me + 1..self.n).filter(|other| !self.suspected.contains(other)).count() as u64;
            out.arm(CHECK, self.timeout * (1 + 3 * higher));
        }
    }

    fn checks(&mut self, out: &mut Acts<Message>) {
        let awaited: BTreeSet<usize> = self.strangers().collect();
        if self.is_coordinator() && self.stage == Stage::Normal && !awaited.is_empty() {
            out.send_all(awaited.iter().copied(), Message::Ask);
            out.arm(ANSWERS, self.timeout);
            self.stage = Stage::Asking { awaited, coordinators: BTreeSet::new() };
        }
    }

    fn invites(&mut self, out: &mut Acts<Message>) {
        let Stage::Asking { coordinators, .. } = mem::replace(&mut self.stage, Stage::Normal) else { return };
        out.cancel(ANSWERS);
        if coordinators.is_empty() {
            return self.checks_later(out);
        }
        self.groups += 1;
        self.group = Group { coordinator: self.me, number: self.groups };
        let invited: BTreeSet<usize> = coordinators.union(&self.members).copied().collect();
        out.send_all(invited.iter().copied(), Message::Invitation { group: self.group });
        // Coordinators hand the invitation on to their members.
        out.arm(ACCEPTS, 2 * self.timeout);
        self.stage = Stage::Inviting { invited, accepted: BTreeSet::new() };
    }

    fn is_invited(&mut self, group: Group, out: &mut Acts<Message>) {
        // Whoever is about to merge groups itself does not join another; both will look again.
        if self.stage != Stage::Normal || self.suspected.contains(&group.coordinator) {
            return;
        }
        out.send(group.coordinator, Message::Accept { group });
        out.send_all(mem::take(&mut self.members), Message::Invitation { group });
        out.cancel(CHECK);
        out.arm(READY, 3 * self.timeout);
        self.stage = Stage::Joining(group);
    }

    fn is_accepted(&mut self, from: usize, group: Group, out: &mut Acts<Message>) {
        if group != self.group {
            return;
        }
        match &mut self.stage {
            Stage::Inviting { invited, accepted } => {
                accepted.insert(from);
                if accepted.is_superset(invited) {
                    self.is_ready(out);
                }
            }
            Stage::Normal => {
                self.members.insert(from);
                out.send(from, Message::Ready { group });
            }
            Stage::Asking { .. } | Stage::Joining(_) => {}
        }
    }

    fn is_ready(&mut self, out: &mut Acts<Message>) {
        let Stage::Inviting { accepted, .. } = mem::replace(&mut self.stage, Stage::Normal) else { return };
        out.cancel(ACCEPTS);
        out.send_all(accepted.iter().copied(), Message::Ready { group: self.group });
        self.members = accepted;
        self.checks_later(out);
    }

    fn is_coordinator(&self) -> bool {
        self.group.coordinator == self.me
    }

    /// Who seems to live and is not of our group.
    fn strangers(&self) -> impl Iterator<Item = usize> + '_ {
        let is_known = |other: &usize| self.suspected.contains(other) || self.members.contains(other);
        others(self.me, self.n).filter(move |other| !is_known(other))
    }
}

const CHECK: Timer = Timer("its turn to look for groups", 0);
const ANSWERS: Timer = Timer("no more answers", 0);
const ACCEPTS: Timer = Timer("no more members", 0);
const READY: Timer = Timer("the group is not ready", 0);
