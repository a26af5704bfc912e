//! multi and multiRead: sequences of operations, each after a small header, up to a header with the `done` flag.
//!
//! A multi contains only writes and a multiRead only reads; a mix is rejected by the decoder, as in Apache.

use alloc::vec::Vec;

use crate::{
    Cause, CheckVersionRequest, Create2Response, CreateRequest, CreateResponse, CreateTtlRequest, DeleteRequest, Error,
    ErrorCode, GetChildrenRequest, GetChildrenResponse, GetDataRequest, GetDataResponse, OpCode, Place, Reader, Record,
    SetDataRequest, SetDataResponse, Value, Writer,
};

/// A multi request. It may be empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MultiRequest {
    /// The operations, which are executed atomically.
    pub ops: Vec<MultiOp>,
}

/// One operation of a multi.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MultiOp {
    /// Creates a node.
    Create(CreateRequest),
    /// Creates a node and returns its stat as well.
    Create2(CreateRequest),
    /// Creates a container.
    CreateContainer(CreateRequest),
    /// Creates a node with a time to live.
    CreateTtl(CreateTtlRequest),
    /// Deletes a node.
    Delete(DeleteRequest),
    /// Replaces the data of a node.
    SetData(SetDataRequest),
    /// Checks a version.
    Check(CheckVersionRequest),
}

/// The reply to a multi: a result for each operation on success, otherwise an error for each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MultiResponse {
    /// In the order of the operations.
    pub results: Vec<MultiResult>,
}

/// The result of one operation of a multi.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MultiResult {
    /// The path, for create.
    Create(CreateResponse),
    /// Path and stat, for all other create operations.
    Create2(Create2Response),
    /// The node was deleted.
    Delete,
    /// The new stat.
    SetData(SetDataResponse),
    /// The version matches.
    Check,
    /// The multi failed. The code is `Ok` before the failed operation, its own code for that one, and
    /// `RuntimeInconsistency` after it.
    Error(ErrorCode),
}

/// A multiRead request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MultiReadRequest {
    /// The operations.
    pub ops: Vec<MultiReadOp>,
}

/// One operation of a multiRead. Apache sets no watches here, whatever the flag says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MultiReadOp {
    /// Returns the names of the children.
    GetChildren(GetChildrenRequest),
    /// Returns the data of a node.
    GetData(GetDataRequest),
}

/// The reply to a multiRead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MultiReadResponse {
    /// In the order of the operations.
    pub results: Vec<MultiReadResult>,
}

/// The result of one operation of a multiRead. Each succeeds or fails on its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MultiReadResult {
    /// The names of the children.
    GetChildren(GetChildrenResponse),
    /// Data and stat.
    GetData(GetDataResponse),
    /// This operation failed.
    Error(ErrorCode),
}

/// An element of one of the four sequences.
trait MultiElement: Sized {
    /// The allowed elements, for errors.
    const EXPECTED: &'static str;

    /// Reads the body after a header with this operation, or returns None if the operation is not allowed here.
    fn read(op: OpCode, reader: &mut Reader) -> Result<Option<Self>, Error>;

    /// The operation and the error code in the header.
    fn header(&self) -> (OpCode, i32);

    /// Appends the body, without the header.
    fn write(&self, writer: &mut Writer);
}

/// Implements `Record` for a sequence, given its name and its field.
macro_rules! sequence {
    ($name:ident, $field:ident) => {
        impl Record for $name {
            const NAME: &'static str = stringify!($name);
            const BYTES_MIN: usize = HEADER_BYTES;

            fn read(reader: &mut Reader) -> Result<Self, Error> {
                read_parts(reader, Self::NAME).map(|$field| Self { $field })
            }

            fn write(&self, writer: &mut Writer) {
                write_parts(&self.$field, writer);
            }
        }
    };
}

sequence!(MultiRequest, ops);
sequence!(MultiResponse, results);
sequence!(MultiReadRequest, ops);
sequence!(MultiReadResponse, results);

fn read_parts<T: MultiElement>(reader: &mut Reader, record: &'static str) -> Result<Vec<T>, Error> {
    let mut parts = Vec::new();
    loop {
        let number = reader.int(Place::new(record, "type"))?;
        let done = reader.bool(Place::new(record, "done"))?;
        let _ = reader.int(Place::new(record, "err"))?;
        // Apache ignores everything else in the last header.
        if done {
            return Ok(parts);
        }
        let place = Place::new(record, "type");
        let unknown = Cause::Unknown { expected: T::EXPECTED, got: number };
        let op = OpCode::from_number(number).ok_or_else(|| reader.error(place, unknown))?;
        let misplaced = reader.error(place, Cause::Misplaced { expected: T::EXPECTED, got: op });
        parts.push(T::read(op, reader)?.ok_or(misplaced)?);
    }
}

impl MultiReadResponse {
    /// Writes the same bytes as [`Record::write`] from results that are not in memory: each is its operation and a function
    /// that writes the body of its response. Stops early when the writer is over its limit.
    pub fn write_all<B: FnOnce(&mut Writer)>(
        results: impl IntoIterator<Item = Result<(OpCode, B), ErrorCode>>,
        writer: &mut Writer,
    ) {
        for result in results {
            match result {
                Ok((op, body)) => {
                    write_header(writer, op.number(), false, ErrorCode::Ok.number());
                    body(writer);
                }
                Err(error) => write_part(&MultiReadResult::Error(error), writer),
            }
            if writer.is_over_limit() {
                return;
            }
        }
        write_header(writer, -1, true, -1);
    }
}

fn write_parts<T: MultiElement>(parts: &[T], writer: &mut Writer) {
    parts.iter().for_each(|part| write_part(part, writer));
    write_header(writer, -1, true, -1);
}

