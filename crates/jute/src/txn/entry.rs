//! An entry of the log: header, transaction, and since 3.6 a digest of the tree after it.
//!
//! The checksum and the length in front of it, and the end marker, are in `storage`.

use crate::record::record;
use crate::{Cause, Error, OpCode, Place, Reader, Record, Txn, Writer};

record! {
    /// Identifies a transaction.
    #[derive(Copy)]
    pub struct TxnHeader {
        /// The session that sent the request.
        pub client_id: i64,
        /// The client's number for the request.
        pub cxid: i32,
        /// The position in the history.
        pub zxid: i64,
        /// When the leader created it, in milliseconds since 1970.
        pub time: i64,
        /// The type of the transaction: the number of an [`OpCode`].
        pub op: i32,
    }
}

record! {
    /// The digest of the tree after a transaction.
    #[derive(Copy)]
    pub struct TxnDigest {
        /// The version of the algorithm; Apache's is 2.
        pub version: i32,
        /// The digest.
        pub tree_digest: i64,
    }
}

/// An entry of the log. The type in the header must match the transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TxnEntry {
    /// Identifies the transaction.
    pub header: TxnHeader,
    /// The transaction.
    pub txn: Txn,
    /// Absent in old logs, and if digests are disabled.
    pub digest: Option<TxnDigest>,
}

impl Record for TxnEntry {
    const NAME: &'static str = "TxnEntry";
    const BYTES_MIN: usize = <TxnHeader as Record>::BYTES_MIN;

    /// Reads to the end of the input, because the end of a log entry determines its form.
    fn read(reader: &mut Reader) -> Result<Self, Error> {
        let header = TxnHeader::read(reader)?;
        let unknown = Cause::Unknown { expected: "the type of a transaction", got: header.op };
        let unknown = reader.error(Place::new(TxnHeader::NAME, "op"), unknown);
        let txn = Txn::decode(OpCode::from_number(header.op).ok_or(unknown)?, reader)?;
        let digest = if reader.left() == 0 { None } else { Some(TxnDigest::read(reader)?) };
        reader.finish(Self::NAME)?;
        Ok(Self { header, txn, digest })
    }

    fn write(&self, writer: &mut Writer) {
        self.header.write(writer);
        self.txn.write(writer);
        self.digest.iter().for_each(|digest| digest.write(writer));
    }
}
