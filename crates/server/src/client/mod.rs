//! Clients: their port, their connections, and what they may be told.

mod connection;
mod credentials;
mod habit;
mod handle;
mod listener;
#[cfg(test)]
mod scaling;
mod visit;
pub(crate) mod words;

pub(crate) use connection::End;
pub(crate) use credentials::SessionIds;
pub(crate) use handle::{Handle, OutputTotal};
pub(crate) use listener::{Greetings, Listener};
pub(crate) use visit::{Seats, Task};
