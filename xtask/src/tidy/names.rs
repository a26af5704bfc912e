//! Names and phrases that were replaced by plain ones and must not come back.

use super::text::{code, has_name, paths};
use super::{assert_none, files, root};

/// Identifiers that were metaphors or had two meanings, and the name that each has now.
const RETIRED: &[(&str, &str)] = &[
    ("Desk", "Validation"),
    ("Guest", "SimClient or ConnectionPermit"),
    ("Teller", "Transcript or OperationGenerator"),
    ("Habit", "Placement"),
    ("Visit", "Migration"),
    ("Seat", "Slot"),
    ("Letter", "Command"),
    ("Sky", "NetworkConditions"),
    ("Weather", "FaultGenerator"),
    ("Shelf", "TreeStore"),
    ("Stand", "SimTree"),
    ("Surroundings", "ServerContext"),
    ("Accounts", "LeadershipChanges"),
    ("Because", "EndReason"),
    ("Dice", "Rng"),
    ("Wound", "ServerFault"),
    ("Innocents", "Bystanders"),
    ("Happening", "an event with a name of its own"),
    ("wait_for_belief", "wait_for_lease"),
    ("say_the_rest", "drain"),
    ("take_back", "deregister"),
    ("is_to_move", "should_move"),
];

/// Names of libraries that equal retired ones. They are written with their whole path.
const OF_LIBRARIES: &[&str] = &["tracing::field::Visit"];

/// File names of the same kind.
const RETIRED_FILES: &[&str] = &[
    "desk.rs",
    "guest.rs",
    "teller.rs",
    "habit.rs",
    "visit.rs",
    "letter.rs",
    "weather.rs",
    "looking.rs",
    "accounts.rs",
    "heard.rs",
    "dice.rs",
    "innocents.rs",
];

/// Phrases that a reader stumbles over, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("whoever", "a server that …, a client that …"),
    ("clients of others", "third-party clients"),
    ("words of four letters", "four-letter words"),
    ("all it said", "full output"),
    ("for those who look", "who reads it"),
];

/// Head comments were lists of fragments with these labels, which rustdoc runs together.
const LABELS: &[&str] = &["//! In:", "//! Out:", "//! Why:", "//! Holds:", "//! Not here:"];

#[test]
fn retired_names_stay_away() {
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| file.path.ends_with(".rs") && !file.path.ends_with("tidy/names.rs")) {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        if RETIRED_FILES.contains(&name) {
            wrong.push(format!("{}: a retired file name", file.path));
        }
        for (number, line) in (1..).zip(file.text.lines()) {
            let own = OF_LIBRARIES.iter().fold(code(line).to_owned(), |line, name| line.replace(name, ""));
            let found = RETIRED.iter().filter(|(name, _)| has_name(&own, name));
            wrong.extend(found.map(|(name, now)| format!("{}:{number}: {name}: now {now}", file.path)));
            let label = LABELS.iter().find(|label| line.starts_with(**label));
            wrong.extend(label.map(|label| format!("{}:{number}: {label} write sentences", file.path)));
        }
    }
    assert_none(&wrong, "plain names have replaced these:");
}

#[test]
fn retired_phrases_stay_away() {
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| !file.path.ends_with("tidy/names.rs")) {
        for (number, line) in (1..).zip(file.text.lines()) {
            let line = line.to_lowercase();
            let found = PHRASES.iter().filter(|(phrase, _)| line.contains(phrase));
            wrong.extend(found.map(|(phrase, now)| format!("{}:{number}: {phrase}: write {now}", file.path)));
        }
    }
    assert_none(&wrong, "plain English has replaced these:");
}

#[test]
fn no_file_refers_to_a_page_outside_the_repository() {
    let outside =
        ["PAPER", "ZAB", "INTERFACES", "DESIGN", "STYLE", "COMPAT", "ADVICE"].map(|name| format!("{name}.md"));
    let mut wrong = Vec::new();
    for file in files() {
        for (number, line) in (1..).zip(file.text.lines()) {
            let found = outside.iter().filter(|page| has_name(line, page));
            wrong.extend(found.map(|page| format!("{}:{number}: {page}", file.path)));
        }
    }
    assert_none(&wrong, "these pages are not part of the project:");
}

#[test]
fn every_path_that_a_document_names_exists() {
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| file.path.ends_with(".md")) {
        for (number, line) in (1..).zip(file.text.lines()) {
            let missing = paths(line).filter(|path| !root().join(path).exists());
            wrong.extend(missing.map(|path| format!("{}:{number}: {path}", file.path)));
        }
    }
    assert_none(&wrong, "these paths do not exist:");
}
