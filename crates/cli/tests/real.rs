//! `pole lab paper --real`: one experiment of the paper on real processes, from start to report.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::{Mutex, PoisonError};

use common::{Running, Scratch, pole};

/// Tests run one at a time, because each starts ten processes.
static SERIAL: Mutex<()> = Mutex::new(());

/// All clients are at D3: only an oracle that knows the load elects the leader there.
const CASE: [&str; 5] = ["lab", "paper", "--real", "--case", "d1 p=1 latency"];

/// The first row of a table, by column.
fn row(path: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    lines.next().unwrap().zip(lines.next().expect("a run has an outcome")).collect()
}

#[test]
fn real_servers_elect_the_predicted_leader_and_take_about_as_long_as_predicted() {
    let _guard = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new("real");
    let (out, temporary) = (scratch.0.join("out"), scratch.0.join("tmp"));
    fs::create_dir(&temporary).unwrap();
    let Output { status, stderr, .. } = pole(&CASE).arg("--out").arg(&out).env("TMPDIR", &temporary).output().unwrap();
    let said = String::from_utf8_lossy(&stderr);
    // 1 if the machine is busy and a latency deviates by more than 15 %.
    assert!(matches!(status.code(), Some(0 | 1)), "{status}: {said}");
    let row = row(&out.join("real.csv"));
    assert_eq!((row["winner"].as_str(), row["predicted_winner"].as_str()), ("1", "1"), "{row:?}");
    for deviation in ["deviation_percent", "before_deviation_percent"] {
        assert!(row[deviation].parse::<f64>().unwrap().abs() < 50.0, "{row:?}");
    }
    assert!(fs::read_to_string(out.join("report.html")).unwrap().contains("On real servers"));
    assert_eq!(fs::read_dir(temporary).unwrap().count(), 0, "data of the servers is left behind");
}

#[test]
fn an_interrupt_ends_the_servers_and_removes_what_they_wrote() {
    let _guard = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    let scratch = Scratch::new("real-interrupted");
    let (out, temporary) = (scratch.0.join("out"), scratch.0.join("tmp"));
    fs::create_dir(&temporary).unwrap();
    let mut command = pole(&CASE);
    command.arg("--out").arg(&out).env("TMPDIR", &temporary);
    let mut running = Running::reading_stderr_of(command);
    running.until("runs on real servers");
    running.signal("-INT");
    running.until("interrupted");
    assert_eq!(running.end().code(), Some(1));
    assert_eq!(fs::read_dir(temporary).unwrap().count(), 0, "data of the servers is left behind");
    assert!(!out.join("report.html").exists());
}

#[test]
fn a_failure_to_start_is_reported_at_once() {
    let scratch = Scratch::new("real-nowhere");
    let mut command = pole(&CASE);
    command.arg("--out").arg(scratch.0.join("out")).env("TMPDIR", scratch.0.join("nowhere"));
    let Output { status, stderr, .. } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("TMPDIR"), "{said}");
}

#[test]
fn an_unknown_figure_or_case_is_rejected() {
    for wrong in [["--only", "8a"], ["--case", "d9 p=1 latency"]] {
        let scratch = Scratch::new("real-wrong");
        let mut command = pole(&["lab", "paper", "--real"]);
        let Output { status, stderr, .. } = command.args(wrong).arg("--out").arg(&scratch.0).output().unwrap();
        assert_eq!(status.code(), Some(2), "{}", String::from_utf8_lossy(&stderr));
        assert!(String::from_utf8_lossy(&stderr).contains("expected"), "{wrong:?}");
    }
}
