//! `pole check` and `pole convert`: what they find in good and in bad input, and their exit codes.

mod common;

use std::path::Path;

use common::{Running, Scratch, free_port, run};

const THREE: &str =
    "clientPort=2181\nserver.1=127.0.0.1:2888:3888\nserver.2=127.0.0.2:2888:3888\nserver.3=127.0.0.3:2888:3888\n";

/// A configuration of server 2 of three, with these lines besides.
fn configuration(scratch: &Scratch, name: &str, more: &str) -> String {
    scratch.file("data/myid", "2\n");
    scratch.file(name, &format!("dataDir={}\n{THREE}{more}", scratch.0.join("data").display()))
}

#[test]
fn a_good_configuration_is_0_and_says_whose_it_is() {
    let scratch = Scratch::new("check-good");
    let (code, said, _) = run(&["check", &configuration(&scratch, "zoo.cfg", "")]);
    assert_eq!(code, 0, "{said}");
    assert!(said.ends_with("zoo.cfg: valid, server 2 of 3.\n"), "{said}");
}

#[test]
fn everything_that_is_wrong_is_listed_with_its_line_and_the_code_is_2() {
    let scratch = Scratch::new("check-bad");
    let more = "tickTime=soon\nlocalSessionsEnabled=true\nnoSuchKey=1\npole.oracel=latency\nminSessionTimeout=9\nmaxSessionTimeout=8\n";
    let (code, said, complaint) = run(&["check", &configuration(&scratch, "zoo.cfg", more)]);
    assert_eq!(code, 2, "{said}");
    for line in [
        "error: ",
        "zoo.cfg:6: tickTime=soon: allowed is a whole number",
        "zoo.cfg:7: localSessionsEnabled=true: accepted and not used",
        "zoo.cfg:8: noSuchKey=1: unknown key, not used",
        "zoo.cfg:9: pole.oracel=latency: unknown key; did you mean pole.oracle?",
        "minSessionTimeout=9: is more than maxSessionTimeout=8",
    ] {
        assert!(said.contains(line), "{line} is not in:\n{said}");
    }
    assert!(complaint.contains("3 errors; a server would not start"), "{complaint}");
}

#[test]
fn findings_have_kinds_in_json() {
    let scratch = Scratch::new("check-json");
    let config =
        configuration(&scratch, "zoo.cfg", "localSessionsEnabled=true\nnoSuchKey=1\ntickTime=2000\ntickTime=2001\n");
    let (code, said, _) = run(&["check", "--json", &config]);
    let checked: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &checked["valid"], &checked["server"]), (0, &true.into(), &2.into()));
    let kinds: Vec<_> = checked["findings"].as_array().unwrap().iter().map(|f| f["about"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["no-effect", "unknown-key", "repeated-key"]);
}

#[test]
fn a_file_of_another_machine_is_checked_for_the_server_that_is_named() {
    let scratch = Scratch::new("check-id");
    let config = scratch.file("zoo.cfg", &format!("dataDir=/var/lib/elsewhere\n{THREE}"));
    let (code, said, _) = run(&["check", &config]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("/var/lib/elsewhere/myid is missing"), "{said}");
    let (code, said, _) = run(&["check", "--id", "3", &config]);
    assert_eq!(code, 0, "{said}");
    assert!(said.ends_with("valid, server 3 of 3.\n"), "{said}");
    let (code, said, _) = run(&["check", "--id", "4", &config]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("there is no server.4 line: allowed is one of 1, 2, 3"), "{said}");
}

#[test]
fn what_a_configuration_names_and_this_machine_lacks_is_an_error() {
    let scratch = Scratch::new("check-environment");
    let config = configuration(&scratch, "zoo.cfg", "pole.peer.secret=/nowhere/secret\n");
    let (code, said, _) = run(&["check", &config]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("pole.peer.secret: ") && said.contains("/nowhere/secret"), "{said}");
}

