//! Chubby's master election: votes that are promises for a limited time.
//!
//! Messages are Ask, Vote and Master, and Renew while the master runs.
//!
//! Safety: a voter promises to vote for no other process while the lease lasts, and the master counts its lease from
//! before it asked, so every promise outlasts the lease that depends on it. This assumes clocks that run at the same
//! rate.
//!
//! Liveness is only eventual: a crash costs the rest of the lease, and split votes cost a whole lease.
//!
//! Count for N processes, the old master crashed, one candidate: N - 1 Ask, N - 2 Vote, N - 1 Master = 3N - 4.
//! Delays: the lease expires, the random wait, Ask, Vote, Master = 5.
//!
//! Source: Burrows 2006, section 2.1, and the lecture. No failure detector is used: the lease acts as one.

use std::collections::BTreeSet;

use super::{Actions, Algorithm, AlgorithmMessage, Event, ProcessConfig, RandomNumbers, Timer, majority, others};

#[derive(Clone, Debug)]
pub(super) struct Chubby {
    me: usize,
    n: usize,
    timeout: u64,
    lease: u64,
    random: RandomNumbers,
    /// The highest ballot seen. Durable.
    ballot: u64,
    /// The process that has our vote while the lease lasts, and its ballot. Durable.
    promised: Option<(usize, u64)>,
    known: Option<usize>,
    role: Role,
    /// The number of leases requested, so that each has its own timer.
    leases: u64,
}

#[derive(Clone, Debug)]
enum Role {
    Voter,
    /// Has asked for votes under this lease, and received these.
    Candidate {
        lease: u64,
        votes: BTreeSet<usize>,
    },
    /// Holds the lease `held`, has asked to renew it as `next`, and received these renewals.
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

impl AlgorithmMessage for Message {
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

    /// Winning takes a majority of votes, but a master with a lease acts alone: two masters at once are two effective
    /// leaders, no matter who accepts them.
    fn needed(_: usize) -> usize {
        1
    }

    fn new(config: &ProcessConfig) -> Self {
        let is_master = config.leader == Some(config.me);
        Self {
            me: config.me,
            n: config.n,
            timeout: config.timeout,
            lease: config.lease,
            random: RandomNumbers::new(&config.random_numbers),
            ballot: 1,
            promised: config.leader.map(|leader| (leader, 1)),
            known: config.leader,
            role: if is_master { Role::Master { held: 0, next: 0, renewed: BTreeSet::new() } } else { Role::Voter },
            leases: 0,
        }
    }

