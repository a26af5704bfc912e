//! Tests of loading configurations from files on disk.

use std::fs;
use std::path::PathBuf;

use pole_server::config::Config;

/// A directory with a `myid`, removed at the end of the test.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> Self {
        let dir = Self(std::env::temp_dir().join(format!("pole-config-{}-{name}", std::process::id())));
        fs::create_dir_all(&dir.0).unwrap();
        fs::write(dir.0.join("myid"), "2\n").unwrap();
        dir
    }

    fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.0.join(file);
        fs::write(&path, text.replace("HOME", self.0.to_str().unwrap())).unwrap();
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn both_formats_load_to_the_same_and_are_distinguished_by_extension() {
    let dir = TempDir::new("both");
    let cfg = "dataDir=HOME\nclientPort=2181\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";
    let toml = "dataDir='HOME'\nclientPort=2181\nserver.1='a:1:2'\nserver.2='b:1:2'\nserver.3='c:1:2'\n";
    let (from_cfg, _) = Config::load(&dir.write("zoo.cfg", cfg)).unwrap();
    let (from_toml, _) = Config::load(&dir.write("pole.toml", toml)).unwrap();
    assert_eq!(from_cfg.me().0, 2);
    assert_eq!(from_cfg, from_toml);
}

#[test]
fn servers_are_read_from_the_file_that_is_named() {
    let dir = TempDir::new("dynamic");
    dir.write("servers", "server.1=a:1:2;5\nserver.2=b:1:2;5\nserver.3=c:1:2;5\nversion=0\n");
    let (config, warnings) =
        Config::load(&dir.write("zoo.cfg", "dataDir=HOME\ndynamicConfigFile=HOME/servers\n")).unwrap();
    assert_eq!((config.voters().len(), warnings), (3, Vec::new()));
}

#[test]
fn a_file_that_is_too_long_or_not_text_is_refused() {
    let dir = TempDir::new("long");
    let message = Config::load(&dir.write("zoo.cfg", &"#".repeat(2 << 20))).unwrap_err().to_string();
    assert!(message.contains("longer than a megabyte"), "{message}");
    fs::write(dir.0.join("binary"), [0xff; 10]).unwrap();
    assert!(Config::load(&dir.0.join("binary")).unwrap_err().to_string().contains("cannot be read"));
}

#[test]
fn the_configuration_of_a_source_may_have_what_concerns_only_servers() {
    let dir = TempDir::new("source");
    let servers = "dataDir=HOME\nclientPort=2181\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";
    let unified = dir.write("unified.cfg", &format!("{servers}portUnification=true\nadmin.forceHttps=true\n"));
    assert!(Config::load(&unified).unwrap_err().to_string().contains("portUnification"));
    let (config, _) = Config::load_source(&unified).unwrap();
    assert_eq!(config.voters().iter().count(), 3);

    // The leader would ask the copy for it.
    let asked = dir.write("asked.cfg", &format!("{servers}quorum.auth.enableSasl=true\n"));
    assert!(Config::load_source(&asked).unwrap_err().to_string().contains("quorum.auth.enableSasl"));
    let wrong = dir.write("wrong.cfg", &format!("{servers}tickTime=soon\n"));
    assert!(Config::load_source(&wrong).unwrap_err().to_string().contains("tickTime"));
}
