//! Chubby's master election: votes that are promises for a time.
//!
//! In: a lease that runs out, random numbers, votes. Out: Ask, Vote, Master, and Renew while the master lives.
//! Why safe: a voter promises to vote for nobody else while the lease lasts, and the master counts its lease from before
//! it asked; so every promise outlasts the lease that rests on it. That takes clocks that run alike, and no others.
//! Why live: only eventually. A crash costs what is left of the lease; votes that are split cost a lease.
//! Count, N processes, the old master dead, one candidate: N - 1 Ask, N - 2 Vote, N - 1 Master = 3N - 4; delays: the lease
//! runs out, the random wait, Ask, Vote, Master = 5.
//! Source: Burrows 2006, section 2.1, and the lecture. The failure detector is not asked: the lease is one.

use std::collections::BTreeSet;

use super::{Acts, Algorithm, Draws, Event, Setting, Timer, Word, majority, others};

/// A replica.
#[derive(Clone, Debug)]
pub(super) struct Chubby {
    me: usize,
    n: usize,
    timeout: u64,
    lease: u64,
    draws: Draws,
    /// The highest heard of. Durable.
    ballot: u64,
    /// To whom we gave our vote while the lease lasts, and in which ballot. Durable.
    promised: Option<(usize, u64)>,
    known: Option<usize>,
    role: Role,
    /// Leases asked for, so that each has a timer of its own.
    leases: u64,
}

#[derive(Clone, Debug)]
enum Role {
    Voter,
    /// Asked for votes, under this lease, and got these.
    Candidate {
        lease: u64,
        votes: BTreeSet<usize>,
    },
    /// Holds this lease; asked for the renewal under the next, and got these.
    Master {
        held: u64,
        next: u64,
        renewed: BTreeSet<usize>,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    Ask { ballot: u64 },
    Vote { ballot: u64 },
    Master { ballot: u64 },
    Renew { ballot: u64, lease: u64 },
    Renewed { ballot: u64, lease: u64 },
}

impl Word for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::Ask { .. } => "Ask",
            Self::Vote { .. } => "Vote",
            Self::Master { .. } => "Master",
            Self::Renew { .. } => "Renew",
            Self::Renewed { .. } => "Renewed",
        }
    }

    fn label(&self) -> String {
        let (Self::Ask { ballot }
        | Self::Vote { ballot }
        | Self::Master { ballot }
        | Self::Renew { ballot, .. }
        | Self::Renewed { ballot, .. }) = self;
        format!("{} b{ballot}", self.name())
    }

    fn is_upkeep(&self) -> bool {
        matches!(self, Self::Renew { .. } | Self::Renewed { .. })
    }
}

impl Algorithm for Chubby {
    type Message = Message;

    /// Its votes ask a majority; but a master that holds a lease answers alone, so that two of them at once are two
    /// leaders, whoever accepts them.
    fn needed(_: usize) -> usize {
        1
    }

    fn new(setting: &Setting) -> Self {
        let is_master = setting.leader == Some(setting.me);
        Self {
            me: setting.me,
            n: setting.n,
            timeout: setting.timeout,
            lease: setting.lease,
            draws: Draws::new(&setting.dice),
            ballot: 1,
            promised: setting.leader.map(|leader| (leader, 1)),
            known: setting.leader,
            role: if is_master { Role::Master { held: 0, next: 0, renewed: BTreeSet::new() } } else { Role::Voter },
            leases: 0,
        }
    }

    fn reborn(&self, setting: &Setting) -> Self {
        // A promise survives; how much of it was left does not, so that it begins anew.
        Self { ballot: self.ballot, promised: self.promised, leases: self.leases, ..Self::new(setting) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Acts<Message>) {
        match event {
            Event::Start => {
                if let Role::Master { held, .. } = self.role {
                    out.arm(lease(held), self.lease);
                    out.arm(RENEWAL, self.lease / 2);
                } else if self.promised.is_some() {
                    out.arm(PROMISE, self.lease);
                }
            }
            Event::Elect if self.promised.is_none() => self.waits(out),
            Event::Elect | Event::Suspects(_) | Event::Trusts(_) => {}
            Event::Received { from, message } => self.receive(from, &message, out),
            Event::Expired(timer) if timer == PROMISE => self.forgets(out),
            Event::Expired(timer) if timer == TURN => self.asks(out),
            Event::Expired(timer) if timer == RENEWAL => self.renews(out),
            Event::Expired(Timer(_, number)) => self.runs_out(number, out),
        }
    }

    fn leads(&self) -> Option<u64> {
        matches!(self.role, Role::Master { .. }).then_some(self.promised?.1)
    }

    fn believes(&self) -> Option<usize> {
        self.known
    }

    fn accepts(&self, leader: usize, ballot: u64) -> bool {
        self.promised == Some((leader, ballot))
    }
}

impl Chubby {
    fn receive(&mut self, from: usize, message: &Message, out: &mut Acts<Message>) {
        match *message {
            Message::Ask { ballot } => {
                self.ballot = self.ballot.max(ballot);
                if self.promises(from, ballot, out) {
                    out.send(from, Message::Vote { ballot });
                }
            }
            Message::Vote { ballot } => {
                if let Role::Candidate { lease, votes } = &mut self.role
                    && self.promised == Some((self.me, ballot))
                {
                    votes.insert(from);
                    if votes.len() >= majority(self.n) {
                        self.role = Role::Master { held: *lease, next: *lease, renewed: BTreeSet::new() };
                        self.known = Some(self.me);
                        out.send_all(others(self.me, self.n), Message::Master { ballot });
                        out.arm(RENEWAL, self.lease / 2);
                    }
                }
            }
            Message::Master { ballot } => {
                self.ballot = self.ballot.max(ballot);
                self.yields(out);
                self.promises(from, ballot, out);
                if !matches!(self.role, Role::Master { .. }) {
                    self.known = Some(from);
                }
            }
            Message::Renew { ballot, lease } => {
                self.yields(out);
                if self.promises(from, ballot, out) {
                    self.known = Some(from);
                    out.send(from, Message::Renewed { ballot, lease });
                }
            }
            Message::Renewed { ballot, lease } => {
                if let Role::Master { held, next, renewed } = &mut self.role
                    && self.promised == Some((self.me, ballot))
                    && *next == lease
                {
                    renewed.insert(from);
                    if renewed.len() + 1 >= majority(self.n) {
                        *held = lease;
                    }
                }
            }
        }
    }

