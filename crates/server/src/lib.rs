//! Runs one Pole server: it drives `node` over real sockets, disks and clocks.
//!
//! A [`config::Config`] goes in, a running [`Server`] comes out. The node decides; this crate carries out its effects
//! and reports events back to it.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use pole_server::{Exit, Server, config::Config};
//!
//! let (config, warnings) = Config::load(Path::new("zoo.cfg"))?;
//! warnings.iter().for_each(|warning| eprintln!("{warning}"));
//! let server = Server::start(&config)?;
//! println!("clients connect to {:?}", server.client_address());
//! let stopper = server.stopper(); // stops it from another thread, for example on a signal
//! # drop(stopper);
//! match server.wait() {
//!     Exit::Stopped => {}
//!     Exit::Halted(reason) => eprintln!("halted: {reason}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A client request takes this path: `client::connection` reads it and either answers it or posts it through `mailbox`
//! to the node's thread (`driver`), which sends messages to other servers (`peer`), writes to disk (`storage`) and
//! replies through `client::handle`.
//!
//! Protocol decisions are in `node`, wire and disk formats in `jute`, the meaning of requests in `tree`.

mod activity;
mod admin;
mod audit;
mod background;
mod client;
mod clock;
pub mod config;
pub mod dashboard;
mod descriptors;
mod driver;
mod emulation;
mod inspection;
mod kerberos;
mod limits;
mod listing;
pub mod log;
mod mailbox;
mod metrics;
pub mod peer;
mod question;
mod server;
mod settings;
mod shared;
mod status;
mod tally;
mod threads;
mod timeline;
pub mod tls;
mod topology;
mod write_placement;

pub use driver::Exit;
pub use inspection::{Content, check_environment, inspect_backup, inspect_data, install_backup};
pub use kerberos::{KEYTAB_VARIABLE, KerberosError};
pub use server::{Server, StartError, Stopper};
use settings::Settings;
