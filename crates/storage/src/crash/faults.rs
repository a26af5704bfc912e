//! Injected failures of file operations.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::volume::Operation;

/// The operation that fails, if any.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Mutex<Option<Fault>>>);

#[derive(Clone, Debug)]
struct Fault {
    operation: Operation,
    /// The prefix of the file name.
    name: &'static str,
    kind: io::ErrorKind,
}

impl Faults {
    /// Makes this operation fail from now on, on files whose names have this prefix.
    pub(crate) fn inject(&self, operation: Operation, name: &'static str, kind: io::ErrorKind) {
        *self.0.lock().unwrap() = Some(Fault { operation, name, kind });
    }

    pub(crate) fn attempt(&self, operation: Operation, path: &Path) -> io::Result<()> {
        let fault = self.0.lock().unwrap().clone();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match fault {
            Some(fault) if fault.operation == operation && name.starts_with(fault.name) => Err(fault.kind.into()),
            _ => Ok(()),
        }
    }
}
