//! The disk from outside: what is written comes back, what is damaged is refused, and Apache reads and writes the same.

mod apache;
mod beginning;
mod damage;
mod directory;
mod operations;
mod reading;
mod scratch;
mod streaming;
mod threads;
mod tools;
