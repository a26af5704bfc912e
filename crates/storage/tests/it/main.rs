//! Tests of the public interface: what is written is found again, damage is refused, and Apache reads and writes the
//! same files.

mod apache;
mod backup;
mod beginning;
mod damage;
mod directory;
mod inspect;
mod operations;
mod reading;
mod scratch;
mod streaming;
mod threads;
mod tools;
