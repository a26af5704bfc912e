//! The view change of Viewstamped Replication: view v belongs to replica v mod N, and a majority moves there together.
//!
//! In: suspicions, messages, a timeout. Out: StartViewChange to all, DoViewChange to the next primary, StartView from it.
//! Why safe: the primary of a view leads after a majority has come to that view, and none of them obeys an earlier one.
//! Count, N replicas, the old primary dead: N - 1 living ones send N - 1 StartViewChange each, N - 2 send DoViewChange,
//! the primary sends N - 1 StartView: N^2 - 2. Delays: three if all find out at once, four if one does (its
//! StartViewChange makes the others send theirs).
//! Source: Liskov, Cowling 2012, section 4.2. Logs are left out. The view is kept over a crash; the paper recovers it from
//! the others.

use std::collections::BTreeSet;

use super::{Acts, Algorithm, Event, Setting, Timer, Word, majority, others};

/// A replica.
#[derive(Clone, Debug)]
pub(super) struct Viewstamped {
    me: usize,
    n: usize,
    timeout: u64,
    /// Durable: we obey no earlier one.
    view: u64,
    /// Not in the middle of a view change.
    normal: bool,
    /// Who else has left the view before.
    started: BTreeSet<usize>,
    /// Who has come to our view; for its primary.
    came: BTreeSet<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Message {
    StartViewChange { view: u64 },
    DoViewChange { view: u64 },
    StartView { view: u64 },
}

impl Word for Message {
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

    fn new(setting: &Setting) -> Self {
        Self {
            me: setting.me,
            n: setting.n,
            timeout: setting.timeout,
            view: setting.leader.unwrap_or(0) as u64,
            normal: setting.leader.is_some(),
            started: BTreeSet::new(),
            came: BTreeSet::new(),
        }
    }

    fn reborn(&self, setting: &Setting) -> Self {
        Self { view: self.view, ..Self::new(setting) }
    }

    fn step(&mut self, event: Event<Message>, out: &mut Acts<Message>) {
        match event {
            Event::Start => {}
            Event::Elect => self.changes(self.view + 1, out),
            Event::Suspects(other) => {
                if self.primary() == other {
                    self.changes(self.view + 1, out);
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
                    self.changes(self.view + 1, out);
                }
            }
        }
    }

    fn leads(&self) -> Option<u64> {
        (self.normal && self.primary() == self.me).then_some(self.view)
    }

    fn believes(&self) -> Option<usize> {
        self.normal.then(|| self.primary())
    }

    fn accepts(&self, leader: usize, view: u64) -> bool {
        view >= self.view && (view % self.n as u64) as usize == leader
    }
}

impl Viewstamped {
    fn receive(&mut self, from: usize, message: &Message, out: &mut Acts<Message>) {
        match *message {
            Message::StartViewChange { view } => {
                if view > self.view {
                    self.changes(view, out);
                }
                if self.leads().is_some() {
                    // It missed the end of the change, or comes from before it.
                    out.send(from, Message::StartView { view: self.view });
                } else if view == self.view && !self.normal {
                    self.has_started(from, out);
                }
            }
            Message::DoViewChange { view } => {
                if view > self.view {
                    self.changes(view, out);
                }
                if view == self.view && !self.normal {
                    self.has_come(from, out);
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

    fn changes(&mut self, view: u64, out: &mut Acts<Message>) {
        self.view = view;
        self.normal = false;
        self.started.clear();
        self.came.clear();
        out.send_all(others(self.me, self.n), Message::StartViewChange { view });
        out.arm(CHANGE, 3 * self.timeout);
    }

    fn has_started(&mut self, who: usize, out: &mut Acts<Message>) {
        let before = self.started.len();
        self.started.insert(who);
        // As many as make a majority with us, and only once.
        if before + 1 == majority(self.n) - 1 && self.started.len() > before {
            if self.primary() == self.me {
                self.has_come(self.me, out);
            } else {
                out.send(self.primary(), Message::DoViewChange { view: self.view });
            }
        }
    }

    fn has_come(&mut self, who: usize, out: &mut Acts<Message>) {
        self.came.insert(who);
        if self.came.len() >= majority(self.n) && self.came.contains(&self.me) {
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
