//! The driver of `node`: client, quorum and election ports, the disk thread, admin HTTP and metrics.
//!
//! In: a configuration. Out: a server that runs. The node decides; here is what carries it out.
//! A request's way: `client::connection` reads it, answers it or posts it (`mailbox`) to the node's thread (`driver`),
//! which sends to other servers (`peer`), writes (`storage`) and answers (`client::handle`).
//! Not here: decisions of the protocol (`node`), formats (`jute`), what a request means (`tree`).

mod admin;
mod awake;
mod background;
mod client;
mod clock;
pub mod config;
mod descriptors;
mod driver;
mod emulation;
mod heard;
mod limits;
pub mod log;
mod mailbox;
mod metrics;
pub mod peer;
mod server;
mod settings;
mod shared;
mod status;
mod tally;
mod threads;
pub mod tls;

pub use driver::Exit;
pub use server::{Server, StartError, Stopper};
use settings::Settings;
