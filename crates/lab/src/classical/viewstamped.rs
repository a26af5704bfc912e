//! The view change of Viewstamped Replication: view v belongs to replica v mod N, and a majority moves there together.
//!
//! Replicas send StartViewChange to all and DoViewChange to the next primary, which sends StartView. Safety: the
//! primary of a view leads after a majority has entered that view, and none of them accepts an earlier one.
//!
//! Count for N replicas, the old primary crashed: N - 1 running ones send N - 1 StartViewChange each, N - 2 send
//! DoViewChange, the primary sends N - 1 StartView: N^2 - 2. Delays: three if all detect the failure at once, four if
//! one does (its StartViewChange makes the others send theirs).
//!
//! Source: Liskov, Cowling 2012, section 4.2. Logs are left out. The view is durable here; the paper recovers it from
//! the others.

use std::collections::BTreeSet;

use super::{Actions, Algorithm, AlgorithmMessage, Event, ProcessConfig, Timer, majority, others};

#[derive(Clone, Debug)]
pub(super) struct Viewstamped {
    me: usize,
    n: usize,
    timeout: u64,
    /// The current view; earlier ones are not accepted. Durable.
    view: u64,
    /// False during a view change.
    normal: bool,
    /// The other replicas that have started the view change.
    started: BTreeSet<usize>,
    /// The replicas that have sent DoViewChange, if we are the primary.
    arrived: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    StartViewChange { view: u64 },
    DoViewChange { view: u64 },
    StartView { view: u64 },
}

impl AlgorithmMessage for Message {
    fn name(&self) -> &'static str {
        match self {
            Self::StartViewChange { .. } => "StartViewChange",
            Self::DoViewChange { .. } => "DoViewChange",
            Self::StartView { .. } => "StartView",
        }
    }

    fn label(&self) -> String {
        let (Self::StartViewChange { view } | Self::DoViewChange { view } | Self::StartView { view }) = self;
        format!("{} v{view}", self.name())
    }
}

impl Algorithm for Viewstamped {
    type Message = Message;

    fn new(config: &ProcessConfig) -> Self {
        Self {
            me: config.me,
            n: config.n,
            timeout: config.timeout,
            view: config.leader.unwrap_or(0) as u64,
            normal: config.leader.is_some(),
            started: BTreeSet::new(),
            arrived: BTreeSet::new(),
        }
    }

    fn restarted(&self, config: &ProcessConfig) -> Self {
        Self { view: self.view, ..Self::new(config) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Actions<Message>) {
        match event {
            Event::Start => {}
            Event::Elect => self.start_view_change(self.view + 1, out),
            Event::Suspects(other) => {
                if self.primary() == other {
                    self.start_view_change(self.view + 1, out);
                }
            }
            Event::Trusts(other) => {
                if self.leads().is_some() {
                    out.send(other, Message::StartView { view: self.view });
                }
            }
            Event::Received { from, message } => self.receive(from, &message, out),
            Event::Expired(_) => {
                if !self.normal {
                    self.start_view_change(self.view + 1, out);
                }
            }
        }
    }

    fn leads(&self) -> Option<u64> {
        (self.normal && self.primary() == self.me).then_some(self.view)
    }

    fn known_leader(&self) -> Option<usize> {
        self.normal.then(|| self.primary())
    }

    fn accepts(&self, leader: usize, view: u64) -> bool {
        view >= self.view && (view % self.n as u64) as usize == leader
    }
}

impl Viewstamped {
    fn receive(&mut self, from: usize, message: &Message, out: &mut Actions<Message>) {
        match *message {
            Message::StartViewChange { view } => {
                if view > self.view {
                    self.start_view_change(view, out);
                }
                if self.leads().is_some() {
                    // The sender missed the end of the change, or the message is old.
                    out.send(from, Message::StartView { view: self.view });
                } else if view == self.view && !self.normal {
                    self.receive_start_view_change(from, out);
                }
            }
            Message::DoViewChange { view } => {
                if view > self.view {
                    self.start_view_change(view, out);
                }
                if view == self.view && !self.normal {
                    self.receive_do_view_change(from, out);
                }
            }
            Message::StartView { view } if view < self.view => {
                out.send(from, Message::StartViewChange { view: self.view });
            }
            Message::StartView { view } => {
                (self.view, self.normal) = (view, true);
                out.cancel(CHANGE);
            }
        }
    }

    fn start_view_change(&mut self, view: u64, out: &mut Actions<Message>) {
        self.view = view;
        self.normal = false;
        self.started.clear();
        self.arrived.clear();
        out.send_all(others(self.me, self.n), Message::StartViewChange { view });
        out.arm(CHANGE, 3 * self.timeout);
    }

    fn receive_start_view_change(&mut self, who: usize, out: &mut Actions<Message>) {
        let before = self.started.len();
        self.started.insert(who);
        // Exactly when they make a majority with us, and only once.
        if before + 1 == majority(self.n) - 1 && self.started.len() > before {
            if self.primary() == self.me {
                self.receive_do_view_change(self.me, out);
            } else {
                out.send(self.primary(), Message::DoViewChange { view: self.view });
            }
        }
    }

    fn receive_do_view_change(&mut self, who: usize, out: &mut Actions<Message>) {
        self.arrived.insert(who);
        if self.arrived.len() >= majority(self.n) && self.arrived.contains(&self.me) {
            self.normal = true;
            out.cancel(CHANGE);
            out.send_all(others(self.me, self.n), Message::StartView { view: self.view });
        }
    }

    fn primary(&self) -> usize {
        (self.view % self.n as u64) as usize
    }
}

const CHANGE: Timer = Timer("the view change takes too long", 0);
