//! `pole check FILE`: findings in a configuration, and what differs from another one.

use std::path::Path;

use pole_api::commands::{ConfigurationChecked, Finding, SettingChange};
use pole_server::check_environment;
use pole_server::config::{Config, Identity, Problem, Warning};

use super::{counted, print_as};
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::paint::Paint;

pub(super) fn run(args: &CheckArgs, json: bool, paint: Paint) -> Result<(), Failure> {
    let identity = args.id.map_or(Identity::FromFile, |id| Identity::Is(pole_types::ServerId(id)));
    let file = args.path.display().to_string();
    let (config, mut findings) = load(&args.path, identity);
    if let Some(config) = &config
        && args.id.is_none()
    {
        findings.extend(check_environment(config).into_iter().map(|(key, why)| environment(&file, key, why)));
    }
    let changes = match (&args.against, &config) {
        (Some(other), Some(config)) => Some(changes(other, identity, config)?),
        (_, _) => None,
    };
    let ensemble = config.as_ref().and_then(|config| config.ensemble.as_ref());
    let errors = findings.iter().filter(|finding| finding.level == ERROR).count();
    let checked = ConfigurationChecked {
        file: file.clone(),
        valid: errors == 0,
        server: ensemble.map(|ensemble| ensemble.me.0),
        voters: config.as_ref().map_or(0, |config| config.voters().len()),
        findings,
        changes,
    };
    print_as(&checked, json, |checked| text(checked, args.against.as_deref(), paint))?;
    match errors {
        0 => Ok(()),
        _ => Err(Failure::bad_input(format!("{file}: {}; a server would not start", counted(errors, "error")))),
    }
}

pub(crate) fn load(path: &Path, identity: Identity) -> (Option<Config>, Vec<Finding>) {
    let warning = |Warning(problem): Warning| finding(WARNING, problem);
    match Config::load_as(path, identity) {
        Ok((config, warnings)) => (Some(config), warnings.into_iter().map(warning).collect()),
        Err(error) => {
            let problems = error.problems.into_iter().map(|problem| finding(ERROR, problem));
            let mut findings: Vec<Finding> = problems.chain(error.warnings.into_iter().map(warning)).collect();
            findings.sort_by_key(|finding| finding.line);
            (None, findings)
        }
    }
}

fn finding(level: &str, problem: Problem) -> Finding {
    let Problem { file, line, key, value, why, about } = problem;
    Finding { level: level.to_owned(), about: about.name().to_owned(), file, line, key, value, why }
}

fn environment(file: &str, key: &str, why: String) -> Finding {
    let (level, about) = (ERROR.to_owned(), "environment".to_owned());
    Finding { level, about, file: file.to_owned(), line: 0, key: key.to_owned(), value: String::new(), why }
}

fn changes(other: &Path, identity: Identity, config: &Config) -> Result<Vec<SettingChange>, Failure> {
    let (before, _) = Config::load_as(other, identity)
        .map_err(|error| Failure::bad_input(format!("--against {}: {error}", other.display())))?;
    let changes = before.changes_to(config).into_iter().map(|change| SettingChange {
        key: change.key,
        before: change.before,
        after: change.after,
        effect: change.effect.name().to_owned(),
        what_to_do: change.effect.to_string(),
    });
    Ok(changes.collect())
}

fn text(checked: &ConfigurationChecked, against: Option<&Path>, paint: Paint) -> String {
    let mut text = String::new();
    for finding in &checked.findings {
        let level = match finding.level == ERROR {
            true => paint.red("error: "),
            false => paint.bold("warning: "),
        };
        text += &format!("{level}{}\n", place(finding));
    }
    if let (Some(changes), Some(other)) = (&checked.changes, against) {
        text += &changed(changes, other, paint);
    }
    if checked.valid {
        let role = match checked.server {
            Some(id) => format!("server {id} of {}", checked.voters),
            None => "a server without others".to_owned(),
        };
        let warnings = match checked.findings.len() {
            0 => String::new(),
            count => format!(", with {}", counted(count, "warning")),
        };
        text += &format!("{}: {}, {role}{warnings}.\n", checked.file, paint.green("valid"));
    }
    text
}

/// The finding as a server would log it.
pub(crate) fn place(finding: &Finding) -> String {
    let Finding { file, line, key, value, why, .. } = finding;
    let line = if *line > 0 { format!(":{line}") } else { String::new() };
    match (key.is_empty(), value.is_empty()) {
        (true, _) => format!("{file}{line}: {why}"),
        (false, true) => format!("{file}{line}: {key}: {why}"),
        (false, false) => format!("{file}{line}: {key}={value}: {why}"),
    }
}

fn changed(changes: &[SettingChange], other: &Path, paint: Paint) -> String {
    if changes.is_empty() {
        return format!("It sets the same as {}.\n", other.display());
    }
    let mut text = format!("{} from {}:\n", differ(changes.len()), other.display());
    // Changes that need the same are told together.
    let mut told: Vec<&str> = Vec::new();
    for SettingChange { effect, what_to_do, .. } in changes {
        if told.contains(&effect.as_str()) {
            continue;
        }
        told.push(effect);
        for change in changes.iter().filter(|change| change.effect == *effect) {
            let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "(not set)".to_owned());
            let line = format!("{}: {} -> {}", change.key, value(&change.before), value(&change.after));
            text += &format!("  {}\n", paint.bold(&line));
        }
        text += &format!("    {what_to_do}.\n");
    }
    text
}

fn differ(count: usize) -> String {
    if count == 1 { "1 setting differs".to_owned() } else { format!("{count} settings differ") }
}

pub(crate) const ERROR: &str = "error";
const WARNING: &str = "warning";
