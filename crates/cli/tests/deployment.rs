//! What `deploy/` contains works with this command: the entrypoint of the image, the scripts and the unit.
//! `kubernetes.rs` and `package.rs` have the rest.

mod common;

use std::fs;
use std::process::{Command, Output};

use common::deploy::{deploy, entrypoint};
use common::{Running, Scratch, free_port, run};

#[test]
fn three_containers_with_the_variables_of_the_official_image_are_an_ensemble() {
    let scratch = Scratch::new("entrypoint-three");
    let ports: Vec<u16> = (0..9).map(|_| free_port()).collect();
    let servers: Vec<String> = (0..3)
        .map(|i| {
            format!("server.{}=127.0.0.1:{}:{};127.0.0.1:{}", i + 1, ports[3 * i], ports[3 * i + 1], ports[3 * i + 2])
        })
        .collect();
    let folders: Vec<Scratch> = (1..=3).map(|id| Scratch::new(&format!("entrypoint-{id}"))).collect();
    let running: Vec<Running> = folders
        .iter()
        .enumerate()
        .map(|(index, folder)| {
            let variables = [
                ("ZOO_MY_ID", (index + 1).to_string()),
                ("ZOO_SERVERS", servers.join(" ")),
                ("ZOO_TICK_TIME", "500".to_owned()),
                ("ZOO_ADMINSERVER_ENABLED", "false".to_owned()),
                ("ZOO_4LW_COMMANDS_WHITELIST", "srvr,ruok".to_owned()),
                ("ZOO_CFG_EXTRA", "preAllocSize=64 pole.site=here".to_owned()),
                ("ZOO_LOG4J_PROP", "INFO".to_owned()),
            ];
            Running::reading_stderr_of(entrypoint(folder, &variables, &["zkServer.sh", "start-foreground"]))
        })
        .collect();
    let said: Vec<Vec<String>> = running.iter().map(|server| server.until(" serving ")).collect();
    assert!(said[0].iter().any(|line| line.contains("ZOO_LOG4J_PROP has no effect")), "{:?}", said[0]);
    assert_eq!(fs::read_to_string(folders[2].0.join("data/myid")).unwrap(), "3\n");
    let config = fs::read_to_string(folders[0].0.join("conf/zoo.cfg")).unwrap();
    assert!(config.contains("\ntickTime=500\n") && config.contains("\npole.site=here\n"), "{config}");
    // The client of the image.
    let address = format!("127.0.0.1:{}", ports[2]);
    let output = entrypoint(&scratch, &[], &["zkCli.sh", "-server", &address, "create", "/a", "1"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("Created /a"), "{output:?}");
}

#[test]
fn a_configuration_and_an_id_that_exist_are_left_alone() {
    let scratch = Scratch::new("entrypoint-existing");
    let data = scratch.0.join("data");
    let text = format!("dataDir={}\nclientPort=0\nadmin.enableServer=false\npreAllocSize=64\n", data.display());
    scratch.file("conf/zoo.cfg", &text);
    scratch.file("data/myid", "9\n");
    let variables = [("ZOO_TICK_TIME", "77".to_owned()), ("ZOO_MY_ID", "3".to_owned())];
    let server = Running::reading_stderr_of(entrypoint(&scratch, &variables, &[]));
    server.until(" serving ");
    assert_eq!(fs::read_to_string(scratch.0.join("conf/zoo.cfg")).unwrap(), text);
    assert_eq!(fs::read_to_string(scratch.0.join("data/myid")).unwrap(), "9\n");
}

#[test]
fn bad_variables_are_2_and_are_named() {
    let scratch = Scratch::new("entrypoint-bad");
    for (name, value, said) in [
        ("ZOO_MY_ID", "one", "ZOO_MY_ID=one"),
        ("ZOO_SERVERS", "server.1=a", "the form is host:quorumPort"),
        ("ZOO_CFG_EXTRA", "pole.oracel=x", "did you mean pole.oracle?"),
        ("POLE_RUN_AS", "nobody", "expected UID:GID"),
    ] {
        let _ = fs::remove_dir_all(scratch.0.join("conf"));
        let Output { status, stderr, .. } = entrypoint(&scratch, &[(name, value.to_owned())], &[]).output().unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(2), "{name}: {stderr}");
        assert!(stderr.contains(said), "{name}: {stderr}");
    }
}

