//! Stores the members of the ensemble beside the configuration file after they were changed.
//!
//! They are written to `zoo.cfg.dynamic.VERSION`, and `zoo.cfg` then names that file instead of listing the servers; the
//! former content is kept as `zoo.cfg.bak`. Both are as Apache writes them, so its tools and its server read them. A
//! `pole.toml` is left as it is. Pole itself finds the members in its data directory and needs the files only if that is lost.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use pole_tree::{Members, MembersReader};
use pole_types::Zxid;

use tracing::warn;

use crate::log::target::NODE;

/// Stores the members on a thread of its own, since the disk may be slow. A failure is only reported.
pub(crate) fn save_in_background(config: PathBuf, members: Members, version: Zxid) {
    let save = move || {
        if let Err(error) = save(&config, &members, version) {
            let what = format_args!("cannot store the members beside {}: {error}", config.display());
            warn!(target: NODE, %version, %what, "members file");
        }
    };
    // Without a thread it is not stored, which is what would happen after any other failure.
    let _ = std::thread::Builder::new().name("members-file".into()).spawn(save);
}

/// Writes the members to a file of their own, and its name into the configuration file.
fn save(config: &Path, members: &Members, version: Zxid) -> io::Result<()> {
    let dynamic = with_ending(config, &format!(".dynamic.{:x}", version.0));
    let mut lines: Vec<String> = members.entries().into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    lines.sort();
    replace(&dynamic, &(lines.join("\n") + "\n"))?;
    if config.extension().is_some_and(|extension| extension == "toml") {
        return Ok(());
    }
    let text = fs::read_to_string(config)?;
    let edited = edit(&text, &dynamic, members);
    if edited != text {
        replace(&with_ending(config, ".bak"), &text)?;
        replace(config, &edited)?;
    }
    Ok(())
}

/// The text of a configuration file with the name of the dynamic file instead of the members.
fn edit(text: &str, dynamic: &Path, members: &Members) -> String {
    let has_client_ports = members.servers.values().all(|server| server.client.is_some());
    let is_replaced = |line: &&str| {
        let key = line.split('=').next().unwrap_or_default().trim();
        let key = key.strip_prefix("zookeeper.").unwrap_or(key);
        let is_client_port = has_client_ports && (key == "clientPort" || key == "clientPortAddress");
        MembersReader::is_about(key) || key == "dynamicConfigFile" || key == "peerType" || is_client_port
    };
    let kept: String = text.lines().filter(|line| !is_replaced(line)).map(|line| format!("{line}\n")).collect();
    format!("{kept}dynamicConfigFile={}\n", super::properties::escape(&dynamic.display().to_string()))
}

/// Replaces a file as a whole, so that a crash leaves the old or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let temporary = with_ending(path, ".tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The version in the name of a dynamic file.
pub(super) fn version_of_name(path: &Path) -> Option<i64> {
    let (_, version) = path.file_name()?.to_str()?.rsplit_once(".dynamic.")?;
    u64::from_str_radix(version, 16).ok().map(u64::cast_signed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn changed_members_are_stored_as_apache_stores_them_and_read_back() {
        let dir = std::env::temp_dir().join(format!("pole-dynamic-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let config = dir.join("zoo.cfg");
        let data = dir.join("data");
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("myid"), "1").unwrap();
        let text = format!(
            "# ours\ntickTime=2000\ndataDir={}\nclientPort=2181\nreconfigEnabled=true\nserver.1=a:1:2\nserver.2=b:1:2\n",
            data.display()
        );
        fs::write(&config, &text).unwrap();
        let described = "server.1=a:1:2;2181\nserver.10=d:1:2;2181\nserver.3=c:1:2:observer;2181\nversion=0";
        let (members, _) = Members::parse_description(described).unwrap();
        save(&config, &members, Zxid(0x1_0000_0003)).unwrap();

        let dynamic = fs::read_to_string(dir.join("zoo.cfg.dynamic.100000003")).unwrap();
        let expected = "server.10=d:1:2:participant;0.0.0.0:2181\nserver.1=a:1:2:participant;0.0.0.0:2181\n\
                        server.3=c:1:2:observer;0.0.0.0:2181\n";
        assert_eq!(dynamic, expected);
        let edited = fs::read_to_string(&config).unwrap();
        assert!(
            edited.starts_with("# ours\ntickTime=2000\n")
                && !edited.contains("server.")
                && !edited.contains("clientPort")
        );
        assert_eq!(fs::read_to_string(dir.join("zoo.cfg.bak")).unwrap(), text);

        let (read, _) = Config::load(&config).unwrap();
        let ensemble = read.ensemble.unwrap();
        assert_eq!((ensemble.members, ensemble.members_version), (members, 0x1_0000_0003));
        fs::remove_dir_all(dir).unwrap();
    }
}
