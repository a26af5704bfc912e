//! A model of directories after a crash: what is durable, and the changes since the last sync.
//!
//! A file is identified by the directory above `version-2` and its own name.

use std::collections::BTreeMap;
use std::path::Path;

use super::Rng;
use crate::volume::Effect;

/// A file, independent of its name.
type Inode = usize;

/// Which of the unsynced changes survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survival {
    Nothing,
    Everything,
    /// A random selection of names, lengths and sectors.
    Some,
}

impl Survival {
    fn keeps(self, rng: &mut Rng) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Some => rng.flip(),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Content {
    synced: Vec<u8>,
    since: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Box<[u8]>),
    SetLen(u64),
}

#[derive(Clone, Debug)]
enum NameChange {
    Set(String, Inode),
    Move(String, String, Inode),
    Unset(String, Inode),
}

/// One or two directories.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    contents: Vec<Content>,
    /// The names that a running process sees.
    live: BTreeMap<String, Inode>,
    synced: BTreeMap<String, Inode>,
    since: Vec<NameChange>,
}

impl Image {
    /// A directory with these files, all of them durable.
    pub(super) fn of(files: &BTreeMap<String, Vec<u8>>) -> Self {
        let mut image = Self::default();
        for (name, content) in files {
            image.live.insert(name.clone(), image.contents.len());
            image.contents.push(Content { synced: content.clone(), since: Vec::new() });
        }
        image.synced = image.live.clone();
        image
    }

    pub(super) fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Create(path) => self.create(name(path)),
            Effect::Write(path, at, bytes) => self.change(path, Change::Write(*at, bytes.clone())),
            Effect::SetLen(path, len) => self.change(path, Change::SetLen(*len)),
            Effect::Sync(path) => {
                let inode = self.live[&name(path)];
                self.contents[inode].sync();
            }
            Effect::Rename(from, to) => {
                let inode = self.live.remove(&name(from)).unwrap();
                self.live.insert(name(to), inode);
                self.since.push(NameChange::Move(name(from), name(to), inode));
            }
            Effect::Remove(path) => {
                let inode = self.live.remove(&name(path)).unwrap();
                self.since.push(NameChange::Unset(name(path), inode));
            }
            Effect::SyncDir(dir) if dir.ends_with("version-2") => self.sync_dir(&name(&dir.join(""))),
            Effect::SyncDir(_) => {}
        }
    }

    /// The files found if the process ends now and the machine keeps running.
    pub(super) fn kill(&self) -> BTreeMap<String, Vec<u8>> {
        let content = |inode: &Inode| self.contents[*inode].crash(Survival::Everything, &mut Rng::new(0));
        self.live.iter().map(|(name, inode)| (name.clone(), content(inode))).collect()
    }

    /// The files found after a crash of the machine now.
    pub(super) fn crash(&self, survival: Survival, rng: &mut Rng) -> BTreeMap<String, Vec<u8>> {
        let mut names = self.synced.clone();
        for change in &self.since {
            if survival.keeps(rng) {
                change.apply(&mut names);
            }
        }
        names.into_iter().map(|(name, inode)| (name, self.contents[inode].crash(survival, rng))).collect()
    }

    /// Makes the names with this prefix durable, and no others.
    fn sync_dir(&mut self, prefix: &str) {
        self.since.retain(|change| !change.name().starts_with(prefix));
        self.synced.retain(|name, _| !name.starts_with(prefix));
        let live = self.live.iter().filter(|(name, _)| name.starts_with(prefix));
        self.synced.extend(live.map(|(name, inode)| (name.clone(), *inode)));
    }

    /// Creates a file; an existing one is truncated and not replaced.
    fn create(&mut self, name: String) {
        if let Some(inode) = self.live.get(&name) {
            self.contents[*inode].since.push(Change::SetLen(0));
            return;
        }
        let inode = self.contents.len();
        self.contents.push(Content::default());
        self.live.insert(name.clone(), inode);
        self.since.push(NameChange::Set(name, inode));
    }

    fn change(&mut self, path: &Path, change: Change) {
        let inode = self.live[&name(path)];
        self.contents[inode].since.push(change);
    }
}

impl Content {
    fn sync(&mut self) {
        let mut rng = Rng::new(0);
        self.synced = self.crash(Survival::Everything, &mut rng);
        self.since.clear();
    }

    fn crash(&self, survival: Survival, rng: &mut Rng) -> Vec<u8> {
        let mut content = self.synced.clone();
        for change in &self.since {
            match change {
                Change::SetLen(len) if survival.keeps(rng) => content.resize(*len as usize, 0),
                Change::SetLen(_) => {}
                Change::Write(at, bytes) => write(&mut content, *at as usize, bytes, survival, rng),
            }
        }
        content
    }
}

/// Writes sector by sector, each of which may be lost.
fn write(content: &mut Vec<u8>, at: usize, bytes: &[u8], survival: Survival, rng: &mut Rng) {
    let mut from = at;
    while from < at + bytes.len() {
        let to = (from / SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES).min(at + bytes.len());
        if survival.keeps(rng) {
            content.resize(content.len().max(to), 0);
            content[from..to].copy_from_slice(&bytes[from - at..to - at]);
        }
        from = to;
    }
}

impl NameChange {
    /// The name that changes. Files are moved only within their directory.
    fn name(&self) -> &str {
        match self {
            Self::Set(name, _) | Self::Move(name, _, _) | Self::Unset(name, _) => name,
        }
    }

    fn apply(&self, names: &mut BTreeMap<String, Inode>) {
        match self {
            Self::Set(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            Self::Move(from, to, inode) => {
                names.retain(|name, found| name != from || found != inode);
                names.insert(to.clone(), *inode);
            }
            Self::Unset(name, inode) => names.retain(|found, at| found != name || at != inode),
        }
    }
}

fn name(path: &Path) -> String {
    let (above, own) = path.to_str().unwrap().split_once("/version-2/").expect("files are in version-2");
    format!("{}/{own}", above.rsplit('/').next().unwrap())
}

/// The unit that every disk writes atomically.
const SECTOR_BYTES: usize = 512;
