//! `pole completions`: the scripts are valid, and know the commands.

mod common;

use std::io::Write as _;
use std::process::{Command, Stdio};

use common::run;

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    for (shell, mark) in [("bash", "complete -F _pole"), ("zsh", "#compdef pole"), ("fish", "complete -c pole")] {
        let (code, script, complaint) = run(&["completions", shell]);
        assert_eq!(code, 0, "{complaint}");
        assert!(script.contains(mark), "{shell}: {script}");
        for word in ["backup", "transfer", "--against"] {
            assert!(script.contains(word) || script.contains(word.trim_start_matches('-')), "{word} in {shell}");
        }
    }
    assert_eq!(run(&["completions", "csh"]).0, 2);
}

/// A completion as bash makes it: the script is loaded, and its function is called with the words typed so far.
#[test]
fn bash_completes_a_command_and_an_option() {
    let (_, script, _) = run(&["completions", "bash"]);
    let complete = |words: &str, current: &str| {
        let line = format!(
            "{script}\nCOMP_WORDS=({words} {current}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _pole pole '{current}' ''\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
        );
        let mut bash = Command::new("bash")
            .arg("--norc")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash is on every machine that builds this");
        bash.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
        String::from_utf8(bash.wait_with_output().unwrap().stdout).unwrap()
    };
    assert_eq!(complete("pole", "tra").trim(), "transfer");
    assert_eq!(complete("pole check", "--aga").trim(), "--against");
}
