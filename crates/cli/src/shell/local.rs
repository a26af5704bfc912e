//! Commands about the shell itself.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::json;

use super::commands::{COMMANDS, Given, find};
use super::session::ShellSession;
use super::{Next, Shell};
use crate::failure::Failure;

pub(super) fn help(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let shown = match given.word(0) {
        Some(name) => vec![find(name)?],
        None => COMMANDS.iter().collect(),
    };
    let text = || {
        let lines = shown.iter().map(|command| format!("{}\n    {}", command.line(), command.about));
        lines.collect::<Vec<_>>().join("\n")
    };
    let json = || shown.iter().map(|command| json!({"usage": command.line(), "about": command.about})).collect();
    shell.out.result(text, json)?;
    Ok(Next::Line)
}

pub(super) fn version(shell: &mut Shell, _: &Given) -> Result<Next, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    shell.out.result(|| format!("ZooKeeper CLI version: 3.8.0-pole-{version}"), || json!({ "version": version }))?;
    Ok(Next::Line)
}

/// The last eleven lines, this one included, as ZooKeeper's own shell prints them.
pub(super) fn history(shell: &mut Shell, _: &Given) -> Result<Next, Failure> {
    for (number, line) in shell.history.last(HISTORY_SHOWN) {
        shell.out.result(|| format!("{number} - {line}"), || json!({"number": number, "line": line}))?;
    }
    Ok(Next::Line)
}

pub(super) fn redo(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let number: Option<usize> = given.word(0).and_then(|word| word.parse().ok());
    let line = number.and_then(|number| shell.history.get(number));
    let line = line.ok_or_else(|| Failure::bad_input("Command index out of range; `history` prints the numbers"))?;
    if line.split_whitespace().next() == Some("redo") {
        return Err(Failure::bad_input("No redoing redos"));
    }
    // The history shows what was run, not how it was asked for.
    shell.history.pop();
    shell.run_line(&line)
}

pub(super) fn close(shell: &mut Shell, _: &Given) -> Result<Next, Failure> {
    shell.close();
    Ok(Next::Line)
}

pub(super) fn connect(shell: &mut Shell, given: &Given) -> Result<Next, Failure> {
    let servers = given.word(0).unwrap_or_default();
    let session = ShellSession::open(servers, shell.timeout, &Arc::clone(&shell.out))?;
    shell.close();
    shell.session = Some(session);
    Ok(Next::Line)
}

pub(super) fn quit(_: &mut Shell, _: &Given) -> Result<Next, Failure> {
    Ok(Next::Quit)
}

/// The last lines, numbered from 0 since the start.
#[derive(Debug, Default)]
pub(super) struct History {
    lines: VecDeque<String>,
    /// The number of the next line.
    next: usize,
}

impl History {
    pub(super) fn push(&mut self, line: &str) {
        self.lines.push_back(line.to_owned());
        self.next += 1;
        if self.lines.len() > HISTORY_KEPT {
            self.lines.pop_front();
        }
    }

    /// Takes back the last line.
    fn pop(&mut self) {
        self.next -= usize::from(self.lines.pop_back().is_some());
    }

    /// The number of the next line.
    pub(super) fn next(&self) -> usize {
        self.next
    }

    fn get(&self, number: usize) -> Option<String> {
        let oldest = self.next - self.lines.len();
        self.lines.get(number.checked_sub(oldest)?).cloned()
    }

    fn last(&self, count: usize) -> impl Iterator<Item = (usize, &String)> {
        let oldest = self.next - self.lines.len();
        (oldest..).zip(&self.lines).skip(self.lines.len().saturating_sub(count))
    }
}

const HISTORY_SHOWN: usize = 11;

/// Standard input may have millions of lines.
const HISTORY_KEPT: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_lines_are_forgotten_and_numbers_stay() {
        let mut history = History::default();
        (0..HISTORY_KEPT + 5).for_each(|number| history.push(&number.to_string()));
        assert_eq!((history.get(4), history.get(5)), (None, Some("5".to_owned())));
        assert_eq!(history.get(history.next()), None);
        assert_eq!(history.last(1).next(), Some((HISTORY_KEPT + 4, &(HISTORY_KEPT + 4).to_string())));
        history.pop();
        assert_eq!(history.next(), HISTORY_KEPT + 4);
    }
}
