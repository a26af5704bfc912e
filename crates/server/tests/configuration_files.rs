//! Configurations on a real disk.

use std::fs;
use std::path::PathBuf;

use pole_server::config::Config;

/// A directory with a `myid`; gone at the end of a test.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let home = Self(std::env::temp_dir().join(format!("pole-config-{}-{name}", std::process::id())));
        fs::create_dir_all(&home.0).unwrap();
        fs::write(home.0.join("myid"), "2\n").unwrap();
        home
    }

    fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.0.join(file);
        fs::write(&path, text.replace("HOME", self.0.to_str().unwrap())).unwrap();
        path
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn both_kinds_of_file_load_to_the_same_and_are_told_apart_by_their_ending() {
    let home = Home::new("both");
    let cfg = "dataDir=HOME\nclientPort=2181\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";
    let toml = "dataDir='HOME'\nclientPort=2181\nserver.1='a:1:2'\nserver.2='b:1:2'\nserver.3='c:1:2'\n";
    let (from_cfg, _) = Config::load(&home.write("zoo.cfg", cfg)).unwrap();
    let (from_toml, _) = Config::load(&home.write("pole.toml", toml)).unwrap();
    assert_eq!(from_cfg.me().0, 2);
    assert_eq!(from_cfg, from_toml);
}

#[test]
fn servers_are_read_from_the_file_that_is_named() {
    let home = Home::new("dynamic");
    home.write("servers", "server.1=a:1:2;5\nserver.2=b:1:2;5\nserver.3=c:1:2;5\nversion=0\n");
    let (config, warnings) =
        Config::load(&home.write("zoo.cfg", "dataDir=HOME\ndynamicConfigFile=HOME/servers\n")).unwrap();
    assert_eq!((config.voters().len(), warnings), (3, Vec::new()));
}

#[test]
fn a_file_that_nobody_wrote_by_hand_is_refused() {
    let home = Home::new("long");
    let told = Config::load(&home.write("zoo.cfg", &"#".repeat(2 << 20))).unwrap_err().to_string();
    assert!(told.contains("longer than a megabyte"), "{told}");
    fs::write(home.0.join("binary"), [0xff; 10]).unwrap();
    assert!(Config::load(&home.0.join("binary")).unwrap_err().to_string().contains("cannot be read"));
}
