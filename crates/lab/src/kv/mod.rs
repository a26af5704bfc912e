//! A small key-value machine with sessions: what the agreement is tested over.
//!
//! In: requests to prepare, transactions to apply. Out: transactions, answers.
//! Why these operations: a unique value shows a loss, an increment shows a duplicate, a conditional write shows a wrong
//! order, a failed create shows that failures have their place in the history too.
//! Holds: every request gets exactly one transaction; a leader's view is the committed state plus what it prepared.

mod machine;
mod overlay;
mod records;

pub use machine::Kv;
pub(crate) use records::pad;
pub use records::{Answer, Ask, Change, Key, OpId, Refusal, Txn, Value};
