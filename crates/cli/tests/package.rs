//! The Debian package: built by `cargo-deb` from the binary of this build, unpacked, and, as root, installed in a copy of
//! this system that is thrown away.
//!
//! Without `cargo-deb` or `dpkg` the checks that need them are skipped, and say so.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::Scratch;
use common::deploy::{deploy, output, tool};

#[test]
fn every_file_of_the_package_exists() {
    let own = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let deb = own.split("[package.metadata.deb]").nth(1).expect("the metadata of the package");
    let paths: Vec<&str> = deb.split('"').filter(|text| text.starts_with("../../")).collect();
    assert!(paths.len() >= 6, "{paths:?}");
    for path in paths {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(path).exists(), "{path}");
    }
    assert!(fs::read_to_string(deploy("debian/postinst")).unwrap().contains("#DEBHELPER#"));
}

/// Builds the package with the binary of this build, which has another profile and other features than that of a release.
fn package(scratch: &Scratch) -> Option<PathBuf> {
    let (cargo_deb, _) = (tool("cargo-deb")?, tool("dpkg-deb")?);
    // cargo-deb takes binaries of a release only, so this one is put where it looks.
    let target = scratch.0.join("target");
    fs::create_dir_all(target.join("release")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_pole"), target.join("release/pole")).unwrap();
    let file = scratch.0.join("pole.deb");
    let mut build = Command::new(cargo_deb);
    build.args(["--package", "pole-cli", "--no-build", "--no-strip", "--fast", "--offline", "--output"]).arg(&file);
    build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).env("CARGO_TARGET_DIR", target);
    // They describe this test, and cargo-deb would take them for its own.
    std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("CARGO_PKG_")).for_each(|(key, _)| {
        build.env_remove(key);
    });
    output(&mut build);
    Some(file)
}

#[test]
fn the_package_has_the_binary_the_unit_and_a_configuration() {
    let scratch = Scratch::new("deb");
    let Some(file) = package(&scratch) else { return };
    let fields = output(Command::new("dpkg-deb").arg("--field").arg(&file));
    for field in ["Package: pole", &format!("Version: {}", env!("CARGO_PKG_VERSION")), "adduser", "libc6"] {
        assert!(fields.contains(field), "{field}: {fields}");
    }
    let root = scratch.0.join("root");
    output(Command::new("dpkg-deb").arg("--extract").arg(&file).arg(&root));
    let control = scratch.0.join("control");
    output(Command::new("dpkg-deb").arg("--control").arg(&file).arg(&control));
    assert_eq!(fs::read_to_string(control.join("conffiles")).unwrap().trim(), "/etc/pole/zoo.cfg");
    // A service that needs its list of servers first is neither enabled nor started.
    let script = fs::read_to_string(control.join("postinst")).unwrap();
    assert!(script.contains("deb-systemd-helper") && !script.contains("#DEBHELPER#"), "{script}");
    assert!(script.contains("was-enabled") && !script.contains("deb-systemd-invoke start"), "{script}");
    let said = output(Command::new(root.join("usr/bin/pole")).arg("check").arg(root.join("etc/pole/zoo.cfg")));
    assert!(said.contains("valid"), "{said}");
    let unit = ["usr/lib/systemd/system", "lib/systemd/system"].map(|dir| root.join(dir).join("pole.service"));
    let unit = unit.iter().find(|path| path.exists()).expect("the unit is in the package");
    assert_eq!(fs::read(unit).unwrap(), fs::read(deploy("systemd/pole.service")).unwrap());
    for script in ["zkCli.sh", "zkServer.sh"] {
        let said = Command::new(root.join("usr/share/pole/bin").join(script))
            .env("POLE", root.join("usr/bin/pole"))
            .arg(if script == "zkCli.sh" { "-help" } else { "version" })
            .output()
            .unwrap();
        assert!(!said.stdout.is_empty() || !said.stderr.is_empty(), "{script}: {said:?}");
    }
}

/// `dpkg` installs it, an operator follows docs/deployment.md, the server runs as its user, and the package is removed again.
/// All of this happens in an overlay over this system, with its own mounts: the system itself is not changed.
#[test]
#[ignore = "needs root, and a kernel with overlay file systems"]
fn the_package_is_installed_used_and_removed() {
    let scratch = Scratch::new("installed");
    let Some(file) = package(&scratch) else { return };
    let script = scratch.file("install.sh", INSTALL);
    let port = common::free_port();
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--pid", "--fork", "--mount-proc", "bash", &script]).arg(&scratch.0).arg(&file);
    let said = output(inside.env("PORT", port.to_string()));
    for part in [
        "750 pole",
        "valid",
        "runs as pole",
        "Created /a",
        "stopped with 0",
        "the configuration is kept",
        "the configuration is gone",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!Path::new("/var/lib/pole").exists() && !Path::new("/etc/pole").exists(), "the system is unchanged");
}

/// Takes a folder for the overlay, and the package.
const INSTALL: &str = r#"
set -euo pipefail
mkdir "$1/layer"
mount -t tmpfs none "$1/layer"
mkdir "$1/layer/upper" "$1/layer/work" "$1/layer/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/layer/upper,workdir=$1/layer/work" "$1/layer/root"
mount --bind /proc "$1/layer/root/proc"
mount --bind /dev "$1/layer/root/dev"
mkdir -p "$1/layer/root/tmp"
cp "$2" "$1/layer/root/pole.deb"
chroot "$1/layer/root" bash -euo pipefail -c '
    export DEBIAN_FRONTEND=noninteractive
    dpkg --install /pole.deb
    stat --format "%a %U" /var/lib/pole
    test ! -e /etc/systemd/system/multi-user.target.wants/pole.service
    echo 1 > /var/lib/pole/myid
    sed -i "s/^clientPort=.*/clientPort=$PORT\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\npreAllocSize=64/" /etc/pole/zoo.cfg
    pole check /etc/pole/zoo.cfg
    setpriv --reuid pole --regid pole --clear-groups pole server --config /etc/pole/zoo.cfg 2>/server.log &
    until grep -q " serving " /server.log; do kill -0 $!; sleep 0.1; done
    echo "runs as $(stat --format %U /proc/$!)"
    /usr/share/pole/bin/zkCli.sh -server "127.0.0.1:$PORT" create /a 1
    kill $!
    code=0; wait $! || code=$?
    echo "stopped with $code"
    dpkg --remove pole
    test -e /etc/pole/zoo.cfg && test -d /var/lib/pole/version-2 && echo the configuration is kept
    dpkg --purge pole
    test ! -e /etc/pole/zoo.cfg && test -d /var/lib/pole/version-2 && echo the configuration is gone
'
"#;
