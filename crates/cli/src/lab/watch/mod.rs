//! `pole lab watch`: an election step by step.
//!
//! In: a script, by file, name or number; or a classical algorithm. Out: a screen that goes forwards and backwards by keys;
//! where there is no terminal, every step in text or JSON; with `--out`, a page.
//! Exit code 1 if the ensemble broke a rule in the script, 2 if there is no such script or it makes no sense.
//!
//! ```text
//! view      where one is in the record, and what the screen shows     terminal  keys, raw mode, and back again
//! ```

mod terminal;
mod view;

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use pole_lab::classical::{Case, Kind};
use pole_lab::play::Play;
use pole_lab::script::{self, BUILT_IN, Find};

use crate::args::WatchArgs;
use crate::failure::Failure;
use crate::paint::Paint;

use terminal::Terminal;
use view::View;

pub(crate) fn run(args: &WatchArgs, json: bool, paint: Paint) -> Result<(), Failure> {
    let Found { name, about, play, broken } = find(&args.script, args.all)?;
    match &args.out {
        Some(folder) => writes(folder, &name, &about, &play, &format!("pole lab watch {}", args.script))?,
        None if !json && io::stdin().is_terminal() && io::stdout().is_terminal() => shows(&name, play, paint)?,
        None => prints(&play, json)?,
    }
    broken.map_or(Ok(()), |broken| Err(Failure::failed(broken)))
}

/// What is watched.
struct Found {
    name: String,
    /// What it is about, in its own words.
    about: String,
    play: Play,
    /// Where a rule was broken, and which.
    broken: Option<String>,
}

/// What is built in goes before a file of that name, so that a command means the same in every folder; `./NAME` is the file.
fn find(wanted: &str, upkeep: bool) -> Result<Found, Failure> {
    if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == wanted) {
        return Ok(classical(kind));
    }
    match script::find(wanted) {
        Find::One(name, text) => played(name, text, upkeep),
        Find::None | Find::Several(_) if Path::new(wanted).is_file() => {
            let text = fs::read_to_string(wanted).map_err(|error| Failure::bad_input(format!("{wanted}: {error}")))?;
            played(wanted, &text, upkeep)
        }
        Find::Several(names) => Err(Failure::bad_input(format!("{wanted}: which of {}?", names.join(", ")))),
        Find::None => Err(Failure::bad_input(unknown(wanted))),
    }
}

fn played(name: &str, text: &str, upkeep: bool) -> Result<Found, Failure> {
    let at = |error: &script::Error| format!("{name}:{}: {}", error.line, error.what);
    let watched = script::watch(text, upkeep).map_err(|error| Failure::bad_input(at(&error)))?;
    let comment = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let about: Vec<&str> = comment.filter(|line| !line.starts_with("covers:")).collect();
    let broken = watched.broken.as_ref().map(at);
    Ok(Found { name: name.to_owned(), about: about.join(" "), play: watched.play, broken })
}

/// Five processes whose leader, the highest, is dead; the lowest notices.
fn classical(kind: Kind) -> Found {
    let mut case = Case::leader_dead(5).suspected_by([0]);
    case.records = true;
    let about = "Five processes, 0 to 4; every message takes a millisecond. The leader 4 is dead, and 0 suspects it.";
    let play = kind.run(&case).play.unwrap_or_default();
    Found { name: kind.name().to_owned(), about: about.to_owned(), play, broken: None }
}

fn unknown(wanted: &str) -> String {
    let scripts: String = BUILT_IN.iter().map(|(name, _)| format!("\n  {name}")).collect();
    let kinds = Kind::ALL.map(Kind::name).join(", ");
    format!(
        "{wanted}: no such file, script or algorithm. Give a file, one of the algorithms {kinds}, or one of these scripts, \
         by name or by number:{scripts}"
    )
}

fn writes(folder: &Path, name: &str, about: &str, play: &Play, command: &str) -> Result<(), Failure> {
    let title = Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let path = folder.join(format!("{title}.html"));
    let page = play.page(&title, about, command);
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, page));
    written.map_err(|error| {
        let path = path.display();
        Failure::bad_input(format!("cannot write {path}: {error}; name another folder with --out"))
    })?;
    crate::print(&format!("Written: {}\n", path.display()))
}

fn prints(play: &Play, json: bool) -> Result<(), Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut all = || {
        match json {
            true => play.jsons().try_for_each(|line| writeln!(out, "{line}"))?,
            false => (0..play.steps.len()).try_for_each(|at| out.write_all(play.text(at).as_bytes()))?,
        }
        out.flush()
    };
    crate::not_if_closed(all())
}

fn shows(name: &str, play: Play, paint: Paint) -> Result<(), Failure> {
    let unusable = |error: io::Error| Failure::failed(format!("the terminal cannot be used: {error}"));
    let mut terminal = Terminal::enter().map_err(unusable)?;
    let mut view = View::new(name, play);
    loop {
        let (columns, rows) = terminal.size();
        terminal.draws(&view.screen(columns, rows, paint)).map_err(unusable)?;
        for key in terminal.keys().map_err(unusable)? {
            if !view.goes(key) {
                return Ok(());
            }
        }
    }
}
