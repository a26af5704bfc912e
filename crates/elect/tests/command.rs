//! `pole-elect` as a program: the command runs only while leading, and ends with leadership.
//!
//! The commands write to a named pipe of the test. Its end is reached when the last process of the command is gone, so
//! the tests wait for that and need no pauses.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A directory with a named pipe, removed in the end.
struct Pipe {
    folder: PathBuf,
}

impl Pipe {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("pole-elect-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let made = Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap();
        assert!(made.success());
        Self { folder }
    }

    fn path(&self) -> String {
        self.folder.join("pipe").to_str().unwrap().to_owned()
    }

    /// Waits for the command to open its end.
    fn open(&self) -> BufReader<File> {
        BufReader::new(File::open(self.path()).unwrap())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Starts a candidate with a lease of two seconds that runs a script, with the pipe as its output.
fn start(pipe: &Pipe, script: &str, options: &[&str]) -> Child {
    command(pipe, script, options).stderr(Stdio::null()).spawn().unwrap()
}

fn command(pipe: &Pipe, script: &str, options: &[&str]) -> Command {
    let script = format!("exec >{}; {script}", pipe.path());
    let mut command = Command::new(env!("CARGO_BIN_EXE_pole-elect"));
    command.args(["mem://", "--id", "a", "--score", "1", "--ttl", "2s"]).args(options);
    command.args(["--", "sh", "-c", &script]);
    command
}

fn line(pipe: &mut BufReader<File>) -> String {
    let mut line = String::new();
    pipe.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn rest(pipe: &mut BufReader<File>) -> String {
    let mut rest = String::new();
    pipe.read_to_string(&mut rest).unwrap();
    rest
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn the_command_gets_token_and_id_and_its_exit_code_counts() {
    let pipe = Pipe::new("exit");
    let mut child = start(&pipe, "echo $POLE_ELECT_ID $POLE_ELECT_TOKEN; exit 7", &[]);
    assert_eq!(rest(&mut pipe.open()), "a 1\n");
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn a_command_that_is_not_there_is_named_and_ends_with_127() {
    let program = env!("CARGO_BIN_EXE_pole-elect");
    let output = Command::new(program).args(["mem://", "--id", "a", "--", "/no/such"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such"));
}

#[test]
fn sigterm_stops_the_command_in_order() {
    let pipe = Pipe::new("term");
    let mut child = start(&pipe, "trap 'echo asked; exit 3' TERM; echo started; while :; do sleep 0.05; done", &[]);
    let mut output = pipe.open();
    assert_eq!(line(&mut output), "started");
    signal(&child, Signal::TERM);
    assert_eq!(rest(&mut output), "asked\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_command_that_ignores_sigterm_is_killed() {
    let pipe = Pipe::new("ignore");
    let mut child = start(&pipe, "trap '' TERM; echo started; while :; do sleep 0.05; done", &["--grace", "100ms"]);
    let mut output = pipe.open();
    assert_eq!(line(&mut output), "started");
    let asked = Instant::now();
    signal(&child, Signal::TERM);
    assert_eq!(rest(&mut output), "");
    assert!(asked.elapsed() >= Duration::from_millis(100), "it had its time: {:?}", asked.elapsed());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn killing_pole_elect_ends_the_command_and_its_children() {
    let pipe = Pipe::new("kill");
    let mut child = start(&pipe, "sleep 1000 & echo started; sleep 1000", &[]);
    let mut output = pipe.open();
    assert_eq!(line(&mut output), "started");
    signal(&child, Signal::KILL);
    assert_eq!(rest(&mut output), "");
    child.wait().unwrap();
}

/// The supervisor enforces the deadline by itself.
#[test]
fn a_stopped_pole_elect_does_not_keep_the_command_beyond_the_lease() {
    let pipe = Pipe::new("stop");
    let mut child = start(&pipe, "trap 'echo asked; exit' TERM; echo started; while :; do sleep 0.05; done", &[]);
    let mut output = pipe.open();
    assert_eq!(line(&mut output), "started");
    let stopped = Instant::now();
    signal(&child, Signal::STOP);
    assert_eq!(rest(&mut output), "asked\n");
    assert!(stopped.elapsed() < Duration::from_secs(2), "after {:?}, with a lease of 2 s", stopped.elapsed());
    // When it continues, the term is over, but not its work: it campaigns again.
    signal(&child, Signal::CONT);
    assert_eq!(line(&mut pipe.open()), "started");
    signal(&child, Signal::KILL);
    child.wait().unwrap();
}

/// As after an upgrade: the file of the running program is gone when the next term begins.
#[test]
fn a_program_whose_file_was_removed_can_lead_again() {
    let pipe = Pipe::new("upgrade");
    let file = Path::new(env!("CARGO_BIN_EXE_pole-elect"));
    let link = file.with_file_name(format!("pole-elect-{}", std::process::id()));
    std::fs::hard_link(file, &link).unwrap();
    let mut command = Command::new(&link);
    let script = format!("exec >{}; echo started; exec sleep 1000", pipe.path());
    command.args(["mem://", "--id", "a", "--ttl", "2s", "--", "sh", "-c", &script]).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut output = pipe.open();
    assert_eq!(line(&mut output), "started");
    std::fs::remove_file(&link).unwrap();
    // The supervisor ends the term, and the next one begins.
    signal(&child, Signal::STOP);
    assert_eq!(rest(&mut output), "");
    signal(&child, Signal::CONT);
    assert_eq!(line(&mut pipe.open()), "started");
    signal(&child, Signal::KILL);
    child.wait().unwrap();
}

#[test]
fn the_command_outlives_many_renewals() {
    let pipe = Pipe::new("renew");
    let mut child = start(&pipe, "sleep 3; echo done", &[]);
    assert_eq!(rest(&mut pipe.open()), "done\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_score_command_decides_nothing_alone_but_is_run() {
    let pipe = Pipe::new("score");
    let program = env!("CARGO_BIN_EXE_pole-elect");
    let script = format!("echo ran >{}; echo 5", pipe.path());
    let mut command = Command::new(program);
    command.args(["mem://", "--id", "a", "--ttl", "1s", "--score-cmd", &script, "--", "sleep", "1000"]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(rest(&mut pipe.open()), "ran\n");
    signal(&child, Signal::TERM);
    child.wait().unwrap();
}

/// The first time it is asked, the score command hangs in a child of its shell.
#[test]
fn a_score_command_that_hangs_ends_with_its_children() {
    let pipe = Pipe::new("hang");
    let asked = pipe.folder.join("asked");
    let script = format!(
        "[ -e {0} ] && exec echo 5; touch {0}; exec 3>{1}; echo hangs >&3; sleep 60; echo 5",
        asked.display(),
        pipe.path()
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_pole-elect"));
    command.args(["mem://", "--id", "a", "--score-every", "200ms", "--score-cmd", &script, "--", "sleep", "1000"]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    assert_eq!(rest(&mut pipe.open()), "hangs\n");
    assert!(begin.elapsed() < Duration::from_secs(30), "the child of the shell lived for {:?}", begin.elapsed());
    signal(&child, Signal::TERM);
    child.wait().unwrap();
}

#[test]
fn metrics_are_served_while_the_candidate_runs() {
    let pipe = Pipe::new("metrics");
    let options = ["--metrics", "127.0.0.1:0"];
    let mut child = command(&pipe, "echo started; sleep 1000", &options).stderr(Stdio::piped()).spawn().unwrap();
    let log = BufReader::new(child.stderr.take().unwrap());
    let found = |line: String| line.split_once(" metrics address=").map(|(_, address)| address.to_owned());
    let address = log.lines().find_map(|line| found(line.unwrap())).unwrap();
    assert_eq!(line(&mut pipe.open()), "started");
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut stream, b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\npole_elect_leading 1\n") && answer.contains("\npole_elect_terms_total 1\n"), "{answer}");
    signal(&child, Signal::TERM);
    child.wait().unwrap();
}

#[test]
fn bad_arguments_end_with_2() {
    let run = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_pole-elect")).args(args).output().unwrap();
    for args in [&["mem://"][..], &["nonsense", "status"], &["mem://", "--id", "a", "--ttl", "1ms", "--", "true"]] {
        assert_eq!(run(args).status.code(), Some(2), "{args:?}");
    }
    let status = run(&["mem://", "status", "--json"]);
    assert_eq!(status.status.code(), Some(0));
    let value: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!((&value["leader"], &value["store"]["name"]), (&serde_json::Value::Null, &"mem".into()));
    assert_eq!(run(&["mem://", "resign"]).status.code(), Some(1), "there is nobody to ask");
}
