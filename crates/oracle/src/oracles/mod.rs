//! The built-in oracles, each in a file of its own, and their combination.

mod combined;
mod consensus;
mod custom;
mod history;
mod latency;
mod preference;
mod recovery;
mod request;
mod rotating;
mod worst_case;

pub use combined::{Combined, InvalidPart, Part};
pub use consensus::{Consensus, consensus_time};
pub use custom::Custom;
pub use history::History;
pub use latency::{Latency, hop, hop_time};
pub use preference::Preference;
pub use recovery::Recovery;
pub use request::Request;
pub use rotating::Rotating;
pub use worst_case::WorstCase;
