//! The directory of an ensemble: the one that was named, or a temporary one that is removed in the end.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// A directory that is there.
pub(crate) struct Place {
    path: PathBuf,
    is_temporary: bool,
}

impl Place {
    /// The directory of this name, made if it is not there.
    pub(crate) fn named(path: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        Ok(Self { path: path.canonicalize()?, is_temporary: false })
    }

    /// A new one, for us alone.
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

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_temporary {
            // What is left over is of no use to anybody, and the system clears it away.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Left over by processes that were killed and had our number.
const TRIES_MAX: u32 = 100;
