//! Opens key and trust stores again when their files change: `client.certReload` and `sslQuorumReloadCertFiles`.
//!
//! Lists of revoked certificates are watched without these settings too: they are replaced often, and expired ones let
//! nobody in. Apache's server fetches its lists anew without a setting as well. Whatever changes, everything is opened.
//!
//! A thread looks at the files once a second and replaces the configuration as a whole, so that a connection has the old
//! certificates or the new ones. Existing connections keep theirs. Two files are rarely replaced at the same moment: a
//! change counts when it is the same at two looks. Stores that cannot be opened leave everything as it was, with a
//! warning, and are tried again when they change again.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, SystemTime};

use parking_lot::RwLock;
use tracing::{info, warn};

use super::Error;
use crate::config::{Password, Store, TlsSettings};
use crate::log::target::SERVER;

/// A value that may be replaced while it is in use.
#[derive(Debug)]
pub struct Live<T>(Arc<RwLock<T>>);

impl<T: Clone> Live<T> {
    /// A value that is never replaced unless it is given to `watch`.
    pub fn new(value: T) -> Self {
        Self(Arc::new(RwLock::new(value)))
    }

    /// The present value.
    #[must_use]
    pub fn get(&self) -> T {
        self.0.read().clone()
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Starts a thread that replaces the value when the files of the settings change: all files, or only those that are
/// always watched. It ends soon after the last use of the value.
pub(crate) fn watch<T: Send + Sync + 'static>(settings: &TlsSettings, all: bool, live: &Live<T>, open: Open<T>) {
    let files = files(settings, all);
    if files.is_empty() {
        return;
    }
    let mut watch = Watch::new(settings, files, live, open);
    let run = move || {
        while watch.look() != Look::Over {
            thread::sleep(LOOK_EVERY);
        }
    };
    // Without the thread, certificates are those of the start.
    if let Err(error) = thread::Builder::new().name("tls-files".into()).spawn(run) {
        warn!(target: SERVER, %error, "certificates_not_watched");
    }
}

/// Opens the stores.
type Open<T> = fn(&TlsSettings) -> Result<T, Error>;

/// The files of a configuration, and what is known of them.
struct Watch<T> {
    settings: TlsSettings,
    files: Vec<PathBuf>,
    /// When the value was made.
    opened: Vec<Option<Stamp>>,
    /// At the last look.
    last: Vec<Option<Stamp>>,
    live: Weak<RwLock<T>>,
    open: Open<T>,
}

/// What tells one state of a file from another. A tool that replaces a file makes another inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

/// What a look at the files found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Unchanged,
    /// They have changed since the last look, and may change further.
    Changing,
    /// The value was replaced.
    Opened,
    /// The stores cannot be opened.
    Failed,
    /// Nobody uses the value any more.
    Over,
}

impl<T> Watch<T> {
    fn new(settings: &TlsSettings, files: Vec<PathBuf>, live: &Live<T>, open: Open<T>) -> Self {
        let now = stamps(&files);
        let live = Arc::downgrade(&live.0);
        Self { settings: settings.clone(), files, opened: now.clone(), last: now, live, open }
    }

    fn look(&mut self) -> Look {
        let Some(live) = self.live.upgrade() else { return Look::Over };
        let now = stamps(&self.files);
        let is_settled = now == self.last;
        self.last.clone_from(&now);
        if now == self.opened {
            return Look::Unchanged;
        }
        if !is_settled {
            return Look::Changing;
        }
        self.opened = now;
        let files = self.files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
        match (self.open)(&self.settings) {
            Ok(value) => {
                *live.write() = value;
                info!(target: SERVER, %files, "certificates_opened_again");
                Look::Opened
            }
            Err(error) => {
                warn!(target: SERVER, %error, %files, "certificates_kept");
                Look::Failed
            }
        }
    }
}

