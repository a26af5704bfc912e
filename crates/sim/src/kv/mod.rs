//! A small key-value machine with sessions, over which the agreement is tested.
//!
//! Its operations are chosen to expose bugs: a unique value shows a loss, an increment shows a duplicate, a conditional
//! write shows a wrong order, and a failed create shows that failures have their place in the history too.
//!
//! Every request becomes exactly one transaction. A leader's view is the committed state plus what it has prepared.

mod machine;
mod overlay;
mod records;

pub use machine::Kv;
pub(crate) use machine::{MEMBERS, encode_members};
pub(crate) use records::pad;
pub use records::{Answer, Change, Key, KvRequest, OpId, Refusal, Txn, Value};
