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

pub(crate) use connection::{End, connect_response};
pub(crate) use credentials::{SessionIds, password};
pub(crate) use handle::{Handle, Latency, State, Waiting};
pub(crate) use listener::Listener;
pub(crate) use visit::{Seats, Task};
