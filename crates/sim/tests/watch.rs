//! Recordings of scripts: every built-in script gives the same steps each time.

use std::fs;
use std::path::PathBuf;

use pole_sim::recording::{Recording, StepKind};
use pole_sim::script::{BUILT_IN, watch};

#[test]
fn a_short_script_gives_the_steps_of_its_recording() {
    let script = "ensemble servers=3 oracle=preference scores=\"3,2,1\"\nelect\ncrash 1\nelect\nstate\n";
    let text = text(&watch(script, false).expect("a script").recording);
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
        assert!(
            watched.recording.steps.iter().all(|step| step.kind != StepKind::Full),
            "{name} is too long to be watched"
        );
        assert_eq!(watch(script, false).expect("as before"), watched, "{name}");
    }
}

#[test]
fn recording_changes_nothing_in_what_a_script_prints() {
    for (name, script) in BUILT_IN {
        let output = |kind: &StepKind| if let StepKind::Output(text) = kind { Some(text.clone() + "\n") } else { None };
        let recording = watch(script, true).unwrap_or_else(|error| panic!("{name}: {error}")).recording;
        // A script that runs for minutes exceeds the maximum length when heartbeats are recorded.
        if recording.steps.iter().all(|step| step.kind != StepKind::Full) {
            let printed: String = recording.steps.iter().filter_map(|step| output(&step.kind)).collect();
            assert_eq!(printed, expected(script), "{name}");
        }
    }
}

#[test]
fn json_has_a_line_for_each_step_that_can_be_read_alone() {
    let recording = watch("ensemble\nelect\n", false).expect("a script").recording;
    let lines: Vec<serde_json::Value> =
        recording.jsons().map(|line| serde_json::from_str(&line).expect("a line of JSON")).collect();
    assert_eq!(lines.len(), recording.steps.len());
    let last = lines.last().expect("steps");
    assert_eq!((&last["step"], &last["turn"]), (&lines.len().into(), &2.into()), "{last}");
    let servers = last["servers"].as_array().expect("servers");
    assert_eq!(servers.iter().filter(|server| server["role"] == "leads").count(), 1, "{last}");
}

fn text(recording: &Recording) -> String {
    (0..recording.steps.len()).map(|at| recording.text(at)).collect()
}

/// The expected output in the script. A block without output has `ok`.
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
