//! Transactions as stored in the log. They are validated, so applying them cannot fail.
//!
//! On disk a multi nests its parts as bytes in buffers; here they are transactions as well. A multi within a multi,
//! which ZooKeeper does not have, is rejected instead of decoded recursively.

pub(crate) mod entry;
pub(crate) mod node;
pub(crate) mod session;

use alloc::vec::Vec;

use crate::{
    Cause, CheckVersionTxn, CloseSessionTxn, CreateContainerTxn, CreateSessionTxn, CreateTtlTxn, CreateTxn,
    CreateTxnV0, DeleteTxn, Error, ErrorTxn, OpCode, Place, Reader, Record, SetAclTxn, SetDataTxn, Value, Writer,
};

/// A transaction, after its header. Its type is the number of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Txn {
    /// A node was created.
    Create(CreateTxn),
    /// A node was created by create2.
    Create2(CreateTxn),
    /// A container was created.
    CreateContainer(CreateContainerTxn),
    /// A node with a time to live was created.
    CreateTtl(CreateTtlTxn),
    /// A node was deleted.
    Delete(DeleteTxn),
    /// A container or an expired node was deleted by the leader.
    DeleteContainer(DeleteTxn),
    /// Data was replaced.
    SetData(SetDataTxn),
    /// The configuration was replaced.
    Reconfig(SetDataTxn),
    /// An ACL was replaced.
    SetAcl(SetAclTxn),
    /// A version was checked; part of a multi. Apache cannot read it anywhere else.
    Check(CheckVersionTxn),
    /// A session was opened.
    CreateSession(CreateSessionTxn),
    /// A session was closed. None in logs older than 3.6, which leave it to the tree to find the session's nodes.
    CloseSession(Option<CloseSessionTxn>),
    /// A request failed, which takes a position in the history as well.
    Error(ErrorTxn),
    /// Several transactions, applied atomically.
    Multi(MultiTxn),
}

/// Several transactions that are applied together or not at all.
///
/// If any of them is an [`ErrorTxn`], the multi failed and nothing is applied, not even the transactions before the
/// error, which Apache's log contains as if they had succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MultiTxn {
    /// In the order of the operations. Contains no multi and no session transactions.
    pub txns: Vec<Txn>,
}

impl Txn {
    /// Reads the body that belongs to `op`, after the header has been read.
    ///
    /// Two old forms are recognised by where the input ends, as in Apache: a create without the parent's version
    /// (3.3), which is then -1, and a closeSession without paths (3.5). So the reader must end with the transaction or
    /// with the digest after it. Since everything that is not a list of paths is accepted as such a closeSession,
    /// damage can only be detected in what follows; [`crate::TxnEntry`] checks that.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is decided in `decode_part`")]
    pub fn decode(op: OpCode, reader: &mut Reader) -> Result<Self, Error> {
        let start = reader.clone();
        let read = match op {
            OpCode::Multi => Record::read(reader).map(Self::Multi),
            OpCode::CreateSession => Record::read(reader).map(Self::CreateSession),
            OpCode::CloseSession => Record::read(reader).map(Some).map(Self::CloseSession),
            _ => Self::decode_part(op, reader),
        };
        match (op, read) {
            (OpCode::Create, Err(error)) if error.is_short() => {
                *reader = start;
                // If it is not the old form either, the first error is the relevant one.
                CreateTxnV0::read(reader).map(|old| Self::Create(old.into())).map_err(|_| error)
            }
            // A digest may follow that looks like a count and an invalid length; Apache fails on that one.
            (OpCode::CloseSession, Err(_)) => {
                *reader = start;
                Ok(Self::CloseSession(None))
            }
            (_, read) => read,
        }
    }

