//! The file of the audit log: when it has grown too large, it is renamed with a number, and the oldest is removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Where the log is, and how large it may become.
#[derive(Clone, Debug)]
pub(crate) struct FileSettings {
    pub(crate) path: PathBuf,
    /// A file that has reached this size is continued in a new one.
    pub(crate) bytes_max: u64,
    /// Files in all.
    pub(crate) files_max: u64,
}

/// The file that is written.
pub(super) struct LogFile {
    settings: FileSettings,
    file: File,
    bytes: u64,
}

impl LogFile {
    /// Continues the file, or creates it with its directory.
    pub(super) fn open(settings: FileSettings) -> io::Result<Self> {
        if let Some(dir) = settings.path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::create_dir_all(dir)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&settings.path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { settings, file, bytes })
    }

    pub(super) fn write(&mut self, text: &str) -> io::Result<()> {
        if self.bytes >= self.settings.bytes_max {
            self.rotate()?;
        }
        self.file.write_all(text.as_bytes())?;
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// `audit.log` becomes `audit.log.1`, that `audit.log.2`, and so on.
    fn rotate(&mut self) -> io::Result<()> {
        let numbered = |number: u64| {
            let mut path = self.settings.path.clone().into_os_string();
            path.push(format!(".{number}"));
            PathBuf::from(path)
        };
        for number in (1..self.settings.files_max).rev() {
            let from = if number == 1 { self.settings.path.clone() } else { numbered(number - 1) };
            match fs::rename(from, numbered(number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        self.file = OpenOptions::new().create(true).write(true).truncate(true).open(&self.settings.path)?;
        self.bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_renamed_and_the_oldest_removed() {
        let dir = std::env::temp_dir().join(format!("pole-audit-files-{}", std::process::id()));
        let settings = FileSettings { path: dir.join("logs/audit.log"), bytes_max: 5, files_max: 3 };
        let mut file = LogFile::open(settings.clone()).expect("a file");
        for text in ["one\n", "2\n", "three\n", "four\nand more\n"] {
            file.write(text).expect("it is written");
        }
        drop(file);
        let mut file = LogFile::open(settings).expect("the same file");
        file.write("five\n").expect("it is written");
        let read = |name: &str| fs::read_to_string(dir.join("logs").join(name)).unwrap_or_default();
        let files = ["audit.log", "audit.log.1", "audit.log.2", "audit.log.3"].map(read);
        assert_eq!(files, ["five\n", "four\nand more\n", "three\n", ""]);
        fs::remove_dir_all(dir).expect("it is removed");
    }
}
