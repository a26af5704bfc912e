//! A recording as lines: text for people, JSON for programs.
//!
//! A line of text describes a step, followed by the views that it changed. A line of JSON contains everything, so that
//! each can be read alone.

use serde_json::{Value, json};

use super::{ProcessView, Recording, Step, StepKind};
use crate::MS;

impl Recording {
    /// A step as text: what happened, then the views that changed.
    #[must_use]
    pub fn text(&self, at: usize) -> String {
        let Some(step) = self.steps.get(at) else { return String::new() };
        let description = step.kind.describe(&self.names);
        let mut text = match step.kind {
            StepKind::Turn(_) => format!("\n{description}\n"),
            StepKind::Output(_) => description.lines().map(|line| format!("{:14}| {line}\n", "")).collect(),
            StepKind::Full => format!("{description}\n"),
            StepKind::Sent { .. }
            | StepKind::Received { .. }
            | StepKind::Lost { .. }
            | StepKind::Held { .. }
            | StepKind::Expired { .. }
            | StepKind::Called(_)
            | StepKind::Crashed(_)
            | StepKind::Started(_)
            | StepKind::Suspects { .. }
            | StepKind::Trusts { .. }
            | StepKind::Cut(_)
            | StepKind::Healed
            | StepKind::Noted { .. } => format!("{:>9.3} ms  {description}\n", step.ms()),
        };
        for (who, view) in self.changed(at) {
            let name = self.names.get(who).map_or("?", String::as_str);
            text += &format!("{:14}{:8}{name}: {}\n", "", "", view.describe(&self.names));
        }
        text
    }

    /// The processes whose view a step changed, with the new view.
    pub fn changed(&self, at: usize) -> impl Iterator<Item = (usize, &ProcessView)> {
        let before = at.checked_sub(1).and_then(|at| self.steps.get(at)).map_or(&[][..], |step| &step.views);
        let views = self.steps.get(at).map_or(&[][..], |step| &step.views);
        views.iter().enumerate().filter(move |(who, view)| before.get(*who) != Some(view))
    }

    /// All steps as JSON, one line each. Processes are identified by their names.
    pub fn jsons(&self) -> impl Iterator<Item = String> {
        let numbered = self.steps.iter().enumerate().scan(0, |turn, (at, step)| {
            *turn += usize::from(step.is_turn());
            Some((at, *turn, step))
        });
        numbered.map(|(at, turn, step)| self.json(at, turn, step))
    }

    fn json(&self, at: usize, turn: usize, step: &Step) -> String {
        let name = |who: &usize| self.id(*who);
        let mut object = json!({
            "step": at + 1,
            "turn": turn,
            "at_ms": step.ms(),
            "kind": step.kind.name(),
            "text": self.describe(step),
        });
        let parts = match &step.kind {
            StepKind::Sent { from, to, label }
            | StepKind::Received { from, to, label, .. }
            | StepKind::Lost { from, to, label }
            | StepKind::Held { from, to, label } => json!({"from": name(from), "to": name(to), "message": label}),
            StepKind::Expired { who, .. }
            | StepKind::Called(who)
            | StepKind::Crashed(who)
            | StepKind::Started(who)
            | StepKind::Suspects { who, .. }
            | StepKind::Trusts { who, .. }
            | StepKind::Noted { who, .. } => json!({"server": name(who)}),
            StepKind::Output(text) => json!({"lines": text.lines().collect::<Vec<_>>()}),
            StepKind::Cut(_) | StepKind::Healed | StepKind::Turn(_) | StepKind::Full => json!({}),
        };
        let servers: Vec<Value> = step.views.iter().enumerate().map(|(who, of)| self.view_json(who, of)).collect();
        if let (Value::Object(object), Value::Object(parts)) = (&mut object, parts) {
            object.extend(parts);
            object.insert("servers".to_owned(), Value::Array(servers));
        }
        object.to_string()
    }

    fn view_json(&self, who: usize, view: &ProcessView) -> Value {
        let name = |who: Option<usize>| who.map(|who| self.id(who));
        json!({
            "id": self.id(who),
            "alive": view.alive,
            "role": view.role(&self.names),
            "leader": name(view.leader),
            "leads": view.leads,
            "choice": name(view.choice),
            "epoch": view.epoch.map(|epoch| epoch.0),
            "promised": view.promised.map(|epoch| epoch.0),
            "zxid": view.end.map(|zxid| format!("{:#x}", zxid.0)),
        })
    }

    /// The name of a process, as a JSON number if it is numeric, like ids elsewhere.
    fn id(&self, who: usize) -> Value {
        let name = self.names.get(who).map_or("?", String::as_str);
        name.parse::<u64>().map_or_else(|_| Value::from(name), Value::from)
    }
}

impl Step {
    /// The time of the step, in milliseconds.
    #[must_use]
    pub fn ms(&self) -> f64 {
        self.at as f64 / MS as f64
    }
}
