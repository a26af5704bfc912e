//! Records the steps of a simulated world.
//!
//! The world reports sends, arrivals, losses, crashes and notes as it executes them. Recording is optional: seeds run
//! thousands of worlds that nobody watches, and those only pay the check of an empty option.
//!
//! The output of scripts is in `script::transcript`, the lines for a failed seed in `sim::trace`.

use pole_node::{Event, Message, Note};
use pole_types::ServerId;
use pole_zab::{DiskOp, Phase};

use super::labels::{self, index_of};
use super::{ProcessView, Recording, STEPS_MAX, Step, StepKind};
use crate::{World, disk_op};

/// A recording in progress.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    recording: Recording,
    /// Events that a server is about to process; recorded with the view after them.
    pending: Vec<StepKind>,
    /// Whether periodic messages and timers are recorded.
    upkeep: bool,
}

impl Recorder {
    pub(crate) fn new(upkeep: bool) -> Self {
        Self { upkeep, ..Self::default() }
    }

    /// Appends a step.
    pub(crate) fn push(&mut self, at: u64, what: StepKind, views: Vec<ProcessView>) {
        let steps = &mut self.recording.steps;
        match STEPS_MAX.saturating_sub(steps.len()) {
            0 => return,
            1 => steps.push(Step { at, depth: 0, kind: StepKind::Full, views }),
            2.. => steps.push(Step { at, depth: 0, kind: what, views }),
        }
        // A script may create a larger ensemble after a smaller one.
        let known = self.recording.names.len();
        let most = steps.last().map_or(0, |step| step.views.len());
        self.recording.names.extend((known..most).map(|who| (who + 1).to_string()));
    }

    pub(crate) fn into_recording(self) -> Recording {
        self.recording
    }
}

impl World {
    /// Records a step, if the run is recorded.
    pub(crate) fn record(&mut self, what: impl FnOnce() -> Option<StepKind>) {
        if self.recorder.is_some()
            && let Some(what) = what()
        {
            self.record_step(what);
        }
    }

    /// A server is about to process this event.
    pub(crate) fn record_event(&mut self, server: usize, event: &Event) {
        if let Some(recorder) = &mut self.recorder {
            recorder.pending.extend(labels::event(server, event, recorder.upkeep));
        }
    }

    /// The server has processed the events.
    pub(crate) fn record_processed(&mut self) {
        let pending = self.recorder.as_mut().map(|recorder| std::mem::take(&mut recorder.pending));
        pending.into_iter().flatten().for_each(|what| self.record_step(what));
    }

    pub(crate) fn record_note(&mut self, server: usize, note: &Note) {
        self.record(|| labels::note(note).map(|text| StepKind::Noted { who: server, text }));
    }

    pub(crate) fn record_write(&mut self, server: usize, op: &DiskOp) {
        self.record(|| Some(StepKind::Noted { who: server, text: format!("writes: {}", disk_op(op)) }));
    }

    /// Records a message that is sent, lost or held.
    pub(crate) fn record_message(&mut self, from: usize, to: ServerId, message: &Message, fate: Delivery) {
        let Some(recorder) = &self.recorder else { return };
        if labels::is_upkeep(message) && !recorder.upkeep {
            return;
        }
        let (to, label) = (index_of(to), labels::message(message));
        let what = match fate {
            Delivery::Sent => StepKind::Sent { from, to, label },
            Delivery::Lost => StepKind::Lost { from, to, label },
            Delivery::Held => StepKind::Held { from, to, label },
        };
        self.record_step(what);
    }

    /// Records a step with the present views.
    pub(crate) fn record_step(&mut self, what: StepKind) {
        let views = (0..self.hosts.len()).map(|server| view(self, server)).collect();
        if let Some(recorder) = &mut self.recorder {
            recorder.push(self.now, what, views);
        }
    }
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It was sent.
    Sent,
    /// It never arrives.
    Lost,
    /// It is held back.
    Held,
}

/// The present view of a server.
pub(crate) fn view(world: &World, server: usize) -> ProcessView {
    let host = &world.hosts[server];
    let Some(node) = &host.node else {
        let disk = &host.disk.durable;
        return ProcessView { epoch: Some(disk.current_epoch), end: Some(disk.last()), ..ProcessView::default() };
    };
    let (zab, standing) = (node.zab(), node.zab().standing());
    let elects = zab.phase() == Phase::Looking;
    ProcessView {
        alive: true,
        paused: host.paused,
        leader: zab.leader().map(index_of),
        leads: (zab.phase() == Phase::Established).then_some(u64::from(standing.current_epoch.0)),
        activity: activity(zab.phase()),
        choice: node.election().choice().filter(|_| elects).map(|choice| index_of(choice.id)),
        epoch: Some(standing.current_epoch),
        promised: Some(standing.accepted_epoch).filter(|accepted| *accepted > standing.current_epoch),
        end: Some(zab.log().last()),
    }
}

fn activity(phase: Phase) -> &'static str {
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
