//! An entry of the log: header, transaction, and since 3.6 a digest of the tree after it.
//!
//! Not here: the checksum and the length around it, and the mark at its end (`storage`).

use crate::record::record;
use crate::{Cause, Error, OpCode, Place, Reader, Record, Txn, Writer};

record! {
    /// Whose transaction, and which.
    #[derive(Copy)]
    pub struct TxnHeader {
        /// The session that asked.
        pub client_id: i64,
        /// Its number for the request.
        pub cxid: i32,
        /// The place in the history.
        pub zxid: i64,
        /// When the leader made it, in milliseconds since 1970.
        pub time: i64,
        /// The type of the transaction, as a number: an [`OpCode`].
        pub op: i32,
    }
}

record! {
    /// What the tree looks like afterwards, in a number.
    #[derive(Copy)]
    pub struct TxnDigest {
        /// How it was computed; Apache's is 2.
        pub version: i32,
        /// The number.
        pub tree_digest: i64,
    }
}

/// An entry of the log. The type in the header is that of the transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TxnEntry {
    /// Whose transaction, and which.
    pub header: TxnHeader,
    /// What was decided.
    pub txn: Txn,
    /// Absent in old logs and where digests are switched off.
    pub digest: Option<TxnDigest>,
}

impl Record for TxnEntry {
    const NAME: &'static str = "TxnEntry";
    const BYTES_MIN: usize = <TxnHeader as Record>::BYTES_MIN;

    /// Takes everything to the end: where an entry of the log ends decides its form.
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