    /// There is a master: a candidate takes its vote for itself back, and with it its candidacy.
    fn yields(&mut self, out: &mut Acts<Message>) {
        if let Role::Candidate { lease: asked, .. } = self.role {
            self.promised = None;
            self.role = Role::Voter;
            out.cancel(lease(asked));
        }
    }

    /// Whether our vote is theirs from now on, for a lease.
    fn promises(&mut self, to: usize, ballot: u64, out: &mut Acts<Message>) -> bool {
        let is_free = self.promised.is_none_or(|(holder, held)| holder == to && held <= ballot);
        if is_free {
            self.promised = Some((to, ballot));
            out.cancel(TURN);
            out.arm(PROMISE, self.lease);
        }
        is_free
    }

    fn forgets(&mut self, out: &mut Acts<Message>) {
        self.promised = None;
        self.known = None;
        self.role = Role::Voter;
        self.waits(out);
    }

    /// Not all at once.
    fn waits(&mut self, out: &mut Acts<Message>) {
        let random = self.draws.below(2 * self.timeout);
        out.arm(TURN, random);
    }

    fn asks(&mut self, out: &mut Acts<Message>) {
        if self.promised.is_some() {
            return;
        }
        self.ballot += 1;
        self.leases += 1;
        self.promised = Some((self.me, self.ballot));
        self.role = Role::Candidate { lease: self.leases, votes: BTreeSet::from([self.me]) };
        out.send_all(others(self.me, self.n), Message::Ask { ballot: self.ballot });
        out.arm(lease(self.leases), self.lease);
    }

    fn renews(&mut self, out: &mut Acts<Message>) {
        let (Role::Master { next, renewed, .. }, Some((_, ballot))) = (&mut self.role, self.promised) else { return };
        self.leases += 1;
        *next = self.leases;
        renewed.clear();
        out.send_all(others(self.me, self.n), Message::Renew { ballot, lease: self.leases });
        out.arm(lease(self.leases), self.lease);
        out.arm(RENEWAL, self.lease / 2);
    }

    /// A lease that we hold, or hoped for, is over; one that was renewed meanwhile does not matter.
    fn runs_out(&mut self, number: u64, out: &mut Acts<Message>) {
        let matters = match &self.role {
            Role::Voter => false,
            Role::Candidate { lease, .. } => *lease == number,
            Role::Master { held, .. } => *held == number,
        };
        if matters {
            out.cancel(RENEWAL);
            self.forgets(out);
        }
    }
}

fn lease(number: u64) -> Timer {
    Timer("the lease is over", number)
}

const PROMISE: Timer = Timer("the promise is over", 0);
const TURN: Timer = Timer("random wait", 0);
const RENEWAL: Timer = Timer("time to renew", 0);

#[cfg(test)]
mod tests {
    use super::super::{Case, Dice, Happening, Outcome, Repair, run};
    use super::*;
    use crate::sim::MS;

    /// A replica that votes though its promise lasts.
    struct Faithless(Chubby);

    impl Algorithm for Faithless {
        type Message = Message;

        fn needed(n: usize) -> usize {
            Chubby::needed(n)
        }

        fn new(setting: &Setting) -> Self {
            Self(Chubby::new(setting))
        }

        fn reborn(&self, setting: &Setting) -> Self {
            Self(self.0.reborn(setting))
        }

        fn step(&mut self, event: Event<Message>, out: &mut Acts<Message>) {
            if matches!(self.0.role, Role::Voter) {
                self.0.promised = None;
            }
            self.0.step(event, out);
        }

        fn leads(&self) -> Option<u64> {
            self.0.leads()
        }

        fn believes(&self) -> Option<usize> {
            self.0.believes()
        }

        fn accepts(&self, leader: usize, generation: u64) -> bool {
            self.0.accepts(leader, generation)
        }
    }

    /// A replica asks for votes while the master lives and holds its lease.
    fn called_in_vain<A: Algorithm>() -> Outcome {
        let mut case = Case::counting(5);
        (case.leader, case.dice) = (Some(4), Dice::First(0));
        case.happenings.push((MS, Happening::Elect(0)));
        (case.until, case.ends_settled) = (2 * case.lease, false);
        run::<A>(&case, Repair::None, false)
    }

    #[test]
    fn nobody_votes_while_a_lease_lasts_and_whoever_does_makes_two_masters() {
        let honest = called_in_vain::<Chubby>();
        assert_eq!((honest.believers_max, honest.leader), (1, Some(4)));
        let faithless = called_in_vain::<Faithless>();
        let violation = faithless.violations.first().expect("two masters under leases");
        assert_eq!(violation.leaders.iter().map(|(leader, _)| *leader).collect::<Vec<_>>(), [0, 4]);
    }
}
