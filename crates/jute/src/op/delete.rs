//! delete and deleteContainer. Their replies have no body.

use alloc::string::String;

use crate::record::record;
use crate::{Error, Reader, Record, Writer};

record! {
    /// A delete request.
    pub struct DeleteRequest {
        /// The node.
        pub path: String,
        /// The expected version of the data; -1 matches any.
        pub version: i32,
    }
}

/// deleteContainer: a request of the leader itself, when a container is empty or the time to live of a node is over.
///
/// This is the only body that is not a jute record: the path fills the rest of the frame, without a length.
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
