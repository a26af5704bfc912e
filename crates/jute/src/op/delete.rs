//! delete and deleteContainer. Their replies are headers.

use alloc::string::String;

use crate::record::record;
use crate::{Error, Reader, Record, Writer};

record! {
    /// delete.
    pub struct DeleteRequest {
        /// The node.
        pub path: String,
        /// The version that the data must have; -1 for any.
        pub version: i32,
    }
}

/// deleteContainer: the leader's request to itself, once a container is empty or a node has outlived its time.
///
/// The one body that is no jute: the path fills the frame, without a length.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeleteContainerRequest {
    /// The node.
    pub path: String,
}

impl Record for DeleteContainerRequest {
    const NAME: &'static str = "DeleteContainerRequest";
    const BYTES_MIN: usize = 0;

    fn read(reader: &mut Reader) -> Result<Self, Error> {
        let bytes = reader.rest();
        Ok(Self { path: String::from_utf8_lossy(&bytes).into_owned() })
    }

    fn write(&self, writer: &mut Writer) {
        writer.raw(self.path.as_bytes());
    }
}