#[test]
fn a_change_is_said_with_what_it_needs() {
    let scratch = Scratch::new("check-against");
    let old = configuration(&scratch, "old.cfg", "snapCount=1000\npole.admin.token=one\n");
    let more = "snapCount=2000\npole.admin.token=two\npole.oracle=latency\n";
    let new = configuration(&scratch, "new.cfg", more).replace("127.0.0.3", "127.0.0.4");
    let text = std::fs::read_to_string(&new).unwrap().replace("127.0.0.3", "127.0.0.4");
    std::fs::write(&new, text).unwrap();
    let (code, said, _) = run(&["check", &new, "--against", &old]);
    assert_eq!(code, 0, "{said}");
    for line in [
        "4 settings differ from ",
        "  server.3: 127.0.0.3:2888:3888:participant -> 127.0.0.4:2888:3888:participant\n    servers with the old",
        "  snapCount: 1000 -> 2000\n  pole.admin.token: (hidden) -> (hidden)\n    restart this server.\n",
        "  pole.oracle: history -> latency\n    the value for an ensemble on which none was chosen",
    ] {
        assert!(said.contains(line), "{line} is not in:\n{said}");
    }
    let (_, said, _) = run(&["check", &old, "--against", &old]);
    assert!(said.contains("It sets the same as "), "{said}");
    let (code, _, said) = run(&["check", &old, "--against", "/nowhere.cfg"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--against /nowhere.cfg"), "{said}");
}

#[test]
fn a_data_directory_is_read_completely_and_left_as_it_is() {
    let scratch = Scratch::new("check-data");
    let data = written_by_a_server(&scratch);
    let before = contents(Path::new(&data));
    let (code, said, complaint) = run(&["check", &data]);
    assert_eq!(code, 0, "{said}{complaint}");
    for part in [
        "snapshot.0 ",
        "log.100000001 ",
        "A server would start at 0x100000004, from",
        "Current epoch 1, accepted epoch 1.",
        " nodes (0 ephemeral), ",
    ] {
        assert!(said.contains(part), "{part} is not in:\n{said}");
    }
    assert_eq!(contents(Path::new(&data)), before);
    let (_, said, _) = run(&["check", "--json", &format!("{data}/version-2")]);
    let checked: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(checked["error"], serde_json::Value::Null);
    // The root, /zookeeper with config and quota, and the two that were created.
    assert_eq!(checked["content"]["nodes"], 6, "{said}");
    assert_eq!(checked["history"]["last_zxid"], checked["logs"][0]["last"]);
}

#[test]
fn a_damaged_data_directory_is_5_and_says_where() {
    let scratch = Scratch::new("check-damaged");
    let data = written_by_a_server(&scratch);
    let log = Path::new(&data).join("version-2/log.100000001");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[60] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let (code, said, complaint) = run(&["check", &data]);
    assert_eq!(code, 5, "{said}{complaint}");
    assert!(said.contains("at byte 16: expected"), "{said}");
    assert!(
        complaint.contains("a server would not start") && complaint.contains("log.100000001 at byte 16"),
        "{complaint}"
    );
}

#[test]
fn a_data_directory_in_use_is_6_and_a_blank_one_is_0() {
    let scratch = Scratch::new("check-in-use");
    let data = scratch.0.join("data");
    std::fs::create_dir_all(&data).unwrap();
    let (code, said, _) = run(&["check", data.to_str().unwrap()]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("starts as a blank server"), "{said}");
    let config = scratch.file("zoo.cfg", &alone(&data, 0));
    let server = Running::reading_stderr(&["server", "--config", &config]);
    server.until(" serving ");
    let (code, _, said) = run(&["check", data.to_str().unwrap()]);
    assert_eq!(code, 6, "{said}");
    assert!(said.contains("in use by another server"), "{said}");
}

#[test]
fn a_configuration_is_converted_there_and_back() {
    let scratch = Scratch::new("convert");
    // The machine on which it is converted need not be the server's.
    let text = format!(
        "# a comment\ndataDir=/var/lib/pole\n{THREE}tickTime=2000\nlocalSessionsEnabled=true\npole.oracle=latency\n"
    );
    let cfg = scratch.file("zoo.cfg", &text);
    let (toml, again) = (scratch.0.join("pole.toml"), scratch.0.join("again.cfg"));
    let (toml, again) = (toml.to_str().unwrap(), again.to_str().unwrap());
    let (code, said, warned) = run(&["convert", &cfg, toml]);
    assert_eq!(code, 0, "{warned}");
    assert!(said.contains("means the same") && warned.contains("localSessionsEnabled"), "{said}{warned}");
    assert!(std::fs::read_to_string(toml).unwrap().contains("pole.oracle.name = \"latency\""));
    let (code, said, warned) = run(&["convert", "--json", &cfg, again]);
    let converted: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, warned.as_str(), converted["warnings"].as_array().unwrap().len()), (0, "", 1), "{said}");
    assert_eq!(run(&["convert", "--force", toml, again]).0, 0);
    let (_, said, _) = run(&["check", "--id", "1", again, "--against", &cfg]);
    assert!(said.contains("It sets the same as "), "{said}");
    let (code, said, _) = run(&["convert", toml, "-"]);
    assert_eq!((code, said), (0, std::fs::read_to_string(again).unwrap()));
}

#[test]
fn a_bad_configuration_is_not_converted_and_a_file_not_replaced_unasked() {
    let scratch = Scratch::new("convert-bad");
    let (bad, good) =
        (scratch.file("bad.cfg", "tickTime=soon\n"), scratch.file("good.cfg", "dataDir=/data\nclientPort=1\n"));
    let there = scratch.file("there.toml", "precious");
    let (code, _, said) = run(&["convert", &bad, scratch.0.join("new.toml").to_str().unwrap()]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("bad.cfg:1: tickTime=soon") && !scratch.0.join("new.toml").exists(), "{said}");
    let (code, _, said) = run(&["convert", &good, &there]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--force"), "{said}");
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "precious");
    assert_eq!(run(&["convert", "--force", &good, &there]).0, 0);
    assert!(std::fs::read_to_string(&there).unwrap().contains("clientPort = 1\n"));
}

fn alone(data: &Path, port: u16) -> String {
    let address = if port > 0 { "clientPortAddress=127.0.0.1\n" } else { "" };
    format!("dataDir={}\nclientPort={port}\n{address}admin.enableServer=false\npreAllocSize=64\n", data.display())
}

/// The data directory of a server that made two nodes and stopped.
fn written_by_a_server(scratch: &Scratch) -> String {
    let (data, port) = (scratch.0.join("data"), free_port());
    let config = scratch.file("zoo.cfg", &alone(&data, port));
    let mut server = Running::reading_stderr(&["server", "--config", &config]);
    server.until(" serving ");
    let address = format!("127.0.0.1:{port}");
    let (code, said, complaint) = run(&["shell", "--server", &address, "-c", "create /a 1", "-c", "create /a/b 2"]);
    assert_eq!(code, 0, "{said}{complaint}");
    server.signal("-TERM");
    assert!(server.end().success());
    data.display().to_string()
}

fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(dir.join("version-2")).unwrap().map(Result::unwrap);
    let mut files: Vec<_> =
        files.map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap())).collect();
    files.sort();
    files
}