    fn restarted(&self, config: &ProcessConfig) -> Self {
        // The promise is durable, but not its remaining time, so it starts again.
        Self { ballot: self.ballot, promised: self.promised, leases: self.leases, ..Self::new(config) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Actions<Message>) {
        match event {
            Event::Start => {
                if let Role::Master { held, .. } = self.role {
                    out.arm(lease(held), self.lease);
                    out.arm(RENEWAL, self.lease / 2);
                } else if self.promised.is_some() {
                    out.arm(PROMISE, self.lease);
                }
            }
            Event::Elect if self.promised.is_none() => self.wait_randomly(out),
            Event::Elect | Event::Suspects(_) | Event::Trusts(_) => {}
            Event::Received { from, message } => self.receive(from, &message, out),
            Event::Expired(timer) if timer == PROMISE => self.drop_promise(out),
            Event::Expired(timer) if timer == TURN => self.request_votes(out),
            Event::Expired(timer) if timer == RENEWAL => self.renew_lease(out),
            Event::Expired(Timer(_, number)) => self.lease_expired(number, out),
        }
    }

    fn leads(&self) -> Option<u64> {
        matches!(self.role, Role::Master { .. }).then_some(self.promised?.1)
    }

    fn known_leader(&self) -> Option<usize> {
        self.known
    }

    fn accepts(&self, leader: usize, ballot: u64) -> bool {
        self.promised == Some((leader, ballot))
    }
}

impl Chubby {
    fn receive(&mut self, from: usize, message: &Message, out: &mut Actions<Message>) {
        match *message {
            Message::Ask { ballot } => {
                self.ballot = self.ballot.max(ballot);
                if self.try_promise(from, ballot, out) {
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
                self.abandon_candidacy(out);
                self.try_promise(from, ballot, out);
                if !matches!(self.role, Role::Master { .. }) {
                    self.known = Some(from);
                }
            }
            Message::Renew { ballot, lease } => {
                self.abandon_candidacy(out);
                if self.try_promise(from, ballot, out) {
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

    /// There is a master: a candidate withdraws its vote for itself and its candidacy.
    fn abandon_candidacy(&mut self, out: &mut Actions<Message>) {
        if let Role::Candidate { lease: asked, .. } = self.role {
            self.promised = None;
            self.role = Role::Voter;
            out.cancel(lease(asked));
        }
    }

    /// Promises our vote for one lease, if it is free. Returns whether it is promised.
    fn try_promise(&mut self, to: usize, ballot: u64, out: &mut Actions<Message>) -> bool {
        let is_free = self.promised.is_none_or(|(holder, held)| holder == to && held <= ballot);
        if is_free {
            self.promised = Some((to, ballot));
            out.cancel(TURN);
            out.arm(PROMISE, self.lease);
        }
        is_free
    }

    fn drop_promise(&mut self, out: &mut Actions<Message>) {
        self.promised = None;
        self.known = None;
        self.role = Role::Voter;
        self.wait_randomly(out);
    }

    /// Waits a random time, so that not all replicas ask at once.
    fn wait_randomly(&mut self, out: &mut Actions<Message>) {
        let random = self.random.below(2 * self.timeout);
        out.arm(TURN, random);
    }

    fn request_votes(&mut self, out: &mut Actions<Message>) {
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

    fn renew_lease(&mut self, out: &mut Actions<Message>) {
        let (Role::Master { next, renewed, .. }, Some((_, ballot))) = (&mut self.role, self.promised) else { return };
        self.leases += 1;
        *next = self.leases;
        renewed.clear();
        out.send_all(others(self.me, self.n), Message::Renew { ballot, lease: self.leases });
        out.arm(lease(self.leases), self.lease);
        out.arm(RENEWAL, self.lease / 2);
    }

    /// A lease has expired. Ignored unless it is the one that we hold or asked for.
    fn lease_expired(&mut self, number: u64, out: &mut Actions<Message>) {
        let matters = match &self.role {
            Role::Voter => false,
            Role::Candidate { lease, .. } => *lease == number,
            Role::Master { held, .. } => *held == number,
        };
        if matters {
            out.cancel(RENEWAL);
            self.drop_promise(out);
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
    use super::super::{Case, Occurrence, Outcome, RandomSource, Repair, run};
    use super::*;
    use pole_sim::MS;

    /// A replica that votes although its promise lasts.
    struct PromiseBreaker(Chubby);

    impl Algorithm for PromiseBreaker {
        type Message = Message;

        fn needed(n: usize) -> usize {
            Chubby::needed(n)
        }

        fn new(config: &ProcessConfig) -> Self {
            Self(Chubby::new(config))
        }

        fn restarted(&self, config: &ProcessConfig) -> Self {
            Self(self.0.restarted(config))
        }

        fn step(&mut self, event: Event<Message>, out: &mut Actions<Message>) {
            if matches!(self.0.role, Role::Voter) {
                self.0.promised = None;
            }
            self.0.step(event, out);
        }

        fn leads(&self) -> Option<u64> {
            self.0.leads()
        }

        fn known_leader(&self) -> Option<usize> {
            self.0.known_leader()
        }

        fn accepts(&self, leader: usize, generation: u64) -> bool {
            self.0.accepts(leader, generation)
        }
    }

    /// A replica asks for votes while the master holds its lease.
    fn ask_during_lease<A: Algorithm>() -> Outcome {
        let mut case = Case::counting(5);
        (case.leader, case.random) = (Some(4), RandomSource::First(0));
        case.occurrences.push((MS, Occurrence::Elect(0)));
        (case.until, case.ends_settled) = (2 * case.lease, false);
        run::<A>(&case, Repair::None, false)
    }

    #[test]
    fn a_vote_during_a_lease_creates_two_masters() {
        let honest = ask_during_lease::<Chubby>();
        assert_eq!((honest.leaders_max, honest.leader), (1, Some(4)));
        let promise_breaker = ask_during_lease::<PromiseBreaker>();
        let violation = promise_breaker.violations.first().expect("two masters under leases");
        assert_eq!(violation.leaders.iter().map(|(leader, _)| *leader).collect::<Vec<_>>(), [0, 4]);
    }
}
