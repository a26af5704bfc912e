//! `pole lab watch`: shows an election step by step.
//!
//! The subject is a script, given by file, name or number, or a classical algorithm. On a terminal it is a screen
//! with keys for stepping forwards and backwards (`view`, `terminal`); without one, every step is printed as text or
//! JSON; with `--out`, a page is written. The exit code is 1 if the ensemble broke a rule in the script, and 2 if
//! there is no such script or it is invalid.

mod terminal;
mod view;

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use pole_lab::classical::{Case, Kind};
use pole_lab::player::Player;
use pole_sim::recording::Recording;
use pole_sim::script::{self, BUILT_IN, Find};

use crate::failure::Failure;
use crate::lab::args::WatchArgs;
use crate::paint::Paint;

use terminal::Terminal;
use view::View;

pub(crate) fn run(args: &WatchArgs, json: bool, paint: Paint) -> Result<(), Failure> {
    let Subject { name, about, recording, broken } = load(&args.script, args.all)?;
    match &args.out {
        Some(folder) => write_page(folder, &name, &about, &recording, &format!("pole lab watch {}", args.script))?,
        None if !json && io::stdin().is_terminal() && io::stdout().is_terminal() => show(&name, recording, paint)?,
        None => print_steps(&recording, json)?,
    }
    broken.map_or(Ok(()), |broken| Err(Failure::failed(broken)))
}

/// What is watched: a recording, and where it comes from.
struct Subject {
    name: String,
    /// A description, from the comment at the top of the script.
    about: String,
    recording: Recording,
    /// The first broken rule and its position in the script.
    broken: Option<String>,
}

/// Built-in scripts take precedence over files, so that a command means the same in every directory; `./NAME` is the
/// file.
fn load(wanted: &str, upkeep: bool) -> Result<Subject, Failure> {
    if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == wanted) {
        return Ok(classical(kind));
    }
    match script::find(wanted) {
        Find::One(name, text) => run_script(name, text, upkeep),
        Find::None | Find::Several(_) if Path::new(wanted).is_file() => {
            let text = fs::read_to_string(wanted).map_err(|error| Failure::bad_input(format!("{wanted}: {error}")))?;
            run_script(wanted, &text, upkeep)
        }
        Find::Several(names) => Err(Failure::bad_input(format!("{wanted}: which of {}?", names.join(", ")))),
        Find::None => Err(Failure::bad_input(unknown(wanted))),
    }
}

fn run_script(name: &str, text: &str, upkeep: bool) -> Result<Subject, Failure> {
    let at = |error: &script::Error| format!("{name}:{}: {}", error.line, error.what);
    let watched = script::watch(text, upkeep).map_err(|error| Failure::bad_input(at(&error)))?;
    let comment = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let about: Vec<&str> = comment.filter(|line| !line.starts_with("covers:")).collect();
    let broken = watched.broken.as_ref().map(at);
    Ok(Subject { name: name.to_owned(), about: about.join(" "), recording: watched.recording, broken })
}

/// Five processes. The leader, which is the highest, is dead; the lowest notices.
fn classical(kind: Kind) -> Subject {
    let mut case = Case::leader_dead(5).suspected_by([0]);
    case.record = true;
    let about = "Five processes, 0 to 4; every message takes a millisecond. The leader 4 is dead, and 0 suspects it.";
    let recording = kind.run(&case).recording.unwrap_or_default();
    Subject { name: kind.name().to_owned(), about: about.to_owned(), recording, broken: None }
}

fn unknown(wanted: &str) -> String {
    let scripts: String = BUILT_IN.iter().map(|(name, _)| format!("\n  {name}")).collect();
    let kinds = Kind::ALL.map(Kind::name).join(", ");
    format!(
        "{wanted}: no such file, script or algorithm. Give a file, one of the algorithms {kinds}, or one of these scripts, \
         by name or by number:{scripts}"
    )
}

fn write_page(folder: &Path, name: &str, about: &str, recording: &Recording, command: &str) -> Result<(), Failure> {
    let title = Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = folder.join(format!("{title}.html"));
    let page = Player(recording).page(&title, about, command);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, page));
    written.map_err(|error| {
        let path = path.display();
        Failure::bad_input(format!("cannot write {path}: {error}; name another folder with --out"))
    })?;
    crate::print(&format!("Written: {}\n", path.display()))
}

fn print_steps(recording: &Recording, json: bool) -> Result<(), Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut all = || {
        match json {
            true => recording.jsons().try_for_each(|line| writeln!(out, "{line}"))?,
            false => (0..recording.steps.len()).try_for_each(|at| out.write_all(recording.text(at).as_bytes()))?,
        }
        out.flush()
    };
    crate::ignore_broken_pipe(all())
}

fn show(name: &str, recording: Recording, paint: Paint) -> Result<(), Failure> {
    let unusable = |error: io::Error| Failure::failed(format!("the terminal cannot be used: {error}"));
    let mut terminal = Terminal::enter().map_err(unusable)?;
    let mut view = View::new(name, recording);
    loop {
        let (columns, rows) = terminal.size();
        terminal.draw(&view.screen(columns, rows, paint)).map_err(unusable)?;
        for key in terminal.keys().map_err(unusable)? {
            if !view.handle(key) {
                return Ok(());
            }
        }
    }
}