fn files(settings: &TlsSettings, all: bool) -> Vec<PathBuf> {
    let stores = [&settings.key_store, &settings.trust_store].into_iter().flatten().filter(|_| all);
    let of_store = |store: &Store| {
        let password = match &store.password {
            Password::InFile(file) => Some(file.clone()),
            Password::None | Password::Given(_) => None,
        };
        [Some(store.location.clone()), password].into_iter().flatten()
    };
    stores.flat_map(of_store).chain(settings.revocation_lists.clone()).collect()
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |file: &PathBuf| {
        let found = fs::metadata(file).ok()?;
        Some(Stamp { modified: found.modified().ok(), bytes: found.len(), inode: found.ino() })
    };
    files.iter().map(stamp).collect()
}

/// Often enough for certificates, which live for days.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use rustls::ServerConfig;

    use super::super::acceptor;
    use super::*;
    use crate::config::{ClientAuth, StoreFormat};

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("pole-reload-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }

        /// Replaces a file as careful tools do, by a rename.
        fn replace(&self, name: &str, text: &str) -> PathBuf {
            let (new, path) = (self.0.join("new"), self.0.join(name));
            fs::write(&new, text).expect("a file");
            fs::rename(&new, &path).expect("a rename");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// A key with its certificate.
    fn certificate() -> String {
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::new(["localhost".to_owned()]).expect("names").self_signed(&key);
        key.serialize_pem() + &certificate.expect("a certificate").pem()
    }

    fn store(location: PathBuf, password: Password) -> Option<Store> {
        Some(Store { location, format: StoreFormat::Pem, password })
    }

    /// Whether the value was replaced since the last call.
    fn is_new(live: &Live<Arc<ServerConfig>>, last: &mut Arc<ServerConfig>) -> bool {
        let before = std::mem::replace(last, live.get());
        !Arc::ptr_eq(&before, last)
    }

    #[test]
    fn a_change_counts_when_it_has_settled() {
        let folder = Folder::new("settled");
        let replace = |name| folder.replace(name, &certificate());
        let settings = TlsSettings {
            key_store: store(replace("key.pem"), Password::InFile(folder.replace("password", "one"))),
            trust_store: store(replace("trust.pem"), Password::None),
            tls13: true,
            ..TlsSettings::default()
        };
        let live = Live::new(acceptor(&settings).expect("stores"));
        let mut last = live.get();
        let mut watch = Watch::new(&settings, files(&settings, true), &live, acceptor);
        assert_eq!(watch.look(), Look::Unchanged);
        replace("key.pem");
        assert_eq!((watch.look(), is_new(&live, &mut last)), (Look::Changing, false));
        replace("trust.pem");
        assert_eq!((watch.look(), is_new(&live, &mut last)), (Look::Changing, false));
        assert_eq!((watch.look(), is_new(&live, &mut last)), (Look::Opened, true));
        assert_eq!((watch.look(), is_new(&live, &mut last)), (Look::Unchanged, false));
        folder.replace("password", "two");
        assert_eq!([watch.look(), watch.look()], [Look::Changing, Look::Opened]);
    }

    #[test]
    fn stores_that_cannot_be_opened_change_nothing() {
        let folder = Folder::new("bad");
        let key = folder.replace("key.pem", &certificate());
        let key_store = store(key.clone(), Password::None);
        let settings = TlsSettings { key_store, client_auth: ClientAuth::None, tls13: true, ..TlsSettings::default() };
        let live = Live::new(acceptor(&settings).expect("stores"));
        let mut last = live.get();
        let mut watch = Watch::new(&settings, files(&settings, true), &live, acceptor);
        folder.replace("key.pem", "nonsense");
        assert_eq!([watch.look(), watch.look()], [Look::Changing, Look::Failed]);
        assert_eq!(watch.look(), Look::Unchanged, "not tried again");
        fs::remove_file(&key).expect("it is there");
        assert_eq!([watch.look(), watch.look()], [Look::Changing, Look::Failed]);
        assert!(!is_new(&live, &mut last));
        folder.replace("key.pem", &certificate());
        assert_eq!([watch.look(), watch.look()], [Look::Changing, Look::Opened]);
        assert!(is_new(&live, &mut last));
        drop(live);
        assert_eq!(watch.look(), Look::Over);
    }
}
