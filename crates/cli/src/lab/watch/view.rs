//! The position in a recording, and the screen that shows it.
//!
//! Lines are never wider than the window. The screen depends only on the step and the size of the window, so stepping
//! forwards and back shows the same screen.

use std::ops::Range;

use pole_sim::recording::{ProcessView, Recording, Step, StepKind};

use crate::paint::Paint;

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Next,
    Back,
    NextTurn,
    LastTurn,
    Home,
    End,
    Quit,
}

/// A recording and the current step.
pub(crate) struct View {
    name: String,
    recording: Recording,
    at: usize,
    turns: usize,
}

impl View {
    pub(crate) fn new(name: &str, recording: Recording) -> Self {
        let turns = recording.steps.iter().filter(|step| step.is_turn()).count();
        Self { name: name.to_owned(), recording, at: 0, turns }
    }

    /// Handles a key; false to quit.
    pub(crate) fn handle(&mut self, key: Key) -> bool {
        let last = self.recording.steps.len().saturating_sub(1);
        self.at = match key {
            Key::Next => (self.at + 1).min(last),
            Key::Back => self.at.saturating_sub(1),
            Key::NextTurn => self.recording.next_turn(self.at),
            Key::LastTurn => self.recording.last_turn(self.at),
            Key::Home => 0,
            Key::End => last,
            Key::Quit => return false,
        };
        true
    }

    pub(crate) fn screen(&self, columns: usize, rows: usize, paint: Paint) -> Vec<String> {
        let Some(step) = self.recording.steps.get(self.at) else { return vec!["Nothing happened.".to_owned()] };
        let mut lines = vec![paint.bold(&fit(&self.head(step, columns), columns)), self.turn(columns), String::new()];
        lines.extend(self.servers(step, columns, paint));
        lines.push(String::new());
        let description = step.kind.describe(&self.recording.names);
        // At most a third of the screen for the output of a script, so that the steps around it stay visible.
        let lines_max = (rows / 3).max(1);
        lines.extend(description.lines().take(lines_max).map(|line| paint.bold(&fit(line, columns))));
        lines.push(String::new());
        let room = rows.saturating_sub(lines.len() + 1);
        lines.extend(self.visible_steps(room).map(|at| self.row(at, columns, paint)));
        lines.truncate(rows.saturating_sub(1));
        lines.resize(rows.saturating_sub(1), String::new());
        lines.push(paint.dim(&fit(KEYS, columns)));
        lines
    }

    fn head(&self, step: &Step, columns: usize) -> String {
        let steps = self.recording.steps.len();
        let turn = match self.turns {
            0 => String::new(),
            turns => format!("command {} of {turns}, ", self.recording.turns_by(self.at)),
        };
        let place = format!("{turn}step {} of {steps}, {:.3} ms", self.at + 1, step.ms());
        let gap = columns.saturating_sub(self.name.chars().count() + place.chars().count()).max(2);
        format!("{}{}{place}", self.name, " ".repeat(gap))
    }

    /// The last command of the script at or before this step.
    fn turn(&self, columns: usize) -> String {
        let turn = self.recording.steps[..=self.at].iter().rfind(|step| step.is_turn());
        fit(&turn.map_or(String::new(), |step| self.recording.describe(step)), columns)
    }

    /// One line for each server, with its state. A star marks a change by this step.
    fn servers(&self, step: &Step, columns: usize, paint: Paint) -> Vec<String> {
        let names = &self.recording.names;
        let changed: Vec<usize> = self.recording.changed(self.at).map(|(who, _)| who).collect();
        let line = |(who, belief): (usize, &ProcessView)| {
            let mark = if changed.contains(&who) { '*' } else { ' ' };
            let name = names.get(who).map_or("?", String::as_str);
            let line = fit(&format!("{mark}{name:>3}  {}", belief.describe(names)), columns);
            match belief {
                ProcessView { alive: false, .. } => paint.red(&line),
                ProcessView { leads: Some(_), .. } => paint.green(&line),
                ProcessView { leads: None, .. } => line,
            }
        };
        step.views.iter().enumerate().map(line).collect()
    }

    /// The range of `room` steps to list, two thirds of them before the current one.
    fn visible_steps(&self, room: usize) -> Range<usize> {
        let steps = self.recording.steps.len();
        let first = (self.at + 1).saturating_sub((2 * room).div_ceil(3)).min(steps.saturating_sub(room));
        first..(first + room).min(steps)
    }

    /// A row of the diagram: the time, the lanes of the servers with the message between them, and a description.
    fn row(&self, at: usize, columns: usize, paint: Paint) -> String {
        let step = &self.recording.steps[at];
        let mark = if at == self.at { '▸' } else { ' ' };
        let lanes = match LANE * self.recording.names.len() + TEXT_WIDTH_MIN <= columns {
            true => self.lanes(step),
            false => String::new(),
        };
        let line = fit(&format!("{mark}{:>10.3}  {lanes}  {}", step.ms(), self.recording.describe(step)), columns);
        match at.cmp(&self.at) {
            std::cmp::Ordering::Less => line,
            std::cmp::Ordering::Equal => paint.bold(&line),
            std::cmp::Ordering::Greater => paint.dim(&line),
        }
    }

