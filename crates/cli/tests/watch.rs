//! `pole lab watch` as a process: its output without a terminal, and that it restores a terminal.

mod common;

use common::terminal::Terminal;
use common::{Scratch, run};
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn without_a_terminal_it_prints_every_step_and_ends() {
    let (code, text, errors) = run(&["lab", "watch", "18a"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    for part in ["\n> start 3\n", "3 -> 2  sends Hello r1", "3: chose 2, epoch 0", "| 3 follows 2: incumbent"] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert_eq!(run(&["lab", "watch", "18a"]).1, text, "the same each time");
}

#[test]
fn with_json_each_step_is_a_line_of_json() {
    let (code, text, _) = run(&["lab", "watch", "18a", "--json"]);
    assert_eq!(code, 0);
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(lines.iter().any(|line| line["kind"] == "lost") && lines.iter().all(|line| line["at_ms"].is_number()));
}

#[test]
fn classical_algorithms_can_be_watched_by_their_names() {
    let (code, text, _) = run(&["lab", "watch", "bully"]);
    assert_eq!(code, 0);
    assert!(text.contains("0 -> 3  sends Election") && text.contains("3: leads"), "{text}");
}

#[test]
fn an_unknown_script_is_answered_with_a_list_of_scripts() {
    let (code, _, errors) = run(&["lab", "watch", "nowhere"]);
    assert_eq!(code, 2);
    assert!(errors.starts_with("pole: nowhere: no such file, script or algorithm."), "{errors}");
    assert!(errors.contains("bully") && errors.contains("\n  18a-a-late-server-adopts-the-incumbent"), "{errors}");
}

#[test]
fn an_invalid_script_is_rejected_with_file_line_and_reason() {
    let folder = Scratch::new("watch-senseless");
    let path = folder.file("senseless", "ensemble servers=3\nelect\ncrash 7\n");
    let (code, _, errors) = run(&["lab", "watch", &path]);
    assert_eq!((code, errors), (2, format!("pole: {path}:3: command 'crash': there is no server 7\n")));
}

#[test]
fn a_page_is_written_that_needs_nothing_else() {
    let folder = Scratch::new("watch-page");
    let (code, text, _) = run(&["lab", "watch", "18a", "--out", folder.0.to_str().unwrap()]);
    let path = folder.0.join("18a-a-late-server-adopts-the-incumbent.html");
    assert_eq!((code, text), (0, format!("Written: {}\n", path.display())));
    let html = std::fs::read_to_string(path).unwrap();
    assert!(html.contains("class=\"player\"") && html.contains("pole lab watch 18a"));
    assert!(!html.contains("src=") && !html.contains("href=\"http"), "it names other files");
}

#[test]
fn keys_step_through_it_and_the_terminal_is_restored() {
    let mut terminal = Terminal::start(&["lab", "watch", "18a"]);
    terminal.until("q quit");
    terminal.type_keys("]]");
    terminal.until("> start 3");
    terminal.type_keys("q");
    // The cursor is visible again, and the main screen is back.
    terminal.until("\x1b[?25h\x1b[?1049l");
    terminal.assert_restored();
}

#[test]
fn ctrl_c_restores_the_terminal() {
    let mut terminal = Terminal::start(&["lab", "watch", "18a"]);
    terminal.until("q quit");
    terminal.type_keys("\x03");
    // The cursor is visible again, and the main screen is back.
    terminal.until("\x1b[?25h\x1b[?1049l");
    terminal.assert_restored();
}

#[test]
fn a_signal_restores_the_terminal() {
    let mut terminal = Terminal::start(&["lab", "watch", "18a"]);
    terminal.until("q quit");
    let pid = Pid::from_child(&terminal.child);
    kill_process(pid, Signal::TERM).unwrap();
    // The cursor is visible again, and the main screen is back.
    terminal.until("\x1b[?25h\x1b[?1049l");
    terminal.assert_restored();
}
