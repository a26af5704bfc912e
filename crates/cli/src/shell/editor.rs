//! The line editor on a terminal: history, completion of commands and paths, and output while a line is typed.
//!
//! The history is kept in memory only, because lines contain passwords (`addauth`).

use pole_client::children;
use pole_jute::Reply;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, ExternalPrinter as _, Helper};

use super::commands::COMMANDS;
use super::session::Lookup;
use super::{Next, Shell};
use crate::failure::Failure;

/// Runs lines until the user quits, by command or by the end of input.
pub(super) fn run(shell: &mut Shell) -> Result<(), Failure> {
    let failed = |why: ReadlineError| Failure::failed(format!("the terminal: {why}"));
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
    let mut editor: Editor<PathHelper, MemHistory> = Editor::with_history(config, MemHistory::new()).map_err(failed)?;
    if let Ok(mut printer) = editor.create_external_printer() {
        // If the terminal is gone, the next line says so.
        shell.out.set_printer(Box::new(move |text| drop(printer.print(text))));
    }
    loop {
        let lookup = shell.session.as_ref().map(|session| session.lookup());
        let servers = shell.session.as_ref().map_or("not connected", |session| session.servers());
        let prompt = format!("[{servers} {}] ", shell.history.next());
        editor.set_helper(Some(PathHelper { lookup }));
        match editor.readline(&prompt) {
            Ok(line) => match shell.run_line(&line) {
                Ok(Next::Line) => {}
                Ok(Next::Quit) => return Ok(()),
                Err(failure) => crate::print_error(&format!("{failure}\n")),
            },
            // Discards the line, as in other shells.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            // The terminal is gone.
            Err(why) => return Err(failed(why)),
        }
    }
}

/// Completes the word before the cursor.
struct PathHelper {
    /// Reads children; none without a session.
    lookup: Option<Lookup>,
}

impl Completer for PathHelper {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..at];
        let start = before.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let word = &before[start..];
        let is_name = before[..start].trim().is_empty() || before[..start].trim() == "help";
        let candidates = if is_name { command_names(word) } else { self.paths(word) };
        Ok((start, candidates))
    }
}

impl PathHelper {
    /// The paths that begin with this one, from the children of its last complete node.
    fn paths(&self, word: &str) -> Vec<String> {
        let (Some(lookup), Some(slash)) = (&self.lookup, word.rfind('/')) else { return Vec::new() };
        let parent = if slash == 0 { "/" } else { &word[..slash] };
        let Some(Reply::GetChildren(reply)) = lookup.ask(children(parent)) else { return Vec::new() };
        let mut names: Vec<String> = reply.children;
        names.sort();
        let begins = |name: &String| name.starts_with(&word[slash + 1..]);
        names.into_iter().filter(begins).take(CANDIDATES_MAX).map(|name| format!("{}{name}", &word[..=slash])).collect()
    }
}

fn command_names(word: &str) -> Vec<String> {
    let names = COMMANDS.iter().map(|command| command.name).filter(|name| name.starts_with(word));
    names.map(|name| format!("{name} ")).collect()
}

impl Hinter for PathHelper {
    type Hint = String;
}

impl Highlighter for PathHelper {}

impl Validator for PathHelper {}

impl Helper for PathHelper {}

/// Nobody reads a longer list.
const CANDIDATES_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_commands_are_completed() {
        assert_eq!(command_names("getE"), ["getEphemerals "]);
        assert_eq!(command_names("del"), ["delete ", "deleteall ", "delquota "]);
        assert!(command_names("xyz").is_empty());
    }

    #[test]
    fn without_a_session_no_path_is_completed() {
        assert!(PathHelper { lookup: None }.paths("/a").is_empty());
    }
}
