//! A static binary in an empty root: it resolves names, and runs a server and a client. Needs root, for `chroot` and for
//! the port of DNS, and a static binary that `POLE_STATIC` names; docs/deployment.md says how to build it.
//!
//! ```sh
//! POLE_STATIC=target/x86_64-unknown-linux-gnu/release/pole cargo test -p pole-cli --test static_binary -- --ignored
//! ```

mod common;

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output};

use common::{Running, Scratch, free_port};

/// A root with nothing but the binary, `/etc` and the folders of the image.
fn empty_root(name: &str) -> Scratch {
    let binary = std::env::var("POLE_STATIC").expect("POLE_STATIC names a static binary");
    let scratch = Scratch::new(name);
    for folder in ["conf", "data", "datalog", "tmp"] {
        fs::create_dir_all(scratch.0.join(folder)).unwrap();
    }
    fs::copy(Path::new(&binary), scratch.0.join("pole")).unwrap();
    scratch.file("etc/hosts", "127.0.0.1 zoo.in-hosts\n");
    scratch.file("etc/resolv.conf", "nameserver 127.0.0.1\n");
    scratch.file("etc/nsswitch.conf", "hosts: files dns\n");
    scratch
}

fn in_root(root: &Scratch, args: &[&str]) -> Command {
    let mut command = Command::new("chroot");
    command.arg(&root.0).arg("/pole").args(args).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

/// Answers questions for an address with 127.0.0.1 if they are about `zoo.in-dns`, and all others with nothing.
fn answer_names() {
    let socket = UdpSocket::bind("127.0.0.1:53").expect("root may open the port of DNS, and nobody else has");
    std::thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let asked = &question[12..length];
            let is_address = asked.starts_with(b"\x03zoo\x06in-dns\x00\x00\x01\x00\x01");
            // The name, its type and its class; what follows belongs to an extension.
            let end = asked.iter().position(|byte| *byte == 0).map_or(asked.len(), |at| at + 5);
            let mut answer = question[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0]);
            answer.extend(&asked[..end]);
            if is_address {
                answer.extend([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 127, 0, 0, 1]);
            }
            let _ = socket.send_to(&answer, from);
        }
    });
}

#[test]
#[ignore = "needs root and a static binary"]
fn names_are_resolved_by_file_and_by_dns_in_an_empty_root() {
    answer_names();
    let (root, port) = (empty_root("static"), free_port());
    let mut server = in_root(&root, &["entrypoint"]);
    server.env("ZOO_SERVERS", format!("server.1=zoo.in-hosts:2888:3888;{port}"));
    server
        .env("ZOO_ADMINSERVER_ENABLED", "false")
        .env("ZOO_CFG_EXTRA", "preAllocSize=64")
        .env("POLE_RUN_AS", "1000:1000");
    let server = Running::reading_stderr_of(server);
    server.until(" serving ");
    // It gave its folders to the user of the image.
    let owner = |path: &str| std::os::unix::fs::MetadataExt::uid(&fs::metadata(root.0.join(path)).unwrap());
    assert_eq!((owner("data"), owner("data/myid"), owner("data/version-2")), (1000, 1000, 1000));
    for host in ["zoo.in-hosts", "zoo.in-dns"] {
        let Output { status, stdout, stderr } =
            in_root(&root, &["shell", "--server", &format!("{host}:{port}"), "-c", "ls /"]).output().unwrap();
        let said = String::from_utf8_lossy(&stdout);
        assert!(status.success() && said.contains("zookeeper"), "{host}: {said}{}", String::from_utf8_lossy(&stderr));
    }
    let output = in_root(&root, &["shell", "--server", "no.such.name:1", "-c", "ls /"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}