fn write_part<T: MultiElement>(part: &T, writer: &mut Writer) {
    let (op, err) = part.header();
    write_header(writer, op.number(), false, err);
    part.write(writer);
}

fn write_header(writer: &mut Writer, op: i32, done: bool, err: i32) {
    writer.int(op);
    writer.bool(done);
    writer.int(err);
}

#[expect(clippy::wildcard_enum_match_arm, reason = "few operations have a place here, and a new one has none at first")]
impl MultiElement for MultiOp {
    const EXPECTED: &'static str = "a write in a multi";

    fn read(op: OpCode, reader: &mut Reader) -> Result<Option<Self>, Error> {
        Ok(Some(match op {
            OpCode::Create => Self::Create(Record::read(reader)?),
            OpCode::Create2 => Self::Create2(Record::read(reader)?),
            OpCode::CreateContainer => Self::CreateContainer(Record::read(reader)?),
            OpCode::CreateTtl => Self::CreateTtl(Record::read(reader)?),
            OpCode::Delete => Self::Delete(Record::read(reader)?),
            OpCode::SetData => Self::SetData(Record::read(reader)?),
            OpCode::Check => Self::Check(Record::read(reader)?),
            _ => return Ok(None),
        }))
    }

    fn header(&self) -> (OpCode, i32) {
        (self.op(), -1)
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Self::Create(body) | Self::Create2(body) | Self::CreateContainer(body) => body.write(writer),
            Self::CreateTtl(body) => body.write(writer),
            Self::Delete(body) => body.write(writer),
            Self::SetData(body) => body.write(writer),
            Self::Check(body) => body.write(writer),
        }
    }
}

impl MultiOp {
    /// The operation of this element.
    #[must_use]
    pub fn op(&self) -> OpCode {
        match self {
            Self::Create(_) => OpCode::Create,
            Self::Create2(_) => OpCode::Create2,
            Self::CreateContainer(_) => OpCode::CreateContainer,
            Self::CreateTtl(_) => OpCode::CreateTtl,
            Self::Delete(_) => OpCode::Delete,
            Self::SetData(_) => OpCode::SetData,
            Self::Check(_) => OpCode::Check,
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "few operations have a place here, and a new one has none at first")]
impl MultiElement for MultiResult {
    const EXPECTED: &'static str = "the result of a write in a multi";

    fn read(op: OpCode, reader: &mut Reader) -> Result<Option<Self>, Error> {
        Ok(Some(match op {
            OpCode::Create => Self::Create(Record::read(reader)?),
            OpCode::Create2 => Self::Create2(Record::read(reader)?),
            OpCode::Delete => Self::Delete,
            OpCode::SetData => Self::SetData(Record::read(reader)?),
            OpCode::Check => Self::Check,
            OpCode::Error => Self::Error(Value::take(reader, ERROR_PLACE)?),
            _ => return Ok(None),
        }))
    }

    fn header(&self) -> (OpCode, i32) {
        match self {
            Self::Create(_) => (OpCode::Create, 0),
            Self::Create2(_) => (OpCode::Create2, 0),
            Self::Delete => (OpCode::Delete, 0),
            Self::SetData(_) => (OpCode::SetData, 0),
            Self::Check => (OpCode::Check, 0),
            Self::Error(code) => (OpCode::Error, code.number()),
        }
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Self::Create(body) => body.write(writer),
            Self::Create2(body) => body.write(writer),
            Self::Delete | Self::Check => (),
            Self::SetData(body) => body.write(writer),
            Self::Error(code) => code.put(writer),
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "few operations have a place here, and a new one has none at first")]
impl MultiElement for MultiReadOp {
    const EXPECTED: &'static str = "a read in a multiRead";

    fn read(op: OpCode, reader: &mut Reader) -> Result<Option<Self>, Error> {
        Ok(Some(match op {
            OpCode::GetChildren => Self::GetChildren(Record::read(reader)?),
            OpCode::GetData => Self::GetData(Record::read(reader)?),
            _ => return Ok(None),
        }))
    }

    fn header(&self) -> (OpCode, i32) {
        match self {
            Self::GetChildren(_) => (OpCode::GetChildren, -1),
            Self::GetData(_) => (OpCode::GetData, -1),
        }
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Self::GetChildren(body) => body.write(writer),
            Self::GetData(body) => body.write(writer),
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "few operations have a place here, and a new one has none at first")]
impl MultiElement for MultiReadResult {
    const EXPECTED: &'static str = "the result of a read in a multiRead";

    fn read(op: OpCode, reader: &mut Reader) -> Result<Option<Self>, Error> {
        Ok(Some(match op {
            OpCode::GetChildren => Self::GetChildren(Record::read(reader)?),
            OpCode::GetData => Self::GetData(Record::read(reader)?),
            OpCode::Error => Self::Error(Value::take(reader, ERROR_PLACE)?),
            _ => return Ok(None),
        }))
    }

    fn header(&self) -> (OpCode, i32) {
        match self {
            Self::GetChildren(_) => (OpCode::GetChildren, 0),
            Self::GetData(_) => (OpCode::GetData, 0),
            Self::Error(code) => (OpCode::Error, code.number()),
        }
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Self::GetChildren(body) => body.write(writer),
            Self::GetData(body) => body.write(writer),
            Self::Error(code) => code.put(writer),
        }
    }
}

/// The size of a header: operation, `done` flag, error code.
const HEADER_BYTES: usize = 9;

/// A failure carries its code twice: in the header, which nobody reads, and in the body.
const ERROR_PLACE: Place = Place::new("ErrorResponse", "err");
