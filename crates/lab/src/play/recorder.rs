//! The recorder: keeps what happens in the simulator's world, if somebody wants to watch.
//!
//! In: sends, arrivals, losses, deaths, notes, as the world carries them out. Out: a [`Play`].
//! Why asked for: seeds run thousands of worlds that nobody watches; those pay a look at an empty option.
//! Not here: what a script prints (`script::teller`), lines for a failed seed (`sim::trace`).

use pole_election::ServerId;
use pole_node::{Event, Message, Note};
use pole_zab::{DiskOp, Phase};

use super::words::{self, place};
use super::{Belief, Play, STEPS_MAX, Step, What};
use crate::sim::{World, disk_op};

/// A record in the making.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    play: Play,
    /// What a server is about to meet: it is told with what the server believes afterwards.
    pending: Vec<What>,
    /// Whether messages and timers count that never cease.
    upkeep: bool,
}

impl Recorder {
    pub(crate) fn new(upkeep: bool) -> Self {
        Self { upkeep, ..Self::default() }
    }

    /// One more step.
    pub(crate) fn notes(&mut self, at: u64, what: What, beliefs: Vec<Belief>) {
        let steps = &mut self.play.steps;
        match STEPS_MAX.saturating_sub(steps.len()) {
            0 => return,
            1 => steps.push(Step { at, depth: 0, what: What::Full, beliefs }),
            2.. => steps.push(Step { at, depth: 0, what, beliefs }),
        }
        // A script may have a larger ensemble after a smaller one.
        let known = self.play.names.len();
        let most = steps.last().map_or(0, |step| step.beliefs.len());
        self.play.names.extend((known..most).map(|who| (who + 1).to_string()));
    }

    pub(crate) fn into_play(self) -> Play {
        self.play
    }
}

impl World {
    /// Keeps something that happened, if somebody watches.
    pub(crate) fn record(&mut self, what: impl FnOnce() -> Option<What>) {
        if self.recorder.is_some()
            && let Some(what) = what()
        {
            self.note_down(what);
        }
    }

    /// A server is about to meet this.
    pub(crate) fn record_event(&mut self, server: usize, event: &Event) {
        if let Some(recorder) = &mut self.recorder {
            recorder.pending.extend(words::event(server, event, recorder.upkeep));
        }
    }

    /// It has met it.
    pub(crate) fn record_met(&mut self) {
        let pending = self.recorder.as_mut().map(|recorder| std::mem::take(&mut recorder.pending));
        pending.into_iter().flatten().for_each(|what| self.note_down(what));
    }

    pub(crate) fn record_note(&mut self, server: usize, note: &Note) {
        self.record(|| words::note(note).map(|text| What::Noted { who: server, text }));
    }

    pub(crate) fn record_write(&mut self, server: usize, op: &DiskOp) {
        self.record(|| Some(What::Noted { who: server, text: format!("writes: {}", disk_op(op)) }));
    }

    /// What becomes of a message, by the names of the two ways to miss its aim: it is lost, or it waits.
    pub(crate) fn record_message(&mut self, from: usize, to: ServerId, message: &Message, fate: Passage) {
        let Some(recorder) = &self.recorder else { return };
        if words::is_upkeep(message) && !recorder.upkeep {
            return;
        }
        let (to, label) = (place(to), words::message(message));
        let what = match fate {
            Passage::Sent => What::Sent { from, to, label },
            Passage::Lost => What::Lost { from, to, label },
            Passage::Held => What::Held { from, to, label },
        };
        self.note_down(what);
    }

    /// A turn of the script begins, or it ends with what is printed.
    pub(crate) fn note_down(&mut self, what: What) {
        let beliefs = (0..self.hosts.len()).map(|server| belief(self, server)).collect();
        if let Some(recorder) = &mut self.recorder {
            recorder.notes(self.now, what, beliefs);
        }
    }
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It is under way.
    Sent,
    /// It never arrives.
    Lost,
    /// It waits.
    Held,
}

/// What a server believes now.
pub(crate) fn belief(world: &World, server: usize) -> Belief {
    let host = &world.hosts[server];
    let Some(node) = &host.node else {
        let disk = &host.disk.durable;
        return Belief { epoch: Some(disk.current_epoch), end: Some(disk.last()), ..Belief::default() };
    };
    let (zab, standing) = (node.zab(), node.zab().standing());
    let elects = zab.phase() == Phase::Looking;
    Belief {
        alive: true,
        paused: host.paused,
        leader: zab.leader().map(place),
        leads: (zab.phase() == Phase::Established).then_some(u64::from(standing.current_epoch.0)),
        doing: doing(zab.phase()),
        choice: node.election().choice().filter(|_| elects).map(|choice| place(choice.id)),
        epoch: Some(standing.current_epoch),
        promised: Some(standing.accepted_epoch).filter(|accepted| *accepted > standing.current_epoch),
        end: Some(zab.log().last()),
    }
}

fn doing(phase: Phase) -> &'static str {
    match phase {
        Phase::Looking => "elects",
        Phase::Established => "leads",
        Phase::Serving => "follows {}",
        Phase::Gathering | Phase::Promising => "would lead, gathers promises",
        Phase::Pulling => "would lead, pulls",
        Phase::Synchronising => "would lead, synchronises",
        Phase::Greeting => "chose {}",
        Phase::Promised => "promised {}",
        Phase::Joining => "joins {}",
        Phase::TakingOver => "takes {} over as its leader",
    }
}
