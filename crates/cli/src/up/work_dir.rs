//! The directory of an ensemble: one given by the user, or a temporary one that is removed in the end.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// An existing directory.
pub(crate) struct WorkDir {
    path: PathBuf,
    is_temporary: bool,
}

impl WorkDir {
    /// The given directory, created if it does not exist.
    pub(crate) fn named(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        Ok(Self { path: path.canonicalize()?, is_temporary: false })
    }

    /// A new temporary directory, accessible to this user only.
    pub(crate) fn temporary() -> io::Result<Self> {
        let parent = std::env::temp_dir().canonicalize()?;
        let mut tries = (0..TRIES_MAX).map(|n| parent.join(format!("pole-up-{}-{n}", std::process::id())));
        loop {
            let path = tries.next().ok_or_else(|| io::Error::other(format!("{} is full of them", parent.display())))?;
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path, is_temporary: true }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.is_temporary
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if self.is_temporary {
            // On an error the leftovers are useless, and the system cleans the temporary directory.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Enough for directories left over by killed processes that had the same process id.
const TRIES_MAX: u32 = 100;
