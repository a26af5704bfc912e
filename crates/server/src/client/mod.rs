//! Client connections: their port, their tasks, and four-letter words.

mod connection;
pub(crate) mod four_letter;
mod habit;
mod handle;
mod listener;
#[cfg(test)]
mod scaling;
mod session_ids;
mod visit;

pub(crate) use connection::End;
pub(crate) use handle::{Handle, OutputTotal};
pub(crate) use listener::{Greetings, Listener};
pub(crate) use session_ids::SessionIds;
pub(crate) use visit::{Seats, Task};