    fn lanes(&self, step: &Step) -> String {
        let mut cells: Vec<char> = vec![' '; LANE * self.recording.names.len()];
        for (who, belief) in step.views.iter().enumerate() {
            cells[middle(who)] = match belief {
                ProcessView { alive: false, .. } => ' ',
                ProcessView { leads: Some(_), .. } => '┃',
                ProcessView { leads: None, .. } => '│',
            };
        }
        match &step.kind {
            StepKind::Sent { from, to, .. } => arrow(&mut cells, *from, *to, '╌', '╌'),
            StepKind::Received { from, to, .. } if to > from => arrow(&mut cells, *from, *to, '─', '▶'),
            StepKind::Received { from, to, .. } => arrow(&mut cells, *from, *to, '─', '◀'),
            StepKind::Lost { from, to, .. } => arrow(&mut cells, *from, *to, '╌', 'x'),
            StepKind::Held { from, to, .. } => arrow(&mut cells, *from, *to, '╌', '|'),
            StepKind::Crashed(who) => cells[middle(*who)] = 'x',
            StepKind::Expired { who, .. }
            | StepKind::Called(who)
            | StepKind::Started(who)
            | StepKind::Suspects { who, .. }
            | StepKind::Trusts { who, .. }
            | StepKind::Noted { who, .. } => cells[middle(*who)] = '●',
            StepKind::Turn(_) => cells.iter_mut().filter(|cell| **cell == ' ').for_each(|cell| *cell = '·'),
            StepKind::Cut(_) | StepKind::Healed | StepKind::Output(_) | StepKind::Full => {}
        }
        cells.into_iter().collect()
    }
}

/// Draws from one lane to just before another.
fn arrow(cells: &mut [char], from: usize, to: usize, shaft: char, head: char) {
    let (from, to) = (middle(from), middle(to));
    let (first, last) = if from < to { (from + 1, to) } else { (to + 1, from) };
    let Some(between) = cells.get_mut(first..last) else { return };
    between.iter_mut().filter(|cell| **cell == ' ').for_each(|cell| *cell = shaft);
    match (between, from < to) {
        ([.., end], true) | ([end, ..], false) => *end = head,
        ([], _) => {}
    }
}

fn middle(who: usize) -> usize {
    LANE * who + LANE / 2
}

/// Truncates a line to `columns` characters.
fn fit(text: &str, columns: usize) -> String {
    match text.chars().count() > columns {
        true => text.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

const KEYS: &str = " space → n next   ← p back   ] [ next, last command   home end   q quit";

/// The width of a server's lane.
const LANE: usize = 6;
/// With less space than this for time and description, the lanes are left out.
const TEXT_WIDTH_MIN: usize = 46;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Color;

    fn view() -> View {
        let script =
            "ensemble servers=3 oracle=request scores=\"10,20,30\"\nelect\nwrite 1 colour red\ncrash 3\nelect\nstate\n";
        View::new("a script", pole_sim::script::watch(script, false).expect("a script").recording)
    }

    fn screen(view: &View) -> Vec<String> {
        view.screen(100, 30, Paint::new(Color::Never))
    }

    #[test]
    fn backwards_then_forwards_shows_the_same_screen() {
        let mut view = view();
        let mut seen = vec![screen(&view)];
        for _ in 1..view.recording.steps.len() {
            view.handle(Key::Next);
            seen.push(screen(&view));
        }
        assert!(seen.len() > 50, "{}", seen.len());
        for before in seen.iter().rev().skip(1) {
            view.handle(Key::Back);
            assert_eq!(&screen(&view), before);
        }
        for after in &seen[1..] {
            view.handle(Key::Next);
            assert_eq!(&screen(&view), after);
        }
    }

    #[test]
    fn no_line_is_wider_than_the_window_and_no_screen_higher() {
        let mut view = view();
        for at in 0..view.recording.steps.len() {
            view.at = at;
            for (columns, rows) in [(100, 30), (40, 12), (20, 6), (7, 2), (1, 1)] {
                let lines = view.screen(columns, rows, Paint::new(Color::Never));
                assert_eq!(lines.len(), rows);
                assert!(lines.iter().all(|line| line.chars().count() <= columns), "{columns} columns: {lines:#?}");
            }
        }
    }

    #[test]
    fn keys_step_by_command_and_stop_at_both_ends() {
        let mut view = view();
        view.handle(Key::NextTurn);
        view.handle(Key::NextTurn);
        view.handle(Key::NextTurn);
        assert!(screen(&view)[1].starts_with("> crash 3"), "{:#?}", screen(&view));
        view.handle(Key::LastTurn);
        assert!(screen(&view)[1].starts_with("> write 1"), "{:#?}", screen(&view));
        view.handle(Key::End);
        view.handle(Key::Next);
        assert_eq!(view.at, view.recording.steps.len() - 1);
        view.handle(Key::Home);
        view.handle(Key::Back);
        assert_eq!(view.at, 0);
        assert!(!view.handle(Key::Quit));
    }

    #[test]
    fn the_screen_shows_the_step_the_state_and_the_keys() {
        let mut view = view();
        view.handle(Key::End);
        let text = screen(&view).join("\n");
        for part in ["a script", "> state", "2  leads, epoch 2", "3  down, epoch 1", "1: follows 2", "q quit"] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }
}
