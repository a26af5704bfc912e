//! An invalid topology file is rejected with file, line and reason: by `pole up`, and by a script of the lab.

mod common;

use common::{Scratch, run};

const GOOD: &str = "\
[[server]]
id = 1
site = \"A\"
[[server]]
id = 2
site = \"B\"
[[server]]
id = 3
site = \"B\"
[[link]]
a = \"A\"
b = \"B\"
rtt_ms = 10
";

/// A part of the good file, its replacement, the expected line number, and the full message.
const WRONG: [(&str, &str, usize, &str); 8] = [
    ("rtt_ms = 10", "rtt_ms = -10", 13, "rtt_ms = -10: must be between 0 and 600000"),
    ("a = \"A\"\nb", "a = \"C\"\nb", 11, "unknown site \"C\": no [[server]] is there"),
    ("id = 3\nsite = \"B\"", "id = 3\nsite = \"C\"", 8, "no link A - C: every pair of sites needs a [[link]]"),
    ("id = 3", "id = 2", 8, "server 2 is already on line 5"),
    (GOOD, "name = \"empty\"\n", 1, "no servers, so no quorum: a topology needs at least one [[server]]"),
    (
        "[[server]]\nid = 1",
        "loss_percent = 100\n[[server]]\nid = 1",
        1,
        "no quorum: with loss_percent = 100 no message arrives, and 3 servers never agree; give less, or one server",
    ),
    ("id = 3\n", "id 3\n", 8, "key with no value, expected `=`"),
    ("id = 3\n", "id = 3\nweight = 4\n", 9, "unknown field `weight`, expected `id` or `site`"),
];

#[test]
fn pole_up_refuses_a_wrong_topology_file_with_file_line_and_reason() {
    for (good, wrong, line, reason) in WRONG {
        let scratch = Scratch::new("topology-up");
        let file = scratch.file("wrong.toml", &GOOD.replacen(good, wrong, 1));
        let (code, _, said) = run(&["up", "--topology", &file]);
        assert_eq!((code, said), (2, format!("pole: {file}:{line}: {reason}\n")));
    }
}

#[test]
fn a_script_with_a_wrong_topology_file_is_refused_with_the_lines_of_both() {
    for (good, wrong, line, reason) in WRONG {
        let scratch = Scratch::new("topology-lab");
        let file = scratch.file("wrong.toml", &GOOD.replacen(good, wrong, 1));
        let script = scratch.file("script", &format!("# A file.\nensemble topology=\"{file}\"\nelect\n"));
        let (code, _, said) = run(&["lab", "watch", &script]);
        assert_eq!((code, said), (2, format!("pole: {script}:2: command 'ensemble': {file}:{line}: {reason}\n")));
    }
}

#[test]
fn a_script_plays_on_a_topology_file_that_is_right() {
    let scratch = Scratch::new("topology-good");
    let file = scratch.file("good.toml", GOOD);
    let script = scratch.file("script", &format!("ensemble topology=\"{file}\"\nelect\n"));
    let (code, text, said) = run(&["lab", "watch", &script]);
    assert_eq!((code, said.as_str()), (0, ""));
    assert!(text.contains("3 leads, epoch 1"), "{text}");
}