    /// The transactions that are allowed in a multi.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "reads are no transactions, and a new operation is none at first"
    )]
    fn decode_part(op: OpCode, reader: &mut Reader) -> Result<Self, Error> {
        Ok(match op {
            OpCode::Create => Self::Create(Record::read(reader)?),
            OpCode::Create2 => Self::Create2(Record::read(reader)?),
            OpCode::CreateContainer => Self::CreateContainer(Record::read(reader)?),
            OpCode::CreateTtl => Self::CreateTtl(Record::read(reader)?),
            OpCode::Delete => Self::Delete(Record::read(reader)?),
            OpCode::DeleteContainer => Self::DeleteContainer(Record::read(reader)?),
            OpCode::SetData => Self::SetData(Record::read(reader)?),
            OpCode::Reconfig => Self::Reconfig(Record::read(reader)?),
            OpCode::SetAcl => Self::SetAcl(Record::read(reader)?),
            OpCode::Check => Self::Check(Record::read(reader)?),
            OpCode::Error => Self::Error(Record::read(reader)?),
            got => {
                let cause = Cause::Misplaced { expected: "the type of a transaction", got };
                return Err(reader.error(Place::new("Txn", "type"), cause));
            }
        })
    }

    /// Appends the body, without a header.
    pub fn write(&self, writer: &mut Writer) {
        match self {
            Self::Create(body) | Self::Create2(body) => body.write(writer),
            Self::CreateContainer(body) => body.write(writer),
            Self::CreateTtl(body) => body.write(writer),
            Self::Delete(body) | Self::DeleteContainer(body) => body.write(writer),
            Self::SetData(body) | Self::Reconfig(body) => body.write(writer),
            Self::SetAcl(body) => body.write(writer),
            Self::Check(body) => body.write(writer),
            Self::CreateSession(body) => body.write(writer),
            Self::CloseSession(body) => body.iter().for_each(|body| body.write(writer)),
            Self::Error(body) => body.write(writer),
            Self::Multi(body) => body.write(writer),
        }
    }

    /// The type of the transaction.
    #[must_use]
    pub fn op(&self) -> OpCode {
        match self {
            Self::Create(_) => OpCode::Create,
            Self::Create2(_) => OpCode::Create2,
            Self::CreateContainer(_) => OpCode::CreateContainer,
            Self::CreateTtl(_) => OpCode::CreateTtl,
            Self::Delete(_) => OpCode::Delete,
            Self::DeleteContainer(_) => OpCode::DeleteContainer,
            Self::SetData(_) => OpCode::SetData,
            Self::Reconfig(_) => OpCode::Reconfig,
            Self::SetAcl(_) => OpCode::SetAcl,
            Self::Check(_) => OpCode::Check,
            Self::CreateSession(_) => OpCode::CreateSession,
            Self::CloseSession(_) => OpCode::CloseSession,
            Self::Error(_) => OpCode::Error,
            Self::Multi(_) => OpCode::Multi,
        }
    }
}

impl Record for MultiTxn {
    const NAME: &'static str = "MultiTxn";
    const BYTES_MIN: usize = 4;

    fn read(reader: &mut Reader) -> Result<Self, Error> {
        let parts = reader.vector::<NestedTxn>(Place::new(Self::NAME, "txns"))?;
        Ok(Self { txns: parts.into_iter().map(|NestedTxn(txn)| txn).collect() })
    }

    fn write(&self, writer: &mut Writer) {
        writer.length(self.txns.len());
        for txn in &self.txns {
            txn.op().put(writer);
            writer.frame(|w| txn.write(w));
        }
    }
}

/// A part of a multi, which Apache calls `Txn`: a type, and a buffer with the transaction in it.
struct NestedTxn(Txn);

impl Value for NestedTxn {
    const BYTES_MIN: usize = 8;

    fn take(reader: &mut Reader, _: Place) -> Result<Self, Error> {
        let op = OpCode::take(reader, Place::new("Txn", "type"))?;
        let place = Place::new("Txn", "data");
        let start = reader.position() + 4;
        let null = reader.error(place, Cause::Null);
        let mut inner = Reader::new(reader.buffer(place)?.ok_or(null)?);
        let inside = |error: Error| Error { at: error.at + start, cause: within_buffer(error.cause), ..error };
        let txn = Txn::decode_part(op, &mut inner).map_err(inside)?;
        inner.finish("Txn").map_err(inside)?;
        Ok(Self(txn))
    }

    fn put(&self, writer: &mut Writer) {
        self.0.op().put(writer);
        writer.frame(|w| self.0.write(w));
    }
}

/// Converts the error for a complete buffer that is too short for its record: more input would not help.
fn within_buffer(cause: Cause) -> Cause {
    match cause {
        Cause::Short { needed, left } => Cause::BufferTooShort { needed, left },
        other @ (Cause::Length { .. }
        | Cause::Null
        | Cause::Unknown { .. }
        | Cause::Misplaced { .. }
        | Cause::BufferTooShort { .. }
        | Cause::NotHexadecimal
        | Cause::Trailing { .. }) => other,
    }
}
