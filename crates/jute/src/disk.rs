//! The records in files other than transactions: file headers and the contents of snapshots.
//!
//! A snapshot consists of a [`FileHeader`]; a count and that many [`SessionEntry`]s; a count and that many
//! [`AclEntry`]s; [`SnapshotNode`]s, parents before children, up to an end marker; a checksum; and since 3.6 a
//! [`ZxidDigest`] and another checksum. The checksums and the sequence of records in a file are in `storage`.

use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;

use crate::record::record;
use crate::{Acl, Cause, Error, Place, Reader, Record, StatPersisted, Value, Writer};

/// The first four bytes of a log.
pub const LOG_MAGIC: i32 = i32::from_be_bytes(*b"ZKLG");

/// The first four bytes of a snapshot.
pub const SNAPSHOT_MAGIC: i32 = i32::from_be_bytes(*b"ZKSN");

/// The version of both formats, after which their directory is called `version-2`.
pub const VERSION: i32 = 2;

/// The ACL reference of nodes without an ACL, on which everyone has all permissions: the root and Apache's own nodes
/// under `/zookeeper`. It has no [`AclEntry`]. An open ACL set by a client has an entry like any other.
pub const OPEN_ACL_REFERENCE: i64 = -1;

record! {
    /// The start of a log or a snapshot.
    #[derive(Copy)]
    pub struct FileHeader {
        /// [`LOG_MAGIC`] or [`SNAPSHOT_MAGIC`].
        pub magic: i32,
        /// [`VERSION`].
        pub version: i32,
        /// 0 in logs, -1 in snapshots; never read.
        pub dbid: i64,
    }
}

record! {
    /// An open session.
    #[derive(Copy)]
    pub struct SessionEntry {
        /// The session.
        pub id: i64,
        /// The timeout in milliseconds.
        pub timeout: i32,
    }
}

record! {
    /// An ACL that nodes refer to by number.
    pub struct AclEntry {
        /// The number used by nodes.
        pub reference: i64,
        /// The ACL.
        pub acl: Vec<Acl>,
    }
}

record! {
    /// A node of the tree.
    pub struct DataNode {
        /// Its data.
        pub data: Option<Bytes>,
        /// The [`AclEntry`] that it refers to, or [`OPEN_ACL_REFERENCE`].
        pub acl: i64,
        /// Its stat.
        pub stat: StatPersisted,
    }
}

/// A node with its path, or the end of the list of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SnapshotNode {
    /// A node. The path of the root is empty.
    Node(String, DataNode),
    /// The end marker: the path `/` with nothing after it.
    End,
}

impl Record for SnapshotNode {
    const NAME: &'static str = "SnapshotNode";
    const BYTES_MIN: usize = 5;

    fn read(reader: &mut Reader) -> Result<Self, Error> {
        match reader.string(Place::new(Self::NAME, "path"))? {
            end if end == END => Ok(Self::End),
            path => DataNode::read(reader).map(|node| Self::Node(path, node)),
        }
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Self::End => writer.string(END),
            Self::Node(path, node) => {
                writer.string(path);
                node.write(writer);
            }
        }
    }
}

/// The digest of the tree in a snapshot, and the transaction after which it was computed; all 0 if there was none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ZxidDigest {
    /// The transaction.
    pub zxid: i64,
    /// The version of the algorithm; Apache's is 2.
    pub version: i32,
    /// The digest.
    pub digest: i64,
}

impl Record for ZxidDigest {
    const NAME: &'static str = "ZxidDigest";
    const BYTES_MIN: usize = 16;

    fn read(reader: &mut Reader) -> Result<Self, Error> {
        let zxid = reader.long(Place::new(Self::NAME, "zxid"))?;
        let version = reader.int(Place::new(Self::NAME, "version"))?;
        let place = Place::new(Self::NAME, "digest");
        // Before version 2 it was a string of hexadecimal digits.
        let digest = if version < NUMBER_SINCE {
            let text = reader.nullable_string(place)?.unwrap_or_default();
            hexadecimal(&text).ok_or_else(|| reader.error(place, Cause::NotHexadecimal))?
        } else {
            reader.long(place)?
        };
        Ok(Self { zxid, version, digest })
    }

    fn write(&self, writer: &mut Writer) {
        writer.long(self.zxid);
        writer.int(self.version);
        if self.version < NUMBER_SINCE {
            alloc::format!("{:x}", self.digest).put(writer);
        } else {
            writer.long(self.digest);
        }
    }
}

/// Null and empty are read as 0.
fn hexadecimal(text: &str) -> Option<i64> {
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 16).ok().map(u64::cast_signed) }
}

/// The path that marks the end of the nodes.
const END: &str = "/";

/// The first version in which digests are numbers.
const NUMBER_SINCE: i32 = 2;
