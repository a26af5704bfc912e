//! The measurements of a server and the reports it receives, combined in `Measurements`.

mod bandwidths;
mod disk_times;
mod measurements;
mod peer_measurements;
mod report;
mod request_rate;
mod round_trips;

pub use bandwidths::Bandwidths;
pub use disk_times::DiskTimes;
pub(crate) use measurements::ReceivedReport;
pub use measurements::{InvalidProbe, MeasureConfig, Measurements};
pub use report::{Gossip, Report};
pub use request_rate::RequestRate;
pub(crate) use request_rate::decayed;
pub use round_trips::RoundTrips;
