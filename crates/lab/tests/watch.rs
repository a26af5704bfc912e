//! Scripts as records: the same steps each time, for every script that is built in.

use std::fs;
use std::path::PathBuf;

use pole_lab::play::{Play, What};
use pole_lab::script::{BUILT_IN, watch};

#[test]
fn a_short_script_gives_the_steps_of_its_recording() {
    let script = "ensemble servers=3 oracle=preference scores=\"3,2,1\"\nelect\ncrash 1\nelect\nstate\n";
    let text = text(&watch(script, false).expect("a script").play);
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join("golden").join("watch.txt");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        fs::write(&golden, &text).expect("the recording");
    }
    assert_eq!(text, fs::read_to_string(&golden).expect("the recording"), "UPDATE_GOLDENFILES=1 records it anew");
}

#[test]
fn every_built_in_script_can_be_watched_and_gives_the_same_record_twice() {
    assert!(BUILT_IN.len() > 60, "{}", BUILT_IN.len());
    for (name, script) in BUILT_IN {
        let watched = watch(script, false).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(watched.broken, None, "{name}");
        assert!(watched.play.steps.iter().all(|step| step.what != What::Full), "{name} is too long to be watched");
        assert_eq!(watch(script, false).expect("as before"), watched, "{name}");
    }
}

#[test]
fn recording_changes_nothing_in_what_a_script_prints() {
    for (name, script) in BUILT_IN {
        let told = |what: &What| if let What::Told(text) = what { Some(text.clone() + "\n") } else { None };
        let play = watch(script, true).unwrap_or_else(|error| panic!("{name}: {error}")).play;
        // What runs for minutes fills a record that counts heartbeats.
        if play.steps.iter().all(|step| step.what != What::Full) {
            let printed: String = play.steps.iter().filter_map(|step| told(&step.what)).collect();
            assert_eq!(printed, expected(script), "{name}");
        }
    }
}

#[test]
fn json_has_a_line_for_each_step_that_can_be_read_alone() {
    let play = watch("ensemble\nelect\n", false).expect("a script").play;
    let lines: Vec<serde_json::Value> =
        play.jsons().map(|line| serde_json::from_str(&line).expect("a line of JSON")).collect();
    assert_eq!(lines.len(), play.steps.len());
    let last = lines.last().expect("steps");
    assert_eq!((&last["step"], &last["turn"]), (&lines.len().into(), &2.into()), "{last}");
    let servers = last["servers"].as_array().expect("servers");
    assert_eq!(servers.iter().filter(|server| server["role"] == "leads").count(), 1, "{last}");
}

#[test]
fn a_page_of_a_record_escapes_what_the_script_says_and_names_its_command() {
    let play = watch("ensemble\nelect\nwrite 1 \"<b>\" \"&\"\n", false).expect("a script").play;
    let html = play.page("<x>", "<y>", "pole lab watch '<z>'");
    assert!(!["<b>", "<x>", "<y>", "<z>"].iter().any(|raw| html.contains(raw)), "{html}");
    assert!(html.contains("Repeat it: <code>pole lab watch"), "{html}");
}

fn text(play: &Play) -> String {
    (0..play.steps.len()).map(|at| play.text(at)).collect()
}

/// What the script says that it prints. A block that prints nothing says `ok`.
fn expected(script: &str) -> String {
    let mut printed = String::new();
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        if line == "---" {
            let block: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
            if block != ["ok"] {
                block.iter().for_each(|line| printed += &format!("{line}\n"));
            }
        }
    }
    printed
}
