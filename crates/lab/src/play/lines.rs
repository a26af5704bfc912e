//! A record as lines: text for people, JSON for programs.
//!
//! Holds: a line of text says what happened, and those under it whose belief changed by it; a line of JSON says
//! everything, so that each can be read alone.

use serde_json::{Value, json};

use super::{Belief, Play, Step, What};
use crate::sim::MS;

impl Play {
    /// A step as text: what happened, then who believes something else now.
    #[must_use]
    pub fn text(&self, at: usize) -> String {
        let Some(step) = self.steps.get(at) else { return String::new() };
        let told = step.what.told(&self.names);
        let mut text = match step.what {
            What::Turn(_) => format!("\n{told}\n"),
            What::Told(_) => told.lines().map(|line| format!("{:14}| {line}\n", "")).collect(),
            What::Full => format!("{told}\n"),
            What::Sent { .. }
            | What::Received { .. }
            | What::Lost { .. }
            | What::Held { .. }
            | What::Expired { .. }
            | What::Called(_)
            | What::Crashed(_)
            | What::Started(_)
            | What::Suspects { .. }
            | What::Trusts { .. }
            | What::Cut(_)
            | What::Healed
            | What::Noted { .. } => format!("{:>9.3} ms  {told}\n", step.ms()),
        };
        for (who, belief) in self.changed(at) {
            let name = self.names.get(who).map_or("?", String::as_str);
            text += &format!("{:14}{:8}{name}: {}\n", "", "", belief.told(&self.names));
        }
        text
    }

    /// Whose belief a step changed, and into what.
    pub fn changed(&self, at: usize) -> impl Iterator<Item = (usize, &Belief)> {
        let before = at.checked_sub(1).and_then(|at| self.steps.get(at)).map_or(&[][..], |step| &step.beliefs);
        let beliefs = self.steps.get(at).map_or(&[][..], |step| &step.beliefs);
        beliefs.iter().enumerate().filter(move |(who, belief)| before.get(*who) != Some(belief))
    }

    /// All steps as JSON, a line each. Processes go by their names.
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
            "kind": step.what.kind(),
            "text": self.told(step),
        });
        let parts = match &step.what {
            What::Sent { from, to, label }
            | What::Received { from, to, label, .. }
            | What::Lost { from, to, label }
            | What::Held { from, to, label } => json!({"from": name(from), "to": name(to), "message": label}),
            What::Expired { who, .. }
            | What::Called(who)
            | What::Crashed(who)
            | What::Started(who)
            | What::Suspects { who, .. }
            | What::Trusts { who, .. }
            | What::Noted { who, .. } => json!({"server": name(who)}),
            What::Told(text) => json!({"lines": text.lines().collect::<Vec<_>>()}),
            What::Cut(_) | What::Healed | What::Turn(_) | What::Full => json!({}),
        };
        let servers: Vec<Value> = step.beliefs.iter().enumerate().map(|(who, of)| self.belief(who, of)).collect();
        if let (Value::Object(object), Value::Object(parts)) = (&mut object, parts) {
            object.extend(parts);
            object.insert("servers".to_owned(), Value::Array(servers));
        }
        object.to_string()
    }

    fn belief(&self, who: usize, belief: &Belief) -> Value {
        let name = |who: Option<usize>| who.map(|who| self.id(who));
        json!({
            "id": self.id(who),
            "alive": belief.alive,
            "role": belief.role(&self.names),
            "leader": name(belief.leader),
            "leads": belief.leads,
            "choice": name(belief.choice),
            "epoch": belief.epoch.map(|epoch| epoch.0),
            "promised": belief.promised.map(|epoch| epoch.0),
            "zxid": belief.end.map(|zxid| format!("{:#x}", zxid.0)),
        })
    }

    /// A number where the name is one: so are ids everywhere else.
    fn id(&self, who: usize) -> Value {
        let name = self.names.get(who).map_or("?", String::as_str);
        name.parse::<u64>().map_or_else(|_| Value::from(name), Value::from)
    }
}

impl Step {
    /// When, in milliseconds.
    #[must_use]
    pub fn ms(&self) -> f64 {
        self.at as f64 / MS as f64
    }
}