#[test]
fn other_words_are_commands_of_pole_or_programs() {
    let scratch = Scratch::new("entrypoint-words");
    let said = |args: &[&str]| {
        let output = entrypoint(&scratch, &[], args).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(said(&["check", "/nowhere.cfg"]).0, Some(2));
    assert_eq!(said(&["echo", "hello"]), (Some(0), "hello\n".to_owned()));
    assert_eq!(said(&["no-such-program"]).0, Some(2));
    assert_eq!(said(&["zkServer.sh", "stop"]).0, Some(2));
}

#[test]
fn the_control_script_starts_asks_and_stops_a_server() {
    let scratch = Scratch::new("zkserver");
    let port = free_port();
    let data = scratch.0.join("data");
    scratch.file(
        "conf/zoo.cfg",
        &format!(
            "dataDir = {}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\npreAllocSize=64\n",
            data.display()
        ),
    );
    let script = |command: &str| {
        let mut bash = Command::new(deploy("bin/zkServer.sh"));
        bash.env("POLE", env!("CARGO_BIN_EXE_pole")).arg("--config").arg(scratch.0.join("conf")).arg(command);
        let output = bash.output().expect("bash is on every machine that builds this");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, said) = script("status");
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = script("start");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("STARTED"), "{said}");
    let (code, said) = script("start");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("already running"), "{said}");
    let (code, said) = script("status");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("Mode: standalone") && said.contains(&format!("Client port found: {port}")), "{said}");
    let (code, said) = script("stop");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("STOPPED") && !data.join("zookeeper_server.pid").exists(), "{said}");
    assert!(script("stop").1.contains("no pole to stop"));
    assert_eq!(script("version").1.trim(), format!("pole {}", env!("CARGO_PKG_VERSION")));
    assert_eq!(script("dance").0, Some(1));
    // A server that ends at once has failed to start, and the reason is shown.
    fs::write(scratch.0.join("conf/zoo.cfg"), format!("dataDir={}\ntickTime=soon\n", data.display())).unwrap();
    let (code, said) = script("start");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("tickTime=soon") && said.contains("FAILED TO START"), "{said}");
}

#[test]
fn the_unit_is_valid_and_its_configuration_too() {
    let scratch = Scratch::new("unit");
    let unit = fs::read_to_string(deploy("systemd/pole.service")).unwrap();
    let here = unit.replace("/usr/bin/pole", env!("CARGO_BIN_EXE_pole"));
    let path = scratch.file("pole.service", &here);
    match Command::new("systemd-analyze").args(["verify", "--man=no", &path]).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        // A machine without systemd, such as a container of CI.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
    }
    // The exit codes after which it does not start again are those that do not mend themselves.
    assert!(unit.contains("\nRestartPreventExitStatus=2 5 6\n"));
    let (code, said, _) = run(&["check", deploy("zoo.cfg").to_str().unwrap()]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("valid"), "{said}");
}

/// The command that Kubernetes runs before it stops a pod. Nothing listens here, so it cannot reach the server (3), which
/// shows that its arguments are right.
#[test]
fn the_hook_before_a_stop_is_a_command_of_pole() {
    for file in ["kubernetes/pole.yaml", "helm/pole/templates/statefulset.yaml"] {
        let text = fs::read_to_string(deploy(file)).unwrap();
        let line =
            text.lines().find_map(|line| line.trim().strip_prefix("command: [/usr/local/bin/pole, ")).expect(file);
        let args: Vec<&str> = line.trim_end_matches(']').split(", ").collect();
        let nowhere = format!("127.0.0.1:{}", free_port());
        let (code, _, complaint) = run(&[&args[..], &["--admin", &nowhere]].concat());
        assert_eq!(code, 3, "{file}: {args:?}: {complaint}");
    }
}

/// The image has no shell, so what it runs is this command, with arguments that it knows.
#[test]
fn the_image_runs_the_entrypoint_with_variables_that_it_knows() {
    let text = fs::read_to_string(deploy("docker/Dockerfile")).unwrap();
    assert!(text.contains(r#"ENTRYPOINT ["/usr/local/bin/pole", "entrypoint"]"#), "{text}");
    assert!(text.contains(r#"CMD ["zkServer.sh", "start-foreground"]"#), "{text}");
    for port in ["2181", "2888", "3888", "8080"] {
        assert!(text.lines().any(|line| line.starts_with("EXPOSE") && line.contains(port)), "{port}");
    }
    let known = include_str!("../src/entrypoint/variables.rs");
    for file in ["docker/Dockerfile", "kubernetes/pole.yaml", "helm/pole/templates/statefulset.yaml"] {
        let text = fs::read_to_string(deploy(file)).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        for word in words.filter(|word| word.starts_with("ZOO_") || word.starts_with("POLE_")) {
            assert!(known.contains(&format!("\"{word}\"")) || word == "POLE_RUN_AS", "{file}: {word}");
        }
    }
}
