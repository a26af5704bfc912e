//! Client connections: their port, their tasks, and four-letter words.

mod connection;
pub(crate) mod four_letter;
mod handle;
mod listener;
mod migration;
mod placement;
#[cfg(test)]
mod scaling;
mod session_ids;

pub(crate) use connection::End;
pub(crate) use handle::{Handle, OutputTotal};
pub(crate) use listener::{Greetings, Listener};
pub(crate) use migration::{Slots, Task};
pub(crate) use session_ids::SessionIds;
